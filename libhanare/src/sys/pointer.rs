//! Addresses in structures of C.

/// An address that a program gave. Only code of this folder reads what is there.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Pointer<T>(*const T);

// SAFETY: it is a number. Reading what is there is unsafe, and asks for its own reasons.
unsafe impl<T> Send for Pointer<T> {}
// SAFETY: likewise.
unsafe impl<T> Sync for Pointer<T> {}

impl<T> Pointer<T> {
    /// The address of nothing.
    #[must_use]
    pub const fn null() -> Self {
        Self(std::ptr::null())
    }

    /// The address of a slice.
    #[must_use]
    pub const fn of(slice: &[T]) -> Self {
        Self(slice.as_ptr())
    }

    /// Whether the pointer is null.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The address.
    #[must_use]
    pub const fn address(self) -> *const T {
        self.0
    }
}
