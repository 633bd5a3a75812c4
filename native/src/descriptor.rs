//! Descriptors that a kept proxy has open.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use crate::errno::{Errno, Result};
use crate::sys::{self, Fd};

/// A descriptor that is closed when it is dropped. It lives no longer than what `'k` borrows: the
/// guard of the proxy.
#[derive(Debug)]
pub struct Owned<'k> {
    fd: Fd,
    kept: PhantomData<&'k ()>,
}

impl Owned<'_> {
    /// Owns a descriptor that a call has just made.
    pub fn new(fd: Fd) -> Self {
        Self { fd, kept: PhantomData }
    }

    /// Number of the descriptor.
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Closes it, and says what that answered: of some file systems that earlier writes have
    /// failed.
    pub fn close(self) -> Result<()> {
        sys::close(ManuallyDrop::new(self).fd)
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // Linux has closed it even where it says that something failed.
        _ = sys::close(self.fd);
    }
}

/// Writes all of it, by as many calls as that takes.
pub fn write_all(fd: Fd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match sys::write(fd, bytes)? {
            0 => return Err(Errno::EIO), // else it would be tried for ever
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// Reads until there is no more room, or no more to read; gives how much it was.
pub fn read_full(fd: Fd, to: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < to.len() {
        match sys::read(fd, &mut to[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}
