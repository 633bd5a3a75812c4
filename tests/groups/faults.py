"""Bad input and faults: each has its message and status, and leaves Linux and the LWK as they were."""

import os
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

DIE = GUEST + '/static/die'
SMALL = ['--cpus', '2', '--mem', '32M']
# Room for one write of 1 GiB.
LARGE = ['--cpus', '2-3', '--mem', '1300M']


def machine():
    """State of the machine that a refused command must not change: CPUs of Linux, instances and their states."""
    with open('/sys/devices/system/cpu/online') as file:
        online = file.read().strip()
    return online, [line.split()[:3] for line in hanare('ls').out.decode().splitlines()[1:]]


def refused(name, argv, *words, status=1, beside=contextlib.nullcontext, booted=False):
    """A hanare command is refused with this status and words; nothing changes by it."""
    def body():
        with beside():
            is_refused()

    def is_refused():
        before = machine()
        result = command(['hanare', *argv])
        if argv[0] == 'boot' and result.status == 0:
            hanare('shutdown')
        expect(result.status == status, f'status {status} expected: {result}')
        said = (result.err + result.out).decode(errors='replace')
        for word in words:
            expect(re.search(word, said), f'no /{word}/ in: {said}')
        expect('panicked at' not in said and 'RUST_BACKTRACE' not in said, said)
        expect(machine() == before, f'before {before}, after {machine()}')
    check(name, body, lwk=booted)


def file(name, data, mode=0o755):
    path = f'{WORK}/{name}'
    with open(path, 'wb') as out:
        out.write(data)
    os.chmod(path, mode)
    return path


def content(path, size=-1):
    with open(path, 'rb') as source:
        return source.read(size)


