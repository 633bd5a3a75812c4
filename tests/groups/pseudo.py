"""Pseudo files: /proc and /sys/devices/system as programs on the LWK see them, and Linux' tools outside."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

CPUS = [2, 3]
MEMORY = 256 << 20


def said(*argv, **more):
    result = run(*argv, **more)
    expect(result.status == 0, result)
    return result.out.decode()


# Programs that call these ones have no other way where there is a vDSO.
VDSO = """
import ctypes
vdso = ctypes.CDLL('linux-vdso.so.1')
for name in 'clock_gettime', 'gettimeofday', 'time', 'clock_getres', 'getcpu':
    print(name, hasattr(vdso, '__vdso_' + name))
cpu, node = ctypes.c_uint(99), ctypes.c_uint(99)
print(vdso.__vdso_getcpu(ctypes.byref(cpu), ctypes.byref(node), None), cpu.value < 99, node.value)
"""


# What children wait in, as their files say it: calls that the LWK serves itself, and one of Linux'.
# Addresses differ.
WAITING = """
import os, select, signal, time
ends = os.pipe()
def computes():
    while True:
        pass
bodies = [signal.pause, lambda: time.sleep(1000), lambda: os.read(ends[0], 5), computes]
for body in bodies:
    child = os.fork()
    if not child:
        body()
    texts = []
    for _ in range(400):
        with open(f'/proc/{child}/syscall') as file:
            texts.append(file.read())
        if texts[-20:] == texts[-1:] * 20:
            break
        time.sleep(0.01)
    words = texts[-1].split()
    print(words[:2 if words[0] in ('0', '230') else 1], len(words), [int(word, 16) for word in words[3:4]] if words[0] == '0' else '')
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
words = open('/proc/self/syscall').read().split()
print(words[0], len(words))
"""


# What a parent finds behind `exe` as soon as vfork returns. Linux lets it go on before its child
# has other memory.
SPAWNED = """
import os, signal
seen = {os.readlink('/proc/self/exe'), '/usr/bin/sleep'}
for _ in range(20):
    pid = os.posix_spawn('/usr/bin/sleep', ['a-name', '1000'], {'ONE': 'word'})
    seen.add(os.readlink(f'/proc/{pid}/exe'))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print(sorted(seen))
"""


def no_map_files():
    """Linux has the proxy's mappings there, so the directory is not there at all."""
    text = """
import os
print('map_files' in os.listdir('/proc/self'))
for call in os.listdir, os.stat, os.lstat, lambda path: os.open(path, os.O_PATH), lambda path: os.access(path, 0):
    try:
        print(call('/proc/self/map_files'))
    except OSError as error:
        print(error.errno)
for name in 'stack', 'wchan':
    print(repr(open('/proc/self/' + name).read()))
"""
    lines = said('/usr/bin/python3', '-c', text)
    expect(lines == "False\n2\n2\n2\n2\nFalse\n''\n'0'\n", lines)


def compared():
    def prepare(folder):
        os.chmod(folder, 0o777)
    same('pseudo-files-static', [f'{GUEST}/static/pseudo-files'])
    same('pseudo-files-that-are-changed', ['/usr/bin/python3', '-c', CHANGED])
    same('pseudo-files-changed-by-nobody', ['/usr/bin/python3', '-c', CHANGED], prefix=NOBODY, prepare=prepare)
    with only_long('pseudo-files-static makes the same calls'):
        same('pseudo-files-dynamic', [f'{GUEST}/dynamic/pseudo-files'])
    same('files-of-a-process', ['/usr/bin/python3', f'{ROOT}/tests/lib/procfiles.py'])
    check('mappings-have-no-links', no_map_files)
    same('program-seen-once-vfork-returns', ['/usr/bin/python3', '-c', SPAWNED])
    same('calls-of-waiting-processes', ['/usr/bin/python3', '-c', WAITING])
    same('pagemap-static', [f'{GUEST}/static/pagemap'])
    with only_long('pagemap-static makes the same calls'):
        same('pagemap-dynamic', [f'{GUEST}/dynamic/pagemap'])
    same('pagemap-scan', [f'{GUEST}/static/pagemap-scan'])
    same('pseudo-nobody', ['/usr/bin/cat', '/proc/self/comm', '/proc/self/cmdline', '/proc/version'],
         prefix=NOBODY, prepare=prepare)
    # Opened before an execve, read after it.
    same('inherited-cmdline', ['/bin/sh', '-c', "tr '\\0' ' ' </proc/self/cmdline; exec 3</proc/self/cmdline; exec tr '\\0' ' ' <&3"])
    same('functions-of-the-vdso', ['/usr/bin/python3', '-c', VDSO])
    same('listing-of-fds', ['/bin/sh', '-c', 'ls /proc/self/fd; ls /proc/self/task | wc -l'])


