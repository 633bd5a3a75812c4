//! Who has each frame: a word for each (`hanare_core::ledger`), written when it is handed out and when its owner changes.
//! Whoever hands a frame out or has it writes its word, so no lock guards them; they are counted when somebody asks.

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

/// In ascending order.
static ALL: Once<&[Words]> = Once::new();

/// Bytes of the words of a chunk.
pub fn bytes(chunk: &MemoryChunk) -> u64 {
    ((chunk.size / 4096) as usize * size_of::<AtomicU32>()).next_multiple_of(4096) as u64
}

/// Bytes of the list of the words of so many chunks.
pub const fn list_bytes(chunks: usize) -> usize {
    chunks * size_of::<Words>()
}

/// Takes the words of the chunks, each at the address given with it, and a place for the list of them.
///
/// # Safety
/// The memory is allocated to the caller, who hands it over for good: [`bytes`] for each chunk, zeroed, and
/// [`list_bytes`] for the list.
#[allow(unsafe_code)]
pub unsafe fn init(list: PhysAddr, chunks: impl Iterator<Item = (&'static MemoryChunk, PhysAddr)>) {
    let words = chunks.map(|(chunk, at)| {
        // SAFETY: given for this; zero is a valid word.
        let words = unsafe { memory::claim(at, (chunk.size / 4096) as usize) };
        Words { base: chunk.base, words }
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

/// Who has a frame, or the block that begins with it.
pub fn of(frame: PhysAddr) -> FrameOwner {
    FrameOwner::of_word(from(frame)[0].load(Ordering::Relaxed))
}

/// A frame, or the block that begins with it, is somebody's from now on.
pub fn set(frame: PhysAddr, owner: FrameOwner) {
    from(frame)[0].store(owner.word(), Ordering::Relaxed);
}

/// Each of so many frames, which lie in one chunk, is somebody's from now on.
pub fn set_run(frame: PhysAddr, pages: u64, owner: FrameOwner) {
    from(frame)[..pages as usize].iter().for_each(|w| w.store(owner.word(), Ordering::Relaxed));
}

/// So many pages are in a CPU's stock.
pub fn in_stock(frame: PhysAddr, pages: u32) {
    set_run(frame, pages.into(), FrameOwner::kernel(Subject::Stock));
}

/// Each page of a block that was split is whose the block was.
pub fn split(frame: PhysAddr, order: u32) {
    set_run(frame, 1 << order, of(frame));
}
