"""Small C programs that print what they see of Linux' semantics, static and dynamic, compared.

    guests.py threads|waits|processes      one part of them
"""

import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from repeats import hundred_times

NOBODY = ['/usr/bin/setpriv', '--reuid=65534', '--regid=65534', '--groups=65534,12,hanare']
# Programs compared, by the part of the group that runs them: parts take about as long.
COMPARED = {
    # and memory
    'threads': [
        'mmap', 'mremap-and-brk', 'bad-pointers', 'fpu-state-is-kept', 'signal-frame-fpu-state',
        'blocked-process-signal', 'fork-parts-of-large-pages', 'buffers-of-calls', 'descriptor-numbers', 'far-addresses',
        'threads-on-several-cpus', 'text-file-busy', 'library-pages', 'private-file-mapping',
        'pi-mutexes', 'rseq', 'calls-beside-blocked-threads', 'control-beside-blocked-read',
        'full-descriptor-table', 'proc-self',
        'signal-delivery', 'concurrent-memory-calls', 'refused-mappings', 'utility-threads', 'utility-memory', 'utility-area', 'utility-again', 'utility-shared',
        'utility-descriptors', 'thread-ids', 'attributes-of-new-threads', 'ended-threads', 'madvise-vdso', 'overflowing-arguments', 'program-addresses',
    ],
    # signals, times, futexes
    'waits': [
        'fault-signals', 'signals-into-boxed-calls', 'signal-masks-and-handlers', 'interrupted-calls', 'sigwait-takes-blocked-signals', 'ignored-signals',
        'hardware-watchpoints', 'process-directed-signals', 'process-signals-given-back', 'utility-signals', 'utility-rung', 'queued-signals-of-a-user',
        'signal-dispositions', 'clocks-agree', 'clock-settime', 'waits-while-clock-is-set', 'cpu-clock-monotonic',
        'cpu-timers-and-limits', 'cpu-clock-timers', 'timer-overrun', 'time-namespace', 'numa-policy',
        'calls-beside-blocked-servers', 'process-states', 'futex-operations', 'futex-owner-outside', 'futex-waitv', 'futex-table', 'robust-mutexes', 'robust-futex-clone-vm',
    ],
    'processes': [
        'execve', 'inherited-attributes', 'clone-flags', 'clone-vm', 'execve-with-threads', 'waiting-for-children',
        'vfork-shares-memory', 'vfork-beside-threads', 'vfork-killed-in-execve', 'vfork-then-execve', 'file-table',
        'children-rusage', 'first-calls', 'seccomp', 'confinement', 'seccomp-forged-request', 'seccomp-allowlist',
        'seccomp-listener', 'seccomp-listener-flags', 'execve-credentials', 'execve-process-attributes', 'damaged-programs', 'namespaces',
        'ptrace', 'ptrace-signals', 'ptrace-pending', 'ptrace-singleblock', 'ptrace-seccomp', 'ptrace-vfork-done', 'ptrace-threads', 'selectors',
        'tracee-killed-in-fork', 'children-of-a-frozen-group',
    ],
}
# Static only: they wait for clocks and states for most of their time, or take much, or make calls
# by their numbers, and use of libc what `clocks-agree`, `futex-operations` and
# `sigwait-takes-blocked-signals`, which wait for the same, use dynamic, too.
WAITING = {'cpu-clock-monotonic', 'cpu-clock-timers', 'cpu-timers-and-limits', 'futex-table', 'futex-waitv', 'process-states', 'queued-signals-of-a-user',
           'seccomp-listener', 'seccomp-listener-flags', 'time-namespace', 'timer-overrun', 'waits-while-clock-is-set', 'utility-again', 'utility-area', 'utility-memory',
           'utility-shared', 'utility-rung', 'overflowing-arguments', 'program-addresses', 'children-of-a-frozen-group', 'damaged-programs'}
