//! Calls made of numbers: which descriptors, paths, lengths and addresses, good ones mostly.

use crate::fixture::{FILES, File, Fixture};
use crate::memory::Region;
use libc::*;

/// A call.
#[derive(Debug)]
pub struct Call {
    pub number: i64,
    pub args: [u64; 6],
    /// Memory that differs from time to time, such as inodes.
    pub unlike: Vec<(u64, usize)>,
}

/// How a call is made of numbers.
type Make = fn(&mut Build) -> Call;

/// The caller's memory is filled from its start on, or from its end down.
pub struct Build<'a> {
    region: &'a Region,
    fixture: &'a Fixture,
    numbers: std::slice::Iter<'a, u32>,
    next: u64,
    unlike: Vec<(u64, usize)>,
    /// All memory is there.
    is_good: bool,
}

impl<'a> Build<'a> {
    pub fn new(region: &'a Region, fixture: &'a Fixture, numbers: &'a [u32]) -> Self {
        region.reset();
        let (numbers, next) = (numbers.iter(), region.start());
        Self { region, fixture, numbers, next, unlike: Vec::new(), is_good: false }
    }

    fn number(&mut self) -> u32 {
        self.numbers.next().copied().unwrap_or(0)
    }

    pub fn below(&mut self, most: usize) -> usize {
        self.number() as usize % most.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    fn call(&mut self, number: c_long, args: &[u64]) -> Call {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        Call { number, args: all, unlike: std::mem::take(&mut self.unlike) }
    }

    /// Memory of so many bytes; sometimes less, or none.
    fn place(&mut self, bytes: usize) -> u64 {
        match self.below(if self.is_good { 20 } else { 24 }) {
            // Not a program's, not mapped, none at all.
            20 => return self.one(&[u64::MAX, 0xffff_8000_0000_0000, 0x7fff_ffff_f000]),
            21 => return self.one(&[16, 4096, self.region.end()]),
            22 => return 0,
            // Its end is not there.
            23 => return self.region.end() - self.below(bytes.max(1)) as u64,
            _ => {}
        }
        self.good(bytes)
    }

    fn good(&mut self, bytes: usize) -> u64 {
        let at = self.next + self.below(24) as u64;
        self.next = at + bytes as u64;
        assert!(self.next <= self.region.end(), "a call has less memory");
        at
    }

    fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let at = self.place(bytes.len());
        self.region.put(at, bytes);
        at
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    fn ints(&mut self, ints: &[i32]) -> u64 {
        let bytes: Vec<u8> = ints.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    /// Memory that is written to, but for which its contents do not matter here.
    fn differing(&mut self, bytes: usize, parts: &[(usize, usize)]) -> u64 {
        let at = self.place(bytes);
        self.unlike
            .extend(parts.iter().map(|&(from, count)| (at.wrapping_add(from as u64), count)));
        at
    }

    fn fd_of(&mut self, files: &[File]) -> u64 {
        // Another one now and then: errors have an order.
        if self.once_in(12) {
            return self.any_fd();
        }
        let file = self.one(files);
        self.fixture.fd(file) as u64
    }

    fn any_fd(&mut self) -> u64 {
        match self.below(FILES + 1) {
            FILES => u64::MAX,
            // None that a call may open, which might wait.
            other if other == Closed as usize => 4000,
            other => self.fixture.fd(File::Data) as u64 + other as u64,
        }
    }

    fn path(&mut self) -> u64 {
        let path: &[u8] = self.one(&[
            b"data\0",
            b"data\0",
            b"append\0",
            b"dir\0",
            b"link\0",
            b"dir/one\0",
            b"dir/third\0",
            b"new\0",
            b"d2\0",
            b"nowhere/x\0",
            b"\0",
            b"socket\0",
        ]);
        if self.once_in(20) {
            let mut long = vec![b'x'; self.one(&[255, 300, 4095, 4096, 5000])];
            long.push(0);
            return self.bytes(&long);
        }
        if self.once_in(15) {
            // Right at the end of what is there, with its zero or without.
            let at = self.region.end() - (path.len() - self.below(2)) as u64;
            self.region.put(at, path);
            return at;
        }
        self.bytes(path)
    }

    fn dirfd(&mut self) -> u64 {
        if self.once_in(4) { self.any_fd() } else { AT_FDCWD as u64 }
    }

    fn length(&mut self) -> usize {
        self.one(&[0, 1, 7, 8, 64, 100, 511, 512, 1000, 4096, 5000, 9000])
    }

    fn data(&mut self, bytes: usize) -> u64 {
        let salt = self.number();
        let data: Vec<u8> =
            (0..bytes).map(|at| ((at as u32 * 13).wrapping_add(salt)) as u8).collect();
        self.bytes(&data)
    }

    /// Lists of memory, filled with data; how many of them there are.
    fn vectors(&mut self) -> (u64, u64) {
        let count = self.one(&[0, 1, 1, 2, 3, 5, 8]);
        let words: Vec<u64> = (0..count)
            .flat_map(|_| {
                let length = self.one(&[0, 1, 10, 100, 600, 2000]);
                [self.data(length), length as u64]
            })
            .collect();
        let at = self.words(&words);
        let count = if self.once_in(30) { self.one(&[1025, u64::MAX, 1 << 32]) } else { count };
        (at, count)
    }

    fn address(&mut self) -> (Vec<u8>, u64) {
        let path: &[u8] =
            self.one(&[b"socket\0", b"client\0", b"bound\0", b"\0abstract", b"nowhere/x\0"]);
        let address = [&1u16.to_le_bytes(), path].concat();
        let length = address.len() as u64;
        let length =
            if self.once_in(8) { self.one(&[0, 1, 2, 110, 129, u64::MAX]) } else { length };
        (address, length)
    }

    /// Where an address is written to, and where its length stands.
    fn address_out(&mut self) -> [u64; 2] {
        let length = self.one(&[0, 1, 2, 9, 110, 110, 128, 500, -1]);
        [self.place(110), self.ints(&[length])]
    }

    fn control(&mut self, is_out: bool) -> (u64, u64) {
        match self.below(4) {
            0 => {
                let fd = self.any_fd() as i32;
                let mut bytes = 20u64.to_le_bytes().to_vec();
                for word in [SOL_SOCKET, SCM_RIGHTS, fd, 0] {
                    bytes.extend_from_slice(&word.to_le_bytes());
                }
                (self.bytes(&bytes), self.one(&[24, 20, 16, 8]))
            }
            1 if is_out => (self.place(64), self.one(&[64, 24, 23, 16, 3])),
            _ => (0, 0),
        }
    }

    fn message(&mut self, is_out: bool) -> Vec<u8> {
        let (name, name_length) = match self.below(3) {
            0 if is_out => (self.place(110), self.one(&[110, 9, 0, 300])),
            0 => {
                let (address, length) = self.address();
                (self.bytes(&address), length)
            }
            _ => (0, 0),
        };
        let (vectors, count) = self.vectors();
        let (control, control_length) = self.control(is_out);
        let name_length = u64::from(name_length as u32);
        [name, name_length, vectors, count, control, control_length, 0x77]
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect()
    }

    fn messages(&mut self, is_out: bool) -> (u64, u64) {
        let count = self.one(&[0, 1, 2, 3]);
        let mut bytes = Vec::new();
        // Where a message fails after others were received, it may have been received in part.
        self.is_good = is_out;
        for _ in 0..count {
            bytes.extend(self.message(is_out));
            bytes.extend([0x11; 8]);
        }
        // A list that is there in part only is refused by name.
        let at = self.good(bytes.len());
        self.region.put(at, &bytes);
        (at, count)
    }

    /// No time to wait. Never a null pointer: that is for ever.
    fn no_time(&mut self) -> u64 {
        let seconds = if self.once_in(6) { u64::MAX } else { 0 };
        match self.words(&[seconds, 0]) {
            0 => self.region.end(),
            // What is left of it differs.
            at => {
                self.unlike.push((at, 16));
                at
            }
        }
    }

    fn signals(&mut self) -> u64 {
        let set = self.one(&[0, 0x200, u64::MAX]);
        self.words(&[set])
    }

    fn polled(&mut self) -> (u64, u64) {
        let count = self.below(5);
        let words: Vec<u64> = (0..count)
            .map(|_| {
                (self.any_fd() & 0xffff_ffff)
                    | u64::from(self.number() as u16 & 0x1f) << 32
                    | 0x5555 << 48
            })
            .collect();
        (self.words(&words), count as u64)
    }

    fn sets(&mut self) -> [u64; 4] {
        let count = self.one(&[0, 41, 57, 64, 65, 100, 128]);
        let sets = [0; 3].map(|_| {
            if self.once_in(3) {
                return 0;
            }
            // Only open ones mostly.
            let words = [u64::from(self.number() & 0x0fff) << 40, 0, u64::MAX];
            self.words(&words)
        });
        [count, sets[0], sets[1], sets[2]]
    }

    fn offset(&mut self) -> u64 {
        match self.below(3) {
            0 => 0,
            _ => {
                let at = self.one(&[0, 5, 100, 19_990, 30_000, u64::MAX]);
                self.words(&[at])
            }
        }
    }

    fn xattr_name(&mut self) -> u64 {
        let name = self.one(&[&b"user.a\0"[..], b"user.b\0", b"user.\0", b"x\0"]);
        self.bytes(name)
    }
}

use File::*;

/// Numbers that libc does not name.
const CACHESTAT: c_long = 451;
const LISTMOUNT: c_long = 458;
const LSM_LIST_MODULES: c_long = 461;

const ALL: &[File] =
    &[Data, Append, PipeOut, PipeIn, Stream, Datagram, Counter, Terminal, Memory, Inotify];
const DISK: &[File] = &[Data, Data, Append, Memory, Folder];
const SOCKETS: &[File] = &[Stream, StreamPeer, Datagram, DatagramPeer, Listener];

/// `struct stat` without device, inode and times.
const STAT: &[(usize, usize)] = &[(0, 16), (72, 48)];
/// `struct statx`, likewise, with the identity of the mount.
const STATX: &[(usize, usize)] = &[(32, 8), (64, 64), (128, 128)];

macro_rules! calls {
    ($($name:ident: |$b:ident| $call:expr;)*) => {
        /// All of them.
        pub const CALLS: &[(&str, Make)] = &[$((stringify!($name), |$b: &mut Build| $call)),*];
    };
}

/// Arguments in their order: they are made from left to right.
macro_rules! make {
    ($b:ident, $number:ident $(, $argument:expr)*) => {{
        let args = [$($argument as u64),*];
        $b.call($number, &args)
    }};
}

calls! {
    read: |b| { let n = b.length(); make!(b, SYS_read, b.fd_of(ALL), b.place(n), n) };
    write: |b| { let n = b.length(); make!(b, SYS_write, b.fd_of(ALL), b.data(n), n) };
    pread64: |b| { let n = b.length(); make!(b, SYS_pread64, b.fd_of(DISK), b.place(n), n, b.length()) };
    pwrite64: |b| { let n = b.length(); make!(b, SYS_pwrite64, b.fd_of(DISK), b.data(n), n, b.length()) };
    readv: |b| { let (v, n) = b.vectors(); make!(b, SYS_readv, b.fd_of(ALL), v, n) };
    writev: |b| { let (v, n) = b.vectors(); make!(b, SYS_writev, b.fd_of(ALL), v, n) };
    preadv: |b| { let (v, n) = b.vectors(); make!(b, SYS_preadv, b.fd_of(DISK), v, n, b.length(), 0) };
    pwritev: |b| { let (v, n) = b.vectors(); make!(b, SYS_pwritev, b.fd_of(DISK), v, n, b.length(), 0) };
    preadv2: |b| { let (v, n) = b.vectors(); make!(b, SYS_preadv2, b.fd_of(DISK), v, n, b.length(), 0, b.below(2)) };
    pwritev2: |b| { let (v, n) = b.vectors(); make!(b, SYS_pwritev2, b.fd_of(DISK), v, n, b.length(), 0, 0) };
    open: |b| make!(b, SYS_open, b.path(), b.one(&[O_RDONLY, O_RDWR, O_CREAT | O_WRONLY, O_PATH]) | O_NONBLOCK, 0o640);
    openat: |b| make!(b, SYS_openat, b.dirfd(), b.path(), b.one(&[O_RDONLY, O_CREAT | O_EXCL]) | O_NONBLOCK, 0o600);
    openat2: |b| { let how = b.words(&[O_NONBLOCK as u64, 0, 0]);
        make!(b, SYS_openat2, b.dirfd(), b.path(), how, b.one(&[24, 24, 16, 0])) };
    creat: |b| make!(b, SYS_creat, b.path(), 0o644);
    stat: |b| make!(b, SYS_stat, b.path(), b.differing(144, STAT));
    lstat: |b| make!(b, SYS_lstat, b.path(), b.differing(144, STAT));
    fstat: |b| make!(b, SYS_fstat, b.fd_of(DISK), b.differing(144, STAT));
    newfstatat: |b| make!(b, SYS_newfstatat, b.dirfd(), b.path(), b.differing(144, STAT), b.one(&[0, AT_EMPTY_PATH, 0x4000_0000]));
    statx: |b| make!(b, SYS_statx, b.dirfd(), b.path(), 0, b.one(&[0x7ff, 0xfff]), b.differing(256, STATX));
    access: |b| make!(b, SYS_access, b.path(), b.below(9));
    faccessat: |b| make!(b, SYS_faccessat, b.dirfd(), b.path(), b.below(8));
    faccessat2: |b| make!(b, SYS_faccessat2, b.dirfd(), b.path(), b.below(8), b.one(&[0, AT_EACCESS]));
    poll: |b| { let (p, n) = b.polled(); make!(b, SYS_poll, p, n, 0) };
    ppoll: |b| { let (p, n) = b.polled(); make!(b, SYS_ppoll, p, n, b.no_time(), b.signals(), b.one(&[8, 8, 8, 4])) };
    select: |b| { let [n, r, w, e] = b.sets(); make!(b, SYS_select, n, r, w, e, b.no_time()) };
    pselect6: |b| { let [n, r, w, e] = b.sets();
        let set = b.signals();
        let size = b.one(&[8, 8, 8, 16]);
        let mask = b.words(&[set, size]);
        make!(b, SYS_pselect6, n, r, w, e, b.no_time(), if b.once_in(3) { 0 } else { mask }) };
    lseek: |b| make!(b, SYS_lseek, b.any_fd(), b.length(), b.below(6));
    ioctl_word: |b| make!(b, SYS_ioctl, b.any_fd(), b.one(&[FIONREAD, TIOCGPTN, 2, TIOCGPGRP, FIONBIO, 0x8905]), b.ints(&[1]));
    ioctl_terminal: |b| make!(b, SYS_ioctl, b.fd_of(&[Terminal, Terminal, Data]), b.one(&[TCGETS, TCSETS, TIOCGWINSZ, TIOCSWINSZ, TCGETS2]), b.words(&[0x0500, 0x18_0000, 0, 0, 0, 0]));
    ioctl_interface: |b| make!(b, SYS_ioctl, b.fd_of(SOCKETS), b.one(&[0x8913, 0x8921, 0x8933]), b.bytes(b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"));
    fcntl: |b| make!(b, SYS_fcntl, b.any_fd(), b.one(&[F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_GETPIPE_SZ, F_GETOWN, F_GET_SEALS]), b.below(3));
    fcntl_lock: |b| make!(b, SYS_fcntl, b.fd_of(DISK), b.one(&[F_GETLK, F_SETLK, F_OFD_GETLK, F_OFD_SETLK]), b.words(&[1, 0, 10, 0]));
    fcntl_owner: |b| make!(b, SYS_fcntl, b.any_fd(), b.one(&[15, 16]), b.ints(&[1, 0]));
    pipe: |b| make!(b, SYS_pipe, b.place(8));
    pipe2: |b| make!(b, SYS_pipe2, b.place(8), b.one(&[0, O_CLOEXEC, 1]));
    socketpair: |b| make!(b, SYS_socketpair, b.one(&[AF_UNIX, AF_INET]), SOCK_STREAM, 0, b.place(8));
    socket: |b| make!(b, SYS_socket, AF_UNIX, b.one(&[SOCK_STREAM, SOCK_DGRAM]), 0);
    connect: |b| { let (a, n) = b.address(); make!(b, SYS_connect, b.fd_of(&[Unconnected, Datagram]), b.bytes(&a), n) };
    bind: |b| { let (a, n) = b.address(); make!(b, SYS_bind, b.fd_of(&[Unconnected, Datagram]), b.bytes(&a), n) };
    sendto: |b| { let n = b.length(); let data = b.data(n); let (a, size) = b.address();
        let to = if b.once_in(3) { (b.bytes(&a), size) } else { (0, 0) };
        make!(b, SYS_sendto, b.fd_of(SOCKETS), data, n, MSG_NOSIGNAL, to.0, to.1) };
    recvfrom: |b| { let n = b.length(); let [a, size] = b.address_out();
        make!(b, SYS_recvfrom, b.fd_of(SOCKETS), b.place(n), n, b.one(&[0, MSG_PEEK, MSG_TRUNC]), a, size) };
    sendmsg: |b| { let m = b.message(false); make!(b, SYS_sendmsg, b.fd_of(SOCKETS), b.bytes(&m), MSG_NOSIGNAL) };
    recvmsg: |b| { let m = b.message(true); make!(b, SYS_recvmsg, b.fd_of(SOCKETS), b.bytes(&m), b.one(&[0, MSG_PEEK, MSG_TRUNC, MSG_CMSG_CLOEXEC])) };
    sendmmsg: |b| { let (m, n) = b.messages(false); make!(b, SYS_sendmmsg, b.fd_of(SOCKETS), m, n, MSG_NOSIGNAL) };
    recvmmsg: |b| { let (m, n) = b.messages(true); make!(b, SYS_recvmmsg, b.fd_of(SOCKETS), m, n, b.one(&[0, MSG_DONTWAIT]), 0) };
    getsockname: |b| { let [a, n] = b.address_out(); make!(b, SYS_getsockname, b.fd_of(SOCKETS), a, n) };
    getpeername: |b| { let [a, n] = b.address_out(); make!(b, SYS_getpeername, b.fd_of(SOCKETS), a, n) };
    accept: |b| { let [a, n] = b.address_out(); make!(b, SYS_accept, b.fd_of(&[Listener]), a, n) };
    accept4: |b| { let [a, n] = b.address_out(); make!(b, SYS_accept4, b.fd_of(&[Listener]), a, n, b.one(&[0, SOCK_NONBLOCK])) };
    setsockopt: |b| make!(b, SYS_setsockopt, b.fd_of(SOCKETS), SOL_SOCKET, b.one(&[SO_PASSCRED, SO_RCVBUF, SO_RCVTIMEO, SO_LINGER]), b.words(&[1, 0]), b.one(&[4i64, 8, 16, 3, -1]));
    getsockopt: |b| make!(b, SYS_getsockopt, b.fd_of(SOCKETS), SOL_SOCKET, b.one(&[SO_TYPE, SO_ERROR, SO_PEERCRED, SO_LINGER, SO_RCVTIMEO, SO_DOMAIN]), b.place(16), { let n = b.one(&[4, 16, 12, 3, 0, -1]); b.ints(&[n]) });
    shutdown: |b| make!(b, SYS_shutdown, b.fd_of(SOCKETS), b.below(4));
    getdents64: |b| { let n = b.one(&[0, 24, 100, 1000]); make!(b, SYS_getdents64, b.fd_of(&[Folder]), b.differing(n, &[(0, n)]), n) };
    getcwd: |b| { let n = b.one(&[0, 3, 64, 300]); make!(b, SYS_getcwd, b.place(n), n) };
    mkdir: |b| make!(b, SYS_mkdir, b.path(), 0o750);
    mkdirat: |b| make!(b, SYS_mkdirat, b.dirfd(), b.path(), 0o700);
    rmdir: |b| make!(b, SYS_rmdir, b.path());
    mknodat: |b| make!(b, SYS_mknodat, b.dirfd(), b.path(), S_IFREG | 0o600, 0);
    rename: |b| make!(b, SYS_rename, b.path(), b.path());
    renameat2: |b| make!(b, SYS_renameat2, b.dirfd(), b.path(), b.dirfd(), b.path(), b.below(3));
    link: |b| make!(b, SYS_link, b.path(), b.path());
    linkat: |b| make!(b, SYS_linkat, b.dirfd(), b.path(), b.dirfd(), b.path(), 0);
    symlink: |b| make!(b, SYS_symlink, b.path(), b.path());
    symlinkat: |b| make!(b, SYS_symlinkat, b.path(), b.dirfd(), b.path());
    unlink: |b| make!(b, SYS_unlink, b.path());
    unlinkat: |b| make!(b, SYS_unlinkat, b.dirfd(), b.path(), b.one(&[0, AT_REMOVEDIR]));
    readlink: |b| { let n = b.one(&[0, 2, 4, 100, -1i64]); let path = if b.once_in(3) { b.path() } else { b.bytes(b"link\0") };
        make!(b, SYS_readlink, path, b.place(100), n) };
    readlinkat: |b| { let path = b.bytes(b"link\0"); make!(b, SYS_readlinkat, b.dirfd(), path, b.place(9), 9) };
    chmod: |b| make!(b, SYS_chmod, b.path(), 0o700 | b.below(64));
    fchmod: |b| make!(b, SYS_fchmod, b.fd_of(DISK), 0o700 | b.below(64));
    fchmodat: |b| make!(b, SYS_fchmodat, b.dirfd(), b.path(), 0o711);
    truncate: |b| make!(b, SYS_truncate, b.path(), b.length());
    ftruncate: |b| make!(b, SYS_ftruncate, b.fd_of(DISK), b.length());
    fallocate: |b| make!(b, SYS_fallocate, b.fd_of(DISK), 0, b.length(), b.length());
    fsync: |b| make!(b, SYS_fdatasync, b.fd_of(&[Memory, PipeIn]));
    flock: |b| make!(b, SYS_flock, b.fd_of(DISK), LOCK_NB | b.one(&[LOCK_SH, LOCK_EX, LOCK_UN]));
    utimensat: |b| make!(b, SYS_utimensat, b.dirfd(), b.path(), b.words(&[1, 2, 3, 4]), 0);
    utimes: |b| make!(b, SYS_utimes, b.path(), b.words(&[1, 2, 3, 4]));
    utime: |b| make!(b, SYS_utime, b.path(), b.words(&[1, 2]));
    statfs: |b| make!(b, SYS_statfs, b.path(), b.differing(120, &[(16, 40)]));
    fstatfs: |b| make!(b, SYS_fstatfs, b.any_fd(), b.differing(120, &[(16, 40)]));
    getrlimit: |b| make!(b, SYS_getrlimit, b.below(18), b.place(16));
    prlimit64: |b| make!(b, SYS_prlimit64, 0, b.below(18), 0, b.place(16));
    uname: |b| make!(b, SYS_uname, b.place(390));
    sysinfo: |b| make!(b, SYS_sysinfo, b.differing(112, &[(0, 112)]));
    getgroups: |b| make!(b, SYS_getgroups, b.one(&[0i64, 1, 64, -1]), b.place(256));
    getresuid: |b| make!(b, SYS_getresuid, b.place(4), b.place(4), b.place(4));
    getresgid: |b| make!(b, SYS_getresgid, b.place(4), b.place(4), b.place(4));
    sched_getparam: |b| make!(b, SYS_sched_getparam, 0, b.place(4));
    sched_rr_get_interval: |b| make!(b, SYS_sched_rr_get_interval, 0, b.place(16));
    sched_getattr: |b| { let n = b.one(&[48, 56, 47, 100]); make!(b, SYS_sched_getattr, 0, b.place(n), n, 0) };
    sched_setattr: |b| { let n = b.one(&[48, 0, 56, 20, 200]); let mut attr = [0; 25]; attr[0] = n; attr[1] = 0;
        make!(b, SYS_sched_setattr, 0, b.words(&attr), 0) };
    capget: |b| { let version = b.one(&[0x1998_0330, 0x2008_0522, 7]); make!(b, SYS_capget, b.ints(&[version, 0]), b.place(24)) };
    setxattr: |b| { let n = b.length(); make!(b, SYS_setxattr, b.path(), b.xattr_name(), b.data(n), n, 0) };
    fsetxattr: |b| { let n = b.below(40); make!(b, SYS_fsetxattr, b.fd_of(DISK), b.xattr_name(), b.data(n), n, 0) };
    getxattr: |b| { let n = b.one(&[0, 3, 64, 1000]); make!(b, SYS_getxattr, b.path(), b.xattr_name(), b.place(n), n) };
    fgetxattr: |b| { let n = b.one(&[0, 3, 64, 1000]); make!(b, SYS_fgetxattr, b.fd_of(DISK), b.xattr_name(), b.place(n), n) };
    listxattr: |b| { let n = b.one(&[0, 3, 64]); make!(b, SYS_listxattr, b.path(), b.place(n), n) };
    flistxattr: |b| { let n = b.one(&[0, 3, 64]); make!(b, SYS_flistxattr, b.fd_of(DISK), b.place(n), n) };
    fremovexattr: |b| make!(b, SYS_fremovexattr, b.fd_of(DISK), b.xattr_name());
    epoll_wait: |b| { let n = b.one(&[1i64, 2, 8, 0, -1]); make!(b, SYS_epoll_wait, b.fd_of(&[Epoll]), b.place(96), n, 0) };
    epoll_pwait: |b| make!(b, SYS_epoll_pwait, b.fd_of(&[Epoll]), b.place(96), 8, 0, b.signals(), b.one(&[8, 8, 4]));
    epoll_pwait2: |b| make!(b, SYS_epoll_pwait2, b.fd_of(&[Epoll]), b.place(96), 8, b.no_time(), b.signals(), 8);
    epoll_ctl: |b| make!(b, SYS_epoll_ctl, b.fd_of(&[Epoll]), b.below(4), b.any_fd(), b.words(&[0x1_0000_0005, 7]));
    epoll_create1: |b| make!(b, SYS_epoll_create1, b.one(&[0, EPOLL_CLOEXEC]));
    eventfd2: |b| make!(b, SYS_eventfd2, b.below(9), b.one(&[0, EFD_NONBLOCK]));
    timerfd_create: |b| make!(b, SYS_timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK);
    timerfd_settime: |b| make!(b, SYS_timerfd_settime, b.fd_of(&[Timer]), 0, b.words(&[0, 0, 90_000, 0]), b.differing(32, &[(16, 16)]));
    timerfd_gettime: |b| make!(b, SYS_timerfd_gettime, b.fd_of(&[Timer]), b.differing(32, &[(16, 16)]));
    signalfd4: |b| make!(b, SYS_signalfd4, u64::MAX, b.signals(), b.one(&[8, 8, 4]), SFD_NONBLOCK);
    inotify_add_watch: |b| make!(b, SYS_inotify_add_watch, b.fd_of(&[Inotify]), b.path(), 0x102);
    sendfile: |b| { let n = b.length(); make!(b, SYS_sendfile, b.fd_of(&[PipeIn, Stream, Memory]), b.fd_of(DISK), b.offset(), n) };
    splice: |b| { let n = b.length(); make!(b, SYS_splice, b.fd_of(&[Data, PipeOut]), b.offset(), b.fd_of(&[PipeIn, Memory, Data]), b.offset(), n, 2) };
    copy_file_range: |b| { let n = b.length(); make!(b, SYS_copy_file_range, b.fd_of(DISK), b.offset(), b.fd_of(DISK), b.offset(), n, 0) };
    memfd_create: |b| make!(b, SYS_memfd_create, b.path(), 0);
    getrandom: |b| { let n = b.below(256); make!(b, SYS_getrandom, b.differing(n, &[(0, n)]), n, 0) };
    name_to_handle_at: |b| { let n = b.one(&[0, 128, 200]); let mut handle = vec![n, 0]; handle.resize(34, 0x55);
        let at = b.ints(&handle);
        b.unlike.push((at.wrapping_add(8), 128));
        make!(b, SYS_name_to_handle_at, b.dirfd(), b.path(), at, b.place(8), b.one(&[0, AT_EMPTY_PATH])) };
    getitimer: |b| make!(b, SYS_getitimer, 1 + b.below(3), b.place(32));
    getpgid: |b| make!(b, SYS_getpgid, 0);
    cachestat: |b| make!(b, CACHESTAT, b.fd_of(DISK), b.words(&[0, 4096]), b.differing(40, &[(0, 40)]), 0);
    wait4: |b| make!(b, SYS_wait4, u64::MAX, b.place(4), WNOHANG, b.place(144));
    waitid: |b| make!(b, SYS_waitid, P_ALL, 0, b.place(128), WNOHANG | WEXITED, b.place(144));
    rt_sigtimedwait: |b| make!(b, SYS_rt_sigtimedwait, b.words(&[0x800]), b.place(128), b.no_time(), b.one(&[8, 8, 4]));
    listmount: |b| { let size = b.one(&[24, 24, 32, 20, 5000]); let n = b.below(9);
        make!(b, LISTMOUNT, b.words(&[size, u64::MAX, 0, 0]), b.place(8 * n), n, 0) };
    lsm_list_modules: |b| { let size = b.one(&[64, 8, 0, 512]); make!(b, LSM_LIST_MODULES, b.place(512), b.ints(&[size]), 0) };
    msgsnd: |b| make!(b, SYS_msgsnd, u64::MAX, b.words(&[1, 2]), 8, IPC_NOWAIT);
    dup: |b| make!(b, SYS_dup, b.any_fd());
    dup3: |b| make!(b, SYS_dup3, b.any_fd(), 70, O_CLOEXEC);
}
