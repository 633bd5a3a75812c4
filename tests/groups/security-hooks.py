"""Programs on an LWK as Linux's guards see them: tracepoints, audit, IMA, fanotify. What they forbid is forbidden."""

import ctypes
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

PLACE = '/run/hanare-guarded'
TRACING = '/sys/kernel/tracing'
IMA = '/sys/kernel/security/ima'
# Programs of a shell that forks, executes in place, and has an interpreter of its own.
SCRIPT = f'{PLACE}/seen-a; {PLACE}/seen-script; exec {PLACE}/seen-b argument'
SEEN = ['sh', 'seen-a', 'seen-script', 'seen-b']


def programs():
    for name in 'seen-a', 'seen-b', 'seen-c', 'forbidden':
        shutil.copy(GUEST + '/static/hello', f'{PLACE}/{name}')
    with open(PLACE + '/seen-script', 'w') as script:
        script.write(f'#!{PLACE}/seen-c\n')
    os.chmod(PLACE + '/seen-script', 0o755)
    os.chown(PLACE + '/forbidden', 12345, 0)


def write(path, text):
    with open(path, 'w') as file:
        file.write(text)


def runs():
    """The pid of a run of them all."""
    process = subprocess.Popen(['hanare', 'run', '--', '/bin/sh', '-c', SCRIPT], stdout=subprocess.PIPE)
    out = process.communicate(timeout=TIMEOUT)[0]
    expect((process.returncode, out) == (0, b'hello\n' * 3), f'{process.returncode} {out}')
    return process.pid


def tracepoint():
    """sched_process_exec names each program, with the process that it has."""
    write(TRACING + '/events/sched/sched_process_exec/enable', '1')
    try:
        write(TRACING + '/trace', '')
        pid = runs()
        with open(TRACING + '/trace') as trace:
            told = re.findall(r'sched_process_exec: filename=(\S+) pid=(\d+)', trace.read())
    finally:
        write(TRACING + '/events/sched/sched_process_exec/enable', '0')
    names = [os.path.basename(name) for name, _ in told]
    expect([name for name in names if name in SEEN] == SEEN, f'{told}')
    first_and_last = [int(of) for name, of in told if os.path.basename(name) in ('sh', 'seen-b')]
    expect(first_and_last == [pid, pid], f'{told}, process {pid}')


def audit_request(kind, payload):
    """Tells Linux's audit something, and takes its answer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9) as audit:
        audit.bind((0, 0))
        audit.sendto(struct.pack('=IHHII', 16 + len(payload), kind, 5, 1, 0) + payload, (0, 0))
        answer = audit.recv(8192)
        expect(struct.unpack_from('=IHHIIi', answer)[5] == 0, f'audit: {answer}')


def audit():
    """Records of execve name each program."""
    with open('/proc/sys/kernel/printk_ratelimit') as file:
        limit = file.read()
    write('/proc/sys/kernel/printk_ratelimit', '0')
    syscalls = [0] * 64
    for number in 59, 322:
        syscalls[number // 32] |= 1 << number % 32
    rule = struct.pack('=3I64I', 4, 2, 0, *syscalls) + bytes(3 * 256 + 4)
    audit_request(1001, struct.pack('=11I', 1, 1, *[0] * 9))
    audit_request(1011, rule)
    try:
        before = len(kernel_log_since(0))
        runs()
        # Without a daemon they go to the log, a moment later.
        def told():
            return re.findall(r'item=0 name="([^"]*)"', kernel_log_since(before))
        until(lambda: {PLACE + '/' + name for name in SEEN[1:]} <= set(told()), lambda: f'names: {told()}')
        expect('/bin/sh' in told(), told())
        log = kernel_log_since(before)
        expect(f'a0="{PLACE}/seen-b" a1="argument"' in log, f'arguments: {re.findall("argc=.*", log)}')
    finally:
        audit_request(1012, rule)
        audit_request(1001, struct.pack('=11I', 1, 0, *[0] * 9))
        write('/proc/sys/kernel/printk_ratelimit', limit)


def refused_as_on_linux():
    """By a shell that forks, one that executes in place, vfork, and as the first program."""
    path = PLACE + '/forbidden'
    tries = [['/bin/sh', '-c', f'{path}; echo $?'], ['/bin/bash', '-c', f'exec {path}'], [path],
             ['/usr/bin/python3', '-c', f'import subprocess; subprocess.run([{path!r}])']]
    for argv in tries:
        on_linux = command(['/bin/sh', '-c', '"$@"', 'sh', *argv])
        result = run(*argv)
        expect(b'hello' not in on_linux.out, f'test broken, on Linux: {on_linux}')
        expect((result.status, result.out) == (on_linux.status, on_linux.out), f'{argv}: {result}, on Linux {on_linux}')


has_policy = False


def ima():
    """What IMA is to measure is measured; what it appraises, and cannot, is not executed. It takes a policy once, for good."""
    global has_policy
    if not has_policy:
        write(IMA + '/policy', 'measure func=BPRM_CHECK mask=MAY_EXEC uid=0\nappraise func=BPRM_CHECK fowner=12345\n')
        has_policy = True
    runs()
    with open(IMA + '/ascii_runtime_measurements') as measured:
        names = set(measured.read().split())
    expect({f'{PLACE}/seen-{which}' for which in 'abc'} <= names, names)
    refused_as_on_linux()


def fanotify():
    """FAN_OPEN_EXEC_PERM: the watcher may forbid each."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.fanotify_init(4, os.O_RDONLY)
    exec_perm = 0x40000
    mask = ctypes.c_uint64(exec_perm)
    expect(watch >= 0 and not libc.fanotify_mark(watch, 1, mask, -100, (PLACE + '/forbidden').encode()), 'test broken: fanotify')
    asked = []
    end = threading.Event()

    def answer():
        while not end.is_set():
            if not select.select([watch], [], [], 0.2)[0]:
                continue
            for event in struct.iter_unpack('=IBBHQii', os.read(watch, 24 * 16)):
                asked.append(event[6])
                os.write(watch, struct.pack('=iI', event[5], 2))
                os.close(event[5])
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        refused_as_on_linux()
        expect(len(asked) >= 8, f'asked {len(asked)} times')
    finally:
        end.set()
        thread.join()
        os.close(watch)


start(*BOOT)
fresh(PLACE)
os.chmod(PLACE, 0o755)
programs()
check('seen-by-tracepoint', tracepoint)
check('seen-by-audit', audit)
check('forbidden-by-fanotify', fanotify)
mounted = not subprocess.run(['mount', '-n', '-t', 'securityfs', 'securityfs', '/sys/kernel/security'], check=False).returncode
check('seen-and-forbidden-by-ima', ima, skip=None if os.path.exists(IMA) else 'no IMA')
if mounted:
    subprocess.run(['umount', '-n', '/sys/kernel/security'], check=True)
shutil.rmtree(PLACE)
finish()