# Programs of `held` that do all there that they do elsewhere.
HELD = {'concurrent-memory-calls'}
# What Linux gives, where that is not 0.
STATUS = {'execve': 33, 'signals-into-boxed-calls': 7}
DEATHS = {'abort': -6, 'null': -11, 'null-call': -11, 'illegal': -4, 'privileged': -11,
          'breakpoint': -5, 'division': -8, 'overflow': -11, 'text': -11, 'blocked-segv': -11,
          'ignored-segv': -11, 'atexit': -6, 'exit 0': 0, 'exit 1': 1, 'exit 255': 255,
          'exit 256': 0, '_exit 77': 77, 'raise 9': -9, 'raise 1': -1, 'raise 15': -15,
          'raise 10': -10, 'raise 34': -34, 'raise 17': 0, 'raise 13': -13, 'raise 14': -14}


# Programs whose dynamic form is the quick one of the two.
DYNAMIC_FIRST = {'text-file-busy'}


def by_form(name, body):
    """`body(label, path)` for the static and the dynamic form of a program. `make test` leaves the dynamic form out:
    only its loader differs, and conformance runs a hundred dynamic programs."""
    first, *rest = sorted(guests(name), key=lambda form: form[0].endswith('-static') == (name in DYNAMIC_FIRST))
    body(*first)
    with only_long(f'{first[0]} shows the same promise'):
        for form in rest:
            body(*form)


def compared(names):
    for name in names:
        if name in HELD:
            with only_long(f'{name}-held has the same races, and meets them'):
                for label, path in guests(name):
                    same(label, [path])
        elif name in WAITING:
            same(f'{name}-static', [f'{GUEST}/static/{name}'], status=STATUS.get(name, 0))
        else:
            by_form(name, lambda label, path: same(label, [path], status=STATUS.get(name, 0)))


