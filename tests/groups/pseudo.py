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


def compared():
    def prepare(folder):
        os.chmod(folder, 0o777)
    for label, path in guests('pseudo'):
        same(label, [path], timeout=90)
    same('pseudo-nobody', ['/usr/bin/cat', '/proc/self/comm', '/proc/self/cmdline', '/proc/version'],
         prefix=['/usr/bin/setpriv', '--reuid=65534', '--clear-groups'], prepare=prepare)
    same('listing-of-fds', ['/bin/sh', '-c', 'ls /proc/self/fd; ls /proc/self/task | wc -l'])


def tools():
    def machine():
        expect(said('nproc') == '2\n', said('nproc'))
        text = said('lscpu')
        expect(re.search(r'On-line CPU\(s\) list: +2,3\n', text), text)
        expect(re.search(r'^CPU\(s\): +2\n', text, re.M), text)
        expect(re.search(r'Core\(s\) per socket: +2\n', text), text)
        expect(said('getconf', '_NPROCESSORS_ONLN') == '2\n', 'getconf')
        expect(said('ls', '/sys/devices/system/cpu').split()[:2] == ['cpu2', 'cpu3'], 'ls')
    check('tools-cpus', machine)

    def memory():
        total, used, free = map(int, said('free', '-b').splitlines()[1].split()[1:4])
        expect(MEMORY * 0.9 < total <= MEMORY and free <= total, (total, free))
        pages = int(said('getconf', '_PHYS_PAGES'))
        expect(pages * 4096 == total, f'{pages} pages, free says {total} bytes')
    check('tools-memory', memory)

    def processes():
        text = said('ps', '-eo', 'pid,comm,rss,psr,nlwp')
        own = [line.split() for line in text.splitlines() if line.split()[1] == 'ps']
        expect(len(own) == 1 and int(own[0][3]) in CPUS and own[0][4] == '1', own)
        top = said('top', '-b', '-n1', '-w', '200', env=dict(os.environ, TERM='dumb'))
        expect(re.search(r'^ *\d+ .* top$', top, re.M), top[:600])
        total = float(re.search(r'Mem : +([\d.]+) total', top)[1])
        expect(200 < total <= 256, top[:600])
    check('tools-processes', processes)

    def java_and_go():
        text = said('/usr/bin/python3', '-c', 'import os; print(os.cpu_count(), os.sysconf("SC_NPROCESSORS_ONLN"))')
        expect(text.split()[1] == '2', text)
    check('tools-python', java_and_go)

    def cpusets():
        """hwloc (MPICH, Open MPI) asks the control group, too."""
        text = said('lstopo-no-graphics', '--only', 'pu')
        expect([int(n) for n in re.findall(r'P#(\d+)', text)] == CPUS, text)
        text = said('cat', '/sys/fs/cgroup/cpuset.cpus.effective', '/sys/fs/cgroup/cpuset.mems.effective')
        expect(text == '2-3\n0\n', text)
        with open('/sys/fs/cgroup/cpuset.cpus.effective') as file:
            expect(file.read() == '0-1\n', "Linux' own CPUs")
    check('tools-cpusets', cpusets)


def outside():
    """Linux sees an ordinary process of the program's name, arguments and file."""
    def body():
        process = subprocess.Popen(['hanare', 'run', '--', '/usr/bin/sleep', '50'])
        try:
            own = f'/proc/{process.pid}'
            for _ in range(100):
                if os.readlink(own + '/exe') == '/usr/bin/sleep':
                    break
                time.sleep(0.1)
            expect(os.readlink(own + '/exe') == '/usr/bin/sleep', os.readlink(own + '/exe'))
            with open(own + '/cmdline', 'rb') as file:
                text = file.read()
            expect(text == b'/usr/bin/sleep\x0050\x00', text)
            expect(b'PATH=' in open(own + '/environ', 'rb').read(), 'no environment')
            time.sleep(0.5)
            inside = said('ps', '-o', 'stat=,psr=,args=', '-p', str(process.pid)).split(None, 2)
            expect(inside[0][0] == 'S' and int(inside[1]) in CPUS, inside)
            expect(inside[2] == '/usr/bin/sleep 50\n', inside)
            maps = said('cat', own + '/maps')
            expect('/usr/bin/sleep\n' in maps and '[stack]' in maps and '/dev/hanare' not in maps, maps)
            expect('/dev/hanare' in open(own + '/maps').read(), 'Linux outside sees what it has')
            affinity = said('taskset', '-cp', str(process.pid))
            expect(affinity.endswith(': 2,3\n'), affinity)
        finally:
            process.kill()
            process.wait()
    check('outside-and-inside', body)

    def linux_stays():
        with open('/proc/cpuinfo') as file:
            expect(re.findall(r'processor\s*: (\d+)', file.read()) == ['0', '1'], 'Linux outside')
        with open('/sys/devices/system/cpu/online') as file:
            expect(file.read() == '0-1\n', 'Linux outside')
    check('linux-keeps-its-own', linux_stays)


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
        process.wait(20)


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
        result = run('/usr/bin/python3', '-c', text, timeout=120)
        expect(result.out == b'done\n', result)
    check('descriptors-closed-meanwhile', body)


start(*BOOT)
compared()
tools()
outside()
check('pending-in-another-namespace', pending)
hostile()
finish()
