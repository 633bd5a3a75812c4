"""What is said of a program that is killed, or cannot be measured: the log, standard error output."""

import contextlib
import os
import pty
import re
import select
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

DIE = GUEST + '/static/die'
# Ways to end of which Linux' log has a line.
EXCEPTIONS = ['null', 'null-call', 'text', 'ignored-segv', 'blocked-segv', 'illegal', 'privileged', 'division', 'breakpoint']


def said(lines, name):
    """The lines about a program, without what differs from run to run."""
    found = [line[line.index(name + '['):] for line in lines if re.search(rf'{name}\[\d+\][: ]', line)]
    return [re.sub(r' likely on CPU.*', '', re.sub(r'\[\d+\]', '[PID]', re.sub(r'sp[: ][0-9a-f]+', 'sp', line), count=1))
            for line in found]


def lwk_log():
    return hanare('log').out.decode().splitlines()


@contextlib.contextmanager
def linux_says_all():
    """Each line of Linux' is there, however many came before."""
    path = '/proc/sys/kernel/printk_ratelimit'
    with open(path) as file:
        limit = file.read()
    with open(path, 'w') as file:
        file.write('0')
    try:
        yield
    finally:
        with open(path, 'w') as file:
            file.write(limit)


def lines_of(name, *argv, status=None, out=None):
    """The LWK's log lines about a program. A program has ten of them in five seconds. If earlier runs have used those
    up (the next line says so), the program runs again."""
    begun, end = len(lwk_log()), time.monotonic() + 60
    while True:
        before = len(lwk_log())
        result = run(*argv)
        expect(status in (None, result.status) and out in (None, result.out), result)
        log = lwk_log()
        lines = said(log[before:], name)
        if lines or time.monotonic() > end:
            missed = before > begun or any('lines about programs suppressed' in line for line in log[begun:])
            expect(missed or len(lines) == 1, f'{lines} of {argv}')
            return lines
        time.sleep(0.5)


def lines_as_on_linux(kind, how):
    def body():
        path = f'{GUEST}/{kind}/die'
        with linux_says_all():
            began = len(kernel_log_since(0))
            command([path, how])
            linux = said(kernel_log_since(began).splitlines(), 'die')
        lwk = lines_of('die', path, how)
        if kind == 'dynamic':  # at another address each time
            def place(line):
                return re.sub(r'ip[: ]([0-9a-f]+)', 'ip', re.sub(r'\[[0-9a-f]+\+', '[BASE+', line))
            linux, lwk = [[place(line) for line in side] for side in (linux, lwk)]
        if how == 'null-call':  # Linux 6.1 names the mapping behind the address
            linux = [line.split(' in ')[0] for line in linux]
        expect(len(lwk) == 1, lwk)
        expect(linux == lwk, f'Linux {linux}, LWK {lwk}')
    return body


def exceptions():
    for how in EXCEPTIONS:
        check(f'line-{how}', lines_as_on_linux('static', how))
    check('line-null-dynamic', lines_as_on_linux('dynamic', 'null'))

    def library():
        """The log names a library, which the LWK does not know by itself."""
        line, = lines_of('python3', '/usr/bin/python3', '-c', 'import ctypes; ctypes.string_at(16)', status=-11)
        expect(re.search(r': segfault at 10 ip [0-9a-f]{16} sp error 4 in libc[^ ]*\[[0-9a-f]+\+[0-9a-f]+\]$', line), line)
    check('line-names-the-library', library)

    def caught():
        before = len(lwk_log())
        expect(run(GUEST + '/static/fault-signals').status == 0, 'status')
        expect(run(DIE, 'abort').status == -6, 'status')
        expect(run(DIE, 'raise', '11').status == -11, 'status')
        lines = [line for line in lwk_log()[before:] if 'segfault' in line or 'traps:' in line]
        expect(not lines, lines)
    check('no-line-of-what-is-caught-or-sent', caught)

    def many():
        programs = 60 if TIER == 'long' else 30
        # Ten lines in five seconds: on a busy machine the programs may need longer than that many
        # lines take; and the first seconds may have none left.
        for _ in range(5):
            before, begun = len(lwk_log()), time.monotonic()
            run('/bin/bash', '-c', f'for i in {{1..{programs}}}; do ( ulimit -c 0; {DIE} null ) & done; wait')
            lines = [line for line in lwk_log()[before:] if 'segfault' in line]
            if 1 <= len(lines) < programs or len(lines) == programs and time.monotonic() - begun < programs / 3:
                break
        expect(1 <= len(lines) < programs, f'{len(lines)} lines of {programs}')
    check('lines-are-limited', many)


