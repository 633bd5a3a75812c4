//! TCP connections that a kept proxy has open.

use core::net::SocketAddr;

use linux_raw_sys::net::{SHUT_WR, SOCK_STREAM};

use crate::address::{Encoded, decode, encode, family};
use crate::descriptor::{Owned, read_full, write_all};
use crate::errno::{Errno, Result};
use crate::sys::{self, Fd};

/// Connections that may wait for an `accept`.
const WAITING_MAX: u32 = 128;

/// A connection. It is closed when it is dropped, and lives no longer than the guard that opened
/// it.
#[derive(Debug)]
pub struct Stream<'k>(Owned<'k>);

/// A socket to which others connect. It is closed when it is dropped, and lives no longer than the
/// guard.
#[derive(Debug)]
pub struct Listener<'k>(Owned<'k>);

fn create<'k>(address: &SocketAddr) -> Result<Owned<'k>> {
    sys::create_socket(family(address), SOCK_STREAM).map(Owned::new)
}

fn local_address(fd: Fd) -> Result<SocketAddr> {
    let mut bytes = [0; Encoded::MAX];
    let length = sys::local_address(fd, &mut bytes)?;
    decode(&bytes[..length]).ok_or(Errno::EAFNOSUPPORT)
}

impl<'k> Listener<'k> {
    pub(crate) fn open(address: &SocketAddr) -> Result<Self> {
        let socket = create(address)?;
        sys::reuse_address(socket.fd())?;
        sys::bind(socket.fd(), encode(address).bytes())?;
        sys::listen(socket.fd(), WAITING_MAX)?;
        Ok(Self(socket))
    }

    /// Waits for a connection.
    pub fn accept(&self) -> Result<Stream<'k>> {
        sys::accept(self.0.fd()).map(|fd| Stream(Owned::new(fd)))
    }

    /// Address of the listener: with port 0 Linux has chosen the port.
    pub fn address(&self) -> Result<SocketAddr> {
        local_address(self.0.fd())
    }
}

impl Stream<'_> {
    pub(crate) fn connect(address: &SocketAddr) -> Result<Self> {
        let socket = create(address)?;
        sys::connect(socket.fd(), encode(address).bytes())?;
        Ok(Self(socket))
    }

    /// Reads once: 0 where the other side writes no more; else some of what has come.
    pub fn read(&self, to: &mut [u8]) -> Result<usize> {
        sys::read(self.0.fd(), to)
    }

    /// Reads until the buffer is full or the other side writes no more; gives how much it was.
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

    /// Tells the other side that nothing more is written.
    pub fn end_writing(&self) -> Result<()> {
        sys::shutdown(self.0.fd(), SHUT_WR)
    }

    /// Closes the stream, and says if that failed.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }
}
