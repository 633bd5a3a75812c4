//! The kernel heap: talc, fed from the frame allocator. Large blocks are frames of
//! their own, so that a vector that was large once costs nothing afterwards; what
//! the heap was given and no longer uses goes back ([`trim`]).
//!
//! **Without memory.** What a program or a proxy has the kernel make is asked for so that it can be
//! refused: by [`with_room`] and its like, or by [`fallible`] around `try_reserve`; an object
//! that Rust allocates without asking (`Arc`, a node of a tree) after [`room`] has found that it
//! fits. Everything else is small and short-lived, or one entry of a queue for a thread or process
//! that exists: where the heap has nothing for it, it comes from a *reserve* that was put aside at
//! boot and serves nothing else. While that is more than half used nothing new is made at all.

#![allow(unsafe_code)] // claims memory for the allocator
#![expect(clippy::disallowed_methods, reason = "asks before it allocates, for all others")]

use crate::base::failing;
use crate::base::lock::{Mutex, Rank};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use hanare_core::errno::{self, Result};
use hanare_core::lists;
use hanare_hal::addr::PhysAddr;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{memory, percpu};
use spin::Once;
use talc::{ErrOnOom, OomHandler, Span, Talc, Talck};

/// Each time the heap is full it gets this much more (order of pages); less where memory is in
/// pieces, as applications leave it.
const GROW_ORDER: u32 = 8; // 1 MiB
/// Its first memory.
const FIRST_ORDER: u32 = 9;
/// Blocks from this size on come from the frame allocator.
const LARGE_BYTES: usize = 64 << 10;
/// Pieces that can be given back; the heap may have more, which it keeps.
const PIECES_MAX: usize = 256;
/// The reserve is one part of so many of the memory: about 250 bytes for each kernel stack that
/// there can be.
const RESERVE_SHARE: u64 = 128;
/// The reserve at least and at most, as orders of pages: 512 KiB, 32 MiB.
const RESERVE_ORDERS: (u32, u32) = (7, 13);

/// Strings and lists of a process or a thread that begins, about.
pub const SMALL_PARTS: usize = 1024;

/// What the heap was given: the frame and what talc made of it.
struct Piece {
    frame: PhysAddr,
    order: u32,
    span: Span,
}

struct Grow {
    pieces: [Option<Piece>; PIECES_MAX],
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> core::result::Result<(), ()> {
        // A page beside the block is more than talc and the alignment need.
        let least = order_of(layout.size() + layout.align() + 4096);
        let (order, frame, span) =
            (least..=GROW_ORDER).rev().find_map(|order| claim(talc, order)).ok_or(())?;
        if let Some(place) = talc.oom_handler.pieces.iter_mut().find(|p| p.is_none()) {
            *place = Some(Piece { frame, order, span });
        }
        Ok(())
    }
}

fn order_of(bytes: usize) -> u32 {
    bytes.div_ceil(4096).next_power_of_two().trailing_zeros()
}

/// Gives the heap a block: order, frame, what talc made of it.
fn claim(talc: &mut Talc<Grow>, order: u32) -> Option<(u32, PhysAddr, Span)> {
    let frame = crate::base::frames::alloc(order)?;
    let base = memory::direct(frame) as *mut u8;
    // SAFETY: the block is ours until `trim` has taken it out of the heap again.
    let span = unsafe { talc.claim(Span::from_base_size(base, 4096 << order)) }.ok()?;
    Some((order, frame, span))
}

/// What was put aside for allocations that nobody can be refused.
struct Reserve {
    talc: Talck<spin::Mutex<()>, ErrOnOom>,
    /// First address and bytes, from boot on.
    start: AtomicU64,
    bytes: AtomicU64,
    used: AtomicUsize,
}

impl Reserve {
    fn has(&self, block: *mut u8) -> bool {
        (block as u64).wrapping_sub(self.start.load(Ordering::Relaxed))
            < self.bytes.load(Ordering::Relaxed)
    }

