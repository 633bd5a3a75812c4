"""What a group of checks needs inside the VM.

A group is a Python script under tests/groups. It prints one line per check, which tests/run reads
(tests/lib/verdicts.py has the words). A check that fails is run again at once, and tests/run runs it a
third time in a fresh machine: what fails once of three times is unstable.

Everything has a deadline. A check that hangs or finds the LWK dead leaves a fresh LWK behind for
the next one. TESTS_ONLY (a regular expression) selects checks by name; TESTS_NAMES has whole names, a
line each, and TESTS_DONE those that are not to run again. TESTS_TIER=test leaves out what `only_long`
holds. With TESTS_DISPATCH=box calls of programs go by the request box, with TESTS_ARGUMENTS=copied
their arguments are copied.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from ledger import settled_faults

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUEST = os.path.join(ROOT, 'build/tests/guest')
WORK = '/run/hanare-test'
ONLY = re.compile(os.environ.get('TESTS_ONLY') or '')
NAMES, DONE = (set(filter(None, (os.environ.get(key) or '').split('\n'))) for key in ('TESTS_NAMES', 'TESTS_DONE'))
TIER = os.environ.get('TESTS_TIER') or 'long'
# How often a check is tried; one in a machine that is there for those that failed elsewhere.
TRIES = int(os.environ.get('TESTS_TRIES') or (1 if NAMES else 2))
# Seconds for all that ends by itself on a machine that is not very busy; it only ends what hangs.
TIMEOUT = int(os.environ.get('TESTS_TIMEOUT') or 240)
BOOT = ['--cpus', '2-3', '--mem', '256M']
# A user with no rights but to run programs on an LWK.
NOBODY = ['/usr/bin/setpriv', '--reuid=65534', '--regid=65534', '--groups=hanare']

counts = {kind: 0 for kind in ('ok', 'FAIL', 'xfail', 'skip', 'later', 'unstable')}
# Why the checks that follow are left to `make test-long`; None: they are not.
only_long_reason = None
boot_arguments = BOOT
# How programs' calls reach Linux unless a check says otherwise: options of `hanare boot`, values.
ways = {'--arguments': os.environ.get('TESTS_ARGUMENTS'), '--dispatch': os.environ.get('TESTS_DISPATCH')}
# What programs of `same` gave on Linux, by the name of the check. None: nothing is remembered.
given_on_linux = None
# Before the name of each check in its verdict.
label = ''


class Failure(Exception):
    """A check that does not hold; the text says why."""


def say(kind, name, why=''):
    why = ' | '.join(line for line in str(why).splitlines() if line.strip())
    print(f'{kind} {name}' + (f': {why}' if why else ''), flush=True)


def verdict(kind, name, why=''):
    counts[kind] += 1
    say(kind, name, why)


def chosen(name):
    """Whether the check of this name, without its label, runs. One that is left to `make test-long` says so."""
    full = label + name
    if not ONLY.search(name) or NAMES and full not in NAMES or full in DONE:
        return False
    if only_long_reason is not None and TIER != 'long':
        verdict('later', full, only_long_reason)
        return False
    return True


@contextlib.contextmanager
def only_long(reason):
    """Checks that `make test` leaves out. The reason says what shows the same promise there."""
    global only_long_reason
    outer, only_long_reason = only_long_reason, reason
    try:
        yield
    finally:
        only_long_reason = outer


def expect(condition, why):
    if not condition:
        raise Failure(why)


def short(data, limit=300):
    text = data.decode(errors='backslashreplace') if isinstance(data, bytes) else str(data)
    return text if len(text) <= limit else f'{text[:limit]}… ({len(text)} characters)'


class Result:
    """What a command left: status (negative: death by that signal), stdout, stderr."""

    def __init__(self, status, out, err, late=None):
        self.status, self.out, self.err, self.late = status, out, err, late

    def __str__(self):
        if self.late: # the end says where it stood
            return (f'killed at its deadline, stdout ends in {short(self.out[-300:])!r}, stderr {short(self.err)!r}; '
                    f'{self.late}')
        return f'status {self.status}, stdout {short(self.out)!r}, stderr {short(self.err)!r}'


def waits():
    """Waiters and their waits, to be read before a hanging command is killed: processes and threads, as the LWKs and as
    Linux see them."""
    def read(path):
        try:
            with open(path) as file:
                return ' '.join(file.read().split())
        except OSError as error:
            return error.strerror
    said = [read_command('hanare', 'ps', '--threads'), read_command('hanare', 'log')[-400:]]
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if not is_proxy(pid) and read(f'/proc/{pid}/comm') not in ('hanare', 'hanare-proxy'):
            continue
        with contextlib.suppress(OSError):  # it ends meanwhile; what called has still to kill the rest
            said += [f'{pid}/{tid} {read(f"/proc/{pid}/comm")}: {read(f"/proc/{pid}/task/{tid}/syscall")} '
                     f'in {read(f"/proc/{pid}/task/{tid}/stack")}' for tid in os.listdir(f'/proc/{pid}/task')]
    return 'waits: ' + ' / '.join(said)


def read_command(*argv):
    """The output of a command that takes ten seconds at most, on one line."""
    try:
        found = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f'{argv}: {error}'
    return ' / '.join(found.stdout.decode(errors='replace').splitlines())


def command(argv, stdin=b'', timeout=TIMEOUT, cwd=None, env=None, says=None, **more):
    """Runs a command in a process group of its own, and kills all of that at the deadline. `says`: text to wait for in
    stderr. The module writes it there, up to half a second late or after the end of a program that it kills."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
            tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        process = subprocess.Popen(argv, stdin=source, stdout=out, stderr=err, cwd=cwd, env=env,
                                   start_new_session=True, **more)
        late = None
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            late = waits()
        # What a program left behind in its group goes, too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failure(f'cannot be killed: {argv}')
        await_end_of_group(process.pid)
        if says and not late:
            with contextlib.suppress(Failure):  # the caller looks whether it is there
                until(lambda: says in os.pread(err.fileno(), 1 << 20, 0), 'it is said', 60)
        out.seek(0)
        err.seek(0)
        return Result(process.returncode, out.read(), err.read(), late)


