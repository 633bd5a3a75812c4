"""Is this kernel supported? Boot, a few programs of every kind, a panic, shutdown."""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from controlgroup import *


def kernel():
    wanted = os.environ.get('HANARE_KERNEL', '')
    expect(os.uname().release.startswith(wanted + '.') and wanted, f'{os.uname().release}, not {wanted}')


start(*BOOT)
check('kernel-version', kernel)
same('busybox-static', ['/usr/bin/busybox', 'uname', '-a'])
# Without times, and without link counts: that of /proc is the number of processes.
same('dynamic-program', ['ls', '-l', '/'], normalise=lambda data: re.sub(rb'^(\S+) +\d+ ', rb'\1 ', re.sub(
    rb'\d+ \w+ +\d+ +[\d:]+ ', b'', data), flags=re.M))
same('shared-files', ['sqlite3', 'db'], stdin=b'pragma journal_mode=wal; create table t (a);'
     b'insert into t values (5); select * from t;')
same('guest-mmap', [GUEST + '/static/mmap'])
same('guest-interrupted-calls', [GUEST + '/static/interrupted-calls'])
for name in 'io-uring', 'process-vm-access', 'pagemap', 'pagemap-scan':
    same('guest-' + name, [f'{GUEST}/static/{name}'], files=False)
same('guest-memory-denies-execution', [GUEST + '/static/memory-denies-execution'], files=False)
same('memory-that-linux-denies-execution', None, files=False, both=lambda launch: [
    GUEST + '/static/memory-denies-execution', 'set', *(launch or ['/usr/bin/env']), GUEST + '/static/memory-denies-execution', 'look'])
same('death-by-signal', [GUEST + '/static/die', 'null'], status=-11)
with only_long('shared-files, guest-mmap, guest-interrupted-calls, guest-io-uring, guest-process-vm-access and guest-pagemap show what depends on this kernel'):
    same('python', ['/usr/bin/python3', '-c', 'import json, mmap; print(json.dumps([1, 2]))'])
    same('guest-signal-masks-and-handlers', [GUEST + '/static/signal-masks-and-handlers'])
    same('guest-fault-signals', [GUEST + '/static/fault-signals'])
    same('guest-fpu-state-is-kept', [GUEST + '/static/fpu-state-is-kept'])
    for name in 'aio', 'sysv-shm', 'memfd':
        same('guest-' + name, [f'{GUEST}/static/{name}'], files=False)
    same('pipe-between-programs', None, both=lambda launch: ['bash', '-c', f'{" ".join(launch)} seq 1 1000 | '
                                            f'{" ".join(launch)} tail -n 3'])


def again():
    """A program's file is not to be written while it runs, and runs again when it does not."""
    path = WORK + '/program'
    shutil.copy(GUEST + '/static/hello', path)
    for _ in range(3):
        result = run(path)
        expect(result.status == 0, result)
    with open(path, 'ab') as file:
        file.write(b'x')
    result = command([path])
    expect(result.status == 0, result)


def cpu_limit():
    """This kernel says what a control group's cpu.max is."""
    control('+memory +cpu')
    with Group(cpu=FIVE) as group, group.computer() as program:
        is_five(program)


def truncation():
    path = WORK + '/truncated'
    with open(path, 'wb') as file:
        file.truncate(32768)
    result = run(GUEST + '/static/shared-file-mapping', path, stdin=b'w 20000 x\nt 4096\nr 20000 1\nq\n')
    expect(result.out == b'mapped\nfine\n0\nBUS code 2\nend\n', result)


def panic():
    hanare('debug', 'panic')
    expect('debug panic' in hanare('log').out.decode(), 'not in the log')
    hanare('shutdown')
    boot()


with only_long('program-file-is-written-between-runs'):
    same('guest-text-file-busy', [GUEST + '/static/text-file-busy'])
check('program-file-is-written-between-runs', again)
check('cpu-max-binds', cpu_limit)
check('shared-mapping-of-a-truncated-file', truncation)
check('memory-free-again', nothing_left)
check('panic-is-logged-and-shut-down', panic)
finish()
