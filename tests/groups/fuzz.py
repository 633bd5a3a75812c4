"""Nonsense from user mode: system calls and instructions on the LWK, ioctls of the module, both
by a user without rights. No panic, no oops, nothing leaked, nothing gained.

TESTS_FUZZ_SECONDS (120) says how long in all, TESTS_FUZZ_SEED where it begins."""

import concurrent.futures
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

SECONDS = int(os.environ.get('TESTS_FUZZ_SECONDS') or 120)
SEED = int(os.environ.get('TESTS_FUZZ_SEED') or 1)
AT_ONCE = 4  # programs: what one does while another one ends finds most
USER = 65533  # nobody else's, so that all its processes may be killed
AS_USER = ['/usr/bin/setpriv', f'--reuid={USER}', f'--regid={USER}', '--groups=hanare']


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


start('--cpus', '2-3', '--mem', '1G')
check('ioctls', ioctls(SEED))
check('ioctls-other-seed', ioctls(SEED + 1))
rounds = max(1, SECONDS // 30)
for number in range(rounds):
    check(f'system-calls-{number}', system_calls(SEED + 10000 * number, SECONDS // rounds))
finish()
