"""Attack programs (tests/attack) as the groups `attack` and `fuzz` run them."""

import concurrent.futures
import os

from harness import GUEST, TIMEOUT, WORK, command, debug_memory, expect, fresh, healthy, kernel_log_since, lwk_memory_is
from users import AS_USER, Bystander, kill_all

# By what they are about: words of locks, files of /proc, limits, mappings in the place of others,
# tracees.
PROGRAMS = ['attack-pi-words', 'attack-onlookers', 'attack-limits', 'attack-replaced', 'attack-follower']
# Those that may do what they do with a filter of system calls, too.
CONFINED = ['attack-pi-words', 'attack-limits', 'attack-replaced']


def argv(kind, name, seconds, seed):
    program = [f'{GUEST}/{name}', str(seconds), str(seed)]
    return {
        'program': [*AS_USER, 'hanare', 'run', '--', *program],
        'confined': [*AS_USER, 'hanare', 'run', '--', *program, 'confined'],
        'container': [*AS_USER, 'unshare', '--user', '--map-root-user', 'hanare', 'run', '--', *program],
        'forged': [*AS_USER, f'{GUEST}/module-forged', 'serve', *program],
    }[kind]


def beside(name, seconds, seed):
    """A process of Linux' looks at one of the user's programs after the other."""
    said = []
    for number in range(max(1, seconds // 2)):
        pids = command(['pgrep', '-u', AS_USER[1].split('=')[1], name[:15]]).out.split()
        if not pids:
            break
        looked = command([*AS_USER, f'{GUEST}/{name}', '2', str(seed + number), 'look', pids[-1].decode()])
        expect(looked.status == 0, looked)
        said.append(looked.out)
    return said


def attacked(programs, seconds, seed, may_be_late=False):
    """Runs attack programs at once, each as its kind of user; then all is as it was. `may_be_late`: more of them end at
    once than an emulated machine ends in time."""
    def one(number):
        name, kind = programs[number]
        if kind == 'linux':
            return beside(name, seconds, seed)
        return command(argv(kind, name, seconds, seed + number), timeout=seconds + TIMEOUT, cwd=WORK + '/attack')

    def body():
        before, _ = debug_memory()
        fresh(WORK + '/attack')
        os.chmod(WORK + '/attack', 0o777)
        with Bystander() as bystander:
            with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
                results = list(pool.map(one, range(len(programs))))
            kill_all()
        for result, (name, kind) in zip(results, programs):
            if kind == 'linux':
                continue
            print(f'# {name}: ' + result.out.decode(errors='replace').strip().replace('\n', ', '), flush=True)
            expect(result.status == 0 and b'seed' in result.out, f'{name}: {result}')
        bystander.is_well()
        said = kernel_log_since(0)
        expect(may_be_late or 'is not closed after' not in said, said[-500:])
        lwk_memory_is(before)
        expect(healthy(), 'nothing runs any more')
    return body
