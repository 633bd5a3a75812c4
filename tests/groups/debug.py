"""hanare trace, hanare gdb."""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

TRACED = GUEST + '/static/trace-target'
SERVED = r' <(local|local, asked Linux|delegated|refused) \d+\.\d{6}>'


def in_order(text, *patterns):
    """Each pattern is found behind the one before it."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.M).search(text, at)
        expect(found, f'no {pattern} in {short(text[at:], 1500)}')
        at = found.end()


def trace(*argv, status=0):
    result = command(['hanare', 'trace', *argv])
    expect(not result.late and result.status == status, result)
    return result.err.decode()


def trace_in_whole_lines(*argv, status=0):
    """The trace of a run in which each call is told in one line. A busy machine may tell a long call in two."""
    for _ in range(20):
        text = trace(*argv, status=status)
        if '<unfinished ...>' not in text:
            break
    return text


def trace_calls():
    text = trace_in_whole_lines(TRACED, status=7)
    in_order(text,
             r'^open(at\(AT_FDCWD, |\()"/no-such-folder/file", O_RDWR\|O_CREAT\|O_CLOEXEC, 0640\) = '
             r'-1 ENOENT \(No such file or directory\) <delegated ',
             r'^pipe2?\(\[3, 4\].*\) = 0 <delegated ',
             r'^write\(4, "a\\"\\n\\1", 4\) = 4 <delegated ',
             r'^read\(3, "a\\"\\n\\1", 8\) = 4 <delegated ',
             r'^(new)?fstat(at)?\(3, .*\{st_mode=S_IFIFO\|0600, st_size=0, \.\.\.\}.*\) = 0 <delegated ',
             r'^mmap\(NULL, 8192, PROT_READ\|PROT_WRITE, MAP_PRIVATE\|MAP_ANONYMOUS, -1, 0\) = 0x[0-9a-f]+ <local, asked Linux ', # for its limits
             r'^(clock_)?nanosleep\(.*\{tv_sec=0, tv_nsec=1000000\}, .*\) = 0 <local ',
             r'^userfaultfd\(.*\) = -1 .* <refused ',
             r'^rt_sigaction\(SIGUSR1, \{sa_handler=0x[0-9a-f]+, sa_mask=\[USR1\]?.*\) = 0 <',
             r'^tgkill\(\d+, \d+, SIGUSR1\) = 0 <',
             r'^--- SIGUSR1 \{si_signo=SIGUSR1, si_code=-6, si_pid=\d+, si_uid=0\} ---$',
             r'^rt_sigreturn\(\) = \d+ <local ',
             r'^exit_group\(7\) = \?$',
             r'^\+\+\+ exited with 7 \+\+\+$')
    for line in text.splitlines():
        expect(re.search(SERVED + r'$|^(\+\+\+|---) |= \?$', line), line)


def joined(text):
    """The lines of a trace, with a call that took long, and so has two lines, in one."""
    begun, lines = {}, []
    for line in text.splitlines():
        pid = re.match(r'(\[pid \d+\] )?', line)[0]
        rest = re.fullmatch(r'(?:\[pid \d+\] )?<\.\.\. \w+ resumed>(.*)', line)
        if line.endswith(' <unfinished ...>'):
            begun[pid] = line[:-len(' <unfinished ...>')]
        elif rest and pid in begun:
            lines.append(begun.pop(pid) + rest[1])
        else:
            lines.append(line)
    return '\n'.join(lines + list(begun.values())) + '\n'


def trace_follow():
    text = joined(trace('-f', TRACED, 'all', status=7))
    # The new thread, on another CPU, may be faster than the end of the call that made it.
    expect(re.search(r'(clone3?\(.*\)|<\.\.\. clone3? resumed>.*) = \d+ <local', text), text)
    in_order(text, r'^\[pid \d+\] write\(-5, "thread", 6\) = -1 EBADF',
             r'^\[pid \d+\] write\(-6, "child", 5\) = -1 EBADF', r'^\[pid \d+\] exit_group\(3\)',
             r'^\[pid \d+\] exit_group\(7\)')
    expect(text.count('+++ exited with ') == 2, text[-600:])
    alone = trace(TRACED, 'all', status=7)
    expect('"thread"' not in alone and '"child"' not in alone and '[pid' not in alone, alone)


def trace_execve():
    """Both an execve that succeeds and one that fails are told, with their program."""
    text = trace_in_whole_lines('-f', '-e', 'execve', 'sh', '-c', '/nonexistent; /bin/true; exec /bin/false', status=1)
    calls = re.findall(r'execve\("([^"]*)".* = (0|-1 ENOENT)', text)
    expect(calls == [('/nonexistent', '-1 ENOENT'), ('/bin/true', '0'), ('/bin/false', '0')], text)


def trace_memory():
    """A thread ends in exit(2), which does not return: the trace's ring, 1 MiB, goes all the same."""
    before, _ = debug_memory()
    for _ in range(3):
        text = trace('-f', TRACED, 'all', status=7)
        expect('"thread"' in text, text)
    lwk_memory_is(before)


