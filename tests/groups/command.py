"""The hanare command: what users meet besides running programs."""

import fcntl
import os
import pty
import resource
import select
import signal
import struct
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from benches import bench_reports, bench_servers, native_figures
from harness import *



def helps():
    text = hanare('--help').out.decode()
    names = re.findall(r'^  (\w+)  ', text, re.M)
    expect({'boot', 'run', 'ls', 'log', 'status', 'doctor', 'shutdown'} <= set(names), names)
    expect('completion' in names and 'help' in names, names)
    for name in set(names) - {'help'}:
        said = hanare(name, '--help').out.decode()
        expect('Usage: hanare ' + name in said, f'{name}: {said[:200]}')
        expect(b'Usage: hanare ' + name.encode() in hanare('help', name).out, name)
        for line in hanare('help', name, env=dict(os.environ, COLUMNS='50')).out.decode().splitlines():
            # Usage and long words are not wrapped.
            expect(len(line) <= 50 or 'Usage:' in line or ' ' not in line.strip(), f'help {name}: {line!r}')


def wrong_usage():
    """One exit status and one prefix, as docs/guide.md says."""
    for line in ('nonsense', 'ls --nonsense', 'ls more', 'help nonsense', 'top --delay 0', 'bench --only nonsense', 'top',
                 'bench call.local nonsense', 'bench --only call.local,nonsense', 'bench --list --json', 'noise --plot noise.png', 'noise --plot noise',
                 'status a,b', 'ps -x', 'log ../x', 'shutdown .', 'boot --cpus 1', 'boot a/b --cpus 1 --mem 32M', 'boot -- -x --cpus 1 --mem 32M',
                 'boot ' + 'n' * 32 + ' --cpus 1 --mem 32M', 'boot --cpus 3-2 --mem 32M', 'boot --cpus 1 --mem 3M', 'boot --cpus 1 --mem 32M --option x=1'):
        result = command(['hanare', *line.split()])
        expect(result.status == 2 and result.err.startswith(b'hanare: '), f'{line}: {result}')
    for line in 'run', 'run --nonsense', 'run --on a/b true', 'trace', 'gdb', 'gdb x':
        result = command(['hanare', *line.split()])
        expect(result.status == 125 and result.err.startswith(b'hanare: '), f'{line}: {result}')
    result = command(['hanare'])
    expect(result.status == 2 and b'Usage: hanare' in result.err, result)


def programs_that_cannot_run():
    """The exit status is a shell's, for each way in which a program cannot be run."""
    fresh(WORK + '/cannot')
    here = WORK + '/cannot'
    for name, text, mode in (('plain', 'text', 0o644), ('bad-interpreter', '#!/no/such/interpreter\n', 0o755), ('exit3', '#!/bin/sh\nexit 3\n', 0o755)):
        with open(f'{here}/{name}', 'w') as file:
            file.write(text)
        os.chmod(f'{here}/{name}', mode)
    os.mkdir(here + '/folder')
    env = dict(os.environ, PATH=f'{os.environ["PATH"]}:{here}', LC_ALL='C')
    for name, said in (('nonsense', b'nonsense: command not found'), ('./nonsense', b'No such file'), ('/no/such', b'No such file'),
                       ('plain', b'Permission denied'), ('./plain', b'Permission denied'), ('./folder', b'Is a directory'), ('folder', b'command not found'),
                       ('./plain/x', b'Not a directory'), ('./bad-interpreter', b''), ('bad-interpreter', b''), ('exit3', b''), ('./exit3', b'')):
        shell = command(['bash', '-c', name], cwd=here, env=env)
        result = command(['hanare', 'run', name], cwd=here, env=env)
        expect(result.status == shell.status in (3, 126, 127) and said in result.err, f'{name}: bash {shell}, {result}')
        if said:
            expect(result.err.startswith(b'hanare: ' + name.encode()), result)