def tools():
    def machine():
        expect(said('nproc') == '2\n', said('nproc'))
        text = said('lscpu')
        expect(re.search(r'On-line CPU\(s\) list: +2,3\n', text), text)
        expect(re.search(r'Off-line CPU\(s\) list: +0,1\n', text), text)
        expect(re.search(r'^CPU\(s\): +4\n', text, re.M), text)
        expect(re.search(r'Core\(s\) per socket: +2\n', text), text)
        expect(re.search(r'Socket\(s\): +1\n', text) and 'L1d cache:' in text, text)
        text = said('lscpu', '--extended=CPU,ONLINE', '--all').split()
        expect(text == 'CPU ONLINE 0 no 1 no 2 yes 3 yes'.split(), text)
        expect(said('getconf', '_NPROCESSORS_ONLN') == '2\n', 'getconf')
        expect(said('nproc', '--all') == '4\n', said('nproc', '--all'))
        expect(said('ls', '/sys/devices/system/cpu').split()[:5] == ['cpu0', 'cpu1', 'cpu2', 'cpu3', 'cpufreq'], 'ls')
    check('tools-show-the-lwks-cpus', machine)

    def memory():
        total, used, free = map(int, said('free', '-b').splitlines()[1].split()[1:4])
        expect(MEMORY * 0.9 < total <= MEMORY and free <= total, (total, free))
        pages = int(said('getconf', '_PHYS_PAGES'))
        expect(pages * 4096 == total, f'{pages} pages, free says {total} bytes')
    check('tools-show-the-lwks-memory', memory)

    def processes():
        text = said('ps', '-eo', 'pid,comm,rss,psr,nlwp')
        own = [line.split() for line in text.splitlines() if line.split()[1] == 'ps']
        expect(len(own) == 1 and int(own[0][3]) in CPUS and own[0][4] == '1', own)
        top = said('top', '-b', '-n1', '-w', '200', env=dict(os.environ, TERM='dumb'))
        expect(re.search(r'^ *\d+ .* top$', top, re.M), top[:600])
        total = float(re.search(r'Mem : +([\d.]+) total', top)[1])
        expect(200 < total <= 256, top[:600])
    check('ps-and-top-show-the-program', processes)

    def java_and_go():
        text = said('/usr/bin/python3', '-c', 'import os; print(os.cpu_count(), os.sysconf("SC_NPROCESSORS_ONLN"))')
        expect(text.split()[1] == '2', text)
    check('python-counts-the-lwks-cpus', java_and_go)

    def cpusets():
        """hwloc (MPICH, Open MPI) asks the control group, too."""
        text = said('lstopo-no-graphics', '--only', 'pu')
        expect([int(n) for n in re.findall(r'P#(\d+)', text)] == CPUS, text)
        text = said('cat', '/sys/fs/cgroup/cpuset.cpus.effective', '/sys/fs/cgroup/cpuset.mems.effective')
        expect(text == '2-3\n0\n', text)
        with open('/sys/fs/cgroup/cpuset.cpus.effective') as file:
            expect(file.read() == '0-1\n', "Linux' own CPUs")
    check('cpusets-have-the-lwks-cpus', cpusets)


