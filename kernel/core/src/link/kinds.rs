//! Kinds of service, each of which may have a request box and servers of its own in a process:
//! calls of one kind that block for long do not keep the others waiting.
//!
//! A call's kind is that of its number and of nothing else. What lies behind a descriptor only
//! Linux knows: to ask it would be a call, and by the time of the call the descriptor may be
//! another file's. So `read`, `write` and `poll` are of the kind [`Kind::Other`], whatever they
//! read, but `pread64` is not, which reads files only.

use crate::syscalls::NUMBERS;
use hanare_abi::requestbox::{BOX_FILES, BOX_NET, BOX_OTHER, BOXES};
use linux_raw_sys::general::*;

/// A kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All that is of no other kind, or whose kind has no box of its own.
    Other,
    /// Files: what is called by a path, and what only files can do.
    Files,
    /// Sockets: calls that only sockets have.
    Net,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; BOXES] = [Kind::Other, Kind::Files, Kind::Net];

    /// The kind's word in options.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Other => "other",
            Kind::Files => "files",
            Kind::Net => "net",
        }
    }

    /// The kind that options spell like this.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Number of the kind's box.
    #[must_use]
    pub const fn number(self) -> usize {
        match self {
            Kind::Other => BOX_OTHER as usize,
            Kind::Files => BOX_FILES as usize,
            Kind::Net => BOX_NET as usize,
        }
    }

    /// The kind of a call that a server may execute.
    #[must_use]
    pub fn of(call: u32) -> Kind {
        KINDS.get(call as usize).copied().unwrap_or(Kind::Other)
    }
}

/// Which kinds have boxes of their own, a bit each ([`Kind::number`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boxes(pub u32);

impl Boxes {
    /// The kinds of a list like `files,net`. `None`: not all of it are kinds.
    #[must_use]
    pub fn of_list(list: &str) -> Option<Boxes> {
        let add = |Boxes(all): Boxes, word| {
            Kind::of_word(word).map(|kind| Boxes(all | 1 << kind.number()))
        };
        list.split(',').try_fold(Boxes::default(), add)
    }

    /// Whether there is more than one box.
    #[must_use]
    pub const fn are_several(self) -> bool {
        self.0 & !(1 << BOX_OTHER) != 0
    }

    /// Number of the box for a call.
    #[must_use]
    pub fn of_call(self, call: u32) -> usize {
        if !self.are_several() {
            return BOX_OTHER as usize;
        }
        let number = Kind::of(call).number();
        if self.0 >> number & 1 != 0 { number } else { BOX_OTHER as usize }
    }

    /// The kinds that have boxes: those of the list, and what is left.
    pub fn kinds(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |kind| (self.0 | 1 << BOX_OTHER) >> kind.number() & 1 != 0)
    }
}

const FILES: &[u32] = &[
    __NR_open,
    __NR_creat,
    __NR_openat,
    __NR_openat2,
    __NR_stat,
    __NR_fstat,
    __NR_lstat,
    __NR_newfstatat,
    __NR_statx,
    __NR_access,
    __NR_faccessat,
    __NR_faccessat2,
    __NR_statfs,
    __NR_fstatfs,
    __NR_getdents,
    __NR_getdents64,
    __NR_getcwd,
    __NR_readlink,
    __NR_readlinkat,
    __NR_lseek,
    __NR_pread64,
    __NR_pwrite64,
    __NR_preadv,
    __NR_pwritev,
    __NR_preadv2,
    __NR_pwritev2,
    __NR_copy_file_range,
    __NR_truncate,
    __NR_ftruncate,
    __NR_fallocate,
    __NR_fsync,
    __NR_fdatasync,
    __NR_sync,
    __NR_syncfs,
    __NR_sync_file_range,
    __NR_readahead,
    __NR_fadvise64,
    __NR_memfd_create,
    __NR_rename,
    __NR_renameat,
    __NR_renameat2,
    __NR_mkdir,
    __NR_mkdirat,
    __NR_rmdir,
    __NR_link,
    __NR_linkat,
    __NR_unlink,
    __NR_unlinkat,
    __NR_symlink,
    __NR_symlinkat,
    __NR_mknod,
    __NR_mknodat,
    __NR_chmod,
    __NR_fchmod,
    __NR_fchmodat,
    __NR_fchmodat2,
    __NR_chown,
    __NR_fchown,
    __NR_lchown,
    __NR_fchownat,
    __NR_utime,
    __NR_utimes,
    __NR_futimesat,
    __NR_utimensat,
    __NR_setxattr,
    __NR_lsetxattr,
    __NR_fsetxattr,
    __NR_getxattr,
    __NR_lgetxattr,
    __NR_fgetxattr,
    __NR_listxattr,
    __NR_llistxattr,
    __NR_flistxattr,
    __NR_removexattr,
    __NR_lremovexattr,
    __NR_fremovexattr,
    __NR_inotify_add_watch,
];

