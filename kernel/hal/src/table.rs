//! Entries of a page table: reading and setting one, and going through those that there are.

use crate::addr::PhysAddr;
use crate::memory::direct;
use crate::pte::{self, Bits, Entry};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

fn entry(table: PhysAddr, index: usize) -> *mut u64 {
    debug_assert!(index < 512);
    (direct(table) as *mut u64).wrapping_add(index)
}

/// An entry.
pub(crate) fn get(table: PhysAddr, index: usize) -> Entry {
    // SAFETY: `table` is a table page of ours (only such are ever linked), in the
    // direct map; the processor may set A/D bits, hence volatile.
    Entry::of_raw(unsafe { entry(table, index).read_volatile() }).inverted()
}

/// Sets an entry.
pub(crate) fn set(table: PhysAddr, index: usize, value: Entry) {
    // SAFETY: as in `get`.
    unsafe { entry(table, index).write_volatile(value.inverted().raw()) };
}

/// Sets an entry that was `old` when it was read. What the CPU has noted in it since, a write or an
/// access, stays.
pub(crate) fn replace(table: PhysAddr, index: usize, old: Entry, new: Entry) {
    const NOTED: Bits = pte::DIRTY.with(pte::ACCESSED);
    let is_complete = old.has(pte::ACCESSED) && (old.has(pte::DIRTY) || !old.has(pte::WRITE));
    if is_complete || !old.has(pte::PRESENT) || new.frame() != old.frame() {
        return set(table, index, new);
    }
    // SAFETY: as in `get`; an entry is a word, aligned, that is only ever accessed whole.
    let word = unsafe { AtomicU64::from_ptr(entry(table, index)) };
    let before = Entry::of_raw(word.swap(new.inverted().raw(), Ordering::AcqRel));
    let noted = (Entry::NONE | before.only(NOTED) & !old.only(NOTED)).raw();
    if noted != 0 {
        word.fetch_or(noted, Ordering::AcqRel);
    }
}

/// The entries of the kernel's half of a root, as another root has them.
pub(crate) fn copy_upper_half(to: PhysAddr, from: PhysAddr) {
    const HALF: usize = 256;
    // SAFETY: as in `get`; `to` is a new root, which no CPU uses yet. Links have no inverted
    // address.
    unsafe { core::ptr::copy_nonoverlapping(entry(from, HALF), entry(to, HALF), HALF) };
}

/// Calls `f` for each entry in `range`, of the table that `link` leads to, that is not zero. Most
/// tables have few: pieces of which the link says that none was ever used are passed over, and
/// eight entries are looked at together.
#[inline(always)]
pub(crate) fn for_each_used(link: Entry, range: Range<usize>, mut f: impl FnMut(usize)) {
    const TOGETHER: usize = 8;
    let table = link.frame();
    // SAFETY: as in `get`.
    let raw = |i: usize| unsafe { entry(table, i).read_volatile() };
    let mut i = range.start & !(TOGETHER - 1);
    while i < range.end {
        if !link.has(pte::used(i)) {
            i = (i | (pte::PIECE - 1)) + 1;
            continue;
        }
        if (i..i + TOGETHER).fold(0, |all, i| all | raw(i)) != 0 {
            for i in i.max(range.start)..(i + TOGETHER).min(range.end) {
                if raw(i) != 0 {
                    f(i);
                }
            }
        }
        i += TOGETHER;
    }
}