def frames():
    """Files by frame, in which Linux would tell of its proxies only, are not there."""
    text = '''
import os
for name in 'kpageflags', 'kpagecount', 'kpagecgroup':
    try:
        os.open('/proc/' + name, os.O_RDONLY)
        print(name, 'is there')
    except OSError as error:
        print(name, error.errno)
'''
    lines = said('/usr/bin/python3', '-c', text)
    expect(lines == 'kpageflags 2\nkpagecount 2\nkpagecgroup 2\n', lines)
    expect(os.path.exists('/proc/kpageflags'), 'Linux has none')


def kept_for_readers():
    """Text that grows with a program's mappings is not kept whole in Linux' kernel."""
    def used():
        with open('/proc/meminfo') as file:
            return int(re.search(r'^VmallocUsed: +(\d+) kB', file.read(), re.M)[1]) >> 10

    def body():
        before = used()
        with subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/many-mappings'], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as program:
            try:
                lines = program.stdout.readline()
                expect(lines == '20000\n', f'{lines!r}, status {program.poll()}')
                expect(used() - before < 16, f'{used() - before} MiB more')
            finally:
                program.kill()
    check('smaps-of-many-mappings', body)


CPU_FOLDER = '/sys/devices/system/cpu'


def numbers(text):
    """Of a list such as 0,2-3."""
    found = set()
    for part in filter(None, text.strip().split(',')):
        first, _, last = part.partition('-')
        found |= set(range(int(first), int(last or first) + 1))
    return found


def places(grep):
    """Text of every file of topology and cache of the instance's CPUs; sets of CPUs without others."""
    found = {}
    for line in grep.splitlines():
        name, _, text = line.partition(':')
        if name.endswith('_list'):
            text = sorted(numbers(text) & set(CPUS))
        elif re.search(r'_(siblings|cpus|map)$', name):
            text = int(text.replace(',', ''), 16) & sum(1 << cpu for cpu in CPUS)
        found[name] = text
    return found


GREP = ['grep', '-r', '', *(f'{CPU_FOLDER}/cpu{cpu}/{what}' for cpu in CPUS for what in ('topology', 'cache'))]
LSTOPO = ['lstopo-no-graphics', '--no-io', '--restrict', hex(sum(1 << cpu for cpu in CPUS))]


def objects(lstopo):
    return re.findall(r'(?:Package|L\d\w?|Core|PU) L#\d+(?: \([^)]*\))?', lstopo)


def places_before():
    """While the CPUs are Linux'."""
    text = [subprocess.run(argv, capture_output=True, text=True, check=False).stdout for argv in (GREP, LSTOPO)]
    return places(text[0]), objects(text[1])


