//! Files, pipes and sockets that are the same each time.

use std::fs;
use std::hash::{Hash, Hasher};
use std::os::fd::RawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::PathBuf;

/// The first descriptor that is made here.
const FIRST: RawFd = 40;
/// Above all of them.
const AWAY: RawFd = 200;
/// Where the paths of the calls begin.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("hanare-marshal-{}", std::process::id()))
}

/// Leaves nothing behind.
pub fn remove() {
    let _ = fs::remove_dir_all(folder());
}

/// Descriptors by what they are.
#[derive(Clone, Copy)]
pub enum File {
    Data,
    Append,
    PipeOut,
    PipeIn,
    Stream,
    StreamPeer,
    Datagram,
    DatagramPeer,
    Counter,
    Timer,
    Epoll,
    Folder,
    Listener,
    Terminal,
    Memory,
    Inotify,
    Unconnected,
    Closed,
}

pub const FILES: usize = File::Closed as usize + 1;

pub struct Fixture;

fn made(fd: RawFd, as_file: File) {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    let number = Fixture.fd(as_file);
    // SAFETY: descriptors of the tests.
    unsafe {
        assert_eq!(libc::dup2(fd, number), number);
        if fd != number {
            libc::close(fd);
        }
    }
}

fn send(file: File, bytes: &[u8]) {
    // SAFETY: reads `bytes`.
    let sent = unsafe { libc::write(Fixture.fd(file), bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(sent, bytes.len() as isize, "{}", std::io::Error::last_os_error());
}

/// Different from byte to byte.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 251) as u8).collect()
}

impl Fixture {
    pub fn new() -> Self {
        // SAFETY: closes descriptors of the tests only, all others have lower numbers.
        unsafe {
            libc::close_range(FIRST as u32, u32::MAX, 0);
            // The lowest ones that are free are those that stay so.
            for fd in 3..FIRST {
                if libc::fcntl(fd, libc::F_GETFD) < 0 {
                    libc::dup2(2, fd);
                }
            }
        }
        files();
        descriptors();
        Self
    }

    pub const fn fd(&self, file: File) -> RawFd {
        FIRST + file as RawFd
    }

    /// Contents of the files, and how far they have been read.
    pub fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        let mut names: Vec<_> = ["", "dir"]
            .iter()
            .flat_map(|name| fs::read_dir(folder().join(name)).into_iter().flatten())
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        for path in names {
            let meta = fs::symlink_metadata(&path).unwrap();
            let mode = meta.permissions().mode();
            let bytes =
                if meta.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            let mut sum = std::hash::DefaultHasher::new();
            bytes.hash(&mut sum);
            let (name, size) = (path.display(), meta.len());
            state.push(format!("{name} {mode:o} {size} {:x}", sum.finish()));
        }
        for fd in FIRST..FIRST + 64 {
            let mut queued = 0i32;
            // SAFETY: a descriptor of the tests or none; writes one word.
            let (at, flags, left) = unsafe {
                (
                    libc::lseek(fd, 0, libc::SEEK_CUR),
                    libc::fcntl(fd, libc::F_GETFL),
                    libc::ioctl(fd, libc::FIONREAD, &raw mut queued),
                )
            };
            if flags >= 0 {
                state.push(format!("{fd}: at {at}, flags {flags:x}, {left} {queued}"));
            }
        }
        state
    }
}

fn files() {
    let folder = folder();
    for name in ["d2", "dir"] {
        let _ = fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755));
    }
    let _ = fs::remove_dir_all(&folder);
    for name in ["dir", "d2"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    std::env::set_current_dir(&folder).unwrap();
    fs::write("data", pattern(20000)).unwrap();
    fs::write("append", b"begin").unwrap();
    for name in ["one", "another", "third"] {
        fs::write(folder.join("dir").join(name), name).unwrap();
    }
    symlink("data", "link").unwrap();
}

