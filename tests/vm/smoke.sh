#!/bin/bash
# Does tools/vm keep its promises? Seven boots, about 20 s under TCG, and a deadline that passes
# beside them.
#   tests/vm/smoke.sh [KERNEL]
# Prints a line per check and a count; exit status 1 if any failed.
set -u
cd "$(dirname "$0")/../.." || exit 1
kernel=${1:-6.1}
work=$(mktemp -d /tmp/hanare-smoke.XXXXXX)
trap 'rm -rf "$work"' EXIT
vm=(tools/vm --kernel "$kernel" --no-module)
checks=0 failed=0

# What tools/vm says of a busy host, on whose machines a boot is late and tried again; and where KVM
# was tried.
without_boots() {
    sed -E '/^vm: (KVM does not boot|the VM hung before user space)/d' "$1"
}

# check WHAT GOT EXPECTED
check() {
    checks=$((checks + 1))
    if [ "$2" != "$3" ]; then
        failed=$((failed + 1))
        printf 'FAIL %s: got %q, expected %q\n' "${1// /-}" "$2" "$3"
    else
        echo "ok ${1// /-}"
    fi
}

# A VM that passes its deadline, before which it does nothing: beside all that follows. It has to
# boot until then; where that took longer, as on a busy machine it may, it has more time.
passes_its_deadline() {
    local seconds status
    for seconds in 20 60 150; do
        "${vm[@]}" --timeout $seconds -- sh -c 'echo started; sleep 1000' > "$work/late.out" 2> "$work/late.err"
        status=$?
        echo $seconds > "$work/late.seconds"
        grep -q started "$work/late.out" && break
    done
    return $status
}
passes_its_deadline &
late=$!

# A kernel for which there is no module, while there is one for another: said at once.
mkdir -p "$work/copy/tools" "$work/copy/build/module/6.1"
cp -r tools/vm tools/vm-init "$work/copy/tools/"
touch "$work/copy/build/module/6.1/hanare.ko"
missing=$(HANARE_CACHE=$work/no-cache "$work/copy/tools/vm" --kernel 6.12 -- true 2>&1)
check 'status without a module' $? 125
case $missing in *6.12*'make all-kernels'*) missing=said ;; esac
check 'module missing' "$missing" said

missing=$("${vm[@]}" --nvme "$work/none" -- true 2>&1)
check 'status without a disk' $? 125
check 'disk missing' "$missing" "vm: --nvme $work/none: neither a size such as 256M nor a file"

# One boot for all that a running command can see. Lines of its output are NAME VALUE.
cat > "$work/inside.sh" <<'INSIDE'
echo "stdin $(cat)"
echo "uid $(id -u)"
echo "cwd $(pwd)"
echo "home $HOME"
echo "variable $SMOKE_VARIABLE"
echo "release $(uname -r | cut -d. -f1,2)"
echo "cpus $(nproc)"
echo "tmp $(cat "$SMOKE_WORK/in-tmp")"
echo "loopback $(cat /sys/class/net/lo/flags)"
echo "shm $(stat -f -c %T /dev/shm)"
echo "cgroup $(stat -f -c %T /sys/fs/cgroup)"
echo "tracing $(ls -d /sys/kernel/tracing/events)"
echo "overlay $(echo x > /usr/written-in-guest && cat /usr/written-in-guest)"
echo "modprobe $(modprobe loop && ls -d /sys/module/loop)"
modprobe nvme
until [ -b /dev/nvme0n1 ]; do sleep 0.05; done
echo "nvme $(blockdev --getsize64 /dev/nvme0n1) $(head -c 9 /dev/nvme0n1)"
echo overwrites | dd of=/dev/nvme0n1 conv=notrunc 2>/dev/null
echo "written $(head -c 10 /dev/nvme0n1)"
echo "numa $(ls -d /sys/devices/system/node/node* | wc -l)"
echo "once $(stat -c '%F %t:%T' /sys/kernel/debug/clear_warn_once)"
echo shared > "$SMOKE_WORK/rw/file"
# A mapping's dirty pages have to get to the host, too.
python3 -c 'import mmap, sys
with open(sys.argv[1], "w+b") as f:
    f.truncate(8192)
    mmap.mmap(f.fileno(), 8192)[5000:5006] = b"mapped"' "$SMOKE_WORK/rw/mapped"
echo problem >&2
exit 42
INSIDE
mkdir "$work/rw"
echo from-host > "$work/in-tmp"
truncate -s 1M "$work/disk"
echo from-disk | dd of="$work/disk" conv=notrunc 2>/dev/null
printf 'two\nlines' |
    SMOKE_VARIABLE='a b=c' SMOKE_WORK=$work "${vm[@]}" --cpus 2 --numa 2 --rw "$work/rw" --nvme "$work/disk" -- \
    sh "$work/inside.sh" > "$work/out" 2> "$work/err"
