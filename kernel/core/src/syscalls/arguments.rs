//! What the arguments of each call are: which are numbers, and which point to how
//! much memory that the call reads or writes.
//!
//! One row a call. `hanare trace` prints by it. A call without a row has plain words.

/// Who touches the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The call reads it.
    In,
    /// The call writes it.
    Out,
}

/// Sets of names that the values of an argument have.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Open,
    Protection,
    Map,
    Access,
    Clone,
    Seek,
    At,
    Signal,
    How,
    Family,
    Socket,
    SocketLevel,
    SocketOption,
    Message,
    Fcntl,
    Futex,
    Clock,
    Resource,
    Epoll,
    EpollCreate,
    Wait,
    Prctl,
    ArchPrctl,
    Madvise,
    Ioctl,
    Remap,
    Pipe,
    Shutdown,
    Sync,
    TimerFlags,
    Random,
    Memfd,
    Who,
    StatxMask,
    Membarrier,
}

/// Structures in the short form that a trace shows.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    Timespec,
    Timeval,
    TimespecPair,
    TimevalPair,
    Stat,
    Statx,
    SignalSet,
    SignalAction,
    DescriptorPair,
    Poll,
    Limit,
    Utsname,
    EpollEvent,
    Word,
    Long,
    Fpair,
}

impl Structure {
    /// Its bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Word => 4,
            Self::SignalSet | Self::Long | Self::DescriptorPair | Self::Poll => 8,
            Self::EpollEvent => 12,
            Self::Timespec | Self::Timeval | Self::Limit | Self::Fpair => 16,
            Self::SignalAction | Self::TimespecPair | Self::TimevalPair => 32,
            Self::Stat => 144,
            Self::Statx => 256,
            Self::Utsname => 390,
        }
    }
}

/// One argument. Numbers in brackets are the argument that says how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A signed number of 32 bits.
    Int,
    /// An unsigned number.
    Unsigned,
    /// An address, or bits without names.
    Hex,
    /// A position, or bits without names.
    Bits,
    /// Permissions, octal.
    Mode,
    /// A descriptor.
    Descriptor,
    /// A descriptor of a folder, or AT_FDCWD.
    Folder,
    /// One value of several.
    One(Names),
    /// Bits.
    Flags(Names),
    /// Bytes up to a zero.
    Text,
    /// Bytes that are read: as many as another argument says.
    Input(u8),
    /// Bytes that are written: as many as the result says, at most another argument.
    Output(u8),
    /// Pointers to strings, up to a null pointer.
    Strings,
    /// A structure.
    Struct(Structure, Direction),
    /// As many as another argument says.
    Many(Structure, u8, Direction),
    /// A socket address that is read, of as many bytes as another argument says.
    Address(u8),
    /// One that is written; another argument points to its size.
    AddressOut(u8),
    /// `struct iovec`s, as many as another argument says.
    Vectors(u8, Direction),
}

use Argument::{
    Address, AddressOut, Bits, Descriptor, Flags, Folder, Hex, Input, Int, Many, Mode, One, Output,
    Strings, Struct, Text, Unsigned, Vectors,
};
use Direction::{In, Out};
use Structure::{
    DescriptorPair, EpollEvent, Fpair, Limit, Long, Poll, SignalAction, SignalSet, Stat, Statx,
    Timespec, TimespecPair, Timeval, TimevalPair, Utsname, Word,
};

/// What the arguments of a call are; empty: plain words.
#[must_use]
pub fn arguments(name: &str) -> &'static [Argument] {
    match ROWS.binary_search_by(|row| row.0.cmp(name)) {
        Ok(at) => ROWS[at].1,
        Err(_) => &[],
    }
}

