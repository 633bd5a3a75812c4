"""A CPU of the LWK that runs one thread takes no interrupt and no exception, whatever Linux and the other CPUs do.

A program computes on one CPU while one load after the other runs, on Linux and on the instance's other CPUs; what came
is told by kind, with the load that it came with. In the end all of them run at once, for TESTS_NOISE_SECONDS (3 in `make
test`, 20 in `make test-long`). Linux has three CPUs: with two it never sends a broadcast.
"""

import itertools
import os
import select
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
import controlgroup
from harness import *

SECONDS = int(os.environ.get('TESTS_NOISE_SECONDS') or (20 if TIER == 'long' else 3))
# Each load alone; those that take longer are done once.
LOAD_SECONDS = max(1.0, SECONDS / 10)
# Alone in `make test`: what has one CPU tell all others, or all programs, and what the computing
# program's own CPU is nearest to.
ALONE = ['nothing', 'tlb-shootdowns', 'hotplug', 'patched-code', 'looks-while-all-cpus-are-busy', 'faulting-proxies',
         'memory-calls', 'signals-and-timers']
CPUS, OTHER_INSTANCE, HOTPLUGGED = [3, 4, 5], '6', 2
TRACING = '/sys/kernel/tracing'
# Reads into memory that is new each time: Linux touches it first, so the proxy faults. One line of
# input: one round.
FAULTING = '''
import os, sys
os.sched_setaffinity(0, map(int, sys.argv[1].split(',')))
zero = os.open('/dev/zero', os.O_RDONLY)
print('ready', flush=True)
while os.read(0, 1):
    for _ in range(8):
        os.read(zero, 1 << 20)
    print('done', flush=True)
'''


def write(path, text):
    with contextlib.suppress(OSError), open(path, 'w') as file:
        file.write(text)


def causes(cpu):
    """Interrupts and exceptions of a CPU so far, by kind."""
    found = next(one for one in status()['cpus'] if one['linux_cpu'] == cpu)
    return {cause['name']: cause['count'] for cause in found['causes']}


def came(before, after):
    return {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}


