//! Reading an LWK's log.

use hanare_abi::ioctl;

use crate::{Device, Error, Result, name, raw};

/// Bytes asked for at once.
const CHUNK: usize = 64 << 10;

/// Reads the log of an instance from the oldest line that is still there.
#[derive(Debug)]
pub struct LogReader<'a> {
    device: &'a Device,
    name: String,
    position: u64,
}

impl Device {
    /// The log of an instance.
    pub fn log(&self, name: &str) -> Result<LogReader<'_>> {
        name::field(name)?;
        Ok(LogReader { device: self, name: name.into(), position: 0 })
    }
}

impl LogReader<'_> {
    /// Text that has been written since the last call; empty: nothing yet.
    pub fn read(&mut self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; CHUNK];
        let mut log = ioctl::Log {
            name: name::field(&self.name)?,
            position: self.position,
            buffer: 0,
            size: 0,
        };
        raw::log(self.device.fd(), &mut log, &mut bytes)
            .map_err(|errno| Error::of_instance("read the log", errno, &self.name))?;
        self.position = log.position;
        bytes.truncate(usize::try_from(log.size).unwrap_or(0));
        Ok(bytes)
    }
}