const NET: &[u32] = &[
    __NR_socket,
    __NR_socketpair,
    __NR_bind,
    __NR_listen,
    __NR_connect,
    __NR_accept,
    __NR_accept4,
    __NR_shutdown,
    __NR_getsockname,
    __NR_getpeername,
    __NR_setsockopt,
    __NR_getsockopt,
    __NR_sendto,
    __NR_sendmsg,
    __NR_sendmmsg,
    __NR_recvfrom,
    __NR_recvmsg,
    __NR_recvmmsg,
];

/// Calls on any descriptor, calls that wait for several, and calls about the process. `flock` may
/// wait for ever, and is no file system's.
#[cfg(test)]
const OTHER: &[u32] = &[
    __NR_read,
    __NR_write,
    __NR_readv,
    __NR_writev,
    __NR_close,
    __NR_dup,
    __NR_dup2,
    __NR_dup3,
    __NR_pipe,
    __NR_pipe2,
    __NR_poll,
    __NR_select,
    __NR_epoll_create,
    __NR_epoll_create1,
    __NR_epoll_ctl,
    __NR_epoll_wait,
    __NR_eventfd,
    __NR_eventfd2,
    __NR_timerfd_create,
    __NR_timerfd_settime,
    __NR_timerfd_gettime,
    __NR_inotify_init,
    __NR_inotify_init1,
    __NR_inotify_rm_watch,
    __NR_sendfile,
    __NR_splice,
    __NR_tee,
    __NR_flock,
    __NR_uname,
    __NR_getppid,
    __NR_getpgrp,
    __NR_getpgid,
    __NR_getsid,
];

static KINDS: [Kind; NUMBERS] = {
    let mut kinds = [Kind::Other; NUMBERS];
    let mut at = 0;
    while at < FILES.len() {
        kinds[FILES[at] as usize] = Kind::Files;
        at += 1;
    }
    at = 0;
    while at < NET.len() {
        kinds[NET[at] as usize] = Kind::Net;
        at += 1;
    }
    kinds
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::{By, executed_by, row};

    #[test]
    fn each_call_that_a_server_may_execute_is_of_one_kind() {
        for number in 0..NUMBERS as u64 {
            let lists = [(FILES, Kind::Files), (NET, Kind::Net), (OTHER, Kind::Other)];
            let found: std::vec::Vec<Kind> = lists
                .into_iter()
                .filter(|(list, _)| list.iter().any(|&listed| u64::from(listed) == number))
                .map(|(_, kind)| kind)
                .collect();
            let name = row(number).map(|row| row.name);
            match executed_by(number) {
                By::Own => assert!(found.is_empty(), "{name:?} is never in a box"),
                By::Any | By::Unmasked => assert_eq!(found, [Kind::of(number as u32)], "{name:?}"),
            }
        }
        assert_eq!(Kind::of(u32::MAX), Kind::Other);
    }

    #[test]
    fn a_kind_without_a_box_goes_by_that_for_all_others() {
        let box_of = |list: &str, call| Boxes::of_list(list).map(|boxes| boxes.of_call(call));
        assert_eq!(Boxes::default().of_call(__NR_recvfrom), Kind::Other.number());
        assert_eq!(box_of("net", __NR_recvfrom), Some(Kind::Net.number()));
        assert_eq!(box_of("net", __NR_stat), Some(Kind::Other.number()));
        assert_eq!(box_of("files,net", __NR_stat), Some(Kind::Files.number()));
        assert_eq!(box_of("other", __NR_stat), Some(Kind::Other.number()));
        assert_eq!(box_of("files,net", __NR_read), Some(Kind::Other.number()));
        for wrong in ["", "files,", "disk", "Net"] {
            assert_eq!(Boxes::of_list(wrong), None);
        }
        let kinds = |list| Boxes::of_list(list).map(|boxes| boxes.kinds().count());
        assert_eq!(
            (kinds("files"), kinds("other"), kinds("net,files,other")),
            (Some(2), Some(1), Some(3))
        );
    }

    #[test]
    fn kinds_are_numbered_as_their_boxes() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind.number(), Kind::of_word(kind.word())), (number, Some(kind)));
        }
    }
}
