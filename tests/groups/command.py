"""The hanare command: what users meet besides running programs."""

import os
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

NOBODY = ['/usr/bin/setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']


def helps():
    text = hanare('--help').out.decode()
    names = re.findall(r'^  (\w+)  ', text, re.M)
    expect({'boot', 'run', 'ls', 'log', 'status', 'doctor', 'shutdown'} <= set(names), names)
    for name in names:
        said = hanare(name, '--help').out.decode()
        expect('Usage: hanare ' + name in said, f'{name}: {said[:200]}')
    expect(command(['hanare']).status == 2, 'hanare alone is no error')
    expect(command(['hanare', 'nonsense']).status == 2, 'hanare nonsense is no error')


def doctor_without_module():
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
    hanare('shutdown')
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
        for step in range(100):
            if step == 10:
                hanare('debug', 'memory')
            time.sleep(0.1)
            seen += process.stdout.read() or b''
            if b'processes' in seen:
                break
        expect(b'Hanare LWK' in seen and b'processes' in seen, seen)
        expect(process.poll() is None, 'it ended by itself')
        hanare('shutdown')
        expect(process.wait(20) == 0, f'status {process.returncode} after the shutdown')
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
    result = hanare('status', '--ping')
    expect(b'ping' in result.out, result)


def figures_nobody_reads():
    """--stats of which nobody reads the line: the program ends all the same."""
    result = command('hanare run --stats sh -c "sleep 1" 2>&1 | true; hanare run true', shell=True, timeout=60)
    expect(result.status == 0, result)
    expect(b' 0 processes' in hanare('debug', 'memory').out, 'the program goes on')


def on_one_cpu():
    """--cpus: the program, its threads and children run there, unless it chooses others."""
    def calls():
        return {cpu['linux_cpu']: cpu['local_calls'] + cpu['delegated_calls'] for cpu in status()['cpus']}
    for cpu, other in (2, 3), (3, 2):
        before = calls()
        result = command(['hanare', 'run', '--cpus', str(cpu), '--', 'ls', '/'])
        expect(result.status == 0, result)
        after = calls()
        expect(after[cpu] > before[cpu] and after[other] == before[other], f'{cpu}: {before} {after}')
        result = command(['hanare', 'run', '--cpus', str(cpu), '--', GUEST + '/static/bound'])
        expect(result.out == b'ran on %#x, may run on %#x\n' % (1 << cpu, 1 << cpu), result)
    result = command(['hanare', 'run', '--cpus', '2', '--', 'taskset', '-c', '3', GUEST + '/static/bound'])
    expect(result.out == b'ran on 0x8, may run on 0x8\n', result)


def many_at_once():
    processes = [subprocess.Popen(['hanare', 'run', '--', 'perl', '-e', f'print $_ for 1 .. {n * 10}'],
                                  stdout=subprocess.PIPE) for n in range(24)]
    for n, process in enumerate(processes):
        out, _ = process.communicate(timeout=120)
        expected = ''.join(map(str, range(1, n * 10 + 1))).encode()
        expect(process.returncode == 0 and out == expected, f'{n}: {process.returncode} {short(out)!r}')


def boot_options():
    """A wrong one is refused by name, with those that there are, before anything is taken."""
    taken = lambda: ([entry['name'] for entry in json.loads(hanare('ls', '--json').out)], open('/sys/devices/system/cpu/online').read())
    before = taken()
    for wrong in 'spin=0', 'spin_us=abc', 'spin_us', 'hold_ms=-1', 'log=all':
        result = hanare('boot', 'other', '--cpus', '1', '--mem', '32M', '--option', 'log=debug', '--option', wrong, status=1)
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
        expect(re.search(rb"ok    instance 'default': running, programs: [1-9]", hanare('doctor').out), hanare('doctor'))
        asker = subprocess.Popen(['hanare', 'debug', 'hang', '--cpu', '1', '--for', '9000'])
        time.sleep(1)
        result = hanare('doctor', status=1)
        asker.wait(60)
        expect(b"fail  instance 'default': hung" in result.out, result)
        expect(re.search(rb'warn  process %d \(.*\): thread %d [SDR] ' % (program.pid, program.pid), result.out), result)
        for _ in range(100):
            if hanare('doctor', status=None).status == 0:
                break
            time.sleep(0.2)
        expect(hanare('doctor').status == 0, 'it does not recover')
    finally:
        program.kill()
        program.wait()


def install():
    """make install into a folder; the copy there works."""
    root = WORK + '/installed'
    result = command(['make', '--no-print-directory', 'install', f'DESTDIR={root}', 'MODULE='],
                     cwd=ROOT, timeout=120)
    expect(result.status == 0, result)
    environment = {'PATH': f'{root}/usr/local/bin:/usr/bin:/bin'}
    result = command(['hanare', 'run', '/bin/echo', 'installed'], env=environment)
    expect(result.out == b'installed\n', result)


def nothing_left():
    free, text = debug_memory()
    expect('0 processes' in text and 'quarantined 0 B' in text, text)


start(*BOOT)
check('help', helps)
check('ordinary-user', ordinary_user)
check('log-follow', follow)
check('figures', figures)
check('figures-nobody-reads', figures_nobody_reads)
check('on-one-cpu', on_one_cpu)
check('many-at-once', many_at_once)
check('boot-options', boot_options)
check('many-arguments', many_arguments)
check('doctor-names-waiters', doctor_names_waiters)
check('install', install)
check('nothing-left', nothing_left)
check('module-of-another-kernel', module_refused)
hanare('shutdown')
check('doctor-without-module', doctor_without_module, lwk=False)
finish()
