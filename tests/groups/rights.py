"""Rights of users: programs that may only be executed, identities of threads."""

import contextlib
import grp
import os
import re
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

# Not setpriv itself: it has root's capabilities until it executes something.
NOBODY = [*NOBODY, '/bin/sh', '-c', 'exec "$@"', 'sh']
PLACE = '/run/hanare-rights'


def install(name, mode):
    path = f'{PLACE}/{name}-{mode:o}'
    shutil.copy(f'{GUEST}/static/{name}', path)
    os.chmod(path, mode)
    return path


def by_group():
    """Root and the members of the device's group run programs, no other user; also once the module is loaded anew."""
    outside = ['/usr/bin/setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
    user = ['hanare', 'run', '--', '/usr/bin/id', '-u']

    def body():
        device = os.stat('/dev/hanare')
        expect((device.st_mode & 0o7777, device.st_gid) == (0o660, grp.getgrnam('hanare').gr_gid), f'{device}')
        result = command([*NOBODY, *user])
        expect((result.status, result.out) == (0, b'65534\n'), result)
        result = command([*outside, *user])
        expect(result.status == 125 and b'usermod -aG hanare' in result.err, result)
        result = command([*outside, 'hanare', 'ls'])
        expect(result.status == 1 and b'usermod -aG hanare' in result.err, result)
        expect(b'is for root and group hanare' in command([*outside, 'hanare', 'doctor']).out, 'doctor')

    def loaded_anew():
        hanare('shutdown', '--all')
        expect(command(['rmmod', 'hanare']).status == 0, 'rmmod')
        boot()
        body()

    def another_group():
        os.chown('/dev/hanare', 0, 12)
        try:
            expect(b'usermod -aG man' in command([*outside, 'hanare', 'doctor']).out, 'doctor')
            hanare('shutdown', '--all')
            boot()
            expect(os.stat('/dev/hanare').st_gid == 12, 'boot took the group away')
        finally:
            os.chown('/dev/hanare', 0, grp.getgrnam('hanare').gr_gid)
    check('device-by-group', body)
    check('device-by-group-when-loaded-anew', loaded_anew)
    with only_long('binfmt shows the same promise'):
        # Now Linux asks the module before it asks binfmt_misc.
        same('binfmt-behind-the-module', [GUEST + '/static/binfmt'])
    check('device-by-another-group', another_group)


def unreadable():
    """Programs of root's that others may execute and not read."""
    path, readable = install('unreadable-program', 0o711), install('unreadable-program', 0o755)
    for name, program in ('unreadable', path), ('readable', readable):
        same(name, None, both=lambda launch, program=program: [*NOBODY, *launch, program])
        same(name + '-by-a-shell', None, both=lambda launch, program=program: [*NOBODY, *launch, '/bin/sh', '-c', program])
    same('unreadable-by-root', [path])
    denied = install('unreadable-program', 0o744)
    same('readable-not-executable', None, files=False, normalise=lambda data: b'', status=126,
         both=lambda launch: [*NOBODY, *launch, '/bin/sh', '-c', denied])

    def looked_into():
        for how in 'trace', 'gdb':
            result = command([*NOBODY, 'hanare', how, path])
            expect(not result.late and result.status and b'execed' not in result.out, result)
    check('unreadable-is-not-traced', looked_into)

    def shut():
        def may_run(word):
            with open('/sys/module/hanare/parameters/run_unreadable', 'w') as parameter:
                parameter.write(word)
        may_run('0')
        try:
            result = command([*NOBODY, 'hanare', 'run', '--', path])
        finally:
            may_run('1')
        expect(result.status == 126 and b'Permission denied' in result.err, result)
    check('unreadable-can-be-forbidden', shut)


def identities():
    """A raw call changes the calling thread's identity alone."""
    same('thread-credentials-static', [f'{GUEST}/static/thread-credentials'], files=False)
    with only_long('thread-credentials-static makes the same calls'):
        same('thread-credentials-dynamic', [f'{GUEST}/dynamic/thread-credentials'], files=False)


DROPPED_BY = ['setuid', 'setgid', 'setreuid', 'setregid', 'setresuid', 'setresgid', 'setfsuid', 'setfsgid', 'setgroups',
              'capset', 'bounding-set', 'no-new-privs', 'securebits', 'landlock', 'seccomp', 'own-directory']
# One of each kind: an identity, groups, capabilities, what confines and cannot be taken back, what
# a thread has of its own.
KINDS = {'setresuid': ('first', 'last', 'then-exec'), 'setgroups': ('first',), 'capset': ('first', 'then-exec'), 'no-new-privs': ('first',),
         'landlock': ('first',), 'seccomp': ('first',), 'own-directory': ('first', 'last')}
RIGHTS = re.compile(r'^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):[ \t]*(.*?)[ \t]*$', re.M)


def tasks(pid):
    """The rights of each task of a process that is not a zombie."""
    for task in os.listdir(f'/proc/{pid}/task'):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f'/proc/{pid}/task/{task}/status') as file:
                text = file.read()
            if not re.search(r'^State:\s*[ZX]', text, re.M):
                yield tuple(RIGHTS.findall(text))


