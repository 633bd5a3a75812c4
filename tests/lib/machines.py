"""Machines for groups: one of tools/vm that runs several of them, one after the other, and commands on the host."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
import weakref

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSIDE = os.path.join(ROOT, 'tests/lib/inside.py')
END = re.compile(r'^== end (\S+) (-?\d+) (\[.*\])$')
TICKS = os.sysconf('SC_CLK_TCK')


class Died(Exception):
    """A machine ended, or had to be ended, before its group did; the text says why."""


def cpu_seconds(pid):
    """CPU time of a process and of those that descend from it, as far as they live or were waited for."""
    total = 0.0
    with contextlib.suppress(OSError, IndexError):
        with open(f'/proc/{pid}/stat') as stat:
            total += sum(map(int, stat.read().rpartition(')')[2].split()[11:15])) / TICKS
        for task in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{task}/children') as children:
                total += sum(map(cpu_seconds, children.read().split()))
    return total


# Commands that may still run, of which a signal that ends the runner is to leave none.
started = weakref.WeakSet()


def end_with_the_runner():
    """From here on a signal that ends this process also ends the processes it has started. Each has a session of its
    own, and would go on."""
    def end(signum, _frame):
        for lines in list(started):
            if lines.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(lines.process.pid, signal.SIGTERM)
        os._exit(128 + signum)
    for signum in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(signum, end)


class Lines:
    """A command on the host whose output is read line by line, with a deadline for each."""

    def __init__(self, argv, environment=None, stdin=subprocess.DEVNULL):
        self.process = subprocess.Popen(argv, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors='replace', env=environment, start_new_session=True)
        started.add(self)
        self.lines, self.used_s = queue.Queue(), 0.0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip('\n'))
        self.lines.put(None)

    def next(self, deadline):
        """The next line; None at the end. Raises TimeoutError at the deadline."""
        try:
            return self.lines.get(timeout=max(0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError from None

    def cpu_s(self):
        return cpu_seconds(self.process.pid)

    def wait(self):
        """Its exit status; `used_s` is its CPU time then, in s, with that of children it waited for."""
        if self.process.returncode is None:
            _, status, used = os.wait4(self.process.pid, 0)
            self.process.returncode, self.used_s = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        return self.process.returncode

    def kill(self):
        """Ends it with all that it started in its session; tools/vm takes QEMU along."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Machine:
    """A machine of tools/vm. Groups are run in it until one leaves something behind, or it dies."""

    def __init__(self, options):
        self.options = options
        self.groups = []
        self.clean = True
        self.lines = Lines(['tools/vm', '--timeout', '0', *options, '--', '/usr/bin/python3', '-B', INSIDE],
                           dict(os.environ, TERM=os.environ.get('TERM', 'xterm')), subprocess.PIPE)

    def run(self, name, argv, environment, limit_s, take):
        """Runs a group; `take(line)` is given each line of its output. Returns its exit status and what it left behind."""
        self.groups.append(name)
        deadline = time.monotonic() + limit_s
        try:
            self.lines.process.stdin.write(json.dumps(dict(name=name, argv=argv, environment=environment)) + '\n')
            self.lines.process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said before it ended is read below
        last = []
        while True:
            try:
                line = self.lines.next(deadline)
            except TimeoutError:
                self.end()
                raise Died(f'no end in {limit_s} s; ' + ' | '.join(last[-3:])) from None
            if line is None:
                self.clean = False
                raise Died(f'the machine ended, status {self.lines.process.wait()}; ' + ' | '.join(last[-3:]))
            if match := END.match(line):
                left = json.loads(match[3])
                self.clean = not left
                return int(match[2]), left
            last = (last + [line])[-8:]
            take(line)

    def cpu_s(self):
        return self.lines.cpu_s()

    def end(self):
        """Ends the machine; what the guest's kernel complained about is in the last lines, which are returned."""
        self.clean = False
        with contextlib.suppress(BrokenPipeError):
            self.lines.process.stdin.close()
        said = []
        with contextlib.suppress(TimeoutError):
            deadline = time.monotonic() + 30
            while (line := self.lines.next(deadline)) is not None:
                said.append(line)
        self.lines.kill()
        return said


def run_on_host(argv, environment, limit_s, take, tell=None):
    """Runs a command; `take(line)` is given each line. Its exit status. `tell` is told the command."""
    lines = Lines(argv, environment)
    if tell:
        tell(lines)
    deadline, last = time.monotonic() + limit_s, []
    while True:
        try:
            line = lines.next(deadline)
        except TimeoutError:
            lines.kill()
            raise Died(f'no end in {limit_s} s; ' + ' | '.join(last[-3:])) from None
        if line is None:
            return lines.wait()
        last = (last + [line])[-8:]
        take(line)
