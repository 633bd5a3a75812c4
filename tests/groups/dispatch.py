"""The request box: programs whose calls servers execute, and what is said of it.

Groups of programs run by it where TESTS_DISPATCH=box is set (conformance, files, guests-*).
"""

import ctypes
import os
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from users import *

SERVERS = 2
ONCE = GUEST + '/static/calls-made-once'
FORGED = GUEST + '/module-forged'
# In `make test` less: forged_boxes goes on until all that it wants has been tried.
FORGED_SECONDS = 40 if TIER == 'long' else 6
LIBC = ctypes.CDLL(None, use_errno=True)
SERVER_CPUS = '1'
# Has a server, says so, and waits for a line.
WAITS = 'import os, sys\nfor i in range(9): os.stat("/usr")\nprint("ready", flush=True)\nsys.stdin.readline()\nprint("done")'


def told():
    return status()['dispatch']


def put():
    """Number of calls that were put into boxes: servers have executed them, or came too late, so that the thread's own
    worker did."""
    said = told()
    return said['boxed_calls'] + said['unboxed_calls']


def by(way, *argv):
    return ['hanare', 'run', '--dispatch', way, '--', *argv]


def by_box(*argv):
    return by('box', *argv)


def tasks(pid):
    """The CPUs that each thread of a process may run on, by its id."""
    found = {}
    for tid in os.listdir(f'/proc/{pid}/task'):
        # One may end meanwhile.
        with contextlib.suppress(OSError), open(f'/proc/{pid}/task/{tid}/status') as text:
            found[int(tid)] = re.search(r'^Cpus_allowed_list:\s*(\S+)', text.read(), re.M).group(1)
    return found


