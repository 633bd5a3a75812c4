"""The request box: programs whose calls servers execute, and what is said of it.

Groups of programs run by it where TESTS_DISPATCH=box is set (conformance, files, guests-*).
"""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

SERVERS = 2
# Has a server, says so, and waits for a line.
WAITS = 'import os, sys\nfor i in range(9): os.stat("/usr")\nprint("ready", flush=True)\nsys.stdin.readline()\nprint("done")'


def told():
    return status()['dispatch']


def by_box(*argv):
    return ['hanare', 'run', '--dispatch', 'box', '--', *argv]


def tasks(pid):
    """The CPUs that each thread of a process may run on, by its id."""
    found = {}
    for tid in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{tid}/status') as text:
            found[int(tid)] = re.search(r'^Cpus_allowed_list:\s*(\S+)', text.read(), re.M).group(1)
    return found


def waiting():
    """A program that has a server, and its server's thread id."""
    program = subprocess.Popen(by_box('python3', '-c', WAITS), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    expect(program.stdout.readline() == b'ready\n', 'it begins')
    servers = [tid for tid in tasks(program.pid) if tid != program.pid]
    expect(len(servers) == 1, f'servers of a lone caller: {servers}')
    return program, servers[0]


def ends(program, code):
    out, _ = program.communicate(b'\n', TIMEOUT)
    expect(program.returncode == code, f'status {program.returncode}, said {out}')
    return out


def main():
    start('--cpus', '2-3', '--mem', '256M', '--servers', str(SERVERS), '--server-cpus', '1')
    for label, path in guests('calls-beside-blocked-servers', 'signals-into-boxed-calls', 'control-beside-blocked-read',
                              'interrupted-calls', 'execve-with-threads', 'process-directed-signals'):
        same(label, [path], both=lambda launch, path=path: by_box(path) if launch else [path],
             status=7 if 'signals-into' in path else None)

    def counted():
        seen = told()
        expect(not seen['is_box'] and seen['servers'] == SERVERS, seen)
        expect(seen['boxed_calls'] > 100 and seen['servers_made'] > 2 and seen['unboxed_calls'] > 0, seen)
        said = hanare('status').out.decode()
        expect(re.search(r'^dispatch +direct \(2 servers for each process, \d+ started; \d+ calls', said, re.M), said)
    check('status-says-what-servers-did', counted)

    def chosen():
        before = told()['boxed_calls']
        run('python3', '-c', 'import os; [os.stat("/usr") for i in range(500)]')
        expect(told()['boxed_calls'] == before, 'a program of the default goes directly')
        command(by_box('python3', '-c', 'import os; [os.stat("/usr") for i in range(500)]'))
        expect(told()['boxed_calls'] >= before + 400, f'{told()} after {before}')
    check('a-program-chooses-its-way', chosen)

    def spawned():
        before = told()['boxed_calls']
        stats = 'import os; [os.stat("/usr") for i in range(500)]'
        body = f'import os, sys\nargv = [sys.executable, "-c", {stats!r}]\n' \
               'sys.exit(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(argv[0], argv, os.environ), 0)[1]))'
        result = command(by_box('python3', '-c', body))
        expect(result.status == 0 and told()['boxed_calls'] >= before + 400, f'{told()} after {before}: {result}')
    check('what-posix-spawn-starts-goes-by-the-box', spawned)

    def placed():
        program, server = waiting()
        cpus = tasks(program.pid)
        expect(cpus[server] == '1' and cpus[program.pid] != '1', cpus)
        expect(ends(program, 0) == b'done\n', 'it goes on')
    check('servers-run-on-chosen-cpus', placed)

    def struck():
        program, server = waiting()
        for number in signal.SIGUSR1, signal.SIGTERM, signal.SIGRTMIN:
            # To a thread that is none of the program's: it stays pending there.
            command(['python3', '-c', f'import ctypes; ctypes.CDLL(None).syscall(234, {program.pid}, {server}, {int(number)})'])
        expect(ends(program, 0) == b'done\n', 'it goes on')
        program, server = waiting()
        os.kill(server, signal.SIGKILL)
        ends(program, -9)
    check('signals-to-a-server', struck)

    def alone():
        body = 'import ctypes, os\nfor i in range(9): os.stat("/usr")\n' \
               'print(ctypes.CDLL(None).unshare(0x10000000))\nprint(os.stat("/usr").st_uid)'
        result = command(by_box('python3', '-c', body))
        expect(result.status == 0 and result.out.split()[0] == b'0', result)
    check('a-user-namespace-is-entered-without-servers', alone)

    def rights():
        body = 'import os\nfor i in range(9): os.stat("/usr")\nos.setresuid(65534, 65534, 65534)\n' \
               'try: open("/etc/shadow"); print("opened")\nexcept PermissionError: print("refused")\n' \
               'print(len(os.listdir("/proc/self/task")))'
        result = command(by_box('python3', '-c', body))
        expect(result.out == b'refused\n1\n', result)
    check('no-server-keeps-rights-that-were-given-up', rights)

    def written():
        before = told()['boxed_calls']
        body = 'import os\nfor i in range(9): os.stat("/usr")\nopen("/proc/self/timerslack_ns", "w").write("60000")\n' \
               'print(open("/proc/self/timerslack_ns").read().strip())\nfor i in range(3000): os.stat("/usr")'
        result = command(by_box('python3', '-c', body))
        expect(result.out == b'60000\n' and told()['boxed_calls'] < before + 2500, f'{told()} after {before}: {result}')
    check('what-only-a-thread-itself-may-write-is-not-a-servers', written)

    def refused():
        for wrong in ['--servers', '0'], ['--servers', '9'], ['--server-cpus', '64'], ['--dispatch', 'auto']:
            result = hanare('boot', 'other', '--cpus', '1', '--mem', '64M', *wrong, status=2)
            expect(wrong[0].encode() in result.err, result)
    check('wrong-options-are-refused', refused)
    finish()


main()
