//! The heap that Rust allocates from: talc, fed with blocks of pages. A large allocation is a block
//! of its own, a small one mostly of those that the CPU keeps ([`crate::kept`]). What must not fail
//! comes, where nothing else is left, from a *reserve* that was put aside at boot. Which of the
//! three an allocation came from follows from its address and layout.

use crate::kept::{Behind, Kept};
use crate::memory::{self, Block};
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ops::DerefMut;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use talc::{ErrOnOom, OomHandler, Span, Talc, Talck};

/// Each time the heap is full it gets this much more (order of pages); less where memory is in
/// pieces, as applications leave it.
const GROW_ORDER: u32 = 8; // 1 MiB
/// Allocations from this size on are blocks of pages.
const LARGE_BYTES: usize = 64 << 10;
/// Pieces that can be given back; the heap may have more, which it keeps.
const PIECES_MAX: usize = 256;

/// Where the heap has its pages from, and what the kernel has to say on an allocation.
pub trait Supply: Send {
    /// A block of 2^`order` pages, if there is one.
    fn pages(order: u32) -> Option<Block>;
    /// Takes a block back.
    fn give_back(block: Block);
    /// Whether the allocation that is about to be made is to fail, for a test.
    fn is_to_fail() -> bool;
    /// Whether what the calling CPU allocates now may fail: it gets nothing of the reserve.
    fn may_fail() -> bool;
    /// Something of the reserve is in use, and nothing was before.
    fn uses_reserve();
}

/// A block that the heap was given, and the span that talc made of it.
struct Piece {
    block: Block,
    span: Span,
}

struct Grow<S> {
    pieces: [Option<Piece>; PIECES_MAX],
    supply: PhantomData<S>,
}

impl<S: Supply> OomHandler for Grow<S> {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        // A page beside the allocation is more than talc and the alignment need.
        let least = order_of(layout.size() + layout.align() + 4096);
        let piece =
            (least..=GROW_ORDER).rev().find_map(|order| claim::<S, _>(talc, order)).ok_or(())?;
        if let Some(place) = talc.oom_handler.pieces.iter_mut().find(|p| p.is_none()) {
            *place = Some(piece);
        }
        Ok(())
    }
}

/// Order of the smallest block that has so many bytes.
pub fn order_of(bytes: usize) -> u32 {
    bytes.div_ceil(4096).next_power_of_two().trailing_zeros()
}

/// Order of the block that an allocation is, if it is a large one.
fn large(layout: Layout) -> Option<u32> {
    let own = layout.size() >= LARGE_BYTES && layout.align() <= 4096;
    own.then(|| order_of(layout.size()))
}

/// Gives talc a block of pages. It is talc's until [`Heap::trim`] takes it out, or for good.
fn claim<S: Supply, O: OomHandler>(talc: &mut Talc<O>, order: u32) -> Option<Piece> {
    let block = S::pages(order)?;
    // SAFETY: the block is its holder's alone, and that is talc as long as the piece is there:
    // nothing else takes the block out of it.
    let claimed = unsafe { talc.claim(Span::from_base_size(block.start(), block.bytes())) };
    match claimed {
        Ok(span) => Some(Piece { block, span }),
        Err(()) => {
            S::give_back(block);
            None
        }
    }
}

/// Bytes of the heap, and how much of it is in use.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes that talc has of pieces.
    pub claimed: u64,
    /// Bytes of allocations there.
    pub allocated: u64,
    /// Number of allocations there.
    pub allocations: u64,
    /// Bytes of allocations that are blocks of pages.
    pub large: u64,
    /// Bytes of the reserve in use.
    pub reserved: u64,
}

struct Reserve {
    talc: Talck<spin::Mutex<()>, ErrOnOom>,
    /// First address and bytes, from boot on.
    start: AtomicU64,
    bytes: AtomicU64,
    used: AtomicUsize,
}

impl Reserve {
    fn has(&self, place: *mut u8) -> bool {
        (place as u64).wrapping_sub(self.start.load(Ordering::Relaxed))
            < self.bytes.load(Ordering::Relaxed)
    }
}

/// The heap, locked.
struct Locked<G>(G);

impl<G: DerefMut<Target = Talc<O>>, O: OomHandler> Behind for Locked<G> {
    fn allocate(&mut self, block: Layout) -> *mut u8 {
        // SAFETY: its size is not zero.
        unsafe { self.0.malloc(block) }.map_or(null_mut(), NonNull::as_ptr)
    }
    unsafe fn free(&mut self, block: *mut u8, layout: Layout) {
        if let Some(block) = NonNull::new(block) {
            // SAFETY: the caller's.
            unsafe { self.0.free(block, layout) };
        }
    }
}

/// A heap, for `#[global_allocator]`.
pub struct Heap<S: Supply> {
    talc: Talck<spin::Mutex<()>, Grow<S>>,
    kept: Kept,
    large_bytes: AtomicU64,
    reserve: Reserve,
}

impl<S: Supply> Heap<S> {
    /// A heap that has no pages yet.
    pub const fn new() -> Self {
        Heap {
            talc: Talc::new(Grow { pieces: [const { None }; PIECES_MAX], supply: PhantomData })
                .lock(),
            kept: Kept::new(),
            large_bytes: AtomicU64::new(0),
            reserve: Reserve {
                talc: Talc::new(ErrOnOom).lock(),
                start: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                used: AtomicUsize::new(0),
            },
        }
    }