class Faulting:
    """Programs that may run anywhere but stay on some CPUs, each with its requests served where the module chose."""

    def __init__(self, cpus, count):
        bound = ','.join(map(str, cpus))
        # They bind themselves: what replaces its program begins anew, near to where that ran.
        self.programs = [subprocess.Popen(['hanare', 'run', '--', 'python3', '-c', FAULTING, bound],
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
        for program in self.programs:
            self.says(program, b'ready\n')

    def observed(self):
        """Each is traced, stopped, and goes on."""
        for program in self.programs:
            tracer = subprocess.Popen(['hanare', 'trace', '-p', str(program.pid)], stderr=subprocess.DEVNULL)
            time.sleep(0.3)
            tracer.send_signal(signal.SIGINT)
            program.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            program.send_signal(signal.SIGCONT)
            expect(tracer.wait(TIMEOUT) in (0, -signal.SIGINT, 130), f'the tracer ends with {tracer.returncode}')

    def round(self):
        for program in self.programs:
            program.stdin.write(b'x')
            program.stdin.flush()
        for program in self.programs:
            self.says(program, b'done\n')

    def says(self, program, line):
        if not select.select([program.stdout], [], [], TIMEOUT)[0]:
            raise Failure(f'a program that faults does not say {line}; {waits()}')
        expect(program.stdout.readline() == line, 'a program that faults ended')

    def close(self):
        for program in self.programs:
            program.stdin.close()
            program.wait(TIMEOUT)
            program.stdout.close()


def stress(*options, launch=()):
    """A second of stress-ng, on Linux or by `launch`."""
    result = command([*launch, 'stress-ng', '--quiet', '--timeout', '1', '--temp-path', WORK, *options])
    # 2, 3: it lacks something, or could not all. 7: it kills children (of --mprotect, of others)
    # that may just be counting their rounds, and then does not trust its own figures; they are
    # not read here.
    if result.status not in (0, 2, 3, 7):
        died = [line for line in kernel_log_since(0).splitlines() if 'segfault' in line or ' trap ' in line]
        raise Failure(f'stress-ng {options}: {result}; {died[-3:]}')


def caches():
    write('/proc/sys/vm/drop_caches', '3')
    write('/proc/sys/vm/compact_memory', '1')


def modules():
    for name in 'dummy', 'loop':
        command(['modprobe', name])
        command(['modprobe', '-r', name])


def hotplug():
    with offline(HOTPLUGGED):
        pass


def patching():
    """Code of the kernel is patched: each time all CPUs of Linux are told to."""
    for value in '1', '0':
        write(TRACING + '/events/module/enable', value)
        write('/proc/sys/kernel/sched_schedstats', value)
        write(TRACING + '/events/sched/enable', value)
    write(TRACING + '/set_ftrace_filter', 'vfs_open')
    for tracer in 'function', 'nop':
        write(TRACING + '/current_tracer', tracer)


def clock():
    now = time.clock_gettime(time.CLOCK_REALTIME)
    time.clock_settime(time.CLOCK_REALTIME, now)


def second_instance():
    hanare('boot', 'second', '--cpus', OTHER_INSTANCE, '--mem', '64M')
    run(GUEST + '/static/hello', on='second')
    hanare('shutdown', 'second')


class Loads:
    """What is done beside a program that computes on one CPU, by name."""

    def __init__(self, cpu, pid):
        self.others = [other for other in CPUS if other != cpu]
        self.cpu, self.pid = cpu, pid
        self.there = ['hanare', 'run', '--cpus', ','.join(map(str, self.others)), '--']

    def all(self, faulting):
        on_linux = {
            'nothing': lambda: time.sleep(0.5),
            'cpu-and-memory': lambda: stress('--cpu', '2', '--vm', '1', '--vm-bytes', '32M', '--switch', '1'),
            'network': lambda: stress('--sock', '1', '--udp', '1'),
            'tlb-shootdowns': lambda: stress('--tlb-shootdown', '3', '--membarrier', '1'),
            'timers': lambda: stress('--timer', '1', '--itimer', '1'),
            'dropped-caches': caches,
            'modules': modules,
            'hotplug': hotplug,
            'patched-code': patching,
            'clock': clock,
            'looks': self.looks,
            'looks-while-all-cpus-are-busy': self.looks_while_busy,
            'second-instance': second_instance,
        }
        on_lwk = {
            'faulting-proxies': lambda: faulting.round(),
            'traced-and-stopped-programs': lambda: faulting.observed(),
            'memory-calls': lambda: stress('--mmap', '1', '--mprotect', '1', '--madvise', '1', launch=self.there),
            'forks': lambda: stress('--fork', '2', '--vfork', '1', launch=self.there),
            'threads': lambda: stress('--pthread', '2', '--futex', '1', '--membarrier', '1', launch=self.there),
            'signals-and-timers': lambda: stress('--kill', '1', '--timer', '1', '--sigsegv', '1', launch=self.there),
            'killed-programs': self.killed,
            'core-dumps': self.dumped,
        }
        return on_linux | on_lwk

    def looks(self):
        # A request to one CPU asks for an interrupt.
        debug = ['debug', 'memory', 'default', '--cpu', str(CPUS.index(self.others[0]))]
        for argv in ['ls'], ['status'], ['ps', '--threads'], ['log'], debug:
            hanare(*argv)
        for name in 'stat', 'status', 'maps', 'schedstat':
            with open(f'/proc/{self.pid}/{name}') as file:
                file.read()

    def looks_while_busy(self):
        """No CPU halts, so the answerer interrupts one: those that enter the kernel all the time."""
        calls = 'import os\nfor i in range(50000): os.getpid()\nprint(flush=True)\nwhile True: os.getpid()'
        busy = [subprocess.Popen(['hanare', 'run', '--cpus', str(other), '--', 'python3', '-c', calls], stdout=subprocess.PIPE)
                for other in self.others]
        try:
            for process in busy:  # it counts as one that enters the kernel: by many calls
                process.stdout.readline()
            time.sleep(0.5)
            for _ in range(5):
                hanare('ps', '--threads')
            expect(all(process.poll() is None for process in busy), 'a CPU has nothing to do')
        finally:
            for process in busy:
                process.kill()
                process.wait(TIMEOUT)
                process.stdout.close()

    def killed(self):
        process = subprocess.Popen([*self.there, GUEST + '/static/die', 'pause'], stdout=subprocess.DEVNULL)
        time.sleep(0.2)
        for signum in signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL:
            process.send_signal(signum)
        process.wait(TIMEOUT)

    def dumped(self):
        command([*self.there, 'sh', '-c', f'ulimit -c unlimited; cd {WORK}; kill -SEGV $$'])


class Computing:
    """A program that computes on a CPU of the LWK, and the loads beside it."""

    def __init__(self, cpu):
        others = [other for other in CPUS if other != cpu]
        # Before: each gets the CPU with the fewest programs for its requests, so one of them this
        # one.
        self.faulting = Faulting(others, len(CPUS))
        self.cpu = cpu
        self.program = subprocess.Popen(['hanare', 'run', '--cpus', str(cpu), '--', 'hanare-bench-guest', 'compute',
                                         'seconds=3600'], stdout=subprocess.PIPE)
        expect(self.program.stdout.readline().startswith(b'until '), 'the program that computes does not start')
        # Limits are told again and again: as of a service of systemd's.
        self.group = contextlib.ExitStack()
        controlgroup.control('+memory')
        self.group.enter_context(controlgroup.Group(300, 'noise')).take(self.program.pid)
        # Until what its beginning has brought has come: the answer to its last call, its group's
        # first limit.
        with contextlib.suppress(Failure):  # if it does not end the checks tell
            until(self.is_calm, 'what its beginning has brought has come', 60)
        self.loads = Loads(cpu, self.program.pid).all(self.faulting)

    def is_calm(self):
        """Whether nothing has come for longer than the module takes to look at limits again."""
        before = causes(self.cpu)
        time.sleep(4)
        return not came(before, causes(self.cpu))

    def quiet_beside(self, name):
        before, end = causes(self.cpu), time.monotonic() + LOAD_SECONDS
        for rounds in itertools.count(1):
            self.loads[name]()
            if time.monotonic() >= end:
                break
        found = came(before, causes(self.cpu))
        expect(not found, f'CPU {self.cpu}, {rounds} rounds: {found}')

    def close(self):
        self.program.kill()
        self.program.wait(TIMEOUT)
        self.program.stdout.close()
        self.group.close()
        self.faulting.close()


def each_alone():
    """On the instance's first CPU, where requests of no space go."""
    computing = None

    def quiet_beside(name):
        nonlocal computing
        computing = computing or Computing(CPUS[0])
        try:
            computing.quiet_beside(name)
        except BaseException:  # one of its programs may have ended
            computing.close()
            computing = None
            raise
    try:
        for name in Loads(CPUS[0], 0).all(None):
            with contextlib.nullcontext() if name in ALONE else only_long('quiet-beside-all-at-once has this load in make test'):
                check(f'quiet-beside-{name}', lambda: quiet_beside(name), lwk=False)
    finally:
        if computing:
            computing.close()


def all_at_once():
    """On the last CPU, as `hanare noise` measures it."""
    loads = Loads(CPUS[-1], os.getpid()).all(faulting := Faulting(CPUS[:-1], len(CPUS)))
    stop, broken = threading.Event(), []

    def loop(name, load):
        while not stop.is_set():
            try:
                load()
            except Exception as error:
                broken.append(f'{name}: {error}')
                return
    threads = [threading.Thread(target=loop, args=load, daemon=True) for load in loads.items()]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1)
        said = json.loads(hanare('noise', '--on', 'default', '--cpus', '1', '--seconds', str(SECONDS), '--quantum', '1000',
                                 '--json', timeout=TIMEOUT + 4 * SECONDS).out)
    finally:
        stop.set()
        end = time.monotonic() + TIMEOUT
        for thread in threads:
            thread.join(max(0, end - time.monotonic()))
        if late := [name for name, thread in zip(loads, threads) if thread.is_alive()]:
            broken.append(f'{late} do not end; {waits()}')
        faulting.close()
    for side in said['sides']:
        print(f"# {side['side']}, CPU {side['cpu']}: interrupts {side['interrupts']} in {said['seconds']} s, lost "
              f"{side['lost_ppm']:.0f} ppm", flush=True)
    lwk = said['sides'][-1]
    expect(lwk['side'] == 'lwk' and lwk['interrupts'] == 0 and lwk['exceptions'] == 0, lwk)
    expect(not broken, '; '.join(broken))


start('--cpus', f'{CPUS[0]}-{CPUS[-1]}', '--mem', '512M')
each_alone()
check('quiet-beside-all-at-once', all_at_once, lwk=False)
write(controlgroup.ROOT_GROUP + '/cgroup.subtree_control', '-memory')
hanare('shutdown', '--force', status=None)
finish()