    fn init(&self) {
        let wanted = order_of((crate::base::frames::usage().1 / RESERVE_SHARE) as usize)
            .clamp(RESERVE_ORDERS.0, RESERVE_ORDERS.1);
        // As much as there is in one piece.
        let found = (RESERVE_ORDERS.0..=wanted)
            .rev()
            .find_map(|order| Some((order, crate::base::frames::alloc(order)?)));
        let (order, frame) = found.expect("memory for the reserve");
        let base = memory::direct(frame);
        // SAFETY: the block is the reserve's for good.
        let claimed =
            unsafe { self.talc.lock().claim(Span::from_base_size(base as *mut u8, 4096 << order)) };
        claimed.expect("a reserve of a sensible size");
        self.start.store(base, Ordering::Relaxed);
        self.bytes.store(4096 << order, Ordering::Relaxed);
    }

    fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a layout that the global allocator was asked for.
        let block = unsafe { self.talc.alloc(layout) };
        if !block.is_null() && self.used.fetch_add(layout.size(), Ordering::Relaxed) == 0 {
            crate::info!("the kernel's heap is full: its reserve is used");
        }
        block
    }
}

struct Heap {
    talc: Talck<spin::Mutex<()>, Grow>,
    /// Bytes of blocks that are frames of their own.
    large_bytes: AtomicU64,
    reserve: Reserve,
}

/// Order of a block that comes from the frame allocator.
fn large(layout: Layout) -> Option<u32> {
    let own = layout.size() >= LARGE_BYTES && layout.align() <= 4096;
    own.then(|| order_of(layout.size()))
}

impl Heap {
    /// A block that is not the reserve's, or null.
    fn ordinary(&self, layout: Layout) -> *mut u8 {
        if failing::is_to_fail() {
            return core::ptr::null_mut();
        }
        match large(layout) {
            Some(order) => match crate::base::frames::alloc(order) {
                Some(frame) => {
                    self.large_bytes.fetch_add(4096 << order, Ordering::Relaxed);
                    memory::direct(frame) as *mut u8
                }
                None => core::ptr::null_mut(),
            },
            // SAFETY: a layout that the global allocator was asked for.
            None => unsafe { self.talc.alloc(layout) },
        }
    }
}

// SAFETY: all three allocators hand out memory that nobody else has, of at least the
// size and alignment asked for; which of them a block came from follows from its
// address and its layout, which is the same when it is freed.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.ordinary(layout);
        if block.is_null() && !MAY_FAIL[percpu::index()].load(Ordering::Relaxed) {
            return self.reserve.alloc(layout);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.reserve.has(block) {
            self.reserve.used.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: it came from there.
            return unsafe { self.reserve.talc.dealloc(block, layout) };
        }
        match large(layout) {
            Some(order) => {
                self.large_bytes.fetch_sub(4096 << order, Ordering::Relaxed);
                crate::base::frames::free(memory::of_direct(block as u64), order);
            }
            // SAFETY: the caller's.
            None => unsafe { self.talc.dealloc(block, layout) },
        }
    }
}

#[global_allocator]
static HEAP: Heap = Heap {
    talc: Talc::new(Grow { pieces: [const { None }; PIECES_MAX] }).lock(),
    large_bytes: AtomicU64::new(0),
    reserve: Reserve {
        talc: Talc::new(ErrOnOom).lock(),
        start: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        used: AtomicUsize::new(0),
    },
};

/// Whether what the CPU allocates now may fail. Only that CPU looks, and between setting and
/// clearing it does nothing else.
static MAY_FAIL: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];

/// Does something in which each allocation may fail and is looked at (`try_reserve`): it gets
/// nothing of the reserve. It must not wait.
pub fn fallible<T>(f: impl FnOnce() -> T) -> T {
    let flag = &MAY_FAIL[percpu::index()];
    let outer = flag.swap(true, Ordering::Relaxed);
    let result = f();
    flag.store(outer, Ordering::Relaxed);
    result
}

/// Whether so little is left of the reserve that nothing new may be made.
pub fn is_short() -> bool {
    let r = &HEAP.reserve;
    r.used.load(Ordering::Relaxed) as u64 * 2 > r.bytes.load(Ordering::Relaxed)
}