def dropped(launch, how, when):
    """What a program that gave rights up, and so has them no more, is served by."""
    process = subprocess.Popen([*launch, GUEST + '/dynamic/dropped-privileges', how, when],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        told = process.stdout.readline()
        expect(told == b'given up: 0\n', f'{how}: {told}')
        if when != 'first': # the first thread may be on its way out, with what it had
            until(lambda: len(set(tasks(process.pid))) == 1, 'tasks with the same rights')
        return list(tasks(process.pid)), process.communicate(timeout=TIMEOUT)[0], process.returncode
    finally:
        process.kill()
        process.wait()


def idle_workers():
    """No worker without a thread keeps rights that no thread has."""
    for when in 'first', 'last', 'then-exec':
        for how in DROPPED_BY:
            def body(how=how, when=when):
                (of_linux, *_), *ended = dropped([], how, when)
                served_by, *same_end = dropped(['hanare', 'run', '--'], how, when)
                expect(served_by and set(served_by) == {of_linux}, f'{served_by}, on Linux {of_linux}')
                # They are sent away, or, where they cannot escape a filter, have it, too.
                expect(how == 'seccomp' or len(served_by) <= (1 if when == 'first' else 2), f'{len(served_by)} tasks')
                expect(same_end == ended, f'{same_end}, on Linux {ended}')
            if when == 'first' or how in ('setresuid', 'capset', 'own-directory'):
                with contextlib.nullcontext() if when in KINDS.get(how, ()) else only_long('another call of the same kind shows it'):
                    check(f'privileges-dropped-{how}-{when}', body)


def listings():
    """`hanare ps` shows a user the processes that /proc shows."""
    def seen(argv, pid):
        said = command([*argv, 'hanare', 'ps']).out.decode()
        return any(line.split()[:1] == [str(pid)] for line in said.splitlines())

    def body():
        open('/mnt/stat', 'w').close()
        process = subprocess.Popen(['hanare', 'run', '--', '/bin/sleep', '1000'])
        try:
            until(lambda: seen([], process.pid), 'root sees it')
            for hidepid, shown in (0, True), (1, False), (2, False):
                subprocess.run(['mount', '-n', '-o', f'remount,hidepid={hidepid}', '/proc'], check=True)
                expect(seen(NOBODY, process.pid) == shown, f'hidepid={hidepid}: nobody sees {not shown}')
                expect(seen([], process.pid), f'hidepid={hidepid}: root does not see it')
                # A user with own namespaces may have anything at /proc.
                folder = f'/proc/{process.pid}'
                forged = f'mount -t tmpfs none /proc && mkdir {folder} /proc/self && touch {folder}/stat /proc/self/stat'
                if TIER != 'long' and hidepid != 2:
                    continue  # with another /proc it is the same, whatever the machine's hides
                for at_proc in 'mount -t tmpfs none /proc', forged, f'mount --bind /proc/self/stat /mnt/stat && {forged} && mount --move /mnt/stat {folder}/stat':
                    private = [*NOBODY, 'unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', f'{{ {at_proc}; }} >&2; exec "$@"', 'sh']
                    expect(not seen(private, process.pid), f'hidepid={hidepid}, {at_proc}: no user sees it')
            expect(not seen(['unshare', '--pid', '--fork', '--mount-proc'], process.pid), 'seen from another pid namespace')
        finally:
            subprocess.run(['mount', '-n', '-o', 'remount,hidepid=0', '/proc'], check=True)
            os.remove('/mnt/stat')
            process.kill()
            process.wait()
    check('ps-shows-what-proc-shows', body)


def log():
    """The log, in which addresses and other users' programs stand, is for CAP_SYSLOG and CAP_SYS_ADMIN."""
    def user(*caps):
        more = [f'{kind}=+{cap}' for cap in caps for kind in ('--inh-caps', '--ambient-caps')]
        return command(['/usr/bin/setpriv', '--reuid=65534', '--regid=65534', '--groups=hanare', *more, 'hanare', 'log'])

    def body():
        refused = user()
        expect(refused.status == 1 and not refused.out and b'not permitted' in refused.err, refused)
        expect(b'Hanare LWK' in user('syslog').out, 'CAP_SYSLOG does not suffice')
        expect(b'Hanare LWK' in user('sys_admin').out, 'CAP_SYS_ADMIN does not suffice')
    check('log-needs-syslog', body)


def in_place():
    """Where the LWK makes an execve by itself, it leaves to Linux those that give rights."""
    def body():
        hanare('shutdown', '--all', '--force', status=None)
        boot('--cpus', '2-3', '--mem', '256M', '--option', 'exec=local')
    check('boot-exec-local', body, lwk=False, prepares=True)
    same('execve-credentials-in-place', [GUEST + '/static/execve-credentials'])
    with only_long('binfmt shows the same promise'):
        same('binfmt-in-place', [GUEST + '/static/binfmt'])

    def holds():
        hanare('shutdown', '--all', '--force', status=None)
        boot('--cpus', '2-3', '--mem', '256M', '--option', 'hold_ms=40')
    with only_long('binfmt has entries that come and go, too'):
        check('boot-that-holds-between-entries', holds, lwk=False, prepares=True)
        same('binfmt-beside-entries-that-come-and-go', [GUEST + '/static/binfmt', 'beside'])


def interpreters():
    """Files that entries of binfmt_misc take. The program registers them, in a mount of its own."""
    program, interpreter = GUEST + '/static/binfmt', PLACE + '/interpreter'
    entries = '/proc/sys/fs/binfmt_misc'
    check('binfmt-misc-is-loaded', lambda: expect(command(['modprobe', 'binfmt_misc']).status == 0, 'modprobe'), lwk=False, prepares=True)
    same('binfmt', [program])

    def script(launch, then):
        """The first program of `hanare run`; its interpreter was opened when the entry was made."""
        return ['unshare', '-m', 'sh', '-c', f"""mount -t binfmt_misc none {entries}; echo >file.hnx; chmod 755 file.hnx
            cp {program} {interpreter}; echo ":hnf:E::hnx::{interpreter}:F" >{entries}/register
            {then}; HN_SHOWS=1 {' '.join(launch)} ./file.hnx one
            status=$?; [ -e {entries}/hnf ] || mount -t binfmt_misc none {entries}; echo -1 >{entries}/hnf; exit $status"""]

    same('binfmt-of-a-first-program', None, both=lambda launch: script(launch, ':'), status=7)

    def not_there(then):
        result = command(script(['hanare', 'run', '--'], then), cwd=PLACE)
        expect(result.status == 126 and b'Exec format error' in result.err, result)
    check('binfmt-fixed-interpreter-of-another-place', lambda: not_there(f'rm {interpreter}'))
    check('binfmt-misc-that-is-not-mounted', lambda: not_there(f'umount {entries}'))


# Soft limits, of each resource lower than at first and higher again; where nothing else is said:
# what nothing depends on.
LIMITS = {resource.RLIMIT_CPU: (1000, 2000), resource.RLIMIT_FSIZE: (4096, 65536), resource.RLIMIT_DATA: (16 << 20, 1 << 30),
          resource.RLIMIT_STACK: (256 << 10, 4 << 20), resource.RLIMIT_NOFILE: (20, 30), resource.RLIMIT_MEMLOCK: (64 << 10, 1 << 20),
          resource.RLIMIT_AS: (48 << 20, 80 << 20), resource.RLIMIT_NICE: (10, 20), resource.RLIMIT_RTPRIO: (10, 20)}
RESOURCES = range(16)
# No more descriptors than that can be asked for (fs.nr_open).
MOST = {resource.RLIMIT_NOFILE: 1 << 20}
LIMITED = f'{GUEST}/static/limits-set-by-others'


def begin_limited(launch, what='', **more):
    process = subprocess.Popen([*launch, LIMITED, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **more)
    if what in ('', 'again', 'compute'):
        expect(process.stdout.readline() == b'ready\n', 'it begins')
    return process


def end_limited(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def changes():
    for one in RESOURCES:
        low, high = LIMITS.get(one, (1000, 2000))
        most = MOST.get(one, resource.RLIM_INFINITY)
        yield from ((one, 'lower', (low, most)), (one, 'raise', (high, most)), (one, 'infinity', (most, most)))


def limited_by_others(launch):
    """What a program has to say of each limit that another process sets, and what that one is told of it then."""
    process = begin_limited(launch)
    try:
        said = {}
        for one, how, limit in changes():
            resource.prlimit(process.pid, one, limit)
            process.stdin.write(b'%d\n' % one)
            said[one, how] = process.stdout.readline(), resource.prlimit(process.pid, one)
        return said
    finally:
        end_limited(process)


def limits():
    """A process that sets limits of a program from Linux sets them for the program, at its next call."""
    lwk = ['hanare', 'run', '--']
    on_both = {}

    def ran():
        on_both.update(linux=limited_by_others([]), lwk=limited_by_others(lwk))

    def by_others():
        ran()
        linux, on_lwk = on_both['linux'], on_both['lwk']
        different = {key: (linux[key][0], on_lwk[key][0]) for key in linux if linux[key][0] != on_lwk[key][0]}
        expect(len(linux) == 48 and not different, f'{different}')

    def seen():
        # Of the address space Linux has another soft limit for the proxy (docs/pseudo-files.md).
        def seen_by_linux(said, one):
            return said[1][1] if one == resource.RLIMIT_AS else said[1]
        # What the check before has found; once more, if that has failed, or was not run.
        if not on_both:
            ran()
        linux, on_lwk = on_both.pop('linux'), on_both.pop('lwk')
        different = {key: (linux[key][1], on_lwk[key][1]) for key in linux
                     if seen_by_linux(linux[key], key[0]) != seen_by_linux(on_lwk[key], key[0])}
        expect(not different, f'{different}')

    def own():
        def of(launch):
            process = begin_limited(launch, 'own')
            try:
                said = [process.stdout.readline() for one in RESOURCES]
                found = [resource.prlimit(process.pid, one) for one in RESOURCES]
                with open(f'/proc/{process.pid}/limits') as file:
                    return said, [found[one] if one != resource.RLIMIT_AS else found[one][1] for one in RESOURCES], file.read()
            finally:
                end_limited(process)
        linux, on_lwk = of([]), of(lwk)
        expect(linux[:2] == on_lwk[:2], f'{linux} {on_lwk}')

    def of_proxy():
        """Stack, address space and descriptors: the proxy has other limits for itself, for a while or all the time."""
        asked = resource.RLIMIT_STACK, resource.RLIMIT_AS, resource.RLIMIT_NOFILE

        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            resource.setrlimit(resource.RLIMIT_AS, (48 << 20, 96 << 20))
            resource.setrlimit(resource.RLIMIT_NOFILE, (20, 4096))

        def of(launch):
            process = begin_limited(launch, 'again', preexec_fn=limit)
            try:
                time.sleep(1.2) # the periodic look has come
                said = []
                for one in asked:
                    process.stdin.write(b'%d\n' % one)
                    said.append(process.stdout.readline())
                return said
            finally:
                end_limited(process)
        linux, on_lwk = of([]), of(lwk)
        expect(linux == on_lwk, f'{linux} {on_lwk}')

    def computing():
        for launch in [], lwk:
            process = begin_limited(launch, 'compute')
            try:
                time.sleep(0.3)
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))
                expect(process.communicate(timeout=TIMEOUT)[0] == b'told\n' and process.returncode == 0, f'{launch}: {process.returncode}')
            finally:
                end_limited(process)

    def profile():
        said = [command([*launch, LIMITED, 'profile']).out for launch in ([], lwk)]
        expect(said[0] == said[1] == b'as many as time 1\nnone of those that sleep 1\n', f'{said}')
    check('limits-that-others-set-bind', by_others)
    check('limits-that-others-set-are-seen-from-linux', seen)
    check('own-limits-are-seen-from-linux', own)
    check('limits-of-the-proxy-are-not-the-programs', of_proxy)
    check('a-limit-of-cpu-time-binds-a-program-without-calls', computing)
    check('a-profile-counts-computing-threads', profile)


start('--cpus', '2-3', '--mem', '256M')
os.makedirs(PLACE, exist_ok=True)
os.chmod(PLACE, 0o755)
unreadable()
identities()
idle_workers()
listings()
interpreters()
by_group()
log()
limits()
in_place()
shutil.rmtree(PLACE)
finish()
