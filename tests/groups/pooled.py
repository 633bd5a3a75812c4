"""Native tasks and pools of proxies: what a call without its own process does, and what becomes of it when something dies.

The demonstrators that are written with the SDK are in the group `native`.
"""

import concurrent.futures
import os
import pty
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from confinement import CONFINED_BY, confined, confined_alike
from harness import *

TASK = f'{GUEST}/static/native-task'
FORGED = f'{GUEST}/module-forged-member'
USER = 65531  # of no other program, so that all its processes may be killed
AS_USER = ['/usr/bin/setpriv', f'--reuid={USER}', f'--regid={USER}', '--groups=hanare']
OWNERDEAD = 'EOWNERDEAD'


SEED = int(os.environ.get('TESTS_FUZZ_SEED', '1'))


def native(*argv, options=(), **more):
    return command(['hanare', 'native', *options, '--', TASK, *argv], cwd=WORK, **more)


# What a check has begun.
begun = []


def started(*argv, options=()):
    begun.append(subprocess.Popen(['hanare', 'native', *options, '--', TASK, *argv], cwd=WORK, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return begun[-1]


def tested(name, body, **more):
    """A check after which no task that it has begun is left, also where it fails."""
    def cleaned():
        try:
            body()
        except BaseException:
            for task in begun:
                task.kill()
                task.wait()
            for pid in tasks_of():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise
        finally:
            begun.clear()
    check(name, cleaned, **more)


def pooled():
    """The process ids of pooled proxies."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError), open(f'/proc/{pid}/stat') as stat:
            if re.search(r'\(hanare-pooled\) [^Z]', stat.read()):
                found.append(int(pid))
    return sorted(found)


def told(said):
    """What each TELL says, by its expression."""
    return dict(re.findall(r'^\d+: (.*): (.*)$', said.decode(), re.M))


def gone():
    # Sooner than by the idle limit, a minute.
    until(lambda: not pooled(), lambda: f'pooled proxies stay: {pooled()}', 50)
    until(lambda: status()['programs'] == 0, lambda: f'spaces stay: {status()["programs"]}', 50)
    nothing_left()


def without_state():
    result = native('unkept')
    said = told(result.out)
    expect(result.status == 0, result)
    expect(said['getppid() > 0 && getppid() != getpid()'] == '1', said)
    for good in 'getpgrp() > 0', 'proxy(2)':
        expect(said[good] in '01', said)
    expect([said[call] for call in ('mkdir("native-dir", 0755)', 'stat("native-dir", &st)', 'rmdir("native-dir")')] == ['0'] * 3, said)
    refused = [expression for expression, value in said.items() if value == '-1 EOPNOTSUPP']
    links = {call: value for call, value in said.items() if call.startswith('readlink')}
    expect(len(links) == 3 and set(links.values()) == {'-1 ENOENT'}, links)
    expect(len(refused) == 6 and 'syscall(SYS_umask, 077)' in refused, f'{refused} of {said}')
    log = hanare('log').out.decode()
    expect('open leaves something behind in the proxy' in log or 'openat leaves something behind' in log, log[-400:])
    gone()


def not_there():
    said = told(native('refused').out)
    wrong = {call: value for call, value in said.items() if value not in ('-1 ENOSYS', 'ENOSYS') and call != 'proxy(3)'}
    expect(not wrong and len(said) == 11 and said['proxy(3)'] == '-1 EINVAL', f'{wrong} of {said}')


def keeping():
    result = native('kept', stdin=b'a line\n')
    said = told(result.out)
    expect(result.status == 0 and said['read(fd, here, 4)'] == '4' and said['memcmp(here, "kept", 4)'] == '0', result)
    expect(said['write(fd, "gone", 4)'] == '-1 EBADF' and said['strcmp(here, before)'] == '0', said)
    expect(said['mask == 022'] == '1' and said['open("/etc/passwd", O_RDONLY) == fd'] == '1', said)
    expect(b"standard input is the command's again: a line\n" in result.out, result)
    gone()


def data():
    here, there = command([TASK, 'transfer'], cwd=WORK), native('transfer')
    plain = [line for line in here.out.decode().splitlines() if 'proxy(1)' not in line and 'shorter' not in line]
    packed = [line for line in there.out.decode().splitlines() if 'proxy(1)' not in line and 'shorter' not in line]
    expect(there.status == 0 and plain == packed and len(plain) > 15, f'{plain} {there}')
    expect(b'shorter than asked for: some' in there.out, 'messages end at a MiB')


def exit_statuses():
    expect(native('exits', '7').status == 7, 'the task\'s exit status')
    expect(native('faults').status == -signal.SIGSEGV, 'the signal that ends the task')
    result = native('calls', '100', options=['--tasks', '3', '--pool', '2'])
    expect(result.status == 0 and result.out == b'100 calls\n' * 3, result)
    result = command(['hanare', 'native', '/nonexistent'])
    expect(result.status == 127 and b'No such file' in result.err, result)
    result = command(['hanare', 'native', f'{GUEST}/dynamic/native-task', 'exits', '7'])
    expect(result.status == 126 and b'it is dynamically linked' in result.err and b'native.md' in result.err, result)
    result = hanare('native', '--pool', '3', '--pool-max', '2', TASK, status=125)
    expect(b'--pool 3 is more than --pool-max 2 allows' in result.err, result)
    result = hanare('native', '--on', 'nothing', TASK, status=125)
    expect(b'nothing' in result.err, result)


def used_up():
    """One proxy, which a task keeps for a while: another one's call waits for it."""
    holder = started('holds', '1000', options=['--tasks', '2', '--pool', '1', '--pool-max', '1'])
    out, err = holder.communicate(timeout=TIMEOUT)
    expect(holder.returncode == 0 and out == b'has one 1\n' * 2, f'{holder.returncode} {out} {err}')
    gone()


def crowd():
    """Many tasks that begin at once with few proxies: each gets one in the end, and none is told that there are no more."""
    result = native('holds', '300', options=['--tasks', '8', '--pool', '1', '--pool-max', '2'])
    expect(result.status == 0 and result.out == b'has one 1\n' * 8 and result.err == b'', result)
    gone()


def tasks_of(pid=r'\d+'):
    """The native tasks that a command, or any, has started and that have not ended."""
    found = []
    for child in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError), open(f'/proc/{child}/stat') as stat:
            if re.search(rf'\(native-task\) [^Z] {pid} ', stat.read()):
                found.append(int(child))
    return found


def killed_in_the_queue():
    """A task that waits for a pool that is used up ends by a signal at once; the one that has the proxy goes on."""
    # For longer than any wait here: a waiter gets it in no other way.
    tasks = started('holds', '1000000', options=['--tasks', '2', '--pool', '1', '--pool-max', '1'])
    try:
        expect(tasks.stdout.readline() == b'has one 1\n', 'one has it')
        until(lambda: len(tasks_of(tasks.pid)) == 2, 'both tasks run')
        asleep = tasks_of(tasks.pid)

        def listed():
            return {int(line.split()[0]) for line in hanare('ps').out.decode().splitlines() if line.split()[0].isdigit()}
        until(lambda: set(asleep) <= listed(), lambda: f'{asleep} run on the LWK: {hanare("ps")}')
        # Both are told; the one with the proxy sleeps, the other one waits for it.
        for pid in asleep:
            os.kill(pid, signal.SIGTERM)
        out, err = tasks.communicate(timeout=TIMEOUT)
        expect(tasks.returncode == 128 + signal.SIGTERM, f'{tasks.returncode} {out} {err}')
    finally:
        tasks.kill()
        tasks.communicate(timeout=TIMEOUT)
    gone()


def command_is_signalled():
    """What is sent to `hanare native --tasks N` ends its tasks, and the command like a program that gets it; so does Ctrl-C."""
    line = ['hanare', 'native', '--tasks', '2', '--', TASK, 'holds', '1000000']

    def both_run(pid):
        until(lambda: len(tasks_of(pid)) == 2 and status()['programs'] == 2, lambda: f'both run: {hanare("ps")}')
        return tasks_of(pid)

    def ended(tasks):
        return not any(is_proxy(task) for task in tasks)
    for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL:
        started_here = subprocess.Popen(line, stdout=subprocess.DEVNULL)
        tasks = both_run(started_here.pid)
        os.kill(started_here.pid, number)
        expect(started_here.wait(TIMEOUT) == -number, f'{number}: {started_here.returncode}')
        until(lambda: ended(tasks), lambda: f'{number}: tasks stay: {hanare("ps")}')
        gone()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(line[0], line)
    tasks = both_run(pid)
    os.write(terminal, b'\x03')
    expect(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGINT, 'Ctrl-C')
    until(lambda: ended(tasks), lambda: f'Ctrl-C: tasks stay: {hanare("ps")}')
    os.close(terminal)
    gone()


def numbers_of_tasks():
    """Each task has its number in its environment, the only one as well."""
    proxy = WORK + '/native-proxy'
    with open(proxy, 'w') as file:
        file.write('#!/bin/sh\necho "task $HANARE_TASK"\n')
    os.chmod(proxy, 0o755)
    for count in 1, 3:
        result = native('calls', '1', options=['--tasks', str(count)], env=dict(os.environ, HANARE_PROXY=proxy))
        said = b''.join(b'task %d\n' % number for number in range(count))
        expect(b''.join(sorted(result.out.splitlines(True))) == said, result)


def killed_between_calls():
    """The proxy that a task keeps is killed between two calls: one of them says so, and the next ones have a new proxy."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(WORK + '/native-lost')
    task = started('loses')
    expect(task.stdout.readline() == b'ready\n', 'it begins')
    kept = pooled()
    expect(len(kept) == 1, kept)
    os.kill(kept[0], signal.SIGKILL)
    until(lambda: kept[0] not in pooled(), 'it is gone')
    os.kill(task.pid, signal.SIGUSR1)
    out, err = task.communicate(timeout=TIMEOUT)
    said = told(out)
    expect(task.returncode == 0 and said['write(fd, "2", 1)'] == '-1 ' + OWNERDEAD, f'{out} {err}')
    expect(said['write(fd, "3", 1)'] == '-1 EBADF' and said['write(fd, "4", 1)'] == '1', said)
    with open(WORK + '/native-lost') as file:
        text = file.read()
    expect(text == '14', f'nothing was written twice: {text}')
    gone()


def reading():
    """Pooled proxies that are in a read."""
    def is_in_one(pid):
        for tid in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{tid}/syscall') as call:
                if call.read().startswith('0 '):
                    return True
        return False
    found = []
    for pid in pooled():
        with contextlib.suppress(OSError):
            if is_in_one(pid):
                found.append(pid)
    return found


def fifo():
    name = WORK + '/native-fifo'
    return name if os.path.exists(name) else os.mkfifo(name) or name


def blocked():
    """A task, and its proxy, which is in a call that does not end."""
    before, task = reading(), started('blocks', fifo())
    expect(task.stdout.readline() == b'blocked\n', 'it begins')
    until(lambda: len(reading()) > len(before), lambda: f'a proxy reads: {pooled()}')
    return task, *set(reading()) - set(before)


def killed_in_a_call():
    """The proxy is killed in a call: the task hears it, and goes on with another proxy."""
    task, proxy = blocked()
    os.kill(proxy, signal.SIGKILL)
    out, err = task.communicate(timeout=TIMEOUT)
    said = told(out)
    expect(said['read(fd, word, 1)'] == '-1 ' + OWNERDEAD and said['getpgrp() > 0'] == '1', f'{out} {err}')
    expect(task.returncode == 0, task.returncode)
    gone()


def task_killed(sign):
    """The task ends while its proxy is in a call: the proxy ends with it."""
    task, _ = blocked()
    task.send_signal(sign)
    out, err = task.communicate(timeout=TIMEOUT)
    expect(task.returncode == -sign, f'{task.returncode} {out} {err}')
    gone()


def all_killed():
    """All proxies are killed again and again while tasks make calls: each call is made, or says that its proxy has died."""
    killed = tries = 0
    # A call that a proxy had begun when it died fails, and so does the program: both may end then.
    while killed < 10 and tries < 10:
        tries += 1
        tasks = started('calls', '10000', options=['--tasks', '2', '--pool', '2'])
        end = time.monotonic() + 4
        while tasks.poll() is None and time.monotonic() < end and killed < 10:
            for pid in pooled():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            time.sleep(0.02)
        out, err = tasks.communicate(timeout=TIMEOUT)
        expect(tasks.returncode in (0, 1), f'{killed} {tasks.returncode} {out} {err}')
    expect(killed > 2, f'{killed} killed in {tries} tries')
    gone()


def idle():
    """A proxy that has nothing to do for the idle limit ends, and the next call has a new one made."""
    task = started('calls', '1', options=['--idle', '1'])
    task.communicate(timeout=TIMEOUT)
    gone()
    # So long that none has ended before the task has come; if that is late, again with more time.
    for idle_s in 3, 3, 10, 60:
        before, begins = status()['dispatch']['members_made'], time.monotonic()
        tasks = started('holds', '1000000', options=['--idle', str(idle_s), '--pool', '2'])
        expect(tasks.stdout.readline() == b'has one 1\n', 'it begins')
        if time.monotonic() - begins < idle_s:
            break
        tasks.terminate()
        tasks.communicate(timeout=TIMEOUT)
        gone()
    until(lambda: len(pooled()) == 1, lambda: f'only the kept one stays: {pooled()}')
    time.sleep(2)
    expect(len(pooled()) == 1, f'the kept one stays: {pooled()}')
    tasks.terminate()
    tasks.communicate(timeout=TIMEOUT)
    expect(status()['dispatch']['members_made'] == before + 2, status()['dispatch'])
    gone()


def counted():
    before = status()['dispatch']
    native('calls', '500')
    now = status()['dispatch']
    expect(now['packed_calls'] >= before['packed_calls'] + 500 and now['members_made'] == before['members_made'] + 1, now)
    said = hanare('status').out.decode()
    expect(re.search(r'^native +\d+ calls packed; \d+ pooled prox', said, re.M), said)


def of_another_user():
    """A process with the descriptor of a pool, and other rights than its maker, does not join."""
    program = f'{GUEST}/module-pool'
    for rights, wanted in (([], b'joined\n'), (NOBODY, b'EPERM: the pool of proxies was made with other rights than yours\n')):
        result = command([program, *rights, program, 'join'])
        expect(result.out == wanted, f'{rights} {result}')
    said = command([program, 'wrong']).out.decode().splitlines()
    wanted = ['EINVAL: a pool has 1 to 1024 proxies, not 0', 'EINVAL: a pool has 1 to 1024 proxies, not 1025',
              'EBADF: descriptor 0 is no pool of proxies', 'EBADF: descriptor 1000 is no pool of proxies', 'EINVAL: ', 'joined']
    expect(said == wanted, said)


def no_program():
    """In the space of a pooled proxy no program is started, and none asks."""
    result = command([f'{GUEST}/module-pool', 'member'])
    expect(result.out == b'EINVAL EINVAL EINVAL EPERM EPERM\n', result)
    gone()


def closes_all():
    """A task that closes every descriptor does not get at those of its proxy."""
    result = native('closes')
    said = told(result.out)
    expect(result.status == 0 and not result.err, result)
    wanted = {'closed': '0', 'dup2(1, 1024)': '-1 EBADF', 'syscall(SYS_close_range, 3, ~0u, 0)': '0',
              'syscall(SYS_close_range, 5, 4, 0)': '-1 EINVAL', 'getpgrp() > 0': '1', 'fd': '3',
              'syscall(SYS_close_range, fd, fd, 0)': '0', 'close(fd)': '-1 EBADF', 'chdir("/usr")': '0', 'proxy(0)': '0'}
    expect({call: said.get(call) for call in wanted} == wanted, said)
    gone()


def few_descriptors():
    """A proxy that cannot keep copies of what it was started with says so; none gives less than that back."""
    worked = 0
    for limit in range(5, 15):
        result = command(['/usr/bin/prlimit', f'--nofile={limit}', 'hanare', 'native', '--', TASK, 'kept'], cwd=WORK, stdin=b'a line\n')
        if result.status == 0:
            worked += 1
            said = told(result.out)
            expect(b"standard input is the command's again: a line\n" in result.out and said['strcmp(here, before)'] == '0',
                   f'{limit}: {result}')
        else:
            expect(result.status in (125, 126) and result.err, f'{limit}: {result}')
    expect(0 < worked < 10, f'{worked} worked')
    gone()


def killed_again_and_again():
    """Tasks that are killed while proxies are in their calls leave nothing in the LWK."""
    blocks = None
    for _ in range(3):
        for _ in range(4):
            task, _ = blocked()
            task.kill()
            task.communicate(timeout=TIMEOUT)
        gone()
        if blocks is None:
            blocks = kernel_blocks()
    expect(kernel_blocks()[1] <= blocks[1], f'blocks of the heap: {blocks} before, {kernel_blocks()} after')


def owner(pid):
    with contextlib.suppress(OSError):
        return os.stat(f'/proc/{pid}').st_uid


def kill_all():
    """Every process of the user whose proxies lie."""
    def left():
        return [int(pid) for pid in filter(str.isdigit, os.listdir('/proc')) if owner(pid) == USER]
    def none():
        for pid in left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left()
    until(none, lambda: f'processes that cannot be killed: {left()}')


def forged(seed, seconds=20 if TIER == 'long' else 8):
    """Proxies that lie, and write while the LWK reads, harm users of their pool only."""
    def body():
        (before, _), log = debug_memory(), len(kernel_log_since(0))
        end = time.monotonic() + seconds
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            argv = [*AS_USER, FORGED, str(seconds), str(seed), '3', '4', TASK, 'believes', '2000']
            liars = pool.submit(command, argv, timeout=seconds + 2 * TIMEOUT, cwd='/')
            while time.monotonic() < end:
                result = native('calls', '20')
                expect(result.status == 0 and result.out == b'20 calls\n', f'another user: {result}')
                expect(healthy(), 'another user: hello')
                expect(status()['state'] == 'running', status()['state'])
            concurrent.futures.wait([liars], 45)
            late = '' if liars.done() else waits()
            result = liars.result()
        kill_all()
        print('# ' + result.out.decode(errors='replace').strip(), flush=True)
        expect(result.status == 0 and b'seed' in result.out, f'{result} {late}')
        said = kernel_log_since(log)
        expect('is not closed after' not in said, said[-500:])
        gone()
        lwk_memory_is(before)
    return body


def stopped():
    """A task ends that is terminated while its proxy is stopped in a call, and the proxy with it."""
    task, proxy = blocked()
    os.kill(proxy, signal.SIGSTOP)
    task.terminate()
    task.communicate(timeout=TIMEOUT)
    expect(task.returncode == -signal.SIGTERM, task.returncode)
    gone()


def ended_unawaited():
    """No CPU of the LWK answers while tasks are killed, so that Linux does not wait for their ends: their proxies end when it does."""
    command_of_all = started('blocks', fifo(), options=['--tasks', '4', '--pool', '4'])
    until(lambda: len(reading()) == 4, lambda: f'proxies read: {reading()}')
    hangs = [subprocess.Popen(['hanare', 'debug', 'hang', '--cpu', str(cpu), '--for', '8000']) for cpu in range(len(status()['cpus']))]
    until(lambda: b'hung' in hanare('status', '--ping', status=None).out, 'no CPU answers')
    # The pool ends with its last task.
    for pid in sorted(tasks_of())[1:]:
        os.kill(pid, signal.SIGKILL)
    expect(not any(hang.wait(TIMEOUT) for hang in hangs), 'a CPU has not hung')
    until(lambda: len(pooled()) == 1, lambda: f'proxies of tasks that have ended: {pooled()}', 30)
    command_of_all.terminate()
    command_of_all.wait(TIMEOUT)
    gone()


def traced():
    """`hanare trace` names the calls that a pooled proxy executes as delegated."""
    task = started('calls', '100000000')
    until(lambda: json.loads(hanare('ps', '--json').out), 'it begins')
    tracer = subprocess.Popen(['hanare', 'trace', '-p', str(task.pid)], stderr=subprocess.PIPE)
    # What it does to begin may be seen, too.
    # A tracer that is late loses some, and says so. A call that takes long is told of in two lines.
    told_of = (line for line in iter(tracer.stderr.readline, b'')
               if not re.search(rb'\d+ events? lost|<unfinished \.\.\.>$', line.rstrip()))
    told_of = (line.replace(b'<... getpgrp resumed>) = ', b'getpgrp() = ') for line in told_of)
    begins = next(line for line in told_of if b'getpgrp() = ' in line)
    lines = [begins, *(next(told_of) for _ in range(4))]
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=TIMEOUT)
    task.kill()
    task.communicate(timeout=TIMEOUT)
    expect(all(b'getpgrp() = ' in line and b'<delegated ' in line for line in lines[1:]), lines)
    gone()


def lwk_panics():
    """Native tasks in calls, and their proxies, end with their LWK."""
    task, _ = blocked()
    hanare('debug', 'panic')
    _, err = task.communicate(timeout=TIMEOUT)
    expect(task.returncode == 125 and b'stopped working' in err, f'{task.returncode} {err}')
    until(lambda: not pooled(), lambda: f'{pooled()}')
    hanare('shutdown', '--force')
    boot()


def slow_memory():
    """A proxy is killed while its task waits for memory, as long as a user wants: the LWK is not taken for hung."""
    folder, log = tempfile.mkdtemp(dir=WORK), len(kernel_log_since(0))
    subprocess.run(['modprobe', 'fuse'], check=True)
    server = subprocess.Popen([sys.executable, ROOT + '/tests/lib/slowfile.py', folder, TASK, 'comes late'],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        expect(server.stdout.readline() == b'mounted\n', 'no FUSE')
        task = subprocess.Popen(['hanare', 'native', '--', folder + '/file', 'waits-for-memory'], stdout=subprocess.PIPE)
        expect(task.stdout.readline() == b'ready\n', 'it begins')
        expect(server.stdout.readline() == b'read\n', 'it waits')
        killed = pooled()
        expect(len(killed) == 1, killed)
        os.kill(killed[0], signal.SIGKILL)
        until(lambda: 'is not closed after' in kernel_log_since(log), 'its space is waited for')
        expect(status()['state'] == 'running', status()['state'])
        expect(healthy(), 'others go on')
        server.stdin.write(b'go\n')
        server.stdin.flush()
        out, _ = task.communicate(timeout=TIMEOUT)
        said = told(out)
        expect(said['write(1, apart.text, 10)'] == '-1 ' + OWNERDEAD and said['getpgrp() > 0'] == '1', f'{out}')
    finally:
        server.kill()
        server.wait(TIMEOUT)
        subprocess.run(['umount', '-n', '-l', folder])
    gone()


def shutdown_counts_programs():
    """Shutdown refuses with the number of programs that `hanare ls` has: pooled proxies are none."""
    tasks = started('holds', '1000000', options=['--tasks', '3', '--pool', '2'])
    try:
        until(lambda: status()['programs'] == 3 and len(pooled()) >= 2, lambda: f'they run: {status()["programs"]} {pooled()}')
        result = hanare('shutdown', status=1)
        expect(b'3 programs run on default: end them' in result.err, result)
    finally:
        tasks.terminate()
        tasks.communicate(timeout=TIMEOUT)
    gone()


def module_stays():
    """Shutdown with native tasks in calls ends them and their proxies."""
    task, _ = blocked()
    hanare('shutdown', '--force')
    task.communicate(timeout=TIMEOUT)
    until(lambda: not pooled(), lambda: f'{pooled()}')
    boot()


def main():
    start(*BOOT)
    tested('calls-without-state-go-to-any-proxy', without_state)
    tested('what-is-not-there-is-refused-by-name', not_there)
    tested('a-kept-proxy-keeps-what-is-opened-until-it-is-given-back', keeping)
    tested('data-of-any-length-is-packed', data)
    tested('exit-statuses-and-wrong-usage', exit_statuses)
    tested('a-task-waits-for-a-pool-that-is-used-up', used_up)
    tested('many-tasks-of-a-small-pool-get-a-proxy-each', crowd)
    tested('a-task-that-waits-for-a-proxy-takes-signals', killed_in_the_queue)
    tested('signals-of-the-command-are-its-tasks', command_is_signalled)
    tested('each-task-has-its-number', numbers_of_tasks)
    tested('a-proxy-killed-between-calls-is-told-of-once', killed_between_calls)
    tested('a-proxy-killed-in-a-call-is-told-of', killed_in_a_call)
    tested('a-task-that-is-killed-ends-its-proxy', lambda: task_killed(signal.SIGKILL))
    tested('a-task-that-is-terminated-ends-its-proxy', lambda: task_killed(signal.SIGTERM))
    tested('calls-go-on-while-proxies-are-killed', all_killed)
    tested('an-idle-proxy-ends', idle)
    tested('status-counts-packed-calls', counted)
    tested('no-user-joins-a-pool-with-other-rights', of_another_user)
    tested('no-confined-process-joins-a-pool-that-is-not', confined)
    for how in CONFINED_BY:
        tested(f'a-pool-makes-no-calls-of-a-task-confined-by-{how}', confined_alike(how, gone))
    tested('no-program-runs-in-the-space-of-a-pooled-proxy', no_program)
    tested('a-task-that-closes-every-descriptor-keeps-its-proxy', closes_all)
    tested('a-proxy-without-descriptors-for-copies-says-so', few_descriptors)
    tested('killed-tasks-leave-nothing', killed_again_and_again)
    tested('a-proxy-killed-while-its-task-waits-for-memory-hangs-no-task', slow_memory)
    tested('forged-pooled-proxies-harm-their-pool-only-0', forged(SEED))
    with only_long('a second seed of forged-pooled-proxies-harm-their-pool-only-0'):
        tested('forged-pooled-proxies-harm-their-pool-only-1', forged(SEED + 1))
    tested('a-task-whose-proxy-is-stopped-ends', stopped)
    tested('proxies-end-with-tasks-whose-ends-were-not-awaited', ended_unawaited)
    tested('calls-of-native-tasks-are-traced-as-delegated', traced)
    tested('native-tasks-end-with-an-lwk-that-panics', lwk_panics)
    tested('shutdown-counts-programs-not-proxies', shutdown_counts_programs)
    tested('shutdown-ends-native-tasks', module_stays)
    finish()


main()
