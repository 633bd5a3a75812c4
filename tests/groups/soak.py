"""Programs of many kinds at once on the LWK, killed, stopped and left alone at random; at the end no
process, thread or page is left and both kernels are well.

TESTS_SOAK_SECONDS (20 in `make test`, 600 in `make test-long`) says how long, TESTS_SOAK_SEED what is
chosen; with TESTS_SOAK_PROGRAMS=1 the programs of tests/suites take part (tests/suites/soak), else what
every test machine has.
"""

import glob
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

SECONDS = int(os.environ.get('TESTS_SOAK_SECONDS') or (600 if TIER == 'long' else 20))
SEED = int(os.environ.get('TESTS_SOAK_SEED') or 1)
AT_ONCE = 4
# A job that takes longer hangs, s. The real programs, four at a time and emulated, take minutes.
PATIENCE = 1800 if os.environ.get('TESTS_SOAK_PROGRAMS') else 600
STRUCK = GUEST + '/static/strike-victim'
SUITES = ROOT + '/tests/suites'
PIPELINE = 'for n in $(seq 5); do seq 200 | sort -rn | head -3 | tr "\\n" " " & done; wait'
THREADS = ('import threading, subprocess, os\n'
           'def work(n):\n'
           '    for i in range(3): subprocess.run(["/bin/true"])\n'
           '    x = bytearray(1 << 20); x[::4096] = b"y" * 256\n'
           'ts = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n'
           '[t.start() for t in ts]; [t.join() for t in ts]\n'
           'r, w = os.pipe(); pid = os.fork()\n'
           'if pid == 0: os.write(w, b"z" * 50000); os._exit(5)\n'
           'n = 0\n'
           'while n < 50000: n += len(os.read(r, 65536))\n'
           'print(n, os.waitpid(pid, 0)[1])\n')
DATABASE = ('create table t(a, b); insert into t select value, hex(randomblob(50)) from generate_series(1, 3000); '
            'create index i on t(b); select count(*) from t; delete from t where a % 3 = 0; vacuum;')
# Command, whether it ends by itself, output that it must give if it is not struck (None: any).
JOBS = [
    (['sh', '-c', PIPELINE], 0, None),
    (['/usr/bin/python3', '-c', THREADS], 0, b'50000 1280\n'),
    (['sqlite3', ':memory:', DATABASE], 0, b'3000\n'),
    (['perl', '-e', 'for (1..5) { if (fork) { wait } else { exit 3 } } print $? >> 8'], 0, b'3'),
    (['sha256sum', '/usr/bin/perl', '/usr/bin/busybox'], 0, None),
    (['busybox', 'sh', '-c', 'n=0; while [ $n -lt 300 ]; do n=$((n + 1)); done; echo $n'], 0, b'300\n'),
    (['bash', '-c', 'trap "exit 9" TERM; for n in 1 2 3; do (sleep 0.2; kill -TERM $$) & done; wait; exit 1'], 9, None),
    (['timeout', '0.5', 'sleep', '100'], 124, None),
    (['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1M', 'count=100', 'status=none'], 0, b''),
    ([STRUCK, 'exit'], 7, b''),
    *(([STRUCK, kind], 0, b'') for kind in ('fork', 'exec', 'thread', 'map', 'block', 'signal')),
]
PROGRAMS = [
    (['bash', SUITES + '/src/features.bash'], None, None),
    *((['bash', path], None, None) for path in sorted(glob.glob(SUITES + '/programs.d/*.sh'))
      if os.path.basename(path)[:-3] not in ('make', 'openmpi', 'mpich')),
    *((['stress-ng', '--' + name, '1', '--timeout', '5s', '--temp-path', '/tmp'], None, None)
      for name in ('fork', 'pipe', 'futex', 'switch', 'mmap', 'mremap', 'vm', 'signal', 'timer', 'sock', 'dentry', 'clone')),
]