# Every command that prints. {} is a running process.
PRINTS = ('--help', '--version', 'help run', 'boot --help', 'ls', 'ls --json', 'status', 'status --json', 'status default', 'ps', 'ps -T', 'ps --json',
          'top --once -d 0.1', 'top --json -d 0.1', 'log', 'doctor', 'bench --list', 'completion bash', 'completion zsh', 'completion fish', 'debug memory')
# Of each kind one: by clap, a table, JSON, by lines, what goes on, long text.
PRINTS_SOME = '--help', 'ls', 'status --json', 'ps -T', 'top --once -d 0.1', 'log', 'doctor', 'completion bash'


def not_hung(look):
    """Checks the words of a command that asks all CPUs. Each CPU has a second to answer. One that stands still for
    longer, as CPUs of a busy host may, counts as hung until it is asked again."""
    for _ in range(20):
        result = look()
        if b'hung' not in result.out:
            break
    return result


def doctor():
    """A doctor that finds all well."""
    result = not_hung(lambda: hanare('doctor', status=None))
    expect(result.status == 0, result)
    return result


def output_that_cannot_be_written():
    """A message and exit status 1, or the usual end by a closed pipe: no panic, no success."""
    program = subprocess.Popen(['hanare', 'run', 'sleep', '1000'])
    full = WORK + '/full'
    try:
        os.makedirs(full, exist_ok=True)
        expect(command(['mount', '-n', '-t', 'tmpfs', '-o', 'size=4k', 'none', full]).status == 0, 'mount')
        with open(full + '/filled', 'wb') as file:
            file.write(b'x' * 4096)
        for number, line in enumerate(PRINTS if TIER == 'long' else PRINTS_SOME):
            # One function writes what each command prints: in `make test` each meets one of the
            # errors, and the first ones all.
            ways = '>/dev/full', '>&-', f'>>{full}/filled'
            for where in ways if TIER == 'long' or number < 2 else [ways[number % 3]]:
                result = command(f'hanare {line} {where}', shell=True)
                expect(result.status == 1 and result.err.startswith(b'hanare: cannot write to standard output: '), f'{line} {where}: {result}')
            if TIER != 'long' and number % 3:
                continue
            result = command(['bash', '-c', f'hanare {line} | (exec <&-; sleep 0.2); echo ${{PIPESTATUS[0]}}'])
            # What is short may have been written before the other side closed.
            expect(result.out in (b'141\n', b'0\n') and not result.err, f'{line} |: {result}')
            result = not_hung(lambda: command(f'hanare {line} 2>/dev/full', shell=True))
            expect(result.status == 0, f'{line}, stderr full: {result}')
        for line, status in ('nonsense', 2), ('status nonsense', 1), ('run nonsense', 127), ('shutdown nonsense', 1), ('boot x --cpus 99 --mem 32M', 1), \
                ('trace true', 0), ('trace -c true', 0), ('run --stats true', 0):
            result = command(f'hanare {line} 2>/dev/full', shell=True)
            expect(result.status in (status, 1, 125), f'{line}, stderr full: {result}')
        result = command(f'hanare trace -o {full}/trace sh -c "sleep 0.5; echo ended"', shell=True)
        expect(result.status == 125 and b'cannot write the trace: No space left' in result.err and result.out == b'ended\n', result)
        result = command(f'hanare man {full}/man', shell=True)
        expect(result.status == 1 and b'No space left' in result.err, result)
    finally:
        program.kill()
        program.wait()
        command(['umount', '-n', full])


