//! Claims: calls on a descriptor that a driver of the LWK has claimed are executed by the driver,
//! without Linux (`device`).
//!
//! A driver says of each call whether it serves it; Linux executes the others, since the descriptor
//! is Linux' as well.

use crate::device;
use crate::device::driver::{Access, Answer};
use crate::link::services;
use crate::process::thread::Thread;
use hanare_core::link::Outcome;
use hanare_core::syscalls::Row;
use hanare_hal::usercopy::UserAddr;
use linux_raw_sys::general::{__NR_pread64, __NR_pwrite64, __NR_read, __NR_write};

/// Has the driver that has claimed the call's descriptor execute the call of the running thread
/// `me`. `None`: no driver has, or it leaves this call to Linux.
pub fn call(me: &Thread, row: &Row, args: &[u64; 6]) -> Option<Outcome> {
    let [descriptor, buffer, bytes, offset, ..] = *args;
    let (is_read, offset) = match u32::from(row.number) {
        __NR_read => (true, None),
        __NR_write => (false, None),
        __NR_pread64 => (true, Some(offset)),
        __NR_pwrite64 => (false, Some(offset)),
        _ => return None,
    };
    // Linux says what is wrong with negative ones.
    if me.must_end() || (bytes | offset.unwrap_or(0)) >> 63 != 0 {
        return None;
    }
    let claim = me.process.claims.get(descriptor as u32)?;
    let buffer = UserAddr::of(buffer);
    let access = Access { buffer, bytes, offset };
    let driver = device::driver_of(&claim);
    let answer = match is_read {
        true if claim.is_readable => driver.read(&access),
        false if claim.is_writable => driver.write(&access),
        _ => Answer::Linux,
    };
    services::put_together(|| drop(claim)); // it may be the last one
    match answer {
        Answer::Done(result) => Some(Outcome::Done(result)),
        Answer::Linux => None,
    }
}
