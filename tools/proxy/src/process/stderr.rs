//! The stderr that `hanare run` was started with, for the line of counters: the program may have
//! closed descriptor 2 by then, or have opened a file of its own as that.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use linux_raw_sys::general::F_DUPFD;

use super::attach::copy_high;
use crate::base::message::print_to;
use crate::sys;

const STDERR: u32 = 2;
/// The number of no copy.
const NONE: u32 = 0;

/// Stderr, as it was at the start.
pub struct Stderr {
    /// A copy of the descriptor, or [`NONE`]. The program sees it, and may close it. An execve
    /// leaves it open.
    copy: AtomicU32,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Stderr {
    /// Keeps standard error; `None`: it is closed.
    pub fn keep() -> Option<Self> {
        let file = sys::file_of(STDERR).ok()?;
        let copy = copy_high(STDERR, F_DUPFD).unwrap_or(NONE);
        Some(Self { copy: AtomicU32::new(copy), file })
    }

    /// Stderr that another image has kept, from its [`Stderr::numbers`]; `None`: it had none.
    pub fn resumed([copy, device, inode]: [u64; 3]) -> Option<Self> {
        let copy = AtomicU32::new(copy as u32);
        (inode != 0).then_some(Self { copy, file: (device, inode) })
    }

    /// Numbers of the copy and its file, for [`Stderr::resumed`]; zeros for `None`.
    pub fn numbers(this: Option<&Self>) -> [u64; 3] {
        this.map_or([0; 3], |Self { copy, file: (device, inode) }| {
            [copy.load(Ordering::Relaxed).into(), *device, *inode]
        })
    }

    /// Closes the copy, lest the reader of a pipe wait for the child of a fork.
    pub fn forget(&self) {
        let copy = self.copy.swap(NONE, Ordering::Relaxed);
        if copy != NONE && self.is(copy) {
            sys::close(copy);
        }
    }

    /// Prints a line, unless the program has closed every descriptor of that file.
    pub fn print(&self, text: fmt::Arguments) {
        let copy = self.copy.load(Ordering::Relaxed);
        let mut descriptors = [copy, STDERR].into_iter();
        if let Some(fd) = descriptors.find(|&fd| fd != NONE && self.is(fd)) {
            print_to(fd, text);
        }
    }

    /// Whether the descriptor is of that file.
    fn is(&self, fd: u32) -> bool {
        sys::file_of(fd) == Ok(self.file)
    }
}