/// Bytes of the heap; of the blocks in use there bytes and number; bytes of blocks that are frames of
/// their own, and of those in the reserve.
pub fn usage() -> [u64; 5] {
    let heap = *HEAP.talc.lock().get_counters();
    [
        heap.claimed_bytes as u64,
        heap.allocated_bytes as u64,
        heap.allocation_count as u64,
        HEAP.large_bytes.load(Ordering::Relaxed),
        HEAP.reserve.used.load(Ordering::Relaxed) as u64,
    ]
}

/// Whether the heap has a block of so many bytes, for what is made next and cannot be refused
/// any more. Another CPU may be faster: then it comes from the reserve.
///
/// # Errors
/// `ENOMEM`.
pub fn room(bytes: usize) -> Result<()> {
    with_room::<u8>(bytes).map(drop)
}

/// An [`Arc`] of it, or `ENOMEM`.
pub fn arc<T>(value: T) -> Result<Arc<T>> {
    room_for_arc::<T>()?;
    Ok(Arc::new(value))
}

/// Whether there is [`room`] for an [`Arc`] of such.
pub fn room_for_arc<T>() -> Result<()> {
    room(size_of::<T>() + 2 * size_of::<usize>())
}

/// Whether there is [`room`] for one more entry of a tree.
pub fn room_for_entry<K, V>() -> Result<()> {
    room(lists::entry_bytes::<K, V>())
}

/// An empty vector with room for as many as a program says.
///
/// # Errors
/// `ENOMEM`, where a plain one would be the end of the instance.
pub fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    more_room(&mut v, count)?;
    Ok(v)
}

/// Room for so many more. Errors: see [`with_room`].
pub fn more_room<T>(v: &mut Vec<T>, count: usize) -> Result<()> {
    if is_short() {
        return Err(errno::ENOMEM);
    }
    fallible(|| v.try_reserve(count)).map_err(|_| errno::ENOMEM)
}

/// As many zeroes as a program says. Errors: see [`with_room`].
pub fn zeroed(bytes: usize) -> Result<Vec<u8>> {
    let mut v = with_room(bytes)?;
    v.resize(bytes, 0);
    Ok(v)
}

/// A copy of what a program gives. Errors: see [`with_room`].
pub fn copied<T: Copy>(values: &[T]) -> Result<Vec<T>> {
    let mut v = with_room(values.len())?;
    v.extend_from_slice(values);
    Ok(v)
}

/// Gives the heap its first memory, which it keeps.
pub fn init() {
    claim(&mut HEAP.talc.lock(), FIRST_ORDER).expect("2 MiB for the kernel heap");
    HEAP.reserve.init();
}

/// See [`init_lists`].
static LISTS: Once<&[fn()]> = Once::new();

/// Functions that give the memory of long lists back which are empty now, see [`trim`].
pub fn init_lists(trims: &'static [fn()]) {
    LISTS.call_once(|| trims);
}

/// Gives the memory of an empty list back: the last node of a tree stays when its last entry goes.
pub fn trim_list<K, V, R: Rank>(list: &Mutex<BTreeMap<K, V>, R>) {
    let mut list = list.lock();
    if list.is_empty() {
        *list = BTreeMap::new();
    }
}

/// Takes back what the heap was given and uses nothing of. First, lists that were long
/// once and are empty now give their memory back: one would hold a whole piece.
pub fn trim() {
    LISTS.get().into_iter().flat_map(|all| all.iter()).for_each(|trim| trim());
    let mut talc = HEAP.talc.lock();
    for i in 0..PIECES_MAX {
        let Some(span) = talc.oom_handler.pieces[i].as_ref().map(|p| p.span) else { continue };
        // SAFETY: `span` is what `claim` returned for this piece.
        let used = unsafe { talc.get_allocated_span(span) };
        if !used.is_empty() {
            continue;
        }
        // SAFETY: as above, and nothing of the piece is allocated; the lock is held
        // in between.
        unsafe { talc.truncate(span, Span::empty()) };
        if let Some(piece) = talc.oom_handler.pieces[i].take() {
            crate::base::frames::free(piece.frame, piece.order);
        }
    }
}
