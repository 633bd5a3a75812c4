"""Calls and functions that programs post (libhanare): on the LWK as on Linux. Utility threads are in guests-threads, guests-waits."""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from users import *

LIBRARY = os.path.join(ROOT, 'build/libhanare')
TESTS = LIBRARY + '/tests'
# A test of the library has so many minutes: all vCPUs together have two CPUs, or less. Those with 65,536 tasks have fewer here.
FACTOR = 5
LINUX_CPUS = {0, 1}


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
    """How long a ring takes is the program's to decide, and nobody else waits for it."""
    # A machine that stands still meanwhile does so in one try and not in the other ones.
    for _ in range(4):
        calls, slowest = beside_a_crowd()
        if calls > 3 and slowest < 5:
            break
    expect(calls > 3 and slowest < 5, f'{calls} programs in 10 s, the slowest {slowest:.1f} s')


def beside_a_crowd():
    """How many programs run beside rings of 10 s, and how long the slowest takes, s."""
    program = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/utility-rung', 'crowd'], stdout=subprocess.PIPE)
    try:
        expect(program.stdout.readline() == b'a thread here\n' and program.stdout.readline() == b'begins\n', 'does not begin')
        calls, slowest = 0, 0
        while program.poll() is None:
            begun = time.monotonic()
            expect(run('/bin/true').status == 0, 'no program runs beside it')
            calls, slowest = calls + 1, max(slowest, time.monotonic() - begun)
        expect(program.stdout.read() == b'rang\n', 'it could not ring')
        print(f'# beside a crowd: {calls} programs, the slowest {slowest:.1f} s', flush=True)
        return calls, slowest
    finally:
        program.kill()
        program.wait()


def library():
    """All tests of the library in one run, as on Linux (tests/host.sh)."""
    if not ONLY.search('library'):
        return
    result = command(['hanare', 'run', '--', TESTS], timeout=60 * FACTOR * 4, env=dict(os.environ, HANARE_TEST_FACTOR=str(FACTOR), HANARE_TEST_TASKS='4096'))
    lines = re.findall(r'^(ok|FAIL) (\w+)(?:: (.*))?$', result.out.decode(errors='replace'), re.M)
    for kind, name, why in lines:
        verdict(kind, 'library-' + name, why)
    check('library-ends', lambda: expect(result.status == 0 and lines, f'{result}'))


def unchanged_programs():
    """Programs with and without `--async`, on the LWK: what can be seen of them is the same."""
    if not ONLY.search('async'):
        return
    argv = [ROOT + '/libhanare/async/tests/run', '--launch', 'hanare run --', '--deadline', '120', '--seeds', '4', 'sequences', 'sockets', 'replies',
            'faults', 'starts', 'kinds']
    result = command(argv, timeout=1200)
    for kind, name, why in re.findall(r'^(ok|FAIL) ([^:\n]+)(?:: (.*))?$', result.out.decode(errors='replace'), re.M):
        verdict(kind, 'async-' + name.replace(' ', '-'), why)
    check('async-ends', lambda: expect(result.status == 0 and b'ok' in result.out, f'{result}'))


def forged_registers():
    """Proxies give threads that were to execute on Linux back with registers that nobody had: they harm their programs alone."""
    forged_proxies_harm_nobody('registers', 20, {'threads to execute': 30})


def leaves_nothing():
    nothing_left()


start('--cpus', '2-3', '--mem', '1G')
check('a-utility-thread-executes-on-linux', where)
check('a-thread-is-rung-by-its-eventfd', rung)
check('rings-in-a-crowd-hold-nobody-up', rings_in_a_crowd)
library()
unchanged_programs()
check('forged-registers-harm-nobody', forged_registers)
check('nothing-is-left', leaves_nothing)
finish()
