//! Files that a kept proxy has open.

use core::ffi::CStr;
use core::ops::BitOr;

use linux_raw_sys::general::{
    O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};

use crate::descriptor::{Owned, read_full, write_all};
use crate::errno::Result;
use crate::status::Status;
use crate::sys::{self, Fd};

/// How a file is to be opened: `Flags::WRITE | Flags::CREATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// Opens the file for reading.
    pub const READ: Self = Self(O_RDONLY);
    /// Opens the file for writing.
    pub const WRITE: Self = Self(O_WRONLY);
    /// Opens the file for reading and writing.
    pub const READ_WRITE: Self = Self(O_RDWR);
    /// Makes the file if there is none.
    pub const CREATE: Self = Self(O_CREAT);
    /// Fails if there is a file of that name.
    pub const NEW: Self = Self(O_CREAT | O_EXCL);
    /// Empties the file.
    pub const TRUNCATE: Self = Self(O_TRUNC);
    /// Each write goes to the file's end.
    pub const APPEND: Self = Self(O_APPEND);
    /// Fails if the path's last part is a link.
    pub const NO_LINK: Self = Self(O_NOFOLLOW);
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An open file. It is closed when it is dropped, and lives no longer than the guard that opened
/// it.
#[derive(Debug)]
pub struct File<'k>(Owned<'k>);

impl File<'_> {
    /// Opens a file; one that is made gets what the umask leaves of `mode`.
    pub(crate) fn open(path: &CStr, flags: Flags, mode: u32) -> Result<Self> {
        sys::openat(Fd::HERE, path, flags.0, mode).map(|fd| Self(Owned::new(fd)))
    }

    /// Reads once: 0 at the end; else some of what there is, where the buffer is large not all.
    pub fn read(&self, to: &mut [u8]) -> Result<usize> {
        sys::read(self.0.fd(), to)
    }

    /// Reads until the buffer is full or the file ends; gives how much it was.
    pub fn read_full(&self, to: &mut [u8]) -> Result<usize> {
        read_full(self.0.fd(), to)
    }

    /// Writes once; gives the number of bytes written.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        sys::write(self.0.fd(), bytes)
    }

    /// Writes all of it, by as many calls as that takes.
    pub fn write_all(&self, bytes: &[u8]) -> Result<()> {
        write_all(self.0.fd(), bytes)
    }

    /// Status of the file.
    pub fn status(&self) -> Result<Status> {
        sys::fstat(self.0.fd()).map(Status::new)
    }

    /// Sets the permissions of the file, whatever the umask is.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        sys::fchmod(self.0.fd(), mode)
    }

    /// Closes the file, and says if that failed.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }
}
