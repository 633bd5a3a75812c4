"""Memory and I/O as programs see it: what Linux does, the LWK does; memory shared by both."""

import ctypes
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *
from repeats import hundred_times

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p
IPC_PRIVATE, IPC_RMID, IPC_STAT = 0, 0, 2


def compared():
    for name in ('madvise', 'mlock', 'mremap', 'mmap-flags', 'memfd', 'sysv-shm', 'process-vm-access', 'aio', 'io-uring',
                 'concurrent-io', 'failing-memory-calls', 'memory-limits', 'size-overflow',
                 'discard-beside-a-reader', 'replaced-beside-accesses', 'mincore-of-memory', 'same-page-merging'):
        same(name, [f'{GUEST}/static/{name}'], files=False)
    same('mincore', [GUEST + '/static/mincore'])
    with only_long('sysv-shm shows the same promise'):
        same('sysv-shm-dynamic', [GUEST + '/dynamic/sysv-shm'])


def threads():
    """As dense as 10,000 in 1 GiB, which take five minutes here: 25 ms each, most of it Linux' clone.

    The VM's Linux would let there be 23,000 (threads-max, an eighth of its 3 GiB in kernel stacks)."""
    def body():
        count = 2500
        result = run(GUEST + '/static/sleeping-threads', str(count), timeout=4 * TIMEOUT)
        expect(result.status == 0 and result.out == b'%d sleep\n' % count, result)
    with only_long('kernel-heap-free-after-lists-begun-late has hundreds at once'):
        check('10000-threads-in-a-gigabyte', body)


def userfaultfd():
    """None is better than one that no memory can be registered with."""
    def body():
        open_it = 'exec 3<>/dev/userfaultfd'
        linux = command(['sh', '-c', open_it])
        expect(linux.status == 0, f'test broken, on Linux: {linux}')
        result = run('sh', '-c', open_it)
        expect(result.status and b'No such device' in result.err, result)
        expect(run('sh', '-c', 'exec 3<>/dev/null; ls /proc/self/fd | wc -l').out == b'5\n', 'other devices')
    check('userfaultfd-refused', body, skip=None if os.path.exists('/dev/userfaultfd') else 'Linux has none')


def large_pages():
    """Linux takes them out of a pool, which has to be there for the comparison."""
    def pool_of(pages):
        with open('/proc/sys/vm/nr_hugepages', 'r+') as pool:
            pool.write(pages)
            pool.flush()
            pool.seek(0)
            return pool.read().strip()
    there = pool_of('20')
    skip = None if there == '20' else f'a pool of {there} pages'
    for name in 'hugetlb', 'hugetlb-beside-faults':
        same(name, [f'{GUEST}/static/{name}'], files=False, skip=skip)
    hundred_times(['hugetlb', 'hugetlb-beside-faults'], 'each has been run once', skip)
    pool_of('0')


def on_a_disk():
    """O_DIRECT: a device reads and writes the program's memory itself, while the program goes on."""
    folder = '/run/hanare-disk'
    os.makedirs(folder, exist_ok=True)
    with open('/run/hanare-disk.img', 'wb') as image:
        image.truncate(64 << 20)
    for line in 'modprobe loop', 'modprobe ext4', f'mkfs.ext4 -q /run/hanare-disk.img', \
            f'mount -o loop /run/hanare-disk.img {folder}':
        result = command(['sh', '-c', f'PATH=$PATH:/usr/sbin:/sbin; {line}'])
        if result.status:
            return check('direct', lambda: None, skip=f'{line}: {result}')
    def direct(*names):
        for name in names:
            same(name + '-direct', [f'{GUEST}/static/{name}'], files=False, base=folder + '/same')
    direct('aio', 'io-uring')
    with only_long('aio-direct and io-uring-direct have a device read and write memory'):
        direct('concurrent-io', 'mremap', 'mincore')
    same('dd-direct', ['dd', 'if=/dev/zero', 'of=file', 'bs=64k', 'count=64', 'oflag=direct'],
         base=folder + '/same', normalise=lambda data: re.sub(rb'copied.*', b'', data))
    subprocess.run(['umount', folder], check=True)
    os.rmdir(folder)
    os.remove('/run/hanare-disk.img')
    shutil.rmtree('/run/mount', ignore_errors=True)  # mount(8) makes it


class Segment:
    """A System V segment of this Linux process."""

    def __enter__(self):
        self.id = LIBC.shmget(IPC_PRIVATE, 4096, 0o1600)
        expect(self.id >= 0, f'shmget: {ctypes.get_errno()}')
        self.at = LIBC.shmat(self.id, None, 0)
        self.words = (ctypes.c_int * 3).from_address(self.at)
        return self

    def __exit__(self, *unused):
        LIBC.shmctl(self.id, IPC_RMID, None)
        LIBC.shmdt(ctypes.c_void_p(self.at))

    def attached(self):
        buffer = ctypes.create_string_buffer(112)
        expect(LIBC.shmctl(self.id, IPC_STAT, buffer) == 0, 'shmctl')
        return int.from_bytes(buffer[88:96], 'little')


