"""Prints every file of /proc that is about a process, of several processes, with what it says: the same on both kernels.

What has to differ is written as what can be compared (NORMAL), each with its reason. A file that is not named there is
printed as it is.
"""

import ctypes
import errno
import os
import re
import resource
import signal
import stat
import struct
import sys
import threading
import time
import traceback

libc = ctypes.CDLL(None)
# Numbers of processes and threads, by what they are called here.
names = {}


def renamed(text):
    return re.sub(r'\b\d+\b', lambda number: names.get(number[0], number[0]), text)


def shape(text):
    """Words without their numbers, which no two runs have in common."""
    return re.sub(r'\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b', 'N', text)


def mappings(text):
    """Where they lie differs, and how they are cut; the LWK's program has no [vsyscall]."""
    lines = [line.split(None, 5) for line in text.splitlines() if re.match('[0-9a-f]+-[0-9a-f]+ ', line)]
    found = {(line[1], line[5]) for line in lines if len(line) > 5 and line[5] not in ('[vsyscall]', '[vvar]', '[vdso]', '[heap]')}
    return '\n'.join(sorted(map(' '.join, found)))


def smaps(text):
    """Amounts differ, since pages are brought in by more at once, and there is no page of zeros. There are no
    protection keys."""
    amounts = sorted({line.split(':')[0] for line in text.splitlines() if re.match(r'\w+:', line)} - {'ProtectionKey'})
    return mappings(text) + '\n' + ' '.join(amounts)


def rollup(text):
    return ' '.join(line.split(':')[0] for line in text.splitlines()[1:])


def auxv(text):
    """Addresses differ; what is behind the keys and what Linux 6.3 added does not matter to programs that do not look."""
    data = text.encode('latin-1')
    pairs = [struct.unpack_from('QQ', data, at) for at in range(0, len(data) - 15, 16)]
    return ' '.join(f'{key}={value}' if key in (4, 5, 6, 8, 11, 12, 13, 14, 17, 23) else str(key) for key, value in pairs)


# Fields of proc(5) that are the same for the same program; 9 (flags) and 38 (exit signal) are
# Linux' of the worker.
STAT = [1, 2, 3, 4, 5, 6, 7, 8, 18, 19, 20, 21, 22 - 1, 38, 40, 41]


def stat_line(text):
    head, _, rest = text.partition(')')
    fields = [*head.split(' (', 1), *rest.split()]
    memory = 'memory' if any(int(fields[n - 1]) for n in (23, 24, 26, 27, 28, 45, 46, 47)) else 'no memory'
    return ' '.join(renamed(fields[n - 1]) if n in (1, 4, 5, 6) else fields[n - 1] for n in STAT) + ' ' + memory


def status(text):
    """Amounts of memory, switches; a proxy has a descriptor above the soft limit (FDSize), and a signal of its own is queued (SigQ)."""
    lines = []
    for line in text.splitlines():
        key, _, rest = line.partition(':')
        if re.match(r'Vm|Rss|FDSize|SigQ|.*voluntary_ctxt', key):
            rest = ' 0' if key == 'FDSize' and rest.strip() == '0' else ' N'
        if key.lower().endswith(('pid', 'tgid', 'nspgid', 'nssid')):
            rest = renamed(rest)
        # Of one that has ended Linux has the proxy's signals.
        if key == 'SigCgt' and 'State:\tZ' in text and 'Threads:\t1\n' in text:
            rest = ' of a zombie'
        lines.append(f'{key}:{rest}')
    return '\n'.join(lines)


# By the name of the file: what is compared, where that is not all of it.
NORMAL = {
    'maps': mappings, 'numa_maps': lambda text: 'lines' if text else '', 'smaps': smaps, 'smaps_rollup': rollup,
    'auxv': auxv, 'stat': stat_line, 'status': status, 'io': shape, # what a program's file is read by
    'statm': lambda text: ' '.join('0' if word == '0' else 'N' for word in text.split()[:2]),
    'sched': lambda text: 'lines' if text else '',          # Linux' scheduler, of the worker
    'schedstat': lambda text: str(len(text.split())),       # times
    'oom_score': lambda text: 'a number',                   # how much memory Linux has of it, which is less
    # Addresses; of vfork, which has no arguments, what the registers have.
    'syscall': lambda text: ' '.join(text.split()[:1 if text.startswith('58 ') else 2]) if text[:1].isdigit() else text,
    'stack': lambda text: 'a text',                         # on the LWK nothing: no functions of Linux'
    'wchan': lambda text: 'a text',                         # on the LWK 0
    'pagemap': lambda text: 'numbers' if text else '',      # tests/guest/pagemap.c
    'children': renamed,
    'autogroup': shape,                                     # of the session
    'net': lambda text: '',                                 # of the network, not of the process
}
# Not compared at all.
WITHOUT = {
    'map_files': 'not there on the LWK: Linux has the proxy\'s mappings',
}
# Of a first thread that has ended the LWK has these still, as its worker has.
OF_WORKER = {'timens_offsets', 'net'}


