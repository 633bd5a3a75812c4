//! The ring of a trace: written here, read by the module for the tracer.

#![allow(unsafe_code)] // memory shared with the module

use crate::base::frames;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::observe::{TRACE_TEXT_OFFSET, TraceRing};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;

/// Largest and smallest size tried, as an order of pages: 1 MiB, 64 KiB.
const ORDERS: core::ops::RangeInclusive<u32> = 4..=8;

/// A ring.
pub struct Ring {
    frame: PhysAddr,
    order: u32,
    bytes: u64,
    head: u64,
    lost: u64,
}

impl Ring {
    /// As large as memory allows.
    pub fn new() -> Option<Ring> {
        let (order, frame) =
            ORDERS.rev().find_map(|order| Some((order, frames::alloc_user(order)?)))?;
        let all = 4096 << order;
        memory::zero(frame, all);
        Some(Ring { frame, order, bytes: all as u64 - TRACE_TEXT_OFFSET, head: 0, lost: 0 })
    }

    /// Physical address, and bytes of the text.
    pub fn place(&self) -> (PhysAddr, u64) {
        (self.frame, self.bytes)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the ring is ours until it is dropped, aligned, and
        // both sides access its words as atomics.
        unsafe { &*((memory::direct(self.frame) + offset as u64) as *const AtomicU64) }
    }

    /// Appends a record made of `parts`; one that finds no room is counted. True: the
    /// reader had read everything before, or should hurry.
    pub fn push(&mut self, parts: &[&[u8]]) -> bool {
        let size: usize = parts.iter().map(|p| p.len()).sum();
        let used =
            self.head.wrapping_sub(self.word(offset_of!(TraceRing, tail)).load(Ordering::Acquire));
        if used > self.bytes || size as u64 > self.bytes - used {
            self.lost += 1;
            self.word(offset_of!(TraceRing, lost)).store(self.lost, Ordering::Relaxed);
            return true;
        }
        for part in parts {
            let at = self.head % self.bytes;
            let first = part.len().min((self.bytes - at) as usize);
            memory::write(self.frame + TRACE_TEXT_OFFSET + at, &part[..first]);
            memory::write(self.frame + TRACE_TEXT_OFFSET, &part[first..]);
            self.head += part.len() as u64;
        }
        self.word(offset_of!(TraceRing, head)).store(self.head, Ordering::Release);
        used == 0 || used > self.bytes / 2
    }

    /// Whether a reader should be given time.
    pub fn is_tight(&self) -> bool {
        let used =
            self.head.wrapping_sub(self.word(offset_of!(TraceRing, tail)).load(Ordering::Acquire));
        used > self.bytes / 4 * 3
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        frames::free(self.frame, self.order);
    }
}
