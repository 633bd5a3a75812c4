//! The way to user mode of a thread that has not been there. A function set at boot does what has
//! to happen before.

use crate::sched::cpus;
use hanare_hal::context;
use hanare_hal::traps::Regs;
use spin::Once;

static PREPARE: Once<fn(&mut Regs)> = Once::new();

/// `prepare` does everything that has to happen before user mode. Said once, at boot.
pub fn init(prepare: fn(&mut Regs)) {
    PREPARE.call_once(|| prepare);
}

/// The running thread enters user mode for the first time, or with registers of another program.
pub fn enter(regs: &mut Regs) -> ! {
    cpus::request_attention();
    PREPARE.get().expect("user_mode::init")(regs);
    context::enter_user(regs)
}
