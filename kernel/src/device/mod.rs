//! Drivers of the LWK's own, and the descriptors that they claim (`docs/drivers.md`).
//!
//! A driver serves the few operations of a device that have to be fast; Linux' driver, which is not
//! changed, has the device and serves the rest.

pub mod driver;
mod edu;
pub mod granted;
mod zero;

use crate::base::{heap, lists};
use crate::link::{pool, services};
use crate::mm::window::files;
use crate::parts::claims::Claim;
use crate::process::thread::Thread;
use alloc::sync::Arc;
use alloc::vec::Vec;
use driver::Driver;
use granted::{GrantName, Granted};
use hanare_abi::service::{FILE_READABLE, FILE_WRITABLE, SERVICE_CLAIM};
use hanare_core::claims::{Descriptors, Device};
use hanare_core::errno::Result;
use linux_raw_sys::general::{FASYNC, O_APPEND, O_NONBLOCK};
use spin::Once;

/// All drivers of devices, as many as the command knows names.
static DRIVERS: [&dyn Driver; hanare_core::claims::DRIVERS.len()] = [&EDU];
static EDU: edu::Edu = edu::Edu::new();

/// A driver with its device.
struct Used {
    driver: &'static dyn Driver,
    device: Device,
}

static GRANTED: Once<Vec<(Granted, GrantName)>> = Once::new();
static USED: Once<Vec<Used>> = Once::new();

/// Gives each driver its device: once, when the boot options are known.
pub fn init() {
    let granted = GRANTED
        .call_once(|| lists::collected(Granted::all()).expect("memory for the devices of drivers"));
    USED.call_once(|| {
        let mut used = heap::with_room(granted.len() + 1).expect("memory for drivers");
        for (granted, name) in granted {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            let name = core::str::from_utf8(name).unwrap_or("?");
            let driver = DRIVERS.into_iter().find(|driver| driver.name() == name);
            let begun = driver.ok_or("there is no such driver").and_then(|driver| {
                let is_same = |used: &Used| used.driver.name() == driver.name();
                if used.iter().any(is_same) {
                    return Err("its driver has another device");
                }
                driver.begin(granted).map(|()| driver)
            });
            match begun {
                Ok(driver) => {
                    crate::info!("driver {name} has its part of {granted:?}");
                    lists::push_within(&mut used, Used { driver, device: granted.device });
                }
                Err(why) => crate::info!("driver {name} leaves {granted:?} to Linux: {why}"),
            }
        }
        if let Some(device) = pool::options().claim {
            let driver: &dyn Driver = &zero::Zero;
            lists::push_within(&mut used, Used { driver, device });
        }
        used
    });
}

fn used() -> &'static [Used] {
    USED.get().map_or(&[], |used| used)
}

/// Whether descriptors may be claimed at all.
#[inline(always)]
pub fn are_used() -> bool {
    !used().is_empty()
}

/// The driver of a claim.
pub fn driver_of(claim: &Claim) -> &'static dyn Driver {
    used()[claim.driver].driver
}

/// The running thread `me` has opened a descriptor: a driver claims it, or none does.
#[cold]
pub fn opened(me: &Thread, descriptor: u32) {
    // It is its proxy's, or calls on it are to be judged before the worker makes them.
    if me.process.pool.is_packed() || me.seccomp.mode() != 0 {
        return;
    }
    for (number, Used { driver, device, .. }) in used().iter().enumerate() {
        let Ok(question) = me.process.claims.ask(descriptor) else { return };
        let is_claimed = services::put_together(|| {
            let claim = ask(me, descriptor, *device, number).ok();
            let wanted = claim.filter(|claim| !waits_or_appends(claim) && driver.claims(claim));
            me.process.claims.answered(question, wanted)
        });
        if is_claimed {
            me.process.pool.set_claims();
            return;
        }
    }
}

/// Whether the flags of a file change what reads and writes mean, which no driver is told.
fn waits_or_appends(claim: &Claim) -> bool {
    claim.flags & (O_NONBLOCK | O_APPEND | FASYNC) != 0
}

/// Asks Linux whether a descriptor is a device.
fn ask(me: &Thread, descriptor: u32, device: Device, driver: usize) -> Result<Arc<Claim>> {
    heap::room_for_arc::<Claim>()?;
    let args = [descriptor.into(), device.number, u64::from(device.is_block)];
    let answer = services::by_worker_at_once(me, SERVICE_CLAIM, &args, &[])?;
    let has = |bit| answer.args[3] & bit != 0;
    let (is_readable, is_writable) = (has(FILE_READABLE), has(FILE_WRITABLE));
    let file = files::held(&me.caller(), &answer, None)?;
    let flags = answer.args[0] as u32;
    Ok(lists::arc_within(Claim { _file: file, driver, is_readable, is_writable, flags }))
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