def instances_that_are_not_there():
    """None, several and an unknown one are told apart, and the name is said."""
    lines = 'shutdown', 'status', 'ps', 'log', 'top --once', 'debug memory', 'run true', 'trace true', 'gdb -- true'

    def said(line, name):
        argv = line.split()
        on = ['--on'] if argv[0] in ('run', 'trace', 'gdb') else []
        argv[1:1] = [*on, name] if name and on else []
        result = command(['hanare', *argv, *([name] if name and not on else [])])
        expect(result.status == (125 if on else 1) and result.err.startswith(b'hanare: '), f'{line} {name}: {result}')
        return result.err.decode()

    def says(line, name, *wanted):
        text = said(line, name)
        expect(all(words in text for words in wanted), f'{line} {name}: {text}')
    for line in lines:
        says(line, 'blue', "no instance is called 'blue'")
    hanare('shutdown', '--all')
    try:
        for line in lines:
            says(line, None, 'no instance is booted', 'hanare boot')
            says(line, 'blue', "no instance is called 'blue'")
        expect(hanare('ls').out.count(b'\n') == 1 and json.loads(hanare('ls', '--json').out) == [], hanare('ls'))
        hanare('shutdown', '--all')
        hanare('boot', 'red', '--cpus', '2', '--mem', '64M')
        hanare('boot', 'green', '--cpus', '3', '--mem', '64M')
        for line in 'shutdown', 'log', 'debug memory', 'run true', 'trace true', 'gdb -- true':
            says(line, None, 'several instances are booted')
    finally:
        hanare('shutdown', '--all', status=None)
        boot()


def a_thread_shows_what_it_waits_for_linux_to_do():
    """`ps -T` and `ps --json` name the delegated call, and not a call that the LWK serves or one that has ended."""
    for program, code, shown, asks in (('read', 'import sys; sys.stdin.read()', ' read ', {'number': 0, 'is_request': False, 'stage': 'Executed'}),
                                       ('sleep', 'import time; time.sleep(1000)', ' - ', None)):
        child = subprocess.Popen(['hanare', 'run', 'python3', '-c', code], stdin=subprocess.PIPE)
        try:
            until(lambda: re.search(rf'(?m)^{child.pid} +{child.pid} .* S .*{shown}', hanare('ps', '-T').out.decode()) and
                  json.loads(hanare('ps', '--json').out)[0]['threads'][0]['asks'] == asks,
                  lambda: f'{program}: {hanare("ps", "-T")} {hanare("ps", "--json")}')
        finally:
            child.kill()
            child.wait()


def all_instances_are_listed():
    """Without a name, and doctor is content when instances have all CPUs but the first."""
    hanare('boot', 'other', '--cpus', '1', '--mem', '64M')
    programs = [subprocess.Popen(['hanare', 'run', '--on', name, 'sleep', '1000']) for name in ('default', 'other')]
    try:
        def both():
            text = hanare('ps').out.decode()
            return re.search(rf'{programs[0].pid} .* default +sleep', text) and re.search(rf'{programs[1].pid} .* other +sleep', text)
        until(both, lambda: hanare('ps'))
        found = {entry['instance']: entry['pid'] for entry in json.loads(hanare('ps', '--json').out)}
        expect(found == {'default': programs[0].pid, 'other': programs[1].pid}, found)
        expect(b' other ' not in hanare('ps', 'default').out and b' default ' in hanare('ps', '-T').out, hanare('ps', '-T'))
        expect([entry['name'] for entry in json.loads(hanare('status', '--json').out)] == ['default', 'other'], 'status --json')
        expect(json.loads(hanare('status', '--json', 'other').out)['name'] == 'other', 'status --json other')
        text = hanare('status').out.decode()
        expect('name      default' in text and 'name      other' in text, text)
        text = hanare('top', '--once', '-d', '0.2').out.decode()
        expect('default  CPUs 2-3' in text and 'other  CPU 1' in text and '1 process\n' in text and '-0' not in text, text)
        look = json.loads(hanare('top', '--json', '-d', '0.2').out)
        expect({busy['instance'] for busy in look['processes']} == {'default', 'other'} and
               all(0 <= cpu['busy_percent'] <= 100 for one in look['instances'] for cpu in one['cpus']), look)
        result = hanare('shutdown', 'other', status=1)
        expect(b'1 program runs on other: end it' in result.err, result)
        result = doctor()
        expect(b'1 CPU online' in result.out and b'instances have CPUs 1-3' in result.out, result)
    finally:
        for program in programs:
            program.kill()
            program.wait()
        hanare('shutdown', 'other', '--force')


