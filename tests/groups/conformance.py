"""The same unmodified programs on Linux and on the LWK, compared, with each way for delegated calls.

With TESTS_DISPATCH or TESTS_ARGUMENTS set, with that way only. `make test` runs all programs by the first way, and by each
other one those of IN_EACH_WAY."""

import functools
import os
import re
import shlex
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
import harness
from harness import *

BUSYBOX = '/usr/bin/busybox'
PYTHON = '/usr/bin/python3'

TEXT = b''.join(b'%d line %s of the text, with words: alpha beta %s\n'
                % (n, b'xyz'[n % 3:n % 3 + 1], b'gamma' if n % 5 else b'delta')
                for n in range(200))
SECOND = TEXT.replace(b'line z', b'line Z').replace(b'delta', b'epsilon')


def material(folder):
    """Files that many of the programs work on."""
    def put(name, data):
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(data)
    put('text', TEXT)
    put('other', SECOND)
    put('numbers', b'\n'.join(b'%d' % (n * 7919 % 1000) for n in range(300)) + b'\n')
    put('binary', bytes(n * n % 251 for n in range(5000)))
    put('table', b'a:1:x\nb:2:y\nc:3:z\n')
    os.makedirs(folder + '/sub/deep')
    put('sub/one', b'one\n')
    put('sub/deep/two', b'two\n')
    os.symlink('one', folder + '/sub/link')
    for path, names, files in os.walk(folder):
        for name in names + files:
            os.utime(os.path.join(path, name), (1e9, 1e9), follow_symlinks=False)
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o755 if name in names else 0o644)
    os.utime(folder, (1e9, 1e9))  # shown by `ls -la sub`, as that of ..


# Command line; what it reads; its status on Linux if that is not 0; `fork`: a second line of the
# same applet, in which it starts a process.
APPLETS = r'''
arch
ash -c 'i=0; while [ $i -lt 50 ]; do i=$((i+1)); done; echo $i; cd sub; pwd > where; exit 3' ;; status 3
ash -c 'cat text | wc -l; echo $(pwd)' ;; fork
awk -F: '{ s += $2; print $3, s }' table
base64 binary
basename /a/b/c.txt .txt
bc -l ;; stdin 2^100; 355/113; s(1)
cal 2 2024
cat text other
chgrp 7 text
chmod 600 text other
chown 5:6 text
clear
cmp text other ;; status 1
cp -a sub copied
cut -d: -f1,3 table
date -u -d @1000000000
dc -e '2 64^p'
dd if=binary of=out bs=7 count=100 conv=notrunc
df -P /proc
diff text other ;; status 1
dirname /a/b/c.txt
dos2unix text
du -a sub
echo -e a\tb\n
egrep 'delta|line z' text
env -i A=1 B=2
expand -t 4 text
expr 6 '*' 7
factor 1234567890123 97 360
false ;; status 1
fgrep -c delta text
find . -name 't*' -type f
fold -w 20 text
getopt -o ab: -- -a -b x y
grep -n -B1 epsilon other
groups
gunzip -c text.gz ;; status 1
gzip -c text
head -c 1000 binary
hexdump -C binary
hostname
id
ipcalc -bnm 10.1.2.3/20
link text linked
ln -s text symbolic
ls -la sub
md5sum text other binary
mkdir -p a/b/c
mkfifo pipe
mv text moved
nl text
nproc
od -A x -t x1 binary
paste text other
pidof no-such-process ;; status 1
printf '%s-%05d-%x\n' word 42 255
pwd
readlink sub/link
realpath sub/../text
rev text
rm -r sub
rmdir sub ;; status 1
sed -n -e 's/line \(.\)/\1\1/p' -e '5q' text
seq 1 3 100
sha1sum text binary
sha256sum text binary
sha512sum text binary
shred -n 1 -u other
shuf -i 1-1
sleep 0.1
sort -n numbers
bzip2 -c text
unix2dos text
stat -c '%n %s %f %u %g %h' text sub
strings binary
sync
tac text
tail -n 5 text
tar cf archive.tar sub
tee copy ;; stdin something
test -d sub
touch -d @5 new text
tr a-z A-Z ;; stdin mixed Case
true
truncate -s 12345 text
tty ;; status 1
uname -a
unexpand -a text
uniq -c numbers
unlink text
usleep 1000
uuencode text name
wc text other binary
which sh
whoami
xargs -n 100000 echo ;; stdin one two three ;; fork
xxd binary
'''

# Programs that compute. What they ask of Linux is what every other program asks: to start, to read
# its input, to write its output, to end. So they are run with the first way only.
COMPUTING = {*(f'busybox-{name}' for name in ('bc', 'cal', 'dc', 'expr', 'factor', 'ipcalc', 'printf', 'seq')),
             'sort', 'openssl-speed', 'python-decimal', 'python-exception', 'python-float'}
