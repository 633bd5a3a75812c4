//! `hanare debug`: for tests of Hanare itself.

use anyhow::Result;
use clap::{Args, Subcommand};
use hanare_sdk::{Debug as Request, Device};

use crate::instances;
use crate::size::Bytes;

/// For tests of Hanare itself.
#[derive(Args)]
pub struct Debug {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make the LWK panic
    Panic(Target),
    /// Make a CPU of the LWK stop answering
    Hang {
        /// For so many milliseconds [default: for ever]
        #[arg(long = "for", value_name = "MS", default_value_t = 0, hide_default_value = true)]
        ms: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Write the LWK's free memory to its log, and a summary here
    Memory(Target),
}

#[derive(Args)]
struct Target {
    /// Instance [default: the only one, or the one called 'default']
    name: Option<String>,
    /// Index of the CPU in the instance
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpu: u32,
}

impl Debug {
    /// Sends the request.
    pub fn execute(self) -> Result<()> {
        let (request, target) = match self.what {
            What::Panic(target) => (Request::Panic, target),
            What::Hang { ms, target } => (Request::Hang { ms }, target),
            What::Memory(target) => (Request::Memory, target),
        };
        let device = Device::open()?;
        let name = instances::resolve(&device, target.name.as_deref())?;
        let report = match device.debug(&name, target.cpu, request) {
            // Nobody is left to answer, as was asked for.
            Err(error) if request != Request::Memory && died(&error) => return Ok(()),
            other => other?,
        };
        if request == Request::Memory {
            println!(
                "free {} of {} ({} bytes), quarantined {}, {} processes",
                Bytes(report.free_bytes),
                Bytes(report.total_bytes),
                report.free_bytes,
                Bytes(report.quarantined_bytes),
                report.processes
            );
        }
        Ok(())
    }
}

/// Whether the LWK went away instead of answering.
fn died(error: &hanare_sdk::Error) -> bool {
    const EIO: i32 = 5;
    const ETIMEDOUT: i32 = 110;
    error
        .errno()
        .is_some_and(|errno| [EIO, ETIMEDOUT].contains(&errno.raw_os_error()))
}
