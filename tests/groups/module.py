"""The module by its ioctls alone, well-formed and not."""

import errno
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
import abi
from harness import *

TOOL = GUEST + '/module-boot'


def tool(*arguments, status=0):
    result = command([TOOL, *arguments])
    expect(result.status == status and not result.late, f'{arguments}: {result}')
    return result


def by_hand():
    tool('up', 'hand', '2,3', '64', WORK + '/hanare-lwk')
    said = tool('status', 'hand').out
    expect(b'chunks' in said and b'cpu 2' in said and b'cpu 3' in said, said)
    expect(b'Hanare LWK' in tool('log', 'hand').out, 'no log')
    tool('down', 'hand')
    tool('status', 'hand', status=1)


def options_refused_by_the_lwk():
    """Options that the command would have refused: the LWK panics before it has page tables of its own."""
    before = len(kernel_log_since(0))
    said = tool('up', 'option', '2,3', '64', WORK + '/hanare-lwk', 'spin=0', status=1).err
    expect(b'the LWK panicked' in said, said)
    expect("'spin=0' is no boot option" in kernel_log_since(before), kernel_log_since(before))
    with open('/sys/devices/system/cpu/online') as file:
        expect(file.read().strip() == '0-3', 'CPUs are missing')


def given_back_on_close():
    """A process that made an instance and took CPUs, and died before booting, leaves nothing."""
    result = command([TOOL, 'up', 'half', '2,3', '64', '/bin/ls'])
    expect(result.status == 1, result)
    with open('/sys/devices/system/cpu/online') as file:
        expect(file.read().strip() == '0-3', 'CPUs are missing')
    expect(b'half' not in hanare('ls').out, 'the instance is still there')


def nonsense(seed):
    def body():
        result = command([GUEST + '/module-fuzz', '20000', str(seed)])
        expect(result.status == 0, result)
        with open('/sys/devices/system/cpu/online') as file:
            online = file.read().strip()
        expect(online == wanted, f'CPUs online: {online}, not {wanted}')
        expect(b'fuzz' not in hanare('ls').out, 'an instance was left behind')
    return body


HOSTILE = GUEST + '/module-hostile'


def hostile(how):
    """One that says how it went."""
    def body():
        result = command([HOSTILE, 'default', how])
        expect(result.out == b'ended\n', result)
    return body


def hostile_at_shutdown(how):
    """One that goes on until it is killed: not at the cost of the caller that shuts down."""
    def body():
        process = subprocess.Popen([HOSTILE, 'default', how], stdout=subprocess.PIPE,
                                   start_new_session=True)
        try:
            said = process.stdout.readline()
            expect(said == b'ready\n', said)
            hanare('shutdown', '--force')
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(TIMEOUT)
        boot()
    return body


def users():
    """Open files of the module's, and what else keeps it."""
    with open('/sys/module/hanare/refcnt') as file:
        return int(file.read())


def cycle():
    nothing_left()
    before = users()
    hostile('cycle')()
    until(lambda: users() == before, lambda: f'{before} users of the module before, {users()} after')


FORGE = GUEST + '/module-forged-proxy'


def stolen():
    """What a proxy says that Linux allows its program is not believed."""
    process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/die', 'pause'],
                               stdout=subprocess.PIPE)
    try:
        expect(process.stdout.readline().endswith(b'ready\n'), 'not ready')
        result = command([FORGE, 'default', 'steal', str(process.pid)])
        expect(result.out == b'nothing\n', result)
        expect(process.poll() is None, 'its end')
    finally:
        process.kill()
        process.wait(TIMEOUT)


def managed():
    """The descriptor of a proxy manages no instance and observes no process, though its user may."""
    result = command([FORGE, 'default', 'manage'])
    expect(result.out == b'nothing\n', result)


def deceived(how):
    """A supervisor of a program's calls (SECCOMP_RET_USER_NOTIF) is told no lie, and decides about no other call
    because of one."""
    def body():
        result = command([GUEST + '/module-lying-proxy', 'default', how])
        expect(result.out == b'lied\nended\n', result)
    return body


