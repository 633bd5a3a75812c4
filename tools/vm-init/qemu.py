"""Which QEMU tools/vm runs."""

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


def version_of(qemu):
    """Of a QEMU, as two numbers; `None` where it does not say."""
    said = subprocess.run([qemu, '--version'], capture_output=True, text=True).stdout
    match = re.search(r'version (\d+)\.(\d+)', said)
    return match and (int(match[1]), int(match[2]))


def prepare_qemu(accel, x2apic, fetch):
    """QEMU's command with what it needs to find its own files. `fetch`: the command that fetches one."""
    if 'HANARE_QEMU' in os.environ or accel == 'kvm' and not x2apic:
        if not shutil.which(QEMU):
            raise VmError(f'{QEMU} is not installed: run tools/setup')
        return [QEMU]
    if shutil.which(QEMU) and (version_of(QEMU) or (0, 0)) >= TRANSLATES_LOCKED:
        return [QEMU]
    path = f'{CACHE}/qemu'
    if not os.path.exists(path):
        if subprocess.run([fetch, 'qemu'],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode:
            raise VmError('could not fetch a newer QEMU than the installed one (see above)')
    return [f'{path}/usr/bin/qemu-system-x86_64', '-L', f'{path}/usr/share/seabios',
            '-L', f'{path}/usr/share/qemu']
