//! The kernel heap: talc, fed from the frame allocator. Large blocks are frames of
//! their own, so that a vector that was large once costs nothing afterwards; what
//! the heap was given and no longer uses goes back ([`trim`]).
//!
//! **Without memory.** Objects that a program or a proxy has the kernel make are asked for so that
//! they can be refused: by [`with_room`] and its like, or by [`fallible`] around `try_reserve`.
//! Where Rust allocates without asking (`Arc`, a node of a tree), [`room`] first finds that the
//! object fits. All other objects are small and short-lived, or one entry of a queue for a thread
//! or process that exists. Where the heap has nothing for these, they come from a *reserve* that
//! was put aside at boot and serves nothing else. While more than half of the reserve is used,
//! nothing new is made at all.

#![expect(clippy::disallowed_methods, reason = "asks before it allocates, for all others")]

use crate::base::lock::{Mutex, Rank};
use crate::base::{failing, frames};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_core::errno::{self, Result};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_core::lists;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::heap::{self, Heap, Supply};
use hanare_hal::memory::Block;
use hanare_hal::percpu;
use spin::Once;

/// Order of the block that is the heap's first memory.
const FIRST_ORDER: u32 = 9;
/// The reserve is one part of so many of the memory: about 250 bytes for each kernel stack that
/// there can be.
const RESERVE_SHARE: u64 = 128;
/// The reserve at least and at most, as orders of pages: 512 KiB, 32 MiB.
const RESERVE_ORDERS: (u32, u32) = (7, 13);

/// Strings and lists of a process or a thread that begins, about.
pub const SMALL_PARTS: usize = 1024;

/// Where the heap has its pages from.
struct Frames;

/// Pages that the heap has from the frame allocator.
static PAGES: AtomicU64 = AtomicU64::new(0);

/// Pages of the heap, in pieces, in blocks of their own, and in the reserve.
pub fn pages() -> u64 {
    PAGES.load(Ordering::Relaxed)
}

impl Supply for Frames {
    fn pages(order: u32) -> Option<Block> {
        let block = frames::alloc_block(order, FrameOwner::kernel(Subject::Heap))?;
        PAGES.fetch_add(1 << order, Ordering::Relaxed);
        Some(block)
    }
    fn give_back(block: Block) {
        PAGES.fetch_sub(1 << block.order(), Ordering::Relaxed);
        frames::free(block.frame(), block.order());
    }
    fn is_to_fail() -> bool {
        failing::is_to_fail()
    }
    fn may_fail() -> bool {
        MAY_FAIL[percpu::index()].load(Ordering::Relaxed)
    }
    fn uses_reserve() {
        crate::info!("the kernel's heap is full: its reserve is used");
    }
}

#[global_allocator]
static HEAP: Heap<Frames> = Heap::new();

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
    HEAP.is_short()
}

/// Usage of the heap: its bytes; bytes and number of the blocks in use there; bytes of blocks that
/// are frames of their own; bytes of the reserve.
pub fn usage() -> [u64; 5] {
    let u = HEAP.usage();
    [u.claimed, u.allocated, u.allocations, u.large, u.reserved]
}

/// Whether the heap has a block of so many bytes, for what is made next and cannot be refused
/// any more. Another CPU may be faster: then it comes from the reserve.
///
/// # Errors
/// `ENOMEM`.
pub fn room(bytes: usize) -> Result<()> {
    if !HEAP.surely_has(bytes) {
        return with_room::<u8>(bytes).map(drop);
    }
    if is_short() || failing::is_to_fail() { Err(errno::ENOMEM) } else { Ok(()) }
}

/// An [`Arc`] of the value, or `ENOMEM`.
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
    assert!(HEAP.give(FIRST_ORDER), "2 MiB for the kernel heap");
    let wanted = heap::order_of((frames::usage_without_stocks().1 / RESERVE_SHARE) as usize)
        .clamp(RESERVE_ORDERS.0, RESERVE_ORDERS.1);
    // As much as there is in one piece.
    let found = (RESERVE_ORDERS.0..=wanted).rev().any(|order| HEAP.give_reserve(order));
    assert!(found, "memory for the reserve");
}

/// Functions of [`init_lists`].
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

/// Calls [`trim`] if a large part of the memory is the heap's and is not used. To be called after
/// something was freed.
pub fn trim_if_large() {
    const PART: u64 = 64;
    const MOST_BYTES: u64 = 4 << 20;
    if HEAP.unused()
        > MOST_BYTES.min(frames::usage_without_stocks().1 / PART) + (4096 << FIRST_ORDER)
    {
        trim();
    }
}

/// Takes back what the heap was given and uses nothing of. First, lists that were long
/// once and are empty now give their memory back: one would hold a whole piece.
pub fn trim() {
    LISTS.get().into_iter().flat_map(|all| all.iter()).for_each(|trim| trim());
    HEAP.trim();
}