def too_much_memory():
    """Is refused before any is taken, with both numbers."""
    for size in '100G', '3G,100G@0', '100G@0', '4000T':
        result = hanare('boot', 'other', '--cpus', '1', '--mem', size, status=1)
        expect(re.search(rb'hanare: [0-9.]+ [GT]iB.* wanted', result.err) and b'ask for less' in result.err and b'reserved' not in result.err, result)
    expect([entry['name'] for entry in json.loads(hanare('ls', '--json').out)] == ['default'], 'it is there')


def on_terminal(argv, rows, columns, keys=(), ready=b''):
    """The output of a program on a terminal of that size, and its exit status. Keys are sent one at a time, when
    `ready` has come and the output pauses: each once something has come since the key before, or nothing for long."""
    wait, go = os.pipe()
    pid, fd = pty.fork()
    if pid == 0:
        os.read(wait, 1)  # the size comes first
        os.environ['TERM'] = 'xterm'
        os.execvp(argv[0], argv)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
    os.write(go, b'x')
    os.close(go)
    os.close(wait)
    seen, keys, end, quiet, sent_at = b'', list(keys), time.monotonic() + TIMEOUT, 0, 0
    while time.monotonic() < end:
        if not select.select([fd], [], [], 0.3)[0]:
            quiet += 1
            if keys and ready in seen and (len(seen) > sent_at or quiet > 20):
                os.write(fd, keys.pop(0))
                sent_at, quiet = len(seen), 0
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        seen += data
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(fd)
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def top_on_terminals():
    """Whole numbers at every width; keys; no trace of it afterwards."""
    program = subprocess.Popen(['hanare', 'run', 'perl', '-e', '$| = 1; print "here"; 1 while 1'], stdout=subprocess.PIPE)
    try:
        expect(program.stdout.read(4) == b'here', 'it does not start')
        # 58 is where a column comes.
        for columns in (20, 40, 58, 80, 200) if TIER == 'long' else (20, 58):
            seen, status = on_terminal(['hanare', 'top', '-d', '3'], 12, columns, [b'M', b'H', b'1', b'R', b'h', b'h', b'q'], b'COMMAND')
            text = re.sub(rb'\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>()][0-9A-B]?', b' ', seen).decode(errors='replace')
            expect(status == 0, f'{columns}: status {status}: {short(text)}')
            expect(re.search(rf'\b{program.pid}\b', text) and 'PID' in text and 'perl' in text, f'{columns}: {short(text, 900)}')
            expect('sort by' in text and 'CPU 2' in text and 'TID' in text, f'{columns}: {short(text, 900)}')
            expect(('DELEGATED/s' in text) == (columns >= 58), f'{columns}: {short(text, 900)}')
        for columns, line in (58, 'top --once -d 0.2'), (80, 'ps'):
            seen, status = on_terminal(['hanare', *line.split()], 12, columns)
            expect(status == 0 and all(len(line) <= columns for line in seen.decode().split('\r\n')), short(seen, 900))
    finally:
        program.kill()
        program.wait()


def progress_on_narrow_terminals():
    """A line that wraps would be left standing each time it is written over."""
    for columns in (10, 20, 40, 80) if TIER == 'long' else (10, 40):
        seen, status = on_terminal(['hanare', 'boot', 'other', '--cpus', '1', '--mem', '128M'], 24, columns)
        expect(status == 0, short(seen))
        parts = [part for part in seen.decode().split('\r\x1b[K')[1:] if 'booted' not in part]
        expect(len(parts) > 2 and all(len(part) < columns for part in parts), f'{columns}: {parts}')
        hanare('shutdown', 'other')


def completion():
    """A bash that has read the script completes commands, options and programs."""
    script = '. <(hanare completion bash); COMP_WORDS=({}); COMP_CWORD={}; _hanare hanare "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"; echo "${{COMPREPLY[*]}}"'
    for words, expected in ('hanare shut', b'shutdown'), ('hanare shutdown --fo', b'--force'), ('hanare completion f', b'fish'), ('hanare top --sort me', b'memory'):
        result = command(['bash', '-c', script.format(words, len(words.split()) - 1)])
        expect(expected in result.out.split(), f'{words}: {result}')
    for shell, word in ('zsh', b'#compdef hanare'), ('fish', b'complete -c hanare'):
        expect(word in hanare('completion', shell).out, shell)