check 'exit status' $? 42
# The first VM since the machine booted says here that it tried KVM.
check stderr "$(without_boots "$work/err")" problem
check output "$(cat "$work/out")" "stdin two
lines
uid 0
cwd $PWD
home $HOME
variable a b=c
release $kernel
cpus 2
tmp from-host
loopback 0x9
shm tmpfs
cgroup cgroup2fs
tracing /sys/kernel/tracing/events
overlay x
modprobe /sys/module/loop
nvme 1048576 from-disk
written overwrites
numa 2
once character special file 1:3"
check '--rw' "$(cat "$work/rw/file")" shared
check '--rw, mapped' "$(dd if="$work/rw/mapped" bs=1 skip=5000 count=6 2>/dev/null)" mapped
check '--nvme, a file stays as it is' "$(head -c 9 "$work/disk")" from-disk
check 'host unchanged' "$(ls /usr/written-in-guest 2>&1 | grep -c 'No such')" 1

# Order of both streams into one file; closed stdin; a large output; death by signal.
"${vm[@]}" -- sh -c 'cat; for i in 1 2 3; do echo out $i; echo err $i >&2; done
    head -c 10000000 /dev/zero | tr "\0" x; kill -TERM $$' > "$work/both" 2>&1 <&-
check 'death by signal' $? 143
without_boots "$work/both" > "$work/plain"
check 'order' "$(head -n 6 "$work/plain" | tr '\n' ,)" 'out 1,err 1,out 2,err 2,out 3,err 3,'
check 'large output' "$(wc -c < "$work/plain")" 10000036

# A signal for tools/vm reaches the command.
"${vm[@]}" -- sh -c 'trap "echo interrupted; exit 7" INT; echo up; while :; do sleep 0.1; done' \
    > "$work/out" 2>&1 &
for _ in $(seq 3000); do
    grep -qs up "$work/out" && break
    sleep 0.1
done
kill -INT $!
wait $!
check 'status after SIGINT' $? 7
check 'SIGINT' "$(without_boots "$work/out" | tr '\n' ,)" up,interrupted,

"${vm[@]}" -- sh -c 'echo c > /proc/sysrq-trigger' > "$work/out" 2> "$work/err"
check 'status of a panic' $? 125
check 'panic shown' "$(grep -c 'Kernel panic - not syncing: sysrq' "$work/err")" 1

# A QEMU that crashes before user space is started again; one that says why it does not start is
# not.
cat > "$work/crashes-once" <<'WRAPPER'
#!/bin/sh
[ -e "$CRASHED" ] && exec qemu-system-x86_64 "$@"
touch "$CRASHED"
kill -SEGV $$
WRAPPER
cat > "$work/refuses" <<'WRAPPER'
#!/bin/sh
echo "no such machine" >&2
exit 1
WRAPPER
chmod +x "$work/crashes-once" "$work/refuses"
CRASHED=$work/crashed HANARE_QEMU=$work/crashes-once "${vm[@]}" -- echo there > "$work/out" 2> "$work/err"
check 'output after a crash of QEMU' "$(cat "$work/out")" there
check 'crash of QEMU' "$(grep -c 'before user space by signal 11 .*trying again' "$work/err")" 1
HANARE_QEMU=$work/refuses "${vm[@]}" -- echo there > "$work/out" 2> "$work/err"
check 'status without a machine' $? 125
check 'message without a machine' "$(grep -c 'QEMU failed: no such machine' "$work/err")" 1

# A terminal: its size, job control, Ctrl-C, a shell without a command.
/usr/bin/python3 - "${vm[@]}" > "$work/out" <<'PYTHON'
import fcntl, os, pty, re, signal, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    # With another home the images would be fetched once more.
    os.environ.setdefault('HANARE_CACHE', os.path.expanduser('~/.cache/hanare'))
    os.environ.update(SHELL='/bin/bash', PS1='ready$ ', HOME='/nonexistent', TERM='dumb')
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 101, 0, 0))
seen = b''

def expect(pattern, seconds=300):
    """Read until the pattern has come; forget what was before its end."""
    global seen
    signal.alarm(seconds)
    while not (match := re.search(pattern, seen)):
        seen += os.read(fd, 4096)
    seen = seen[match.end():]
    return match

signal.signal(signal.SIGALRM, lambda *_: sys.exit(f'timeout; last seen: {seen!r}'))
expect(rb'\$ |# ')
os.write(fd, b'stty size; tty\n')
print('size', expect(rb'(\d+ \d+)\r\n')[1].decode(), expect(rb'(/dev/[^\r]*)\r')[1].decode())
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 44, 99, 0, 0))
os.kill(pid, signal.SIGWINCH)
# The new size takes its way: asked for until it is there.
os.write(fd, b'until stty size | grep ^44; do sleep 0.1; done\n')
print('resized', expect(rb'[\r\n](44 \d+)\r\n')[1].decode())
os.write(fd, b'echo sleep\\ing; sleep 1000\n')
expect(rb'sleeping')
time.sleep(0.5)
os.write(fd, b'\3')
os.write(fd, b'echo status $?; exit 9\n')
print('ctrl-c', expect(rb'status (\d+)')[1].decode())
signal.alarm(300)
try:
    while os.read(fd, 4096):
        pass
except OSError:
    pass
print('exit', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
check terminal "$(cat "$work/out")" 'size 33 101 /dev/pts/0
resized 44 99
ctrl-c 130
exit 9'

wait $late
check 'deadline' $? 124
check 'output before the deadline' "$(cat "$work/late.out")" started
check 'message of the deadline' "$(grep -c "deadline of $(cat "$work/late.seconds") s" "$work/late.err")" 1

echo "tests/vm/smoke.sh $kernel: $((checks - failed)) of $checks checks passed"
[ $failed = 0 ]
