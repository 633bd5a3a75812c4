//! Files by which a thread changes what security modules keep of it: those in the folders `attr` of
//! procfs.

use crate::calls::Arguments;
use crate::sys;

/// Whether a call that opens a file, with these flags, leads to such a file for writing, however
/// the path is spelled. It has not been made yet.
///
/// The files are those of procfs to which all may write; a few others do no harm (`timerslack_ns`,
/// `pressure`). So the mode and the size are asked for first, which nearly always answers it; a
/// descriptor is taken, for a moment, where they do not.
pub fn are_opened(nr: i64, args: &Arguments, flags: i32) -> bool {
    if flags & libc::O_ACCMODE == libc::O_RDONLY || flags & libc::O_PATH != 0 {
        return false;
    }
    let (folder, path) = match nr {
        libc::SYS_open | libc::SYS_creat => (libc::AT_FDCWD as u64, args[0]),
        _ => (args[0], args[1]),
    };
    const RESOLVE: u64 = 16;
    let restrictions =
        if nr == libc::SYS_openat2 { sys::word_at(args[2] + RESOLVE) } else { Some(0) };
    match restrictions {
        // The kernel cannot read them either.
        None => false,
        Some(0) => {
            sys::stat_at(folder, path).is_ok_and(|stat| may_be_one(&stat))
                && sys::open_place(folder, path).is_ok_and(is_one)
        }
        // Steps of the path are restricted: it may lead elsewhere.
        Some(how) => sys::open_place_as(folder, path, how).is_ok_and(is_one),
    }
}

fn may_be_one(stat: &libc::stat) -> bool {
    let is_regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    is_regular && stat.st_mode & libc::S_IWOTH != 0 && stat.st_size == 0
}

/// Whether the descriptor, which is closed, has such a file.
fn is_one(place: i32) -> bool {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    let is_one = sys::stat_of(place).is_ok_and(|stat| may_be_one(&stat))
        && sys::filesystem_of(place).is_ok_and(|(kind, _)| kind == PROC_SUPER_MAGIC);
    sys::close(place);
    is_one
}
