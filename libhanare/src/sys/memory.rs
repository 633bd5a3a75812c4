//! Mappings of the library's own, and pieces of them.

use std::ptr::NonNull;

/// Fresh memory, of zeros, page-aligned. Dropping the mapping gives it back.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// `None`: there is no memory.
    #[must_use]
    pub fn new(bytes: usize) -> Option<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where there was none.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        let start = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) };
        start.map(|start| Self { start, bytes })
    }

    /// Start of the mapping, which only [`Mapping::from_start`] gives back.
    #[must_use]
    pub(super) fn into_start(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// The mapping that begins there.
    ///
    /// # Safety
    /// The start came from [`Mapping::into_start`] of a mapping of so many bytes, and is given back
    /// once.
    #[must_use]
    pub(super) const unsafe fn from_start(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped it. The dropper vouches that nothing uses it any more: `Owner`
        // and `Lanes` have it as long as something in it can be reached, `Area` while the LWK has
        // it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Takes pieces of a mapping, one after the other. Each byte belongs to one piece at most.
pub(super) struct Pieces<'a> {
    next: usize,
    end: usize,
    mapping: std::marker::PhantomData<&'a mut Mapping>,
}

impl<'a> Pieces<'a> {
    /// All of the mapping is free.
    pub(super) fn of(mapping: &'a mut Mapping) -> Self {
        let next = mapping.start.as_ptr().expose_provenance();
        Self { next, end: next + mapping.bytes, mapping: std::marker::PhantomData }
    }

    /// So many of these, each made by `make`.
    pub(super) fn take<T>(&mut self, count: usize, make: impl Fn(usize) -> T) -> NonNull<T> {
        self.next = self.next.next_multiple_of(align_of::<T>().max(128));
        let first = std::ptr::with_exposed_provenance_mut::<T>(self.next);
        self.next += count * size_of::<T>();
        assert!(self.next <= self.end, "a queue has all its pieces");
        for index in 0..count {
            // SAFETY: it lies in the mapping, which is borrowed, and no other code has it: `next`
            // is behind it already.
            unsafe { first.add(index).write(make(index)) };
        }
        NonNull::new(first).expect("a mapping does not lie at zero")
    }
}