def trace_ls():
    """The trace of a real program has the same calls on the same files as strace on Linux."""
    def opened(text):
        return [name for name in re.findall(r'^openat\(AT_FDCWD, ("[^"]*")', text, re.M)]
    result = command(['strace', '-e', 'openat', '/bin/ls', '/usr'])
    expect(result.status == 0, result)
    text = trace('-e', 'openat', '/bin/ls', '/usr')
    expect(opened(text) == opened(result.err.decode()), difference(result.err, text.encode()))
    expect('mmap' not in text, text)


def trace_table():
    path = f'{WORK}/trace.table'
    text = trace('-c', '-o', path, TRACED, status=7)
    expect(text == '', text)
    table = open(path).read()
    in_order(table, r'^% time', r' total$')
    fields = next(line.split() for line in table.splitlines() if line.endswith(' userfaultfd'))
    expect(fields[3:] == ['1', '1', '0', '0', '1', 'userfaultfd'], fields)
    # With -e only those calls are counted.
    trace('-c', '-e', 'userfaultfd,pipe2,pipe', '-o', path, TRACED, status=7)
    names = {line.split()[-1] for line in open(path).read().splitlines()[2:]} - {'-' * 16}
    expect('userfaultfd' in names and 'total' in names and names <= {'userfaultfd', 'pipe', 'pipe2', 'total'}, names)


def traced(pid, *options):
    """A tracer of a running process, once the tracer has said something, and the file that it writes."""
    path = f'{WORK}/trace.{pid}.{time.monotonic_ns()}'
    start_tracer = lambda: subprocess.Popen(['hanare', 'trace', *options, '-o', path, '-p', str(pid)],
                                            stderr=subprocess.DEVNULL)
    tracer = start_tracer()
    def says_something():
        nonlocal tracer
        if os.path.exists(path) and os.path.getsize(path):
            return True
        if tracer.poll() is not None:
            tracer = start_tracer()  # the process had not come to the LWK, or an old tracer not gone
        return False
    try:
        until(says_something, 'the tracer says something')
    except Failure:
        tracer.kill()
        raise
    return tracer, path


def trace_pid():
    program = subprocess.Popen(['hanare', 'run', 'sleep', '1000'])
    shell = None
    try:
        until(lambda: re.search(rf'(?m)^ *{program.pid} .* sleep', hanare('ps').out.decode()), lambda: f'it runs: {hanare("ps")}')
        result = command([*NOBODY, 'hanare', 'trace', '-p', str(program.pid)])
        expect(result.status == 125 and b'permission denied' in result.err, result)
        result = hanare('trace', '-p', '1', status=125)
        expect(b'does not run on an LWK' in result.err and b'next' in result.err, result)
        for _ in range(2):  # the second tracer comes while the program sleeps in the same call
            for _ in range(20):  # the tracer before may not be gone yet
                tracer = subprocess.Popen(['hanare', 'trace', '-p', str(program.pid)], stderr=subprocess.PIPE)
                time.sleep(1.5)
                refused = tracer.poll()
                tracer.kill()
                said = tracer.communicate()
                if refused is None or b'traced by somebody else' not in said[1]:
                    break
            expect(refused is None, said)
        shell = subprocess.Popen(['hanare', 'run', 'sh', '-c', 'while sleep 0.2; do :; done'])
        tracer, path = traced(shell.pid, '-f')
        second = hanare('trace', '-p', str(shell.pid), status=125)
        expect(b'traced by somebody else' in second.err, second)
        # The tracer is killed in the middle: the program goes on, and can be traced again.
        tracer.kill()
        tracer.wait()
        expect(shell.poll() is None, 'the traced shell is gone')
        tracer, path = traced(shell.pid)
        # The traced program is killed.
        shell.kill()
        shell.wait(TIMEOUT)
        expect(tracer.wait(TIMEOUT) == 0, f'status {tracer.returncode}')
        seen = open(path).read()
        expect('+++ killed by SIGKILL +++' in seen, short(seen[-500:]))
    finally:
        for process in program, shell:
            if process:
                process.kill()
                process.wait()


