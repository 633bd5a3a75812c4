"""Calls and functions that programs post (libhanare): on the LWK as on Linux. Utility threads are in guests-threads, guests-waits."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from users import *

LIBRARY = os.path.join(ROOT, 'build/libhanare')
TESTS = LIBRARY + '/tests'
# A test of the library has so many minutes: all vCPUs together have two CPUs, or less. Those with
# 65,536 tasks have fewer here.
FACTOR = 5
LINUX_CPUS = {0, 1}
# So many programs run beside rings, and as many epoll items as the square of CROWD look at each
# ring. In `make test` a ring has fewer to tell, which still takes it many times as long as a call
# of a program that would wait for it.
BESIDE, CROWD = (30, 250) if TIER == 'long' else (6, 120)
# Tasks of library tests with many. A queue has 256 credits, which 512 tasks use up twice, and each
# crash comes a dozen times.
TASKS = 4096 if TIER == 'long' else 512
# Those of odd seeds are made with a slow worker, with which most is still posted when the other
# side looks. The sequence of seed 5 posts hundreds of writes.
FIRST, SEEDS = (1, 4) if TIER == 'long' else (5, 1)

LIBRARY_LATER = {'posting_and_picking_up_take_few_instructions': 'the host counts the same instructions',
                 'the_signal_can_be_chosen_before_the_first_queue': 'a_call_that_waits_is_interrupted does the same by another signal'}
ASYNC_LATER = {
    **{f'reply-told-{how}': 'reply-told-epoll shows it by another call' for how in ('poll', 'read', 'name', 'select')},
    **{f'reply-{case}': 'the host shows it, where the library is the same; reply-half and reply-full show replies on the LWK'
       for case in ('self', 'cancelled')},
    **{f'reply-whose-error-comes-late,-then-{call}': 'the same with read' for call in ('write', 'option')},
    **{case: 'the host shows it, where the library is the same; threads, handlers, rights and limit show it on the LWK'
       for case in ('jumps', 'descriptors')},
    **{f'unknown-kind-{kinds}': 'unknown-kind-foo shows it' for kinds in ('write,raed,report', 'foo,bar')},
    **{f"known-kinds-'{kinds}'": "known-kinds-'write' shows it" for kinds in ('', 'all,socket,slow,report')},
}


def where():
    """A utility thread executes on a CPU of Linux', until it comes back."""
    out = run(f'{GUEST}/static/utility-threads', 'where').out.decode()
    found = re.fullmatch(r'on Linux: 1, on CPU (\d+)\non Linux: 0\n', out)
    expect(found and int(found.group(1)) in LINUX_CPUS, out)


def rung():
    """Threads of the LWK ring those that sleep on Linux, and no others."""
    expected = ['rings', 'not a thread of another process', 'not nobody', 'not who has no eventfd', 'not by a pipe', 'not by what is not open',
                'still not', 'not a thread there without one', 'a thread here', 'rings that come together may be one', 'each ring that comes alone is there', 'too many are refused',
                'one that was closed', 'none any more', 'not rung without',
                'rung asleep', 'not here', 'each was seen', 'it slept', 'interrupted, and rung', 'a ring that comes before counts']
    for how, status in ('exit', 0x700), ('execve', 0x100), ('SIGSEGV', 0xb), ('SIGKILL', 0x9):
        expected += ['rung asleep', 'not here', how, f'status {status:#x}']
    result = run(f'{GUEST}/static/utility-rung', 'lwk')
    expect(result.status == 0 and result.out.decode().splitlines() == expected, f'{result}')


def rings_in_a_crowd():
    """How long a ring takes is the program's to decide, and no other program waits for it."""
    # A machine that stands still meanwhile does so in one try and not in the other ones.
    for _ in range(4):
        slowest = beside_a_crowd()
        if slowest < 5:
            break
    expect(slowest < 5, f'the slowest of {BESIDE} programs takes {slowest:.1f} s')


def beside_a_crowd():
    """How long the slowest of some programs takes beside a program that rings all the while, s."""
    program = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/utility-rung', 'crowd', str(CROWD)], stdout=subprocess.PIPE)
    try:
        expect(program.stdout.readline() == b'a thread here\n' and program.stdout.readline() == b'begins\n', 'does not begin')
        slowest = 0
        for _ in range(BESIDE):
            begun = time.monotonic()
            expect(run('/bin/true').status == 0, 'no program runs beside it')
            slowest = max(slowest, time.monotonic() - begun)
        expect(program.poll() is None, 'it has ended before')
        program.terminate()
        expect(program.stdout.read() == b'rang\n', 'it could not ring')
        return slowest
    finally:
        program.kill()
        program.wait()


