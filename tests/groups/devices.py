"""Devices that programs map, and that keep memory of programs: on the LWK as on Linux.

The machine has QEMU's devices for that (DEVICES in tests/lib/groups.py); what only Linux makes (a camera, a frame
buffer's driver) is loaded here.
"""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from sysfiles import text_of, write

PROGRAM, PINNED, BY_DEVICE = (GUEST + '/static/' + name for name in ('mapped-devices', 'pinned-memory', 'pinned-by-device'))
PCI = '/sys/bus/pci'
SHARED_MEMORY, TEACHING, DISK = ('0x1af4', '0x1110'), ('0x1234', '0x11e8'), ('0x1b36', '0x0010')
FIRMWARE, FIRMWARE_BYTES = 0xf0000, 65536


def pci(identity):
    """The folder of the device with these numbers of vendor and device."""
    found = [path for path in glob.glob(PCI + '/devices/*')
             if (text_of(path + '/vendor'), text_of(path + '/device')) == identity]
    expect(found, f'the machine has no device {identity}')
    return found[0]


def load(*names):
    """Modules of this kernel. Whether it has them all."""
    return all(command(['modprobe', '-q', name]).status == 0 for name in names)


def node(pattern, *modules):
    """The first node in /dev that comes with these modules, or `?`."""
    before = set(glob.glob(pattern))
    if not load(*modules):
        return '?'
    with contextlib.suppress(Failure):
        until(lambda: set(glob.glob(pattern)) - before, f'a {pattern} of {modules}')
    return min(set(glob.glob(pattern)) - before, default='?')


def case(name, *argv, label=None, skip=None):
    same('mapped-' + (label or name), [PROGRAM, name, *map(str, argv)], files=False, skip=skip)


def pinned(name, *argv, program=PINNED, label=None, skip=None):
    same('pinned-' + (label or 'by-' + name), [program, name, *map(str, argv)], files=False, skip=skip)


def give_to_vfio(path):
    """Binds a device to VFIO's driver; its group, or None."""
    if not load('vfio-pci') or not os.path.exists(path + '/iommu_group'):
        return None
    with contextlib.suppress(OSError):
        write(path + '/driver/unbind', os.path.basename(path))
    write(path + '/driver_override', 'vfio-pci')
    write(PCI + '/drivers_probe', os.path.basename(path))
    return '/dev/vfio/' + os.path.basename(os.path.realpath(path + '/iommu_group'))


