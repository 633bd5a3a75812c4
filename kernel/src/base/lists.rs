//! Growing lists and making objects, so that it can be refused.
//!
//! Above `base` nothing else allocates: clippy knows what does by its type (`kernel/clippy.toml`).
//! Functions that end in `_within` are for callers that have asked for the room before, where it
//! could still be refused. Debug builds check that for vectors. An exception says its reason
//! (`#[expect(clippy::disallowed_methods, reason)]`), and `cargo xtask tidy` counts them.

#![expect(clippy::disallowed_methods, reason = "asks before it allocates, for all others")]

use crate::base::heap;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use hanare_core::errno::{self, Result};
pub use hanare_core::lists::{insert_within, push_within};

/// Appends a value, or `ENOMEM`.
pub fn push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    heap::more_room(list, 1)?;
    list.push(value);
    Ok(())
}

/// The items of an iterator as a list, or `ENOMEM`.
pub fn collected<T>(values: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    values.into_iter().try_for_each(|value| push(&mut all, value))?;
    Ok(all)
}

/// A list of `count` equal values, or `ENOMEM`.
pub fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut all = heap::with_room(count)?;
    all.resize(count, value);
    Ok(all)
}

/// Slices one behind the other as a list, or `ENOMEM`.
pub fn joined<T: Copy>(pieces: &[&[T]]) -> Result<Vec<T>> {
    let mut all = heap::with_room(pieces.iter().map(|piece| piece.len()).sum())?;
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    Ok(all)
}

/// Formatted text, or `ENOMEM`.
pub fn text(arguments: fmt::Arguments<'_>) -> Result<String> {
    struct Bytes(Vec<u8>);
    impl Write for Bytes {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            heap::more_room(&mut self.0, s.len()).map_err(|_| fmt::Error)?;
            self.0.extend_from_slice(s.as_bytes());
            Ok(())
        }
    }
    let mut bytes = Bytes(Vec::new());
    bytes.write_fmt(arguments).map_err(|_| errno::ENOMEM)?;
    String::from_utf8(bytes.0).map_err(|_| errno::EINVAL)
}

/// Text of bytes that a program has written, or `ENOMEM`: what is no UTF-8 is replaced.
pub fn text_of(bytes: &[u8]) -> Result<String> {
    /// Shows bytes as `String::from_utf8_lossy`.
    struct Lossy<'a>(&'a [u8]);
    impl fmt::Display for Lossy<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.utf8_chunks().try_for_each(|chunk| {
                f.write_str(chunk.valid())?;
                if chunk.invalid().is_empty() {
                    Ok(())
                } else {
                    f.write_char(char::REPLACEMENT_CHARACTER)
                }
            })
        }
    }
    text(format_args!("{}", Lossy(bytes)))
}

/// Inserts an entry, or `ENOMEM`; the value that it replaced.
pub fn insert<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) -> Result<Option<V>> {
    heap::room_for_entry::<K, V>()?;
    Ok(map.insert(key, value))
}

/// A box, for which there is [`heap::room`].
pub fn boxed_within<T>(value: T) -> Box<T> {
    Box::new(value)
}

/// A counted object, for which there is [`heap::room_for_arc`].
pub fn arc_within<T>(value: T) -> Arc<T> {
    Arc::new(value)
}

/// A counted object that has a weak reference to itself, likewise.
pub fn cyclic_within<T>(make: impl FnOnce(&Weak<T>) -> T) -> Arc<T> {
    Arc::new_cyclic(make)
}