def streamed(argv, take, timeout, environment):
    """Runs a command, and gives each line of its output to `take` as it comes."""
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=environment,
                                   start_new_session=True)
        late = []

        def end():
            late.append(waits())
            os.killpg(process.pid, signal.SIGKILL)
        timer = threading.Timer(timeout, end)
        timer.start()
        out = []
        for line in process.stdout:
            out.append(line)
            take(line.decode(errors='replace').rstrip('\n'))
        process.wait()
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await_end_of_group(process.pid)
        err.seek(0)
        return Result(process.returncode, b''.join(out), err.read(), late[0] if late else None)


def several(label, names, later, execute):
    """Checks that one command makes, in one run. `execute(names, take)` runs it for those names, and returns its Result; those in
    `later` are left to `make test-long`. What fails is run again, alone."""
    wanted = []
    for name in names:
        with only_long(later[name]) if name in later else contextlib.nullcontext():
            if chosen(f'{label}-{name}'):
                wanted.append(name)
    failed, seen, clock = {}, set(), [time.monotonic()]

    def take(line):
        match = re.match(r'(ok|FAIL) ([^:]+?)(?:: (.*))?$', line)
        name = match and match[2].replace(' ', '-')
        if not match or name not in wanted or name in seen:
            return
        seen.add(name)
        print(f'# {time.monotonic() - clock[0]:6.1f} s {label}-{name}', flush=True)
        clock[0] = time.monotonic()
        if match[1] == 'ok':
            verdict('ok', f'{label}-{name}')
        else:
            failed[name] = match[3] or 'no reason given'
    results = [execute(wanted, take)] if wanted else []
    failed.update({name: f'no verdict: {results[0]}' for name in wanted if name not in seen})
    for name, why in failed.items():
        if results[0].err:
            why += f'; stderr: {short(results[0].err[-400:])}'
        why += '' if healthy() else '; ' + recover()

        def once_more(line, name=name):
            if line.replace(' ', '-') == f'ok-{name}':
                passed.append(line)
        passed = []
        if TRIES > 1:
            say('again', f'{label}-{name}', why)
            execute([name], once_more)
        if passed:
            verdict('unstable', f'{label}-{name}', 'failed once')
        else:
            verdict('FAIL', f'{label}-{name}', why)

    def ends():
        """The command ends by itself, and its status says whether a check has failed."""
        result = results.pop() if results else execute([name for name in names if name not in later or TIER == 'long'], lambda line: None)
        bad = re.search(rb'^FAIL ', result.out, re.M)
        expect(not result.late and result.status == (1 if bad else 0) and re.search(rb'^ok ', result.out, re.M), f'{result}')
    check(f'{label}-ends', ends)


def library():
    """All tests of the library in one run, as on Linux (tests/host.sh)."""
    def execute(names, take):
        return streamed(['hanare', 'run', '--', TESTS, *names], take, 60 * FACTOR * 4,
                        dict(os.environ, HANARE_TEST_FACTOR=str(FACTOR), HANARE_TEST_TASKS=str(TASKS)))
    names = command([TESTS, '--list']).out.decode().split()
    expect(len(names) > 50, names)
    several('library', names, LIBRARY_LATER, execute)


def unchanged_programs():
    """Programs with and without `--async`, on the LWK: what can be seen of them is the same."""
    argv = [ROOT + '/libhanare/async/tests/run', '--launch', 'hanare run --', '--deadline', '120', '--first', str(FIRST), '--seeds', str(SEEDS), '--programs', GUEST + '/async']
    kinds = ['sequences', 'sockets', 'replies', 'faults', 'rights', 'starts', 'kinds']
    spelled = command([*argv, '--list', *kinds]).out.decode().splitlines()
    expect(len(spelled) > 20, spelled)

    def execute(names, take):
        checks = '\n'.join(name for name in spelled if name.replace(' ', '-') in names)
        return streamed([*argv, '--checks', checks, *kinds], take, 1200, os.environ)
    several('async', [name.replace(' ', '-') for name in spelled], ASYNC_LATER, execute)


def forged_registers():
    """Proxies give threads that were to execute on Linux back with registers that no thread had: they harm their programs alone."""
    # Further seeds follow until so many have been tried.
    forged_proxies_harm_nobody('registers', 20 if TIER == 'long' else 5, {'threads to execute': 30})


def leaves_nothing():
    nothing_left()


start('--cpus', '2-3', '--mem', '1G')
check('a-utility-thread-executes-on-linux', where)
check('a-thread-is-rung-by-its-eventfd', rung)
check('rings-in-a-crowd-hold-up-no-other-program', rings_in_a_crowd)
library()
unchanged_programs()
check('forged-registers-harm-no-other-program', forged_registers)
check('nothing-is-left', leaves_nothing)
finish()
