"""A control group's memory.max binds what its programs have of an instance."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

ROOT_GROUP = '/sys/fs/cgroup'
CHARGED, EAT, HELLO = (f'{GUEST}/static/{name}' for name in ('cgroup-charges', 'eat-memory', 'hello'))
# The module looks at the limits once a second; the machine may be slow.
SEEN = 4


class Group:
    """A control group with a limit in MiB, or 'max'; gone with the block, and so are its processes."""

    def __init__(self, limit, name='limited'):
        self.path = f'{ROOT_GROUP}/{name}'
        os.makedirs(self.path)
        self.limit(limit)

    def write(self, file, text):
        with open(f'{self.path}/{file}', 'w') as to:
            to.write(text)

    def limit(self, limit):
        self.write('memory.max', f'{limit}M' if limit != 'max' else limit)

    def take(self, pid):
        self.write('cgroup.procs', str(pid))

    def argv(self, *argv):
        return ['/bin/sh', '-c', 'echo $$ > $0/cgroup.procs && exec hanare run -- "$@"', self.path, *argv]

    def run(self, *argv, **more):
        """Runs a program on the LWK, in the group from its start."""
        return command(self.argv(*argv), **more)

    def grower(self, *mib):
        return Grower(self.argv(CHARGED, 'grows'), *mib)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        def removed():
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
            return not os.path.exists(self.path)
        self.write('cgroup.kill', '1')
        until(removed, f'{self.path} has nobody any more')


class Grower:
    """A program that takes as many MiB as it is told; killed with the block."""

    def __init__(self, argv, *mib):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.has = 0
        for more in mib:
            expect(self.grow(more), f'it may not have {more} MiB; {log_tail()}')

    def grow(self, mib):
        """False: it was killed."""
        self.has += mib
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f'{mib}\n'.encode())
            self.process.stdin.flush()
        said = self.process.stdout.readline()
        expect(said in (b'', f'{self.has} MiB\n'.encode()), said)
        return said != b''

    def lives(self):
        return self.process.poll() is None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)


def is_killed(result):
    """Killed for its group's limit, and told."""
    expect(result.status in (-9, 137), f'{result}; {log_tail()}')
    expect(b'its control group has all the memory that it may have' in result.err, result)
    expect('its control group has' in log_tail(8), log_tail(8))


def beyond():
    """100 MiB in a group of 16: killed; 8 MiB: not; and not outside of it."""
    before, _ = debug_memory()
    with Group(16) as group:
        is_killed(group.run(EAT, '100'))
        expect(group.run(EAT, '8').status == 0, 'beneath the limit')
        expect(run(EAT, '40').status == 0, 'outside of the group')
        is_killed(group.run(EAT, 'read', '100'))
    lwk_memory_is(before)


def others_live():
    """Who has most in the group is killed, nobody outside of it, however much he has."""
    with Group(24) as group, Grower(['hanare', 'run', '--', CHARGED, 'grows'], 48) as outside, group.grower(12) as large:
        result = group.run(EAT, '20')
        expect(not large.grow(1) or result.status != 0, 'both have what they want')
        expect(outside.lives() and outside.grow(4), 'who is not in the group is killed')
    with Group(24) as group, group.grower(16) as large:
        result = group.run(EAT, '10')
        expect(result.status == 0, f'the small one is killed: {result}; {log_tail()}')
        expect(not large.grow(1), 'the large one lives')


def shared_once():
    """What forks share is charged once; copies are charged, too."""
    before, _ = debug_memory()
    with Group(24) as group:
        result = group.run(CHARGED, 'forks', '12', '5')
        expect((result.status, result.out) == (0, b'0 failed\n'), f'{result}; {log_tail()}')
        result = group.run(CHARGED, 'copies', '12', '5')
        expect((result.status, result.out) != (0, b'0 failed\n'), result)
        expect('its control group has' in log_tail(8), log_tail(8))
    lwk_memory_is(before)


def above():
    """The limits above a group bind it, too."""
    with Group(24, 'limited') as top:
        top.write('cgroup.subtree_control', '+memory')
        with Group('max', 'limited/a') as a, Group(12, 'limited/b') as b:
            is_killed(b.run(EAT, '14'))
            is_killed(a.run(EAT, '26'))
            with a.grower(14) as large:
                result = b.run(EAT, '10')
                expect(result.status == 0, f'{result}; {log_tail()}')
                expect(not large.grow(1), 'both have what they want')


def changed():
    """A limit that is lowered, lifted, and a process that is moved below one."""
    before, _ = debug_memory()
    with Group(64) as group, group.grower(20) as program:
        group.limit(28)
        time.sleep(SEEN)
        expect(program.grow(2), 'beneath the new limit')
        group.limit(48)
        time.sleep(SEEN)
        expect(program.grow(20), f'beneath the next one; {log_tail()}')
        expect(not program.grow(20), 'beyond it')
    with Group(16) as group, Grower(['hanare', 'run', '--', CHARGED, 'grows'], 30) as program:
        group.take(program.process.pid)
        time.sleep(SEEN)
        expect(program.grow(4), 'what it had before is not the group\'s')
        expect(not program.grow(20), 'beyond the limit of where it is now')
    lwk_memory_is(before)


def files():
    """What is only read of a file is not charged, what is written of it is."""
    path = WORK + '/charged'
    with open(path, 'wb') as file:
        file.write(b'\1' + bytes(24 << 20))
    with Group('max') as group:
        expect(group.run(CHARGED, 'writes', path).status == 0, 'no limit')
        group.limit(40)
        result = group.run(CHARGED, 'reads', path)
        expect(result.status == 0, result)
        group.limit(16)
        result = group.run(CHARGED, 'reads', path)
        expect((result.status, result.out) == (0, b'6144 pages, sum 1\n'), f'{result}; {log_tail()}')
        is_killed(group.run(CHARGED, 'writes', path))
    os.remove(path)


def root_and_users():
    """Everybody's, and a user has his own limit besides."""
    with Group(16) as group:
        user = ['/usr/bin/setpriv', '--reuid=65534', '--regid=65534', '--groups=hanare']
        def as_user(mib):
            return command(['/bin/sh', '-c', 'echo $$ > $0/cgroup.procs && exec "$@"', group.path, *user, 'hanare', 'run',
                            '--', EAT, mib])
        expect(as_user('6').status == 0, 'beneath the limit')
        is_killed(as_user('100'))


def many():
    """Groups come and go: nothing of them stays."""
    before, _ = debug_memory()
    for number in range(12):
        with Group(16, f'limited-{number}') as group, group.grower(4):
            expect(group.run(HELLO).status == 0, number)
    lwk_memory_is(before)


with open(ROOT_GROUP + '/cgroup.subtree_control', 'w') as control:
    control.write('+memory')
start('--cpus', '2-3', '--mem', '256M')
check('killed-beyond-memory-max', beyond)
check('largest-of-the-group-is-killed', others_live)
check('shared-pages-are-charged-once', shared_once)
check('limits-of-groups-above-bind', above)
check('changed-limits-bind', changed)
check('only-written-pages-of-files-are-charged', files)
check('group-and-user-limits-both-bind', root_and_users)
check('groups-come-and-go', many)
finish()
