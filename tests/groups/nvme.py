"""NVMe: what the LWK's driver serves is as Linux has it, Linux goes on using the disk, and nothing is lost with it.

The machine has some controllers (NVME in tests/lib/groups.py): one with queues for the LWK, one with shadow doorbells,
one with few queues, one that answers a command a second, and one that answers four.
"""

import glob
import mmap
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from sysfiles import text_of, write

PROGRAM = GUEST + '/static/disk'
DRIVER = '/sys/bus/pci/drivers/nvme'
DISKS = 5
PART_SECTORS = 64 << 11
# Pages at the beginning of the part, and at its end.
PAGES = 0, PART_SECTORS // 8 - 1
# What Linux may wait for the LWK, or a call for Linux.
SLOWEST_MS = 1000


def controller(serial):
    """The name of the controller with this serial number."""
    found = [path for path in glob.glob('/sys/class/nvme/nvme*') if text_of(path + '/serial') == serial]
    expect(found, f'the machine has no controller {serial}')
    return os.path.basename(found[0])


def disk_of(name):
    return f'/dev/{name}n1'


def case(name, path, label=None):
    same('disk-' + (label or name), [PROGRAM, name, path], files=False)


def counts(path):
    """How often Linux reads and writes when a program of the LWK does a hundred times, as two numbers."""
    result = run(PROGRAM, 'counts', path, f'/sys/class/block/{os.path.basename(path)}/stat')
    words = result.out.decode().split()
    expect(result.status == 0 and len(words) == 8, result)
    return int(words[2]), int(words[6])


def served(path):
    said = counts(path)
    expect(said == (0, 0), said)


def mounted():
    """Writes to a part that has a file system go to Linux, and so do reads while it has pages."""
    expect(command(['mkfs.ext4', '-q', '-F', part]).status == 0, 'no file system')
    expect(command(['mount', part, WORK + '/mounted']).status == 0, 'not mounted')
    try:
        said = counts(part)
        expect(said[1] >= 100, said)
    finally:
        expect(command(['umount', WORK + '/mounted']).status == 0, 'not unmounted')


def refused(path, said):
    result = hanare('boot', *BOOT, '--nvme', path, status=None)
    expect(result.status and said in result.err, result)


