//! Descriptors of a process whose calls a driver of the LWK executes.

use crate::base::heap;
use crate::base::lock::{Mutex, rank};
use crate::link::services;
use crate::mm::pages::content::FileRef;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_abi::service::EXTENTS_MAX;
use hanare_core::claims::{Claims, Descriptors, Ticket};
use hanare_core::errno::Result;
use hanare_hal::paging::linuxwords::LinuxWord;

/// Part of a block device that a descriptor is.
#[derive(Debug)]
pub struct Part {
    /// Number of the unit of the device (a namespace).
    pub unit: u32,
    /// Logarithm of the bytes of a block.
    pub block_shift: u32,
    /// First byte of the part on that unit.
    pub first: u64,
    /// Pages of the part that Linux has in its page cache.
    pub cached: LinuxWord,
    /// Length, in sectors of 512 bytes: it may change.
    pub sectors: LinuxWord,
    /// Length of the whole unit, in sectors of 512 bytes.
    pub unit_sectors: LinuxWord,
    /// Words that forbid writes unless they are 0: somebody has it for himself, or it is read-only.
    pub forbid_writes: [LinuxWord; 3],
    /// Changes when Linux could not write what it had in its page cache.
    pub error: LinuxWord,
    /// Value of that word when the descriptor was claimed.
    pub error_before: u64,
}

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
    /// Flags that it was opened with, or that fcntl(2) has given it since (`O_*`).
    pub flags: u32,
    /// Part of a device with queues that it is.
    pub part: Option<Part>,
}

/// Claims of a process (`hanare_core::claims`).
#[derive(Default)]
pub struct OfProcess {
    claims: Mutex<Claims<Arc<Claim>>, rank::Claims>,
    /// There are some, or were: most processes never have one.
    are_some: AtomicBool,
    /// None holds any more.
    are_over: AtomicBool,
}

impl OfProcess {
    /// The claim of a descriptor.
    pub fn get(&self, descriptor: u32) -> Option<Arc<Claim>> {
        self.claims.lock().get(descriptor).cloned()
    }

    /// Begins to ask Linux what a descriptor is.
    ///
    /// # Errors
    /// `EBUSY` and `ENOMEM`, as of [`Claims::ask`].
    pub fn ask(&self, descriptor: u32) -> Result<Ticket> {
        heap::fallible(|| self.claims.lock().ask(descriptor))
    }

    /// Enters the answer. Whether the descriptor is claimed now.
    pub fn answered(&self, question: Ticket, claim: Option<Arc<Claim>>) -> bool {
        let is_some = claim.is_some();
        if is_some {
            self.are_some.store(true, Ordering::Relaxed);
        }
        let entered = heap::fallible(|| self.claims.lock().answered(question, claim));
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
        let change = heap::fallible(|| self.claims.lock().begin(which));
        self.give_up(which);
        change
    }

    /// Ends such a call: Linux has executed it.
    pub fn end(&self, change: Ticket) {
        self.claims.lock().end(change);
    }

    /// Nothing is claimed any more: others change descriptors unseen, from the call on that the
    /// running thread is about to make.
    pub fn are_over(&self) {
        if !self.are_over.load(Ordering::Acquire) {
            self.claims.lock().are_over();
            self.give_up(Descriptors::ALL);
            self.are_over.store(true, Ordering::Release);
        }
    }

    /// Gives all claims up: the process ends, or another program takes its place.
    pub fn give_up_all(&self) {
        self.give_up(Descriptors::ALL);
    }

    /// Gives claims up; their files close before this returns if nothing else holds them.
    fn give_up(&self, which: Descriptors) {
        if !self.are_some.load(Ordering::Relaxed) {
            return;
        }
        let mut is_left = true;
        while is_left {
            // So many are put back at once.
            services::put_together(|| {
                for _ in 0..EXTENTS_MAX {
                    let next = self.claims.lock().take(which);
                    is_left = next.is_some();
                    if !is_left {
                        break;
                    }
                }
            });
        }
    }
}
