//! Lists that grow so that it can be refused.
//!
//! Nothing else in this crate allocates (`kernel/clippy.toml`). A function that grows a list asks
//! first, and says `ENOMEM`. A function that ends in `_within` is for callers that have asked
//! before, or cannot be refused: the kernel's heap keeps a reserve for those. Trees and linked
//! lists allocate without a way to fail, so they are asked for by an allocation of the same size.

#![expect(clippy::disallowed_methods, reason = "asks before it allocates, for all others")]

use crate::errno::{ENOMEM, Result};
use alloc::collections::{BTreeMap, LinkedList, VecDeque};
use alloc::vec::Vec;

/// Room for so many more.
///
/// # Errors
/// `ENOMEM`.
pub fn more_room<T>(list: &mut Vec<T>, count: usize) -> Result<()> {
    #[cfg(test)]
    failing::count()?;
    list.try_reserve(count).map_err(|_| ENOMEM)
}

/// An empty list with room for so many.
///
/// # Errors
/// `ENOMEM`.
pub fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    more_room(&mut list, count)?;
    Ok(list)
}

/// Appends a value.
///
/// # Errors
/// `ENOMEM`.
pub fn push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    more_room(list, 1)?;
    list.push(value);
    Ok(())
}

/// Appends a value, for which room was made.
pub fn push_within<T>(list: &mut Vec<T>, value: T) {
    debug_assert!(list.len() < list.capacity(), "room was made");
    list.push(value);
}

/// Appends values, for which room was made.
pub fn extend_within<T: Copy>(list: &mut Vec<T>, values: &[T]) {
    debug_assert!(values.len() <= list.capacity() - list.len(), "room was made");
    list.extend_from_slice(values);
}

/// Makes a list as long as this, with equal values at the end, for which room was made.
pub fn resize_within<T: Clone>(list: &mut Vec<T>, count: usize, value: T) {
    debug_assert!(count <= list.capacity(), "room was made");
    list.resize(count, value);
}

/// A list of `count` equal values.
///
/// # Errors
/// `ENOMEM`.
pub fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut list = with_room(count)?;
    list.resize(count, value);
    Ok(list)
}

/// The items of an iterator as a list.
///
/// # Errors
/// `ENOMEM`.
pub fn collected<T>(values: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    values.into_iter().try_for_each(|value| push(&mut list, value))?;
    Ok(list)
}

/// Appends a value to a queue.
///
/// # Errors
/// `ENOMEM`.
pub fn enqueue<T>(queue: &mut VecDeque<T>, value: T) -> Result<()> {
    #[cfg(test)]
    failing::count()?;
    queue.try_reserve(1).map_err(|_| ENOMEM)?;
    queue.push_back(value);
    Ok(())
}

/// Bytes of an entry of a linked list.
#[must_use]
pub const fn node_bytes<T>() -> usize {
    size_of::<T>() + 2 * size_of::<usize>()
}

/// Appends a value to a linked list.
///
/// # Errors
/// `ENOMEM`.
pub fn append<T>(list: &mut LinkedList<T>, value: T) -> Result<()> {
    with_room::<u8>(node_bytes::<T>())?;
    list.push_back(value);
    Ok(())
}

/// Appends a value to a linked list, for which the caller has room.
pub fn append_within<T>(list: &mut LinkedList<T>, value: T) {
    list.push_back(value);
}

/// Bytes that one more entry of a tree may need.
#[must_use]
pub const fn entry_bytes<K, V>() -> usize {
    /// Entries of a node of a `BTreeMap`; as many edges and one more. A node may be split.
    const ENTRIES: usize = 11;
    let node = ENTRIES * (size_of::<K>() + size_of::<V>()) + (ENTRIES + 3) * size_of::<usize>();
    2 * node
}

/// Whether there is room for so many more entries of a tree.
///
/// # Errors
/// `ENOMEM`.
pub fn room_for_entries<K, V>(count: usize) -> Result<()> {
    with_room::<u8>(count * entry_bytes::<K, V>()).map(drop)
}

/// Inserts an entry, for which the caller has room; the value that it replaced.
pub fn insert_within<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) -> Option<V> {
    map.insert(key, value)
}

/// A copy of a tree.
///
/// # Errors
/// `ENOMEM`.
pub fn copied<K: Ord + Copy, V: Copy>(map: &BTreeMap<K, V>) -> Result<BTreeMap<K, V>> {
    // Nodes are half full at worst.
    with_room::<u8>(map.len().div_ceil(5) * entry_bytes::<K, V>() / 2)?;
    Ok(map.clone())
}

/// Allocations that fail because a test wants it.
#[cfg(test)]
pub mod failing {
    use crate::errno::{ENOMEM, Result};
    use core::cell::Cell;

    std::thread_local! {
        /// How many allocations of this thread succeed before one fails.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Another allocation is asked for.
    pub fn count() -> Result<()> {
        LEFT.with(|left| match left.get() {
            Some(0) => {
                left.set(None);
                Err(ENOMEM)
            }
            other => {
                left.set(other.map(|n| n - 1));
                Ok(())
            }
        })
    }

    /// Does something in which allocation `nth`, counted from 0, fails; whether there were so many.
    pub fn at<T>(nth: u32, f: impl FnOnce() -> T) -> (T, bool) {
        LEFT.set(Some(nth));
        let result = f();
        (result, LEFT.take().is_none())
    }

    /// Does something again and again, so that each of its allocations fails once. `f` says whether
    /// all went well, which it must where none failed. How many allocations there are.
    pub fn each(mut f: impl FnMut() -> Result<()>) -> u32 {
        let mut nth = 0;
        loop {
            let (result, has_failed) = at(nth, &mut f);
            assert_eq!(result, if has_failed { Err(ENOMEM) } else { Ok(()) }, "allocation {nth}");
            if !has_failed {
                return nth;
            }
            nth += 1;
        }
    }
}
