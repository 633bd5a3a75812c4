//! The ring of a trace: written here, read by the module for the tracer.

use crate::base::accounts::{Account, RingPlace};
use crate::base::frames;
use alloc::sync::Arc;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use hanare_abi::observe::{TRACE_TEXT_OFFSET, TraceRing};
use hanare_core::errno::{self, Result};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory::{self, Block};

/// Largest and smallest size tried, as an order of pages: 1 MiB, 64 KiB.
const ORDERS: core::ops::RangeInclusive<u32> = 4..=8;

/// A ring.
pub struct Ring {
    block: Block,
    bytes: u64,
    head: u64,
    lost: u64,
    _place: RingPlace,
}

impl Ring {
    /// As large as its user may have one, and memory allows.
    ///
    /// # Errors
    /// `EAGAIN`: its user has as many as allowed. `ENOMEM`.
    pub fn new(account: &Arc<Account>) -> Result<Ring> {
        let mut orders = ORDERS;
        while let Some(most) = orders.next_back() {
            let place = account.ring(*ORDERS.start()..=most)?;
            let order = place.order();
            let Some(block) = frames::alloc_user_block(order, place.owner()) else {
                continue; // there may be a smaller block
            };
            let all = block.bytes();
            memory::zero(block.frame(), all);
            let bytes = all as u64 - TRACE_TEXT_OFFSET;
            return Ok(Ring { block, bytes, head: 0, lost: 0, _place: place });
        }
        Err(errno::ENOMEM)
    }

    /// Whether its reader is told that nothing more will be written.
    pub fn set_over(&self, is_over: bool) {
        self.block.word(offset_of!(TraceRing, over)).store(is_over.into(), Ordering::Release);
    }

    /// Physical address, and bytes of the text.
    pub fn place(&self) -> (PhysAddr, u64) {
        (self.block.frame(), self.bytes)
    }

    /// Appends a record made of `parts`; one that finds no room is counted. True: the
    /// reader had read everything before, or should hurry.
    pub fn push(&mut self, parts: &[&[u8]]) -> bool {
        let size: usize = parts.iter().map(|p| p.len()).sum();
        let used = self
            .head
            .wrapping_sub(self.block.word(offset_of!(TraceRing, tail)).load(Ordering::Acquire));
        if used > self.bytes || size as u64 > self.bytes - used {
            self.lost += 1;
            self.block.word(offset_of!(TraceRing, lost)).store(self.lost, Ordering::Relaxed);
            return true;
        }
        let text = self.block.frame() + TRACE_TEXT_OFFSET;
        for part in parts {
            let at = self.head % self.bytes;
            let first = part.len().min((self.bytes - at) as usize);
            memory::write(text + at, &part[..first]);
            memory::write(text, &part[first..]);
            self.head += part.len() as u64;
        }
        self.block.word(offset_of!(TraceRing, head)).store(self.head, Ordering::Release);
        used == 0 || used > self.bytes / 2
    }

    /// Whether a reader should be given time.
    pub fn is_tight(&self) -> bool {
        let used = self
            .head
            .wrapping_sub(self.block.word(offset_of!(TraceRing, tail)).load(Ordering::Acquire));
        used > self.bytes / 4 * 3
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        frames::free(self.block.frame(), self.block.order());
    }
}
