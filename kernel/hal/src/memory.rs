//! The direct map: physical memory of the instance at `DIRECT_BASE + paddr`.

use crate::addr::PhysAddr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::MemoryChunk;
use hanare_abi::layout::DIRECT_BASE;

/// Virtual address of a physical address of the instance.
pub fn direct(paddr: PhysAddr) -> u64 {
    DIRECT_BASE + paddr.0
}

/// Physical address of an address of the direct map.
pub fn of_direct(addr: u64) -> PhysAddr {
    PhysAddr(addr - DIRECT_BASE)
}

/// The last chunk that begins at a physical address or below. They are in ascending order.
fn chunk_below(paddr: PhysAddr) -> Option<&'static MemoryChunk> {
    let chunks = crate::shared::chunks();
    chunks.get(chunks.partition_point(|c| c.base.address() <= paddr.0).checked_sub(1)?)
}

/// The chunk that has a physical address.
pub fn chunk_of(paddr: PhysAddr) -> Option<&'static MemoryChunk> {
    chunk_below(paddr).filter(|c| paddr.0 - c.base.address() < c.size)
}

/// Whether `paddr..paddr + bytes` lies in the instance's memory; no bytes at the end of a chunk do.
pub fn is_ours(paddr: PhysAddr, bytes: u64) -> bool {
    chunk_below(paddr).is_some_and(|c| paddr.0.saturating_add(bytes) <= c.addresses().end)
}

pub(crate) fn checked(paddr: PhysAddr, bytes: usize) -> *mut u8 {
    assert!(is_ours(paddr, bytes as u64), "physical {paddr:#x}+{bytes:#x} is not ours");
    direct(paddr) as *mut u8
}

/// Zeroes memory that the caller owns (allocated, not mapped anywhere yet).
pub fn zero(paddr: PhysAddr, bytes: usize) {
    let p = checked(paddr, bytes);
    // SAFETY: within the instance's memory, and the caller's; `rep stosb` as the
    // kernel has no vector registers.
    unsafe { core::ptr::write_bytes(p, 0, bytes) };
}

/// Copies between frames that the caller owns.
pub fn copy(to: PhysAddr, from: PhysAddr, bytes: usize) {
    let (to, from) = (checked(to, bytes), checked(from, bytes));
    // SAFETY: both within the instance's memory; frames do not overlap unless equal.
    unsafe { core::ptr::copy(from, to, bytes) };
}

/// Copies out of a frame into a slice. Others that map the frame may write at
/// the same time; the bytes are data to be validated, nothing more.
pub fn read(paddr: PhysAddr, to: &mut [u8]) {
    let p = checked(paddr, to.len());
    // SAFETY: within the instance's memory.
    unsafe { core::ptr::copy(p, to.as_mut_ptr(), to.len()) };
}

/// Copies a slice into a frame.
pub fn write(paddr: PhysAddr, from: &[u8]) {
    let p = checked(paddr, from.len());
    // SAFETY: within the instance's memory.
    unsafe { core::ptr::copy(from.as_ptr(), p, from.len()) };
}

/// Writes an aligned word that Linux may read meanwhile: after it, other kernels see what was
/// written before.
///
/// # Panics
/// If the address is not a multiple of 4.
pub fn store_u32(paddr: PhysAddr, value: u32) {
    let p = checked(paddr, 4).cast::<u32>();
    assert!(p.is_aligned(), "no word at {paddr:?}");
    // SAFETY: aligned, within the instance's memory; any bytes are a word.
    unsafe { AtomicU32::from_ptr(p) }.store(value, Ordering::Release);
}

/// A block of 2^n pages that its holder has to itself: no other part of the kernel touches it.
/// Linux may map it, and then accesses its words as atomics. Its holder gives it back to where it
/// came from.
pub struct Block {
    frame: PhysAddr,
    order: u32,
}

impl Block {
    /// The block of 2^`order` pages at `frame`.
    ///
    /// # Safety
    /// The block is allocated, and only the caller has it, and hands it over.
    ///
    /// # Panics
    /// If it is not the instance's memory.
    pub unsafe fn new(frame: PhysAddr, order: u32) -> Block {
        checked(frame, 4096 << order);
        Block { frame, order }
    }

    /// The block's first frame.
    pub fn frame(&self) -> PhysAddr {
        self.frame
    }

    /// The n of its 2^n pages.
    pub fn order(&self) -> u32 {
        self.order
    }

    /// The block's size, bytes.
    pub fn bytes(&self) -> usize {
        4096 << self.order
    }

    /// The block's first address, in the direct map.
    pub fn start(&self) -> *mut u8 {
        direct(self.frame) as *mut u8
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// If none lies there.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.bytes(), "no word at {offset:#x}");
        // SAFETY: aligned, in the block (`new`), which is the holder's; any bytes are a word.
        unsafe { AtomicU64::from_ptr(self.start().wrapping_add(offset).cast()) }
    }
}

/// A slice over memory that is the caller's for good (allocator metadata, heap).
///
/// # Safety
/// The memory must be allocated to the caller and never given back, the content
/// valid for `T` (all-zero is, for the types it is used with).
pub unsafe fn claim<T>(paddr: PhysAddr, count: usize) -> &'static mut [T] {
    let p = checked(paddr, count * size_of::<T>());
    // SAFETY: exclusive and in range; see above.
    unsafe { core::slice::from_raw_parts_mut(p.cast(), count) }
}

/// As [`claim`], of these values.
///
/// # Safety
/// The memory must be allocated to the caller, as much as the values need, and never given back.
pub unsafe fn fill<T>(paddr: PhysAddr, values: impl Iterator<Item = T>) -> &'static mut [T] {
    let mut count = 0;
    for value in values {
        let p = checked(paddr + (count * size_of::<T>()) as u64, size_of::<T>()).cast::<T>();
        assert!(p.is_aligned());
        // SAFETY: aligned, in range and the caller's.
        unsafe { p.write(value) };
        count += 1;
    }
    // SAFETY: so many values were written.
    unsafe { claim(paddr, count) }
}
