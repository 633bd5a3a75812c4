//! The safe client of `/dev/hanare`: what tools use instead of ioctls.
//!
//! ```no_run
//! # fn main() -> hanare_sdk::Result<()> {
//! let device = hanare_sdk::Device::open()?;
//! for instance in device.instances()? {
//!     println!("{}: {}", instance.name, instance.state);
//! }
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod builder;
mod device;
mod error;
mod ledger;
mod log;
mod name;
mod observer;
mod pool;
mod processes;
mod raw;
mod status;
mod text;

pub use builder::{BootTimes, Builder, PciFunction};
pub use device::{DEVICE_PATH, Debug, Device, MemoryReport, Space, Usage};
pub use error::{Error, Result};
pub use ledger::Ledger;
pub use log::LogReader;
pub use name::{NAME_LENGTH_MAX, check_name};
pub use observer::{Observed, Observer};
pub use pool::Pool;
pub use processes::{Asked, End, Process, Stage, Thread};
pub use status::{
    Arguments, Cause, Cpu, CpuState, Dispatch, GrantedDevice, Instance, Mapped, MappedCall, State,
    Way,
};