def with_linux():
    def segment():
        with Segment() as shared:
            shared.words[0] = 41
            process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/sysv-shm', 'hold', str(shared.id)])
            until(lambda: shared.words[1] == 42, 'the program adds one')
            count = shared.attached()
            shared.words[2] = 5
            expect(process.wait(TIMEOUT) == 5, process.returncode)
            until(lambda: shared.attached() == 1, lambda: f'attached {shared.attached()} times at its end')
            expect(count == 2, f'attached {count} times')
    check('sysv-shm-with-linux', segment)

    def killed():
        with Segment() as shared:
            process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/sysv-shm', 'hold', str(shared.id)])
            until(lambda: shared.words[1] == 1, 'the program adds one')
            process.kill()
            process.wait(TIMEOUT)
            until(lambda: shared.attached() == 1, lambda: f'attached {shared.attached()} times')
    check('sysv-shm-of-a-killed-program', killed)

    for label, holder, user in ('lwk-by-linux', ['hanare', 'run', '--'], []), \
            ('linux-by-lwk', [], ['hanare', 'run', '--']), \
            ('lwk-by-lwk', ['hanare', 'run', '--'], ['hanare', 'run', '--']):
        def remote():
            process = subprocess.Popen([*holder, GUEST + '/static/process-vm-access', 'hold'], stdout=subprocess.PIPE)
            try:
                pid, address = process.stdout.readline().decode().split()
                result = command([*user, GUEST + '/static/process-vm-access', 'use', pid, address])
                expect(result.status == 0 and b'held| memory' in result.out, result)
                out, _ = process.communicate(timeout=TIMEOUT)
                expect(out == b'changed second\n', out)
            finally:
                process.kill()
        check('process-vm-' + label, remote)


def out_of_memory():
    eat = GUEST + '/static/eat-memory'

    def killed():
        return set(re.findall(r'out of memory: process (\d+)', command(['hanare', 'log']).out.decode()))

    def alone():
        before = killed()
        result = run(eat, '400')
        # One that takes more than five seconds to end is told of again.
        expect(result.status == -9 and len(killed() - before) == 1, f'{result}; {log_tail()}')
    check('out-of-memory', alone)

    def in_call():
        result = run(eat, 'read', '400')
        expect(result.status == -9, result)
    check('out-of-memory-in-a-call', in_call)

    def largest():
        result = run(eat, 'small', '180', '120')
        expect(result.status == 0 and result.out.endswith(b'large one: killed\n'), result)
    check('out-of-memory-kills-the-largest', largest)

    def mappings():
        result = run(eat, 'mappings')
        # Some of it may have to go, as ever: the LWK goes on.
        expect(result.out.endswith(b'all ended\n') or result.status == -9, result)
        expect(run(GUEST + '/static/hello').status == 0, log_tail())
    check('mappings-of-many-processes', mappings)
    check('memory-free-after-out-of-memory', nothing_left)


def kernel_memory():
    """What the LWK's heap needed for many processes it gives back."""
    def body():
        run(GUEST + '/static/hello')
        before = debug_memory()[0]
        count = 250 if TIER == 'long' else 80
        result = run(GUEST + '/static/many-processes', str(count))
        expect(result.out == b'started %d, ended well %d\n' % (count, count), result)
        lwk_memory_is(before)
    check('kernel-heap-free-after-many-processes', body)

    def late_lists():
        """Lists that get their first entry while the heap is large, this LWK's first trace for one, hold none of it."""
        run(GUEST + '/static/hello')
        nothing_left()
        before = debug_memory()[0]
        count = 1200 if TIER == 'long' else 400
        many = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/sleeping-threads', str(count), 'wait'],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            expect(many.stdout.readline() == b'%d sleep\n' % count, 'test broken: there are no threads')
            heap = kernel_blocks()[0]
            expect(heap > (count << 20) / 400, f'test broken: heap of {heap} bytes')
            result = command(['hanare', 'trace', '-o', '/dev/null', GUEST + '/static/hello'])
            expect(result.status == 0, result)
            many.communicate(timeout=TIMEOUT)
        finally:
            many.kill()
            many.wait(TIMEOUT)
        lwk_memory_is(before)
    check('kernel-heap-free-after-lists-begun-late', late_lists)


start(*BOOT)
kernel_memory()
compared()
hundred_times(['replaced-beside-accesses 3', 'sysv-shm', 'mincore-of-memory'], 'each has been run once')
threads()
userfaultfd()
large_pages()
on_a_disk()
with_linux()
out_of_memory()
check('memory-free-again', nothing_left)
finish()
