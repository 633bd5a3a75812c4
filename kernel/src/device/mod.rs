//! Drivers of the LWK's own, and the descriptors that they claim (`docs/drivers.md`).
//!
//! A driver serves the few operations of a device that have to be fast; Linux' driver, which is not
//! changed, has the device and serves the rest.

pub mod driver;
mod zero;

use crate::base::{heap, lists};
use crate::link::services;
use crate::mm::window::files;
use crate::parts::claims::Claim;
use crate::process::thread::Thread;
use alloc::sync::Arc;
use driver::Driver;
use hanare_abi::service::{FILE_READABLE, FILE_WRITABLE, SERVICE_CLAIM};
use hanare_core::claims::{Descriptors, Device};
use hanare_core::errno::Result;
use spin::Once;

/// All drivers; those that have a device are used.
static DRIVERS: [&dyn Driver; 1] = [&zero::Zero];
/// Whether one has.
static ARE_USED: Once<bool> = Once::new();

/// Looks which drivers have a device: once, when the boot options are known.
pub fn init() {
    ARE_USED.call_once(|| DRIVERS.iter().any(|driver| driver.device().is_some()));
}

/// Whether descriptors may be claimed at all.
#[inline(always)]
pub fn are_used() -> bool {
    ARE_USED.get() == Some(&true)
}

/// The driver of a claim.
pub fn driver_of(claim: &Claim) -> &'static dyn Driver {
    DRIVERS[claim.driver]
}

/// The running thread `me` has opened a descriptor: a driver claims it, or none does.
#[cold]
pub fn opened(me: &Thread, descriptor: u32) {
    if me.process.pool.is_packed() {
        return; // it is its proxy's
    }
    for (number, driver) in DRIVERS.iter().enumerate() {
        let Some(device) = driver.device() else { continue };
        let Ok(question) = me.process.claims.ask(descriptor) else { return };
        let claim = ask(me, descriptor, device, number).ok().filter(|claim| driver.claims(claim));
        if me.process.claims.answered(question, claim) {
            me.process.pool.set_claims();
            return;
        }
    }
}

/// Asks Linux whether a descriptor is a device.
fn ask(me: &Thread, descriptor: u32, device: Device, driver: usize) -> Result<Arc<Claim>> {
    heap::room_for_arc::<Claim>()?;
    let args = [descriptor.into(), device.number, u64::from(device.is_block)];
    let answer = services::by_worker(me, SERVICE_CLAIM, &args, &[])?;
    let has = |bit| answer.args[3] & bit != 0;
    let (is_readable, is_writable) = (has(FILE_READABLE), has(FILE_WRITABLE));
    let file = files::held(&me.caller(), &answer, None)?;
    Ok(lists::arc_within(Claim { _file: file, driver, is_readable, is_writable }))
}

/// Has Linux execute a call of the running thread `me` by which descriptors may become other files:
/// none of them is claimed meanwhile.
pub fn changing<T>(me: &Thread, which: Descriptors, call: impl FnOnce() -> T) -> T {
    if !are_used() {
        return call();
    }
    let change = me.process.claims.begin(which);
    let result = call();
    me.process.claims.end(change);
    result
}
