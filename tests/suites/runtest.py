#!/usr/bin/python3
"""Run a list of test programs one after the other, on Linux or on the LWK.

The list has the format of the Linux Test Project's runtest files: a name, then a command; lines
that begin with # are comments. A test passes if its exit status is 0; 32 means that it could not be
run here ("conf"). It is run in a session and a directory of its own; at its deadline it is killed,
and so is everything that it left behind.

With a prefix such as `hanare run --` an LWK has to be there, which is then looked at after each
test: the LWK has to run, to have no process, and to have as much free memory as before; otherwise
the test is noted as `leak` whatever it said itself, and after `dead` (the LWK panicked, hangs, or
does not run a program any more) a fresh one is booted. Linux' log must not complain, either.

One line per test goes to the result file: name, verdict (pass, conf, fail, late, leak, dead),
exit status, seconds and remarks, separated by tabs. What a test that did not pass printed is kept
in a folder beside it.

Run as root in tools/vm, whose machine it may change (mounts, loop devices, limits).
"""

import argparse
import ctypes
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

PASS, CONF = 0, 32
SETTLE_S = 4            # for what ends a little after a test
UNKILLABLE_S = 20
LOG_KEPT = 20000
PR_SET_CHILD_SUBREAPER = 36
COMPLAINTS = re.compile(r'WARNING:|BUG:|Oops|general protection fault[:,]|blocked for more than|'
                        r'refcount_t|Bad page|Bad rss|soft lockup|rcu_.* stall')


def read_list(path):
    """(name, command) of every test."""
    tests = []
    with open(path) as file:
        for line in file:
            name, *command = line.split(None, 1)[:2] or ['#']
            if not name.startswith('#'):
                tests.append((name, command[0].strip() if command else name))
    return tests


def read_results(path):
    """Name and verdict of every line of a result file; a later line counts."""
    with open(path) as file:
        return dict(line.split('\t')[:2] for line in file if '\t' in line)


def argv_of(command, prefix):
    """A simple command is started without a shell."""
    if re.search(r'[|&;<>$`(){}*?~]', command):
        return [*prefix, 'sh', '-c', command]
    return [*prefix, *shlex.split(command)]


# ---- processes ----

def descendants():
    """Everything below this process, also what was orphaned (we are the subreaper)."""
    parents = {}
    for stat in glob.glob('/proc/[0-9]*/stat'):
        try:
            with open(stat) as file:
                text = file.read()
        except OSError:
            continue
        pid, rest = int(text.split(' ', 1)[0]), text.rsplit(')', 1)[1].split()
        if rest[0] != 'Z':
            parents[pid] = int(rest[1]), text.split('(', 1)[1].rsplit(')', 1)[0]
    found, names = {os.getpid()}, []
    grown = True
    while grown:
        grown = False
        for pid, (parent, name) in parents.items():
            if parent in found and pid not in found:
                found.add(pid)
                names.append((pid, name))
                grown = True
    return names


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def kill_descendants():
    """Kills what a test left; returns names, and whether some do not die."""
    left = descendants()
    deadline = time.monotonic() + UNKILLABLE_S
    while (now := descendants()) and time.monotonic() < deadline:
        for pid, _ in now:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)
        reap()
    reap()
    return [name for _, name in left], bool(now)


def run(argv, seconds, folder, out):
    """Exit status (negative: signal) and whether the deadline passed."""
    try:
        process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as error:
        out.write(f'{error}\n'.encode())
        return 127, False
    try:
        return process.wait(seconds), False
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait(UNKILLABLE_S), True
    except (ProcessLookupError, subprocess.TimeoutExpired):
        return -signal.SIGKILL, True


# ---- the state of both kernels ----

def linux_log():
    """Linux' log, from now on."""
    fd = os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(fd, 0, os.SEEK_END)
    return fd


def said_by_linux(fd):
    """The lines since the last time."""
    lines = []
    while True:
        try:
            lines.append(os.read(fd, 8192).decode(errors='replace').strip())
        except BlockingIOError:
            return lines
        except BrokenPipeError:     # overwritten before we read it
            continue


def clean(folder):
    """Unmounts and removes what a test left in its directory."""
    with open('/proc/self/mounts') as file:
        points = [line.split()[1] for line in file if line.split()[1].startswith(folder + '/')]
    for point in reversed(points):
        subprocess.run(['umount', '-l', point], capture_output=True)
    for backing in glob.glob('/sys/block/loop*/loop/backing_file'):
        subprocess.run(['losetup', '-d', '/dev/' + backing.split('/')[3]], capture_output=True)
    if os.path.isdir(folder) and os.listdir(folder):
        subprocess.run(['chattr', '-R', '-f', '-ia', folder], capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o1777)
    return points