def read(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        text = b''
        while len(text) < 1 << 20 and (more := os.read(fd, 1 << 16)):
            text += more
        return text.decode('latin-1')
    finally:
        os.close(fd)


def said(path, info):
    """What a file says, in a form that both kernels have in common."""
    name = os.path.basename(path)
    if stat.S_ISLNK(info.st_mode):
        return re.sub(r'\[\d+\]$', '[N]', re.sub('^/tmp/tmp.*', 'a file', os.readlink(path)))
    if stat.S_ISDIR(info.st_mode):
        return 'a directory'
    if not info.st_mode & 0o444:
        os.close(os.open(path, os.O_WRONLY))
        return 'to be written'
    text = read(path)
    if os.path.basename(os.path.dirname(path)) == 'fdinfo':
        text = re.sub(r'^ino:.*', 'ino: N', text, flags=re.M)
    return NORMAL.get(name, lambda text: text)(text)


def show(folder, ended):
    for name in sorted(os.listdir(folder), key=lambda name: (len(name), name)):
        path = f'{folder}/{name}'
        if name in WITHOUT or ended and name in OF_WORKER:
            continue
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            continue # the descriptor that listed the directory
        try:
            text = said(path, info)
        except OSError as error:
            text = errno.errorcode[error.errno]
        print(f'{renamed(path)} {info.st_mode:o} {info.st_uid} {info.st_gid}: {text}')
        if stat.S_ISDIR(info.st_mode) and name not in ('net', 'task') and os.access(path, os.R_OK):
            show(path, False)


def process(title, pid, ended=False):
    print(f'=== {title}')
    show(f'/proc/{pid}', ended)


def threads(title, pid, ended=False):
    tasks = sorted(os.listdir(f'/proc/{pid}/task'), key=int)
    names.update((tid, f'{title}-{n}') for n, tid in enumerate(tasks) if int(tid) != pid)
    for n, tid in enumerate(tasks):
        print(f'--- {title}, thread {n} of {len(tasks)}')
        show(f'/proc/{pid}/task/{tid}', ended and int(tid) == pid)


def child_of(body):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            body()
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(3)
    return child


def first_thread_ends():
    threading.Thread(target=signal.pause).start()
    libc.syscall(60, 0)


def has_limits():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 41))
    resource.setrlimit(resource.RLIMIT_CPU, (1000, 2000))


def as_another_user():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


def another_user_sleeps():
    as_another_user()
    signal.pause()


# Shares its creator's memory for as long as it lives; that one waits for it.
VFORKS = ['/usr/bin/perl', '-e', 'syscall(58) or sleep 1000']


def until(state, pid):
    while not re.search(rf'\) {state} ', read(f'/proc/{pid}/stat')):
        time.sleep(0.01)


def main():
    os.setsid()
    names.update({str(os.getpid()): 'self', str(os.getppid()): 'parent'})
    bodies = {'sleeps': signal.pause, 'ended': has_limits, 'stranger': another_user_sleeps, 'leader': first_thread_ends,
              'vforks': lambda: os.execv(VFORKS[0], VFORKS)}
    pids = {title: child_of(body) for title, body in bodies.items()}
    try:
        while not (child := read('/proc/{0}/task/{0}/children'.format(pids['vforks']))):
            time.sleep(0.01)
        pids['vforked'] = int(child)
        for title, pid in pids.items():
            until({'ended': 'Z', 'leader': 'Z', 'vforks': 'D'}.get(title, 'S'), pid)
            names[str(pid)] = title
        process('self', os.getpid())
        threads('self', os.getpid())
        for title in 'sleeps', 'ended', 'stranger', 'vforks', 'vforked':
            process(title, pids[title])
        print('limits of the ended one', [resource.prlimit(pids['ended'], which) for which in range(16)])
        process('leader', pids['leader'], True)
        threads('leader', pids['leader'], True)
        # What one user sees of another's.
        os.waitpid(child_of(lambda: (as_another_user(), process('sleeps', pids['sleeps']))), 0)
    finally:
        for title, pid in pids.items():
            if title != 'ended':
                os.kill(pid, signal.SIGKILL)


os.waitpid(child_of(main), 0)