# Programs that `make test` runs by each way: a shell that forks, names in folders, small and large
# reads and writes, errors, a rename, a script, pipes between programs and one that breaks, sockets,
# files mapped shared and locked, signals, threads.
IN_EACH_WAY = {'busybox-ash-fork', 'busybox-dd', 'busybox-find', 'cat-missing', 'xz-d', 'sed-in-place', 'script', 'pipe-of-three',
               'broken-pipe', 'python-socket', 'python-sqlite3', 'python-signal', 'python-thread'}
is_first_way = True


def same(name, *arguments, **more):
    if is_first_way or name in IN_EACH_WAY:
        harness.same(name, *arguments, **more)
    elif name not in COMPUTING:
        with only_long('it runs by the first way, and by this one those of IN_EACH_WAY do'):
            harness.same(name, *arguments, **more)


def applets():
    for line in APPLETS.strip().splitlines():
        text, *notes = line.split(' ;; ')
        argv = shlex.split(text)
        stdin, expected, fork = b'', 0, False
        for note in notes:
            if note.startswith('stdin '):
                stdin = note[6:].replace('; ', '\n').encode() + b'\n'
            elif note.startswith('status '):
                expected = None if note == 'status any' else int(note.split()[1])
            elif note == 'fork':
                fork = True
        name = 'busybox-' + argv[0] + ('-fork' if fork else '')
        same(name, [BUSYBOX, *argv], stdin=stdin, status=expected, prepare=material)


def arithmetic_of_numbers(data):
    """Numbers away: for output whose form counts and not its values."""
    return re.sub(rb'[0-9]+(\.[0-9]+)?', b'N', data)


def programs():
    same('true', ['/bin/true'])
    same('false', ['/bin/false'], status=1)
    # A part of it: each file that Linux, too, sees for the first time takes 5 ms. `make test` lists
    # some hundred names in folders of folders.
    same('ls-usr-share-doc', ['sh', '-c', f'exec ls -lR /usr/share/doc/[a-{"k" if TIER == "long" else "b"}]*'])
    folders = ['/usr/lib/python3', '/usr/lib/python3.11']
    same('find', ['find', *(folders if TIER == 'long' else [f'{folders[1]}/encodings', f'{folders[1]}/email']), '-name', '*.py'])
    same('cat', ['cat', 'text', '-', 'binary'], stdin=b'from standard input\n', prepare=material)
    same('cat-missing', ['cat', '/nonexistent', 'text'], prepare=material, status=1)
    same('sort', ['sort', '--parallel=1', 'numbers'], prepare=many_numbers)
    same('sort-numeric-unique', ['sort', '-n', '-u', 'numbers'], prepare=material)
    same('awk', ['gawk', '{ n[$3]++; s += $1 } END { for (k in n) print k, n[k]; print s }', 'text'],
         prepare=material)
    same('mawk', ['mawk', '{ print length($0), $1 * 2 }', 'text'], prepare=material,
         skip=None if os.path.exists('/usr/bin/mawk') else 'no mawk')
    same('sed', ['sed', '-E', r's/([a-z]+) ([a-z]+)/\2 \1/g; 3,5d', 'text'], prepare=material)
    same('sed-in-place', ['sed', '-i.bak', 's/line/LINE/', 'text'], prepare=material)
    same('grep-r', ['grep', '-rn', 'MIT', '/usr/share/doc/python3.11', '/usr/share/perl5/Debconf'],
         status=None)
    same('gzip', ['gzip', '-nk', 'text', 'binary'], prepare=material)
    same('gzip-d', ['gzip', '-dc'], stdin=__import__('gzip').compress(TEXT * 50, mtime=0))
    same('xz', ['xz', '-T1', '-k', 'text', 'binary'], prepare=material)
    same('xz-d', ['xz', '-T1', '-dc'], stdin=__import__('lzma').compress(TEXT * 50))
    same('sha256sum', ['sha256sum', 'text', 'binary'], prepare=material)
    # One length of six: each takes a second of the machine's time, ended by the same signal.
    same('openssl-speed', ['openssl', 'speed', '-seconds', '1', '-bytes', '1024', 'sha256'],
         normalise=lambda data: re.sub(rb' +', b' ', arithmetic_of_numbers(data)))
    same('openssl-digest', ['openssl', 'dgst', '-sha3-256', 'text'], prepare=material)
    same('perl', ['perl', '-e', r'''
        use strict; my %h; while (<STDIN>) { $h{$_}++ for split }
        print "$_ $h{$_}\n" for sort keys %h;
        my $s = pack("NnC*", 1, 2, 3 .. 9); print unpack("H*", $s), "\n";
        eval { die "caught\n" }; print $@; exit 3'''], stdin=TEXT, status=3)
    same('env-and-arguments', ['/usr/bin/printenv'], env={'HANARE_TEST': 'a b=c\nd'},
         normalise=lambda data: b'\n'.join(line for line in data.split(b'\n')
                                           if not line.startswith(b'_=')))
    same('script', ['./script', 'one', 'two words'], prepare=script)
    same('script-of-script', ['./outer'], prepare=script)
    same('rust-static', [GUEST + '/rust-static', 'an argument'], stdin=TEXT, status=7,
         normalise=lambda data: re.sub(rb"'main' \(\d+\)", b"'main'", data))
    same('go-static', [GUEST + '/go-static'], status=5,
         skip=None if os.path.exists(GUEST + '/go-static') else 'no Go compiler on this machine')
    same('fork', [PYTHON, '-c', 'import os; pid = os.fork(); pid or os._exit(3);'
                  'print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))'])


