//! `hanare log`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hanare_sdk::{Device, Error};

use hanare_common::{instances, output};

/// Show the kernel log of an instance; also after it panicked.
#[derive(Args)]
pub struct Log {
    /// Instance [default: the only one, or the one called 'default']
    #[arg(value_parser = instances::name)]
    name: Option<String>,
    /// Go on with what is written from now on, until the instance is shut down
    #[arg(short, long)]
    follow: bool,
}

/// How often a followed log is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

impl Log {
    /// Prints the log.
    pub fn execute(self) -> Result<()> {
        let device = Device::open()?;
        let name = instances::resolve(&device, self.name.as_deref())?;
        let mut log = device.log(&name)?;
        let mut first = true;
        loop {
            let text = match log.read() {
                Err(Error::NoInstance(_)) if !first => return Ok(()),
                other => other?,
            };
            first = false;
            output::write_bytes(&text)?;
            match (text.is_empty(), self.follow) {
                (true, false) => return Ok(()),
                (true, true) => std::thread::sleep(INTERVAL),
                (false, _) => {}
            }
        }
    }
}