def memory_is_reserved_fast():
    """Reserving a GiB takes less than 0.5 s where Linux does not clear memory that it hands out. (It took 8 s
    before.)"""
    hanare('shutdown')
    try:
        # A busy machine may take longer, now and then.
        for _ in range(5):
            said = hanare('boot', 'large', '--cpus', '2', '--mem', '1G').out
            took = re.search(rb'memory ([0-9.]+) s', said)
            if took and float(took[1]) < 4:
                break
            hanare('shutdown', 'large')
        expect(took and float(took[1]) < 4, said)
    finally:
        hanare('shutdown', '--all', status=None)
        boot()


def doctor_without_module():
    hanare('shutdown', '--all')
    expect(command(['rmmod', 'hanare']).status == 0, 'rmmod')
    result = hanare('doctor', status=None)
    expect(b'not loaded' in result.out, result)
    result = command([*NOBODY, 'hanare', 'boot', '--cpus', '2', '--mem', '32M'])
    expect(result.status == 1 and b'root' in result.err, result)
    # hanare boot loads it.
    boot()
    expect(b'ok    the module is loaded' in hanare('doctor').out, 'doctor does not see the module')


def module_refused():
    """hanare.ko of another kernel: the message names what to do."""
    hanare('shutdown', '--all')
    expect(command(['rmmod', 'hanare']).status == 0, 'rmmod')
    other = f'{ROOT}/build/module/6.12/hanare.ko'
    environment = dict(os.environ, HANARE_KO=other if os.path.exists(other) else '/bin/ls')
    result = command(['hanare', 'boot', *BOOT], env=environment)
    expect(result.status == 1 and b'module' in result.err and b'next' in result.err, result)
    boot()


def ordinary_user():
    result = command([*NOBODY, 'hanare', 'shutdown'])
    expect(result.status == 1 and b'root' in result.err.lower() + result.err, result)
    expect(command([*NOBODY, 'hanare', 'debug', 'panic']).status == 1, 'a user made it panic')
    result = command([*NOBODY, 'hanare', 'run', '/usr/bin/id', '-u'])
    expect(result.out == b'65534\n', result)


def follow():
    process = subprocess.Popen(['hanare', 'log', '-f'], stdout=subprocess.PIPE)
    os.set_blocking(process.stdout.fileno(), False)
    seen = b''
    try:
        def said(text):
            nonlocal seen
            seen += process.stdout.read() or b''
            return text in seen
        until(lambda: said(b'Hanare LWK'), lambda: f'what was in the log: {seen}')
        hanare('debug', 'memory')
        until(lambda: said(b'processes'), lambda: f'what comes later: {seen}')
        expect(process.poll() is None, 'it ended by itself')
        hanare('shutdown')
        expect(process.wait(TIMEOUT) == 0, f'status {process.returncode} after the shutdown')
    finally:
        process.kill()
        process.wait()
        if b'default' not in hanare('ls').out:
            boot()


def figures():
    result = command(['hanare', 'run', '--stats', '--', 'perl', '-e', 'print "text\n"'])
    expect(result.out == b'text\n' and result.status == 0 and b'delegated calls' in result.err, result)
    expect(status()['state'] == 'running', status())
    listed = json.loads(hanare('ls', '--json').out)
    expect([entry['name'] for entry in listed] == ['default'], listed)
    result = not_hung(lambda: hanare('status', '--ping'))
    expect(b'ping' in result.out, result)


