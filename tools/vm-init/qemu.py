"""Which QEMU tools/vm runs, and options of its command line."""

import argparse
import os
import re
import shutil
import subprocess

from initramfs import CACHE, VmError

QEMU = os.environ.get('HANARE_QEMU', 'qemu-system-x86_64')
# From this version on TCG locks a page while it translates code of it ("accel/tcg: Always lock
# pages before translation"). Before, a CPU may translate code while Linux patches it (static keys,
# tracing). CPUs that trapped for ever at patched code were seen so. x2APIC under TCG has come with
# 9.0.
TRANSLATES_LOCKED = (9, 0)
# From this version on NVMe controllers can do without shadow doorbells, which Linux' driver turns
# on where they are offered.
WITHOUT_SHADOWS = (10, 0)


def version_of(qemu):
    """Of a QEMU, as two numbers; `None` where it does not say."""
    said = subprocess.run([qemu, '--version'], capture_output=True, text=True).stdout
    match = re.search(r'version (\d+)\.(\d+)', said)
    return match and (int(match[1]), int(match[2]))


def prepare_qemu(accel, x2apic, nvme, fetch):
    """QEMU's command with what it needs to find its own files, for a machine in x2APIC mode or with NVMe disks. `fetch`: the
    command that fetches one."""
    if 'HANARE_QEMU' in os.environ or accel == 'kvm' and not x2apic and not nvme:
        if not shutil.which(QEMU):
            raise VmError(f'{QEMU} is not installed: run tools/setup')
        return [QEMU]
    if shutil.which(QEMU) and (version_of(QEMU) or (0, 0)) >= (WITHOUT_SHADOWS if nvme else TRANSLATES_LOCKED):
        return [QEMU]
    path = f'{CACHE}/qemu'
    if not os.path.exists(path):
        if subprocess.run([fetch, 'qemu'],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode:
            raise VmError('could not fetch a newer QEMU than the installed one (see above)')
    return [f'{path}/usr/bin/qemu-system-x86_64', '-L', f'{path}/usr/share/seabios',
            '-L', f'{path}/usr/share/qemu']


def mem_bytes(text):
    match = re.fullmatch(r'(\d+)([MG]?)', text, re.I)
    if not match:
        raise argparse.ArgumentTypeError(f'{text!r} is not a size such as 512M or 2G')
    return int(match[1]) * {'': 1 << 20, 'M': 1 << 20, 'G': 1 << 30}[match[2].upper()]


def numa_options(args):
    """CPUs and memory in equal parts on --numa nodes."""
    if args.cpus % args.numa or mem_bytes(args.mem) % (args.numa << 20):
        raise VmError(f'--numa {args.numa} does not divide {args.cpus} CPUs and {args.mem}')
    options, cpus = [], args.cpus // args.numa
    for node in range(args.numa):
        options += ['-object', f'memory-backend-ram,id=node{node},size={mem_bytes(args.mem) // args.numa}',
                    '-numa', f'node,nodeid={node},memdev=node{node},'
                             f'cpus={node * cpus}-{(node + 1) * cpus - 1}']
    return options


def nvme_options(disks):
    """A controller with a disk for each --nvme, whose queues the LWK may have a part of. Nothing is written to a file."""
    options = []
    for number, what in enumerate(disks):
        try:
            contents = f'driver=null-co,read-zeroes=on,size={mem_bytes(what)}'
        except argparse.ArgumentTypeError:
            if not os.path.isfile(what):
                raise VmError(f'--nvme {what}: neither a size such as 256M nor a file') from None
            contents = f'format=raw,file={os.path.realpath(what).replace(",", ",,")}'
        options += ['-drive', f'{contents},snapshot=on,if=none,id=nvme{number}',
                    '-device', f'nvme,drive=nvme{number},serial=nvme{number},dbcs=off,max_ioqpairs=32']
    return options
