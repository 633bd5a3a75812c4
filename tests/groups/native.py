"""Native tasks: the demonstrators (native/examples) on Linux, and by `hanare native`: the same output, status and files.

With TESTS_NATIVE=linux they run on Linux only: they have to do there what is expected, and no LWK is needed.
"""

import errno
import os
import select
import socket
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

ON_LWK = os.environ.get('TESTS_NATIVE') != 'linux'
# How a program is launched.
SIDES = {'linux': [], **({'native': ['hanare', 'native', '--pool', '2']} if ON_LWK else {})}
PROGRAMS = WORK + '/native'
BASE = WORK + '/same'
FULL = WORK + '/full'
# Of the programs: permissions are copied all the same.
UMASK = 0o077
COPIES, LISTS = ('copy', 'copy-c'), ('list', 'list-c')
# The library for C is one for Rust's with other names: what is looked at in `make test` of what is
# written in C.
IN_C = {'copy-c-long-file', 'copy-c-sparse-file', 'copy-c-no-such-file', 'copy-c-to-a-full-disk', 'list-c-all-kinds', 'list-c-full-stdout'}


def program(name):
    return f'{PROGRAMS}/{name}'


def error(name, number):
    """How an error is told: by text and name in Rust, by number in C."""
    if name.endswith('-c'):
        return f': error {number}\n'
    return f': {os.strerror(number)} ({errno.errorcode[number]})\n'


def kept(name, body):
    if re.match('(copy|list)-c-', name) and name not in IN_C:
        with only_long(f'{name.replace("-c-", "-", 1)} shows it in Rust, and {" ".join(sorted(IN_C))} show calls from C'):
            check(name, body, lwk=ON_LWK)
    else:
        check(name, body, lwk=ON_LWK)


def sides(name, argv, prepare=None, status=0, out=None, err=None, left=None, prefix=(), env=None, folder=BASE, output=None):
    """Runs a program on each side. Its output and files have to be the expected ones, and the same on both. `err`: the
    end of its stderr, behind its name. `left(folder)` looks at the files. `output()` is a descriptor in place of
    stdout."""
    def body():
        seen = {}
        for side, launch in SIDES.items():
            if folder == BASE:
                fresh(folder, prepare)
            else:
                empty(folder)
                prepare(folder)
            argv_full = [*prefix, *launch, program(argv[0]), *argv[1:]]
            environment = dict(os.environ, LC_ALL='C', **(env or {}))
            if output:
                result = into(output(), argv_full, folder, environment)
            else:
                result = command(argv_full, cwd=folder, env=environment, umask=UMASK)
            expect(not result.late and result.status == status, f'on {side}: {result}, not status {status}')
            wanted = out(folder) if callable(out) else out or b''
            expect(result.out == wanted, f'on {side}: stdout: {difference(wanted, result.out)}')
            said = result.err.decode(errors='backslashreplace')
            expect(said.startswith(argv[0] + ': ') and said.endswith(err) if err else not said, f'on {side}: stderr: {said!r}')
            expect(said.count('\n') == bool(err), f'on {side}: stderr has more lines: {said!r}')
            if left:
                left(folder)
            seen[side] = (result.err, tree(folder))
        for what, one, other in zip(('stderr', 'files'), seen['linux'], seen.get('native', seen['linux'])):
            expect(one == other, f'{what}: {difference(one, other)}')
    kept(name, body)


def into(fd, argv, folder, environment):
    """A command whose stdout is a descriptor, which is closed."""
    try:
        found = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=fd, stderr=subprocess.PIPE, cwd=folder, env=environment,
                               timeout=TIMEOUT)
    finally:
        os.close(fd)
    return Result(found.returncode, b'', found.stderr)


def empty(folder):
    for name in os.listdir(folder):
        os.remove(f'{folder}/{name}')