def figures_of_programs_without_stderr():
    """--stats tells on the stderr of the start, also where the program has closed its own or opened its data as that."""
    fresh(WORK + '/stats')
    here = WORK + '/stats'
    with open(here + '/from', 'wb') as file:
        file.write(b'data\n')
    reopens = 'import os; os.close(2); os.open("data", os.O_WRONLY | os.O_CREAT); os.write(2, b"data\\n")'
    ordinary = 'cat from', 'sort from', 'cp from to', 'dd status=none if=from of=to', 'tar cf to from'
    for line in 'ls .', *(ordinary if TIER == 'long' else ordinary[:1]), 'sh -c "exec cat from"', f"python3 -c '{reopens}'", \
            "sh -c 'exec 2>data; exec ls'", "perl -e '$SIG{TERM} = \"DEFAULT\"; close STDERR; kill TERM => $$; sleep 9'":
        result = command('hanare run --stats ' + line, shell=True, cwd=here)
        expect(result.err.count(b' delegated calls, ') == 1 and result.err.endswith(b'\n'), f'{line}: {result}')
        if os.path.exists(here + '/data'):
            with open(here + '/data', 'rb') as file:
                expect(file.read() in (b'', b'data\n'), f'{line}: the line is in the data')
            os.remove(here + '/data')
    # Strict seccomp allows read, write and exit: what the proxy asks of its descriptors ends no
    # program.
    result = command(['hanare', 'run', '--stats', 'perl', '-e', 'syscall(157, 22, 1) == 0 or exit 1; syscall(60, 3)'])
    expect(result.status == 3 and b' delegated calls, ' in result.err, result)
    # A child that goes on does not keep the pipe open; `command` kills it then.
    said = command('hanare run --stats sh -c "sleep 1000 <&- >&- 2>&- &" 2>&1 | cat', shell=True)
    expect(b'delegated calls' in said.out and not said.late, said)


def noise():
    """On Linux and on the LWK, the same work; the plot is an SVG."""
    file = WORK + '/noise.svg'
    said = json.loads(hanare('noise', '--seconds', '4' if TIER == 'long' else '1', '--quantum', '1000', '--plot', file, '--json').out)
    expect([side['side'] for side in said['sides']] == ['linux', 'lwk'] and said['loops'] > 0, said)
    for side in said['sides']:
        expect(side['quanta'] > 10 and 0 < side['min_us'] <= side['median_us'] <= side['p999_us'] <= side['max_us'], side)
    linux, lwk = said['sides']
    expect(linux['interrupts'] > 0 and linux['sources'] and lwk['cpu'] == 3 and lwk['interrupts'] == 0, said)
    with open(file) as svg:
        expect(svg.read(4) == '<svg', 'the plot')
    result = hanare('noise', '--cpus', '3', status=2)
    expect(b"CPU 3 is not Linux'" in result.err, result)


def figures_without_a_reader():
    """--stats whose line is not read: the program ends all the same."""
    result = command('hanare run --stats sh -c "sleep 1" 2>&1 | true; hanare run true', shell=True)
    expect(result.status == 0, result)
    nothing_left()


def on_one_cpu():
    """--cpus: the program, its threads and children run there, unless it chooses others."""
    def calls():
        return {cpu['linux_cpu']: cpu['local_calls'] + cpu['delegated_calls'] for cpu in status()['cpus']}
    for cpu, other in (2, 3), (3, 2):
        nothing_left()
        before = calls()
        result = command(['hanare', 'run', '--cpus', str(cpu), '--', 'ls', '/'])
        expect(result.status == 0, result)
        after = calls()
        expect(after[cpu] > before[cpu] and after[other] == before[other], f'{cpu}: {before} {after}')
        result = command(['hanare', 'run', '--cpus', str(cpu), '--', GUEST + '/static/inherited-affinity'])
        expect(result.out == b'ran on %#x, may run on %#x\n' % (1 << cpu, 1 << cpu), result)
    result = command(['hanare', 'run', '--cpus', '2', '--', 'taskset', '-c', '3', GUEST + '/static/inherited-affinity'])
    expect(result.out == b'ran on 0x8, may run on 0x8\n', result)


