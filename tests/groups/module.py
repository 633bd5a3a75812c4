"""The module by its ioctls alone, well-formed and not."""

import array
import ctypes
import os
import random
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

TOOL = GUEST + '/module-boot'


def tool(*arguments, status=0):
    result = command([TOOL, *arguments], timeout=60)
    expect(result.status == status and not result.late, f'{arguments}: {result}')
    return result


def by_hand():
    tool('up', 'hand', '2,3', '64', WORK + '/hanare-lwk')
    said = tool('status', 'hand').out
    expect(b'chunks' in said and b'cpu 2' in said and b'cpu 3' in said, said)
    expect(b'Hanare LWK' in tool('log', 'hand').out, 'no log')
    tool('down', 'hand')
    tool('status', 'hand', status=1)


def given_back_on_close():
    """A process that made an instance and took CPUs, and died before booting, leaves nothing."""
    result = command([TOOL, 'up', 'half', '2,3', '64', '/bin/ls'])
    expect(result.status == 1, result)
    with open('/sys/devices/system/cpu/online') as file:
        expect(file.read().strip() == '0-3', 'CPUs are missing')
    expect(b'half' not in hanare('ls').out, 'the instance is still there')


def nonsense(seed):
    def body():
        result = command([GUEST + '/module-fuzz', '20000', str(seed)], timeout=240)
        expect(result.status == 0, result)
        with open('/sys/devices/system/cpu/online') as file:
            online = file.read().strip()
        expect(online == wanted, f'CPUs online: {online}, not {wanted}')
        expect(b'fuzz' not in hanare('ls').out, 'an instance was left behind')
    return body


HOSTILE = GUEST + '/module-hostile'
SYS_PIDFD_GETFD = 438


def hostile(how):
    """One that says how it went."""
    def body():
        result = command([HOSTILE, 'default', how], timeout=30)
        expect(result.out == b'ended\n', result)
    return body


def hostile_at_shutdown(how):
    """One that goes on until it is killed: not at the cost of who shuts down."""
    def body():
        process = subprocess.Popen([HOSTILE, 'default', how], stdout=subprocess.PIPE,
                                   start_new_session=True)
        try:
            said = process.stdout.readline()
            expect(said == b'ready\n', said)
            hanare('shutdown', '--force', timeout=60)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        boot()
    return body


def users():
    """Open files of the module's, and what else keeps it."""
    with open('/sys/module/hanare/refcnt') as file:
        return int(file.read())


def descriptor_of(pid):
    """A copy of the proxy's own, as the proxy could send it."""
    number = next(int(fd) for fd in os.listdir(f'/proc/{pid}/fd')
                  if os.readlink(f'/proc/{pid}/fd/{fd}') == '/dev/hanare')
    handle = os.pidfd_open(pid)
    copy = ctypes.CDLL(None).syscall(SYS_PIDFD_GETFD, handle, number, 0)
    os.close(handle)
    expect(copy >= 0, 'no descriptor')
    return copy


def cycle():
    """A socket that the space keeps has the space's own descriptor in a message."""
    before = users()
    for _ in range(30):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        process = subprocess.Popen(['hanare', 'run', '--', HOSTILE, '-', 'map'], stdin=its,
                                   stdout=subprocess.PIPE)
        expect(process.stdout.readline() == b'ready\n', 'not ready')
        copy = descriptor_of(process.pid)
        ours.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [copy]))])
        os.close(copy)
        ours.close()
        its.close()
        time.sleep(random.uniform(0, 0.01))
        process.kill()
        process.wait(20)
    for _ in range(50):
        after = users()
        if after == before:
            return
        time.sleep(0.1)
    raise Failure(f'{before} users of the module before, {after} after')


def forks():
    result = command([GUEST + '/module-fork', 'default'], timeout=120)
    expect(result.status == 0, result)


start()
check('by-hand', by_hand, lwk=False)
check('given-back-on-close', given_back_on_close, lwk=False)
wanted = '0-3'
check('nonsense', nonsense(1), lwk=False)
boot('--cpus', '2-3', '--mem', '64M')
wanted = '0-1'
check('nonsense-beside-an-lwk', nonsense(2))
check('fork', forks)
check('hostile-kept', hostile('kept'))
check('hostile-memory', hostile('memory'))
check('hostile-moved', hostile('moved'))
check('hostile-cycle', cycle)
check('hostile-shared', hostile_at_shutdown('shared'))
check('hostile-copied', hostile_at_shutdown('copied'))
finish()