def out_of_memory():
    wanted = re.compile(rb"^hanare: die was killed: there is no memory left on the instance 'default' "
                        rb"\(\d+ of \d+ MiB used\); see: hanare log default\n", re.M)

    def pipe():
        result = run(DIE, 'memory', says=b'hanare log default\n')
        expect(result.status == -9 and wanted.search(result.err), result)
        lines = [line for line in lwk_log() if 'out of memory' in line]
        expect(lines, log_tail())
    check('out-of-memory-on-a-pipe', pipe)

    def file():
        """Behind what was written before, and what the shell writes next behind it."""
        path = WORK + '/said'

        def text():
            with open(path, 'rb') as said:
                return said.read()
        with open(path, 'wb') as to:
            to.write(b'before\n')
            to.flush()
            process = subprocess.run(['hanare', 'run', '--', DIE, 'memory'], stdout=subprocess.DEVNULL, stderr=to, timeout=TIMEOUT)
            # It may come after the end of the program.
            until(lambda: text().endswith(b'hanare log default\n'), text, 60)
            os.write(to.fileno(), b'after\n')
        text = text()
        expect(process.returncode == -9, process)
        expect(text.startswith(b'before\nhanare: ') and text.endswith(b'hanare log default\nafter\n'), text)
    check('out-of-memory-in-a-file', file)

    def terminal():
        master, slave = pty.openpty()
        process = subprocess.Popen(['hanare', 'run', '--', DIE, 'memory'], stdout=subprocess.DEVNULL, stderr=slave)
        expect(process.wait(TIMEOUT) == -9, process.returncode)
        text = b''
        while b'\n' not in text and select.select([master], [], [], 60)[0]:
            text += os.read(master, 4096).replace(b'\r', b'')
        expect(wanted.search(text), text)
        os.close(master)
        os.close(slave)
    check('out-of-memory-on-a-terminal', terminal)

    def sockets():
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(['hanare', 'run', '--', DIE, 'memory'], stdout=subprocess.DEVNULL, stderr=theirs)
        expect(process.wait(TIMEOUT) == -9, process.returncode)
        ours.settimeout(60)
        text = ours.recv(4096)
        expect(wanted.search(text), text)
    check('out-of-memory-on-a-socket', sockets)

    def full():
        """Its output has no reader: the program is killed all the same."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b'x' * 4096)
        os.set_blocking(writer, True)
        process = subprocess.Popen(['hanare', 'run', '--', DIE, 'memory'], stdout=subprocess.DEVNULL, stderr=writer)
        expect(process.wait(TIMEOUT) == -9, process.returncode)
        os.close(reader)
        os.close(writer)
    check('out-of-memory-on-a-full-pipe', full)

    def closed():
        result = command(['sh', '-c', f'exec hanare run -- {DIE} memory 2>&-'])
        expect(result.status == -9, result)
    check('out-of-memory-without-stderr', closed)


def perf():
    def refused():
        lines = lines_of('perf-event-open', GUEST + '/static/perf-event-open', out=b'own: ENOENT\nchild: ENOENT\n')
        expect(lines and 'perf_event_open' in lines[0], lines or log_tail())
        result = command([GUEST + '/static/perf-event-open'])
        expect(result.out == b'own: 0\nchild: 0\n', f'Linux: {result}')
    check('perf-event-open-of-lwk-threads-is-refused', refused)

    def around():
        """As `perf stat hanare run`: what counts the proxy is told what it counts."""
        result = command([GUEST + '/static/perf-event-open', 'hanare', 'run', '--', GUEST + '/static/hello'])
        expect(b'hello\n' in result.out and b'hanare: perf sees what Linux does' in result.err, result)
        expect(b'perf' not in run(GUEST + '/static/hello').err, 'said without perf')
    check('perf-around-hanare-run-is-told', around)

    missing = None if os.path.exists('/usr/bin/perf') else 'no perf'

    def stat():
        result = run('/usr/bin/perf', 'stat', '-e', 'cpu-clock,page-faults', GUEST + '/static/hello')
        expect(result.status == 0 and result.out == b'hello\n', result)
        expect(result.err.count(b'<not supported>') == 2, result)
    check('perf-stat-says-not-supported', stat, skip=missing)


start('--cpus', '2-3', '--mem', '256M')
exceptions()
out_of_memory()
perf()
finish()
