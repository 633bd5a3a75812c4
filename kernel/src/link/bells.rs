//! Bells of slots: by a slot's bell Linux wakes the thread that sleeps on the slot
//! (`hanare_ikc::BellRef`). A slot keeps its bell as long as its space is there: a worker may ring
//! late.
//!
//! Free bells form a list, each with the number of the next one in its word.

use crate::base::accounts::{Account, BellPlace};
use crate::base::lock::{Mutex, rank};
use alloc::sync::Arc;
use core::mem::take;
use hanare_core::errno::{self, Result};
use hanare_hal::{percpu, shared};
use hanare_ikc::SlotRef;

/// Bells that no slot has.
#[derive(Default)]
struct Free {
    /// Number of the first one of the list, plus 1; 0: none.
    first: u32,
    /// First bell of those that were never used.
    unused: u32,
}

static FREE: Mutex<Free, rank::FreeBells> = Mutex::new(Free { first: 0, unused: 0 });

/// A slot's bell.
pub struct Bell {
    number: u32,
    _place: BellPlace,
}

impl Bell {
    /// One for a slot of `space`, which has this account.
    ///
    /// # Errors
    /// `EAGAIN`: there are as many slots as there are bells, or the user has as many as allowed.
    pub fn new(space: u32, account: &Arc<Account>) -> Result<Bell> {
        let place = account.bell()?;
        let mut free = FREE.lock();
        let number = match take(&mut free.first).checked_sub(1) {
            Some(number) => {
                free.first = shared::bell(number).note();
                number
            }
            None if free.unused < shared::params().bell_count => {
                free.unused += 1;
                free.unused - 1
            }
            None => return Err(errno::EAGAIN),
        };
        shared::bell(number).give(space);
        Ok(Bell { number, _place: place })
    }

    /// The bell's number in the instance.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// The running thread, of `space`, is about to sleep on `slot`, and looks once more whether the
/// answer is there. The slot's worker may ring this CPU by `bell`, the slot's bell, once more.
#[inline(always)] // of each call that is woken for
pub fn expect_ring(space: u32, slot: &SlotRef<'_>, bell: u32) {
    slot.set_bell(bell);
    // The thread looks itself while it waits, too.
    let _ = slot.lwk_prepare_sleep(shared::bell(bell), space, percpu::index() as u32);
}

/// Like [`expect_ring`], on the slot of a pooled proxy, whose ring for another thread may come
/// late.
pub fn expect_ring_of_pooled(space: u32, slot: &SlotRef<'_>, bell: u32) {
    slot.set_bell(bell);
    let cpu = percpu::index() as u32;
    let _ = slot.lwk_prepare_shared_sleep(shared::bell(bell), space, cpu);
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut free = FREE.lock();
        shared::bell(self.number).disarm(free.first);
        free.first = self.number + 1;
    }
}
