//! A cache line for what one CPU writes.

use core::ops::Deref;

/// A value that shares its cache line with no other one: where each CPU has one in an array, none
/// takes the line of another.
#[repr(align(64))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
