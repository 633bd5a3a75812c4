//! The frames of a message (`messages.rs`).

use crate::base::chain::{Chain, Run};
use crate::base::frames;
use core::sync::atomic::{AtomicU32, Ordering};
use hanare_core::ledger::FrameOwner;
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;

/// Order of the largest block of frames: what Linux is asked about at once.
const ORDER_MAX: u32 = 9;
/// Blocks of a message: those of 2 MiB, and smaller ones, of which each growth adds a few.
const BLOCKS_MAX: usize = 64;

/// The frames of a message, one block behind the other.
pub struct Frames {
    /// The blocks, each with its order in the low bits.
    blocks: [u64; BLOCKS_MAX],
    count: usize,
    pages: u64,
    /// Calls one after the other that have not needed as many.
    unused: AtomicU32,
}

impl Frames {
    /// Frames of a message that is not made yet.
    pub const fn none() -> Self {
        Self { blocks: [0; BLOCKS_MAX], count: 0, pages: 0, unused: AtomicU32::new(0) }
    }

    /// A copy that names the same frames, from which a message with other frames is made.
    pub fn copy(&self) -> Self {
        let Self { blocks, count, pages, .. } = *self;
        Self { blocks, count, pages, unused: AtomicU32::new(0) }
    }

    /// How many calls one after the other have not needed as many.
    pub fn unused(&self) -> u32 {
        self.unused.load(Ordering::Relaxed)
    }

    /// Sets the number of such calls. Only the thread that has the message does so.
    pub fn set_unused(&self, calls: u32) {
        self.unused.store(calls, Ordering::Relaxed);
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        (self.pages * 4096) as usize
    }

    fn blocks(&self) -> impl Iterator<Item = (PhysAddr, u32)> + '_ {
        self.blocks[..self.count]
            .iter()
            .map(|&block| (PhysAddr(block).page_down(), block as u32 & 15))
    }

    /// Where the byte at an offset lies, and how many lie behind it, itself among them.
    pub fn place(&self, at: usize) -> Option<(PhysAddr, usize)> {
        let mut start = 0;
        for (frame, order) in self.blocks() {
            let bytes = 4096 << order;
            if at - start < bytes {
                return Some((frame + (at - start) as u64, bytes - (at - start)));
            }
            start += bytes;
        }
        None
    }

    /// Adds a block of as many pages as are wanted at most, cleared, for their owner. False: there
    /// is none, or no place for it.
    pub fn add(&mut self, wanted: u64, owner: FrameOwner) -> bool {
        let order = wanted.ilog2().min(ORDER_MAX);
        // Memory may be there in smaller blocks only.
        let block = |order| Some((frames::alloc_user(order, owner)?, order));
        let found = (0..=order).rev().find_map(block);
        let (Some((frame, order)), Some(place)) = (found, self.blocks.get_mut(self.count)) else {
            if let Some((frame, order)) = found {
                frames::free(frame, order);
            }
            return false;
        };
        memory::zero(frame, 4096 << order);
        if (1..ORDER_MAX).contains(&order) {
            frames::split(frame, order); // runs of single pages go back, and blocks of 512
        }
        *place = frame.0 | u64::from(order);
        self.count += 1;
        self.pages += 1 << order;
        true
    }

    /// Takes the last block away.
    pub fn pop(&mut self) -> Option<Run> {
        self.count = self.count.checked_sub(1)?;
        let block = core::mem::take(&mut self.blocks[self.count]);
        let order = block as u32 & 15;
        self.pages -= 1 << order;
        let run = Run::of(PhysAddr(block).page_down(), order == ORDER_MAX);
        Some(Run { pages: 1 << order, ..run })
    }

    /// Gives all blocks up.
    pub fn give_up(mut self, to: &mut Chain) {
        while let Some(run) = self.pop() {
            to.push(run);
        }
    }
}
