import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

BAD, GOOD = (['/usr/bin/setpriv', f'--reuid={uid}', f'--regid={uid}', '--groups=hanare', '/bin/sh', '-c', 'exec "$@"', 'sh']
             for uid in (65534, 65533))
STALE = GUEST + '/module-stale-real'
PROGRAM = GUEST + '/static/stale2'


def stale():
    bad = subprocess.Popen([*BAD, STALE, PROGRAM, 'attacker'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = b''
    while b'freed' not in said:
        line = bad.stdout.readline()
        if not line:
            break
        said += line
    print('#', said, flush=True)
    expect(b'freed' in said, said)
    good = subprocess.Popen([*GOOD, 'hanare', 'run', PROGRAM, 'victim'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print('#', good.stdout.readline(), flush=True)
    bad.stdin.write(b'x')
    bad.stdin.flush()
    out = bad.stdout.read()
    print('# RESULT', out, bad.wait(60), flush=True)
    good.kill()
    good.wait()


def stale_write():
    bad = subprocess.Popen([*BAD, STALE, PROGRAM, 'writer', '700'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    said = b''
    while b'forked' not in said:
        line = bad.stdout.readline()
        if not line:
            break
        said += line
    print('#', said, debug_memory()[1], flush=True)
    expect(b'forked' in said, said)
    print('#', debug_memory()[1], flush=True)
    good = subprocess.Popen([*GOOD, 'hanare', 'run', PROGRAM, 'victim'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print('#', good.stdout.readline(), flush=True)
    bad.stdin.write(b'x')
    bad.stdin.flush()
    print('# RESULT', bad.stdout.readline(), flush=True)
    good.stdin.write(b'x')
    good.stdin.flush()
    print('# RESULT', good.stdout.read(), good.wait(200), flush=True)
    os.killpg(bad.pid, signal.SIGKILL)
    bad.wait()


def simple(limit, *argv):
    def body():
        result = command([*BAD, *argv], timeout=limit)
        print('# RESULT', argv, result, result.out[-600:], flush=True)
        print('# LOG', log_tail(6), flush=True)
    return body



def holds(uid, cpu, *arguments):
    return subprocess.Popen(['/usr/bin/setpriv', f'--reuid={uid}', f'--regid={uid}', '--groups=hanare', '/bin/sh', '-c',
                             'exec "$@"', 'sh', 'hanare', 'run', '--cpus', cpu, PROGRAM, 'hold', *map(str, arguments)],
                            stdout=subprocess.PIPE)


def states(**who):
    return {name: process.poll() for name, process in who.items()}


def nodes(victims_on_1, threads):
    def body():
        mib = 256
        v = holds(65531, '1', 200 * mib, victims_on_1, 1 if victims_on_1 else 0)
        print('#', v.stdout.readline(), flush=True)
        w = holds(65532, '4', 0, 150 * mib, 1)
        print('#', w.stdout.readline(), flush=True)
        cpus = '1,4' if threads > 1 else '4'
        a = holds(65534, cpus, 0, 180 * mib, threads)
        end = time.monotonic() + 60
        last = None
        while time.monotonic() < end and a.poll() is None:
            now = states(victim=v, neighbour=w, attacker=a)
            if now != last:
                print('# RESULT', now, debug_memory()[1][:60], flush=True)
                last = now
            if now['victim'] is not None:
                break
            time.sleep(0.05)
        print('# RESULT', states(victim=v, neighbour=w, attacker=a), flush=True)
        print('# LOG', log_tail(8), flush=True)
        for process in v, w, a:
            process.kill()
            process.wait()
    return body




start('--cpus', '2,5', '--mem', '256M@0', '--option', 'exec=local')
hanare('shutdown', '--force')
boot('--cpus', '2,5', '--mem', '256M@0', '--option', 'exec=local', '--option', 'hold_ms=1500')
for _ in range(2):
    check('stale-write', stale_write)
hanare('shutdown', '--force')
boot('--cpus', '2,5', '--mem', '256M@0', '--option', 'exec=local')
check('stale', stale)
hanare('shutdown', '--force')
shutil.copy(f'{ROOT}/build/lwk/hanare-lwk-checked', f'{WORK}/checked')
os.environ['HANARE_IMAGE'] = f'{WORK}/checked'
boot('--cpus', '2,5', '--mem', '256M@0', '--option', 'exec=local')
check('migrate', simple(60, STALE, PROGRAM, 'migrate'))
print('# done', flush=True)
