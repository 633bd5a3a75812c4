"""Users of one instance who mean each other no good: none waits for another one."""

import contextlib
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

STRANGER = GUEST + '/module-stranger'
# Not setpriv itself: it has root's capabilities until it executes something.
BAD, GOOD = (['/usr/bin/setpriv', f'--reuid={uid}', f'--regid={uid}', '--groups=hanare', '/bin/sh', '-c', 'exec "$@"', 'sh']
             for uid in (65534, 65533))
FILE = WORK + '/strangers'
# What other users' programs may take when nothing is in their way, on a busy machine, in seconds.
SOON = 60


def interrupts():
    return sum(cpu['interrupts'] for cpu in status()['cpus'])


def bad(how, *arguments):
    return [*BAD, STRANGER, 'default', how, *arguments]


class Bad:
    """A program of the bad user's that goes on until it is killed, and says when it is there."""

    def __init__(self, says, *arguments, argv=bad):
        self.process = subprocess.Popen(argv(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.says = says

    def __enter__(self):
        said = self.process.stdout.readline().decode()
        expect(said == self.says + '\n', said)
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT)


def rings(how, times, most):
    """A proxy interrupts no CPU for which no thread of its own has asked."""
    def body():
        before = interrupts()
        result = command(bad(how, str(times)))
        after = interrupts()
        expect(result.out == b'rung\n', result)
        expect(after - before < most, f'{after - before} interrupts by {times} rings')
    return body


def good_program(limit, *options):
    start = time.monotonic()
    result = command([*GOOD, 'hanare', 'run', *options, '--', '/bin/true'], timeout=limit)
    expect(result.status == 0, result)
    return time.monotonic() - start


def held_services():
    """Threads of a stopped process wait for pages; other users' programs run meanwhile."""
    with Bad('held', 'hold', FILE):
        good_program(SOON)


def signals_in_a_crowd():
    """A thread that waits for its turn with the other threads of its process takes signals."""
    result = command(bad('crowd', FILE))
    expect(result.out == b'ended by 15\n', result)


def end_computed(stuck, program):
    """Ends a program that has computed. No request of its user is left, and its parent hears of the end and of the CPU
    time."""
    # The threads of these are on the CPU that does not answer: each end keeps a request.
    os.killpg(stuck.pid, signal.SIGKILL)
    time.sleep(2)
    ends = time.monotonic()
    program.kill()
    _, _, used = os.wait4(program.pid, 0)
    program.returncode = -signal.SIGKILL
    took = time.monotonic() - ends
    expect(took < 10, f'it has ended after {took:.1f} s')
    expect(used.ru_utime > 0.2, f'it has used {used.ru_utime} s')


def requests_of_one_user():
    """A CPU does not answer one user. Other users' requests for other CPUs are served meanwhile, and the first user's
    processes end."""
    hang_s = SOON + 30
    good_program(SOON, '--cpus', '3')
    computes = 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo computed; read end'
    computed = subprocess.Popen([*BAD, 'hanare', 'run', '--cpus', '3', '--', '/bin/sh', '-c', computes],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    expect(computed.stdout.readline() == b'computed\n', 'it has computed')
    sleeps = 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; echo there; wait'
    stuck = subprocess.Popen([*BAD, 'hanare', 'run', '--cpus', '2', '--', '/bin/sh', '-c', sleeps], stdout=subprocess.PIPE,
                             start_new_session=True)
    expect(stuck.stdout.readline() == b'there\n', 'others are there')
    with Bad('there', 'ask', '300', '2') as asks:
        hang = begin_to_hang(hang_s)
        try:
            asks.process.stdin.write(b'\n')
            asks.process.stdin.flush()
            until(lambda: waits_for_an_entry(asks.process.pid), 'requests take up the share')
            end_computed(stuck, computed)
            # The user's requests take up the user's share: that no more are sent says nothing of
            # the CPU.
            hanare_of_bad = command([*BAD, 'hanare', 'status', '--ping'])
            expect(b'state     running' in hanare_of_bad.out, hanare_of_bad)
            good_program(SOON, '--cpus', '3')
            said = hanare('doctor', status=None).out
            expect(re.search(rb'process \S+ has ended \d+ s ago, and .* for (CPU 2, which|the LWK, where [1-9])', said), said)
        finally:
            hang.kill()
            hang.wait()
            # Else the end of the asker waits until that CPU goes on.
            end_hung()
    boot()


def sharers_of_one_user():
    """A CPU does not answer, and many processes of one user that share their memory end. Other users' requests are
    served meanwhile."""
    good_program(SOON, '--cpus', '3')
    with Bad('there', '--cpus', '2', '--', GUEST + '/static/sharers', '260', argv=lambda *a: [*BAD, 'hanare', 'run', *a]):
        hang = begin_to_hang(SOON + 30)
    try:
        time.sleep(3)
        print(f"# {good_program(SOON, '--cpus', '3'):.1f} s", flush=True)
    finally:
        hang.kill()
        hang.wait()
        end_hung()
    boot('--cpus', '2-3', '--mem', '256M')


def spaces_of_one_user():
    """A CPU does not answer, and very many processes of one user end: other users' requests are served meanwhile."""
    hang_s = SOON + 30
    for tries in range(3):
        with Bad('there', 'spaces', '700'):
            hang = begin_to_hang(hang_s)
            time.sleep(3)
            ends = time.monotonic()
        try:
            print(f"# {good_program(SOON, '--cpus', '3'):.1f} s", flush=True)
            break
        except Failure:
            # What ends has 20 s until the instance counts as hung, and no program starts: it was
            # too late for that.
            if time.monotonic() - ends < 20 or tries == 2:
                raise
        finally:
            hang.kill()
            hang.wait()
        end_hung()
        boot()


def ends_of_one_user():
    """The LWK answers nothing, and more processes of a user end than the user may have requests for. None of them
    stays."""
    with Bad('there', 'spaces', '140'):
        hang = begin_to_hang(6)
        # Ends wait 1 s then, in place of 20.
        until(lambda: b'state     hung' in hanare('status', '--ping').out, 'it counts as hung')
    until(lambda: not command(['pgrep', '-u', '65534']).out, 'the processes are gone')
    expect(hang.poll() is None, 'the LWK answered before they were gone')
    hang.wait()
    all_answer()
    ledgers_fit()
    good_program(SOON)


def looks_during_boots():
    """An instance that begins or ends meanwhile is seen as a whole, or not at all."""
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(Bad('there', 'look'))
        for _ in range(10):
            hanare('shutdown', '--all', '--force')
            boot()
    good_program(SOON)


def observers_of_what_has_ended():
    """A process of one user ends, and another user's process gets its id. Observers of the first do not take the second
    for it."""
    with Bad('there', 'outlive', '8') as bad:
        with Bad('', argv=lambda: [*GOOD, 'hanare', 'run', '--', '/bin/sh', '-c', 'echo; read end']):
            bad.process.stdin.write(b'\n')
            bad.process.stdin.flush()
            said = bad.process.stdout.readline()
    expect(said == b'8 of 8 are gone\n', said)


def end_hung():
    """Ends the LWK without waiting for one of its CPUs, which hangs."""
    hanare('shutdown', '--all', '--force', '--timeout', '5', status=None)


def begin_to_hang(seconds, cpu='0'):
    """Has a CPU of the LWK answer nothing for a while, and waits until that has begun."""
    hang = subprocess.Popen(['hanare', 'debug', 'hang', '--for', str(seconds * 1000), '--cpu', cpu])
    # What it asks for is before whatever is asked for now.
    until(lambda: asks_the_lwk(hang) or hang.poll() is not None, 'a CPU is told to hang')
    return hang


def steps(ms):
    result = command([*GOOD, 'hanare', 'run', '--', STRANGER, '-', 'count', str(ms)])
    expect(result.status == 0, result)
    return int(result.out)


def computing_beside_requests():
    """A user who asks at any rate leaves half of a CPU to its threads. Root asks, since root's requests can be made to take long."""
    # Less than a half: interrupts, and an emulated machine's CPUs that wait for each other. One
    # that stands still meanwhile, for seconds, does so in one try and not in the other ones.
    for _ in range(5):
        beside_others, beside_requests = compute_beside_both()
        print(f'# computes {beside_requests / beside_others:.2f} times as much as beside programs of Linux', flush=True)
        if beside_requests > beside_others / 4:
            break
    expect(beside_requests > beside_others / 4, f'{beside_requests} steps, {beside_others} beside programs of Linux')


def compute_beside_both():
    """How many steps a program makes beside programs of Linux, and beside requests."""
    linux = [subprocess.Popen([*BAD, 'sh', '-c', 'while :; do :; done'], start_new_session=True) for _ in range(3)]
    try:
        beside_others = steps(3000)
    finally:
        for process in linux:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with Bad('asking', 'keep', '4', argv=lambda *arguments: [STRANGER, 'default', *arguments]):
        return beside_others, steps(3000)


def barriers_of_others():
    """A CPU of other people's programs is not interrupted by a barrier for all processes."""
    with Bad('', '2', argv=lambda _: [*GOOD, 'sh', '-c', f'echo; exec hanare run --cpus 2 -- {STRANGER} - count 600000']):
        until(lambda: b'stranger' in hanare('ps').out, 'it computes')
        time.sleep(2)
        before = status()['cpus'][0]['interrupts']
        result = command([*BAD, 'hanare', 'run', '--cpus', '3', '--', STRANGER, '-', 'barriers', '5000'])
        after = status()['cpus'][0]['interrupts']
        expect(result.out == b'done\n', result)
        expect(after - before < 1000, f'{after - before} interrupts by 5000 barriers')


def slots_of_one_user():
    """What threads leave behind when they end does not use up what other users' threads need."""
    with subprocess.Popen([*BAD, 'hanare', 'run', '--', STRANGER, '-', 'rounds', '40', '60'], stdout=subprocess.PIPE,
                          start_new_session=True) as bad:
        try:
            print(f'# {int(bad.stdout.readline())} threads of 2400', flush=True)
            good_program(SOON)
        finally:
            os.killpg(bad.pid, signal.SIGKILL)


def asks_the_lwk(process):
    with contextlib.suppress(OSError), open(f'/proc/{process.pid}/stack') as file:
        return 'hanare_request' in file.read()
    return False


def waits_for_an_entry(pid):
    """Whether a thread waits because no request is free for its user."""
    for thread in glob.glob(f'/proc/{pid}/task/*/stack'):
        with contextlib.suppress(OSError), open(thread) as file:
            if 'request_begin' in file.read():
                return True
    return False


def limit_real_time(microseconds):
    with open('/proc/sys/kernel/sched_rt_runtime_us', 'w') as file:
        file.write(str(microseconds))


def start_program(user, how):
    return subprocess.Popen([*user, 'hanare', 'run', '--', GUEST + '/static/frames-given-up', how],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)


def what_is_given_up_is_not_read():
    """The LWK holds a child in its munmap. What Linux reads of the child's memory meanwhile has nothing that the parent
    writes then."""
    for _ in range(10):
        if is_kept_while_given_up():
            return
    raise Failure('it is unmapped each time before it has been read')


def is_kept_while_given_up():
    """False: the child was not held for so long."""
    def seen():
        """Nothing: it could not be read any more."""
        said = command([GUEST + '/module-late-answer', 'read', pid, address]).out
        return b'' if said == b'read: Bad address\n' else said

    old = b'aaaaaaaaaaaaaaaa\n' * 8
    program = start_program(BAD, 'write')
    try:
        pid, address = program.stdout.readline().decode().split()
        before = seen()
        expect(before == old, before)
        program.stdin.write(b'x')
        program.stdin.flush()
        said = program.stdout.readline()
        if said == b'unmapped\n':
            return False
        expect(said == b'written\n', said)
        after = seen()
        if not after:
            said = program.stdout.readline()
            expect(said == b'unmapped\n', said)
            return False
        expect(after == old, after)
        said = program.stdout.readline()
        expect(said == b'unmapped\n', said)
        return True
    finally:
        program.kill()
        program.wait(TIMEOUT)
        command(['pkill', '-KILL', 'frames-given-up'])
        until(lambda: b'no program runs' in hanare('ps').out, 'all programs have ended')


def an_answer_in_flight_names_no_frame_of_others():
    """A task is kept from using the answer to its fault until the frames that it names are another user's."""
    for _ in range(6):
        if is_kept_from_an_answer():
            return
    raise Failure('an answer came too soon each time')


def is_kept_from_an_answer():
    """False: the CPU may have answered before no other task could run."""
    late = GUEST + '/module-late-answer'
    bad, others = start_program(BAD, 'share'), []
    try:
        pid, address = str(bad.pid), int(bad.stdout.readline(), 0)
        began, hang_s = time.monotonic(), 8
        hang = begin_to_hang(hang_s)
        reader = subprocess.Popen([late, 'read', pid, hex(address)], stdout=subprocess.PIPE)
        is_over = lambda: time.monotonic() - began >= hang_s
        until(lambda: asks_the_lwk(reader) or is_over(), 'the reader asks')
        # The process gets copies in the place of the frames that the reader is told of.
        writers = [subprocess.Popen([late, 'write', pid, hex(address + i * 4096)]) for i in range(8)]
        for writer in writers:
            until(lambda: asks_the_lwk(writer) or is_over(), 'a writer asks')
        limit_real_time(-1)
        # No other task runs on the CPU of reader and writers.
        hog = subprocess.Popen(['taskset', '-c', '0', 'chrt', '-f', '50', 'sh', '-c', 'while :; do :; done'])
        others = [reader, *writers, hog]
        until(lambda: os.sched_getscheduler(hog.pid) == os.SCHED_FIFO, 'the CPU is taken')
        is_in_time = not is_over()
        hang.wait(TIMEOUT)
        good_program(SOON)  # all have been answered
        if not is_in_time:
            return False
        for writer in writers:
            writer.kill()  # it puts no copy there
        bad.stdin.write(b'x')
        bad.stdin.flush()
        said = bad.stdout.readline()
        expect(said == b'unmapped\n', said)
        good = start_program(GOOD, 'fill')
        others.append(good)
        said = good.stdout.readline()
        expect(said == b'filled\n', said)
        expect(reader.poll() is None, 'the reader was not kept back')
        hog.kill()
        out = reader.communicate(timeout=TIMEOUT)[0]
        expect(out == b'aaaaaaaaaaaaaaaa\n' * 8, out)
        return True
    finally:
        limit_real_time(950000)
        for process in bad, *others:
            process.kill()
            process.wait(TIMEOUT)
        command(['pkill', '-KILL', 'frames-given-up'])
        until(lambda: b'no program runs' in hanare('ps').out, 'all programs have ended')


def nothing_of_others():
    """Memory, registers, answers and core dumps carry nothing of a program of another user, which had a word everywhere."""
    canary, lwk = f'{GUEST}/static/canary', ['hanare', 'run', '--cpus', '2', '--']
    word = (0xa53c0ff1ce0ddba1 ^ (1 << 64) - 1).to_bytes(8, 'little')
    planted = lambda: expect(command([*BAD, *lwk, canary, 'plant']).status == 0, 'it plants')
    for _ in range(2):
        planted()
        said = command([*GOOD, *lwk, canary, 'look'])
        lines = said.out.decode().splitlines()
        expect(said.status == 0 and lines and lines[0] == 'what it has written itself: found', said)
        expect(all(line.endswith(': clean') for line in lines[1:]) and len(lines) > 20, said)
    planted()
    with subprocess.Popen([*GOOD, *lwk, 'sleep', '60'], start_new_session=True) as other:
        until(lambda: b'sleep' in hanare('ps').out, 'a program runs')
        said = command([*GOOD, STRANGER, 'default', 'answers'])
        os.killpg(other.pid, signal.SIGKILL)
    lines = said.out.decode().splitlines()
    expect(len(lines) == 8 and all(line.endswith(': clean') for line in lines), said)
    planted()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        shell = 'ulimit -c unlimited; exec "$@"'
        said = command([*GOOD, 'sh', '-c', shell, 'sh', *lwk, canary, 'dump'], cwd=folder)
        cores = os.listdir(folder)
        expect(said.status == -signal.SIGABRT and len(cores) == 1, f'{said} {cores}')
        with open(f'{folder}/{cores[0]}', 'rb') as core:
            expect(word not in core.read(), 'the core dump has it')


def booted(*arguments):
    """A fresh LWK: of the one before a CPU may still hang."""
    def body():
        end_hung()
        boot(*arguments)
    return body


start('--cpus', '2', '--mem', '256M')
with open(FILE, 'wb') as file:
    file.truncate(80 << 20)
os.chmod(FILE, 0o644)
check('rings-of-a-forged-proxy', rings('ring', 20000, 100))
check('rings-of-a-proxy-for-its-own-thread', rings('own-ring', 2000, 100))
check('services-held-by-a-stopped-proxy', held_services)
check('signals-in-a-crowd', signals_in_a_crowd)
check('computing-beside-requests', computing_beside_requests)
check('ends-of-one-user', ends_of_one_user)
check('nothing-of-other-users-is-given-out', nothing_of_others)
check('boot-two-cpus', booted('--cpus', '2-3', '--mem', '256M'), lwk=False, prepares=True)
check('barriers-of-others', barriers_of_others)
with only_long('requests-of-one-user and ends-of-one-user show the shares of a user'):
    check('sharers-of-one-user', sharers_of_one_user)
check('requests-of-one-user', requests_of_one_user)
check('spaces-of-one-user', spaces_of_one_user)
check('boot-small', booted('--cpus', '2-3', '--mem', '32M'), lwk=False, prepares=True)
check('looks-during-boots', looks_during_boots)
check('slots-of-one-user', slots_of_one_user)
with only_long('an id is used again after 65 thousand spaces'):
    check('observers-of-what-has-ended', observers_of_what_has_ended)
check('boot-one-cpu', booted('--cpus', '2', '--mem', '64M'), lwk=False, prepares=True)
check('an-answer-in-flight-names-no-frame-of-others', an_answer_in_flight_names_no_frame_of_others)
check('boot-holding', booted('--cpus', '2-3', '--mem', '64M', '--option', 'hold_ms=1500'), lwk=False, prepares=True)
check('what-is-given-up-is-not-read', what_is_given_up_is_not_read)
finish()
