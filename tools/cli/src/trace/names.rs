//! Names of values, per set.

use hanare_core::syscalls::arguments::Names;

type Table = &'static [(u64, &'static str)];

const OPEN: Table = &[
    (0o20200000, "O_TMPFILE"),
    (0o4010000, "O_SYNC"),
    (0o100, "O_CREAT"),
    (0o200, "O_EXCL"),
    (0o400, "O_NOCTTY"),
    (0o1000, "O_TRUNC"),
    (0o2000, "O_APPEND"),
    (0o4000, "O_NONBLOCK"),
    (0o10000, "O_DSYNC"),
    (0o20000, "O_ASYNC"),
    (0o40000, "O_DIRECT"),
    (0o100000, "O_LARGEFILE"),
    (0o200000, "O_DIRECTORY"),
    (0o400000, "O_NOFOLLOW"),
    (0o1000000, "O_NOATIME"),
    (0o10000000, "O_PATH"),
    (0o2000000, "O_CLOEXEC"),
];
const PROTECTION: Table =
    &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC"), (0x100_0000, "PROT_GROWSDOWN")];
const MAP: Table = &[
    (3, "MAP_SHARED_VALIDATE"),
    (1, "MAP_SHARED"),
    (2, "MAP_PRIVATE"),
    (0x10, "MAP_FIXED"),
    (0x20, "MAP_ANONYMOUS"),
    (0x100, "MAP_GROWSDOWN"),
    (0x800, "MAP_DENYWRITE"),
    (0x1000, "MAP_EXECUTABLE"),
    (0x2000, "MAP_LOCKED"),
    (0x4000, "MAP_NORESERVE"),
    (0x8000, "MAP_POPULATE"),
    (0x10000, "MAP_NONBLOCK"),
    (0x20000, "MAP_STACK"),
    (0x40000, "MAP_HUGETLB"),
    (0x100000, "MAP_FIXED_NOREPLACE"),
];
const CLONE: Table = &[
    (0x100, "CLONE_VM"),
    (0x200, "CLONE_FS"),
    (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"),
    (0x1000, "CLONE_PIDFD"),
    (0x2000, "CLONE_PTRACE"),
    (0x4000, "CLONE_VFORK"),
    (0x8000, "CLONE_PARENT"),
    (0x10000, "CLONE_THREAD"),
    (0x40000, "CLONE_SYSVSEM"),
    (0x80000, "CLONE_SETTLS"),
    (0x100000, "CLONE_PARENT_SETTID"),
    (0x200000, "CLONE_CHILD_CLEARTID"),
    (0x1000000, "CLONE_CHILD_SETTID"),
];
const AT: Table = &[
    (0x100, "AT_SYMLINK_NOFOLLOW"),
    (0x200, "AT_REMOVEDIR"),
    (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
];
const SIGNALS: &[&str] = &[
    "0",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];
const FAMILY: Table = &[
    (0, "AF_UNSPEC"),
    (1, "AF_UNIX"),
    (2, "AF_INET"),
    (10, "AF_INET6"),
    (16, "AF_NETLINK"),
    (17, "AF_PACKET"),
    (38, "AF_ALG"),
    (40, "AF_VSOCK"),
];
const SOCKET: Table = &[(0o2000000, "SOCK_CLOEXEC"), (0o4000, "SOCK_NONBLOCK")];
const SOCKET_TYPES: &[&str] =
    &["0", "SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW", "SOCK_RDM", "SOCK_SEQPACKET"];
const SOCKET_OPTION: Table = &[
    (1, "SO_DEBUG"),
    (2, "SO_REUSEADDR"),
    (3, "SO_TYPE"),
    (4, "SO_ERROR"),
    (5, "SO_DONTROUTE"),
    (6, "SO_BROADCAST"),
    (7, "SO_SNDBUF"),
    (8, "SO_RCVBUF"),
    (9, "SO_KEEPALIVE"),
    (13, "SO_LINGER"),
    (15, "SO_REUSEPORT"),
    (16, "SO_PASSCRED"),
    (17, "SO_PEERCRED"),
    (20, "SO_RCVTIMEO"),
    (21, "SO_SNDTIMEO"),
    (30, "SO_ACCEPTCONN"),
    (38, "SO_PROTOCOL"),
    (39, "SO_DOMAIN"),
];
const MESSAGE: Table = &[
    (1, "MSG_OOB"),
    (2, "MSG_PEEK"),
    (4, "MSG_DONTROUTE"),
    (8, "MSG_CTRUNC"),
    (0x20, "MSG_TRUNC"),
    (0x40, "MSG_DONTWAIT"),
    (0x80, "MSG_EOR"),
    (0x100, "MSG_WAITALL"),
    (0x4000, "MSG_NOSIGNAL"),
    (0x8000, "MSG_MORE"),
    (0x4000_0000, "MSG_CMSG_CLOEXEC"),
];
const FCNTL: Table = &[
    (0, "F_DUPFD"),
    (1, "F_GETFD"),
    (2, "F_SETFD"),
    (3, "F_GETFL"),
    (4, "F_SETFL"),
    (5, "F_GETLK"),
    (6, "F_SETLK"),
    (7, "F_SETLKW"),
    (8, "F_SETOWN"),
    (9, "F_GETOWN"),
    (36, "F_OFD_GETLK"),
    (37, "F_OFD_SETLK"),
    (38, "F_OFD_SETLKW"),
    (1030, "F_DUPFD_CLOEXEC"),
    (1031, "F_SETPIPE_SZ"),
    (1032, "F_GETPIPE_SZ"),
    (1033, "F_ADD_SEALS"),
    (1034, "F_GET_SEALS"),
];
const FUTEX: &[&str] = &[
    "FUTEX_WAIT",
    "FUTEX_WAKE",
    "FUTEX_FD",
    "FUTEX_REQUEUE",
    "FUTEX_CMP_REQUEUE",
    "FUTEX_WAKE_OP",
    "FUTEX_LOCK_PI",
    "FUTEX_UNLOCK_PI",
    "FUTEX_TRYLOCK_PI",
    "FUTEX_WAIT_BITSET",
    "FUTEX_WAKE_BITSET",
    "FUTEX_WAIT_REQUEUE_PI",
    "FUTEX_CMP_REQUEUE_PI",
    "FUTEX_LOCK_PI2",
];
const CLOCKS: &[&str] = &[
    "CLOCK_REALTIME",
    "CLOCK_MONOTONIC",
    "CLOCK_PROCESS_CPUTIME_ID",
    "CLOCK_THREAD_CPUTIME_ID",
    "CLOCK_MONOTONIC_RAW",
    "CLOCK_REALTIME_COARSE",
    "CLOCK_MONOTONIC_COARSE",
    "CLOCK_BOOTTIME",
    "CLOCK_REALTIME_ALARM",
    "CLOCK_BOOTTIME_ALARM",
    "CLOCK_SGI_CYCLE",
    "CLOCK_TAI",
];
const RESOURCES: &[&str] = &[
    "RLIMIT_CPU",
    "RLIMIT_FSIZE",
    "RLIMIT_DATA",
    "RLIMIT_STACK",
    "RLIMIT_CORE",
    "RLIMIT_RSS",
    "RLIMIT_NPROC",
    "RLIMIT_NOFILE",
    "RLIMIT_MEMLOCK",
    "RLIMIT_AS",
    "RLIMIT_LOCKS",
    "RLIMIT_SIGPENDING",
    "RLIMIT_MSGQUEUE",
    "RLIMIT_NICE",
    "RLIMIT_RTPRIO",
    "RLIMIT_RTTIME",
];
const WAIT: Table = &[
    (1, "WNOHANG"),
    (2, "WUNTRACED"),
    (4, "WEXITED"),
    (8, "WCONTINUED"),
    (0x100_0000, "WNOWAIT"),
    (0x2000_0000, "__WNOTHREAD"),
    (0x4000_0000, "__WALL"),
    (0x8000_0000, "__WCLONE"),
];
const PRCTL: Table = &[
    (1, "PR_SET_PDEATHSIG"),
    (2, "PR_GET_PDEATHSIG"),
    (3, "PR_GET_DUMPABLE"),
    (4, "PR_SET_DUMPABLE"),
    (8, "PR_SET_KEEPCAPS"),
    (15, "PR_SET_NAME"),
    (16, "PR_GET_NAME"),
    (22, "PR_SET_SECCOMP"),
    (23, "PR_CAPBSET_READ"),
    (29, "PR_SET_TIMERSLACK"),
    (36, "PR_SET_CHILD_SUBREAPER"),
    (38, "PR_SET_NO_NEW_PRIVS"),
    (39, "PR_GET_NO_NEW_PRIVS"),
    (0x53564d41, "PR_SET_VMA"),
];
const MADVISE: Table = &[
    (0, "MADV_NORMAL"),
    (1, "MADV_RANDOM"),
    (2, "MADV_SEQUENTIAL"),
    (3, "MADV_WILLNEED"),
    (4, "MADV_DONTNEED"),
    (8, "MADV_FREE"),
    (9, "MADV_REMOVE"),
    (10, "MADV_DONTFORK"),
    (11, "MADV_DOFORK"),
    (12, "MADV_MERGEABLE"),
    (14, "MADV_HUGEPAGE"),
    (15, "MADV_NOHUGEPAGE"),
    (16, "MADV_DONTDUMP"),
    (17, "MADV_DODUMP"),
    (18, "MADV_WIPEONFORK"),
    (20, "MADV_COLD"),
    (21, "MADV_PAGEOUT"),
    (22, "MADV_POPULATE_READ"),
    (23, "MADV_POPULATE_WRITE"),
];
const IOCTL: Table = &[
    (0x5401, "TCGETS"),
    (0x5402, "TCSETS"),
    (0x5403, "TCSETSW"),
    (0x5404, "TCSETSF"),
    (0x540f, "TIOCGPGRP"),
    (0x5410, "TIOCSPGRP"),
    (0x5413, "TIOCGWINSZ"),
    (0x5414, "TIOCSWINSZ"),
    (0x541b, "FIONREAD"),
    (0x5421, "FIONBIO"),
    (0x5450, "FIONCLEX"),
    (0x5451, "FIOCLEX"),
    (0x40049409, "FICLONE"),
];
const STATX: Table = &[
    (0x7ff, "STATX_BASIC_STATS"),
    (0x800, "STATX_BTIME"),
    (1, "STATX_TYPE"),
    (2, "STATX_MODE"),
    (4, "STATX_NLINK"),
    (8, "STATX_UID"),
    (0x10, "STATX_GID"),
    (0x20, "STATX_ATIME"),
    (0x40, "STATX_MTIME"),
    (0x80, "STATX_CTIME"),
    (0x100, "STATX_INO"),
    (0x200, "STATX_SIZE"),
    (0x400, "STATX_BLOCKS"),
];
const MEMBARRIER: Table = &[
    (0, "MEMBARRIER_CMD_QUERY"),
    (1, "MEMBARRIER_CMD_GLOBAL"),
    (8, "MEMBARRIER_CMD_PRIVATE_EXPEDITED"),
    (16, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED"),
];

/// The bits of `value`; what has no name is a number.
fn bits(mut value: u64, table: Table, none: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for (bit, name) in table {
        if *bit != 0 && value & bit == *bit {
            names.push((*name).into());
            value &= !bit;
        }
    }
    if value != 0 {
        names.push(format!("{value:#x}"));
    }
    if names.is_empty() { none.into() } else { names.join("|") }
}

fn of(value: u64, table: Table) -> Option<String> {
    table.iter().find(|(known, _)| *known == value).map(|(_, name)| (*name).into())
}

fn nth(value: u64, names: &[&str]) -> Option<String> {
    names.get(usize::try_from(value).ok()?).map(|name| (*name).into())
}

/// A signal's name.
pub fn signal(number: u64) -> String {
    match number {
        0..=31 => SIGNALS[number as usize].into(),
        32..=64 => format!("SIGRT_{}", number - 32),
        other => other.to_string(),
    }
}

/// Bits of an argument.
pub fn flags(value: u64, names: Names) -> String {
    let value = value & 0xffff_ffff;
    match names {
        Names::Open => {
            let mode = ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"][value as usize & 3];
            let rest = bits(value & !3, OPEN, "");
            if rest.is_empty() { mode.into() } else { format!("{mode}|{rest}") }
        }
        Names::Pipe => bits(value, OPEN, "0"),
        Names::Protection => bits(value, PROTECTION, "PROT_NONE"),
        Names::Map => bits(value, MAP, "0"),
        Names::Access => bits(value, &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")], "F_OK"),
        Names::Clone => {
            let rest = bits(value & !0xff, CLONE, "");
            match (rest.is_empty(), value & 0xff) {
                (true, signal_number) => signal(signal_number),
                (false, 0) => rest,
                (false, signal_number) => format!("{rest}|{}", signal(signal_number)),
            }
        }
        Names::At => bits(value, AT, "0"),
        Names::Socket => {
            let kind = nth(value & 0xf, SOCKET_TYPES).unwrap_or_else(|| (value & 0xf).to_string());
            let rest = bits(value & !0xf, SOCKET, "");
            if rest.is_empty() { kind } else { format!("{kind}|{rest}") }
        }
        Names::Message => bits(value, MESSAGE, "0"),
        Names::Futex => {
            let operation = nth(value & 0x7f, FUTEX).unwrap_or_else(|| (value & 0x7f).to_string());
            operation
                + if value & 0x80 != 0 { "_PRIVATE" } else { "" }
                + if value & 0x100 != 0 { "|FUTEX_CLOCK_REALTIME" } else { "" }
        }
        Names::Wait => bits(value, WAIT, "0"),
        Names::Remap => {
            bits(value, &[(1, "MREMAP_MAYMOVE"), (2, "MREMAP_FIXED"), (4, "MREMAP_DONTUNMAP")], "0")
        }
        Names::Sync => bits(value, &[(1, "MS_ASYNC"), (2, "MS_INVALIDATE"), (4, "MS_SYNC")], "0"),
        Names::TimerFlags => {
            bits(value, &[(1, "TIMER_ABSTIME"), (2, "TFD_TIMER_CANCEL_ON_SET")], "0")
        }
        Names::Random => {
            bits(value, &[(1, "GRND_NONBLOCK"), (2, "GRND_RANDOM"), (4, "GRND_INSECURE")], "0")
        }
        Names::Memfd => {
            bits(value, &[(1, "MFD_CLOEXEC"), (2, "MFD_ALLOW_SEALING"), (4, "MFD_HUGETLB")], "0")
        }
        Names::StatxMask => bits(value, STATX, "0"),
        _ => format!("{value:#x}"),
    }
}

/// One value of several.
pub fn one(value: u64, names: Names) -> String {
    let small = value & 0xffff_ffff;
    let found = match names {
        Names::Signal => Some(signal(small)),
        Names::Seek => nth(small, &["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"]),
        Names::How => nth(small, &["SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK"]),
        Names::Family => of(small, FAMILY),
        Names::SocketLevel => of(
            small,
            &[(0, "SOL_IP"), (1, "SOL_SOCKET"), (6, "SOL_TCP"), (17, "SOL_UDP"), (41, "SOL_IPV6")],
        ),
        Names::SocketOption => of(small, SOCKET_OPTION),
        Names::Fcntl => of(small, FCNTL),
        Names::Clock => nth(small, CLOCKS),
        Names::Resource => nth(small, RESOURCES),
        Names::Epoll => nth(small, &["0", "EPOLL_CTL_ADD", "EPOLL_CTL_DEL", "EPOLL_CTL_MOD"]),
        Names::Prctl => of(small, PRCTL),
        Names::ArchPrctl => of(
            small,
            &[
                (0x1001, "ARCH_SET_GS"),
                (0x1002, "ARCH_SET_FS"),
                (0x1003, "ARCH_GET_FS"),
                (0x1004, "ARCH_GET_GS"),
            ],
        ),
        Names::Madvise => of(small, MADVISE),
        Names::Ioctl => of(small, IOCTL),
        Names::Shutdown => nth(small, &["SHUT_RD", "SHUT_WR", "SHUT_RDWR"]),
        Names::Who => {
            of(small, &[(0, "RUSAGE_SELF"), (1, "RUSAGE_THREAD"), (0xffff_ffff, "RUSAGE_CHILDREN")])
        }
        Names::Membarrier => of(small, MEMBARRIER),
        _ => None,
    };
    found.unwrap_or_else(|| if small < 1024 { small.to_string() } else { format!("{small:#x}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_their_names() {
        assert_eq!(flags(0o2000000, Names::Open), "O_RDONLY|O_CLOEXEC");
        assert_eq!(flags(0, Names::Protection), "PROT_NONE");
        assert_eq!(flags(0x22, Names::Map), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(flags(0x8000_0001, Names::Sync), "MS_ASYNC|0x80000000");
        assert_eq!(
            flags(0x1200011, Names::Clone),
            "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD"
        );
        assert_eq!(flags(0x81, Names::Futex), "FUTEX_WAKE_PRIVATE");
        assert_eq!(one(11, Names::Signal), "SIGSEGV");
        assert_eq!(one(77, Names::Clock), "77");
    }
}