class Running:
    """A program that writes and reads for long."""

    def __init__(self):
        self.process = subprocess.Popen(['hanare', 'run', '--', PROGRAM, 'for-long', disk], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        expect(self.process.stdout.readline() == b'begins\n', 'it has not begun')
        time.sleep(0.5)

    def end(self, may_fail=False):
        """It ends; each read was of what was written, and no call took long."""
        time.sleep(0.5)
        out = self.process.communicate(timeout=TIMEOUT)[0].decode().split()
        done, bad, failed, slowest = map(int, out)
        print('#', done, bad, failed, slowest)
        expect(done > 20 and bad == 0 and (may_fail or failed == 0) and slowest <= 2 * SLOWEST_MS, out)


def clean(before):
    log = kernel_log_since(before)
    bad = [line for line in log.splitlines() if re.search(r'BUG|WARNING|Oops|DMAR|I/O error|timeout', line)]
    expect(not bad, bad)


def reset():
    running, before = Running(), len(kernel_log_since(0))
    for _ in range(3):
        write(f'/sys/class/nvme/{name}/reset_controller', '1')
        time.sleep(0.3)
    running.end()
    clean(before)
    until(lambda: served_again(), 'the LWK has queues again')


def served_again():
    return counts(disk) == (0, 0)


def linux_can_use_it():
    expect(command(['dd', 'if=' + disk, 'of=/dev/null', 'bs=1M', 'count=8', 'iflag=direct']).status == 0, 'Linux reads the disk')


def interleaved():
    """Both kernels write at once, each every second block; then each verifies what the other one wrote."""
    for of_linux, of_lwk in ('even', 'odd'), ('odd', 'even'):
        process = subprocess.Popen([PROGRAM, of_linux, disk], stdout=subprocess.PIPE)
        said = run(PROGRAM, of_lwk, disk).out
        both = process.communicate(timeout=TIMEOUT)[0], said
        expect(both == (b'0 bad\n', b'0 bad\n'), both)
        both = command([PROGRAM, 'verify-' + of_lwk, disk]).out, run(PROGRAM, 'verify-' + of_linux, disk).out
        expect(both == (b'0 bad\n', b'0 bad\n'), both)


def answers(prefix, changes, path):
    """What accesses are of a disk that was opened before these changes: a line before the first one and after each."""
    process = subprocess.Popen([*prefix, PROGRAM, 'asked', path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        lines = []
        for change in ([], *changes):
            expect(not change or command(change).status == 0, change)
            for page in PAGES:
                process.stdin.write(b'%d\n' % page)
                process.stdin.flush()
                lines.append(process.stdout.readline())
        return lines
    finally:
        process.communicate(timeout=TIMEOUT)


def changes_count(changes, path):
    """An open disk that becomes another one is so for the LWK, too."""
    said = [answers(prefix, changes, path) for prefix in ([], ['hanare', 'run', '--'])]
    expect(said[0] == said[1] and len(set(said[0])) > 1, said)


def shrinks():
    """A part gets shorter beside a write up to its end, of many commands on a slow disk: none goes behind its new end."""
    name = controller('slow')
    path, end = disk_of(name), 2 * PART_SECTORS * 512  # of the part, on the disk
    hanare('shutdown')
    boot(*BOOT, '--nvme', '/dev/' + name)
    command(['addpart', path, '1', str(PART_SECTORS), str(PART_SECTORS)])
    expect(command(['resizepart', path, '1', str(PART_SECTORS)]).status == 0, 'not resized')
    until(lambda: os.path.exists(path + 'p1'), 'a part')
    whole = os.open(path, os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, 4096) as page:
        process = subprocess.Popen(['hanare', 'run', '--', PROGRAM, 'to-the-end', path + 'p1'], stdout=subprocess.PIPE)
        expect(process.stdout.readline() == b'begins\n', 'it has not begun')
        time.sleep(0.6)
        expect(command(['resizepart', path, '1', str(PART_SECTORS // 2)]).status == 0, 'not resized')
        time.sleep(0.5)  # the command that was under way
        page[:] = b'm' * 4096
        expect(os.pwritev(whole, [page], end - 4096) == 4096, 'not marked')
        said = process.communicate(timeout=TIMEOUT)[0]
        expect(int(said) < 3 << 20, said)
        expect(os.preadv(whole, [page], end - 4096) == 4096 and page[:] == b'm' * 4096, 'a command came later')
    os.close(whole)


def fair():
    """Readers who wait for the disk let a thread compute on their CPU."""
    said = run(PROGRAM, 'beside-readers', disk).out
    print('#', said)
    expect(int(said) <= SLOWEST_MS, said)


def killed():
    for _ in range(5):
        running = Running()
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
    until(lambda: b'for-long' not in hanare('ps').out, 'it is gone')
    # Linux serves calls until a queue that took half a second on a busy host is made anew.
    until(served_again, 'the LWK serves accesses')
    linux_can_use_it()


def shut_down():
    """In the middle of its accesses."""
    running, before = Running(), len(kernel_log_since(0))
    hanare('shutdown', '--force')
    running.process.wait()
    linux_can_use_it()
    clean(before)


def module_is_kept():
    running = Running()
    result = command(['rmmod', 'hanare'])
    expect(result.status and b'in use' in result.err, result)
    running.end()


def lets_go():
    running, before = Running(), len(kernel_log_since(0))
    write(DRIVER + '/unbind', address)
    expect('the LWK uses it no more' in kernel_log_since(before), kernel_log_since(before))
    running.end(may_fail=True)
    write(DRIVER + '/bind', address)
    until(lambda: len(glob.glob('/dev/nvme?n1')) == DISKS, 'the disk is there again')
    clean(before)


def removed():
    """The controller goes, as by a button of its slot, and comes again."""
    running, before = Running(), len(kernel_log_since(0))
    write(f'/sys/bus/pci/devices/{address}/remove', '1')
    running.end(may_fail=True)
    write('/sys/bus/pci/rescan', '1')
    until(lambda: len(glob.glob('/dev/nvme?n1')) == DISKS, 'the disk is there again')
    clean(before)


def panicked():
    """The LWK panics in the middle of its accesses: its queues go before its memory does."""
    running, before = Running(), len(kernel_log_since(0))
    hanare('debug', 'panic', status=None)
    running.process.kill()
    running.process.wait()
    hanare('shutdown', '--force')
    linux_can_use_it()
    clean(before)


def load(multipath):
    command(['modprobe', '-r', 'nvme'])
    command(['modprobe', '-r', 'nvme_core'])
    command(['modprobe', 'nvme_core', 'multipath=' + multipath])
    command(['modprobe', 'nvme'])
    until(lambda: len(glob.glob('/dev/nvme?n1')) == DISKS, 'all disks')


def of_several_ways():
    load('Y')
    try:
        refused('/dev/' + controller('queues'), b'one of several ways to its disks')
    finally:
        load('N')


start(*BOOT)
hanare('shutdown')
load('N')
os.makedirs(WORK + '/mounted', exist_ok=True)
with only_long('a reason to refuse as the others: nvme-refused-few-queues'):
    check('nvme-refused-multipath', of_several_ways)
name = controller('queues')
disk, address = disk_of(name), os.path.basename(os.path.realpath(f'/sys/class/nvme/{name}/device'))
for label, path, said in (('a-file-of-another-device', '/dev/null', b'belongs to no PCI device'),
                          ('a-namespace', disk, b"none of an NVMe controller's"),
                          ('shadow-doorbells', '/dev/' + controller('shadows'), b'has shadow doorbells (OACS bit 8)'),
                          ('few-queues', '/dev/' + controller('few'), b'too few for 2 CPUs')):
    check('nvme-refused-' + label, lambda path=path, said=said: refused(path, said))
check('nvme-of-linux-after-that', linux_can_use_it)
boot(*BOOT, '--nvme', '/dev/' + name)
check('nvme-served', lambda: served(disk))
for which in 'lengths', 'vectors', 'edges', 'cached', 'threads', 'gone':
    case(which, disk)
command(['addpart', disk, '1', str(PART_SECTORS), str(PART_SECTORS)])
part = disk + 'p1'
until(lambda: os.path.exists(part), 'a part')
check('nvme-part-served', lambda: served(part))
with only_long('host tests of the turns, and of the numbers that are kept for others'):
    check('nvme-fair-to-who-computes', fair)
for which in 'lengths', 'edges':
    case(which, part, label=which + '-of-a-part')
check('nvme-mounted', mounted)
with only_long('Linux goes on using the disk: nvme-mounted, nvme-reset'):
    check('nvme-interleaved', interleaved)
check('nvme-made-read-only', lambda: changes_count([['blockdev', '--setro', disk], ['blockdev', '--setrw', disk]], disk))
check('nvme-part-resized', lambda: changes_count([['resizepart', disk, '1', str(sectors)] for sectors in (PART_SECTORS // 2, PART_SECTORS)], part))
# Without an LWK, too: CPU 3 offline, a reset, and then each read of Linux' takes 30 s.
lost = 'this Linux gives a queue to a CPU that is offline when it resets a controller'
check('nvme-reset', reset, skip=lost if tuple(map(int, os.uname().release.split('.')[:2])) >= (7, 0) else None)
check('nvme-killed', killed)
check('nvme-module-is-kept', module_is_kept)
check('nvme-shutdown', shut_down)
boot(*BOOT, '--nvme', '/dev/' + name)
check('nvme-let-go', lets_go)
hanare('shutdown')
name = controller('queues')
disk = disk_of(name)
boot(*BOOT, '--nvme', '/dev/' + name)
with only_long('the end of Linux\' driver: nvme-let-go'):
    check('nvme-removed', removed)
hanare('shutdown')
name = controller('queues')
disk = disk_of(name)
boot(*BOOT, '--nvme', '/dev/' + name)
check('nvme-panic', panicked)
boot(*BOOT, '--nvme', '/dev/' + controller('late'))
case('late', disk_of(controller('late')))
with only_long('what a write does beside a change: nvme-part-resized'):
    check('nvme-part-shrinks-beside-a-write', shrinks)
finish()
