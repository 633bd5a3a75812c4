//! Status of a file, as Linux knows it.

use linux_raw_sys::general::{
    S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK,
};

use crate::sys::RawStatus;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file with bytes.
    File,
    /// Names.
    Directory,
    /// Another file's name.
    Link,
    /// A named pipe.
    Pipe,
    /// A named socket.
    Socket,
    /// A device of blocks.
    BlockDevice,
    /// A device of bytes.
    CharacterDevice,
    /// A kind that this crate does not know.
    Other,
}

/// The status of a file (`struct stat`).
#[derive(Clone, Copy, Debug)]
pub struct Status(RawStatus);

impl Status {
    pub(crate) fn new(status: RawStatus) -> Self {
        Self(status)
    }

    /// Kind of the file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.0.st_mode & S_IFMT {
            S_IFREG => Kind::File,
            S_IFDIR => Kind::Directory,
            S_IFLNK => Kind::Link,
            S_IFIFO => Kind::Pipe,
            S_IFSOCK => Kind::Socket,
            S_IFBLK => Kind::BlockDevice,
            S_IFCHR => Kind::CharacterDevice,
            _ => Kind::Other,
        }
    }

    /// Permissions of the file, with set-user-ID, set-group-ID and the sticky bit.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.0.st_mode & 0o7777
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.st_size.unsigned_abs() // never negative
    }

    /// Whether both statuses are of one file.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.0.st_dev, self.0.st_ino) == (other.0.st_dev, other.0.st_ino)
    }
}
