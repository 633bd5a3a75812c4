"""What a user may take of an instance, which user pays for it where memory is short, and that the way back needs none.

TESTS_FAILS (1 in `make test`, 7 in `make test-long`) multiplies the number of allocations that fail: of those of a program's
work all do at 7, of those of its start at 50 or so. One in seven is spread over all that it does, and each way back from there is
shared by many."""

import errno
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
import abi
import ledger
from harness import *

HOARD = GUEST + '/module-hoard'
UID = 65534
STRUCK = GUEST + '/static/strike-victim'
PIPES = GUEST + '/static/pages-in-pipes'
KINDS = ['fork', 'exec', 'table', 'thread', 'map', 'signal', 'exit']
MORE = float(os.environ.get('TESTS_FAILS') or (7 if TIER == 'long' else 1))
# Of the allocations of a program's work as large a part fails, and so many of a program's start.
SHARE, START = 0.15, 10


class Hoarder:
    """A user with start blocks and empty spaces, as many as that user gets; ends with the block."""

    def __init__(self, uid, blocks, spaces, *decoy):
        self.process = subprocess.Popen([HOARD, 'default', str(uid), str(blocks), str(spaces), *decoy], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        self.said = self.process.stdout.readline().decode()
        found = re.match(r'(\d+) pages, (\d+) spaces, refused: (\d+) (.*)', self.said)
        expect(found, f'the hoarder said {self.said!r}')
        self.pages, self.spaces, self.error = int(found[1]), int(found[2]), int(found[3])
        print(f'# {self.said.strip()}', flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(TIMEOUT)


def end_of_a_hoarder():
    """Processes end even if the kernel's own memory is used up."""
    before, _ = debug_memory()
    with Hoarder(0, 3, 400) as hoarder:
        expect(hoarder.error, f'there is memory left: {hoarder.said}')
    lwk_memory_is(before)
    expect(healthy(), 'nothing runs any more')


def for_user(uid, *argv, **more):
    return command(['/usr/bin/setpriv', f'--reuid={uid}', f'--regid={uid}', '--groups=hanare', *argv], **more)


def as_user(uid, *argv, **more):
    return for_user(uid, 'hanare', 'run', '--', *argv, **more)


def spaces_of_one():
    """A user who opens as many spaces as possible does not use up what others need."""
    before, _ = debug_memory()
    with Hoarder(UID, 0, 2392) as hoarder:
        expect(hoarder.error and hoarder.spaces < 7176, hoarder.said)
        expect(as_user(1000, '/bin/true').status == 0, 'another user is refused')
        expect(as_user(UID, '/bin/true').status != 0, 'the user gets more all the same')
        expect('as many programs' in hoarder.said or 'of yours' in hoarder.said, hoarder.said)
    lwk_memory_is(before)


def start_blocks_of_one():
    """Start blocks are kernel memory."""
    before, _ = debug_memory()
    with Hoarder(UID, 8, 0) as hoarder:
        expect(hoarder.error and hoarder.pages < 9000, hoarder.said)
        expect(as_user(1000, '/bin/true').status == 0, 'another user is refused')
    lwk_memory_is(before)


def hoarder_dies(*decoy):
    """When memory is short, the program of the user who has little is not the one killed."""
    before, _ = debug_memory()
    with Hoarder(UID, 3, 0, *decoy) as hoarder:
        expect(hoarder.pages == 3 * 4096, hoarder.said)
        result = as_user(1000, GUEST + '/static/eat-memory', '20')
        expect(result.status == 0, f'{result}; {log_tail()}')
        expect('out of memory' in log_tail(20), log_tail())

        def left():
            with open(f'/proc/{hoarder.process.pid}/task/{hoarder.process.pid}/children') as children:
                return [pid for pid in children.read().split() if is_proxy(pid)]
        # Its memory is free before its descriptors are closed.
        until(lambda: len(left()) < 3, lambda: f'all of them are alive: {left()}')
    lwk_memory_is(before)


class Holder:
    """A user's program that says what it has and goes on with it; ends with the block."""

    def __init__(self, uid, *argv):
        self.process = subprocess.Popen(['/usr/bin/setpriv', f'--reuid={uid}', f'--regid={uid}', '--groups=hanare', *argv],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.said = self.process.stdout.readline().decode().strip()
        print(f'# {self.said}', flush=True)

    def refused_after(self):
        """How many it has, and the error that it got then."""
        found = re.match(r'(\d+), refused: (\d+)', self.said)
        expect(found, f'it said {self.said!r}')
        return int(found[1]), int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=TIMEOUT)


def of_user(uid):
    """What the ledger says of a user, once Linux has been asked what it holds."""
    debug_memory()
    found = [user for user in ledger.read(asked)['users'] if user['uid'] == uid]
    return found[0] if found else {'kernel_bytes': 0, 'memory_bytes': 0, 'frames': {}}


@contextlib.contextmanager
def other_users_program():
    """A program of another user's, with some memory, goes on all the while."""
    with Holder(1000, 'hanare', 'run', '--', GUEST + '/static/eat-memory', '4', 'hold') as program:
        expect(program.said == 'eaten', program.said)
        yield
        expect(program.process.poll() is None, f"another user's program has ended: {program.process.poll()}; {log_tail()}")


def rings_of_one():
    """A trace has a ring of records, which remains when its process has ended and nobody has read it. Such rings count
    as memory of their user, who gets only a part of the instance: another user's program goes on."""
    before, _ = debug_memory()
    rings = [GUEST + '/module-observers', 'rings', '200', GUEST + '/static/observed']
    with other_users_program(), Holder(UID, *rings) as holder:
        count, error = holder.refused_after()
        expect(0 < count < 200 and error == errno.EAGAIN, holder.said)
        user = of_user(UID)
        frames = user['frames'].get('rings', 0)
        # Each has 16 pages at least.
        expect(frames >= 16 * count and user['kernel_bytes'] >= frames * 4096, user)
        until(lambda: set(of_user(UID)['frames']) == {'rings'}, lambda: f'more than rings: {of_user(UID)}', 30)
        result = as_user(1000, GUEST + '/static/eat-memory', '40')
        expect(result.status == 0, f'{result}; {log_tail()}')
        result = for_user(1000, 'hanare', 'trace', '--', '/bin/true')
        expect(result.status == 0, f'another user gets no trace: {result}')
    lwk_memory_is(before)


def trace_that_is_read():
    """The ring of a trace whose process has ended goes when all is read, though its descriptor is open."""
    before, _ = debug_memory()
    with Holder(UID, GUEST + '/module-observers', 'read', '1', GUEST + '/static/observed') as holder:
        expect(holder.refused_after() == (1, 0), holder.said)
        lwk_memory_is(before, 30)
        expect(not of_user(UID)['frames'], of_user(UID))


def breakpoints_of_one():
    """Breakpoints take kernel memory of their user."""
    before, _ = debug_memory()
    with Holder(UID, 'hanare', 'run', '--', GUEST + '/static/observed') as program:
        has = of_user(UID)['kernel_bytes']
        with Holder(UID, GUEST + '/module-observers', 'breakpoints', '4096', *program.said.split()) as holder:
            expect(holder.refused_after() == (4096, 0), holder.said)
            more = of_user(UID)['kernel_bytes'] - has
            expect(more >= 4096 * 16, f'{more} bytes more')
        until(lambda: of_user(UID)['kernel_bytes'] <= has, lambda: f'{has} bytes before, {of_user(UID)} after', 30)
    lwk_memory_is(before)


def breakpoints_to_the_limit():
    """A user's breakpoints are refused at the user's limit of kernel memory."""
    with contextlib.ExitStack() as stack:
        programs = []
        for _ in range(40):
            program = stack.enter_context(Holder(UID, 'hanare', 'run', '--', GUEST + '/static/observed'))
            if not program.said:
                break
            programs += program.said.split()
        expect(len(programs) >= 4 and not program.said, f'{programs}: the user gets any number of programs')
        with Holder(UID, GUEST + '/module-observers', 'breakpoints', '4096', *programs) as holder:
            count, error = holder.refused_after()
            expect(count < 4096 * len(programs) // 2 and error == errno.ENOMEM, holder.said)
            expect(as_user(1000, '/bin/true').status == 0, 'another user is refused')


def pipes_of_one():
    """Pages that Linux holds belong to the user who had them. That user pays for them when memory is short, and another
    user's program goes on."""
    before, _ = debug_memory()
    pipes = [PIPES, 'all', '12', '18']
    with other_users_program(), Holder(UID, 'hanare', 'run', '--', *pipes) as holder:
        expect(holder.said == '12 MiB', holder.said)
        user = of_user(UID)
        held = user['frames'].get('quarantine', 0)
        expect(held >= 12 * 256 and user['memory_bytes'] >= 30 << 20, user)
        result = as_user(1000, GUEST + '/static/eat-memory', '26')
        expect(result.status == 0, f'{result}; {log_tail()}')
        expect(f'of user {UID} killed' in log_tail(20), log_tail(20))
    lwk_memory_is(before)


def copies_at_a_fork():
    """A child gets copies of pages that Linux holds. The copies count for their user: a fork that needs more of them
    than the user may have is refused, and leaves nothing."""
    before, _ = debug_memory()
    result = as_user(UID, PIPES, 'fork', '14')
    expect(result.status == 0 and result.out == b'in pipes: ENOMEM\nin none: forked\n', f'{result}; {log_tail()}')
    result = as_user(UID, PIPES, 'fork', '8')
    expect(result.status == 0 and result.out == b'in pipes: forked\nin none: forked\n', f'{result}; {log_tail()}')
    result = run(PIPES, 'fork', '14')
    expect(result.out == b'in pipes: forked\nin none: forked\n', f'root is limited: {result}')
    lwk_memory_is(before)


def not_inherited():
    """A fork leaves large pages whole that the child does not have, though Linux holds a part."""
    result = run(PIPES, 'not-inherited')
    expect(result.out == b'before: 2048 KiB\nnot inherited: forked\nafter: 2048 KiB\n', result)


@contextlib.contextmanager
def pages_kept(uid, mib):
    """A program of a user puts as many MiB of its pages into pipes, and ends, by itself or killed. This process keeps
    the pipes until the end of the block. Gives the status of the program."""
    with contextlib.ExitStack() as stack:
        ends = [end for _ in range(mib) for end in os.pipe()]
        stack.callback(lambda: [os.close(end) for end in ends])
        for to in ends[1::2]:
            fcntl.fcntl(to, fcntl.F_SETPIPE_SZ, 1 << 20)
        yield as_user(uid, PIPES, 'into', *map(str, ends[1::2]), pass_fds=ends[1::2])


def pipes_that_stay():
    """A process that stays on Linux holds pages of a user's program that has ended. The user gets no more such pages
    than leave enough for others, and no further program. Other users have the rest of the memory, and pages that Linux
    lets go of are found."""
    before, _ = debug_memory()
    with other_users_program():
        with pages_kept(UID, 24) as result:
            expect(result.status in (-9, 137) and f'of user {UID} killed' in log_tail(20), f'{result}; {log_tail(20)}')
            frames = of_user(UID)['frames']
            expect(set(frames) == {'quarantine'} and 10 * 256 <= frames['quarantine'] <= 17 * 256, frames)
            result = as_user(UID, '/bin/true')
            expect(result.status != 0 and b'Linux holds' in result.err, result)
            result = as_user(1000, GUEST + '/static/eat-memory', '24')
            expect(result.status == 0, f'{result}; {log_tail()}')
        until(lambda: as_user(UID, '/bin/true').status == 0, 'what Linux has let go of is not found')
    lwk_memory_is(before)


def fault_asks_first():
    """Linux has let go of pages and the LWK does not know it yet. A fault of a proxy for which there is no memory finds
    them, and no process ends for it."""
    before, _ = debug_memory()
    with other_users_program():
        with pages_kept(UID, 12) as result:
            expect(result.status == 0, f'{result}; {log_tail()}')
            frames = of_user(UID)['frames']
            expect(frames.get('quarantine', 0) >= 12 * 256, frames)
        # 12 MiB less, with those of the other program 16, would be too little.
        said = log_tail(400).count('out of memory')
        result = as_user(UID, GUEST + '/static/eat-memory', 'read', str((before >> 20) - 10))
        expect(b'read all' in result.out, f'{result}; {log_tail()}')
        expect(log_tail(400).count('out of memory') == said, log_tail(20))
    lwk_memory_is(before)


def contents_kept_no_longer():
    """Pages of a program that one process has read anew, while others still have the old ones, are not kept, and do not
    count as kept."""
    eats = ['hanare', 'run', '--', GUEST + '/static/eat-memory']
    with Holder(1000, *eats, '1', 'hold') as first, Holder(1000, *eats, 'forget') as second:
        expect((first.said, second.said) == ('eaten', 'forgotten'), (first.said, second.said))
        found = ledger.read(asked)
        expect(found['kernel'].get('contents') and not found['faults'], found)


def pages_in_pipes():
    """One page that Linux holds does not hold the 511 others of its large page."""
    before, _ = debug_memory()
    with subprocess.Popen(['hanare', 'run', '--', PIPES, '16'], stdout=subprocess.PIPE) as process:
        try:
            said = process.stdout.readline()
            expect(said == b'16 pages\n', said)
            taken = before - debug_memory()[0]
            expect(taken < 8 << 20, f'{taken >> 10} KiB are away')
        finally:
            process.kill()
    lwk_memory_is(before)


def limited():
    """Limits of memory and processes are those of a user, not of a process, and not root's."""
    before, _ = debug_memory()
    result = as_user(1000, GUEST + '/static/eat-memory', '40')
    expect(result.status == -9 or result.status == 137, result)
    lwk_memory_is(before)
    expect(as_user(1000, GUEST + '/static/eat-memory', '4').status == 0, 'beneath the limit')
    expect(run(GUEST + '/static/eat-memory', '40').status == 0, 'root is limited')
    # None ends before all are there, however long that takes.
    forks = 'i=0; pids=; while [ $i -lt 9 ]; do sleep 1000 & pids="$pids $!"; i=$((i+1)); done; kill $pids; wait'
    result = as_user(1000, '/bin/sh', '-c', forks)
    expect(result.status != 0 and b'ork' in result.err, result)
    expect(run('/bin/sh', '-c', forks).status == 0, 'root is limited')
    lwk_memory_is(before)


def nonsense(limits):
    def body():
        result = command(['hanare', 'boot', 'other', '--cpus', '1', '--mem', '64M', '--user-limits', limits])
        expect(result.status == 2 and b'kernel-memory=' in result.err, result)
    return body


def again(*arguments):
    def body():
        hanare('shutdown', '--all', '--force', status=None)
        boot('--cpus', '2-3', *arguments)
        expect(healthy(), 'no program runs')
    return body


class Asked:
    """Questions of tests to the LWK (IOCTL_DEBUG), without a process for each."""

    IOCTL, MEMORY, FAIL = abi.constant('IOCTL_DEBUG'), abi.constant('DEBUG_MEMORY'), abi.constant('DEBUG_FAIL_ALLOC')
    REST = 8 * abi.constant('LEDGER_WORDS')  # bytes behind the arguments

    def ask(self, what, *args):
        with open('/dev/hanare', 'r+b', buffering=0) as device:
            data = bytearray(struct.pack(f'<32sII4Q{self.REST}x', b'default', 0, what, *args, *[0] * (4 - len(args))))
            end = time.monotonic() + TIMEOUT
            while True:
                try:
                    fcntl.ioctl(device, self.IOCTL, data)
                    return struct.unpack(f'<40x4Q{self.REST}x', data)
                except TimeoutError:  # a CPU that stands still for longer than five seconds is asked again
                    expect(what == self.MEMORY and time.monotonic() < end, f'{what} is not answered')

    def fail(self, first, step=0):
        """Has allocations of the LWK fail from now on; how many it has made since the last time."""
        return self.ask(self.FAIL, first, step)[0]

    def count(self):
        return self.fail(2**64 - 1)

    def idle_memory(self):
        """What `ask(MEMORY)` gives once the last process has ended: its command is back a little earlier."""
        end = time.monotonic() + TIMEOUT
        while (memory := self.ask(self.MEMORY))[3]:
            expect(time.monotonic() < end, f'a process does not end: {memory}; {log_tail()}')
            time.sleep(0.01)
        return memory

    def memory_of(self, processes):
        """What `ask(MEMORY)` gives once there are so many processes, and it stays the same: an ended process is waited for on
        Linux a little earlier than the LWK has all of it back."""
        end, before = time.monotonic() + TIMEOUT, None
        while (memory := self.ask(self.MEMORY)) != before or memory[3] != processes:
            expect(time.monotonic() < end, f'not {processes} processes: {memory}; {log_tail()}')
            before = memory
            time.sleep(0.3)
        return memory

    def memory_is(self, before, where, has_ended=lambda: False):
        """Free memory, nothing in quarantine, and as many processes as before. False: the program is over."""
        end = time.monotonic() + TIMEOUT
        while self.ask(self.MEMORY) != before:
            if has_ended():
                return False
            expect(time.monotonic() < end, f'{where}: {before} before, {self.ask(self.MEMORY)} after; {log_tail()}')
            time.sleep(0.01)
        return True


lwk = Asked()


class Worker:
    """A program on the LWK that does a bit of everything in a child when it is told (tests/guest/allocation-failures.c)."""

    def __init__(self):
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/allocation-failures'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        expect(self.work() == '0', 'it does not work')
        self.work()
        self.before = lwk.memory_of(1)

    def work(self):
        """How the child has ended; nothing: the program itself has."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b'\n')
            self.process.stdin.flush()
            came, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
            expect(came, 'the program does not answer')
            return self.process.stdout.readline().decode().strip()
        return ''

    def has_ended(self):
        return self.process.poll() is not None

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Where a check fails nothing of it is left."""
        if kind:
            lwk.count()
            self.process.kill()
        self.end()


def failing():
    """Each allocation of the kernel's heap and of frames fails once, while a program does a bit of everything. The
    program does without, or ends; the LWK goes on and has its memory back."""
    nothing = lwk.idle_memory()
    with Worker() as worker:
        fail_while_it_works(worker, nothing)
    lwk.memory_is(nothing, 'end')
    expect(healthy(), 'nothing runs any more')


def fail_while_it_works(worker, nothing):
    ends = {}
    lwk.fail(0)
    worker.work()
    count = lwk.count()
    share = min(1, SHARE * MORE)
    moments = max(1, round(count * share))
    for i in range(moments):
        n = 1 + i * count // moments
        lwk.fail(n)
        said = worker.work()
        lwk.count()
        ends[said] = ends.get(said, 0) + 1
        if said and lwk.ask(lwk.MEMORY) != worker.before:
            said = worker.work()  # what it could not keep for the next time; or it has ended after it said so
        if not said or not lwk.memory_is(worker.before, f'{n} of {count}', worker.has_ended):
            worker.end()
            # After an answer only the LWK's kill for want of memory may end it.
            expect(not said or worker.process.returncode == -9, f'{n} of {count}: {worker.process.returncode} after {said}')
            print(f'# {n} of {count}: the program ended, status {worker.process.returncode}, said {said!r}', flush=True)
            lwk.memory_is(nothing, f'{n} of {count}')
            worker.begin()
    print(f'# {moments} of {count} allocations failed; ends {ends}', flush=True)


def failing_start():
    """As `each-allocation-may-fail`, while a program starts and ends."""
    argv = [GUEST + '/static/allocation-failures', 'noop']
    before = lwk.idle_memory()
    lwk.fail(0)
    run(*argv)
    count = lwk.count()
    moments, ends = max(1, min(count, round(START * MORE))), {}
    for i in range(moments):
        n = 1 + (i * count + count // 2) // moments
        lwk.fail(n)
        try:
            result = run(*argv)
        finally:
            lwk.count()
        expect(not result.late, f'{n} of {count}: {result}')
        ends[result.status] = ends.get(result.status, 0) + 1
        lwk.memory_is(before, f'{n} of {count}')
    print(f'# {moments} of {count} allocations failed; ends {ends}', flush=True)
    expect(healthy(), 'nothing runs any more')


def failing_often():
    """Each k-th allocation fails, for all threads, while several programs run."""
    before = lwk.idle_memory()
    for step in (2, 3, 5, 17, 61, 211) if TIER == 'long' else (3, 17, 211):  # next to nothing works; half does; most does
        lwk.fail(1 + step, step)
        programs = [subprocess.Popen(['hanare', 'run', '--', STRUCK, kind], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for kind in KINDS]
        try:
            for program in programs:
                program.wait(TIMEOUT)
        finally:
            lwk.count()
            for program in programs:
                program.kill()
                program.wait(TIMEOUT)
        lwk.memory_is(before, f'each {step}.')
    expect(healthy(), 'nothing runs any more')


def core_dump_without_memory():
    """A program with very many mappings would leave a core dump, and the kernel finds no memory for the list of them."""
    before = lwk.idle_memory()
    with subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/many-ranges', '8400'], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, cwd=WORK) as program:
        try:
            expect(program.stdout.readline() == b'ready\n', 'not ready')
            lwk.fail(1, 1)
            program.stdin.close()
            program.wait(TIMEOUT)
        finally:
            lwk.count()
            program.kill()
    expect(program.returncode == -signal.SIGABRT, program.returncode)
    lwk.memory_is(before, 'after the dump')
    expect(healthy(), 'nothing runs any more')


start('--cpus', '2-3', '--mem', '128M')
for number, limits in enumerate(['spaces=4', 'memory=101%', 'processes=-1', '']):
    check(f'wrong-limits-{number}', nonsense(limits))
check('one-user-does-not-use-up-spaces', spaces_of_one)
check('start-blocks-are-charged', start_blocks_of_one)
check('boot-with-user-limits', again('--mem', '128M', '--user-limits', 'processes=6,memory=24M'), lwk=False, prepares=True)
check('limits-bind-a-user-not-a-process', limited)
check('copies-at-a-fork-are-charged', copies_at_a_fork)
check('fork-leaves-large-pages-that-a-child-does-not-have', not_inherited)
with only_long('breakpoints are charged as what else is kernel memory: breakpoints-are-charged'):
    check('boot-with-little-kernel-memory', again('--mem', '128M', '--user-limits', 'kernel-memory=2M'), lwk=False, prepares=True)
    check('breakpoints-are-refused-at-the-limit', breakpoints_to_the_limit)
check('boot-without-limits', again('--mem', '64M', '--user-limits', 'none'), lwk=False, prepares=True)
check('hoarder-dies', hoarder_dies)
check('hoarder-with-a-decoy-dies', lambda: hoarder_dies('decoy'))
check('pages-in-pipes', pages_in_pipes)
check('hoarder-of-pipes-dies', pipes_of_one)
check('pages-in-pipes-that-stay-bind-their-user', pipes_that_stay)
check('fault-of-a-proxy-asks-before-it-kills', fault_asks_first)
check('contents-that-are-kept-no-longer', contents_kept_no_longer)
check('hoarder-of-rings-is-refused', rings_of_one)
check('trace-that-is-read-keeps-nothing', trace_that_is_read)
check('breakpoints-are-charged', breakpoints_of_one)
check('processes-end-without-kernel-memory', end_of_a_hoarder)
check('each-allocation-may-fail', failing)
check('each-allocation-may-fail-at-start-and-end', failing_start)
check('each-kth-allocation-may-fail-beside-others', failing_often)
check('core-dump-without-memory', core_dump_without_memory)
finish()