def boots():
    """Boots that must not succeed; none is running."""
    refused('boot-unknown-cpu', ['boot', '--cpus', '9', '--mem', '32M'], r'no CPU 9\b', '0-3')
    refused('boot-cpu-0', ['boot', '--cpus', '0', '--mem', '32M'], 'CPU 0 is the boot CPU', 'choose')
    refused('boot-all-cpus', ['boot', '--cpus', '0-3', '--mem', '32M'], 'CPU 0 is the boot CPU')
    refused('boot-unknown-after-good-cpu', ['boot', '--cpus', '2,3,77', '--mem', '32M'], 'no CPU 77')
    refused('boot-offline-cpu', ['boot', '--cpus', '3', '--mem', '32M'], 'CPU 3', beside=lambda: offline(3))
    check('boot-offline-cpu-undo', lambda: expect(machine() == ('0-3', []), machine()), lwk=False)
    refused('boot-no-cpus', ['boot', '--cpus', '', '--mem', '32M'], 'cpus', status=2)
    refused('boot-wrong-list', ['boot', '--cpus', '2-x', '--mem', '32M'], '2,4-6', status=2)
    refused('boot-too-much-memory', ['boot', '--cpus', '2', '--mem', '100G'], 'ask for less')
    refused('boot-a-little-too-much', ['boot', '--cpus', '2', '--mem', '2900M'], 'ask for less')
    refused('boot-wrong-size', ['boot', '--cpus', '2', '--mem', '33K'], '512M', status=2)
    refused('boot-odd-size', ['boot', '--cpus', '2', '--mem', '33M'], 'pieces of 2M', status=2)
    refused('boot-unknown-node', ['boot', '--cpus', '2', '--mem', '32M@7'], 'node 7')
    refused('boot-wrong-name', ['boot', 'no/name', *SMALL], 'no/name', 'letters', status=2)
    refused('boot-long-name', ['boot', 'n' * 100, *SMALL], '31', status=2)
    image = content(WORK + '/hanare-lwk')
    refused('image-missing', ['boot', *SMALL, '--image', '/no/such/image'], '/no/such/image',
            'No such file')
    refused('image-rubbish', ['boot', *SMALL, '--image', file('rubbish', os.urandom(99999))],
            'rubbish', 'not an ELF')
    refused('image-empty', ['boot', *SMALL, '--image', file('nothing', b'')], 'nothing', '0 bytes')
    refused('image-foreign', ['boot', *SMALL, '--image', '/bin/ls'], 'not an LWK image')
    refused('image-static-program', ['boot', *SMALL, '--image', GUEST + '/static/hello'], 'LWK image')
    refused('image-cut-short', ['boot', *SMALL, '--image', file('cut', image[:50000])],
            'damaged|cut short')
    refused('image-headers-only', ['boot', *SMALL, '--image', file('head', image[:64])],
            'damaged|cut short|not an')
    refused('image-folder', ['boot', *SMALL, '--image', '/tmp'], '/tmp', 'directory')
    refused('image-32-bit', ['boot', *SMALL, '--image', file('e32', image[:4] + b'\1' + image[5:])],
            'not an LWK image|64-bit')

    def other_version():
        """The magic and version that the image carries are found, and the version changed."""
        header = content(ROOT + '/module/hanare_abi.h').decode()
        magic = int(re.search(r'HANARE_MAGIC (0x[0-9a-f]+)', header)[1], 16)
        version = int(re.search(r'HANARE_VERSION (0x[0-9a-f]+)', header)[1], 16)
        at = [found.start() for found in re.finditer(re.escape(struct.pack('<Q', magic)), image) if found.start() % 4 == 0]
        expect(at, 'the image has no magic')
        changed = bytearray(image)
        for place in at:
            for offset in range(place + 8, place + 32, 4):
                if struct.unpack_from('<I', changed, offset)[0] == version:
                    struct.pack_into('<I', changed, offset, version ^ 7)
                    break
        expect(bytes(changed) != image, 'no version behind the magic')
        result = command(['hanare', 'boot', *SMALL, '--image', file('other', bytes(changed))])
        if result.status == 0:
            hanare('shutdown')
        text = result.err.decode()
        expect(result.status == 1 and f'{version:#x}' in text and f'{version ^ 7:#x}' in text, result)
    check('image-of-other-version', other_version, lwk=False)

    def bits():
        """One changed byte anywhere: refused, not answering in time, or a boot; Linux stays up."""
        # In `make test` no more than one in each quarter: fuzzing of the parser (group `parsers`)
        # finds more than any places here.
        step = len(image) // (12 if TIER == 'long' else 4)
        for place in range(100, len(image), step):
            changed = bytearray(image)
            changed[place] ^= 0xff
            result = command(['hanare', 'boot', *SMALL, '--timeout', '3', '--image',
                              file('bits', bytes(changed))])
            expect(not result.late and result.status in (0, 1), f'{place}: {result}')
            if result.status == 0:
                hanare('shutdown', '--force')
        expect(machine() == ('0-3', []), machine())
    check('image-with-changed-bytes', bits, lwk=False)

    def silent():
        """An image whose entry does nothing but halt: the time runs out, all comes back."""
        changed = bytearray(image)
        shoff, = struct.unpack_from('<Q', image, 32)
        phoff, phnum = struct.unpack_from('<Q', image, 32)[0], struct.unpack_from('<H', image, 56)[0]
        entry, = struct.unpack_from('<Q', image, 24)
        for n in range(phnum):
            kind, flags, offset, vaddr, paddr, filesz = struct.unpack_from('<IIQQQQ', image, phoff + n * 56)
            if kind == 1 and vaddr <= entry < vaddr + filesz:
                at = offset + entry - vaddr
                changed[at:at + 4] = b'\xfa\xf4\xeb\xfd'  # cli; hlt; jmp back
                break
        else:
            raise Failure('no segment holds the entry')
        start_time = time.monotonic()
        result = command(['hanare', 'boot', *SMALL, '--timeout', '2', '--image',
                          file('silent', bytes(changed))])
        took = time.monotonic() - start_time
        expect(result.status == 1, result)
        expect(re.search(rb'(?i)CPU 2 .*(answer|start|time)', result.err), result)
        expect(took < 120, f'took {took:.0f} s')  # not the 10 minutes that a boot may take
        expect(machine()[0] == '0-3', machine())
    check('cpu-that-does-not-answer', silent, lwk=False)
    for argv in (['run', '/bin/true'], ):
        refused('run-without-instance', argv, 'hanare boot', status=125)
    refused('shutdown-without-instance', ['shutdown'], 'hanare boot')
    refused('log-without-instance', ['log'], 'hanare boot')
    refused('status-without-instance', ['status'], 'hanare boot')