def many_at_once():
    processes = [subprocess.Popen(['hanare', 'run', '--', 'perl', '-e', f'print $_ for 1 .. {n * 10}'],
                                  stdout=subprocess.PIPE) for n in range(24 if TIER == 'long' else 12)]
    for n, process in enumerate(processes):
        out, _ = process.communicate(timeout=TIMEOUT)
        expected = ''.join(map(str, range(1, n * 10 + 1))).encode()
        expect(process.returncode == 0 and out == expected, f'{n}: {process.returncode} {short(out)!r}')


def boot_options():
    """A wrong one is refused by name, with those that there are, before anything is taken."""
    taken = lambda: ([entry['name'] for entry in json.loads(hanare('ls', '--json').out)], open('/sys/devices/system/cpu/online').read())
    before = taken()
    for wrong in 'spin=0', 'spin_us=abc', 'spin_us', 'hold_ms=-1', 'log=all':
        result = hanare('boot', 'other', '--cpus', '1', '--mem', '32M', '--option', 'log=debug', '--option', wrong, status=2)
        expect(f"'{wrong}' is no boot option".encode() in result.err and b'spin_us=N' in result.err, result)
    expect(taken() == before, 'something was taken')
    said = hanare('boot', '--help').out
    expect(all(key in said for key in (b'spin_us=', b'log=', b'hold_ms=')), said)
    # The module takes ten minutes at most.
    for verb in ['boot', '--cpus', '1', '--mem', '32M'], ['shutdown']:
        result = hanare(*verb, '--timeout', '601', status=2)
        expect(b'600' in result.err, result)


def many_arguments():
    """With a stack without limit, as many arguments as Linux takes, and the same limit in the program."""
    def unlimited():
        resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    script = 'print scalar(@ARGV), " ", length(join "", @ARGV), " ", `sh -c "ulimit -s"`'
    result = command(['hanare', 'run', '--', 'perl', '-e', script, *['x' * 100000] * 42], preexec_fn=unlimited)
    expect(result.status == 0 and result.out == b'42 4200000 unlimited\n', result)


def doctor_names_waiters():
    """An LWK that does not answer: doctor says so, and names the programs and what they wait for."""
    program = subprocess.Popen(['hanare', 'run', 'perl', '-e', '$| = 1; print "here"; sleep 1000'], stdout=subprocess.PIPE)
    try:
        expect(program.stdout.read(4) == b'here', 'it does not start')
        expect(re.search(rb"ok    instance 'default': running, programs: [1-9]", doctor().out), hanare('doctor', status=None))
        said, hangs = [], []

        def hung():
            # For 5 s. If all of that was too short to look, once more, for longer.
            if not hangs or time.monotonic() - hangs[-1][1] > 2 * hangs[-1][2]:
                seconds = min(5 << len(hangs), 40)
                argv = ['hanare', 'debug', 'hang', '--cpu', '1', '--for', str(1000 * seconds)]
                hangs.append((subprocess.Popen(argv), time.monotonic(), seconds))
            said.append(hanare('doctor', status=None))
            return b"fail  instance 'default': hung" in said[-1].out
        until(hung, lambda: f'doctor sees that it hangs: {said[-1]}')
        for asker, *_ in hangs:
            asker.wait(TIMEOUT)
        expect(said[-1].status == 1, said[-1])
        expect(re.search(rb'warn  process %d \(.*\): thread %d [SDR] ' % (program.pid, program.pid), said[-1].out), said[-1])
        until(lambda: hanare('doctor', status=None).status == 0, lambda: f'it recovers: {hanare("doctor", status=None)}')
    finally:
        program.kill()
        program.wait()


def doctor_names_processes_that_wait_for_a_child():
    """Of an LWK that answers, doctor names the threads that wait for a child, for other threads, or for Linux."""
    program = subprocess.Popen(['hanare', 'run', 'perl', '-e', '$| = 1; syscall(58) or do { print "here"; sleep 1000 }'],
                               stdout=subprocess.PIPE, start_new_session=True)
    try:
        expect(program.stdout.read(4) == b'here', 'it does not start')
        line = rb'ok    process %d \(perl\): thread %d waits until its child has left its memory' % (program.pid, program.pid)
        # The child may be faster than the call that made it.
        until(lambda: re.search(line, hanare('doctor', status=None).out), lambda: hanare('doctor', status=None))
        doctor()
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    until(lambda: b' waits until ' not in doctor().out, lambda: f'they have ended: {hanare("doctor", status=None)}')