class Job:
    """A running program, and what is going to happen to it."""

    def __init__(self, chance, number):
        jobs = JOBS + (PROGRAMS if os.environ.get('TESTS_SOAK_PROGRAMS') else [])
        self.argv, self.status, self.wanted = chance.choice(jobs)
        self.fate = chance.choice(['none', 'none', 'kill', 'group', 'stop', 'term', 'child'])
        self.at = time.monotonic() + chance.random() ** 2 * 6
        self.folder = f'{WORK}/soak/{number}'
        os.makedirs(self.folder)
        self.out = open(self.folder + '/out', 'w+b')
        self.process = subprocess.Popen(
            ['hanare', 'run', '--', *self.argv], stdin=subprocess.DEVNULL, stdout=self.out, cwd=self.folder,
            stderr=subprocess.STDOUT, start_new_session=True,
            env=dict(os.environ, SUITES=SUITES, BUILD=ROOT + '/build/suites', LC_ALL='C', RUN=''))
        self.started = time.monotonic()
        self.struck = False

    def strike(self):
        """What was chosen for it, once its time has come."""
        if self.struck or self.fate == 'none' or time.monotonic() < self.at:
            return
        self.struck = True
        pid = self.process.pid
        with contextlib.suppress(ProcessLookupError):
            if self.fate == 'kill':
                os.kill(pid, signal.SIGKILL)
            elif self.fate == 'group':
                os.killpg(pid, signal.SIGKILL)
            elif self.fate == 'term':
                os.kill(pid, signal.SIGTERM)
            elif self.fate == 'stop':
                os.killpg(pid, signal.SIGSTOP)
                time.sleep(0.3)
                os.killpg(pid, signal.SIGCONT)
            else:
                for child in session(pid)[1:2]:
                    os.kill(child, signal.SIGKILL)

    def ended(self):
        """None while it runs; then '' or what was wrong."""
        status = self.process.poll()
        if status is None:
            if time.monotonic() < self.started + PATIENCE:
                return None
            found = session(self.process.pid)
            states = [f'{pid} {state(pid)}' for pid in found]
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(TIMEOUT)
            return f'{self} has not ended after {PATIENCE} s: {states}'
        # What it left running: orphans of a killed one.
        for pid in session(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.out.seek(0)
        said = self.out.read()
        self.out.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if (self.struck and self.fate != 'stop') or self.status is None:
            return ''
        if status != self.status:
            return f'{self}: status {status}, said {short(said)!r}'
        if self.wanted is not None and said != self.wanted:
            return f'{self}: said {short(said)!r}'
        return ''

    def __str__(self):
        return f'{" ".join(self.argv)[:60]!r} ({self.fate})'


def session(leader):
    """Processes of a session, the leader first; those that left it are found by their parent."""
    found, parents = [], {}
    for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
        with contextlib.suppress(OSError, IndexError):
            with open(f'/proc/{pid}/stat') as stat:
                fields = stat.read().rpartition(')')[2].split()
            parents[pid] = int(fields[1])
            if int(fields[3]) == leader and fields[0] != 'Z':
                found.append(pid)
    for pid in sorted(parents):
        if parents[pid] in found and pid not in found:
            found.append(pid)
    return sorted(found, key=lambda pid: pid != leader)


def state(pid):
    try:
        with open(f'/proc/{pid}/stat') as stat:
            return stat.read().partition('(')[2].replace(')', '')[:40]
    except OSError:
        return 'gone'


def soak():
    before, _ = debug_memory()
    running = []
    try:
        run_jobs(running)
    finally:
        for pid in [pid for job in running for pid in session(job.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for job in running:
            job.process.wait(TIMEOUT)
        # Servers and daemons that left their sessions.
        for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
            with contextlib.suppress(OSError):
                if is_proxy(pid):
                    os.kill(pid, signal.SIGKILL)
    lwk_memory_is(before)
    expect(healthy(), 'nothing runs any more')
    all_answer()


def run_jobs(running):
    """Programs, four at a time, and what becomes of them; `running` has those that have not ended."""
    chance = random.Random(SEED)
    fresh(WORK + '/soak')
    end = time.monotonic() + SECONDS
    wrong, number, struck = [], 0, 0
    while running or time.monotonic() < end:
        if time.monotonic() < end and len(running) < AT_ONCE:
            running.append(Job(chance, number))
            number += 1
        for job in list(running):
            job.strike()
            why = job.ended()
            if why is not None:
                running.remove(job)
                struck += job.struck
                if why:
                    wrong.append(why)
                    print(f'# {why}', flush=True)
        time.sleep(0.02)
    print(f'# seed {SEED}: {number} programs, {struck} of them struck', flush=True)
    expect(not wrong, f'{len(wrong)}: ' + '; '.join(wrong[:3]))
    expect(number > SECONDS / 40, f'only {number} programs')


start('--cpus', '2-3', '--mem', os.environ.get('TESTS_SOAK_MEMORY') or '512M')
check('programs-struck-at-any-time-leave-nothing', soak)
finish()
