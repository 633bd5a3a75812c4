//! The mapping in which a queue lies, in pieces.

use std::ptr::NonNull;

use hanare_ikc::posted::Slots;

/// A cache line of its own, and the one that processors fetch with it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Line<T>(pub T);

/// Takes pieces of a mapping, one after the other.
pub struct Pieces {
    pub(super) next: usize,
    pub(super) end: usize,
}

impl Pieces {
    /// So many of these, each made by `make`. Zeroed memory was mapped for them.
    pub fn take<T>(&mut self, count: usize, make: impl Fn(usize) -> T) -> NonNull<T> {
        self.next = self.next.next_multiple_of(align_of::<T>().max(128));
        let first = std::ptr::with_exposed_provenance_mut::<T>(self.next);
        self.next += count * size_of::<T>();
        assert!(self.next <= self.end, "a queue has all its pieces");
        for index in 0..count {
            // SAFETY: it lies in the mapping, and is nobody else's.
            unsafe { first.add(index).write(make(index)) };
        }
        NonNull::new(first).expect("a mapping does not lie at zero")
    }
}

/// The pieces behind this one.
///
/// # Safety
/// There are so many, for as long as the queue lasts.
pub const unsafe fn slots<T>(first: NonNull<T>, count: usize) -> Slots<'static, T> {
    // SAFETY: the caller's.
    Slots::new(unsafe { std::slice::from_raw_parts(first.as_ptr(), count) })
}