def cpu_numbers(before, numbers_of_linux):
    """What Linux shows where CPUs are offline."""
    check('cpu-numbers-are-those-of-linux', lambda: same_numbers(numbers_of_linux))

    def kept():
        linux, lwk = before[0], places(said(*GREP))
        expect(len(linux) > 20 * len(CPUS), f'test broken, on Linux: {linux}')
        expect(linux == lwk, difference(linux, lwk))
    check('caches-and-topology-are-what-they-were', kept)

    def hwloc():
        now = objects(said(*LSTOPO[:2]))
        expect(sum(name.startswith('PU') for name in now) == len(CPUS), now)
        expect(now == before[1], f'Linux {before[1]}, LWK {now}')
        linux = subprocess.run(['hwloc-calc', '-N', 'group', 'all'], capture_output=True, check=False).stdout
        expect(said('hwloc-calc', '-N', 'group', 'all').encode() == linux, 'devices are near to no CPU')
        mask = said('hwloc-bind', 'core:1', '--', 'hwloc-bind', '--get')
        expect(int(mask, 16) == 8, mask)
    check('lstopo-as-on-linux', hwloc)

    def numactl():
        text = said('numactl', '--show')
        expect('physcpubind: 2 3 \n' in text and 'membind: 0 \n' in text, text)
        text = said('numactl', '--hardware')
        expect('node 0 cpus: 2 3\n' in text, text)
        text = said('numactl', '-C', '2', 'grep', 'Cpus_allowed_list', '/proc/self/status')
        expect(text == 'Cpus_allowed_list:\t2\n', text)
    check('numactl-takes-the-instances-cpus', numactl)

    def refused():
        """CPU 0 is not the instance's; CPU 99 is not there."""
        with offline(1):
            linux = [command(['numactl', '-C', cpu, 'true']) for cpu in ('1', '99')]
        lwk = [run('numactl', '-C', cpu, 'true') for cpu in ('0', '99')]
        for one, other in zip(linux, lwk):
            expect(one.status == other.status == 1 and one.err == other.err, f'Linux {one}, LWK {other}')
        expect(linux[0].err == b'sched_setaffinity: Invalid argument\n', linux[0])
    check('offline-cpu-refused-as-on-linux', refused)

    def cyclictest():
        for affinity in [], ['-a'], ['-a', '2,3']:
            text = said('cyclictest', '-q', '-l', '20', '-t', '2', *affinity)
            expect(text.count('T: ') == 2, text)
        text = said('cyclictest', '-q', '-l', '20', '-t')
        expect(text.count('T: ') == os.sysconf('SC_NPROCESSORS_CONF'), text)
    check('cyclictest-binds-its-threads', cyclictest)

    check('hackbench-ends', lambda: said('hackbench', '-l', '5', '-g', '1', timeout=2 * TIMEOUT))


def outside():
    """Linux sees an ordinary process of the program's name, arguments and file."""
    def body():
        process = subprocess.Popen(['hanare', 'run', '--', '/usr/bin/sleep', '1000'])
        try:
            own = f'/proc/{process.pid}'
            until(lambda: os.readlink(own + '/exe') == '/usr/bin/sleep', lambda: os.readlink(own + '/exe'))

            def arguments():
                with open(own + '/cmdline', 'rb') as file:
                    return file.read()
            until(lambda: arguments() == b'/usr/bin/sleep\x001000\x00', arguments)
            expect(b'PATH=' in open(own + '/environ', 'rb').read(), 'no environment')
            until(lambda: said('ps', '-o', 'stat=', '-p', str(process.pid)).startswith('S'), 'it sleeps')
            inside = said('ps', '-o', 'stat=,psr=,args=', '-p', str(process.pid)).split(None, 2)
            expect(inside[0][0] == 'S' and int(inside[1]) in CPUS, inside)
            expect(inside[2] == '/usr/bin/sleep 1000\n', inside)
            maps = said('cat', own + '/maps')
            expect('/usr/bin/sleep\n' in maps and '[stack]' in maps and '/dev/hanare' not in maps, maps)
            expect('/dev/hanare' in open(own + '/maps').read(), 'Linux outside sees what it has')
            affinity = said('taskset', '-cp', str(process.pid))
            expect(affinity.endswith(': 2,3\n'), affinity)
        finally:
            process.kill()
            process.wait()
    check('process-seen-from-both-kernels', body)

    def linux_stays():
        with open('/proc/cpuinfo') as file:
            expect(re.findall(r'processor\s*: (\d+)', file.read()) == ['0', '1'], 'Linux outside')
        with open('/sys/devices/system/cpu/online') as file:
            expect(file.read() == '0-1\n', 'Linux outside')
        with open(CPU_FOLDER + '/cpu0/online') as file:
            expect(file.read() == '1\n', 'CPU 0')
    check('linux-keeps-its-own-cpu-files', linux_stays)


def given_back(before, had_file):
    """After the shutdown Linux shows its own again."""
    hanare('shutdown', '--all')
    now = places_before()
    expect(now == before, difference(before[0], now[0]) or f'{before[1]}, now {now[1]}')
    expect(os.path.exists(CPU_FOLDER + '/cpu0/online') == had_file, "CPU 0's file online")


