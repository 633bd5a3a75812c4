//! Machine checks: `hanare_core::machinecheck` decides, the hardware layer reads and clears banks.
//!
//! A machine check is broadcast to all CPUs of the machine by most Intel CPUs: Linux handles its
//! own, and does not wait for CPUs that are offline to it; here most say that nothing concerns us.

use crate::base::{badmemory, log_limit, time};
use crate::sched::doorbell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::EVENT_BAD_MEMORY;
use hanare_core::machinecheck::{Action, BANKS_MAX, Bank, Fatal, Meaning, Rules, decide, meaning};
use hanare_hal::addr::PhysAddr;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::machinecheck::{self as hal, Capabilities};
use hanare_hal::percpu;
use hanare_hal::traps::Regs;
use spin::Once;

/// How often a CPU looks, when it passes here, for errors that no exception told of (as Linux'
/// `check_interval`).
const INTERVAL_NS: u64 = 300_000_000_000;

static CAPABILITIES: Once<Capabilities> = Once::new();
/// TSC value at which each CPU looks next.
static NEXT: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];
/// Errors that the hardware corrected, on all CPUs.
static CORRECTED: AtomicU64 = AtomicU64::new(0);
/// Machine checks that came in the kernel and concerned no CPU here, not told of yet.
static PASSED: AtomicU32 = AtomicU32::new(0);

/// Asks what the CPUs have.
pub fn init() {
    let found = CAPABILITIES.call_once(Capabilities::detect);
    crate::info!("machine check: {found:?}");
}

fn banks() -> usize {
    if CAPABILITIES.get().is_some_and(|c| c.there) { hal::banks().min(BANKS_MAX) } else { 0 }
}

fn rules() -> Rules {
    match CAPABILITIES.get() {
        Some(c) if c.amd => {
            Rules::Amd { containment: c.containment, overflow_recovery: c.overflow_recovery }
        }
        Some(c) => Rules::Intel { software_recovery: c.software_recovery },
        None => Rules::Intel { software_recovery: false },
    }
}

fn read(i: usize) -> Bank {
    let (status, address, misc) = hal::read(i);
    Bank { status, address, misc }
}

/// Serves a machine check that came in user mode, on the thread's own stack. Returns the address of
/// the memory that its program may not use any more. Panics if the error cannot be survived.
pub fn in_user_mode(regs: &Regs) -> Option<PhysAddr> {
    let action = take(regs);
    look_at_all(true);
    let Action::EndProgram(paddr) = action else { return None };
    let paddr = PhysAddr(paddr);
    keep_back(paddr);
    Some(paddr)
}

/// Decides about the machine check that has come, and panics if the error cannot be survived.
fn take(regs: &Regs) -> Action {
    let global = hal::global_status();
    let mut all = [Bank::default(); BANKS_MAX];
    let all = &mut all[..banks()];
    all.iter_mut().enumerate().for_each(|(i, bank)| *bank = read(i));
    let action = decide(rules(), global, all, regs.is_user());
    // Another one, of which all CPUs are told, must not find this CPU still at it: it would
    // reset the machine. What the banks of a fatal error say is left to Linux.
    hal::end();
    if let Action::Panic(bank, why) = action {
        fatal(regs, global, bank.map(|i| (i, all[i])), why);
    }
    action
}

fn fatal(regs: &Regs, global: u64, bank: Option<(usize, Bank)>, why: Fatal) -> ! {
    let place = if regs.is_user() { "user mode" } else { "the kernel" };
    let (cpu, why, rip) = (percpu::index(), why.text(), regs.rip);
    match bank {
        Some((i, b)) => panic!(
            "machine check on cpu{cpu} in {place} at {rip:#x}: {why} (bank {i} status {:#x} address {:#x} misc {:#x}, MCG_STATUS {global:#x})",
            b.status, b.address, b.misc
        ),
        None => panic!(
            "machine check on cpu{cpu} in {place} at {rip:#x}: {why} (MCG_STATUS {global:#x})"
        ),
    }
}

/// One that came in the kernel, at any instruction: no lock can be taken. What the banks say of
/// corrected errors is left there for [`look`].
pub fn in_kernel(regs: &Regs) {
    take(regs);
    PASSED.fetch_add(1, Ordering::Relaxed);
    NEXT[percpu::index()].store(0, Ordering::Relaxed);
}

/// Takes the frame out of use for ever, and tells Linux, which keeps it back when the instance's
/// memory returns to it (HWPoison).
fn keep_back(paddr: PhysAddr) {
    if badmemory::add(paddr) {
        doorbell::ring(0, EVENT_BAD_MEMORY, paddr.0 >> 12);
    }
}

/// Counts and clears what the banks of the calling CPU tell of errors that need no exception.
pub fn look() {
    look_at_all(false);
}

/// `handled`: what else the banks hold has been dealt with.
fn look_at_all(handled: bool) {
    let passed = PASSED.swap(0, Ordering::Relaxed);
    if passed != 0 {
        crate::info!("machine check: {passed} came in the kernel and concerned nobody here");
    }
    for i in 0..banks() {
        let bank = read(i);
        match meaning(rules(), 0, &bank, true, false) {
            Meaning::Nothing => continue,
            Meaning::Corrected => {
                let count = CORRECTED.fetch_add(1, Ordering::Relaxed) + 1;
                if log_limit::may_say() {
                    crate::info!(
                        "machine check: a corrected error, bank {i} status {:#x} address {:#x}; {count} in all",
                        bank.status,
                        bank.address
                    );
                }
            }
            Meaning::Latent(address) => {
                crate::info!(
                    "machine check: bad memory that nobody has used, bank {i} status {:#x}",
                    bank.status
                );
                address.into_iter().map(PhysAddr).for_each(keep_back);
            }
            // Else it is for the exception that comes, maybe to the CPU of Linux that has the same
            // bank.
            Meaning::Consumed(_) | Meaning::Fatal(_) if !handled => continue,
            Meaning::Consumed(_) | Meaning::Fatal(_) => {}
        }
        hal::clear(i);
    }
}

/// As [`look`], where the last time is long ago.
#[inline]
pub fn look_if_due(now: u64) {
    let next = &NEXT[percpu::index()];
    if now >= next.load(Ordering::Relaxed) {
        next.store(now.saturating_add(time::ns_to_cycles(INTERVAL_NS)), Ordering::Relaxed);
        look();
    }
}
