"""Control groups in the VM, and programs on the LWK that are in one."""

import contextlib
import os
import subprocess
import time

from harness import GUEST, TIMEOUT, Failure, command, expect, log_tail, until

ROOT_GROUP = '/sys/fs/cgroup'
CHARGED, EAT, HELLO = (f'{GUEST}/static/{name}' for name in ('cgroup-charges', 'eat-memory', 'hello'))
# The module looks at the limits once a second; the machine may be slow. A check that cannot look
# again repeats everything with `SURELY`.
SEEN = 2
SURELY = 12
# How often a share is measured at most. A virtual CPU that stands still in a program's turn has
# that program use more time than it has been given, which it waits for afterwards; and the module
# may look late.
TRIES = 20


def control(controllers):
    """The root's children have these controllers: '+memory +cpu'."""
    with open(ROOT_GROUP + '/cgroup.subtree_control', 'w') as to:
        to.write(controllers)


class Group:
    """A control group with a limit in MiB, or 'max', and cpu.max; gone with the block, and so are its processes."""

    def __init__(self, limit='max', name='limited', cpu='max'):
        self.path = f'{ROOT_GROUP}/{name}'
        os.makedirs(self.path)
        self.limit(limit)
        if cpu != 'max':
            self.write('cpu.max', cpu)

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

    def computer(self, threads=1, *options, **more):
        return Computer(self, threads, *options, **more)

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
        until(removed, f'{self.path} has no process any more')


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


class Computer:
    """A program that computes when it is told to; in a group, or in none. Killed with the block."""

    def __init__(self, group, threads=1, *options, program=('computes',)):
        argv = ['hanare', 'run', *options, '--', CHARGED, *program, str(threads)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        expect(self.process.stdout.readline() == b'ready\n', log_tail())
        if group:
            group.take(self.process.pid)  # only now: its start takes time of Linux' CPUs, too
            time.sleep(SEEN)

    def begin(self, seconds):
        self.process.stdin.write(f'{int(seconds * 1000)}\n'.encode())
        self.process.stdin.flush()

    def end(self):
        """CPU time per cent of one CPU since it began."""
        had, _, _, time_us, _, self.least_us = self.process.stdout.readline().decode().replace(',', '').split()
        print(f'# {int(had) / 1000:.0f} ms of CPU time in {int(time_us) / 1000:.0f} ms')
        return 100 * int(had) / int(time_us)

    def share(self, seconds=3):
        self.begin(seconds)
        return self.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)


FIVE = '5000 100000'


def holds_soon_or_surely(body):
    """A check that waits for the module to look at limits: for a few seconds first, enough on a quiet machine, then for
    more."""
    try:
        body(SEEN)
    except Failure as failure:
        print(f'# within {SEEN} s: {failure}', flush=True)
        body(SURELY)


def has(low, high, *programs, seconds=2):
    """Together the programs have so many per cent of a CPU: in one measurement, or on average in the last ones."""
    shares = []
    for _ in range(TRIES):
        for program in programs:
            program.begin(seconds)
        shares.append(sum(program.end() for program in programs))
        if any(low <= sum(shares[first:]) / len(shares[first:]) <= high for first in range(len(shares))):
            return
    raise Failure(f'{[round(share, 1) for share in shares]} % of a CPU, not {low} to {high}; {log_tail()}')


def is_five(*programs, seconds=2):
    has(2, 12, *programs, seconds=seconds)
