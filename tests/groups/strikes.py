"""Kills, stops and crashes at chosen moments: of the proxy, a worker, the Linux parent, `hanare run`
at each system call that they make (tests/module/strike.c), and of the process while the LWK holds
it at each point that kernel/src/sched/hold.rs knows. Afterwards both kernels are as they were.

TESTS_STRIKES (0.4 in `make test`, 3 in `make test-long`) multiplies the number of moments; 100 is every one of them, about.
At 0.4 each action strikes four kinds of programs or more, at calls that are spread over all that they make."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

MORE = float(os.environ.get('TESTS_STRIKES') or (3 if TIER == 'long' else 0.4))
STRUCK = GUEST + '/static/strike-victim'
KINDS = ['fork', 'exec', 'table', 'thread', 'map', 'block', 'signal', 'exit']
ACTIONS = ['kill', 'crash', 'stop', 'parent', 'first', 'term', 'delay']
BOOT_MEMORY = ['--cpus', '2-3', '--mem', '256M']
HOLDING = ['--option', 'hold_ms=40']


def clean(before, where):
    """The LWK has no process and its memory back; Linux has no proxy."""
    end = time.monotonic() + TIMEOUT
    while left := proxies():
        expect(time.monotonic() < end, f'{where}: proxies {left}')
        time.sleep(0.02)
    while True:
        after, text = debug_memory()
        if after == before and not objects(text):
            return
        expect(time.monotonic() < end, f'{where}: free memory {before} before, {text} after')
        time.sleep(0.05)


def proxies():
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            if is_proxy(pid):
                with open(f'/proc/{pid}/stat') as stat:
                    found.append((pid, stat.read().split(')')[1].split()[0]))
    return found


def strike(at, action, kind):
    result = command([GUEST + '/strike', str(at), action, '200', 'hanare', 'run', '--', STRUCK, kind])
    return result, result.out.decode()


def at_calls(kind):
    """Counts the stops, then strikes at some of them, each action in turn."""
    def body():
        before, _ = debug_memory()
        result, said = strike(0, 'kill', kind)
        expect(result.status == 0 and re.search(r'ended with (0|700)$', said.strip()), result)
        stops = int(re.search(r'(\d+) stops', said)[1])
        clean(before, 'not struck')
        moments = max(1, min(int(10 * MORE), stops))
        for n in range(moments):
            action = ACTIONS[(n + KINDS.index(kind) * moments) % len(ACTIONS)]
            # Spread over all stops; the first few are those of `hanare run` and the start.
            at = 1 + (n * stops + (hash_of(kind) % stops)) // moments % stops
            result, said = strike(at, action, kind)
            where = f'{action} at {at} of {stops}'
            if result.status == 3:
                print('# ' + command(['sh', '-c', 'ps -eLo pid,ppid,tid,stat,wchan:20,comm | grep -v "\\["']).out.decode(), flush=True)
            expect(result.status == 0 and not result.late, f'{where}: {result}')
            clean(before, f'{where} ({said.splitlines()[0] if said else ""})')
        expect(healthy(), 'nothing runs any more')
    return body


def hash_of(text):
    return sum(ord(character) * 7 for character in text)


def at_points(kind, struck, shift=0.5):
    """The LWK holds each thread for a while at its points: kills at steps of that."""
    def body():
        before, _ = debug_memory()
        start = time.monotonic()
        result = command(['hanare', 'run', '--', STRUCK, kind])
        expect(result.status in (0, 7), result)
        took = time.monotonic() - start
        moments = max(4, int(8 * MORE))  # each way to strike once
        for n in range(moments):
            process = subprocess.Popen(['hanare', 'run', '--', STRUCK, kind], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(took * (n + shift) / moments)
            how = n % 4
            if how == 0:
                process.kill()
            elif how == 1:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            elif how == 2:
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                process.send_signal(signal.SIGCONT)
                process.terminate()
            else:
                for pid, _ in proxies():
                    if int(pid) != process.pid:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise Failure(f'step {n} of {moments} (how {how}): no end')
            clean(before, f'step {n} of {moments} (how {how})')
        expect(healthy(), 'nothing runs any more')
        struck.update(re.findall(r'held at ([\w-]+): ended there', hanare('log').out.decode()))
    return body


start(*BOOT_MEMORY)
for name in KINDS:
    check(f'at-calls-{name}', at_calls(name))


def beside():
    """A clone with CLONE_FILES beside another thread's execve."""
    before, _ = debug_memory()
    result = command(['hanare', 'run', '--', STRUCK, 'beside'])
    expect(result.status == 0, result)
    clean(before, 'beside')