fn descriptors() {
    use File::*;
    let nonblock = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let open = |name: &str, flags| {
        use std::os::fd::IntoRawFd;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(flags & libc::O_DIRECTORY == 0);
        options.custom_flags(flags).open(name).unwrap().into_raw_fd()
    };
    made(open("data", 0), Data);
    // Where the file system has none there is one thing less to read.
    // SAFETY: reads two strings and three bytes.
    unsafe {
        let (data, name) = (Fixture.fd(Data), c"user.a".as_ptr());
        libc::fsetxattr(data, name, b"one".as_ptr().cast(), 3, 0);
    }
    made(open("append", libc::O_APPEND), Append);
    made(open("dir", libc::O_DIRECTORY), Folder);
    let pair = |made_by: &dyn Fn(&mut [RawFd; 2]) -> i32| {
        let mut fds = [0; 2];
        assert_eq!(made_by(&mut fds), 0);
        // Out of the way of those that are made first.
        fds.map(|fd| {
            // SAFETY: descriptors of the tests.
            unsafe {
                let away = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, AWAY);
                libc::close(fd);
                away
            }
        })
    };
    let kind = |kind| {
        move |fds: &mut [RawFd; 2]| {
            // SAFETY: writes two descriptors.
            unsafe { libc::socketpair(libc::AF_UNIX, kind | nonblock, 0, fds.as_mut_ptr()) }
        }
    };
    // SAFETY: writes two descriptors.
    let pipe = pair(&|fds| unsafe { libc::pipe2(fds.as_mut_ptr(), nonblock) });
    made(pipe[0], PipeOut);
    made(pipe[1], PipeIn);
    let stream = pair(&kind(libc::SOCK_STREAM));
    made(stream[0], Stream);
    made(stream[1], StreamPeer);
    let datagrams = pair(&kind(libc::SOCK_DGRAM));
    made(datagrams[0], Datagram);
    made(datagrams[1], DatagramPeer);
    // SAFETY: these make descriptors.
    unsafe {
        made(libc::eventfd(3, nonblock), Counter);
        made(libc::timerfd_create(libc::CLOCK_MONOTONIC, nonblock), Timer);
        made(libc::epoll_create1(libc::EPOLL_CLOEXEC), Epoll);
        made(libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK), Terminal);
        // Nothing is echoed, which would come at some time.
        let mut settings = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(Fixture.fd(Terminal), &raw mut settings), 0);
        settings.c_lflag = 0;
        assert_eq!(libc::tcsetattr(Fixture.fd(Terminal), libc::TCSANOW, &raw const settings), 0);
        made(libc::memfd_create(c"memory".as_ptr(), 0), Memory);
        made(libc::inotify_init1(libc::IN_NONBLOCK), Inotify);
        made(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | nonblock, 0), Unconnected);
        made(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | nonblock, 0), Listener);
        let address = unix(b"socket");
        let size = 2 + 7;
        let listener = Fixture.fd(Listener);
        assert_eq!(libc::bind(listener, (&raw const address).cast(), size), 0);
        assert_eq!(libc::listen(listener, 4), 0);
        let client = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | nonblock, 0);
        let own = unix(b"client");
        assert_eq!(libc::bind(client, (&raw const own).cast(), size), 0);
        assert_eq!(libc::connect(client, (&raw const address).cast(), size), 0);
        assert_eq!(libc::dup2(client, FIRST + FILES as RawFd), FIRST + FILES as RawFd);
        libc::close(client);
    }
    send(PipeIn, &pattern(3000));
    send(Stream, &pattern(700));
    send(StreamPeer, &pattern(900));
    for size in [100, 30, 50] {
        send(Datagram, &pattern(size));
        send(DatagramPeer, &pattern(size + 1));
    }
    for file in [PipeOut, Counter, Stream] {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: file as u64 };
        let (epoll, fd) = (Fixture.fd(Epoll), Fixture.fd(file));
        // SAFETY: reads the event.
        let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        assert_eq!(added, 0);
    }
}

fn unix(path: &[u8]) -> libc::sockaddr_un {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    for (place, byte) in address.sun_path.iter_mut().zip(path) {
        *place = *byte as libc::c_char;
    }
    address
}
