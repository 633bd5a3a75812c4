//! Pools of proxies, which execute the calls of native tasks.

use std::os::fd::{AsFd, BorrowedFd};

use hanare_abi::ioctl::MESSAGE_SIZE;
use hanare_abi::pooled::PoolMake;

use crate::{Device, Error, Result, name, raw, text};

/// The descriptor of a pool: programs that inherit it may join. When no process has it any more,
/// its proxies end.
#[derive(Debug)]
pub struct Pool {
    device: Device,
}

impl Pool {
    /// A pool of the instance `name` (`None`: the only one, or the one called 'default') with at
    /// most `limit` proxies. One that has had nothing to do for `idle_ms` ends; 0: none does.
    ///
    /// # Errors
    /// There is no such instance, or it cannot have as many.
    pub fn new(name: Option<&str>, limit: u32, idle_ms: u32) -> Result<Self> {
        let device = Device::open()?;
        let name = name.map_or(Ok(text::field(b"")), name::field)?;
        let mut make = PoolMake { name, limit, idle_ms, message: [0; MESSAGE_SIZE] };
        raw::pool(device.fd(), &mut make)
            .map_err(|errno| Error::refused("make a pool of proxies", errno, &make.message))?;
        Ok(Self { device })
    }
}

impl AsFd for Pool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
}