def pending():
    """Of a process in another pid namespace, where its number is not the reader's."""
    text = ('import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, {10}); '
            'os.kill(os.getpid(), 10); print(flush=True); signal.pause()')
    process = subprocess.Popen(['unshare', '--pid', '--fork', '--kill-child', 'hanare', 'run', '--',
                                '/usr/bin/python3', '-c', text], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        with open(f'/proc/{process.pid}/task/{process.pid}/children') as file:
            child = file.read().split()[0]
        shown = run('grep', 'ShdPnd', f'/proc/{child}/status')
        expect(shown.out == b'ShdPnd:\t0000000000000200\n', shown)
    finally:
        process.kill()
        process.wait(TIMEOUT)


# Processes that have waited in vfork(2) for a child that never leaves its memory, and those whose
# first thread has ended. Neither comes back.
VFORKS = 'syscall(58) or do { print "here\\n"; sleep 1000 }'
EXITED = ('import ctypes, threading, time; threading.Thread(target=time.sleep, args=(1000,)).start(); '
          'print("here", flush=True); ctypes.CDLL(None).pthread_exit(None)')


def states():
    """Of threads that wait for a child, or have ended: as of programs on Linux."""
    for argv, state in (['/usr/bin/perl', '-e', '$| = 1; ' + VFORKS], 'D (disk sleep)'), (['/usr/bin/python3', '-c', EXITED], 'Z (zombie)'):
        for prefix in [], ['hanare', 'run', '--']:
            with subprocess.Popen([*prefix, *argv], stdout=subprocess.PIPE, start_new_session=True) as process:
                try:
                    expect(process.stdout.readline() == b'here\n', f'{argv} does not start')
                    files = [f'/proc/{process.pid}/status', f'/proc/{process.pid}/stat']
                    read = (lambda: run('cat', *files)) if prefix else (lambda: command(['cat', *files]))
                    shown = lambda: f'State:\t{state}\n' in read().out.decode() and f') {state[0]} ' in read().out.decode()
                    until(shown, lambda: f'{prefix} {argv}: {read()}')
                finally:
                    os.killpg(process.pid, signal.SIGKILL)


def hostile():
    """Opens, reads and ends of many at once; descriptors that another thread closes."""
    text = '''
import os, threading
def loop():
    for _ in range(60):
        for name in "self/maps", "self/status", "stat", "self/task", "cpuinfo":
            try:
                fd = os.open("/proc/" + name, os.O_RDONLY)
                os.read(fd, 100)
                os.close(fd)
            except OSError:
                pass
def closer(stop):
    while not stop.is_set():
        for fd in range(5, 12):
            try:
                os.close(fd)
            except OSError:
                pass
stop = threading.Event()
threads = [threading.Thread(target=loop) for _ in range(3)]
other = threading.Thread(target=closer, args=(stop,))
for t in threads: t.start()
other.start()
for t in threads: t.join()
stop.set()
other.join()
print("done")
'''
    def body():
        result = run('/usr/bin/python3', '-c', text)
        expect(result.out == b'done\n', result)
    check('pseudo-files-beside-threads-that-close', body)


# What becomes of the file, not of its contents. Of a mode that is changed every process hears.
CHANGED = """
import os
def tell(path, what, call):
    try:
        print(path, what, call())
    except OSError as error:
        print(path, what, error.strerror)
for path in ('/proc/self/status', '/proc/self/maps', '/proc/self/cmdline', '/proc/stat', '/proc/uptime',
             '/sys/devices/system/cpu/online', '/sys/devices/system/cpu/vulnerabilities/meltdown'):
    fd = os.open(path, os.O_RDONLY)
    mode = os.fstat(fd).st_mode & 0o7777
    for other in 0o400, mode:
        tell(path, 'fchmod', lambda: os.fchmod(fd, other))
        tell(path, 'mode', lambda: (oct(os.stat(path).st_mode), oct(os.fstat(fd).st_mode)))
    tell(path, 'chmod', lambda: os.chmod(f'/proc/self/fd/{fd}', mode))
    tell(path, 'fchown', lambda: os.fchown(fd, os.getuid(), -1))
    # What a change of the owner takes from the mode.
    tell(path, 'fchmod', lambda: os.fchmod(fd, 0o6755))
    tell(path, 'fchown', lambda: os.fchown(fd, -1, os.getgid()))
    tell(path, 'mode', lambda: oct(os.fstat(fd).st_mode))
    tell(path, 'fchmod', lambda: os.fchmod(fd, mode))
    tell(path, 'fsync', lambda: os.fsync(fd))
    os.close(fd)
"""


def removed_device():
    """The node of a device is not looked for where the device was, once it is removed."""
    bus = '/sys/bus/pci'
    place = os.path.realpath(f'{bus}/devices/0000:00:1f.3')
    expect(os.path.exists(place + '/local_cpulist'), place)
    program = subprocess.Popen([GUEST + '/module-forged-proxy', 'default', 'opened', place + '/local_cpulist'],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        expect(program.stdout.readline() == b'open\n', 'it is open')
        with open(place + '/remove', 'w') as file:
            file.write('1')
        said, _ = program.communicate(b'\n', timeout=TIMEOUT)
        expect(said == b"as Linux' own\n", said)
    finally:
        program.kill()
        program.wait(TIMEOUT)
        with open(bus + '/rescan', 'w') as file:
            file.write('1')
    expect(os.path.exists(place + '/local_cpulist'), 'the device is back')


def vulnerabilities():
    """Not Linux' mitigations, but the LWK's own. tests/vm/tables.py looks at them on a CPU that has more leaks."""
    folder = '/sys/devices/system/cpu/vulnerabilities'
    # Closed by microcode and settings of the CPU, or a matter of virtual machines.
    as_linux = {'srbds', 'gather_data_sampling', 'itlb_multihit', 'vmscape', 'ghostwrite', 'old_microcode'}

    def body():
        names = sorted(set(os.listdir(folder)) - as_linux)
        lines = run('/bin/grep', '', *(f'{folder}/{name}' for name in names)).out.decode().splitlines(keepends=True)
        expect(len(lines) == len(names), lines)
        for name, line in zip(names, lines):
            with open(f'{folder}/{name}') as file:
                affected = file.read() != 'Not affected\n'
            said = line.removeprefix(f'{folder}/{name}:')
            closed = {
                'l1tf': 'Mitigation: PTE Inversion\n',
                'spectre_v1': 'Mitigation: usercopy/swapgs barriers and __user pointer sanitization\n',
                'spectre_v2': 'Vulnerable; RSB filling\n',
            }.get(name, 'Vulnerable\n')
            expect(said == (closed if affected else 'Not affected\n'), f'{name}: {said!r}')
    check('vulnerabilities-of-the-lwk', body)


before = places_before()
numbers_of_linux = numbers_with_offline(1)
had_file = os.path.exists(CPU_FOLDER + '/cpu0/online')
start(*BOOT)
compared()
tools()
kept_for_readers()
cpu_numbers(before, numbers_of_linux)
outside()
vulnerabilities()
check('files-by-frame-are-not-there', frames)
check('file-of-a-removed-device', removed_device)
check('pending-signals-in-another-pid-namespace', pending)
check('states-of-waiting-and-ended-threads', states)
hostile()
check('linux-has-its-files-again', lambda: given_back(before, had_file), lwk=False)


def boot_with_three():
    hanare('shutdown', '--all')
    boot('--cpus', '1-3', '--mem', '256M')


check('boot-with-three-cpus', boot_with_three, lwk=False, prepares=True)
# It looks for CPUs among the first ones, as many as are online: on no machine does it run on 2
# and 3.
check('pi-stress-runs', lambda: said('pi_stress', '-D', '2', '-q', '-g', '1', timeout=2 * TIMEOUT))
finish()
