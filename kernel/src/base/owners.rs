//! Owners of frames: a word for each frame (`hanare_core::ledger`), written when the frame is
//! handed out and when its owner changes. The code that hands a frame out, or has it, writes the
//! frame's word, so no lock guards the words. They are counted on demand.

use core::sync::atomic::{AtomicU32, Ordering};
use hanare_abi::boot::MemoryChunk;
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;
use spin::Once;

/// The words of a chunk's frames.
struct Words {
    base: u64,
    words: &'static [AtomicU32],
}

/// Words of all chunks, in ascending order.
static ALL: Once<&[Words]> = Once::new();

/// Bytes of the words of a chunk.
pub fn bytes(chunk: &MemoryChunk) -> u64 {
    ((chunk.size / 4096) as usize * size_of::<AtomicU32>()).next_multiple_of(4096) as u64
}

/// Bytes of the list of the words of so many chunks.
pub const fn list_bytes(chunks: usize) -> usize {
    chunks * size_of::<Words>()
}

/// Takes the words of the chunks, each at the address given with it, and a place for the list of
/// them.
///
/// # Safety
/// The memory is allocated to the caller, which hands it over for good: [`bytes`] for each chunk,
/// zeroed, and [`list_bytes`] for the list.
#[allow(unsafe_code)]
pub unsafe fn init(list: PhysAddr, chunks: impl Iterator<Item = (&'static MemoryChunk, PhysAddr)>) {
    let words = chunks.map(|(chunk, at)| {
        // SAFETY: given for this; zero is a valid word.
        let words = unsafe { memory::claim(at, (chunk.size / 4096) as usize) };
        Words { base: chunk.base.address(), words }
    });
    // SAFETY: likewise.
    let all = unsafe { memory::fill(list, words) };
    ALL.call_once(|| all);
}

/// The words from that of a frame on, as many as its chunk has.
fn from(frame: PhysAddr) -> &'static [AtomicU32] {
    let all = *ALL.get().expect("frames::init");
    let number = match all {
        [_] => 0,
        _ => all.partition_point(|w| w.base <= frame.0) - 1,
    };
    &all[number].words[((frame.0 - all[number].base) / 4096) as usize..]
}

/// The owner of a frame, or of the block that begins with it.
pub fn of(frame: PhysAddr) -> FrameOwner {
    FrameOwner::of_word(from(frame)[0].load(Ordering::Relaxed))
}

/// Sets the owner of a frame, or of the block that begins with it.
pub fn set(frame: PhysAddr, owner: FrameOwner) {
    from(frame)[0].store(owner.word(), Ordering::Relaxed);
}

/// Sets the owner of each of so many frames, which lie in one chunk.
pub fn set_run(frame: PhysAddr, pages: u64, owner: FrameOwner) {
    from(frame)[..pages as usize].iter().for_each(|w| w.store(owner.word(), Ordering::Relaxed));
}

/// So many pages are in a CPU's stock.
pub fn in_stock(frame: PhysAddr, pages: u32) {
    set_run(frame, pages.into(), FrameOwner::kernel(Subject::Stock));
}

/// Gives each page of a block that was split the owner of the block.
pub fn split(frame: PhysAddr, order: u32) {
    set_run(frame, 1 << order, of(frame));
}
