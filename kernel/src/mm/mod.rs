//! Memory of a process: the VMA map and the page table, kept in step.
//!
//! Rule: the lock of an [`AddressSpace`] is never held while waiting for Linux. Changes are made
//! under the lock. What Linux has seen it forgets before a change, by a transaction
//! (`change/transaction.rs`). An unmapping is made first, and its addresses stay reserved until
//! Linux has forgotten them. Frames are freed after both.
//!
//! From the lowest to the highest, a folder each: [`pages`], [`map`], [`window`], [`change`],
//! [`fault`]. A folder uses itself and those below it.

pub mod change;
pub mod fault;
pub mod map;
pub mod pages;
pub mod window;

pub use map::address_space::{AddressSpace, anonymous};
pub use pages::content::{FileHandle, FileRef};
pub use window::caller::Caller;
