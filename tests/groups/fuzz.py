"""Nonsense from user mode: system calls and instructions on the LWK, ioctls of the module, forged
proxies, all by a user without rights. No panic, no oops, nothing leaked, nothing gained, and no harm
to another user's program.

TESTS_FUZZ_SECONDS (120) says how long system calls last in all, and forged proxies again; TESTS_FUZZ_SEED
where they begin."""

import concurrent.futures
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

SECONDS = int(os.environ.get('TESTS_FUZZ_SECONDS') or 120)
SEED = int(os.environ.get('TESTS_FUZZ_SEED') or 1)
AT_ONCE = 4  # programs: what one does while another one ends finds most
USER = 65533  # nobody else's, so that all its processes may be killed
OTHER = 65532  # another one, who is not to notice anything
AS_USER, AS_OTHER = (['/usr/bin/setpriv', f'--reuid={uid}', f'--regid={uid}', '--groups=hanare'] for uid in (USER, OTHER))
FORGED = GUEST + '/module-forged'
PROXIES = 2  # forged ones at once


def kill_all():
    """Every process of the user, until there is none."""
    end = time.monotonic() + TIMEOUT
    while True:
        left = [pid for pid in filter(str.isdigit, os.listdir('/proc'))
                if owner(f'/proc/{pid}') == USER]
        if not left:
            return
        expect(time.monotonic() < end, f'processes that cannot be killed: {left}')
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.1)


def owner(path):
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


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


class Bystander:
    """Programs of another user's, which have to give the right output all the while: one that lives as long
    as that, and makes processes, and short ones."""

    stop = WORK + '/stop'
    line = 'seq 1 300 | sort -r | cksum'

    def __enter__(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.stop)
        self.wanted = command(['/bin/sh', '-c', self.line]).out
        expect(len(self.wanted.split()) == 2, self.wanted)
        self.whys, self.lines, self.ends = [], 0, 0
        self.threads = [threading.Thread(target=self.watch, args=(body,)) for body in (self.long, self.short)]
        for thread in self.threads:
            thread.start()
        return self

    def watch(self, body):
        try:
            body()
        except Exception as error:
            self.whys.append(str(error))

    def long(self):
        loop = f'while [ ! -e {self.stop} ]; do {self.line}; sleep 0.3; done'
        result = command([*AS_OTHER, 'hanare', 'run', '--', '/bin/sh', '-c', loop], timeout=None)
        lines = result.out.splitlines(keepends=True)
        self.lines = len(lines)
        wrong = [line for line in lines if line != self.wanted]
        expect(result.status == 0 and lines and not wrong and not result.err, f'{len(wrong)} wrong lines: {wrong[:2]}, {result}')

    def short(self):
        while not os.path.exists(self.stop):
            result = command([*AS_OTHER, 'hanare', 'run', '--', GUEST + '/static/hello'])
            expect(result.status == 0 and result.out == b'hello\n' and not result.err, result)
            self.ends += 1
            time.sleep(0.5)

    def __exit__(self, *_):
        open(self.stop, 'w').close()
        for thread in self.threads:
            thread.join()

    def is_well(self):
        expect(not self.whys, f'a program of another user\'s was harmed: {self.whys}')
        print(f'# programs of another user\'s: {self.lines} lines, {self.ends} short ones, all right', flush=True)


def serves(*argv):
    """The proxy that is to lie can do without."""
    def body():
        linux, forged = (command([*launch, *argv], timeout=25, cwd=folder()) for launch in ([], [FORGED, 'serve']))
        expect(linux.status == 0, f'test broken, on Linux: {linux}')
        expect(forged.status == 0 and not difference(linux.out, forged.out), f'{difference(linux.out, forged.out)}, {forged}')
    return body


def forged_proxies(first, seconds):
    """Proxies that lie, and one whose window somebody writes into; then all is as it was."""
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


start('--cpus', '2-3', '--mem', '1G')
check('random-ioctls-harm-nobody', ioctls(SEED))
check('random-ioctls-harm-nobody-other-seed', ioctls(SEED + 1))
rounds = max(1, SECONDS // 30)
for number in range(rounds):
    check(f'system-calls-{number}', system_calls(SEED + 10000 * number, SECONDS // rounds))
for name in 'hello', 'children-rusage', 'clone-flags', 'vfork-shares-memory', 'mremap-and-brk':
    check(f'forged-serves-{name}', serves(f'{GUEST}/static/{name}'))
for number in range(rounds):
    check(f'forged-proxies-{number}', forged_proxies(SEED + 10000 * number, SECONDS // rounds))
finish()