    /// Gives the heap a block that it keeps; whether there was one.
    #[must_use]
    pub fn give(&self, order: u32) -> bool {
        claim::<S, _>(&mut self.talc.lock(), order).is_some()
    }

    /// Puts a block aside as the reserve, once; whether there was one.
    #[must_use]
    pub fn give_reserve(&self, order: u32) -> bool {
        assert!(self.reserve.bytes.load(Ordering::Relaxed) == 0, "a second reserve");
        let Some(piece) = claim::<S, _>(&mut self.reserve.talc.lock(), order) else { return false };
        self.reserve.start.store(piece.block.start() as u64, Ordering::Relaxed);
        self.reserve.bytes.store(piece.block.bytes() as u64, Ordering::Relaxed);
        true
    }

    /// Whether more than half of the reserve is in use.
    pub fn is_short(&self) -> bool {
        let r = &self.reserve;
        r.used.load(Ordering::Relaxed) as u64 * 2 > r.bytes.load(Ordering::Relaxed)
    }

    /// Whether so few bytes are there without a doubt: many times as many are free.
    pub fn surely_has(&self, bytes: usize) -> bool {
        const FEW: usize = 4096;
        const MANY: usize = 256 << 10;
        bytes <= FEW && self.talc.lock().get_counters().available_bytes >= MANY
    }

    /// How much there is, and in use.
    pub fn usage(&self) -> Usage {
        let talc = *self.talc.lock().get_counters();
        let (blocks, bytes) = self.kept.usage();
        Usage {
            claimed: talc.claimed_bytes as u64,
            allocated: (talc.allocated_bytes as u64).saturating_sub(bytes),
            allocations: (talc.allocation_count as u64).saturating_sub(blocks),
            large: self.large_bytes.load(Ordering::Relaxed),
            reserved: self.reserve.used.load(Ordering::Relaxed) as u64,
        }
    }

    /// Bytes that the heap was given and does not use, about: blocks that CPUs keep count as used.
    pub fn unused(&self) -> u64 {
        let talc = *self.talc.lock().get_counters();
        (talc.claimed_bytes as u64).saturating_sub(talc.allocated_bytes as u64)
    }

    /// Gives the pieces back of which nothing is in use.
    pub fn trim(&self) {
        self.kept.empty(|| Locked(self.talc.lock()));
        let mut talc = self.talc.lock();
        for i in 0..PIECES_MAX {
            let Some(span) = talc.oom_handler.pieces[i].as_ref().map(|p| p.span) else { continue };
            // SAFETY: `span` is what talc made of this piece, and neither extended nor truncated
            // since.
            let used = unsafe { talc.get_allocated_span(span) };
            if !used.is_empty() {
                continue;
            }
            // SAFETY: as above, and nothing of the piece is allocated; the lock is held in between.
            unsafe { talc.truncate(span, Span::empty()) };
            if let Some(piece) = talc.oom_handler.pieces[i].take() {
                S::give_back(piece.block);
            }
        }
    }

    /// An allocation that is not the reserve's, or null.
    fn ordinary(&self, layout: Layout) -> *mut u8 {
        if S::is_to_fail() {
            return null_mut();
        }
        match large(layout) {
            Some(order) => S::pages(order).map_or(null_mut(), |block| {
                assert!(block.order() == order, "another block than was asked for");
                self.large_bytes.fetch_add(block.bytes() as u64, Ordering::Relaxed);
                block.start()
            }),
            None => self.kept.allocate(layout, || Locked(self.talc.lock())).unwrap_or_else(|| {
                // SAFETY: a layout that the global allocator was asked for.
                unsafe { self.talc.alloc(layout) }
            }),
        }
    }

    fn of_reserve(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a layout that the global allocator was asked for.
        let place = unsafe { self.reserve.talc.alloc(layout) };
        if !place.is_null() && self.reserve.used.fetch_add(layout.size(), Ordering::Relaxed) == 0 {
            S::uses_reserve();
        }
        place
    }
}

// SAFETY: all three allocators hand out memory that no other code has, of at least the
// size and alignment asked for; which of them an allocation came from follows from its
// address and its layout, which is the same when it is freed.
unsafe impl<S: Supply> GlobalAlloc for Heap<S> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let place = self.ordinary(layout);
        if place.is_null() && !S::may_fail() {
            return self.of_reserve(layout);
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if self.reserve.has(place) {
            self.reserve.used.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: it came from there.
            return unsafe { self.reserve.talc.dealloc(place, layout) };
        }
        match large(layout) {
            Some(order) => {
                self.large_bytes.fetch_sub(4096 << order, Ordering::Relaxed);
                // SAFETY: `ordinary` made the allocation of such a block, and the caller gives it
                // up.
                let block = unsafe { Block::new(memory::of_direct(place as u64), order) };
                S::give_back(block);
            }
            // SAFETY: the caller's; `ordinary` has it of there.
            None if unsafe { self.kept.free(place, layout, || Locked(self.talc.lock())) } => {}
            // SAFETY: the caller's.
            None => unsafe { self.talc.dealloc(place, layout) },
        }
    }
}
