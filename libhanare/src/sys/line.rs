//! Words with a cache line of their own.

/// A cache line of its own, and the one that processors fetch with it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Line<T>(pub T);