def waiting():
    """A program that has a server, and its server's thread id."""
    program = subprocess.Popen(by_box('python3', '-c', WAITS), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    expect(program.stdout.readline() == b'ready\n', 'it begins')
    servers = lambda: [tid for tid in tasks(program.pid) if tid != program.pid]
    until(lambda: len(servers()) == 1, lambda: f'servers of a lone caller: {servers()}')
    return program, servers()[0]


def servers_of(pid, on=SERVER_CPUS):
    """Threads of a proxy that run where servers do."""
    return [tid for tid, cpus in tasks(pid).items() if cpus == on]


def ends(program, code):
    out, _ = program.communicate(b'\n', TIMEOUT)
    expect(program.returncode == code, f'status {program.returncode}, said {out}')
    return out


def stray():
    """Interrupts a server for no call, as a late interruption does: from a process that may send it signals."""
    program = subprocess.Popen(by_box(ONCE, 'waits'), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        expect(program.stdout.readline() == b'ready\n', 'it begins')
        until(lambda: any(map(is_reading, servers_of(program.pid))), 'a server reads')
        interrupt = struct.pack('iii', signal.SIGBUS, 0, -0x4a).ljust(128, b'\0')
        for server in servers_of(program.pid) * 3:
            LIBC.syscall(297, program.pid, server, int(signal.SIGBUS), interrupt)  # rt_tgsigqueueinfo
            time.sleep(0.05)
        # By the server, or where that came late, by its own worker.
        until(lambda: any(map(is_reading, tasks(program.pid))), 'the call is made again')
        expect(ends(program, 0) == b'read: 1 right\n', 'the call goes on')
    finally:
        program.kill()
        program.wait(TIMEOUT)


def is_reading(tid):
    """Whether Linux has a thread in a read of a pipe."""
    with contextlib.suppress(OSError), open(f'/proc/{tid}/syscall') as text:
        return text.read().split()[0] == '0'
    return False


def killed(victim):
    """While more threads than there are servers append records: a program is killed by a signal to `victim`."""
    def body():
        before, _ = debug_memory()
        for number in range(6):
            path = f'{WORK}/once-{number}'
            program = subprocess.Popen(by_box(ONCE, 'endless', path), stdout=subprocess.PIPE)
            try:
                expect(program.stdout.readline() == b'ready\n', 'it begins')
                until(lambda: os.path.getsize(path) and len(servers_of(program.pid)) == SERVERS, 'all servers are there')
                time.sleep(0.05 * number)
                os.kill(victim(program), signal.SIGKILL)
                ends(program, -signal.SIGKILL)
            finally:
                program.kill()
                program.wait(TIMEOUT)
            size = os.path.getsize(path)
            result = command([ONCE, 'check', path])
            expect(result.out == b'records once: 1\n', result)
            expect(os.path.getsize(path) == size, 'a call was made after its program had ended')
        lwk_memory_is(before)
    return body


# Stats alone, beside threads that do the same, alone again, and beside threads: each time when it
# is told to. With STOP, a crowd goes on until there is a file of that name and its own. It looks
# for what it is told: while threads of a crowd end still a server would be in its read.
GROWS = """
import os, select, sys, threading, time
def wait():
    while not select.select([0], [], [], 0.05)[0]:
        pass
    sys.stdin.readline()
def stats(count):
    for i in range(count):
        os.stat("/usr")
def crowd(name):
    both = threading.Barrier(6)
    stop = os.environ.get("STOP")
    def body():
        both.wait()
        stats(50)
        time.sleep(1)
        stats(300)
        while stop and not os.path.exists(stop + name):
            stats(20)
        both.wait()
    threads = [threading.Thread(target=body) for i in range(5)]
    [thread.start() for thread in threads]
    both.wait()
    both.wait()
    [thread.join() for thread in threads]
for step in 0, 1, 2, 3:
    wait()
    crowd(str(step)) if step % 2 else stats(500)
    if step == 3 and os.fork() == 0:
        crowd("child")
        os._exit(0)
    if step == 3:
        os.wait()
    print("step", step, flush=True)
wait()
"""


def grows(launch):
    """Counts the calls that go by the box: none of a program with no more threads than servers."""
    stop = f'{WORK}/stop-{time.monotonic_ns()}-'
    program = subprocess.Popen([*launch, 'python3', '-c', GROWS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=dict(os.environ, STOP=stop))

    def go_by_the_box(name, most):
        """The calls of its crowd go by the box as soon as there are servers; that is enough."""
        already = told()['boxed_calls']
        # Some go directly: while the first server is made, and of threads that have waited
        # otherwise, as for Python's lock.
        until(lambda: told()['boxed_calls'] - already > most, lambda: f'calls by the box: {already}, then {told()["boxed_calls"]}')
        open(stop + name, 'w').close()
    try:
        boxed = []
        for step in range(4):
            if step in (0, 2):
                until(lambda: not servers_of(program.pid), 'one thread alone has no servers')
                time.sleep(0.2)
            before = put()
            program.stdin.write(b'\n')
            program.stdin.flush()
            if step in (1, 3):
                go_by_the_box(str(step), 100)
            if step == 3:
                go_by_the_box('child', 300)  # of its parent's crowd some come still
            line = program.stdout.readline()
            expect(line == f'step {step}\n'.encode(), line)
            boxed.append(put() - before)
        expect(boxed[0] == boxed[2] == 0, f'calls by the box with one thread: {boxed}')
        expect(boxed[1] > 100 and boxed[3] > 200, f'calls by the box with six threads, in a child, too: {boxed}')
    finally:
        for name in '1', '3', 'child':  # a crowd that still goes on ends
            open(stop + name, 'w').close()
        program.stdin.close()
        expect(program.wait(TIMEOUT) == 0, 'its end')


def blocked_servers(pid, on):
    """Servers that are in recvfrom(2)."""
    found = []
    for tid in servers_of(pid, on):
        with contextlib.suppress(OSError), open(f'/proc/{pid}/task/{tid}/syscall') as call:
            if call.read().startswith('45 '):
                found.append(tid)
    return found


def beside_sockets(launch, blocked, on):
    """Beside threads that are blocked in recv: the number of calls about files that servers execute, the number that is
    taken back, and the CPUs of the proxy's threads."""
    for tries in range(20):
        program = subprocess.Popen([*launch, GUEST + '/static/stat-beside-blocked-sockets'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        expect(program.stdout.readline() == b'blocked\n', 'it begins')
        # Calls of a thread that has a mask to tell go directly, so it may be workers that are
        # blocked.
        with contextlib.suppress(Failure):
            until(lambda: len(blocked_servers(program.pid, on)) == blocked, 'servers are blocked', 5)
            break
        program.kill()
        program.wait(TIMEOUT)
    try:
        expect(program.poll() is None, f'{blocked} servers are blocked in none of {tries + 1} tries')
        before = told()
        program.stdin.write(b'\n')
        program.stdin.flush()
        expect(program.stdout.readline() == b'looked\n', 'it looks')
        after = told()
        cpus = set(tasks(program.pid).values())
        expect(ends(program, 0) == b'received\n', 'it goes on')
        return *(after[what] - before[what] for what in ('boxed_calls', 'unboxed_calls')), cpus
    finally:
        program.kill()
        program.wait(TIMEOUT)


def one_box():
    boxed, back, _ = beside_sockets(by_box(), SERVERS, SERVER_CPUS)
    # One is taken back after 5 ms, and the thread's next ones go directly for 50 ms.
    expect(boxed < 20 and 0 < back < 50, f'all servers are blocked: {boxed} calls by servers, {back} taken back')


def several_boxes():
    # Some go directly: of a thread that has waited for an answer otherwise than by looking at its
    # slot. And a server that gets no CPU for 5 ms counts as blocked, so that the next calls go
    # directly: not each time.
    for _ in range(20):
        boxed, back, cpus = beside_sockets(by_box(), 1, '0')
        if boxed > 100 and back < 20:
            break
    expect(boxed > 100 and back < 20, f'those for files are not: {boxed} calls by servers, {back} taken back')
    expect({'0', '1'} <= cpus, f'servers for files run on CPU 1, others on CPU 0: {cpus}')
    said = hanare('status').out.decode()
    expect(re.search(r'^dispatch +direct \(1 server for each process, boxes for other, files, net,', said, re.M), said)


# What serves a read of a descriptor of /dev/null that a driver of the LWK has claimed, and
# what becomes of the claim.
CLAIMED = {
    'calls': 'read 3000, pread 10, write 20, pwrite 30, nothing 0, zeros 1\n-1 EFAULT, -1 EINVAL, EBADF, EBADF, 1 0 0\n'
             'another device: 1\n',
    'duplicates': 'opened: driver\nits duplicate: Linux\nitself: driver\ndup2 onto it: file\nopened: driver\n'
                  'dup3 onto it: file\ndup2 onto itself: Linux\nfcntl\'s duplicate: Linux\n',
    'closes': 'closed, and another file: file\nclosed: EBADF\nopened again: driver\na range closed, and another file: file\n'
              'a range behind it closed: driver\na table of its own: Linux\n',
    'flags': 'flags of the descriptor: driver\nflags of the file: Linux\nof another one: Linux\nopened: driver\n'
             'FIONBIO: Linux\nO_NONBLOCK: Linux\nO_APPEND: Linux\n',
    'children': 'in the child: Linux\nafter a fork: driver\nin the child: Linux\nafter a fork with its table: file\nopened: Linux\n',
    'threads': 'in a thread: driver\nin a thread with a table of its own: Linux\nopened there: Linux\nbeside it: Linux\n',
    'apart': 'opened: driver\nbeside a thread with its own: Linux\nopened: Linux\n',
    'namespaces': 'opened: driver\nafter setns: Linux\n',
    'utility': 'opened: driver\nclosed by a utility thread, and another file: file\n',
    'inherited': 'opened: driver\nclosed by a ring, and another file: file\n',
    'ways': 'open: driver\nopenat: driver\nopenat2: driver\ncreat: 4\n',
    'released': 'EAGAIN, locked\n',
    'filtered': 'opened with a filter: Linux\nopened by a child with it: Linux\n',
    'foreign': 'wrong: 0, by the driver: 1\n',
    'ring': 'opened: driver\nbeside a ring of io_uring: Linux\n',
    'listener': 'opened: driver\nbeside a listener: Linux\n',
    'sent': 'received: Linux\nsent: driver\n',
    'execs': 'in the next program: Linux\nopened by it: driver\n',
    'at-once': 'wrong: 0, by the driver: 1\n',
}


def claims(case, *options):
    def body():
        result = command(['hanare', 'run', *options, '--', GUEST + '/static/claimed-descriptors', f'{WORK}/claimed', case])
        expect(result.out.decode() == CLAIMED[case], result)
    return body


def gives_up():
    before = put()
    body = GROWS.replace('threading, time\n', 'threading, time\nos.setresuid(65534, 65534, 65534)\n')
    result = command(by('auto', 'python3', '-c', body), stdin=b'\n' * 5)
    expect(result.status == 0 and put() == before, f'{told()} after {before}: {result}')


def forged_serves(path):
    """The forged proxy, with servers, can do without a lie."""
    def body():
        before = told()['boxed_calls']
        linux = command([path], cwd=WORK)
        result = command([FORGED, 'serve', path], cwd=WORK, env=dict(os.environ, FORGED_BOX='1'))
        expect(result.status == linux.status and result.out == linux.out, f'{difference(linux.out, result.out)}, {result}')
        expect(told()['boxed_calls'] > before + 10, f'{told()} after {before}')
    return body


def forged_boxes():
    """Proxies write into their boxes, their servers' slots and their bells while programs run."""
    forged_proxies_harm_nobody('box', FORGED_SECONDS, {'request box words': 300, 'calls by servers': 30, 'servers': 4})


def boxed(name, path, way='box'):
    """A program whose calls go by the box, compared with what it says on Linux."""
    same(name, [path], both=lambda launch: by(way, path) if launch else [path], status=7 if 'signals-into' in path else None)


def main():
    instance = ['--cpus', '2-3', '--mem', '256M', '--servers', str(SERVERS), '--server-cpus', SERVER_CPUS]
    start(*instance)
    for name in ('calls-beside-blocked-servers', 'signals-into-boxed-calls', 'control-beside-blocked-read', 'interrupted-calls',
                 'execve-with-threads', 'calls-made-once'):
        boxed(f'{name}-static', f'{GUEST}/static/{name}')
        with only_long(f'{name}-static makes the same calls'):
            boxed(f'{name}-dynamic', f'{GUEST}/dynamic/{name}')
    with only_long('signals-into-boxed-calls-static and interrupted-calls-static show that signals come into calls of the box'):
        for form in 'static', 'dynamic':
            boxed(f'process-directed-signals-{form}', f'{GUEST}/{form}/process-directed-signals')
    boxed('calls-made-once-auto', ONCE, 'auto')
    with only_long('calls-made-once-auto shows that the automatic way loses and repeats no call'):
        for name in 'calls-beside-blocked-servers', 'signals-into-boxed-calls', 'execve-with-threads':
            boxed(f'{name}-auto', f'{GUEST}/static/{name}', 'auto')

    path = f'{GUEST}/static/calls-beside-blocked-servers'
    same('calls-among-signals-beside-blocked-servers', [path, 'signalled'],
         both=lambda launch: by_box(path, 'signalled') if launch else [path, 'signalled'])

    def counted():
        if told()['boxed_calls'] <= 100:  # none of the checks above has run
            command(by_box(ONCE))
        seen = told()
        expect(seen['way'] == 'direct' and seen['servers'] == SERVERS, seen)
        expect(seen['boxed_calls'] > 100 and seen['servers_made'] > 2 and seen['unboxed_calls'] > 0, seen)
        said = hanare('status').out.decode()
        expect(re.search(r'^dispatch +direct \(2 servers for each process, \d+ started; \d+ calls', said, re.M), said)
    check('status-says-what-servers-did', counted)

    def chosen():
        before, by_servers = put(), told()['boxed_calls']
        run('python3', '-c', 'import os; [os.stat("/usr") for i in range(500)]')
        expect(put() == before, 'a program of the default goes directly')
        command(by_box('python3', '-c', 'import os; [os.stat("/usr") for i in range(500)]'))
        expect(put() >= before + 400 and told()['boxed_calls'] > by_servers, f'{told()} after {before}')
    check('a-program-chooses-its-way', chosen)

    def spawned():
        before = put()
        stats = 'import os; [os.stat("/usr") for i in range(500)]'
        body = f'import os, sys\nargv = [sys.executable, "-c", {stats!r}]\n' \
               'sys.exit(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(argv[0], argv, os.environ), 0)[1]))'
        result = command(by_box('python3', '-c', body))
        expect(result.status == 0 and put() >= before + 400, f'{told()} after {before}: {result}')
    check('what-posix-spawn-starts-goes-by-the-box', spawned)

    def placed():
        program, server = waiting()
        # It binds itself.
        until(lambda: tasks(program.pid)[server] == SERVER_CPUS, lambda: tasks(program.pid))
        cpus = tasks(program.pid)
        expect(cpus[program.pid] != SERVER_CPUS, cpus)
        expect(ends(program, 0) == b'done\n', 'it goes on')
    check('servers-run-on-chosen-cpus', placed)

    def struck():
        program, server = waiting()
        for number in signal.SIGUSR1, signal.SIGTERM, signal.SIGRTMIN:
            # To a thread that is none of the program's: it stays pending there.
            LIBC.syscall(234, program.pid, server, int(number))  # tgkill
        expect(ends(program, 0) == b'done\n', 'it goes on')
        program, server = waiting()
        os.kill(server, signal.SIGKILL)
        ends(program, -9)
    check('signals-to-a-server', struck)
    check('a-stray-interruption-of-a-server-ends-no-call', stray)
    check('calls-of-a-killed-program-are-made-once', killed(lambda program: program.pid))
    check('a-killed-server-ends-its-program', killed(lambda program: servers_of(program.pid)[0]))

    def alone():
        # Of some hundred processes one used to be told of a server that Linux was still taking off
        # its list.
        body = """import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for i in range(40):
    child = os.fork()
    if not child:
        for i in range(9): os.stat("/usr")
        failed = libc.unshare(0x10000000)
        os._exit(ctypes.get_errno() if failed else os.stat("/usr").st_uid != 65534)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status: print(i, status)
"""
        before = put()
        result = command(by_box('python3', '-c', body))
        expect(result.status == 0 and result.out == b'', result)
        expect(put() > before + 40, f'{told()} after {before}')
    check('a-user-namespace-is-entered-without-servers', alone)

    def rights():
        body = 'import os\nfor i in range(9): os.stat("/usr")\nos.setresuid(65534, 65534, 65534)\n' \
               'try: open("/etc/shadow"); print("opened")\nexcept PermissionError: print("refused")\n' \
               'print(len(os.listdir("/proc/self/task")))'
        result = command(by_box('python3', '-c', body))
        expect(result.out == b'refused\n1\n', result)
    check('no-server-keeps-rights-that-were-given-up', rights)

    def written():
        before = told()['boxed_calls']
        body = 'import os\nfor i in range(9): os.stat("/usr")\nopen("/proc/self/timerslack_ns", "w").write("60000")\n' \
               'print(open("/proc/self/timerslack_ns").read().strip())\nfor i in range(3000): os.stat("/usr")'
        result = command(by_box('python3', '-c', body))
        expect(result.out == b'60000\n' and told()['boxed_calls'] < before + 2500, f'{told()} after {before}: {result}')
    check('what-only-a-thread-itself-may-write-is-not-a-servers', written)

    def refused():
        for wrong in ['--servers', '0'], ['--servers', '9'], ['--server-cpus', '4096'], ['--dispatch', 'own'], ['--boxes', 'disk'], \
                ['--servers', 'disk=1'], ['--server-cpus', 'net=4096']:
            result = hanare('boot', 'other', '--cpus', '1', '--mem', '64M', *wrong, status=2)
            expect(wrong[0].encode() in result.err, result)
    check('wrong-options-are-refused', refused)

    def not_linux():
        # CPUs 2 and 3 are the instance's, CPU 1 is to be the other one's.
        for list_, cpu in ('0,70', 70), ('files=64-65', 64), ('0-1', 1), ('3', 3):
            for asked in ['--server-cpus', list_], ['--option', 'server_cpus' + ('.' if '=' in list_ else '=') + list_]:
                result = hanare('boot', 'other', '--cpus', '1', '--mem', '64M', *asked, status=1)
                expect(f'servers cannot run on CPU {cpu}: '.encode() in result.err, result)
        expect(open('/sys/devices/system/cpu/online').read() == '0-1\n', 'a refused boot took a CPU')
    check('server-cpus-that-linux-does-not-have-are-refused', not_linux)
    check('a-program-goes-by-the-box-while-it-has-many-threads', lambda: grows(by('auto')))
    check('a-program-that-gave-rights-up-does-not-go-by-the-box-again', gives_up)
    check('forged-serves-a-box', forged_serves(GUEST + '/static/calls-beside-blocked-servers'))
    check('forged-boxes-harm-no-other-program', forged_boxes)
    check('calls-about-files-wait-beside-blocked-sockets', one_box)
    hanare('shutdown', '--all')
    boot('--cpus', '2-3', '--mem', '256M', '--boxes', 'files,net', '--servers', '1', '--server-cpus', '0',
         '--server-cpus', 'files=1')
    check('calls-about-files-have-servers-of-their-own', several_boxes)
    boxed('calls-made-once-boxes', ONCE)
    with only_long('calls-made-once-boxes shows that several boxes lose and repeat no call'):
        for name in 'calls-beside-blocked-servers', 'signals-into-boxed-calls', 'interrupted-calls':
            boxed(f'{name}-boxes', f'{GUEST}/static/{name}')
    hanare('shutdown', '--all')
    boot(*instance, '--dispatch', 'auto')
    with only_long('a-program-goes-by-the-box-while-it-has-many-threads shows it of the same way'):
        check('an-instance-goes-by-the-box-while-a-program-has-many-threads', lambda: grows(['hanare', 'run', '--']))

    def said():
        expect(told()['way'] == 'auto', told())
        expect(re.search(r'^dispatch +auto \(2 servers', hanare('status').out.decode(), re.M), hanare('status'))
    check('status-says-auto', said)
    hanare('shutdown', '--all')
    boot(*instance, '--option', 'claim=1:3', '--option', 'exec=local')
    with open(f'{WORK}/claimed', 'w') as file:
        file.write('f')
    for case in CLAIMED:
        check('claimed-' + case, claims(case))
    check('claimed-calls-of-copied-arguments', claims('calls', '--arguments', 'copied'))
    finish()


main()
