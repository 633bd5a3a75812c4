//! The heap: blocks of powers of two, made of pages that the kernel maps; a block is used again by
//! what has its size.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use super::calls::{map, unmap};

const PAGE: usize = 4096;
/// A free block keeps the address of the next one.
const SMALLEST_SHIFT: u32 = 4;
const CLASSES: usize = 13;
/// Larger ones are mappings of their own.
const LARGEST: usize = 1 << (SMALLEST_SHIFT as usize + CLASSES - 1);
/// Bytes that are mapped at once for smaller blocks.
const RUN_BYTES: usize = 1 << 20;

/// An allocator of memory that the program maps as it needs it. A program has one, which `entry!`
/// makes.
///
/// It aligns to at most a page; what wants more is refused.
pub struct Heap {
    is_held: AtomicBool,
    inside: UnsafeCell<Inside>,
}

struct Inside {
    /// The first free block of each class.
    free: [*mut Block; CLASSES],
    /// Pages of which no block has been made yet.
    rest: *mut u8,
    rest_bytes: usize,
}

struct Block {
    next: *mut Block,
}

// SAFETY: the thread that looks inside holds `is_held`.
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap that has no memory yet.
    #[must_use]
    pub const fn new() -> Self {
        let inside = Inside { free: [null_mut(); CLASSES], rest: null_mut(), rest_bytes: 0 };
        Self { is_held: AtomicBool::new(false), inside: UnsafeCell::new(inside) }
    }

    /// A native task has one thread, which never waits here.
    fn with<T>(&self, act: impl FnOnce(&mut Inside) -> T) -> T {
        while self.is_held.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        // SAFETY: no other thread is between the exchange above and the store below, and `act` does
        // not come here.
        let result = act(unsafe { &mut *self.inside.get() });
        self.is_held.store(false, Ordering::Release);
        result
    }
}

impl Inside {
    fn take(&mut self, class: usize) -> *mut u8 {
        let first = self.free[class];
        if first.is_null() {
            return self.cut(1 << (class + SMALLEST_SHIFT as usize));
        }
        // SAFETY: a free block is memory of this heap that `put` has written.
        self.free[class] = unsafe { (*first).next };
        first.cast()
    }

    /// A new block. What is left of pages that are too few for it stays unused.
    fn cut(&mut self, bytes: usize) -> *mut u8 {
        let align = bytes.min(PAGE);
        let mut skip = self.rest.align_offset(align);
        if self.rest.is_null() || skip.saturating_add(bytes) > self.rest_bytes {
            let pages = map(RUN_BYTES);
            if pages.is_null() {
                return pages;
            }
            (self.rest, self.rest_bytes, skip) = (pages, RUN_BYTES, 0);
        }
        let block = self.rest.wrapping_add(skip);
        self.rest = block.wrapping_add(bytes);
        self.rest_bytes -= skip + bytes;
        block
    }

    fn put(&mut self, class: usize, block: *mut Block) {
        // SAFETY: the block is at least as large and as aligned as the smallest one, and is not
        // used any more.
        unsafe { block.write(Block { next: self.free[class] }) };
        self.free[class] = block;
    }
}

/// Size class of a block, as the index of its list; `None`: it is a mapping.
fn class_of(layout: Layout) -> Option<usize> {
    let bytes = layout.size().max(layout.align()).max(1 << SMALLEST_SHIFT);
    let is_block = bytes <= LARGEST;
    is_block.then(|| (bytes.next_power_of_two().trailing_zeros() - SMALLEST_SHIFT) as usize)
}

// SAFETY: a block is given to one at a time, of the size and alignment that its layout asks for;
// the same layout finds its list again.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            _ if layout.align() > PAGE => null_mut(),
            Some(class) => self.with(|inside| inside.take(class)),
            None => map(layout.size()),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) => self.with(|inside| inside.put(class, block.cast())),
            // SAFETY: it was mapped by `alloc` with this size, and a caller that gives it back does
            // not use it.
            None => unsafe { unmap(block, layout.size()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn blocks_do_not_overlap_and_are_aligned() {
        let heap = Heap::new();
        let sizes = [1, 16, 17, 100, 4095, 4096, 4097, 65_536, 65_537, 1_000_000, 3_000_000];
        for round in 0..3_u8 {
            let mut blocks = Vec::new();
            for (index, size) in sizes.iter().copied().cycle().take(200).enumerate() {
                let layout = layout(size, 1 << (index % 13));
                // SAFETY: the size is not zero.
                let block = unsafe { heap.alloc(layout) };
                assert!(
                    !block.is_null() && block.addr().is_multiple_of(layout.align()),
                    "{layout:?}"
                );
                // SAFETY: so many bytes were asked for.
                unsafe { block.write_bytes(index as u8 ^ round, size) };
                blocks.push((block, layout, index as u8 ^ round));
            }
            for (block, layout, mark) in blocks {
                // SAFETY: it was written above.
                let bytes = unsafe { core::slice::from_raw_parts(block, layout.size()) };
                assert!(bytes.iter().all(|&byte| byte == mark), "{layout:?}");
                // SAFETY: no code uses it from here on.
                unsafe { heap.dealloc(block, layout) };
            }
        }
    }

    #[test]
    fn a_freed_block_is_used_again() {
        let heap = Heap::new();
        let layout = layout(100, 8);
        // SAFETY: the size is not zero, and each block is given back once.
        let (first, second) = unsafe {
            let first = heap.alloc(layout);
            heap.dealloc(first, layout);
            (first, heap.alloc(layout))
        };
        assert_eq!(first, second);
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let heap = Heap::new();
        // SAFETY: the sizes are not zero.
        unsafe {
            assert!(heap.alloc(layout(16, 8192)).is_null());
            assert!(heap.alloc(layout(1 << 60, 8)).is_null());
        }
    }
}