class Lwk:
    """The LWK beside us, looked at and, where it has to be, booted again."""

    def __init__(self, prefix, boot):
        self.prefix, self.boot_arguments = prefix, shlex.split(boot)
        self.free = None

    def boot(self):
        subprocess.run(['hanare', 'shutdown', '--all', '--force'], capture_output=True, timeout=120)
        done = subprocess.run(['hanare', 'boot', *self.boot_arguments], capture_output=True,
                              text=True, timeout=120)
        if done.returncode:
            raise SystemExit(f'no LWK: {done.stderr}')
        if not self.runs():
            raise SystemExit('a fresh LWK does not run /bin/true')
        self.free = self.memory()[0]

    def runs(self):
        try:
            return subprocess.run([*self.prefix, '/bin/true'], timeout=30,
                                  capture_output=True).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def memory(self):
        """Free bytes and processes; None if the LWK does not answer."""
        try:
            done = subprocess.run(['hanare', 'debug', 'memory'], capture_output=True, text=True,
                                  timeout=20)
        except subprocess.TimeoutExpired:
            return None
        match = re.search(r'\((\d+) bytes\).* (\d+) process', done.stdout)
        return match and (int(match[1]), int(match[2]), done.stdout.strip())

    def look(self):
        """A remark for the verdict: ('', ''), ('leak', what) or ('dead', why)."""
        deadline = time.monotonic() + SETTLE_S
        while seen := self.memory():
            free, processes, text = seen
            if free == self.free and not processes:
                return '', ''
            if time.monotonic() > deadline:
                lost, self.free = self.free - free, free
                return 'leak', f'{lost} bytes, {processes} processes: {text}'
            time.sleep(0.2)
        return 'dead', 'the LWK does not answer'

    def log(self):
        try:
            return subprocess.run(['hanare', 'log'], capture_output=True, timeout=20).stdout
        except subprocess.TimeoutExpired:
            return b'(no log)'


class Suite:
    """One run of a list."""

    def __init__(self, args):
        self.args = args
        self.prefix = shlex.split(args.prefix)
        self.lwk = Lwk(self.prefix, args.boot) if args.boot else None
        self.folder = os.path.join(args.tmp, 'test')
        self.counts = {}
        self.kmsg = linux_log()
        self.logs = args.out + '.logs'
        os.makedirs(self.logs, exist_ok=True)
        os.environ['TMPDIR'] = self.folder

    def keep(self, name, out, lwk_log):
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - LOG_KEPT))
        with open(f'{self.logs}/{name}', 'wb') as file:
            file.write(out.read())
            if lwk_log:
                file.write(b'\n---- LWK\n' + lwk_log[-LOG_KEPT:])

    def one(self, name, command):
        clean(self.folder)
        said_by_linux(self.kmsg)
        start = time.monotonic()
        with open(f'{self.args.tmp}/out', 'w+b') as out:
            status, late = run(argv_of(command, self.prefix), self.args.timeout, self.folder, out)
            seconds = time.monotonic() - start
            left, unkillable = kill_descendants()
            verdict = ('late' if late else 'pass' if status == PASS else
                       'conf' if status == CONF else 'fail')
            remarks = [f'left: {" ".join(left)}'] if left and not late else []
            log = b''
            if self.lwk:
                state, why = self.lwk.look()
                if state != 'dead' and (late or state) and not self.lwk.runs():
                    state, why = 'dead', 'runs no program'
                if unkillable:
                    state, why = 'dead', f'cannot be killed: {[n for _, n in descendants()]}'
                if state:
                    verdict, log = state, self.lwk.log()
                    remarks.append(why)
                if state == 'dead':
                    self.lwk.boot()
            complaints = [line for line in said_by_linux(self.kmsg) if COMPLAINTS.search(line)]
            remarks += complaints[:1]
            mounted = clean(self.folder)
            if mounted:
                remarks.append(f'left mounted: {len(mounted)}')
            if verdict != 'pass' or remarks:
                self.keep(name, out, log)
        self.counts[verdict] = self.counts.get(verdict, 0) + 1
        return f'{name}\t{verdict}\t{status}\t{seconds:.1f}\t{"; ".join(remarks)}'

    def all(self, tests):
        if self.lwk:
            self.lwk.boot()
        with open(self.args.out, 'a') as results:
            for name, command in tests:
                line = self.one(name, command)
                results.write(line + '\n')
                results.flush()
                print(line, flush=True)
        print(' '.join(f'{n} {verdict}' for verdict, n in sorted(self.counts.items())))


def selected(args):
    tests = read_list(args.list)
    if args.only:
        passed = read_results(args.only)
        tests = [test for test in tests if passed.get(test[0]) == 'pass']
    if args.again:
        verdicts = read_results(args.again)
        tests = [test for test in tests if verdicts.get(test[0], 'pass') not in ('pass', 'conf')]
    if args.skip:
        with open(args.skip) as file:
            skip = {line.split()[0] for line in file if line.split() and line[0] != '#'}
        tests = [test for test in tests if test[0] not in skip]
    tests = [test for test in tests if re.search(args.match, test[0])]
    part, parts = map(int, args.part.split('/'))
    size = -(-len(tests) // parts)
    tests = tests[(part - 1) * size:part * size]
    done = read_results(args.out) if os.path.exists(args.out) else {}
    return [test for test in tests if test[0] not in done]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('list', help='runtest file')
    parser.add_argument('--out', required=True, help='result file; tests it has are not run again')
    parser.add_argument('--prefix', default='', help="e.g. 'hanare run --'")
    parser.add_argument('--boot', default='', metavar='ARGS',
                        help="boot an LWK with these arguments, e.g. '--cpus 2-3 --mem 1G'")
    parser.add_argument('--tmp', default='/tmp', help='where tests get their directory')
    parser.add_argument('--timeout', type=float, default=120, metavar='S')
    parser.add_argument('--only', metavar='RESULTS', help='only what passed there')
    parser.add_argument('--again', metavar='RESULTS', help='only what did not pass there')
    parser.add_argument('--skip', metavar='FILE', help='names of tests that are not run')
    parser.add_argument('--part', default='1/1', metavar='I/N')
    parser.add_argument('-k', dest='match', default='', metavar='REGEX')
    args = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    # LTP's heartbeat: the child of a test that was killed at its deadline has us as its parent.
    signal.signal(signal.SIGUSR1, lambda *_: None)
    Suite(args).all(selected(args))


if __name__ == '__main__':
    sys.exit(main())
