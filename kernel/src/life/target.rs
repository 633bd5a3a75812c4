//! The file that execve or execveat names.

use crate::base::{heap, lists};
use crate::link::delegate;
use crate::process::thread::Thread;
use alloc::vec::Vec;
use hanare_core::errno::{self, Result};
use linux_raw_sys::general::__NR_fcntl;

/// Linux call numbers used on the LWK's own account.
mod linux {
    pub const F_GETFD: u64 = 1;
}
/// The working directory.
pub const AT_FDCWD: u64 = -100i64 as u64;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
/// The directory itself, if the path is empty (execveat(2)).
pub const AT_EMPTY_PATH: u64 = 0x1000;

/// The program that execve or execveat names.
pub struct Target {
    /// Directory of a relative path.
    pub dir: u64,
    /// The path.
    pub open: Vec<u8>,
    /// Flags of execveat(2).
    pub flags: u64,
    /// The name of the program as it is told (AT_EXECFN, interpreters of scripts).
    pub name: Vec<u8>,
    /// The descriptor closes at the exec, so a script's interpreter would not find the file.
    pub closes: bool,
}

impl Target {
    /// The program that execve(2) names by a path.
    pub fn path(path: Vec<u8>) -> Result<Target> {
        Ok(Target {
            dir: AT_FDCWD,
            open: heap::copied(&path)?,
            flags: 0,
            name: path,
            closes: false,
        })
    }

    /// The program that execveat(2) names by a directory, or a file, and a path.
    pub fn at(me: &Thread, dir: u64, path: Vec<u8>, flags: u64) -> Result<Target> {
        let fd = dir as u32 as i32;
        let empty = path.is_empty();
        if empty && flags & AT_EMPTY_PATH == 0 {
            return Err(errno::ENOENT);
        }
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(errno::EINVAL);
        }
        if path.first() == Some(&b'/') || fd == AT_FDCWD as i32 && !empty {
            return Ok(Target { flags, ..Target::path(path)? });
        }
        let closes = delegate::linux(me, __NR_fcntl, [dir, linux::F_GETFD, 0, 0, 0, 0])? & 1 != 0;
        let name = lists::text(format_args!("/dev/fd/{fd}"))?;
        let behind: [&[u8]; 2] = if empty { [b"", b""] } else { [b"/", &path] };
        let name = lists::joined(&[name.as_bytes(), behind[0], behind[1]])?;
        Ok(Target { dir, open: path, flags, name, closes })
    }
}

/// Writes a path to where the worker of `thread` reads it; its address.
pub fn write_path(thread: &Thread, path: &[u8]) -> Result<u64> {
    let name = lists::joined(&[path, &[0]])?;
    thread.write_scratch(&name)
}