@functools.cache
def numbers():
    """A million of them, 10 MiB; in `make test` a tenth: sort has one buffer for all of them in either case."""
    value, lines = 12345, []
    for _ in range(1000000 if TIER == 'long' else 100000):
        value = value * 1103515245 + 12345 & 0x7fffffff
        lines.append(b'%d' % value)
    return b'\n'.join(lines) + b'\n'


def many_numbers(folder):
    with open(folder + '/numbers', 'wb') as file:
        file.write(numbers())


def script(folder):
    for name, text in ('script', '#!/usr/bin/perl -w\nprint join("|", $0, @ARGV), "\\n";\n'), \
            ('outer', '#!./script first\n'):
        with open(f'{folder}/{name}', 'w') as file:
            file.write(text)
        os.chmod(f'{folder}/{name}', 0o755)


def pipes():
    """Programs on both sides of a Linux pipe; redirections made by a shell."""
    def shell(text):
        return lambda launch: ['bash', '-c', text.replace('@', ' '.join(launch))]
    same('tar-pipe', None, both=shell('@ tar c -b 20 --sort=name /usr/share/perl5/Debconf 2>/dev/null | @ tar tv'))
    same('pipe-of-three', None, prepare=material,
         both=shell('@ cat text other | @ sort -r | @ tail -n 7'))
    same('broken-pipe', None, both=shell('@ yes | head -n 3; echo ${PIPESTATUS[*]}'))
    same('append-and-duplicate', None, prepare=material,
         both=shell('@ echo more >> text; @ cat nothing text > both 2>&1; @ cat < text | wc -l'))
    same('closed-stdout', None, both=shell('@ /usr/bin/echo text >&-; echo $?'))
    same('extra-descriptor', None, prepare=material,
         both=shell('exec 7< text; @ perl -e \'open F, "<&=7"; print scalar <F>\'; head -n 1 <&7'))


def sockets():
    """Clients on the LWK, servers on Linux, over the loopback device."""
    listener = socket.create_server(('127.0.0.1', 0))
    port = listener.getsockname()[1]

    def serve():
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile('rwb') as file:
                while line := file.readline():
                    file.write(b'you said: ' + line)
                    file.flush()
    threading.Thread(target=serve, daemon=True).start()
    same('perl-socket', ['perl', '-e', r'''
        use strict; use IO::Socket::INET; use IO::Select;
        my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $ARGV[0]) or die "no: $!";
        for my $n (1 .. 20) { print $s "message $n\n"; print scalar <$s>; }
        print "ready: ", scalar(IO::Select->new($s)->can_read(0.2)) ? 1 : 0, "\n";
        $s->shutdown(1); print "end: ", defined(<$s>) ? 0 : 1, "\n";
        my $t = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => 1);
        print "refused: ", $t ? 0 : "$!", "\n";''', str(port)])
    same('python-socket', [PYTHON, '-c', r'''
import select, socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
for n in range(20):
    s.sendall(b'number %d\n' % n)
    print(select.select([s], [], [], 20)[0] == [s], s.recv(100))
s.settimeout(0.2)
try:
    s.recv(1)
except TimeoutError as error:
    print(error)
a, b = socket.socketpair()
a.send(b'across'); print(b.recv(10))
u = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); u.bind('socket'); u.close()
p = select.poll(); p.register(a, select.POLLIN | select.POLLOUT); print([e for _, e in p.poll()])
e = select.epoll(); e.register(b, select.EPOLLOUT); print([x for _, x in e.poll()])
''', str(port)])


