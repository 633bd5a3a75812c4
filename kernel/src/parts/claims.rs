//! Descriptors of a process whose calls a driver of the LWK executes.

use crate::base::lock::{Mutex, rank};
use crate::link::services;
use crate::mm::pages::content::FileRef;
use alloc::sync::Arc;
use hanare_core::claims::{Claims, Descriptors, Ticket};
use hanare_core::errno::Result;

/// Descriptor that a driver has claimed.
pub struct Claim {
    /// The file, which the module holds as long as there is the claim.
    pub _file: FileRef,
    /// Number of the driver.
    pub driver: usize,
    /// The file is open for reading.
    pub is_readable: bool,
    /// The file is open for writing.
    pub is_writable: bool,
}

/// Claims of a process (`hanare_core::claims`).
#[derive(Default)]
pub struct OfProcess(Mutex<Claims<Arc<Claim>>, rank::Claims>);

impl OfProcess {
    /// The claim of a descriptor.
    pub fn get(&self, descriptor: u32) -> Option<Arc<Claim>> {
        self.0.lock().get(descriptor).cloned()
    }

    /// Begins to ask Linux what a descriptor is.
    ///
    /// # Errors
    /// Those of [`Claims::ask`].
    pub fn ask(&self, descriptor: u32) -> Result<Ticket> {
        self.0.lock().ask(descriptor)
    }

    /// Enters the answer. Whether the descriptor is claimed now.
    pub fn answered(&self, question: Ticket, claim: Option<Arc<Claim>>) -> bool {
        let is_some = claim.is_some();
        let entered = self.0.lock().answered(question, claim);
        match entered {
            Ok(()) => is_some,
            Err(void) => {
                services::put_together(|| drop(void));
                false
            }
        }
    }

    /// Begins a call of the running thread by which these descriptors may become other files.
    pub fn begin(&self, which: Descriptors) -> Ticket {
        let change = self.0.lock().begin(which);
        self.give_up(which);
        change
    }

    /// Ends such a call: Linux has executed it.
    pub fn end(&self, change: Ticket) {
        self.0.lock().end(change);
    }

    /// Nothing is claimed any more: others change descriptors unseen, from the call on that the
    /// running thread is about to make.
    pub fn are_over(&self) {
        self.0.lock().are_over();
        self.give_up(Descriptors::ALL);
    }

    /// Gives all claims up: another program takes the place of the running one, which has one
    /// thread.
    pub fn give_up_all(&self) {
        self.give_up(Descriptors::ALL);
    }

    /// Gives claims up; their files close before this returns if nothing else holds them.
    fn give_up(&self, which: Descriptors) {
        let take = || self.0.lock().take(which);
        if let Some(first) = take() {
            services::put_together(|| {
                drop(first);
                while let Some(next) = take() {
                    drop(next);
                }
            });
        }
    }
}
