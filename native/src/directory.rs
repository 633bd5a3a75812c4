//! Directories that a kept proxy has open.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::offset_of;

use linux_raw_sys::general::{AT_SYMLINK_NOFOLLOW, O_DIRECTORY, O_RDONLY, linux_dirent64};

use crate::descriptor::Owned;
use crate::errno::{Errno, Result};
use crate::status::Status;
use crate::sys::{self, Fd};

/// Bytes of a directory that are read at once.
const BUFFER_BYTES: usize = 32 << 10;

/// An open directory. It is closed when it is dropped, and lives no longer than the guard that
/// opened it.
#[derive(Debug)]
pub struct Directory<'k> {
    descriptor: Owned<'k>,
    /// Entries that were read; those before `next` were given already.
    entries: Vec<u8>,
    next: usize,
    end: usize,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'d> {
    /// The name, without folders.
    pub name: &'d CStr,
}

impl Directory<'_> {
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        let fd = sys::openat(Fd::HERE, path, O_RDONLY | O_DIRECTORY, 0)?;
        let entries = vec![0; BUFFER_BYTES];
        Ok(Self { descriptor: Owned::new(fd), entries, next: 0, end: 0 })
    }

    /// The next entry, in the file system's order, without `.` and `..`; `None` at the end.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>> {
        loop {
            if self.next == self.end {
                (self.next, self.end) = (0, self.fill()?);
            }
            if self.end == 0 {
                return Ok(None);
            }
            let start = self.next;
            let (name, length) = parse(&self.entries[start..self.end]).ok_or(Errno::EIO)?;
            let is_given = ![c".", c".."].contains(&name);
            self.next += length;
            if is_given {
                // Again, since the compiler takes the first borrow for one of the whole loop.
                let entry = parse(&self.entries[start..self.end]).map(|(name, _)| Entry { name });
                return Ok(entry);
            }
        }
    }

    fn fill(&mut self) -> Result<usize> {
        sys::directory_entries(self.descriptor.fd(), &mut self.entries)
    }

    /// The status of what has this name there; of a link its own.
    pub fn status(&self, name: &CStr) -> Result<Status> {
        sys::stat_at(self.descriptor.fd(), name, AT_SYMLINK_NOFOLLOW).map(Status::new)
    }
}

/// The name of the first of some `struct linux_dirent64`, and how long that one is.
fn parse(entries: &[u8]) -> Option<(&CStr, usize)> {
    let length = entries.get(offset_of!(linux_dirent64, d_reclen)..)?.first_chunk()?;
    let length = usize::from(u16::from_ne_bytes(*length));
    let name = entries.get(offset_of!(linux_dirent64, d_name)..length)?;
    Some((CStr::from_bytes_until_nul(name).ok()?, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8], length: u16) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes.extend(length.to_ne_bytes());
        bytes.push(8);
        bytes.extend(name);
        bytes
    }

    #[test]
    fn an_entry_is_as_long_as_it_says() {
        let mut bytes = entry(b"a\0\0\0\0", 24);
        bytes.extend(entry(b"next\0", 24));
        assert_eq!(parse(&bytes), Some((c"a", 24)));
        assert_eq!(parse(&bytes[24..]), Some((c"next", 24)));
    }

    #[test]
    fn an_entry_that_is_cut_is_none() {
        assert_eq!(parse(&entry(b"a\0\0\0\0", 24)[..23]), None);
        assert_eq!(parse(&entry(b"aaaaa", 24)), None);
        assert_eq!(parse(&entry(b"a\0\0\0\0", 0)), None);
        assert_eq!(parse(&[]), None);
    }
}