def python():
    cases = {
        'hello': 'print("hello", 6 * 7)',
        'json': 'import json; d = json.loads("[1, 2.5, {\\"a\\": null}]"); print(json.dumps(d * 300))',
        'sqlite3': '''
import sqlite3
db = sqlite3.connect('db')
db.execute('pragma journal_mode=wal')
db.execute('create table t (a integer primary key, b text)')
db.executemany('insert into t (b) values (?)', (('x' * (n % 50),) for n in range(3000)))
db.commit()
print(db.execute('select count(*), sum(length(b)) from t where a % 7 = 3').fetchall())
db.close()''',
        'mmap': '''
import mmap
with open('data', 'w+b') as f:
    f.truncate(100000)
    m = mmap.mmap(f.fileno(), 100000)
    m[5000:5005] = b'hello'; m[99999] = 65
    f.seek(5000); print(f.read(5)); f.seek(99999); f.write(b'B'); f.flush(); print(m[99999])
    m.flush(); print(m.find(b'hello')); m.close()
a = mmap.mmap(-1, 1 << 22); a[1 << 21] = 7; print(sum(a[:1 << 21]), a[1 << 21])''',
        'ssl': '''
import ssl
c = ssl.create_default_context(); print(ssl.OPENSSL_VERSION, c.verify_mode)
i, o = ssl.MemoryBIO(), ssl.MemoryBIO(); s = c.wrap_bio(i, o, server_hostname='x')
try: s.do_handshake()
except ssl.SSLWantReadError: print(len(o.read()) > 100)''',
        'decimal': '''
from decimal import *
getcontext().prec = 200; print(Decimal(2).sqrt()); print(sum(1 / Decimal(n) for n in range(1, 500)))''',
        'select': '''
import select, os, time
r, w = os.pipe(); print(select.select([r], [w], [], 1)[1] == [w], select.select([r], [], [], 0.1))
os.write(w, b'x'); print(select.select([r], [], [], 5)[0] == [r])''',
        'exception': 'def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError as e: print(e)\n1 / 0',
        'exit-status': 'import sys; print("out"); print("err", file=sys.stderr); sys.exit(42)',
        'memory': 'a = [bytearray(1 << 20) for _ in range(64)]\nprint(sum(len(x) for x in a)); a[33][5] = 1; '
                  'del a; print(len(bytes(50_000_000)))',
        'float': 'import math, cmath; print([math.sin(x / 7) for x in range(50)], cmath.exp(1j), 1e308 * 10)',
        'files': 'import os, glob, tempfile, shutil\nos.makedirs("a/b/c")\nfor i in range(50): '
                 'open(f"a/b/{i}", "w").write(str(i) * i)\nshutil.copytree("a", "z")\n'
                 'os.rename("a/b/7", "seven")\nos.remove("a/b/8")\nprint(len(glob.glob("**/*", recursive=True)), '
                 'os.stat("seven").st_size)',
        'signal': 'import signal, os, time\nhits = []\nsignal.signal(signal.SIGUSR1, lambda *a: hits.append(a[0]))\n'
                  'os.kill(os.getpid(), signal.SIGUSR1)\nsignal.signal(signal.SIGALRM, lambda *a: hits.append(a[0]))\n'
                  'signal.setitimer(signal.ITIMER_REAL, 0.1)\nwhile len(hits) < 2: time.sleep(0.5)\nprint(hits)',
        'terminal-questions': 'import os, sys; print(sys.stdin.isatty(), os.isatty(1), sys.stdout.encoding)',
    }
    statuses = {'exception': 1, 'exit-status': 42}
    for name, text in cases.items():
        same('python-' + name, [PYTHON, '-c', text], status=statuses.get(name, 0))
    same('python-thread', [PYTHON, '-c', 'import threading; t = threading.Thread(target=print, '
                           'args=("thread",)); t.start(); t.join()'])


# The way that `hanare boot` chooses, and the others. All that depends on them happens on the LWK
# and in proxies.
WAYS = {
    '': {'--arguments': None, '--dispatch': None},
    'box/': {'--arguments': None, '--dispatch': 'box'},
    'copied/': {'--arguments': 'copied', '--dispatch': None},
    'box-copied/': {'--arguments': 'copied', '--dispatch': 'box'},
}


def compared(first):
    global is_first_way
    is_first_way = first

    def really():
        before = sum(cpu['local_calls'] for cpu in status()['cpus'])
        expect(run('/bin/true').status == 0, '/bin/true failed')
        after = sum(cpu['local_calls'] for cpu in status()['cpus'])
        expect(after > before, f'{before} local calls before, {after} after: it ran elsewhere')
    check('runs-on-the-lwk', really)
    applets()
    programs()
    pipes()
    sockets()
    python()

    check('memory-free-again', nothing_left)


start()
in_ways({'': {}} if any(ways.values()) else WAYS, compared)
finish()