def many_vforks():
    """On the LWK only: what it says is arithmetic of how many there are."""
    def body():
        count = 10000 if TIER == 'long' else 1200
        result = run(GUEST + '/static/many-vforks', str(count), GUEST + '/static/hello')
        hellos = b'hello\n' * (count // 50)  # each 50th child executes that
        said = b'written by threads %d, by children %d, signals handled %d, wrong ends 0\n' % (count, 3 * count, count // 50)
        expect(result.status == 0 and result.out == hellos + said, result)
    check('many-vforks', body)


def arguments():
    for label, path in guests('initial-stack'):
        same(label, [path, 'one', '', 'three'])
        same(label + '-relative', None, both=lambda launch, path=path:
             ['sh', '-c', f'cd {os.path.dirname(path)}; {" ".join(launch)} ./initial-stack'])
    path = GUEST + '/static/initial-stack'
    same('arguments-many', [path, *(f'argument {n}' for n in range(20000))])
    same('arguments-long', [path, *('x' * 131071 for n in range(8))])
    same('environment-large', [path], env={f'LARGE_{n}': 'y' * 1000 for n in range(500)})

    def too_long():
        try:
            result = run(path, 'x' * 131072)
        except OSError as error:
            return expect(error.errno == 7, error)
        expect(result.status, f'no error: {result}')
    check('arguments-too-long', too_long)


def deaths():
    for how, expected in DEATHS.items():
        same('end-' + how.replace(' ', '-'), [GUEST + '/static/die', *how.split()], status=expected)
    same('end-abort-dynamic', [GUEST + '/dynamic/die', 'abort'], status=-6)
    same('end-null-dynamic', [GUEST + '/dynamic/die', 'null'], status=-11)


def ready(how, launch):
    process = subprocess.Popen([*launch, GUEST + '/static/die', how], stdout=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    line = process.stdout.readline()
    expect(line.endswith(b'ready\n'), f'said {line!r}')
    return process


def killed():
    """Signals from Linux: to a program that sleeps and to one that computes."""
    def kill(how, number):
        process = ready(how, ['hanare', 'run', '--'])
        time.sleep(0.2)  # by then it sleeps, as a rule; a signal that comes before is right, too
        os.kill(process.pid, number)
        try:
            expect(process.wait(TIMEOUT) == -number, f'status {process.returncode}')
        finally:
            process.kill()

    for how in 'pause', 'spin':
        check(f'kill-{how}-SIGTERM', lambda: kill(how, signal.SIGTERM))
        check(f'kill-{how}-SIGKILL', lambda: kill(how, signal.SIGKILL))
        with only_long(f'kill-{how}-SIGTERM has another number'):
            for number in signal.SIGINT, signal.SIGHUP, signal.SIGQUIT:
                check(f'kill-{how}-{number.name}', lambda: kill(how, number))

        def stopped():
            process = ready(how, ['hanare', 'run', '--'])
            try:
                os.kill(process.pid, signal.SIGSTOP)
                pid, state = os.waitpid(process.pid, os.WUNTRACED)
                expect(os.WIFSTOPPED(state), f'state {state:x}')
                os.kill(process.pid, signal.SIGCONT)
                os.kill(process.pid, signal.SIGTERM)
                expect(process.wait(TIMEOUT) == -15, f'status {process.returncode}')
            finally:
                process.kill()
        check(f'stop-continue-{how}', stopped)

        def deadline():
            result = command(['timeout', '1', 'hanare', 'run', '--', GUEST + '/static/die', how])
            expect(result.status == 124, result)
        check(f'timeout-{how}', deadline)


def process_directed():
    """A signal from Linux that the first thread blocks is for one in a call of Linux'."""
    # Looks at the threads of a process until three times in a row all but one sleep: one that is
    # about to may be shown asleep.
    looks = r'''for ($rows = 0; $rows < 3; select undef, undef, undef, 0.02) {
        $awake = 0;
        for (glob "/proc/$ARGV[0]/task/*/stat") { open F, $_ or next; <F> =~ /.*\) S/ or $awake++ }
        $rows = $awake == 1 ? $rows + 1 : 0;
    }'''

    def body(how):
        answers = []
        for launch in [], ['hanare', 'run', '--']:
            process = subprocess.Popen([*launch, GUEST + '/static/process-directed-signals', how], stdout=subprocess.PIPE)
            try:
                expect(process.stdout.readline() == b'ready\n', 'not ready')
                looked = command([*launch, 'perl', '-e', looks, str(process.pid)])
                expect(looked.status == 0, f'not all wait but the one that computes: {looked}')
                process.send_signal(signal.SIGINT)
                answers.append((process.communicate(timeout=TIMEOUT)[0], process.returncode))
            finally:
                process.kill()
                process.wait(TIMEOUT)
        expect(answers[0] == answers[1], answers)
    check('process-directed-signal-from-linux-read', lambda: body('read'))
    with only_long('process-directed-signal-from-linux-read and process-directed-signals-static show the same promise'):
        check('process-directed-signal-from-linux-wait', lambda: body('wait'))


def stopped_program():
    """A program that computes (in one thread, in several) computes no more while it is stopped."""
    def progress(path):
        with open(path, 'rb') as file:
            return file.read(8)

    def moves(path):
        before = progress(path)
        # A program whose CPU stands still has not stopped: between two answers of a CPU its thread
        # has executed.
        for _ in range(3):
            all_answer()
            time.sleep(0.05)
        return progress(path) != before

    def goes_on(path, before):
        until(lambda: progress(path) != before, 'it goes on')

    def body(threads):
        path = f'{WORK}/progress-{threads}'
        process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/computing-threads', path, str(threads)],
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   process_group=0)  # SIGTSTP does nothing in an orphaned group
        try:
            expect(process.stdout.readline() == b'ready\n', 'not ready')
            for stop in signal.SIGSTOP, signal.SIGTSTP, signal.SIGSTOP:
                os.kill(process.pid, stop)
                pid, state = os.waitpid(process.pid, os.WUNTRACED)
                expect(os.WIFSTOPPED(state) and os.WSTOPSIG(state) == stop, f'state {state:x}')
                until(lambda: not moves(path), 'it computes no more')
                before = progress(path)
                expect(not moves(path), 'it goes on although it is stopped')
                os.kill(process.pid, signal.SIGCONT)
                pid, state = os.waitpid(process.pid, os.WCONTINUED)
                expect(os.WIFCONTINUED(state), f'state {state:x}')
                goes_on(path, before)
            os.kill(process.pid, signal.SIGSTOP)
            os.kill(process.pid, signal.SIGKILL)
            expect(process.wait(TIMEOUT) == -9, f'status {process.returncode}')
        finally:
            process.kill()
    check('stop-signal-stops-3-computing', lambda: body(3))
    with only_long('stop-signal-stops-3-computing and frozen-cgroup-stops-a-program show the same promise'):
        check('stop-signal-stops-1-computing', lambda: body(1))

    def frozen():
        """As `docker pause` does it: by its control group, and by moving it into a frozen one."""
        group, path = '/sys/fs/cgroup/tests', f'{WORK}/progress-frozen'
        def write(name, text):
            with open(f'{group}/{name}', 'w') as file:
                file.write(text)
        os.mkdir(group)
        process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/computing-threads', path, '1'],
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            expect(process.stdout.readline() == b'ready\n', 'not ready')
            write('cgroup.procs', str(process.pid))
            goes_on(path, progress(path))
            for how in 'frozen', 'moved into a frozen group':
                write('cgroup.freeze', '1')
                if how != 'frozen':
                    write('cgroup.procs', str(process.pid))
                until(lambda: not moves(path), f'it computes no more, since it is {how}')
                expect(not moves(path), f'it goes on although it is {how}')
                write('cgroup.freeze', '0')
                goes_on(path, progress(path))
                write('../cgroup.procs', str(process.pid))
        finally:
            process.kill()
            process.wait()
            write('cgroup.freeze', '0')
            os.rmdir(group)
    check('frozen-cgroup-stops-a-program', frozen)


def core_dumps():
    """Linux writes a core of the program, which gdb reads; the wait status says so."""
    def dump(program, how, launch):
        folder = tempfile.mkdtemp(dir=WORK)
        process = subprocess.Popen([*launch, program, how], cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        expect(process.stdout.readline() == b'ready\n', 'not ready')
        if how == 'quit':
            process.send_signal(signal.SIGQUIT)
        pid, state = os.waitpid(process.pid, 0)
        process.returncode = 0
        expect(os.WCOREDUMP(state), f'no core: state {state:x}')
        cores = [name for name in os.listdir(folder) if name.startswith('core')]
        expect(len(cores) == 1, f'files {os.listdir(folder)}')
        return os.WTERMSIG(state), f'{folder}/{cores[0]}'

    def gdb(program, core, *commands):
        arguments = [word for line in commands for word in ('-ex', line)]
        return command(['gdb', '-batch', '-nx', *arguments, program, core]).out.decode(errors='replace')

    def body(kind, how):
        seen = {}
        for side, launch in ('linux', []), ('lwk', ['hanare', 'run', '--']):
            number, core = dump(f'{GUEST}/{kind}/core-dump', how, launch)
            text = gdb(f'{GUEST}/{kind}/core-dump', core, 'bt', 'frame function innermost', 'print *thing', 'print heap',
                       'info threads', 'thread apply all bt', 'info registers rip rsp')
            for wanted in 'middle', 'innermost', 'main', 'number = 17', 'seventeen', 'on the heap', 'waiting':
                expect(wanted in text, f'{side}: no {wanted!r} in gdb\'s answer: {text}')
            seen[side] = number, re.findall(r'terminated with signal (\w+)', text), len(re.findall(r'^[* ] +\d+ ', text, re.M))
        expect(seen['linux'] == seen['lwk'], seen)

    check('core-static-segv', lambda: body('static', 'segv'))
    with only_long('core-static-segv and core-of-utility-threads-quit show the same promise'):
        for kind, how in ('dynamic', 'segv'), ('dynamic', 'abort'), ('static', 'quit'):
            check(f'core-{kind}-{how}', lambda: body(kind, how))

    def of_utility_threads(how):
        program = GUEST + '/static/utility-core'
        number, core = dump(program, how, ['hanare', 'run', '--'])
        expect(number == {'segv': signal.SIGSEGV, 'quit': signal.SIGQUIT}[how], f'signal {number}')
        text = gdb(program, core, 'thread apply all -s bt', 'thread apply all -s frame function spins',
                   'thread apply all -s info registers r12 r13 r14 r15 xmm9', 'print $_siginfo._sifields._sigfault.si_addr')
        # One thread has these: the one that computes there. gdb takes what callers had from their
        # frames, so all are of `spins`.
        for register, value in ('r12', 0x50c), ('r13', 0x50d), ('r14', 0x50e), ('r15', 0x50f):
            expect(re.search(rf'^{register} +{value:#x} ', text, re.M), f'{register} is not {value:#x}: {text}')
        expect(re.search(rf'^xmm9 .*v2_int64 = \{{{0x50f:#x}, 0x0\}}', text, re.M), text)
        for wanted in 'in spins', 'in_spins', 'sleeps ()', 'in_sleeps', 'main (':
            expect(wanted in text, f'no {wanted!r} in what gdb says: {text}')
        expect(how == 'quit' or '(void *) 0x8' in text, text)

    check('core-of-utility-threads-quit', lambda: of_utility_threads('quit'))
    with only_long('core-of-utility-threads-quit shows the registers of all threads'):
        check('core-of-utility-threads-segv', lambda: of_utility_threads('segv'))

    def none():
        with tempfile.TemporaryDirectory(dir=WORK) as folder:
            result = command(['sh', '-c', f'ulimit -c 0; cd {folder}; hanare run -- {GUEST}/static/die null; '
                              'echo $?; ls'])
            expect(result.out == b'null: 139\n', result)  # and no file
    check('no-core-at-core-limit-0', none)


def identity():
    def prepare(folder):
        os.chmod(folder, 0o777)
    for label, path in guests('inherited-attributes'):
        same(f'nobody-{label}', [path], prefix=NOBODY, prepare=prepare)
    same('nobody-limits', None, prepare=prepare, both=lambda launch: [
        'sh', '-c', 'ulimit -n 100; ulimit -s 4096; ulimit -c 0; umask 077; cd /usr; exec nice -n 5 '
        f'{" ".join(NOBODY)} {" ".join(launch)} {GUEST}/static/inherited-attributes short'])

    def pid():
        text = 'echo $$; exec hanare run -- /usr/bin/perl -e \'print "$$\n"\''
        result = command(['sh', '-c', text])
        one, other = result.out.split()
        expect(one == other, f'shell {one}, program {other}: {result}')
    check('pid-is-the-proxys', pid)

    def set_user_id():
        path = WORK + '/set-user-id'
        shutil.copy(GUEST + '/static/execve-credentials', path)
        os.chown(path, 0, 0)
        os.chmod(path, 0o6755)
        os.chmod(WORK, 0o755)
        nobody = b'here: users 65534 %d %d %d, groups 65534 %d %d %d, capabilities %s, kept 0\n'
        on_linux = command([*NOBODY, path, 'show'])
        expect(on_linux.out.startswith(b'here: users 65534 0 0 0, groups 65534 0 0 0'), on_linux)
        mine = nobody % (*[65534] * 6, b'0 0 0')
        direct = command([*NOBODY, 'hanare', 'run', '--', path, 'show'])
        expect(direct.out == mine, direct)
        by_exec = command([*NOBODY, 'hanare', 'run', '--', 'sh', '-c', f'{path} show; exec {path} show'])
        expect(by_exec.out == mine * 2, by_exec)
    check('set-user-id-gives-nothing', set_user_id)

    def by_link():
        if not os.path.islink(WORK + '/echo'):
            os.symlink('/usr/bin/busybox', WORK + '/echo')
        result = run(WORK + '/echo', 'by link')
        expect(result.out == b'by link\n', result)
    check('program-by-link', by_link)


def held():
    """Where the LWK asks Linux in the middle of something, it holds the thread: others go on."""
    def held_boot():
        hanare('shutdown', '--all')
        boot(*BOOT, '--option', 'hold_ms=150')
    check('boot-holding', held_boot, lwk=False, prepares=True)
    for name in 'concurrent-memory-calls', 'refused-mappings', 'ended-threads', 'futex-waitv':
        by_form(name, lambda label, path: same(label + '-held', [path, 'held']))


def clocks():
    def agrees():
        """What the LWK's clocks show lies between two looks at Linux' clocks."""
        names = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME
        before = [time.clock_gettime_ns(name) for name in names]
        result = run(GUEST + '/static/clocks-agree', 'raw')
        after = [time.clock_gettime_ns(name) for name in names]
        seen = [int(word) for word in re.search(rb'raw (.*)', result.out)[1].split()[:3]]
        for name, low, value, high in zip(('REALTIME', 'MONOTONIC', 'BOOTTIME'), before, seen, after):
            # 1 ms of slack for clocks that NTP or the VM's own source moves apart.
            expect(low - 1000000 <= value <= high + 1000000,
                   f'{name}: {value - low} ns after the look before, {value - high} after the last')
    check('clocks-agree-with-linux', agrees)

    def settimeofday():
        """Linux' wall clock is set back while the LWK runs."""
        ahead = time.time() - time.monotonic()
        time.clock_settime(time.CLOCK_REALTIME, 1500000000)
        try:
            until(lambda: run('/usr/bin/date', '+%Y').out == b'2017\n', lambda: run('/usr/bin/date', '+%Y'))
        finally:
            time.clock_settime(time.CLOCK_REALTIME, time.monotonic() + ahead)
    check('clock-set-by-linux', settimeofday)


def futexes_beside_linux():
    """Threads of the program wait for, and wake, those of a program that runs on Linux on either side."""
    path, file = GUEST + '/static/futex-table', '/dev/shm/futex-table'
    same('futex-table-beside-linux', None, both=lambda launch: [
        'sh', '-c', f'rm -f {file}; {path} {file} outside & {" ".join(launch)} {path} {file}; status=$?; '
        f'kill $! 2>/dev/null; wait; rm -f {file}; exit $status'])


def supervisor_on_linux():
    """A process on Linux decides about calls of a program that runs on either side (SECCOMP_RET_USER_NOTIF)."""
    path, socket = GUEST + '/static/seccomp-listener', '/run/seccomp-listener'
    same('seccomp-supervisor-on-linux', None, both=lambda launch: [
        'sh', '-c', f'rm -f {socket}; {path} supervise {socket} & {" ".join(launch)} {path} target {socket}; status=$?; '
        f'wait; rm -f {socket}; exit $status'])


def little_memory():
    """There is no place for so many filters on this LWK; Linux has it."""
    def filters():
        result = run(GUEST + '/static/many-seccomp-filters')
        expect(result.status == 0 and result.out == b'some refused 1, other errors 0\n', result)
    check('many-seccomp-filters', filters)

    def fork():
        result = run(GUEST + '/static/fork-without-memory')
        expect(result.status == 0 and result.out == b'refused: ENOMEM\nparent after, child before\n', result)
    check('fork-without-memory', fork)

    def utility_thread():
        result = run(GUEST + '/static/utility-shared', 'fills')
        expect(result.status == -signal.SIGKILL and b'MAP_FAILED: 1' in result.out, result)
        expect('out of memory' in log_tail(20), log_tail())
        expect(healthy(), 'nothing runs any more')
    check('utility-thread-without-memory', utility_thread)


def newborns():
    program = GUEST + '/static/ptrace-newborns'
    same('ptrace-newborns', [program, '40'], timeout=200)
    with only_long('10,000 rounds'):
        for seed in range(4):
            same(f'ptrace-newborns-{seed}', [program, '2500', str(seed)], timeout=1500)


part, = sys.argv[1:]
start(*BOOT)
compared(COMPARED[part])
if part == 'threads':
    hundred_times(['pi-mutexes'], 'pi-mutexes-static shows the same promise')
    little_memory()
    held()
elif part == 'processes':
    newborns()
    many_vforks()
    arguments()
    same('seccomp-forged-request-traced', [GUEST + '/static/seccomp-forged-request', 'traced'])
    supervisor_on_linux()
    deaths()
    killed()
    stopped_program()
    core_dumps()
    identity()
else:
    process_directed()
    futexes_beside_linux()
    clocks()
finish()
