//! Native tasks: which system calls a pooled proxy may execute for one, and which only if it stays
//! with the task.
//!
//! A pooled proxy has what the command that started the task has: descriptors 0 to 2, directories,
//! rights. A call that leaves nothing behind in the process that makes it may go to any of them.
//! One that does, as a descriptor or a directory, is of use to a task only that keeps its proxy
//! (`PR_HANARE_PROXY`). What changes the identity of a process, or what it is to others (rights,
//! children, signals, timers, memory), is not there: the proxy is not the task.

#![allow(non_upper_case_globals)] // of linux-raw-sys

use crate::syscalls::{self, By, Service};
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::{FIONREAD, TCGETS, TIOCGWINSZ};

/// prctl(2): whether a native task keeps the pooled proxy that executes its calls. Linux, and
/// programs of `hanare run`, do not know it (`EINVAL`). The second argument is one of [`KEEP`],
/// [`GIVE_BACK`], [`ASK`].
pub const PR_HANARE_PROXY: u32 = 0x484e_5058; // "HNPX"
/// From its next call on the task keeps its proxy.
pub const KEEP: u64 = 1;
/// The task gives its proxy back, which forgets what was opened.
pub const GIVE_BACK: u64 = 0;
/// The result is 1 if the task keeps its proxy, else 0.
pub const ASK: u64 = 2;

/// Side that may execute a call of a native task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The LWK serves the call.
    Local,
    /// Any proxy of the pool may execute the call.
    Any,
    /// A proxy that stays with the task may execute it.
    Kept,
    /// The call is refused.
    Refused,
}

/// Calls that may leave something behind in the process that makes them.
const LEAVES: [u32; 33] = [
    __NR_open,
    __NR_creat,
    __NR_openat,
    __NR_openat2,
    __NR_close,
    __NR_close_range,
    __NR_dup,
    __NR_dup2,
    __NR_dup3,
    __NR_pipe,
    __NR_pipe2,
    __NR_socket,
    __NR_socketpair,
    __NR_accept,
    __NR_accept4,
    __NR_recvmsg,
    __NR_recvmmsg,
    __NR_epoll_create,
    __NR_epoll_create1,
    __NR_epoll_pwait,
    __NR_epoll_pwait2,
    __NR_inotify_init,
    __NR_inotify_init1,
    __NR_eventfd,
    __NR_eventfd2,
    __NR_timerfd_create,
    __NR_memfd_create,
    __NR_fcntl,
    __NR_ioctl,
    __NR_chdir,
    __NR_fchdir,
    __NR_umask,
    __NR_flock,
];
/// Calls that depend on the thread that makes them, in a way that a native task does not see.
const HARMLESS: [u32; 12] = [
    __NR_ioctl,
    __NR_fcntl,
    __NR_chdir,
    __NR_fchdir,
    __NR_umask,
    __NR_close_range,
    __NR_ppoll,
    __NR_pselect6,
    __NR_epoll_pwait,
    __NR_epoll_pwait2,
    __NR_getrandom,
    __NR_sysinfo,
];
/// Commands of ioctl(2) that only ask.
const QUESTIONS: [u32; 3] = [TCGETS, TIOCGWINSZ, FIONREAD];
/// Calls that the LWK serves for programs that have a proxy of their own.
const NEED_PROXY: [u32; 13] = [
    __NR_clone,
    __NR_clone3,
    __NR_fork,
    __NR_vfork,
    __NR_execve,
    __NR_execveat,
    __NR_shmat,
    __NR_shmdt,
    __NR_ptrace,
    __NR_seccomp,
    __NR_io_setup,
    __NR_io_destroy,
    __NR_remap_file_pages,
];

/// The side that may execute a call of a native task.
#[must_use]
pub fn kind(number: u32, args: &[u64; 6]) -> Kind {
    let Some(row) = syscalls::row(number.into()) else { return Kind::Refused };
    match row.service {
        Service::Refused(..) => Kind::Local, // which says why
        Service::Local if NEED_PROXY.contains(&number) || maps_file(number, args) => Kind::Refused,
        Service::Local => Kind::Local,
        Service::Delegated(_) => of_delegated(number, row.by, args),
    }
}

/// Whether a pooled proxy may execute a delegated call with some arguments at least.
#[must_use]
pub const fn may_be_pooled(number: u32, by: By) -> bool {
    !matches!(by, By::Own) || syscalls::is_one_of(number, &HARMLESS) || number == __NR_prlimit64
}

fn of_delegated(number: u32, by: By, args: &[u64; 6]) -> Kind {
    let is_harmless =
        may_be_pooled(number, by) && (number != __NR_prlimit64 || asks_for_limit(number, args));
    if !is_harmless || has_mask(number, args) {
        return Kind::Refused;
    }
    let only_asks = number == __NR_ioctl && QUESTIONS.contains(&(args[1] as u32));
    if LEAVES.contains(&number) && !only_asks { Kind::Kept } else { Kind::Any }
}

