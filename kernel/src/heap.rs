//! The kernel heap: talc, fed from the frame allocator.

#![allow(unsafe_code)] // claims memory for the allocator

use hanare_hal::memory;
use talc::{OomHandler, Span, Talc, Talck};

/// Each time the heap is full it gets this much more (order of pages).
const GROW_ORDER: u32 = 8; // 1 MiB
/// Its first memory.
const FIRST_ORDER: u32 = 9;

struct Grow;

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: core::alloc::Layout) -> Result<(), ()> {
        let order = layout.size().div_ceil(4096).next_power_of_two().trailing_zeros().saturating_add(1).max(GROW_ORDER);
        claim(talc, order)
    }
}

fn claim(talc: &mut Talc<Grow>, order: u32) -> Result<(), ()> {
    let frame = crate::frames::alloc(order).ok_or(())?;
    let base = memory::direct(frame) as *mut u8;
    // SAFETY: the block is ours from now on and is never given back.
    unsafe { talc.claim(Span::from_base_size(base, 4096 << order)) }.map(|_| ())
}

#[global_allocator]
static HEAP: Talck<spin::Mutex<()>, Grow> = Talc::new(Grow).lock();

/// Gives the heap its first memory.
pub fn init() {
    claim(&mut HEAP.lock(), FIRST_ORDER).expect("2 MiB for the kernel heap");
}