def trace_status():
    expect(trace('sh', '-c', 'kill -SEGV $$', status=128 + 11).endswith('+++ killed by SIGSEGV +++\n'), 'no end')
    result = hanare('trace', 'nonexistent-program', status=127)
    expect(b'not found' in result.err, result)
    result = hanare('trace', '-e', 'nonsense', 'ls', status=None)
    expect(result.status == 125 and b'no such system call' in result.err, result)


def trace_many():
    """A program with many calls at once: nothing is lost silently."""
    script = 'for (1 .. 20000) { getppid() }'
    text = trace('perl', '-e', script)
    lost = sum(map(int, re.findall(r'(\d+) events? lost', text)))
    seen = text.count('getppid(')
    expect(seen == 20000 or seen + lost >= 20000, f'{seen} calls seen, {lost} events lost')


DEBUGGED = GUEST + '/dynamic/gdb-target'


def gdb(target, *commands, timeout=TIMEOUT, is_local=TIER != 'long'):
    """What gdb says. Libraries and symbols come by the remote protocol, slowly, or, if it `is_local`, from files."""
    root = ['set sysroot /'] if is_local else []
    arguments = [f'-ex={text}' for text in ('set debuginfod enabled off', 'set remotetimeout 240', *root, f'target remote | hanare gdb {target}', *commands)]
    result = command(['gdb', '-nx', '-batch', *arguments], timeout=timeout)
    expect(not result.late, result)
    return result.out.decode(errors='replace') + result.err.decode(errors='replace')


def gdb_threads():
    """From the first instruction of a program to its end."""
    text = gdb(f'-- {DEBUGGED}', 'break work', 'continue', 'bt', 'info threads', 'print number', 'delete', 'set scheduler-locking step', 'next', 'next',
               'print twice == number * 2', 'print word[0]', 'print/x $rip != 0', 'print fraction', 'continue', 'continue')
    in_order(text, r'Breakpoint 1, work \(number=', r'^#0 .*work \(', r'^\* +\d+ +Thread ', r'^\$1 = \d', r'^\$2 = 1$',
             r"^\$3 = \d+ '", r'^\$4 = 0x1$', r'^\$5 = 1\.5$', r'received signal SIGUSR1', r'exited with code 05')
    expect('counter 6 fraction 2.5' in text, text)


def gdb_loading():
    """A program that is slow to load is not shown before it is there."""
    hanare('shutdown')
    boot(*BOOT, '--option', 'hold_ms=500')
    try:
        text = gdb(f'-- {DEBUGGED}', 'print $rip != 0', 'break main', 'continue', 'bt')
        in_order(text, r'^\$1 = 1$', r'Breakpoint 1, (\S+ in )?main', r'^#0 .*main')
    finally:
        hanare('shutdown', '--force')
        boot(*BOOT)


def gdb_watch():
    """By single steps, which GDB takes if it has to."""
    text = gdb(f'-- {DEBUGGED}', 'break main', 'continue', 'set can-use-hw-watchpoints 0', 'break work', 'continue', 'delete',
               'watch counter', 'continue')
    in_order(text, r'Breakpoint 2, work', r'^Old value = 0$', r'^New value = [1-9]')