def await_end_of_group(group):
    """Waits until the killed processes have ended, so that neither the next counts nor a shutdown meet them. A process
    that does not end is left to the checks that follow."""
    end = time.monotonic() + 30
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.01)


# Seconds for CPUs to come to an LWK or to leave it: on a busy host one may stand still for 30 s.
PATIENCE = {'boot': '120', 'shutdown': '30'}


def hanare(*argv, timeout=TIMEOUT, status=0, **more):
    """Runs a hanare command; fails if its status is not the expected one (None: any)."""
    patience = PATIENCE.get(argv[0]) if '--timeout' not in argv else None
    result = command(['hanare', *argv, *(['--timeout', patience] if patience else [])], timeout=timeout, **more)
    if result.late or status is not None and result.status != status:
        raise Failure(f'hanare {" ".join(argv)}: {result}')
    return result


def run(*argv, on=None, **more):
    """Runs a program on the LWK."""
    return command(['hanare', 'run', *(['--on', on] if on else []), '--', *argv], **more)


def boot(*arguments):
    global boot_arguments
    boot_arguments = list(arguments) or boot_arguments
    hanare('boot', *boot_arguments, *(word for option, way in ways.items() if way for word in (option, way)))


def status(name='default'):
    return json.loads(hanare('status', '--json', name).out)


def asked(*argv):
    """As `hanare`, for a command that asks a CPU of the LWK (its name comes last). The CPU has five seconds to answer,
    one second for a ping. If it stands still for longer, as those of a busy host may, it is asked again."""
    end = time.monotonic() + TIMEOUT
    while True:
        result = hanare(*argv, status=None)
        if result.status == 0:
            return result
        is_hung = b'hung' in command(['hanare', 'status', argv[-1]]).out
        expect((is_hung or b'timed out' in result.err) and time.monotonic() < end, f'hanare {" ".join(argv)}: {result}')
        command(['hanare', 'status', '--ping', argv[-1]])  # an LWK that does not answer counts as hung until it is asked again


def debug_memory(name='default'):
    """Free bytes of the LWK; what `hanare debug memory` says: what is quarantined, and what the kernel keeps."""
    text = asked('debug', 'memory', name).out.decode()
    return int(re.search(r'\((\d+) bytes\)', text)[1]), ' | '.join(text.split('\n')).strip(' |')


def kernel_blocks():
    """How many blocks of the kernel's heap are in use, and bytes."""
    return tuple(map(int, re.search(r'in use (\d+) bytes in (\d+) block', debug_memory()[1]).groups()))


def log_tail(lines=4):
    """The log's last lines; from a panic on all of them."""
    said = command(['hanare', 'log']).out.decode(errors='replace').splitlines()
    panics = [number for number, line in enumerate(said) if 'LWK panic' in line]
    return ' / '.join(said[panics[0] if panics else -lines:])


