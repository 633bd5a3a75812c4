#!/usr/bin/python3
"""Machine checks on a CPU of the LWK, by QEMU's monitor: corrected, used by a program, fatal.

    tests/vm/machinecheck.py      on the host, TCG; prints verdicts

The machine says that it is Intel's, for QEMU's banks are: software recovery (MCG_SER_P), no SUCCOR.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, f'{ROOT}/tests/lib')
from monitor import SECONDS, Monitor  # noqa: E402

PROGRAM = f'{ROOT}/build/tests/guest/static/poisoned-page'
CPU = 2  # the only one of the LWK

# SDM volume 3, 17.3.2.2 and 17.9.3.
VALID, UNCORRECTED, ENABLED, MISC, ADDRESS = 1 << 63, 1 << 61, 1 << 60, 1 << 59, 1 << 58
CORRUPT, SIGNALED, REQUIRED, LOAD = 1 << 57, 1 << 56, 1 << 55, 0x134
USED = VALID | UNCORRECTED | ENABLED | MISC | ADDRESS | SIGNALED | REQUIRED | LOAD
CORRECTED = VALID | ENABLED | MISC | ADDRESS | 0x90
HERE = 0b111        # restart valid, error address valid, in progress
PHYSICAL = 2 << 6 | 12


class Machine(Monitor):
    def check(self, bank, status, address):
        self.ask(f'mce {CPU} {bank} {status:#x} {HERE:#x} {address:#x} {PHYSICAL:#x}')


class Shell:
    """A shell in the machine."""

    def __init__(self, path):
        command = [f'{ROOT}/tools/vm', '--timeout', str(6 * SECONDS), '--qemu=-monitor', f'--qemu=unix:{path},server,nowait',
                   '--qemu=-cpu', '--qemu=max,-monitor,vendor=GenuineIntel', '--', 'sh']
        self.vm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr,
                                   env=dict(os.environ, HANARE_ACCEL='tcg'))

    def begin(self, line):
        self.vm.stdin.write(f'{line}\necho "=== $?"\n'.encode())
        self.vm.stdin.flush()

    def line(self):
        line = self.vm.stdout.readline().decode(errors='replace')
        if not line:
            raise EOFError('the machine has ended')
        return line.rstrip('\n')

    def rest(self):
        """What else the command says, and its status."""
        lines = []
        while not (end := re.fullmatch(r'=== (\d+)', line := self.line())):
            lines.append(line)
        return '\n'.join(lines), int(end[1])

    def run(self, line):
        self.begin(line)
        return self.rest()


def expect(good, what):
    if not good:
        raise AssertionError(what)


def corrected(shell, monitor):
    """Counted, logged, nothing else."""
    monitor.check(3, CORRECTED, 0x1000)
    text, status = shell.run('hanare status --ping default >/dev/null && hanare log | grep -i "corrected error"')
    expect(status == 0 and re.search(r'a corrected error, bank 3 .*; 1 in all', text), text)


def strike(shell, monitor, program):
    shell.begin(f'hanare run -- {PROGRAM} {program} 2>&1')
    found = re.fullmatch(r'at (0x[0-9a-f]+)', line := shell.line())
    expect(found, line)
    frame = monitor.physical(int(found[1], 16))
    monitor.wait_for_user_mode()
    monitor.check(1, USED, frame + 8)
    return frame, *shell.rest()


def handled(kind):
    def body(shell, monitor):
        frame, text, status = strike(shell, monitor, f'handle {kind}')
        wanted = ['signal 7 code 4 lsb 12 address right', 'others wrong: 0', 'again: code 4', 'write(ends[1], (void *)page, 16): -1 EFAULT',
                  'readv(ends[0], &here, 1): -1 EFAULT',
                  'syscall(SYS_futex, page, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0): -1 EFAULT', 'child ended by 7',
                  'after mprotect: code 4', 'new page: 0']
        missing = [words for words in wanted if words not in text]
        expect(status == 0 and not missing, f'status {status}, without {missing}:\n{text}')
        log = shell.run(f'hanare log | grep -c "the page {frame:#x} is bad"')[0]
        expect(log == '1', f'log: {log}')
    return body


def ends(shell, monitor):
    """Without a handler it is the end of the program, and of nothing else."""
    _, text, status = strike(shell, monitor, 'end')
    expect(status == 128 + 7, f'status {status}: {text}')
    expect(shell.run('hanare run -- /bin/echo lives') == ('lives', 0), 'the LWK does not go on')


def fatal(shell, monitor):
    """The LWK says why it ends; Linux goes on and gets everything back, but for what is bad."""
    shell.begin(f'hanare run -- {PROGRAM} end')
    shell.line()
    monitor.wait_for_user_mode()
    monitor.check(1, USED | CORRUPT, 0x1000)
    shell.rest()
    text = shell.run('hanare log')[0]
    expect(re.search(r"LWK panic: .*\n?.*machine check on cpu0 in user mode at 0x[0-9a-f]+: the processor's state is corrupt \(bank 1 ", text),
           text[-1500:])
    text, status = shell.run('hanare shutdown --force && cat /sys/devices/system/cpu/online')
    expect(status == 0 and text.endswith('0-3'), text)


def kept_back(shell, _):
    """Linux does not use the three pages that were found bad."""
    text = shell.run('grep HardwareCorrupted /proc/meminfo')[0]
    expect(re.search(r': +12 kB', text), text)


def main():
    folder = tempfile.mkdtemp(prefix='hanare-mce.')
    shell, good = Shell(f'{folder}/monitor'), True
    try:
        said = shell.run('hanare boot --cpus 2 --mem 128M')
        if said[1]:
            sys.exit(f'machinecheck.py: no boot: {said[0]}')
        monitor = Machine(f'{folder}/monitor', CPU)
        for name, body in {'corrected-is-logged': corrected,
                           'handler-is-told-of-a-bad-small-page': handled('small'),
                           'handler-is-told-of-a-bad-large-page': handled('large'),
                           'unhandled-ends-the-program': ends, 'fatal-panics': fatal, 'linux-keeps-bad-pages-back': kept_back}.items():
            try:
                body(shell, monitor)
                print(f'ok {name}', flush=True)
            except (AssertionError, EOFError, OSError) as error:
                print(f'FAIL {name}: {error}', flush=True)
                good = False
    finally:
        shell.vm.terminate()
        shell.vm.wait()
        shutil.rmtree(folder)
    sys.exit(not good)


main()
