"""Nonsense from user mode: system calls and instructions on the LWK, ioctls of the module, forged
proxies, all by a user without rights. No panic, no oops, nothing leaked, nothing gained, and no harm
to another user's program.

TESTS_FUZZ_SECONDS (20 in `make test`, 240 in `make test-long`) says how long system calls last in all, and forged proxies
again; TESTS_FUZZ_SEED where they begin."""

import concurrent.futures
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from attacks import PROGRAMS, attacked
from harness import *
from users import *

SECONDS = int(os.environ.get('TESTS_FUZZ_SECONDS') or (240 if TIER == 'long' else 20))
SEED = int(os.environ.get('TESTS_FUZZ_SEED') or 1)
AT_ONCE = 4  # programs: what one does while another one ends finds most
FORGED = GUEST + '/module-forged'
PROXIES = 2  # forged ones at once


def folder(name=''):
    path = f'{WORK}/fuzz{name}'
    fresh(path)
    os.chmod(path, 0o777)
    return path


def system_calls(first, seconds):
    """Some seconds of random calls; then the LWK is as it was."""
    def one(number):
        seed = first + 1000 * number
        return command([*AS_USER, 'hanare', 'run', '--', GUEST + '/static/fuzz', str(seconds), str(seed)],
                       timeout=seconds + TIMEOUT, cwd=folder(number))

    def body():
        before, _ = debug_memory()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(one, range(AT_ONCE)))
        kill_all()
        for result in results:
            expect(result.status == 0 and b'to seed' in result.out, result)
            print('# ' + result.out.decode().strip().replace('\n', ', '), flush=True)
        lwk_memory_is(before)
        expect(healthy(), 'nothing runs any more')
    return body


def ioctls(seed):
    """The module's ioctls by a user who may only run programs."""
    def body():
        before, _ = debug_memory()
        with open('/sys/devices/system/cpu/online') as file:
            online = file.read()
        result = command([*AS_USER, GUEST + '/module-fuzz', '40000', str(seed)], cwd=folder())
        kill_all()
        expect(result.status == 0, result)
        with open('/sys/devices/system/cpu/online') as file:
            expect(file.read() == online, 'a CPU went on or off')
        lwk_memory_is(before)
        expect(healthy(), 'nothing runs any more')
    return body


def serves(*argv):
    """The proxy that is to lie can do without."""
    def body():
        linux, forged = (command([*launch, *argv], cwd=folder()) for launch in ([], [FORGED, 'serve']))
        expect(linux.status == 0, f'test broken, on Linux: {linux}')
        expect(forged.status == 0 and not difference(linux.out, forged.out), f'{difference(linux.out, forged.out)}, {forged}')
    return body


def pretends():
    """A proxy writes into all its slots that their worker is a task of another user. No call takes that for an id. Nor
    does the module take an id of a process that shares the proxy's memory, and that the LWK does not know."""
    env = f'FORGED_TID={os.getpid()}'
    forged = command([*AS_USER, 'env', env, FORGED, 'serve', GUEST + '/static/own-ids'], cwd=folder())
    expect(forged.status == 0 and forged.out == b'own ids\n', forged)


def forged_proxies(first, seconds):
    """Proxies that lie, and one whose window another process writes into; then all is as it was."""
    def one(number):
        seed, late = first + 1000 * number, seconds + TIMEOUT
        if number < PROXIES:
            argv = [FORGED, str(seconds), str(seed), GUEST + '/static']
        elif number == PROXIES:
            argv = [FORGED, 'corrupt', str(seconds), str(seed)]
        else:
            # What is written into its window may have it wait for ever.
            argv, late = ['hanare', 'run', '--', GUEST + '/static/fuzz', str(seconds), str(seed)], seconds
        return command([*AS_USER, *argv], timeout=late, cwd=folder(number))

    def body():
        before, _ = debug_memory()
        with open('/sys/devices/system/cpu/online') as file:
            online = file.read()
        with Bystander() as bystander:
            with concurrent.futures.ThreadPoolExecutor(PROXIES + 2) as pool:
                results = list(pool.map(one, range(PROXIES + 2)))
            kill_all()
        for result in results:
            print('# ' + result.out.decode(errors='replace').strip().replace('\n', '\n# '), flush=True)
        for result in results[:-1]:  # the last one's proxy was written into
            expect(result.status == 0 and b'seed' in result.out, result)
        bystander.is_well()
        said = kernel_log_since(0)
        expect('is not closed after' not in said, said[-500:])
        with open('/sys/devices/system/cpu/online') as file:
            expect(file.read() == online, 'a CPU went on or off')
        lwk_memory_is(before)
        print('# ' + debug_memory()[1], flush=True)
        expect(healthy(), 'nothing runs any more')
    return body


# Rounds of half a minute: what goes wrong is reported with the seed of one. Four of them have names
# in each tier.
ROUNDS = max(4, SECONDS // 30)
TOOK = SECONDS // ROUNDS if TIER == 'long' else SECONDS


def rounds(name, body):
    check(f'{name}-0', body(SEED, TOOK))
    with only_long(f'{name}-0: the same with other seeds'):
        for number in range(1, ROUNDS):
            check(f'{name}-{number}', body(SEED + 10000 * number, TOOK))


start('--cpus', '2-3', '--mem', '1G')
# Each for longer, in each of its kinds: group `attack`.
check('attacks', attacked([(name, 'program') for name in PROGRAMS], 2, SEED))
check('random-ioctls-do-no-harm', ioctls(SEED))
with only_long('random-ioctls-do-no-harm: the same with another seed'):
    check('random-ioctls-do-no-harm-other-seed', ioctls(SEED + 1))
rounds('system-calls', system_calls)
check('forged-serves-children-rusage', serves(GUEST + '/static/children-rusage'))
check('forged-serves-clone-flags', serves(GUEST + '/static/clone-flags'))
check('forged-proxy-has-its-own-ids', pretends)
with only_long('forged-serves-children-rusage, -clone-flags: children and threads of the same proxy'):
    for name in 'hello', 'vfork-shares-memory', 'mremap-and-brk':
        check(f'forged-serves-{name}', serves(f'{GUEST}/static/{name}'))
rounds('forged-proxies', forged_proxies)
# A name that random calls know: of a file, or of a directory.
shutil.rmtree('/dev/shm/x', ignore_errors=True)
with contextlib.suppress(FileNotFoundError):
    os.remove('/dev/shm/x')
finish()