def running():
    """With an instance on CPUs 2-3."""
    refused('boot-name-in-use', ['boot', 'default', '--cpus', '1', '--mem', '32M'], 'default',
            'another name|shut it down', booted=True)
    refused('boot-cpu-taken', ['boot', 'other', '--cpus', '2', '--mem', '32M'], 'CPU 2', 'default',
            booted=True)
    refused('run-on-unknown', ['run', '--on', 'none', '/bin/true'], 'hanare ls', status=125,
            booted=True)
    refused('run-on-foreign-cpu', ['run', '--cpus', '1', '/bin/true'], 'CPU 1', status=125,
            booted=True)
    for name, path, status, *words in (
            ('missing', '/no/such/program', 127, 'No such file'),
            ('not-in-path', 'no-such-program', 127, 'not found'),
            ('folder', '/tmp', 126, 'directory'),
            ('not-executable', file('plain', b'text', 0o644), 126, 'Permission denied', r'chmod \+x'),
            ('other-machine', file('arm', content('/bin/ls')[:18] + b'\xb7' + content('/bin/ls')[19:]),
             126, 'Exec format error', 'x86-64'),
            ('no-format', file('noformat', b'echo hello\n'), 126, 'Exec format error'),
            ('empty', file('empty', b''), 126, 'Exec format error'),
            ('truncated-header', file('short', content('/bin/ls', 40)), 126, 'cut short'),
            ('truncated-program-headers', file('short2', content('/bin/ls', 100)), 126,
             'cut short|Exec format'),
            ('missing-interpreter', file('script', b'#!/no/such/interpreter\n'), 127,
             'No such file|interpreter'),
            ('script-of-itself', file('itself', f'#!{WORK}/itself\n'.encode()), 126,
             'Too many|script|ELOOP|Exec format')):
        refused('run-' + name, ['run', path], *words, status=status, booted=True)

    def truncated():
        """The first pages only. Linux starts it and it gets SIGBUS, or refuses it."""
        path = file('truncated', content('/bin/busybox', 300000))
        result = run(path, 'true')
        expect(result.status in (-7, -11, 126) and b'free memory' not in result.err, result)
    check('run-truncated-elf', truncated)

    def headers():
        """Every field of an ELF header and program header, set to extremes: an end within time. In `make test` each to one of
        the two, in turn."""
        good = content(GUEST + '/static/hello')
        for number, offset in enumerate((*range(16, 64, 2), *range(64, 64 + 56 * 2, 4))):
            extremes = b'\xff\xff', b'\0\0'
            for value in extremes if TIER == 'long' else extremes[number % 2:][:1]:
                bad = bytearray(good)
                bad[offset:offset + 2] = value
                result = run(file('bad-elf', bytes(bad)))
                expect(not result.late, f'no end with {value.hex()} at {offset}')
        expect(healthy(), 'nothing runs any more')
    check('run-elf-with-bad-headers', headers)

    for how, status in ('null', -11), ('illegal', -4), ('overflow', -11), ('null-call', -11):
        def body():
            before, _ = debug_memory()
            result = run(DIE, how)
            expect(result.status == status, result)
            gone(before)
        check('program-' + how, body)

    def exhausts():
        before, _ = debug_memory()
        result = run(DIE, 'memory')
        expect(result.status in (-9, 9), result)
        gone(before)
        expect(b'out of memory' in hanare('log').out or result.status == 9, 'the log does not say so')
        expect(healthy(), 'nothing runs any more')
    check('program-exhausts-memory', exhausts)

    def rmmod():
        result = command(['rmmod', 'hanare'])
        expect(result.status and b'in use' in result.err, result)
    check('rmmod-beside-an-instance-is-refused', rmmod)

    def rmmod_while_running():
        process = begun('pause')
        try:
            result = command(['rmmod', 'hanare'])
            expect(result.status and b'in use' in result.err, result)
        finally:
            process.kill()
            process.wait()
    check('rmmod-while-a-program-runs', rmmod_while_running)

    def shutdown_refused():
        process = begun('pause')
        try:
            result = command(['hanare', 'shutdown'])
            expect(result.status == 1 and b'--force' in result.err, result)
            expect(process.poll() is None, 'the program ended')
        finally:
            process.kill()
            process.wait()
    check('shutdown-while-a-program-runs', shutdown_refused)


