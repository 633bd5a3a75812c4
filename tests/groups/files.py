"""Files: large and direct I/O, shared mappings against Linux, truncation, sqlite3."""

import hashlib
import mmap
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

DISK = '/run/disk'
SHARED = GUEST + '/static/shared-file-mapping'
# MiB of a large file. In `make test` 16: several times what one call moves (dd has 1 MiB), and more
# than the processor's caches hold.
LARGE = 64 if TIER == 'long' else 16


def disk():
    """An ext4 file system, where O_DIRECT works."""
    subprocess.run(f'modprobe loop && modprobe ext4 && mkdir -p {DISK} && truncate -s 600M /run/image '
                   f'&& mkfs.ext4 -q -F /run/image && mount -o loop /run/image {DISK}', shell=True,
                   check=True, capture_output=True)


def big(folder, mib=LARGE):
    """MiB that do not repeat."""
    block = bytes(range(256)) * 4096
    with open(folder + '/big', 'wb') as file:
        for n in range(mib):
            file.write(hashlib.sha512(b'%d' % n).digest() + block[64:])


def some(folder):
    """As much as a program takes that does not take all."""
    big(folder, 4)


def is_mounted(at):
    with open('/proc/self/mounts') as mounts:
        return any(line.split()[1] == at for line in mounts)


def unmount(at):
    """Fails if something still holds files there."""
    if is_mounted(at):
        result = command(['umount', at])
        expect(result.status == 0, f'something still holds files of {at}: {result}')


def copies():
    base = DISK + '/same'
    on_disk = dict(base=base, prepare=big)
    some_on_disk = dict(base=base, prepare=some)
    same('cp-64M', ['cp', 'big', 'copy'], **on_disk)
    same('cat-64M', None, both=lambda launch: ['bash', '-c', ' '.join(launch) + ' cat big > copy'],
         **on_disk)
    same('sha256sum-64M', ['sha256sum', 'big'], **on_disk)
    rate = lambda data: re.sub(rb', .*', b'', data)
    same('dd-bs-1', ['dd', 'if=big', 'of=out', 'bs=1', f'count={20000 if TIER == "long" else 4000}', 'skip=12345'],
         normalise=rate, **some_on_disk)
    same('dd-bs-1M', ['dd', 'if=big', 'of=out', 'bs=1M', 'conv=fsync'], normalise=rate, **on_disk)
    same('dd-direct-out', ['dd', 'if=big', 'of=out', 'bs=1M', 'count=32', 'oflag=direct'],
         normalise=rate, **on_disk)
    same('dd-direct-in', ['dd', 'if=big', 'of=out', 'bs=1M', 'iflag=direct'], normalise=rate,
         **on_disk)
    same('dd-direct-both', ['dd', 'if=big', 'of=out', 'bs=4k', 'count=500', 'iflag=direct',
                            'oflag=direct'], normalise=rate, **some_on_disk)
    same('dd-direct-odd', ['dd', 'if=big', 'of=out', 'bs=1000', 'count=3', 'iflag=direct'],
         normalise=rate, status=1, **some_on_disk)
    same('dd-seek-append', ['dd', 'if=big', 'of=out', 'bs=64k', 'count=3', 'seek=5',
                            'oflag=append', 'conv=notrunc'], normalise=rate, **some_on_disk)
    same('cp-to-full-disk', ['cp', 'big', '/run/small/copy'], status=1, base=base, prepare=small,
         timeout=180)
    same('tail-f-of-growing', None, base=base, both=lambda launch: [
        'bash', '-c', f': > seen; echo one > log; {" ".join(launch)} tail -f log > seen & '
        'until grep -q one seen; do sleep 0.1; done; echo two >> log; until grep -q two seen; do sleep 0.1; done; '
        'kill $!; wait $!; echo $?; cat seen'])
    same('library-pages-on-disk', [GUEST + '/static/library-pages', '.'], status=0, base=base)
    same('private-file-mapping-on-disk', [GUEST + '/static/private-file-mapping'], status=0, base=base)
    same('flock', None, base=base, both=lambda launch: [
        # The lock is held until the program waits for it, which /proc/locks shows by an arrow.
        'bash', '-c', 'flock lock sh -c "touch held; until [ -e tried ] && grep -q -e \'-> FLOCK\' /proc/locks; do sleep 0.1; done" & '
        f'until [ -e held ]; do sleep 0.1; done; {" ".join(launch)} /usr/bin/python3 -c \''
        'import fcntl; f = open("lock")\ntry: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n'
        'except BlockingIOError as e: print(e)\nopen("tried", "w")\n'
        'fcntl.flock(f, fcntl.LOCK_EX); print("mine")\''])