def gdb_watch_hardware():
    """Debug registers: a thread made later has them, too; none is left when gdb has gone."""
    text = gdb(f'-- {DEBUGGED}', 'handle SIGUSR1 nostop pass', 'break main', 'continue', 'watch counter', 'continue', 'continue', 'delete',
               'awatch fraction', 'continue', 'watch words[0]', 'watch words[1]', 'rwatch words[2]', 'watch counter', 'continue',
               'delete', 'continue')
    in_order(text, r'hit Hardware watchpoint 2: counter', r'^Old value = 0$', r'^New value = [24]$',
             r'hit Hardware watchpoint 2: counter', r'^New value = 6$', r'hit Hardware access \(read/write\) watchpoint 3: fraction',
             r'exited with code 05', r'Could not insert hardware watchpoint')


def stubs(pid):
    """Processes that serve gdb for a program: they end after gdb, and take its breakpoints back."""
    found = []
    for other in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            with open(f'/proc/{other}/cmdline', 'rb') as file:
                if file.read() == b'hanare\0gdb\0%d\0' % pid:
                    found.append(other)
    return found


def gdb_attach():
    """A process that waits in a system call; another user; gdb killed in the middle; the process killed."""
    program = subprocess.Popen(['hanare', 'run', DEBUGGED, 'wait'], stdout=subprocess.PIPE)
    try:
        expect(program.stdout.readline() == b'waiting\n', 'it does not start')
        result = command([*NOBODY, 'hanare', 'gdb', str(program.pid)])
        expect(result.status == 125 and b'permission denied' in result.err, result)
        text = gdb(program.pid, 'bt', 'print words[1]', 'print counter', 'detach', is_local=False)
        in_order(text, r'^#\d+ .* main ', r'^\$1 = 0x[0-9a-f]+ .*"two"', r'^\$2 = 0$')
        debugger = subprocess.Popen(['gdb', '-nx', '-ex', 'set remotetimeout 240', '-ex', f'target remote | hanare gdb {program.pid}', '-ex', 'break work',
                                     '-ex', 'continue'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        seen = b''
        while b'Continuing' not in seen:
            piece = debugger.stdout.read1(4096)
            expect(piece, seen)
            seen += piece
        second = command(['hanare', 'gdb', str(program.pid)])
        expect(second.status == 125 and b'debugged by somebody else' in second.err, second)
        debugger.kill()
        debugger.wait()
        until(lambda: not stubs(program.pid), f'the end of hanare gdb: {stubs(program.pid)}')
        # Nothing is left of the breakpoint.
        program.send_signal(signal.SIGUSR1)
        expect(program.stdout.read() == b'counter 6 fraction 3.5\n' and program.wait(TIMEOUT) == 5, program.returncode)
    finally:
        program.kill()
        program.wait()


def read_until(process, text):
    """What a process prints, up to `text`."""
    seen = b''
    while text not in seen:
        piece = process.stdout.read1(4096)
        expect(piece, seen)
        seen += piece
    return seen


def gdb_does_not_come():
    """A program that was started for a debugger which cannot come ends."""
    # Not by command(), which ends what is left; that has these pipes, and is waited for.
    result = subprocess.run(['hanare', 'gdb', '--listen', '/nowhere/socket', '--', '/bin/sleep', '600'], capture_output=True, timeout=TIMEOUT)
    expect(result.returncode == 125 and b'cannot listen at /nowhere/socket' in result.stderr, result)


def gdb_killed():
    def had():
        process, = [p for p in json.loads(hanare('ps', '--json').out) if p['pid'] == program.pid]
        return process['user_ns']
    program = subprocess.Popen(['hanare', 'run', GUEST + '/static/die', 'spin'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    debugger = None
    try:
        expect(program.stdout.readline().endswith(b'ready\n'), 'it does not start')
        debugger = subprocess.Popen(['gdb', '-nx', '-batch', '-ex', 'set remotetimeout 240', '-ex', f'target remote | hanare gdb {program.pid}', '-ex', r'echo it goes on\n',
                                     '-ex', 'continue'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        seen = read_until(debugger, b'it goes on')
        before = had()
        until(lambda: had() > before, 'it goes on')
        program.kill()
        program.wait(TIMEOUT)
        text = seen.decode() + debugger.communicate(timeout=TIMEOUT)[0].decode()
        expect('terminated with signal SIGKILL' in text, text)
    finally:
        for process in debugger, program:
            if process:
                process.kill()
                process.wait()


def gdb_listen():
    """Ctrl-C ends hanare gdb, waiting for gdb or serving it; the process goes on."""
    path = WORK + '/gdb.socket'
    for address in path, ':0':
        program = subprocess.Popen(['hanare', 'run', DEBUGGED, 'wait'], stdout=subprocess.PIPE)
        server = debugger = None
        try:
            expect(program.stdout.readline() == b'waiting\n', 'it does not start')
            server = subprocess.Popen(['hanare', 'gdb', '--listen', address, str(program.pid)], stderr=subprocess.PIPE)
            said = server.stderr.readline().decode()
            expect('target remote' in said, said)
            if address == ':0':
                where = re.search(r'target remote (\S*):(\d+)', said)
                debugger = subprocess.Popen(['gdb', '-nx', '-batch', '-ex', 'set remotetimeout 240', '-ex', f'target remote localhost:{where[2]}',
                                             '-ex', 'break work', '-ex', 'continue'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                read_until(debugger, b'Breakpoint 1 at')
                time.sleep(1)
            server.send_signal(signal.SIGINT)
            expect(server.wait(TIMEOUT) == 0, server.returncode)
            expect(not os.path.exists(path), 'the socket is still there')
            program.send_signal(signal.SIGUSR1)
            expect(program.stdout.read() == b'counter 6 fraction 3.5\n' and program.wait(TIMEOUT) == 5, program.returncode)
        finally:
            for process in server, debugger, program:
                if process:
                    process.kill()
                    process.wait()


def trace_and_gdb_of_utility_threads():
    """Threads that execute on Linux come back for an observer that begins to watch: their calls are seen, and a stop is one."""
    program = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/utility-endless'], stdout=subprocess.PIPE)
    try:
        expect(program.stdout.readline() == b'ready\n', 'not ready')
        tracer, path = traced(program.pid, '-f')

        def seen():
            with open(path) as file:
                return file.read()
        until(lambda: 'getpgid(0)' in seen(), lambda: f'calls are seen: {short(seen())}')
        tracer.send_signal(signal.SIGINT)
        tracer.wait(TIMEOUT)
        told = command(['gdb', '--batch', '-ex', 'set remotetimeout 240', '-ex', f'target remote | hanare gdb {program.pid}', '-ex', 'p rounds',
                        '-ex', 'shell sleep 1', '-ex', 'p rounds', '-ex', 'detach', GUEST + '/static/utility-endless'])
        values = re.findall(rb'\$\d+ = (\d+)', told.out)
        expect(len(values) == 2 and values[0] == values[1], told)
    finally:
        program.kill()
        program.wait()


start(*BOOT)
check('trace-shows-arguments-and-the-serving-kernel', trace_calls)
check('trace-follows-threads-and-children', trace_follow)
check('trace-tells-of-execve', trace_execve)
check('trace-of-threads-leaves-no-memory', trace_memory)
check('trace-sees-what-strace-sees', trace_ls)
check('trace-counts-calls', trace_table)
check('trace-of-a-running-process', trace_pid)
check('trace-ends-as-the-program', trace_status)
check('trace-loses-no-call-silently', trace_many)
check('gdb-from-first-instruction-to-end', gdb_threads)
with only_long('gdb-from-first-instruction-to-end steps, and gdb-watches-by-debug-registers watches'):
    check('gdb-watches-by-single-steps', gdb_watch)
check('gdb-watches-by-debug-registers', gdb_watch_hardware)
check('gdb-attaches-to-a-running-process', gdb_attach)
check('trace-and-gdb-of-utility-threads', trace_and_gdb_of_utility_threads)
check('program-ends-if-gdb-cannot-come', gdb_does_not_come)
check('gdb-is-told-of-a-killed-program', gdb_killed)
check('gdb-listen-ends-by-ctrl-c', gdb_listen)
check('memory-free-again', nothing_left)
with only_long('gdb-from-first-instruction-to-end shows it of a program that is loaded fast'):
    check('gdb-waits-until-the-program-is-loaded', gdb_loading)
finish()
