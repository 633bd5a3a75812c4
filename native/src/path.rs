//! Calls with a path that leave nothing open. They need no kept proxy: each may go to another one.

use core::ffi::CStr;

use linux_raw_sys::general::{AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW};

use crate::errno::Result;
use crate::status::Status;
use crate::sys::{self, Fd};

/// The status of a file; a link is followed.
pub fn status(path: &CStr) -> Result<Status> {
    sys::stat_at(Fd::HERE, path, 0).map(Status::new)
}

/// The status of a file; of a link its own.
pub fn own_status(path: &CStr) -> Result<Status> {
    sys::stat_at(Fd::HERE, path, AT_SYMLINK_NOFOLLOW).map(Status::new)
}

/// Makes a directory, with what the umask leaves of `mode`.
pub fn make_directory(path: &CStr, mode: u32) -> Result<()> {
    sys::mkdirat(Fd::HERE, path, mode)
}

/// Removes an empty directory.
pub fn remove_directory(path: &CStr) -> Result<()> {
    sys::unlinkat(Fd::HERE, path, AT_REMOVEDIR)
}

/// Removes a name of a file.
pub fn remove(path: &CStr) -> Result<()> {
    sys::unlinkat(Fd::HERE, path, 0)
}

/// Gives a file another name. What had that name before has it no longer.
pub fn rename(from: &CStr, to: &CStr) -> Result<()> {
    sys::renameat(Fd::HERE, from, Fd::HERE, to)
}