def filled():
    """Start blocks take no memory that the kernel needs."""
    result = command([FORGE, 'default', 'fill'])
    expect(result.out == b'filled\n', result)
    expect(run('/bin/true').status == 0, 'no program runs any more')


def forks():
    result = command([GUEST + '/module-inherited-descriptor', 'default'])
    expect(result.status == 0, result)


class SlowFile:
    """A program on the LWK with a thread that waits for a page of a file that does not come yet."""

    def __init__(self, how='slow', program=HOSTILE):
        self.how, self.runs = how, program
        self.program = self.server = None

    def late(self, _, frame):
        raise Failure(f'no end, at line {frame.f_lineno} of {os.path.basename(frame.f_code.co_filename)}; {waits()}')

    def __enter__(self):
        signal.signal(signal.SIGALRM, self.late)
        signal.alarm(TIMEOUT)
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self):
        subprocess.run(['modprobe', 'fuse'], check=True)
        self.folder = tempfile.mkdtemp(dir=WORK)
        self.server = subprocess.Popen([sys.executable, ROOT + '/tests/lib/slowfile.py', self.folder],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        expect(self.server.stdout.readline() == b'mounted\n', 'no FUSE')
        file = os.open(self.folder + '/file', os.O_RDONLY)
        self.program = subprocess.Popen(
            ['sh', '-c', f'exec hanare run --cpus 2 -- {self.runs} - {self.how} 3<{self.folder}/file'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.close(file)
        self.address = int(self.said(b'ready').split()[1], 16)
        self.held()

    def __exit__(self, *_):
        signal.alarm(0)
        begun = [process for process in (self.program, self.server) if process]
        for process in begun:
            process.kill()
        for process in begun:
            process.wait(TIMEOUT)
        if self.server:
            subprocess.run(['umount', '-n', '-l', self.folder])

    def said(self, wanted):
        line = self.program.stdout.readline()
        expect(line.startswith(wanted), f'{line!r}, not {wanted!r}')
        return line

    def tell(self, process):
        process.stdin.write(b'go\n')
        process.stdin.flush()

    def held(self):
        expect(self.server.stdout.readline() == b'read\n', 'the file is not read')


def forged_answer():
    """The proxy says that a service has failed which it still runs: its frames stay the service's."""
    state, result = (abi.slot(1) + abi.offset('slot', field) for field in ('state', 'result'))  # of the thread that waits
    with SlowFile() as slow:
        with open(f'/proc/{slow.program.pid}/mem', 'r+b', buffering=0) as memory:
            memory.seek(state)
            asked = struct.unpack('<I', memory.read(4))[0]
            expect(asked == abi.constant('SLOT_CONTROL'), f'test broken: no service is asked for in the slot, whose state is {asked}')
            for at, data in (result, struct.pack('<q', -22)), (state, struct.pack('<I', abi.constant('SLOT_DONE'))):
                memory.seek(at)
                memory.write(data)
        for number in signal.SIGSTOP, signal.SIGCONT:  # has the LWK look
            slow.program.send_signal(number)
            time.sleep(0.2)
        slow.tell(slow.program)
        slow.said(b'taken')
        slow.tell(slow.server)
        slow.held()
        slow.tell(slow.program)
        slow.said(b'0 pages written to, the file begins with F')


READERS, PREAD = 80, '17'  # the number of the system call
# Its children read a page each; then it waits for them. One that has waited for long may be told
# that there is none (EIO), and reads again; one that is refused, or at once, ends.
READS = '''
import errno, os, sys, time
path, address, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(1, count + 1):
    if not os.fork():
        file = os.open(path, os.O_RDONLY)
        while True:
            began = time.monotonic()
            try:
                os.pread(file, 1, address + number * (512 << 10))
            except OSError as error:
                if error.errno == errno.EIO and time.monotonic() - began > 5:
                    continue
            os._exit(0)
while True:
    os.wait()
'''


def killed_readers():
    """Others read pages of a program's file that do not come, and are killed: nothing stays taken."""
    def readers():
        with open(f'/proc/{parent.pid}/task/{parent.pid}/children') as children:
            return children.read().split()

    def call_of(pid):
        with contextlib.suppress(OSError), open(f'/proc/{pid}/syscall') as file:
            return file.read().split()[0]

    with SlowFile() as slow:
        parent = subprocess.Popen([sys.executable, '-S', '-c', READS, f'/proc/{slow.program.pid}/mem', str(slow.address),
                                   str(READERS)], stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            began = set()

            def all_read():
                began.update(pid for pid in readers() if call_of(pid) == PREAD)
                return len(began) == READERS
            until(all_read, lambda: f'{len(began)} of {READERS} read, {len(readers())} are there')
            expect(len(readers()) == READERS, 'the file is not slow')
            for pid in readers():
                os.kill(int(pid), signal.SIGKILL)
            parent.wait(TIMEOUT)  # it has no children any more
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
            parent.wait(TIMEOUT)
        result = command(['hanare', 'run', '--cpus', '2', '--', GUEST + '/static/hello'])
        expect(result.out == b'hello\n', f'no program runs there: {result}')


def two_readers():
    """Two tasks need the same page. One reads it. The other, which cannot give up the memory map's lock
    (/proc/PID/mem), does not wait for ever."""
    with SlowFile() as slow:
        code = (f'import os; os.pread(os.open("/proc/{slow.program.pid}/mem", os.O_RDONLY), 1, '
                f'{slow.address + (8 << 20)})')
        readers = [subprocess.Popen([sys.executable, '-S', '-c', code], stderr=subprocess.PIPE)
                   for _ in range(2)]
        try:
            until(lambda: not all(reader.poll() is None for reader in readers), 'one of two does not wait any more')
            first, second = sorted(readers, key=lambda reader: reader.poll() is not None)
            error = second.stderr.read()
            expect(b'OSError: [Errno 5]' in error, error)
            expect(first.poll() is None, 'the file is not slow')
            slow.tell(slow.server)
            expect(first.wait(TIMEOUT) == 0, first.stderr.read())
        finally:
            for reader in readers:
                reader.kill()
                reader.wait(TIMEOUT)


def beside_slow_file(how, threads):
    """Many threads wait for pages of a file that does not come; they have all service entries that their program may
    have. Meanwhile another thread unmaps memory that Linux has seen, maps page-cache frames, and forks."""
    def body():
        with SlowFile(how, GUEST + '/module-beside-slow-file') as slow:
            until(lambda: threads_of(slow.program) == threads, lambda: f'{threads_of(slow.program)} of {threads} threads')
            slow.tell(slow.program)
            slow.said(b'went on')
    return body


def pinned_beside_a_fork():
    """A device reads into memory of a process that forks. The writes of the process would have copied its pages."""
    ways = ['few', 'large', 'many', 'moved', 'protected', 'twice']
    with SlowFile(' '.join(ways), GUEST + '/module-pinned-beside-fork') as slow:
        for _ in ways[1:]:
            slow.held()
        slow.tell(slow.program)
        for _ in ways:
            slow.said(b'forked')
        slow.tell(slow.server)
        said = slow.program.stdout.read().decode().splitlines()
        children = lambda how: ' child: 0' * (2 if how == 'twice' else 1)
        expect(sorted(said) == [f'{how}: 65536 of 65536 bytes read, 0 of them lost;{children(how)}' for how in ways], said)


def threads_of(program):
    return sum(len(process['threads']) for process in json.loads(hanare('ps', '--json').out) if process['pid'] == program.pid)


def unmapped():
    """A proxy unmaps its space and closes the descriptor while a fault of its reads a file into frames of the LWK's."""
    with SlowFile('written') as slow:
        result = command([HOSTILE, str(slow.program.pid), 'unmapped'])
        expect(result.out == b'ended\n', result)
        result = command(['hanare', 'run', '--cpus', '2', '--', GUEST + '/static/hello'])
        expect(result.out == b'hello\n', f'no program runs there: {result}, {hanare("log").out[-500:]}')
        slow.tell(slow.server)


def refused_by_linux(path, text, says, refusal=errno.EBUSY):
    """Linux refuses, with a sentence in its log and no complaint."""
    def body():
        before = len(kernel_log_since(0))
        try:
            with open(path, 'w') as control:
                control.write(text)
            raise Failure(f'{text!r} to {path} is taken')
        except OSError as error:
            expect(error.errno == refusal, error)
        said = kernel_log_since(before)
        expect(says in said and 'Call Trace' not in said, said)
        expect(healthy(), 'nothing runs any more')
    return body


def lost_interrupts():
    """A task or CPU that waits for an interrupt that was lost, in either direction, waits for two seconds and not for ever."""
    position = len(kernel_log_since(0))
    lose = '/sys/module/hanare/parameters/lose'
    directions = 'interrupt to CPU', 'interrupt from CPU'
    said = ''
    try:
        # Which of them is lost depends on the order in which both directions send: not always the
        # same one.
        for one_of in 100, 97, 61, 50, 43, 31, 29, 23, 20, 17:
            with open(lose, 'w') as file:
                file.write(str(one_of))
            out = run('/bin/sh', '-c', 'for i in 1 2 3 4 5; do /bin/true; done; echo done').out
            expect(out == b'done\n', out)
            said = kernel_log_since(position)
            if all(direction in said for direction in directions):
                break
    finally:
        with open(lose, 'w') as file:
            file.write('0')
    expect(all(direction in said for direction in directions), said[-1000:])
    expect(healthy(), 'nothing runs any more')


start()
check('boot-by-ioctls-alone', by_hand, lwk=False)
check('options-refused-by-the-lwk', options_refused_by_the_lwk, lwk=False)
check('cpus-given-back-on-close', given_back_on_close, lwk=False)
wanted = '0-3'
check('random-ioctls', nonsense(1), lwk=False)
check('boot', lambda: boot('--cpus', '2-3', '--mem', '64M'), lwk=False, prepares=True)
wanted = '0-1'
check('random-ioctls-beside-an-lwk', nonsense(2))
check('inherited-descriptor', forks)
check('its-cpus-stay-offline', refused_by_linux('/sys/devices/system/cpu/cpu2/online', '1', '', errno.EINVAL))
for how in 'freeze', 'mem', 'disk':
    check(f'no-suspend-to-{how}', refused_by_linux('/sys/power/state', how, 'hanare shutdown ends it'))
check('lost-interrupts-are-sent-again', lost_interrupts)
check('hostile-keeps-a-descriptor', hostile('kept'))
check('hostile-keeps-a-memory-file', hostile('memory'))
check('hostile-maps-elsewhere', hostile('moved'))
check('hostile-asks-for-capabilities', hostile('rights'))
check('hostile-makes-a-cycle-of-descriptors', cycle)
check('forged-grant-of-another-process', stolen)
check('forged-proxy-manages-nothing', managed)
check('forged-execve-by-the-token-of-another', deceived('token'))
check('forged-notification-by-another-process', deceived('pid'))
check('forged-start-blocks-fill-memory', filled)
check('hostile-waits-in-status', hostile_at_shutdown('stuck'))
check('hostile-forges-an-answer', forged_answer)
check('hostile-readers-are-killed', killed_readers)
check('memory-calls-beside-a-slow-file', beside_slow_file('beside', 9))
check('memory-calls-beside-a-crowd-at-a-slow-file', beside_slow_file('crowd', 25))
check('pinned-pages-beside-a-fork', pinned_beside_a_fork)
check('hostile-reader-beside-a-reader', two_readers)
check('hostile-unmaps-during-a-fault', unmapped)
check('hostile-memory-shared-at-shutdown', hostile_at_shutdown('shared'))
check('hostile-mapping-copied-at-shutdown', hostile_at_shutdown('copied'))
finish()