def locked():
    """XFS locks the inode to read(2), which a write(2) has locked that takes bytes from the same file."""
    for kind, make in ('xfs', 'mkfs.xfs -q'), ('overlay', None):
        base = f'/run/{kind}'
        if make:
            script = (f'modprobe {kind} && truncate -s 320M {base}.img && {make} {base}.img && '
                      f'mkdir -p {base} && mount -o loop {base}.img {base}')
        else:
            script = (f'cd /run/xfs && mkdir -p below above work {base} && chmod 755 . && '
                      f'mount -t overlay -o lowerdir=below,upperdir=above,workdir=work none {base}')
        mounted = command(['sh', '-c', f'PATH=$PATH:/usr/sbin:/sbin; {script}'])
        expect(mounted.status == 0, mounted)
        same(f'write-from-own-mapping-{kind}', [GUEST + '/static/write-from-own-mapping'], base=base + '/same')
        with only_long('sha256sum-64M, library-pages-on-disk and private-file-mapping-on-disk show it on ext4'):
            same(f'sha256sum-16M-{kind}', ['sha256sum', 'big'], base=base + '/same', prepare=lambda folder: big(folder, 16))
            same(f'library-pages-on-{kind}', [GUEST + '/static/library-pages', '.'], status=0, base=base + '/same')
            same(f'private-file-mapping-on-{kind}', [GUEST + '/static/private-file-mapping'], status=0, base=base + '/same')
    same('write-from-own-mapping', [GUEST + '/static/write-from-own-mapping'], base=DISK + '/same')


def small(folder):
    """A file that is too large for the file system that is mounted anew at /run/small."""
    big(folder, 20)
    unmount('/run/small')
    subprocess.run('mkdir -p /run/small; mount -t tmpfs -o size=16M none /run/small', shell=True, check=True)


def copied():
    """Programs whose arguments are copied, beside others. Calls whose arguments cannot be copied have them mapped, and
    are counted by name and reason."""
    program = GUEST + '/static/copied-arguments'

    def launch(how):
        return lambda prefix: [*prefix[:-1], '--arguments', how, '--', program] if prefix else [program]

    def counted():
        said = status()['arguments']
        whys = {mapped['why']: mapped['count'] for mapped in said['mapped']}
        return said['copied_calls'], said['copied_in'], said['copied_out'], whys

    before = counted()
    same('copied-arguments-of-a-mapped-program', None, both=launch('mapped'))

    def none():
        result = command([*launch('mapped')(['hanare', 'run', '--'])[:-1], 'cat', program])
        expect(result.status == 0 and counted() == before, f'{before}, then {counted()}')
    if ways['--arguments'] != 'copied':
        check('mapped-arguments-are-not-copied', none)
    same('copied-arguments', None, both=launch('copied'))

    def some():
        if counted() == before:
            command(launch('copied')(['hanare', 'run', '--']), cwd=WORK)
        calls, in_, out, whys = (now - old if isinstance(now, int) else now for now, old in zip(counted(), before))
        expect(calls > 500 and in_ > 64 << 20 and out > 64 << 20, f'{calls} calls, {in_} and {out} bytes')
        for why in 'too large', 'Linux keeps the memory', 'no description':
            expect(whys.get(why), f'{why}: {whys}')
        names = hanare('status').out.decode()
        expect(re.search(r'mapped by name: .*pread64 ', names), names)
    check('copied-arguments-are-counted', some)