/// Bytes of a path that [`names_self`] looks at.
pub const LOOKED_AT: usize = 64;

/// Whether a path that begins so leads to what /proc has of the calling process or thread, as it is
/// written: what symbolic links and `..` lead to is not known here.
#[must_use]
pub fn names_self(path: &[u8]) -> bool {
    let text = path.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut names = text.split(|&byte| byte == b'/').filter(|name| !matches!(name, [] | [b'.']));
    text.starts_with(b"/")
        && names.next() == Some(b"proc")
        && matches!(names.next(), Some(b"self" | b"thread-self"))
}

/// mmap(2) of a file, which the LWK has of a program's own proxy, or of memory that Linux has, too.
fn maps_file(number: u32, args: &[u64; 6]) -> bool {
    const PRIVATE: u64 = (MAP_ANONYMOUS | MAP_PRIVATE) as u64;
    number == __NR_mmap && args[3] & (PRIVATE | u64::from(MAP_SHARED)) != PRIVATE
}

/// prlimit(2) that sets none.
fn asks_for_limit(number: u32, args: &[u64; 6]) -> bool {
    number == __NR_prlimit64 && args[0] == 0 && args[2] == 0
}

/// A signal mask for the time of the call: signals do not go to pooled proxies.
fn has_mask(number: u32, args: &[u64; 6]) -> bool {
    match number {
        __NR_ppoll => args[3] != 0,
        __NR_pselect6 => args[5] != 0,
        __NR_epoll_pwait | __NR_epoll_pwait2 => args[4] != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u32) -> Kind {
        kind(number, &[0; 6])
    }

    #[test]
    fn calls_that_leave_nothing_behind_go_to_any_proxy() {
        for number in [__NR_write, __NR_newfstatat, __NR_getppid, __NR_mkdir, __NR_uname] {
            assert_eq!(of(number), Kind::Any, "{number}");
        }
        assert_eq!(kind(__NR_ioctl, &[1, TCGETS.into(), 0, 0, 0, 0]), Kind::Any);
    }

    #[test]
    fn calls_that_leave_something_behind_need_a_proxy_that_stays() {
        for number in LEAVES {
            assert_eq!(of(number), Kind::Kept, "{number}");
        }
    }

    /// Rows that any worker may execute are listed here, with what they are to a native task.
    #[test]
    fn every_row_for_any_worker_was_looked_at() {
        let rows = (0..500).filter_map(syscalls::row);
        let any = rows.filter(|row| {
            matches!(row.service, Service::Delegated(_)) && of(row.number.into()) == Kind::Any
        });
        assert_eq!(any.count(), 108);
    }

    #[test]
    fn what_a_process_is_does_not_change_for_a_native_task() {
        for number in
            [__NR_setuid, __NR_kill, __NR_clone, __NR_execve, __NR_shmget, __NR_timer_create]
        {
            assert_eq!(of(number), Kind::Refused, "{number}");
        }
    }

    #[test]
    fn a_file_is_not_mapped_and_a_limit_is_not_set() {
        let anonymous = [0, 4096, 3, u64::from(MAP_ANONYMOUS | MAP_PRIVATE), u64::MAX, 0];
        assert_eq!(kind(__NR_mmap, &anonymous), Kind::Local);
        assert_eq!(kind(__NR_mmap, &[0, 4096, 3, MAP_PRIVATE.into(), 3, 0]), Kind::Refused);
        let shared = u64::from(MAP_ANONYMOUS | MAP_SHARED);
        assert_eq!(kind(__NR_mmap, &[0, 4096, 3, shared, u64::MAX, 0]), Kind::Refused);
        assert_eq!(kind(__NR_prlimit64, &[0, 3, 0, 0x1000, 0, 0]), Kind::Any);
        assert_eq!(kind(__NR_prlimit64, &[0, 3, 0x1000, 0, 0, 0]), Kind::Refused);
        assert_eq!(kind(__NR_prlimit64, &[7, 3, 0, 0x1000, 0, 0]), Kind::Refused);
    }

    #[test]
    fn paths_of_the_calling_process_are_found() {
        for path in [
            &b"/proc/self"[..],
            b"/proc/self/exe\0",
            b"//proc/.//thread-self/attr",
            b"/proc/self\0/",
        ] {
            assert!(names_self(path), "{path:?}");
        }
        for path in
            [&b"/proc/selfish"[..], b"/proc/1/exe", b"proc/self", b"/proc\0/self", b"/self", b""]
        {
            assert!(!names_self(path), "{path:?}");
        }
    }

    #[test]
    fn no_signal_mask_goes_to_a_pooled_proxy() {
        assert_eq!(kind(__NR_ppoll, &[0, 0, 0, 0x1000, 8, 0]), Kind::Refused);
        assert_eq!(kind(__NR_ppoll, &[0; 6]), Kind::Any);
    }
}