def recover():
    """After a hang or a dead LWK: a fresh one. Says what the old one's log had at its end."""
    states = command(['hanare', 'ls']).out.decode(errors='replace').splitlines()[1:]
    said = kernel_log_since(log_start)
    tail = (f'{log_tail()}; {states}; Linux: '
            + ' / '.join(re.findall(r'hanare: .*', said)[-2:]))
    command(['hanare', 'shutdown', '--all', '--force'])
    try:
        boot()
    except Failure as failure:
        tail += f'; no new boot: {failure}'
    return f'log: {tail}'


def is_proxy(pid):
    """Whether a process is an LWK program's. Its /proc/PID/exe is the program, so by its descriptor."""
    with contextlib.suppress(OSError):
        for fd in os.listdir(f'/proc/{pid}/fd'):
            with contextlib.suppress(OSError):
                if os.readlink(f'/proc/{pid}/fd/{fd}') == '/dev/hanare':
                    return True
    return False


def until(condition, what, seconds=TIMEOUT):
    """Waits for a state; `what` may be a function that says what is there instead."""
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f'not in {seconds} s: {what() if callable(what) else what}')
        time.sleep(0.05)


def all_answer(name='default'):
    """Waits until each CPU of the LWK has answered a ping: it does not stand still, as that of a busy host may."""
    until(lambda: b'hung' not in hanare('status', '--ping', name).out, 'all CPUs answer')


def running(pid, launch):
    """How many threads of a process do not sleep, as a program that is launched in this way sees it."""
    said = command([*launch, '/bin/sh', '-c', f'cat /proc/{pid}/task/*/stat']).out.decode()
    return sum(line.rpartition(')')[2].split()[0] != 'S' for line in said.splitlines())


def lwk_memory_is(before, seconds=TIMEOUT):
    """Waits until the LWK has no process, nothing in quarantine, and as much free memory as `before`."""
    def there():
        after, text = debug_memory()
        return (before is None or after == before) and 'quarantined 0 B' in text and not objects(text)
    until(there, lambda: f'free memory {before} before, {debug_memory()[1]} after', seconds)


def objects(text):
    """The objects of the LWK's kernel that `hanare debug memory` tells of: those of programs, tracers, debuggers."""
    kinds = '(?:process|space|thread|child|program|trace|debugger)'
    found = re.findall(rf'(\d+) ({kinds})', text)
    expect(len(found) == 7, text)
    return [f'{number} {kind}' for number, kind in found if number != '0']


def ledgers_fit():
    """Each frame of each LWK has an owner, and no user has one: no program runs."""
    for instance in json.loads(hanare('ls', '--json').out or b'[]'):
        if instance['state'] == 'running':
            whys = settled_faults(asked, debug_memory, instance['name'])
            expect(not whys, '; '.join(whys))


def nothing_left():
    """No process, nothing that belongs to one, and no memory that Linux still holds."""
    lwk_memory_is(None)


def healthy():
    """Does a program still run?"""
    result = command(['hanare', 'run', '--', GUEST + '/static/hello'])
    return not result.late and result.out == b'hello\n'


@contextlib.contextmanager
def told_of_if_long(name, seconds=600):
    """Says once where a check stands that takes this long. What hangs ends with the VM; the log has this line then."""
    main = threading.get_ident()

    def tell():
        frame, place = sys._current_frames().get(main), []
        while frame:
            place.append(f'{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}')
            frame = frame.f_back
        print(f'# {name} takes more than {seconds} s, at {" ".join(place)}; {waits()}', flush=True)
    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def failure_of(body):
    """Why the body of a check does not hold, or None."""
    try:
        body()
    except Failure as failure:
        return str(failure) or 'no reason given'
    except Exception as error:  # a bug of the test is a failure of the test
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        return (f'{type(error).__name__}: {error} '
                f'({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})')


def check(name, body, xfail=None, skip=None, lwk=True, prepares=False):
    """Makes one named check. `body` raises Failure if it does not hold. A check that `prepares` those after it runs
    whichever of them are chosen. It says nothing if it is not chosen itself and holds."""
    wanted = chosen(name)
    if not wanted and not (prepares and (NAMES or DONE or ONLY.pattern)):
        return
    name = label + name
    if skip:
        return verdict('skip', name, skip)
    for number in range(TRIES):
        start = time.monotonic()
        with told_of_if_long(name):
            why = failure_of(body)
        if why is not None and lwk and not healthy():
            why += '; ' + recover()
        print(f'# {time.monotonic() - start:6.1f} s {name}', flush=True)
        if why is None or xfail or number == TRIES - 1:
            break
        say('again', name, why)
    if xfail:
        if why is None:
            return verdict('FAIL', name, f'works now, remove the mark ({xfail})')
        return verdict('xfail', name, xfail)
    if why is not None:
        return verdict('FAIL', name, why)
    if wanted:
        verdict('unstable' if number else 'ok', name, 'failed once' if number else '')


