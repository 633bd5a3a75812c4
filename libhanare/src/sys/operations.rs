//! System calls on buffers that belong to them.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::ring::Vouched;
use crate::operation::Operation;
use crate::queue::Queue;

impl Queue {
    /// Posts a system call, whatever its arguments are. `keep` stays until it is done.
    ///
    /// # Errors
    /// EINVAL: the kernel that the program runs on serves it, or it acts on the thread that makes
    /// it.
    ///
    /// # Safety
    /// As that of the call; what its arguments point to belongs to `keep`, and does not move with
    /// it.
    pub unsafe fn submit<B: Send + 'static>(
        &self,
        nr: i64,
        args: [u64; 6],
        keep: B,
    ) -> io::Result<Operation<B>> {
        if u64::try_from(nr).map_or(0, crate::calls::class) != crate::calls::POSTED {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the caller's.
        let vouched = unsafe { Vouched::new() };
        let pending = Some(self.inner.post(vouched, nr, args)?);
        Ok(Operation { inner: self.inner.clone(), pending, buffer: Some(keep), about: None })
    }

    fn about<B: Send + 'static>(
        &self,
        nr: i64,
        fd: impl AsFd + Send + 'static,
        args: [u64; 3],
        buffer: B,
    ) -> io::Result<Operation<B>> {
        let args = [fd.as_fd().as_raw_fd() as u64, args[0], args[1], args[2], 0, 0];
        // SAFETY: the caller passes addresses in the buffer, which is on the heap, and kept until
        // it is done.
        let mut operation = unsafe { self.submit(nr, args, buffer) }?;
        operation.about = Some(Box::new(fd));
        Ok(operation)
    }

    /// `write`: of all bytes of the buffer.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn write(
        &self,
        fd: impl AsFd + Send + 'static,
        bytes: Vec<u8>,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_ptr() as u64, bytes.len() as u64, 0];
        self.about(libc::SYS_write, fd, args, bytes)
    }

    /// `read`: into the buffer, as many bytes as it has.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn read(
        &self,
        fd: impl AsFd + Send + 'static,
        mut bytes: Vec<u8>,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_mut_ptr() as u64, bytes.len() as u64, 0];
        self.about(libc::SYS_read, fd, args, bytes)
    }

    /// `pwrite`.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn write_at(
        &self,
        fd: impl AsFd + Send + 'static,
        bytes: Vec<u8>,
        offset: u64,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_ptr() as u64, bytes.len() as u64, offset];
        self.about(libc::SYS_pwrite64, fd, args, bytes)
    }

    /// `pread`.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn read_at(
        &self,
        fd: impl AsFd + Send + 'static,
        mut bytes: Vec<u8>,
        offset: u64,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_mut_ptr() as u64, bytes.len() as u64, offset];
        self.about(libc::SYS_pread64, fd, args, bytes)
    }

    /// `fsync`.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn sync(&self, fd: impl AsFd + Send + 'static) -> io::Result<Operation<()>> {
        self.about(libc::SYS_fsync, fd, [0; 3], ())
    }
}