class Held:
    """The program with a page of a device mapped, on Linux and on the LWK."""

    def __init__(self, *argv):
        self.sides = [subprocess.Popen([*launch, PROGRAM, 'held', *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                      for launch in ([], ['hanare', 'run', '--'])]
        for side in self.sides:
            expect(side.stdout.readline() == b'there\n', 'it cannot be mapped')

    def touch(self):
        """What an access comes to on both sides."""
        said = []
        for side in self.sides:
            side.stdin.write(b'\n')
            side.stdin.flush()
            said.append(side.stdout.readline().decode().strip())
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self.sides:
            side.stdin.close()
            side.wait(TIMEOUT)
            side.stdout.close()


def taken():
    """A driver that claims a BAR takes it from who has mapped it."""
    with Held(pci(DISK) + '/resource0') as held:
        expect(held.touch() == ['fine', 'fine'], 'before')
        expect(load('nvme'), 'no nvme')
        try:
            said = held.touch()
            expect(said[0].startswith('BUS') and said[1] == said[0], said)
        finally:
            command(['modprobe', '-r', 'nvme'])


def removed(*options):
    """A device that is removed: as on Linux what is mapped stays."""
    def body():
        path = pci(SHARED_MEMORY)
        with Held(path + '/resource2', *options) as held:
            try:
                write(path + '/remove', '1')
                said = held.touch()
                expect(said == ['fine', 'fine'], said)
            finally:
                write(PCI + '/rescan', '1')
        pci(SHARED_MEMORY)
    return body


def unbound():
    """A driver that lets go of its device: what was mapped of it stays, as on Linux."""
    path = pci(TEACHING)
    driver = PCI + '/drivers/uio_pci_generic'
    with contextlib.suppress(FileExistsError):
        write(driver + '/new_id', ' '.join(number[2:] for number in TEACHING))
    with Held(path + '/resource0') as held:
        write(driver + '/unbind', os.path.basename(path))
        said = held.touch()
        expect(said == ['fine', 'fine'], said)
        write(driver + '/bind', os.path.basename(path))


# The teaching device by its driver of the LWK: a factorial, and copies by DMA.
TAUGHT = """
import os, sys
device, other = (os.open(sys.argv[1], os.O_RDWR) for _ in range(2))
config = os.open(sys.argv[2], os.O_RDWR)
os.pwrite(config, b'\\x06', 4)  # memory, bus master
for number in 5, 12, 0:
    print(os.write(device, number.to_bytes(4, 'little')), int.from_bytes(os.read(other, 4), 'little'))
text = bytes(range(256)) * 16
print(os.pwrite(device, text, 0), os.pread(other, 4096, 0) == text, os.pwrite(device, b'four', 4090), os.pread(device, 100, 4088))
print(os.pread(device, 4, 4096), os.pwrite(other, b'four', 5000))
"""
# Copies by DMA, until the driver lets go of the device or there were enough: how many came back
# right, and wrong.
KEEPS = """
import os, sys
device, place, most = os.open(sys.argv[1], os.O_RDWR), int(sys.argv[2]), int(sys.argv[3])
os.pwrite(os.open(sys.argv[4], os.O_RDWR), b'\\x06', 4)  # memory, bus master
right = wrong = why = 0
print('begun', flush=True)
while right + wrong < most:
    text = os.urandom(1000)
    try:
        os.pwrite(device, text, place)
        copy = os.pread(device, 1000, place)
    except OSError as error:
        why = error.errno
        break
    right += copy == text
    wrong += copy != text
print(right, wrong, why, flush=True)
sys.stdin.read()  # a close takes DMA from all
"""


def by_a_driver(path):
    """A device of which a driver of the LWK has its part."""
    uio = PCI + '/drivers/uio_pci_generic'
    expect(load('uio_pci_generic'), 'no uio_pci_generic')
    with contextlib.suppress(OSError):
        write(path + '/driver/unbind', os.path.basename(path))
    write(path + '/driver_override', '\n')
    with contextlib.suppress(FileExistsError):
        write(uio + '/new_id', ' '.join(number[2:] for number in TEACHING))  # which binds it
    if not os.path.exists(path + '/driver'):
        write(uio + '/bind', os.path.basename(path))
    until(lambda: glob.glob('/dev/uio*'), 'a file of the device')
    return glob.glob('/dev/uio*')[0]


def teaches():
    result = command(['hanare', 'run', '--', 'python3', '-c', TAUGHT, given, teaching + '/config'])
    lines = result.out.decode().splitlines()
    expect(lines[:3] == ['4 120', '4 479001600', '4 1'], result)
    expect(lines[3] == "4096 True 4 b'\\xf8\\xf9four\\xfe\\xff'" and lines[4] == "b'' 0", result)


def keeps(place, most):
    """A program that copies, and has begun."""
    running = subprocess.Popen(['hanare', 'run', '--', 'python3', '-c', KEEPS, given, str(place), str(most), teaching + '/config'],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    expect(running.stdout.readline() == b'begun\n', 'it has not begun')
    return running


def two_programs():
    """Each gets its own copies, one after the other."""
    programs = keeps(0, 5), keeps(2000, 5)
    said = [program.stdout.readline().decode().split() for program in programs]
    for program in programs:
        program.communicate(timeout=TIMEOUT)
    expect(said == [['5', '0', '0']] * 2, said)


def refused_by_the_module():
    """A device that another instance's driver has, and one without a driver."""
    said = hanare('boot', 'other', '--cpus', '1', '--mem', '64M', '--device', 'edu=' + given, status=None)
    expect(said.status and b'is given to a driver already' in said.err, said)


def lets_go():
    """Linux' driver lets go of the device while two programs use the LWK's."""
    running = keeps(0, 1000), keeps(2000, 1000)
    time.sleep(1)
    before = len(kernel_log_since(0))
    write(PCI + '/drivers/uio_pci_generic/unbind', os.path.basename(teaching))
    expect('lets go of' in kernel_log_since(before), kernel_log_since(before))
    for program in running:
        said = program.communicate(timeout=TIMEOUT)[0].decode().split()
        expect(int(said[0]) > 0 and said[1] == '0' and said[2] != '0', said)


start(*BOOT)
memory, teaching = pci(SHARED_MEMORY), pci(TEACHING)
for which in pci(SHARED_MEMORY), pci(TEACHING), pci(DISK):
    write(which + '/enable', '1')
case('bar', memory + '/resource2', 4 << 20, label='memory-of-a-device')
case('bar', memory + '/resource2_wc', 4 << 20, label='memory-of-a-device-write-combining')
case('edu', teaching + '/resource0', label='registers')
case('private', memory + '/resource2', label='privately')
case('buffer', memory + '/resource2', label='buffers-of-calls')
case('refused', '/sys/kernel/mm/transparent_hugepage/enabled', '/sys/kernel/debug/sched/verbose',
     '/sys/fs/cgroup/cgroup.procs', '/proc/version', '/sys/kernel/tracing/trace', label='files-without-mappings')
case('memory', FIRMWARE, FIRMWARE_BYTES, label='physical-memory')
case('hpet')
case('packets', label='packet-ring')
case('bpf', label='bpf-array')
case('dumb', node('/dev/dri/card*', 'bochs'), label='dumb-buffer')
case('framebuffer', '/dev/fb0')
case('dumb', node('/dev/dri/card*', 'vgem'), label='dumb-buffer-of-no-device')
case('camera', node('/dev/video*', 'vivid'))
case('sound', node('/dev/snd/pcm*p', 'snd-hda-codec-generic', 'snd-hda-intel'))
for name, path, label in ('udmabuf', '/dev/udmabuf', None), ('heap', '/dev/dma_heap/system', 'dma-heap'):
    case(name, path, label=label, skip=None if os.path.exists(path) else 'this kernel has none')
check('mapping-of-a-removed-device', removed())
check('mapping-of-a-removed-device-of-a-closed-file', removed('close'))
check('mapping-of-an-unbound-device', lambda: expect(load('uio_pci_generic'), 'no uio_pci_generic') or unbound())
check('mapping-that-a-driver-takes', taken)
for argv in ['add', 'va', 'type', 'veth', 'peer', 'name', 'vb'], ['set', 'va', 'up'], ['set', 'vb', 'up']:
    command(['ip', 'link', *argv])
pinned('xdp', 'va', 'vb')
command(['ip', 'link', 'del', 'va'])
older = None if tuple(map(int, os.uname().release.split('.')[:2])) >= (6, 5) else 'before 6.5 io_uring takes no memory of a shared mapping'
pinned('uring', skip=older)
pinned('rings', label='by-rings-of-io_uring', skip=older)
pinned('readonly', '/usr/bin/busybox', label='memory-that-became-read-only', skip=older)
pinned('replaced', '/usr/bin/busybox', label='memory-then-a-file', skip=older)
pinned('together', label='by-two-threads-at-once', skip=older)
pinned('refused', label='memory-that-is-not-there', skip=older)
group = give_to_vfio(teaching)
many = 200 if TIER == 'test' else 10000 if os.uname().release.startswith('6.12') else 2000
for name, label, *counts in (['round-trips', 'by-vfio'], ['kept', 'memory-that-goes-while-a-device-keeps-it'],
                             ['registrations', 'many-times', many]):
    pinned(name, group, os.path.basename(teaching), *counts, program=BY_DEVICE, label=label, skip=None if group else 'no IOMMU')
check('pinned-memory-is-free-again', lambda: lwk_memory_is(None))
hanare('shutdown')
given = by_a_driver(teaching)
for name, argument, said in (('without-pci', 'edu=/dev/null', b'belongs to no PCI device'), ('without-a-file', 'edu=/dev/none', b'No such file'),
                             ('of-another-name', 'none=/dev/null', b'a driver is one of')):
    check('driver-refused-' + name, lambda argument=argument, said=said: expect(
        said in hanare('boot', *BOOT, '--device', argument, status=None).err, argument))
boot(*BOOT, '--device', 'edu=' + given)
check('driver-of-the-teaching-device', teaches)
check('driver-of-two-programs', two_programs)
check('driver-refused-to-another-instance', refused_by_the_module)
check('driver-whose-device-goes', lets_go)
finish()
