//! Bells of slots: by its own one Linux wakes who sleeps on a slot (`hanare_ikc::BellRef`). A slot
//! keeps its bell as long as its space is there: a worker may ring late.
//!
//! Those that are free are a list, each with the number of the next one in its word.

use core::mem::take;
use hanare_hal::{percpu, shared};
use hanare_ikc::SlotRef;
use spin::Mutex;

/// Bells that no slot has.
#[derive(Default)]
struct Free {
    /// Number of the first one of the list, plus 1; 0: none.
    first: u32,
    /// From this one on none was ever used.
    unused: u32,
}

static FREE: Mutex<Free> = Mutex::new(Free { first: 0, unused: 0 });

/// A slot's bell.
pub struct Bell(u32);

impl Bell {
    /// `None`: there are as many slots as there are bells.
    pub fn new() -> Option<Bell> {
        let mut free = FREE.lock();
        if let Some(number) = take(&mut free.first).checked_sub(1) {
            free.first = shared::bell(number).note();
            return Some(Bell(number));
        }
        let number = free.unused;
        (number < shared::params().bell_count).then(|| {
            free.unused += 1;
            Bell(number)
        })
    }

    /// Its number in the instance.
    pub fn number(&self) -> u32 {
        self.0
    }
}

/// The running thread, of `space`, is about to sleep on `slot`: its worker may ring this CPU by
/// `bell`, which is the slot's, once more.
pub fn expect_ring(space: u32, slot: &SlotRef<'_>, bell: u32) {
    shared::bell(bell).arm(space, percpu::index() as u32);
    slot.set_bell(bell);
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut free = FREE.lock();
        shared::bell(self.0).disarm(free.first);
        free.first = self.0 + 1;
    }
}