def unread():
    """A pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full_device():
    return os.open('/dev/full', os.O_WRONLY)


def written(content, mode=0o644, name='from'):
    """Makes a file."""
    def prepare(folder):
        path = f'{folder}/{name}'
        with open(path, 'wb') as file:
            file.write(content)
        os.chmod(path, mode)
    return prepare


def sparse(folder):
    with open(folder + '/from', 'wb') as file:
        for offset in 0, 5 << 20, (7 << 20) + 12345:
            file.seek(offset)
            file.write(b'data at %d' % offset)
        file.truncate(9 << 20)


def is_copied(folder):
    one, other = os.stat(folder + '/from'), os.stat(folder + '/to')
    expect(one.st_mode == other.st_mode, f'mode {one.st_mode:o}, of the copy {other.st_mode:o}')
    with open(folder + '/from', 'rb') as source, open(folder + '/to', 'rb') as target:
        expect(source.read() == target.read(), 'the copy holds something else')


def copies():
    long = bytes(range(251)) * ((4 << 20) // 251 + 1)
    contents = {
        'empty-file': written(b''), 'one-byte': written(b'x'), 'long-file': written(long[:(4 << 20) + 1]), 'sparse-file': sparse,
        'one-buffer': written(long[:256 << 10]), 'no-permissions': written(b'secret', 0),
        'set-user-id': written(b'x', 0o4751), 'for-reading': written(b'x', 0o444), 'for-everybody': written(b'x', 0o666),
    }
    for name in COPIES:
        for what, prepare in contents.items():
            sides(f'{name}-{what}', [name, 'from', 'to'], prepare, left=is_copied)

        def longer(folder):
            written(b'short', 0o600)(folder)
            written(long[:10000], 0o640, 'to')(folder)
        sides(f'{name}-onto-a-longer-file', [name, 'from', 'to'], longer, left=is_copied)

        def linked(folder):
            written(b'through')(folder)
            os.symlink('to', folder + '/link')
        sides(f'{name}-through-a-link', [name, 'from', 'link'], linked, left=is_copied)
        copy_errors(name)


def copy_errors(name):
    def folders(folder):
        written(b'x')(folder)
        os.mkdir(folder + '/folder')

    def nothing(folder):
        expect(not os.path.exists(folder + '/to'), 'there is a copy')

    def kept_content(folder):
        with open(folder + '/from') as file:
            expect(file.read() == 'x', 'it holds something else')

    def secret(folder):
        written(b'x', 0o600)(folder)
        os.chmod(folder, 0o777)

    sides(f'{name}-no-such-file', [name, 'none', 'to'], folders, 1, err=f"cannot open 'none'{error(name, errno.ENOENT)}", left=nothing)
    sides(f'{name}-of-a-directory', [name, 'folder', 'to'], folders, 1, left=nothing,
          err="cannot copy a directory: 'folder'\n" if name.endswith('-c') else "'folder' is a directory\n")
    sides(f'{name}-onto-a-directory', [name, 'from', 'folder'], folders, 1, err=f"cannot create 'folder'{error(name, errno.EISDIR)}")
    sides(f'{name}-into-no-directory', [name, 'from', 'none/to'], folders, 1, err=f"cannot create 'none/to'{error(name, errno.ENOENT)}")
    sides(f'{name}-onto-itself', [name, 'from', './from'], folders, 1, left=kept_content,
          err="this is the same file: './from'\n" if name.endswith('-c') else "'from' and './from' are the same file\n")
    sides(f'{name}-no-permission', [name, 'from', 'to'], secret, 1, err=f"cannot open 'from'{error(name, errno.EACCES)}",
          prefix=NOBODY, left=nothing)
    sides(f'{name}-no-permission-to-write', [name, '/etc/hostname', 'to'], folders, 1, prefix=NOBODY, left=nothing,
          err=f"cannot create 'to'{error(name, errno.EACCES)}")

    def ends_full(folder):
        expect(os.statvfs(folder).f_bavail == 0, 'there is room left')
    sides(f'{name}-to-a-full-disk', [name, 'from', 'to'], written(b'x' * (700 << 10)), 1, folder=FULL, left=ends_full,
          err=f"cannot write 'to'{error(name, errno.ENOSPC)}")
    for label, arguments in ('no-arguments', []), ('one-argument', ['from']), ('three-arguments', ['from', 'to', 'more']):
        sides(f'{name}-{label}', [name, *arguments], folders, 2, err=f'usage: {name} FROM TO\n', left=nothing)


KINDS = {stat.S_IFREG: 'file', stat.S_IFDIR: 'directory', stat.S_IFLNK: 'link', stat.S_IFIFO: 'pipe', stat.S_IFSOCK: 'socket',
         stat.S_IFBLK: 'block', stat.S_IFCHR: 'character'}


def lines(folder):
    """What is to be listed of a folder."""
    folder, text = os.fsencode(folder), b''
    for name in sorted(os.listdir(folder)):
        status = os.lstat(folder + b'/' + name)
        text += b'%-9s %12d %s\n' % (KINDS[stat.S_IFMT(status.st_mode)].encode(), status.st_size, name)
    return text


def all_kinds(folder):
    written(b'x' * 1234567, name='file')(folder)
    written(b'', name='.hidden')(folder)
    written(b'', name='naïve')(folder)
    written(b'', name=os.fsdecode(b'not utf-8 \xff'))(folder)
    written(b'', name='x' * 255)(folder)
    os.mkdir(folder + '/directory')
    os.symlink('nowhere', folder + '/link')
    os.mkfifo(folder + '/pipe')
    os.mknod(folder + '/null', stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.mknod(folder + '/loop', stat.S_IFBLK | 0o600, os.makedev(7, 0))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(folder + '/socket')


def many(folder):
    # 500 longer names are more than the 32 KiB that one call returns, too.
    count, longest = (3000, 50) if TIER == 'long' else (500, 100)
    for number in range(count):
        open(f'{folder}/{number * 7919 % count}-{"n" * (number % longest)}', 'w').close()


def lists():
    for name in LISTS:
        sides(f'{name}-all-kinds', [name], all_kinds, out=lines)
        sides(f'{name}-by-path', [name, BASE], all_kinds, out=lines)
        sides(f'{name}-empty-directory', [name, '.'], out=b'')
        sides(f'{name}-many-files', [name], many, out=lines)
        sides(f'{name}-no-such-directory', [name, 'none'], status=1, err=f"cannot open 'none'{error(name, errno.ENOENT)}")
        sides(f'{name}-of-a-file', [name, 'from'], written(b''), 1, err=f"cannot open 'from'{error(name, errno.ENOTDIR)}")
        sides(f'{name}-no-permission', [name, 'secret'], lambda folder: os.mkdir(folder + '/secret', 0o700), 1, prefix=NOBODY,
              err=f"cannot open 'secret'{error(name, errno.EACCES)}")
        sides(f'{name}-two-arguments', [name, '.', '.'], status=2, err=f'usage: {name} [DIRECTORY]\n')
        sides(f'{name}-closed-stdout', [name], all_kinds, 1, output=unread,
              err=f'cannot write to standard output{error(name, errno.EPIPE)}')
        sides(f'{name}-full-stdout', [name], all_kinds, 1, output=full_device,
              err=f'cannot write to standard output{error(name, errno.ENOSPC)}')


class Server:
    """An echo server, and the port that it says."""

    def __init__(self, launch, connections):
        self.process = subprocess.Popen([*launch, program('echo-server'), '127.0.0.1:0', str(connections)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def address(self):
        ready = select.select([self.process.stdout], [], [], TIMEOUT)[0]
        said = os.read(self.process.stdout.fileno(), 500) if ready else b'(nothing)'
        match = re.fullmatch(rb'listening at (127\.0\.0\.1:[1-9]\d*)\n', said)
        expect(match, f'the server says {said}')
        return match[1].decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(TIMEOUT)

    def ends(self, said):
        out, err = self.process.communicate(timeout=TIMEOUT)
        expect((self.process.returncode, out, err) == (0, said, b''), f'the server: {self.process.returncode}, {out}, {err}')


def talks(server_side, client_side):
    """Connections of nothing, of one byte, of more than one piece, one after the other."""
    def body():
        sizes = 0, 1, 16384, (1 << 20) + 3
        with Server(SIDES[server_side], len(sizes)) as server:
            address = server.address()
            for size in sizes:
                result = command([*SIDES[client_side], program('echo-client-c'), address, str(size)])
                wanted = b'%d bytes came back\n' % size
                expect((result.status, result.out, result.err) == (0, wanted, b''), f'the client, of {size} bytes: {result}')
            server.ends(b'%d connections, %d bytes\n' % (len(sizes), sum(sizes)))
    kept(f'echo-client-on-{client_side}-of-server-on-{server_side}', body)


def answered(reply):
    """A server that answers one connection by a function of what it has received; its address."""
    listener = socket.create_server(('127.0.0.1', 0))
    listener.settimeout(TIMEOUT)

    def serve():
        with listener, listener.accept()[0] as connection:
            connection.sendall(reply(connection.recv(1000)))
    threading.Thread(target=serve, daemon=True).start()
    return '127.0.0.1:%d' % listener.getsockname()[1]


def client_errors():
    def client(address, size, status, err):
        for side, launch in SIDES.items():
            at = address() if callable(address) else address
            result = command([*launch, program('echo-client-c'), at, str(size)])
            wanted = f'echo-client-c: {err.replace("WHERE", at)}'.encode()
            expect((result.status, result.out, result.err) == (status, b'', wanted), f'on {side}: {result}, not {wanted}')

    def refused():
        with socket.create_server(('127.0.0.1', 0)) as gone:
            port = gone.getsockname()[1]
        client(f'127.0.0.1:{port}', 1, 1, "cannot connect to 'WHERE': error 111\n")

    def other():
        client(lambda: answered(lambda said: said[:5] + b'!' + said[6:]), 10, 1, "something else came back from 'WHERE'\n")

    def less():
        client(lambda: answered(lambda said: said[:5]), 10, 1, "too little came back from 'WHERE'\n")

    def more():
        client(lambda: answered(lambda said: said + b'!'), 10, 1, "too much came back from 'WHERE'\n")

    def usage():
        for address, size in ('127.0.0.1', 1), ('127.0.0.1:65536', 1), ('127.0.0.256:1', 1), ('127.0.0.1:1', 'x'), ('::1', ''):
            client(address, size, 2, 'usage: echo-client-c ADDRESS:PORT BYTES\n')
    for body in refused, other, less, more, usage:
        kept(f'echo-client-{body.__name__}', body)


def server_errors():
    def server(arguments, status, err):
        for side, launch in SIDES.items():
            result = command([*launch, program('echo-server'), *arguments])
            wanted = f'echo-server: {err}'.encode()
            expect((result.status, result.out, result.err) == (status, b'', wanted), f'on {side}: {result}, not {wanted}')

    def taken():
        with socket.create_server(('127.0.0.1', 0)) as there:
            address = '127.0.0.1:%d' % there.getsockname()[1]
            server([address, '1'], 1, f'cannot listen at {address}{error("", errno.EADDRINUSE)}')

    def foreign():
        server(['192.0.2.1:0', '1'], 1, f'cannot listen at 192.0.2.1:0{error("", errno.EADDRNOTAVAIL)}')

    def usage():
        for arguments in [], ['127.0.0.1:0'], ['127.0.0.1', '1'], ['127.0.0.1:0', '-1'], ['127.0.0.1:0', '1', '1']:
            server(arguments, 2, 'usage: echo-server ADDRESS:PORT CONNECTIONS\n')
    for body in taken, foreign, usage:
        kept(f'echo-server-{body.__name__}', body)


def place_of(word):
    """Where a word stands in the source of the self-test, as a panic says it."""
    with open(ROOT + '/native/tests/selftest.rs') as source:
        for number, line in enumerate(source, 1):
            if word in line:
                return f'tests/selftest.rs:{number}:{line.index(word) + 1}'
    raise Failure(f'there is no {word}')


def prepare_programs():
    """Own copies: others may be building."""
    shutil.copytree(ROOT + '/build/native', PROGRAMS, dirs_exist_ok=True)
    os.makedirs(FULL, exist_ok=True)
    subprocess.run(['mount', '-n', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', FULL], check=True)


def main():
    start(*(BOOT if ON_LWK else []))
    prepare_programs()
    sides('selftest', ['selftest'], env={'SELFTEST': 'a=b'}, out=b'all of it holds: EOPNOTSUPP\n')
    sides('panic-prints-its-place', ['selftest', 'panic'], status=101, err=f'panicked at {place_of("panic!(")}: as it was told\n')
    copies()
    lists()
    talks('linux', 'native')
    talks('native', 'linux')
    talks('native', 'native')
    with only_long('Linux is what the others are compared with'):
        talks('linux', 'linux')
    client_errors()
    server_errors()
    subprocess.run(['umount', '-n', FULL], check=True)
    if ON_LWK:
        kept('memory-free-again', nothing_left)
    finish()


main()