def tree(folder):
    """Every file below a folder: kind, mode, owner, links, size and digest."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in folders + files:
            full = os.path.join(path, name)
            stat = os.lstat(full)
            entry = f'{stat.st_mode:o} {stat.st_uid}:{stat.st_gid} links {stat.st_nlink}'
            if os.path.islink(full):
                entry += ' -> ' + os.readlink(full)
            elif os.path.isfile(full):
                with open(full, 'rb') as data:
                    digest = hashlib.file_digest(data, 'sha1') if hasattr(hashlib, 'file_digest') \
                        else digest_of(data)
                entry += f' {stat.st_size} {digest.hexdigest()}'
            found[os.path.relpath(full, folder)] = entry
    return found


def digest_of(file):
    digest = hashlib.sha1()
    while data := file.read(1 << 20):
        digest.update(data)
    return digest


def difference(linux, lwk):
    """The first place where two texts differ, or None."""
    if linux == lwk:
        return None
    if isinstance(linux, dict):
        for key in sorted(set(linux) | set(lwk)):
            if linux.get(key) != lwk.get(key):
                return f'{key}: Linux {linux.get(key)}, LWK {lwk.get(key)}'
    if isinstance(linux, bytes):
        there, here = linux.split(b'\n'), lwk.split(b'\n')
        for number, line in enumerate(there):
            other = here[number] if number < len(here) else b'(end)'
            if line != other:
                return f'line {number + 1}: Linux {short(line)!r}, LWK {short(other)!r}'
        return f'line {len(there) + 1}: Linux (end), LWK {short(here[len(there)])!r}'
    return f'Linux {linux!r}, LWK {lwk!r}'


def fresh(folder, prepare=None):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if prepare:
        prepare(folder)


def in_ways(choices, checks):
    """Makes the same checks on an LWK for each of `choices` (label: ways). `checks` is told whether it is the first
    one. A program of `same` runs on Linux once, since its output there does not depend on the way."""
    global given_on_linux, label
    given_on_linux, booted = {}, set()

    def begin():
        hanare('shutdown', '--all')
        boot()
        booted.add(label)
    for label, chosen in choices.items():
        ways.update(chosen)
        check('boot', begin, lwk=False)
        if label not in booted:  # it failed, or TESTS_ONLY leaves it out
            command(['hanare', 'shutdown', '--all', '--force'])
            boot()
        checks(label == next(iter(choices)))
        if ways['--arguments'] == 'copied':
            check('arguments-were-copied', arguments_were_copied, lwk=False)
    given_on_linux, label = None, ''


def same(name, argv, stdin=b'', status=0, prepare=None, normalise=None, timeout=TIMEOUT, env=None,
         prefix=(), base=WORK + '/same', files=True, xfail=None, skip=None,
         both=None):
    """Runs the same program on Linux and on the LWK. stdout, stderr, status and files must agree.

    `status` is the status on Linux (None: any), so that a command that fails on both sides for a trivial reason is
    noticed. `prefix` wraps both (e.g. setpriv). `prepare(folder)` fills the working directory. `normalise(bytes)`
    removes what may differ in stdout and stderr. `both(make)` builds the command if it is not simply [hanare run --]
    argv."""
    def given(side):
        fresh(base, prepare)
        launch = ['hanare', 'run', '--'] if side == 'lwk' else []
        full = both(launch) if both else [*prefix, *launch, *argv]
        result = command(full, stdin, timeout, base,
                         dict(os.environ, LC_ALL='C', **(env or {})))
        if side == 'linux':
            expect(status is None or result.status == status,
                   f'test broken, on Linux: {result}')
        expect(not result.late, f'no end on {side}: {result}')
        out, err = result.out, result.err
        if normalise:
            out, err = normalise(out), normalise(err)
        return result.status, out, err, tree(base) if files else {}

    def body():
        remembered = {} if given_on_linux is None else given_on_linux
        if name not in remembered:
            remembered[name] = given('linux')
        (linux_status, *linux), (lwk_status, *lwk) = remembered[name], given('lwk')
        whys = []
        if linux_status != lwk_status:
            whys.append(f'status: Linux {linux_status}, LWK {lwk_status}')
        for what, one, other in zip(('stdout', 'stderr', 'files'), linux, lwk):
            if one != other:
                whys.append(f'{what}: {difference(one, other)}')
        if whys:
            remembered.pop(name)  # the second try begins anew
        expect(not whys, '; '.join(whys))
    check(name, body, xfail=xfail, skip=skip)


def guests(*names):
    """Paths of the guest programs of these names, static and dynamic, with a label for each."""
    for name in names:
        for kind in 'static', 'dynamic':
            yield f'{name}-{kind}', f'{GUEST}/{kind}/{name}'


@contextlib.contextmanager
def offline(cpu):
    """A CPU of Linux is offline."""
    def write(text):
        with open(f'/sys/devices/system/cpu/cpu{cpu}/online', 'w') as file:
            file.write(text)
    write('0')
    try:
        yield
    finally:
        write('1')


def numbers_with_offline(cpu):
    """The output of `cpu-numbers` on Linux with a CPU offline and no instance. (Beside an instance Linux shows topology
    and caches of the instance's CPUs, too.)"""
    with offline(cpu):
        return command([f'{GUEST}/dynamic/cpu-numbers']).out


def same_numbers(linux):
    """And on the LWK."""
    expect(linux.count(b'\n') > 100, f'test broken, on Linux: {linux}')
    for label, path in guests('cpu-numbers'):
        result = run(path)
        expect(result.status == 0 and result.out == linux, f'{label}: {difference(linux, result.out)}')


def arguments_were_copied():
    said = [instance['arguments'] for instance in json.loads(hanare('status', '--json').out or b'[]')]
    print('#', json.dumps(said))
    expect(any(arguments['copied_calls'] for arguments in said), f'no call was copied: {said}')


log_start = 0


def kernel_log_since(position):
    """Linux' log from a position on: what was there before the group began is not ours (tests/lib/inside.py clears it)."""
    text = subprocess.run(['dmesg'], capture_output=True).stdout.decode(errors='replace')
    return text[position:]


def start(*arguments):
    """Begins a group: own copies of what is tested (others may be building), and an LWK."""
    global log_start
    log_start = len(kernel_log_since(0))
    # CPUs of a busy host may stand still for half a minute: what is stuck for good is seen later.
    for path, seconds in ('/proc/sys/kernel/watchdog_thresh', 60), \
            ('/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout', 180), \
            ('/proc/sys/kernel/hung_task_timeout_secs', 360):
        with contextlib.suppress(OSError), open(path, 'w') as control:
            control.write(str(seconds))
    os.environ.pop('RUST_BACKTRACE', None)
    os.makedirs(WORK + '/bin', exist_ok=True)
    for name in 'hanare', 'hanare-proxy', 'hanare-bench-guest', 'hanare-bench-posted', 'hanare-bench-web':
        shutil.copy(f'{ROOT}/build/bin/{name}', f'{WORK}/bin/{name}')
    image = os.environ.get('TESTS_IMAGE') or 'hanare-lwk'
    shutil.copy(f'{ROOT}/build/lwk/{image}', f'{WORK}/hanare-lwk')
    os.environ['PATH'] = f'{WORK}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
    os.environ['HANARE_IMAGE'] = f'{WORK}/hanare-lwk'
    os.chmod(WORK, 0o755)
    if arguments:
        check('boot', lambda: boot(*arguments), lwk=False, prepares=True)
        if not healthy():
            command(['hanare', 'shutdown', '--all', '--force'])
            boot(*arguments)


def finish():
    """Ends a group: shutdown, CPUs online, nothing in Linux' log."""
    def shutdown():
        names = json.loads(hanare('ls', '--json').out or b'[]')
        if names:
            hanare('shutdown', '--all')
        online = open('/sys/devices/system/cpu/online').read().strip()
        present = open('/sys/devices/system/cpu/present').read().strip()
        expect(online == present, f'CPUs online: {online} of {present}')

    def kernel_log():
        text = kernel_log_since(log_start)
        bad = re.findall(r'.*(?:WARNING:|BUG:|Oops|general protection fault[:,]|blocked for more than|'
                         r'refcount_t|Bad page|Bad rss|soft lockup|rcu_.* stall).*', text)
        if bad:  # where it was
            for line in text[text.index(bad[0]):].splitlines()[:60]:
                print('#', line)
        expect(not bad, f'{len(bad)} lines: ' + ' / '.join(bad[:3]))
        # docs/wakeup.md: the emulator's, as far as is known.
        lost = re.findall(r'.*interrupt (?:to|from) CPU \d+ is late, or lost.*', text)
        if lost:
            print(f'# {len(lost)} interrupts were late, or lost: {lost[0]}', flush=True)
    if ways['--arguments'] == 'copied':
        check('arguments-were-copied', arguments_were_copied, lwk=False)
    check('ledger', ledgers_fit, lwk=False)
    check('shutdown', shutdown, lwk=False, prepares=True)
    check('linux-log', kernel_log, lwk=False)
    sys.exit(1 if counts['FAIL'] else 0)