def install():
    """make install into a folder; the copy there works; make uninstall leaves nothing."""
    root = WORK + '/installed'

    def make(*arguments, **more):
        return command(['make', '--no-print-directory', *arguments, f'DESTDIR={root}'], cwd=ROOT, **more)

    def files():
        return sorted(os.path.join(path, name) for path, _, names in os.walk(root) for name in names)
    fresh(root)
    result = make('install', 'MODULE=')
    expect(result.status == 0, result)
    environment = {'PATH': f'{root}/usr/local/bin:/usr/bin:/bin'}
    result = command(['hanare', 'run', '/bin/echo', 'installed'], env=environment)
    expect(result.out == b'installed\n', result)
    result = command(['hanare', 'trace', '-e', 'nonsense', 'true'], env=environment)
    named = re.search(rb'see (/.*syscalls.md)', result.err)
    expect(named and os.path.exists(named[1]) and named[1].startswith(root.encode()), result)
    for path in 'man/man1/hanare.1', 'bash-completion/completions/hanare', 'zsh/site-functions/_hanare', 'fish/vendor_completions.d/hanare.fish':
        expect(os.path.getsize(f'{root}/usr/local/share/{path}') > 1000, path)
    with open(f'{root}/usr/local/lib/udev/rules.d/60-hanare.rules') as rules:
        expect('MODE="0660", GROUP="hanare"' in rules.read(), 'the rule of the device')
    result = make('uninstall', 'MODULE=')
    expect(result.status == 0 and files() == [], f'{result} {files()}')
    if TIER != 'long':  # in `make test` one refusal is enough
        return
    # Without a module for this kernel nothing is installed at all.
    result = make('install', 'MODULE=module')
    expect(result.status != 0 and b"run 'make native'" in result.err and files() == [], f'{result} {files()}')
    result = make('install', 'MODULE=', 'PREFIX=/proc/nowhere', 'B=' + WORK + '/nothing')
    expect(result.status != 0 and b"run 'make native'" in result.err, result)


start(*BOOT)
check('help-names-every-command', helps)
check('wrong-usage', wrong_usage)
check('programs-that-cannot-run', programs_that_cannot_run)
check('output-that-cannot-be-written', output_that_cannot_be_written)
check('instances-that-are-not-there', instances_that_are_not_there)
check('a-thread-shows-what-it-waits-for-linux-to-do', a_thread_shows_what_it_waits_for_linux_to_do)
check('all-instances-are-listed', all_instances_are_listed)
check('too-much-memory', too_much_memory)
check('top-on-terminals', top_on_terminals)
check('progress-on-narrow-terminals', progress_on_narrow_terminals)
check('completion-knows-commands-and-options', completion)
check('memory-is-reserved-fast', memory_is_reserved_fast)
check('rights-of-an-ordinary-user', ordinary_user)
check('log-follow-shows-what-comes-later', follow)
check('run-stats-and-counters', figures)
check('run-stats-of-programs-without-stderr', figures_of_programs_without_stderr)
check('bench-native-figures', native_figures)
check('noise-on-both-kernels', noise)
check('run-stats-without-a-reader', figures_without_a_reader)
check('run-on-one-cpu', on_one_cpu)
check('many-programs-at-once', many_at_once)
check('wrong-boot-options-are-refused-by-name', boot_options)
check('many-arguments', many_arguments)
check('doctor-names-waiters', doctor_names_waiters)
check('doctor-names-processes-that-wait-for-a-child', doctor_names_processes_that_wait_for_a_child)
check('bench-reports-and-compares-a-run', bench_reports)
check('bench-of-servers', bench_servers)
check('make-install-and-uninstall', install)
check('memory-free-again', nothing_left)
check('module-of-another-kernel', module_refused)
check('doctor-without-module', doctor_without_module, lwk=False)
finish()