class Partner:
    """tests/guest/shared-file-mapping.c on the LWK (or on Linux), line by line."""

    def __init__(self, path, size=32768, lwk=True):
        self.process = subprocess.Popen([*(['hanare', 'run', '--'] if lwk else []), SHARED, path,
                                         str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answer('mapped')

    def answer(self, expected):
        import select
        ready = select.select([self.process.stdout], [], [], TIMEOUT)[0]
        line = os.read(self.process.stdout.fileno(), 500) if ready else b'(nothing)'
        expect(line == expected.encode() + b'\n', f'expected {expected!r}, got {line!r}')

    def tell(self, line, expected):
        self.process.stdin.write(line.encode() + b'\n')
        self.process.stdin.flush()
        try:
            self.answer(expected)
        except Failure as failure:
            raise Failure(f'{line!r}: {failure}')

    def end(self):
        self.tell('q', 'end')
        expect(self.process.wait(TIMEOUT) == 0, f'status {self.process.returncode}')

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        else:
            self.end()
        self.process.wait(TIMEOUT)


def coherence(where):
    path = where + '/coherent'

    def prepared(size=32768):
        with open(path, 'wb') as file:
            file.write(b'.' * size)
        return open(path, 'r+b')

    def mapped():
        """Linux maps it, too: stores appear on both sides without any call."""
        with prepared() as file, mmap.mmap(file.fileno(), 32768) as view, Partner(path) as lwk:
            for n in range(20):
                offset = n * 1500
                lwk.tell(f'w {offset} lwk{n}', 'fine')
                text = b'lwk%d' % n
                expect(view[offset:offset + len(text)] == text, f'{n}: {view[offset:offset + 8]}')
                view[offset + 20:offset + 27] = b'linux%02d' % n
                lwk.tell(f'r {offset + 20} 7', f'linux{n:02}')

    def read_and_write():
        with prepared() as file, Partner(path) as lwk:
            lwk.tell('w 5000 stored', 'fine')
            expect(os.pread(file.fileno(), 6, 5000) == b'stored', 'read() did not see a store')
            os.pwrite(file.fileno(), b'written', 9000)
            lwk.tell('r 9000 7', 'written')
            lwk.tell('r 0 3', '...')
            os.pwrite(file.fileno(), b'new', 0)
            lwk.tell('r 0 3', 'new')

    def written_back():
        """What the LWK stored reaches the file although no Linux process touched it."""
        with prepared(), Partner(path) as lwk:
            os.sync()
            lwk.tell('w 100 early', 'fine')
            lwk.tell('s', '0')
            lwk.tell('w 200 later', 'fine')
            os.sync()
            lwk.tell('w 300 last', 'fine')
        os.sync()
        with open('/proc/sys/vm/drop_caches', 'w') as drop:
            drop.write('3')
        data = open(path, 'rb').read()
        seen = data[100:105], data[200:205], data[300:304]
        expect(seen == (b'early', b'later', b'last'), seen)

    def truncation():
        with prepared() as file, Partner(path) as lwk:
            lwk.tell('r 20000 1', '.')
            os.ftruncate(file.fileno(), 8192)
            lwk.tell('r 20000 1', 'BUS code 2')
            lwk.tell('w 20000 x', 'BUS code 2')
            lwk.tell('r 8000 1', '.')
            os.ftruncate(file.fileno(), 32768)
            lwk.tell('r 20000 1', '')
            lwk.tell('w 20000 grown', 'fine')
            expect(os.pread(file.fileno(), 5, 20000) == b'grown', 'not in the file')
            lwk.tell('t 4096', '0')
            lwk.tell('r 5000 1', 'BUS code 2')

    def two():
        """Two programs on the LWK and one on Linux."""
        with prepared(), Partner(path) as one, Partner(path) as other, \
                Partner(path, lwk=False) as linux:
            one.tell('w 4096 first', 'fine')
            other.tell('r 4096 5', 'first')
            linux.tell('r 4096 5', 'first')
            other.tell('w 4100 second', 'fine')
            linux.tell('w 4110 third', 'fine')
            one.tell('r 4096 19', 'firssecond....third')
            one.tell('u', 'again')
            one.tell('r 4096 19', 'firssecond....third')

    def removed():
        with prepared(), Partner(path) as lwk:
            os.unlink(path)
            lwk.tell('w 0 gone', 'fine')
            lwk.tell('r 0 4', 'gone')
    name = os.path.basename(where) or 'root'
    for body in mapped, read_and_write, written_back, truncation, two, removed:
        check(f'shared-{body.__name__.replace("_", "-")}-{name}', body)


SQL = '''pragma journal_mode=wal;
create table t (a integer primary key, b text, c real);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
insert into t select i, 'row ' || i * 7919 % 1000, i / 3.0 from n;
commit;
create index x on t (b);
select count(*), sum(a), round(sum(c), 3) from t;
select b, count(*) from t group by b order by 2 desc, 1 limit 5;
update t set b = 'changed' where a % 10 = 0;
delete from t where a % 7 = 0;
pragma integrity_check;
select count(*) from t where b = 'changed';
'''


def sqlite():
    same('sqlite3', ['sqlite3', 'db'], stdin=SQL.encode(), base=DISK + '/same')

    def both():
        """One on the LWK, one on Linux, one database in WAL mode, writing in turns."""
        path = DISK + '/both.db'
        for part in '', '-wal', '-shm':
            with contextlib.suppress(FileNotFoundError):
                os.remove(path + part)
        kept = subprocess.Popen(['hanare', 'run', '--', 'sqlite3', path], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)
        import select

        def ask(sql):
            kept.stdin.write(sql.encode() + b'\n')
            kept.stdin.flush()
            expect(select.select([kept.stdout], [], [], TIMEOUT)[0], f'no answer to {sql}')
            return os.read(kept.stdout.fileno(), 1000).decode().strip()
        try:
            expect(ask('pragma journal_mode=wal;') == 'wal', 'no WAL')
            expect(ask("create table t (a); insert into t values (1); select 'made';") == 'made', '')
            for n in range(5):
                linux = command(['sqlite3', path, f'insert into t values ({n}); select count(*) from t'])
                expect(linux.out == b'%d\n' % (2 * n + 2), f'Linux {n}: {linux}')
                lwk = ask(f'insert into t values ({n + 100}); select count(*) from t;')
                expect(lwk == str(2 * n + 3), f'LWK {n}: {lwk}')
            kept.stdin.close()
            expect(kept.wait(TIMEOUT) == 0, f'status {kept.returncode}')
        finally:
            kept.kill()
        result = command(['sqlite3', path, 'pragma integrity_check; select sum(a) from t'])
        expect(result.out == b'ok\n521\n', result)
    check('sqlite3-with-linux', both)


HELLO = GUEST + '/static/hello'
# The LWK takes a file whose last change is so long ago for settled, s (module/space/version.c).
SETTLED = 2


def settled(path):
    """Waits until the LWK takes a file for settled: SETTLED whole seconds have passed since the file's last change."""
    until(lambda: int(time.time()) > int(os.stat(path).st_ctime) + SETTLED, f'{path} does not change')


def is_copy(path):
    with contextlib.suppress(OSError), open(HELLO, 'rb') as one, open(path, 'rb') as other:
        return one.read() == other.read()
    return False


def copied_greeting(path):
    """A copy of the greeting program that nothing has changed since."""
    if not is_copy(path):
        shutil.copy(HELLO, path)
    return path


def greeting(path):
    """What a program says on the LWK."""
    result = command(['hanare', 'run', '--', path])
    expect(result.status == 0, result)
    return result.out


def delegated():
    """Calls and requests that the LWK has asked proxies for so far."""
    return sum(cpu['delegated_calls'] for cpu in status()['cpus'])


def other(path):
    """Makes a copy of the greeting program that says something else, in place: same file, same size."""
    with open(path, 'r+b') as file:
        at = file.read().index(b'hello\0')
        file.seek(at)
        file.write(b'HELLO')


def kept_programs():
    """What programs hold stays on the LWK when they have ended, as long as it is what their files hold."""
    path, new = DISK + '/greeting', DISK + '/greeting.new'
    at, images = '/run/twin', ('/run/twin.0', '/run/twin.1')

    def read_once():
        settled(copied_greeting(path))
        lwk_memory_is(None)
        free, asked = debug_memory()[0], [delegated()]
        for _ in range(2):
            expect(greeting(path) == b'hello\n', 'it says something else')
            asked.append(delegated())
        first, second, *_ = (b - a for a, b in zip(asked, asked[1:]))
        expect(second < first, f'{first} requests for the first run, {second} for the second one: nothing is kept')
        lwk_memory_is(free)

    def changed():
        settled(copied_greeting(path))
        expect(greeting(path) == b'hello\n', 'before')
        other(path)  # allowed: it does not run
        expect(greeting(path) == b'HELLO\n', 'just after the change')
        settled(path)
        expect(greeting(path) == b'HELLO\n', 'some time after the change')
        expect(greeting(path) == b'HELLO\n', 'and again')

    def replaced():
        if not os.path.exists(path) or is_copy(path):
            other(copied_greeting(path))
        settled(path)
        settled(copied_greeting(new))
        expect(greeting(path) == b'HELLO\n', 'before')
        os.rename(new, path)
        expect(greeting(path) == b'hello\n', 'after a rename')

    def make_twins():
        unmount(at)
        os.makedirs(at, exist_ok=True)
        steps = (f'truncate -s 8M {images[0]} && mkfs.ext4 -q -F {images[0]} && mount -o loop {images[0]} {at} '
                 f'&& cp {HELLO} {at}/greeting && umount {at} && cp {images[0]} {images[1]}')
        expect(command(['sh', '-c', steps]).status == 0, steps)
        other(images[1])

    def remounted():
        """Two file systems that have device, inode number, size and times in common."""
        if not os.path.exists(images[1]) or is_mounted(at):
            make_twins()
        # The program in the images is older than they are.
        settled(images[1])
        for image, text in zip(images * 2, (b'hello\n', b'HELLO\n') * 2):
            # The same loop device each time: there is no other one then.
            expect(command(['mount', '-o', 'loop,noatime', image, at]).status == 0, image)
            said = [greeting(at + '/greeting') for _ in range(2)]
            gone = command(['umount', at])
            expect(said == [text] * 2, f'{image}: {said}')
            expect(gone.status == 0, gone)

    # All at once now, so that each has settled once it is looked at.
    make_twins()
    copied_greeting(path)
    copied_greeting(new)
    for body in read_once, changed, replaced, remounted:
        check(f'kept-program-{body.__name__.replace("_", "-")}', body)


def clean_up():
    """Leaves the machine as it was."""
    for at in '/run/small', '/run/twin', '/run/overlay', '/run/xfs', DISK:
        if is_mounted(at):
            command(['umount', '-l', at])
        shutil.rmtree(at, ignore_errors=True)
    for image in '/run/twin.0', '/run/twin.1', '/run/xfs.img', '/run/image':
        with contextlib.suppress(FileNotFoundError):
            os.remove(image)
    shutil.rmtree('/dev/shm/memory')
    shutil.rmtree('/run/mount', ignore_errors=True)  # mount(8) makes it
    command(['sh', '-c', 'PATH=$PATH:/usr/sbin:/sbin; modprobe -r xfs'])  # it has values in /proc/sys


def umount():
    subprocess.run(['sync'])
    for at in '/run/overlay', '/run/xfs', DISK:
        unmount(at)
    checked = command(['e2fsck', '-fn', '/run/image'])
    expect(checked.status == 0, checked)


start(*BOOT)
disk()
copies()
kept_programs()
os.makedirs('/dev/shm/memory')
coherence(DISK)
coherence('/dev/shm/memory')
sqlite()
locked()
copied()
check('no-file-is-held', umount)
check('memory-free-again', nothing_left)
clean_up()
finish()
