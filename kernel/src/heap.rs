//! The kernel heap: talc, fed from the frame allocator. Large blocks are frames of
//! their own, so that a vector that was large once costs nothing afterwards; what
//! the heap was given and no longer uses goes back ([`trim`]).

#![allow(unsafe_code)] // claims memory for the allocator

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use hanare_core::errno;
use hanare_hal::memory;
use talc::{OomHandler, Span, Talc, Talck};

/// Each time the heap is full it gets this much more (order of pages); less where memory is in
/// pieces, as applications leave it.
const GROW_ORDER: u32 = 8; // 1 MiB
/// Its first memory.
const FIRST_ORDER: u32 = 9;
/// Blocks from this size on come from the frame allocator.
const LARGE_BYTES: usize = 64 << 10;
/// Pieces that can be given back; the heap may have more, which it keeps.
const PIECES_MAX: usize = 256;

/// What the heap was given: the frame and what talc made of it.
struct Piece {
    frame: u64,
    order: u32,
    span: Span,
}

struct Grow {
    pieces: [Option<Piece>; PIECES_MAX],
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        // A page beside the block is more than talc and the alignment need.
        let least = order_of(layout.size() + layout.align() + 4096);
        let (order, frame, span) = (least..=GROW_ORDER).rev().find_map(|order| claim(talc, order)).ok_or(())?;
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
fn claim(talc: &mut Talc<Grow>, order: u32) -> Option<(u32, u64, Span)> {
    let frame = crate::frames::alloc(order)?;
    let base = memory::direct(frame) as *mut u8;
    // SAFETY: the block is ours until `trim` has taken it out of the heap again.
    let span = unsafe { talc.claim(Span::from_base_size(base, 4096 << order)) }.ok()?;
    Some((order, frame, span))
}

struct Heap(Talck<spin::Mutex<()>, Grow>);

/// Order of a block that comes from the frame allocator.
fn large(layout: Layout) -> Option<u32> {
    let own = layout.size() >= LARGE_BYTES && layout.align() <= 4096;
    own.then(|| order_of(layout.size()))
}

// SAFETY: both allocators hand out memory that nobody else has, of at least the
// size and alignment asked for; which of them a block came from follows from its
// layout, which is the same when it is freed.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match large(layout) {
            Some(order) => crate::frames::alloc(order).map_or(core::ptr::null_mut(), |f| memory::direct(f) as *mut u8),
            // SAFETY: the caller's.
            None => unsafe { self.0.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match large(layout) {
            Some(order) => crate::frames::free(block as u64 - memory::direct(0), order),
            // SAFETY: the caller's.
            None => unsafe { self.0.dealloc(block, layout) },
        }
    }
}

#[global_allocator]
static HEAP: Heap = Heap(Talc::new(Grow { pieces: [const { None }; PIECES_MAX] }).lock());

/// An empty vector with room for as many as a program says.
///
/// # Errors
/// `ENOMEM`, where a plain one would be the end of the instance.
pub fn with_room<T>(count: usize) -> errno::Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(count).map_err(|_| errno::ENOMEM)?;
    Ok(v)
}

/// As many zeroes as a program says. Errors: see [`with_room`].
pub fn zeroed(bytes: usize) -> errno::Result<Vec<u8>> {
    let mut v = with_room(bytes)?;
    v.resize(bytes, 0);
    Ok(v)
}

/// A copy of what a program gives. Errors: see [`with_room`].
pub fn copied(bytes: &[u8]) -> errno::Result<Vec<u8>> {
    let mut v = with_room(bytes.len())?;
    v.extend_from_slice(bytes);
    Ok(v)
}

/// Gives the heap its first memory, which it keeps.
pub fn init() {
    claim(&mut HEAP.0.lock(), FIRST_ORDER).expect("2 MiB for the kernel heap");
}

/// Takes back what the heap was given and uses nothing of. First, lists that were long
/// once and are empty now give their memory back: one would hold a whole piece.
pub fn trim() {
    crate::space::trim();
    crate::clone::trim();
    crate::cpus::trim();
    crate::mm::oom::trim();
    let mut talc = HEAP.0.lock();
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
            crate::frames::free(piece.frame, piece.order);
        }
    }
}
