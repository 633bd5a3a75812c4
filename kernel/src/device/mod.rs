//! Drivers of the LWK's own, and the descriptors that they claim (`docs/drivers.md`).
//!
//! A driver serves the few operations of a device that have to be fast; Linux' driver, which is not
//! changed, has the device and serves the rest.

pub mod driver;
mod edu;
pub mod granted;
mod nvme;
mod zero;

use crate::base::{heap, lists};
use crate::link::{pool, services};
use crate::mm::window::files;
use crate::parts::claims::{Claim, Part};
use crate::process::thread::Thread;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use driver::Driver;
use granted::{GrantName, Granted};
use hanare_abi::service::{
    CLAIM_BLOCK_SHIFT, CLAIM_CACHED, CLAIM_DISK_READ_ONLY, CLAIM_DISK_SECTORS, CLAIM_ERROR,
    CLAIM_FIRST, CLAIM_HOLDER, CLAIM_NAMESPACE, CLAIM_READ_ONLY, CLAIM_SECTORS, CLAIM_WORDS,
    FILE_READABLE, FILE_WRITABLE, SERVICE_CLAIM,
};
use hanare_core::claims::{Descriptors, Device};
use hanare_core::errno::{self, Result};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::linuxwords::LinuxWord;
use linux_raw_sys::general::{FASYNC, O_APPEND, O_NONBLOCK};
use spin::Once;

/// All drivers: those of devices, as many as the command knows names, and the tests'.
static DRIVERS: [&dyn Driver; NAMED + 1] = [&EDU, &NVME, &zero::Zero];
const NAMED: usize = hanare_core::claims::DRIVERS.len();
static EDU: edu::Edu = edu::Edu::new();
static NVME: nvme::Nvme = nvme::Nvme::new();

/// Logarithms of the bytes of a block, as they may be.
const BLOCK_SHIFTS: RangeInclusive<u32> = 9..=12;

/// A driver with its device.
struct Used {
    /// Number of the driver.
    driver: usize,
    device: Device,
    /// 1 + the number of the grant, if programs have it by its namespaces.
    namespaces_of: u64,
}

static GRANTED: Once<Vec<(Granted, GrantName)>> = Once::new();
static USED: Once<Vec<Used>> = Once::new();

/// Gives each driver its device: once, when the boot options are known.
pub fn init() {
    let granted = GRANTED.call_once(|| Granted::all().expect("memory for the devices of drivers"));
    USED.call_once(|| {
        let mut used = heap::with_room(granted.len() + 1).expect("memory for drivers");
        for (granted, name) in granted {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            let name = core::str::from_utf8(name).unwrap_or("?");
            let driver = DRIVERS[..NAMED].iter().position(|driver| driver.name() == name);
            let begun = driver.ok_or("there is no such driver").and_then(|driver| {
                if used.iter().any(|used: &Used| used.driver == driver) {
                    return Err("its driver has another device");
                }
                DRIVERS[driver].begin(granted).map(|()| driver)
            });
            match begun {
                Ok(driver) => {
                    crate::info!("driver {name} has its part of {granted:?}");
                    lists::push_within(
                        &mut used,
                        Used {
                            driver,
                            device: granted.device,
                            namespaces_of: granted.namespaces_of(),
                        },
                    );
                }
                Err(why) => crate::info!("driver {name} leaves {granted:?} to Linux: {why}"),
            }
        }
        if let Some(device) = pool::options().claim {
            lists::push_within(&mut used, Used { driver: NAMED, device, namespaces_of: 0 });
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
#[inline(always)]
pub fn driver_of(claim: &Claim) -> &'static dyn Driver {
    DRIVERS[claim.driver]
}

/// The running thread `me` has opened a descriptor: a driver claims it, or none does.
#[cold]
pub fn opened(me: &Thread, descriptor: u32) {
    // It is its proxy's, or calls on it are to be judged before the worker makes them.
    if me.process.pool.is_packed() || me.seccomp.mode() != 0 {
        return;
    }
    for used in used() {
        let Ok(question) = me.process.claims.ask(descriptor) else { return };
        let is_claimed = services::put_together(|| {
            let claim = ask(me, descriptor, used).ok();
            let is_meant =
                |claim: &Claim| !waits_or_appends(claim) && driver_of(claim).claims(claim);
            let wanted = claim.filter(|claim| is_meant(claim));
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

/// Asks Linux whether a descriptor is the device of a driver.
fn ask(me: &Thread, descriptor: u32, used: &Used) -> Result<Arc<Claim>> {
    let &Used { driver, device, namespaces_of } = used;
    heap::room_for_arc::<Claim>()?;
    let args = [descriptor.into(), device.number, u64::from(device.is_block), namespaces_of];
    let answer = services::by_worker_at_once(me, SERVICE_CLAIM, &args, &[])?;
    let has = |bit| answer.args[3] & bit != 0;
    let (is_readable, is_writable) = (has(FILE_READABLE), has(FILE_WRITABLE));
    let file = files::held(&me.caller(), &answer, None)?;
    let flags = answer.args[0] as u32;
    let part = if namespaces_of == 0 { None } else { Some(part_of(&answer.extents)?) };
    Ok(lists::arc_within(Claim { _file: file, driver, is_readable, is_writable, flags, part }))
}

/// The part of a device that is described so.
fn part_of(words: &[u64]) -> Result<Part> {
    let words: &[u64; CLAIM_WORDS] = words.try_into().map_err(|_| errno::EIO)?;
    let word = |at| LinuxWord::at(PhysAddr(words[at]), words[at + 1]).ok_or(errno::ENOMEM);
    let error = word(CLAIM_ERROR)?;
    let part = Part {
        unit: words[CLAIM_NAMESPACE] as u32,
        block_shift: words[CLAIM_BLOCK_SHIFT] as u32,
        first: words[CLAIM_FIRST],
        cached: word(CLAIM_CACHED)?,
        sectors: word(CLAIM_SECTORS)?,
        unit_sectors: word(CLAIM_DISK_SECTORS)?,
        forbid_writes: [word(CLAIM_HOLDER)?, word(CLAIM_READ_ONLY)?, word(CLAIM_DISK_READ_ONLY)?],
        error_before: error.get(),
        error,
    };
    let is_known = part.unit != 0 && BLOCK_SHIFTS.contains(&part.block_shift);
    if is_known { Ok(part) } else { Err(errno::EIO) }
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