check('shared-descriptor-table-beside-execve', beside)


def left():
    """A process has one space, also where others were killed while they left its last one."""
    before, _ = debug_memory()
    program = subprocess.Popen(['hanare', 'run', '--', STRUCK, 'left'], stdout=subprocess.PIPE)
    said = program.stdout.readline()
    expect(said == b'waiting\n', said)
    try:
        until(lambda: status()['programs'] == 2, lambda: f'{status()["programs"]} spaces of two processes')
    finally:
        program.kill()
        program.wait(TIMEOUT)
    clean(before, 'left')


check('space-ends-though-leavers-were-killed', left)


def held_boot():
    hanare('shutdown', '--all', '--force', status=None)
    boot(*BOOT_MEMORY, '--option', 'exec=local', *HOLDING)
    expect(healthy(), 'no program runs')


def doomed():
    """Threads that crash when another one's execve ends them: one of the two happens."""
    before, _ = debug_memory()
    result = command(['hanare', 'run', '--', STRUCK, 'doomed'])
    expect(result.status == 0, result)
    clean(before, 'doomed')


def replaced():
    """With exec=local a thread that is not the first one gives its execve on to another and ends in there."""
    def body():
        result = run(GUEST + '/static/execve-with-threads')
        expect(result.status == 0, result)
        nothing_left()
    body()
    before = kernel_blocks()
    body()
    expect(kernel_blocks() == before, f'heap (bytes, blocks) {before} before, {debug_memory()[1]} after')


def hidden():
    """Until execve has replaced the memory, the old program's secrets stay its own."""
    before, _ = debug_memory()
    # The states follow each other in a few hundred milliseconds: a late look does not see them all.
    for _ in range(20):
        seen = sees_hidden()
        clean(before, 'hidden')
        if seen:
            break
    expect(seen, 'it is not seen to be hidden, and to be open then')


def sees_hidden():
    """Whether it was seen that a program is hidden, and the next one is not."""
    program = subprocess.Popen([*NOBODY, 'hanare', 'run', '--', STRUCK, 'hidden'])
    folder = f'/proc/{program.pid}'
    was_hidden = seen = False
    end = time.monotonic() + TIMEOUT
    try:
        while program.poll() is None:
            expect(time.monotonic() < end, f'it stays hidden, or is never seen to be: {was_hidden}')
            try:
                seen = was_hidden and os.stat(folder + '/mem').st_uid == 65534
                with open(folder + '/comm') as file:
                    name = file.read().strip()
                was_hidden |= name == 'strike-victim' and os.stat(folder + '/mem').st_uid == 0
            except (FileNotFoundError, ProcessLookupError):
                continue
            if seen:
                expect(name == 'sleep', f'{name} may be looked into')
            if seen or name == 'sleep' and not was_hidden:  # too late, then
                break
    finally:
        program.kill()
        program.wait(TIMEOUT)
    return seen


points = set()


def covered():
    """A check that strikes nowhere would pass: most points have to have been struck."""
    known = set()
    for folder, _, files in os.walk(ROOT + '/kernel/src'):
        for file in files:
            with open(f'{folder}/{file}') as text:
                known.update(re.findall(r'hold::at\("([\w-]+)"\)', text.read()))
    # At other moments, if those were not good ones: a busy machine is late for what it meant to
    # strike.
    for shift, name in itertools.product((0.25, 0.75, 0.1, 0.9, 0.4, 0.6), KINDS):
        if len(points) * 2 >= len(known):
            break
        at_points(name, points, shift)()
    print(f'# struck at {len(points)} of {len(known)} points, not at {sorted(known - points)}', flush=True)
    expect(len(points) * 2 >= len(known), f'struck only at {sorted(points)}')


check('boot-holding', held_boot, lwk=False, prepares=True)
check('crash-during-another-threads-execve', doomed)
with only_long('at-calls-exec, at-calls-thread: no frame is left of an execve or a thread'):
    check('execve-of-any-thread-leaves-no-memory', replaced)
check('old-program-hidden-until-execve-is-over', hidden)
for name in KINDS:
    check(f'at-points-{name}', at_points(name, points))
with only_long('how many points are met is a matter of how often is struck: at-points-* strikes there in make test'):
    check('most-hold-points-were-struck', covered)
finish()