/// By name, sorted (a test says so).
static ROWS: &[(&str, &[Argument])] = &[
    ("accept", &[Descriptor, AddressOut(2), Struct(Word, Out)]),
    ("accept4", &[Descriptor, AddressOut(2), Struct(Word, Out), Flags(Names::Socket)]),
    ("access", &[Text, Flags(Names::Access)]),
    ("acct", &[Text]),
    ("alarm", &[Unsigned]),
    ("arch_prctl", &[One(Names::ArchPrctl), Hex]),
    ("bind", &[Descriptor, Address(2), Unsigned]),
    ("brk", &[Hex]),
    ("chdir", &[Text]),
    ("chmod", &[Text, Mode]),
    ("chown", &[Text, Int, Int]),
    ("chroot", &[Text]),
    ("clock_getres", &[One(Names::Clock), Struct(Timespec, Out)]),
    ("clock_gettime", &[One(Names::Clock), Struct(Timespec, Out)]),
    ("clock_nanosleep", &[One(Names::Clock), Flags(Names::TimerFlags), Struct(Timespec, In), Hex]),
    ("clone", &[Flags(Names::Clone), Hex, Hex, Hex, Hex]),
    ("clone3", &[Hex, Unsigned]),
    ("close", &[Descriptor]),
    ("close_range", &[Unsigned, Unsigned, Bits]),
    ("connect", &[Descriptor, Address(2), Unsigned]),
    ("copy_file_range", &[Descriptor, Hex, Descriptor, Hex, Unsigned, Hex]),
    ("creat", &[Text, Mode]),
    ("dup", &[Descriptor]),
    ("dup2", &[Descriptor, Descriptor]),
    ("dup3", &[Descriptor, Descriptor, Flags(Names::Pipe)]),
    ("epoll_create", &[Int]),
    ("epoll_create1", &[Flags(Names::Pipe)]),
    ("epoll_ctl", &[Descriptor, One(Names::Epoll), Descriptor, Struct(EpollEvent, In)]),
    ("epoll_pwait", &[Descriptor, Hex, Int, Int, Struct(SignalSet, In), Unsigned]),
    ("epoll_wait", &[Descriptor, Hex, Int, Int]),
    ("eventfd", &[Unsigned]),
    ("eventfd2", &[Unsigned, Flags(Names::Pipe)]),
    ("execve", &[Text, Strings, Hex]),
    ("execveat", &[Folder, Text, Strings, Hex, Flags(Names::At)]),
    ("exit", &[Int]),
    ("exit_group", &[Int]),
    ("faccessat", &[Folder, Text, Flags(Names::Access)]),
    ("faccessat2", &[Folder, Text, Flags(Names::Access), Flags(Names::At)]),
    ("fadvise64", &[Descriptor, Unsigned, Unsigned, Int]),
    ("fallocate", &[Descriptor, Bits, Unsigned, Unsigned]),
    ("fchdir", &[Descriptor]),
    ("fchmod", &[Descriptor, Mode]),
    ("fchmodat", &[Folder, Text, Mode]),
    ("fchown", &[Descriptor, Int, Int]),
    ("fchownat", &[Folder, Text, Int, Int, Flags(Names::At)]),
    ("fcntl", &[Descriptor, One(Names::Fcntl), Hex]),
    ("fdatasync", &[Descriptor]),
    ("fgetxattr", &[Descriptor, Text, Output(3), Unsigned]),
    ("flock", &[Descriptor, Int]),
    ("fork", &[]),
    ("fstat", &[Descriptor, Struct(Stat, Out)]),
    ("fstatfs", &[Descriptor, Hex]),
    ("fsync", &[Descriptor]),
    ("ftruncate", &[Descriptor, Unsigned]),
    ("futex", &[Hex, Flags(Names::Futex), Unsigned, Hex, Hex, Hex]),
    ("futimesat", &[Folder, Text, Hex]),
    ("getcwd", &[Output(1), Unsigned]),
    ("getdents", &[Descriptor, Hex, Unsigned]),
    ("getdents64", &[Descriptor, Hex, Unsigned]),
    ("getitimer", &[Int, Struct(TimevalPair, Out)]),
    ("getpeername", &[Descriptor, AddressOut(2), Struct(Word, Out)]),
    ("getpgid", &[Int]),
    ("getpriority", &[Int, Int]),
    ("getrandom", &[Output(1), Unsigned, Flags(Names::Random)]),
    ("getrlimit", &[One(Names::Resource), Struct(Limit, Out)]),
    ("getrusage", &[One(Names::Who), Hex]),
    ("getsid", &[Int]),
    ("getsockname", &[Descriptor, AddressOut(2), Struct(Word, Out)]),
    (
        "getsockopt",
        &[
            Descriptor,
            One(Names::SocketLevel),
            One(Names::SocketOption),
            Struct(Word, Out),
            Struct(Word, Out),
        ],
    ),
    ("gettimeofday", &[Struct(Timeval, Out), Hex]),
    ("getxattr", &[Text, Text, Output(3), Unsigned]),
    ("inotify_add_watch", &[Descriptor, Text, Bits]),
    ("inotify_init1", &[Flags(Names::Pipe)]),
    ("ioctl", &[Descriptor, One(Names::Ioctl), Hex]),
    ("kill", &[Int, One(Names::Signal)]),
    ("lchown", &[Text, Int, Int]),
    ("lgetxattr", &[Text, Text, Output(3), Unsigned]),
    ("link", &[Text, Text]),
    ("linkat", &[Folder, Text, Folder, Text, Flags(Names::At)]),
    ("listen", &[Descriptor, Int]),
    ("lseek", &[Descriptor, Unsigned, One(Names::Seek)]),
    ("lstat", &[Text, Struct(Stat, Out)]),
    ("madvise", &[Hex, Unsigned, One(Names::Madvise)]),
    ("membarrier", &[One(Names::Membarrier), Hex, Int]),
    ("memfd_create", &[Text, Flags(Names::Memfd)]),
    ("mkdir", &[Text, Mode]),
    ("mkdirat", &[Folder, Text, Mode]),
    ("mknod", &[Text, Mode, Hex]),
    ("mknodat", &[Folder, Text, Mode, Hex]),
    ("mmap", &[Hex, Unsigned, Flags(Names::Protection), Flags(Names::Map), Descriptor, Bits]),
    ("mount", &[Text, Text, Text, Bits, Hex]),
    ("mprotect", &[Hex, Unsigned, Flags(Names::Protection)]),
    ("mremap", &[Hex, Unsigned, Unsigned, Flags(Names::Remap), Hex]),
    ("msync", &[Hex, Unsigned, Flags(Names::Sync)]),
    ("munmap", &[Hex, Unsigned]),
    ("nanosleep", &[Struct(Timespec, In), Hex]),
    ("newfstatat", &[Folder, Text, Struct(Stat, Out), Flags(Names::At)]),
    ("open", &[Text, Flags(Names::Open), Mode]),
    ("openat", &[Folder, Text, Flags(Names::Open), Mode]),
    ("openat2", &[Folder, Text, Hex, Unsigned]),
    ("pidfd_open", &[Int, Bits]),
    ("pidfd_send_signal", &[Descriptor, One(Names::Signal), Hex, Hex]),
    ("pipe", &[Struct(DescriptorPair, Out)]),
    ("pipe2", &[Struct(DescriptorPair, Out), Flags(Names::Pipe)]),
    ("pivot_root", &[Text, Text]),
    ("poll", &[Many(Poll, 1, In), Unsigned, Int]),
    (
        "ppoll",
        &[Many(Poll, 1, In), Unsigned, Struct(Timespec, In), Struct(SignalSet, In), Unsigned],
    ),
    ("prctl", &[One(Names::Prctl), Hex, Hex, Hex, Hex]),
    ("pread64", &[Descriptor, Output(2), Unsigned, Unsigned]),
    ("preadv", &[Descriptor, Vectors(2, Out), Unsigned, Unsigned, Hex]),
    ("prlimit64", &[Int, One(Names::Resource), Struct(Limit, In), Struct(Limit, Out)]),
    ("pselect6", &[Int, Hex, Hex, Hex, Struct(Timespec, In), Struct(Fpair, In)]),
    ("pwrite64", &[Descriptor, Input(2), Unsigned, Unsigned]),
    ("pwritev", &[Descriptor, Vectors(2, In), Unsigned, Unsigned, Hex]),
    ("read", &[Descriptor, Output(2), Unsigned]),
    ("readlink", &[Text, Output(2), Unsigned]),
    ("readlinkat", &[Folder, Text, Output(3), Unsigned]),
    ("readv", &[Descriptor, Vectors(2, Out), Unsigned]),
    (
        "recvfrom",
        &[Descriptor, Output(2), Unsigned, Flags(Names::Message), AddressOut(5), Struct(Word, Out)],
    ),
    ("recvmsg", &[Descriptor, Hex, Flags(Names::Message)]),
    ("rename", &[Text, Text]),
    ("renameat", &[Folder, Text, Folder, Text]),
    ("renameat2", &[Folder, Text, Folder, Text, Bits]),
    ("rmdir", &[Text]),
    ("rseq", &[Hex, Unsigned, Hex, Hex]),
    (
        "rt_sigaction",
        &[One(Names::Signal), Struct(SignalAction, In), Struct(SignalAction, Out), Unsigned],
    ),
    ("rt_sigpending", &[Struct(SignalSet, Out), Unsigned]),
    ("rt_sigprocmask", &[One(Names::How), Struct(SignalSet, In), Struct(SignalSet, Out), Unsigned]),
    ("rt_sigqueueinfo", &[Int, One(Names::Signal), Hex]),
    ("rt_sigsuspend", &[Struct(SignalSet, In), Unsigned]),
    ("rt_sigtimedwait", &[Struct(SignalSet, In), Hex, Struct(Timespec, In), Unsigned]),
    ("select", &[Int, Hex, Hex, Hex, Struct(Timeval, In)]),
    ("sendfile", &[Descriptor, Descriptor, Struct(Long, In), Unsigned]),
    ("sendmsg", &[Descriptor, Hex, Flags(Names::Message)]),
    ("sendto", &[Descriptor, Input(2), Unsigned, Flags(Names::Message), Address(5), Unsigned]),
    ("set_robust_list", &[Hex, Unsigned]),
    ("set_tid_address", &[Hex]),
    ("setgid", &[Int]),
    ("setitimer", &[Int, Struct(TimevalPair, In), Struct(TimevalPair, Out)]),
    ("setpgid", &[Int, Int]),
    ("setpriority", &[Int, Int, Int]),
    ("setrlimit", &[One(Names::Resource), Struct(Limit, In)]),
    (
        "setsockopt",
        &[Descriptor, One(Names::SocketLevel), One(Names::SocketOption), Input(4), Unsigned],
    ),
    ("setuid", &[Int]),
    ("shutdown", &[Descriptor, One(Names::Shutdown)]),
    ("sigaltstack", &[Hex, Hex]),
    ("socket", &[One(Names::Family), Flags(Names::Socket), Int]),
    ("socketpair", &[One(Names::Family), Flags(Names::Socket), Int, Struct(DescriptorPair, Out)]),
    ("splice", &[Descriptor, Hex, Descriptor, Hex, Unsigned, Hex]),
    ("stat", &[Text, Struct(Stat, Out)]),
    ("statfs", &[Text, Hex]),
    ("statx", &[Folder, Text, Flags(Names::At), Flags(Names::StatxMask), Struct(Statx, Out)]),
    ("symlink", &[Text, Text]),
    ("symlinkat", &[Text, Folder, Text]),
    ("sysinfo", &[Hex]),
    ("tgkill", &[Int, Int, One(Names::Signal)]),
    ("timerfd_create", &[One(Names::Clock), Flags(Names::Pipe)]),
    ("timerfd_settime", &[Descriptor, Flags(Names::TimerFlags), Struct(TimespecPair, In), Hex]),
    ("tkill", &[Int, One(Names::Signal)]),
    ("truncate", &[Text, Unsigned]),
    ("umask", &[Mode]),
    ("umount2", &[Text, Bits]),
    ("uname", &[Struct(Utsname, Out)]),
    ("unlink", &[Text]),
    ("unlinkat", &[Folder, Text, Flags(Names::At)]),
    ("utimensat", &[Folder, Text, Struct(TimespecPair, In), Flags(Names::At)]),
    ("wait4", &[Int, Struct(Word, Out), Flags(Names::Wait), Hex]),
    ("waitid", &[Int, Int, Hex, Flags(Names::Wait), Hex]),
    ("write", &[Descriptor, Input(2), Unsigned]),
    ("writev", &[Descriptor, Vectors(2, In), Unsigned]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::rows;

    #[test]
    fn rows_are_sorted_and_of_calls_that_exist() {
        for pair in ROWS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{}", pair[1].0);
        }
        for (name, arguments) in ROWS {
            let row =
                rows().iter().find(|row| row.name == *name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(usize::from(row.args), arguments.len(), "{name}");
        }
    }

    #[test]
    fn references_are_to_other_arguments() {
        for (name, arguments) in ROWS {
            for argument in *arguments {
                let other = match *argument {
                    Input(n)
                    | Output(n)
                    | Address(n)
                    | AddressOut(n)
                    | Vectors(n, _)
                    | Many(_, n, _) => usize::from(n),
                    _ => continue,
                };
                assert!(other < arguments.len(), "{name}");
                assert!(matches!(arguments[other], Unsigned | Int | Struct(Word, _)), "{name}");
            }
        }
    }

    #[test]
    fn arguments_are_looked_up_by_name() {
        assert_eq!(arguments("read")[1], Output(2));
        assert!(arguments("no_such_call").is_empty());
    }
}
