//! Changes of an address space, each made in step with Linux.

pub mod end;
pub mod fork;
pub mod free_ranges;
pub mod huge;
pub mod lent;
pub mod patch;
pub mod pinnable;
pub mod placement;
pub mod poison;
pub mod protect;
pub mod refs;
pub mod reserve;
pub mod shared;
pub mod transaction;
pub mod unmap;