def begun(how, **more):
    process = subprocess.Popen(['hanare', 'run', '--', DIE, how], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    line = process.stdout.readline()
    expect(line.endswith(b'ready\n'), f'said {line!r}')
    return process


gone = lwk_memory_is


def down(name):
    """Shuts an instance down, if it is still there; it may be going just now."""
    until(lambda: name not in hanare('ls').out.decode()
          or hanare('shutdown', name, '--force', status=None).status == 0, f'{name} is gone')


def kills():
    """kill -9 at bad moments."""
    for how in 'pause', 'spin':
        def body():
            before, _ = debug_memory()
            process = begun(how)
            process.send_signal(signal.SIGKILL)
            expect(process.wait(TIMEOUT) == -9, f'status {process.returncode}')
            gone(before)
        check('kill-proxy-' + how, body)

    def many():
        """Programs killed at arbitrary points of their life."""
        before, _ = debug_memory()
        for n in range(0, 25, 1 if TIER == 'long' else 2):
            process = subprocess.Popen(['hanare', 'run', '--', '/usr/bin/perl', '-e', 'print 1 for 1..9999'],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.012 * n)
            process.kill()
            process.wait(TIMEOUT)
        gone(before)
    check('kill-proxy-at-any-time', many)

    def starting():
        """kill -9 of hanare boot, at several moments: the next boot works, nothing is kept."""
        for delay in 0.01, 0.05, 0.1, 0.2, 0.4:
            process = subprocess.Popen(['hanare', 'boot', 'killed', '--cpus', '1', '--mem', '64M'],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(delay)
            process.kill()
            process.wait(TIMEOUT)
            down('killed')
        hanare('boot', 'killed', '--cpus', '1', '--mem', '64M')
        hanare('shutdown', 'killed')
    check('kill-hanare-boot', starting)

    def stopping():
        down('killed')
        hanare('boot', 'killed', '--cpus', '1', '--mem', '64M')
        process = subprocess.Popen(['hanare', 'shutdown', 'killed'])
        time.sleep(0.02)
        process.kill()
        process.wait(TIMEOUT)
        down('killed')
        hanare('boot', 'killed', '--cpus', '1', '--mem', '64M')
        hanare('shutdown', 'killed')
    check('kill-hanare-shutdown', stopping)

    def forced():
        process = begun('spin')
        hanare('shutdown', '--force')
        expect(process.wait(TIMEOUT) != 0, 'the program ended with status 0')
        boot()
    check('shutdown-force-kills-programs', forced)


# Until a file is there; they say what went wrong.
LATE = {
    'execve': ['sh', '-c', 'while [ ! -e stop ]; do /bin/true || echo "ends with $?"; done'],
    'fork': ['python3', '-c', '''
import os
while not os.path.exists('stop'):
    pid = os.fork()
    if not pid:
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if status:
        print('ends with', status)
'''],
    'vfork': ['python3', '-c', '''
import os, subprocess
while not os.path.exists('stop'):
    status = subprocess.run(['/bin/true']).returncode
    if status:
        print('ends with', status)
'''],
}


def late():
    """All CPUs of the LWK stand still for longer than any timeout, as those of a busy host may. Programs go on
    afterwards."""
    fresh(folder := WORK + '/late')
    started = []

    def launch(argv, **more):
        started.append(subprocess.Popen(['hanare', 'run', '--', *argv], cwd=folder, **more))
        return started[-1]
    try:
        stand_still_and_go_on(folder, launch)
    finally:
        for process in started:
            process.kill()
            process.wait(TIMEOUT)


def stand_still_and_go_on(folder, launch):
    programs = {name: launch(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for name, argv in LATE.items()}
    counted = os.path.join(folder, 'counted')
    with open(counted, 'wb') as out:
        counts = launch(['sh', '-c', 'while [ ! -e stop ]; do echo; sleep 0.05; done'], stdout=out)
    size = lambda: os.path.getsize(counted)
    until(size, 'it counts')
    hung, since = [], 0

    def stand_still():
        """Whether they do. If all of that was too short to look, once more."""
        nonlocal since
        if not hung or time.monotonic() - since > 30:
            # One of them longer: the side that goes on sees that time has passed, and that the
            # other one has not answered.
            hung.extend(subprocess.Popen(['hanare', 'debug', 'hang', '--cpu', cpu, '--for', ms], stdout=subprocess.DEVNULL)
                        for cpu, ms in (('0', '13000'), ('1', '16000')))
            since = time.monotonic()
        return b'hung' in hanare('status', '--ping', status=None).out
    until(stand_still, 'they stand still')
    counts.send_signal(signal.SIGSTOP)
    for one in hung:
        one.wait(TIMEOUT)
    all_answer()

    def counts_on():
        before = size()
        time.sleep(1)
        all_answer()
        return size() != before
    # The LWK hears of the stop a little later.
    until(lambda: not counts_on(), 'what was stopped meanwhile stops')
    expect(not counts_on(), 'what was stopped meanwhile counts')
    before = size()
    counts.send_signal(signal.SIGCONT)
    until(lambda: size() > before + 10, 'it goes on')
    with open(os.path.join(folder, 'stop'), 'w'):
        pass
    for name, program in (programs | {'count': counts}).items():
        try:
            said, _ = program.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failure(f'{name} does not end; {waits()}') from None
        expect(program.returncode == 0 and not said, f'{name}: status {program.returncode}, {said}')


def cpus_of(programs):
    """Where programs with one thread each run."""
    pids = [program.pid for program in programs]
    return {thread['cpu'] for process in json.loads(hanare('ps', '--json').out) if process['pid'] in pids
            for thread in process['threads']}


def large():
    """One write of 1 GiB."""
    def in_write():
        before, _ = debug_memory()
        target = '/dev/shm/big'
        for _ in range(10):  # the write may be over before it is noticed that it has begun
            with open(target, 'wb') as out:
                # stdout is the target: "ready" comes on stderr, before the big write.
                process = subprocess.Popen(['hanare', 'run', '--', DIE, 'write'], stdout=out,
                                           stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
                expect(process.stderr.readline() == b'ready\n', 'not ready')
                while os.path.getsize(target) < 1 << 20 and process.poll() is None:
                    pass
                process.send_signal(signal.SIGKILL)
                status_of = process.wait(TIMEOUT)
            size = os.path.getsize(target)
            os.unlink(target)
            if size < 1 << 30:
                break
        expect(status_of == -9 and size < 1 << 30, f'status {status_of}, {size} bytes written')
        gone(before)
        expect(healthy(), 'nothing runs any more')
    check('kill-proxy-in-1G-write', in_write)

    def in_pipe():
        before, _ = debug_memory()
        process = subprocess.Popen(['hanare', 'run', '--', DIE, 'write'], stdout=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        expect(process.stderr.readline() == b'ready\n', 'not ready')
        taken = sum(len(os.read(process.stdout.fileno(), 65536)) for _ in range(50))
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        expect(process.wait(TIMEOUT) == -9, f'status {process.returncode} after {taken}')
        gone(before)
    check('kill-proxy-in-write-to-a-pipe', in_pipe)

    def whole():
        """The same write, not killed, is whole."""
        with open('/dev/shm/big', 'wb') as out:
            result = subprocess.run(['hanare', 'run', '--', DIE, 'write'], stdout=out,
                                    stderr=subprocess.PIPE, timeout=TIMEOUT)
        size = os.path.getsize('/dev/shm/big')
        os.unlink('/dev/shm/big')
        expect(result.returncode == 0 and size == (1 << 30) + len('write: '), (result, size))
    with only_long('kill-proxy-in-1G-write: the same write; files/cp-64M: files that are written are whole'):
        check('write-of-1G-is-whole', whole)


def panics():
    def panic():
        process = begun('pause')
        hanare('debug', 'panic')
        try:
            status_of = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure('the program outlives its kernel')
        said = process.stderr.read().decode(errors='replace')
        expect(status_of == 125 and 'hanare log' in said, f'status {status_of}, said {said!r}')
        refusal = run('/bin/true')
        expect(refusal.status == 125 and b'hanare ' in refusal.err, refusal)
        text = hanare('log').out.decode()
        expect('panic' in text and 'debug panic' in text, text[-300:])
        expect(b'panicked' in hanare('ls').out, hanare('ls').out)
        hanare('shutdown')
        boot()
        expect(healthy(), 'no program runs after the next boot')
    check('panic-log-shutdown-boot', panic)

    def second_cpu():
        hanare('debug', 'panic', '--cpu', '1')
        until(lambda: b'panicked' in hanare('ls').out, lambda: hanare('ls').out)
        expect('debug panic' in hanare('log').out.decode(), 'not in the log')
        hanare('shutdown')
        boot()
    with only_long('overflow-of-another-idle-stack: a panic on the second CPU, too'):
        check('panic-on-the-second-cpu', second_cpu)

    def overflow(cpu, named, spinners=0):
        """Code that uses up a kernel stack meets its guard, and the panic's message says whose it was."""
        def body():
            spinning = [begun('spin') for _ in range(spinners)]
            try:
                # Each CPU has one, also if one was late to take it over.
                until(lambda: not spinning or len(cpus_of(spinning)) == 2, lambda: f'they run on {cpus_of(spinning)}')
                hanare('debug', 'overflow', '--cpu', str(cpu))
                until(lambda: b'panicked' in hanare('ls').out, lambda: hanare('ls').out)
                text = hanare('log').out.decode()
                expect(re.search(named, text), text[-1500:])
                expect('exception 8 ' in text and '  #3 0x' in text, text[-1500:])
            finally:
                for process in spinning:
                    process.kill()
                    process.wait()
            hanare('shutdown', '--force')
            boot()
            expect(healthy(), 'no program runs after the next boot')
        return body
    with only_long('overflow-of-another-idle-stack: the same guard of another CPU'):
        check('overflow-of-the-first-idle-stack', overflow(0, 'the idle stack of cpu0 has overflown'))
    check('overflow-of-another-idle-stack', overflow(1, 'the idle stack of cpu1 has overflown'))
    check('overflow-of-a-threads-stack', overflow(1, r'the kernel stack of thread \d+ in space \d+ has overflown', 2))

    def in_a_write():
        process = subprocess.Popen(['hanare', 'run', '--', '/usr/bin/cat', '/dev/zero'],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        def written():
            with open(f'/proc/{process.pid}/io') as file:
                return int(re.search(r'wchar: (\d+)', file.read())[1])
        until(lambda: written() > 1 << 20, 'it writes')
        hanare('debug', 'panic', '--cpu', '0')
        try:
            expect(process.wait(TIMEOUT) in (125, -9), f'status {process.returncode}')
        finally:
            process.kill()
        hanare('shutdown')
        boot()
    check('panic-while-a-program-writes', in_a_write)

    def hang():
        hanare('debug', 'hang', '--cpu', '1')
        result = hanare('status', '--ping', status=None)
        expect(b'hung' in result.out, result)
        hanare('shutdown')
        expect(machine()[0] == '0-3', machine())
        boot()
        expect(healthy(), 'no program runs after the next boot')
    check('hang-shutdown-boot', hang)

    def stall():
        """A CPU of a busy machine may stand still by itself, and be over it before it is asked: then longer."""
        for ms in 12000, 25000, 45000:
            start = time.monotonic()
            hanare('debug', 'hang', '--cpu', '1', '--for', str(ms))  # itself waits for 5 s
            asked = time.monotonic()
            result = hanare('status', '--ping', status=None)
            refusal = run('true')
            if b'hung' in result.out and refusal.status == 125:
                break
            all_answer()
        # The LWK's log has its own clock: whether that ran as fast as Linux', shows there.
        expect(b'hung' in result.out, f'not noticed: {asked - start:.1f} s, then {time.monotonic() - asked:.1f} s; '
               f"{result}; {hanare('log').out.decode()[-600:]}")
        expect(refusal.status == 125 and b'does not answer' in refusal.err, refusal)
        until(lambda: b'running' in hanare('status', '--ping', status=None).out
              and b'hung' not in hanare('status', '--ping', status=None).out, 'it answers again')
        expect(healthy(), 'it answers again, and no program runs')
        expect(b'running' in hanare('status').out, hanare('status'))
    check('stalled-cpu-is-noticed-and-goes-on', stall)
    check('what-is-late-while-cpus-stand-still-goes-on', late)


def booted_with(*arguments):
    def body():
        hanare('shutdown', '--all', '--force', status=None)
        boot(*arguments)
        expect(healthy(), 'no program runs')
    return body


start()
boots()
check('boot-after-refused-boots', booted_with(*BOOT), lwk=False, prepares=True)
running()
kills()
panics()
check('boot-with-room-for-a-large-write', booted_with(*LARGE), lwk=False, prepares=True)
large()
finish()
