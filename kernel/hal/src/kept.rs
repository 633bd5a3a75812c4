//! Small blocks of the heap that each CPU keeps for itself, by size: most allocations and frees
//! take neither the heap's lock nor its search. What a CPU frees the same CPU mostly allocates
//! next.

use crate::percpu::{self, CPUS_MAX};
use core::alloc::Layout;
use core::ptr::null_mut;
use spin::Mutex;

/// Sizes differ by this, and are multiples of it.
const STEP: usize = 32;
/// Sizes that are kept: up to 512 bytes.
const SIZES: usize = 16;
const ALIGN: usize = 16;
/// Blocks of a size that a CPU keeps at most.
const MOST: u32 = 16;
/// Blocks that it takes, or gives back, at once.
const BATCH: u32 = 8;

/// The size of the blocks that an allocation is one of; `None`: such are not kept.
fn size_of(layout: Layout) -> Option<usize> {
    let size = layout.size().wrapping_sub(1) / STEP;
    (size < SIZES && layout.align() <= ALIGN).then_some(size)
}

fn block_of(size: usize) -> Layout {
    Layout::from_size_align((size + 1) * STEP, ALIGN).expect("a small block")
}

/// Blocks of one size, a list: each has the address of the next one in its first bytes.
#[derive(Clone, Copy)]
struct List {
    first: *mut u8,
    count: u32,
}

impl List {
    /// # Safety
    /// The block is the caller's alone, and has room for an address.
    unsafe fn push(&mut self, block: *mut u8) {
        // SAFETY: the caller's.
        unsafe { block.cast::<*mut u8>().write(self.first) };
        (self.first, self.count) = (block, self.count + 1);
    }

    fn pop(&mut self) -> Option<*mut u8> {
        let block = self.first;
        if block.is_null() {
            return None;
        }
        // SAFETY: `push` has written it, and no other code has the block.
        self.first = unsafe { block.cast::<*mut u8>().read() };
        self.count -= 1;
        Some(block)
    }
}

struct Lists([List; SIZES]);

// SAFETY: the blocks are the lists' alone.
unsafe impl Send for Lists {}

/// Only the CPU itself takes the lock, except when another CPU counts the blocks or takes them all
/// away.
#[repr(align(64))]
struct Own(Mutex<Lists>);

/// The blocks of all CPUs.
pub struct Kept([Own; CPUS_MAX]);

/// The heap behind it.
pub trait Behind {
    /// A new block of this layout, or null.
    fn allocate(&mut self, block: Layout) -> *mut u8;
    /// Takes one back.
    ///
    /// # Safety
    /// `block` was allocated there, and the caller gives it up.
    unsafe fn free(&mut self, block: *mut u8, layout: Layout);
}

impl Kept {
    /// Lists without blocks.
    pub const fn new() -> Kept {
        const NONE: List = List { first: null_mut(), count: 0 };
        Kept([const { Own(Mutex::new(Lists([NONE; SIZES]))) }; CPUS_MAX])
    }

    /// A block for a small allocation, or null; `None`: the allocation is not small. `behind` locks
    /// the heap.
    #[inline]
    pub fn allocate<B: Behind>(
        &self,
        layout: Layout,
        behind: impl FnOnce() -> B,
    ) -> Option<*mut u8> {
        let size = size_of(layout)?;
        let mut lists = self.0[percpu::index()].0.lock();
        let list = &mut lists.0[size];
        Some(list.pop().unwrap_or_else(|| fetch(list, size, &mut behind())))
    }

    /// Takes a small allocation back. False: it is not small.
    ///
    /// # Safety
    /// [`allocate`](Self::allocate) gave it for this layout, and the caller gives it up.
    #[inline]
    pub unsafe fn free<B: Behind>(
        &self,
        block: *mut u8,
        layout: Layout,
        behind: impl FnOnce() -> B,
    ) -> bool {
        let Some(size) = size_of(layout) else { return false };
        let mut lists = self.0[percpu::index()].0.lock();
        let list = &mut lists.0[size];
        // SAFETY: the caller's; all blocks have at least `STEP` bytes.
        unsafe { list.push(block) };
        if list.count > MOST {
            give_back(list, size, BATCH, &mut behind());
        }
        true
    }

    /// Gives all blocks of all CPUs back.
    pub fn empty<B: Behind>(&self, behind: impl Fn() -> B) {
        for own in &self.0 {
            for (size, list) in own.0.lock().0.iter_mut().enumerate().filter(|(_, l)| l.count != 0)
            {
                give_back(list, size, MOST, &mut behind());
            }
        }
    }

    /// Number and bytes of all blocks.
    pub fn usage(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |sums, own| {
            own.0.lock().0.iter().enumerate().fold(sums, |(blocks, bytes), (size, list)| {
                let count = u64::from(list.count);
                (blocks + count, bytes + count * block_of(size).size() as u64)
            })
        })
    }
}

/// Some blocks: one for the caller, or null, the others to be kept.
#[cold]
fn fetch(list: &mut List, size: usize, behind: &mut impl Behind) -> *mut u8 {
    let first = behind.allocate(block_of(size));
    if first.is_null() {
        return first;
    }
    for _ in 1..BATCH {
        let more = behind.allocate(block_of(size));
        if more.is_null() {
            break;
        }
        // SAFETY: it was just allocated.
        unsafe { list.push(more) };
    }
    first
}

#[cold]
fn give_back(list: &mut List, size: usize, count: u32, behind: &mut impl Behind) {
    for _ in 0..count {
        let Some(block) = list.pop() else { return };
        // SAFETY: `fetch` allocated it there with this layout, or `Kept::free` took it, as one of
        // such.
        unsafe { behind.free(block, block_of(size)) };
    }
}
