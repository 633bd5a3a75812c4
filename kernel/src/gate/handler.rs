//! The beginning and the end of a handler.

use crate::gate::rseq;
use crate::process::thread::Thread;
use crate::signal::sigframe;
use hanare_core::signal::{self, AltStack, QueuedSignal, SigAction};
use hanare_hal::traps::Regs;
use hanare_hal::usercopy::Fault;

/// Builds the frame and points the registers at the handler.
///
/// # Errors
/// The frame cannot be made; nothing has changed.
pub fn begin(
    thread: &Thread,
    queued: &QueuedSignal,
    action: &SigAction,
    regs: &mut Regs,
) -> Result<(), Fault> {
    let (alt, mask, trap) = {
        let s = thread.signals.lock();
        (s.alt, s.lasting, s.trap)
    };
    rseq::before_handler(thread, regs).map_err(|_| Fault)?;
    sigframe::build(queued, action, regs, &alt, mask, trap)?;
    let mut s = thread.signals.lock();
    let mask = action.mask_in_handler(queued.signal, s.mask);
    s.set(mask);
    if s.alt.flags & signal::SS_AUTODISARM != 0 {
        s.alt = AltStack::DISABLED;
    }
    Ok(())
}
