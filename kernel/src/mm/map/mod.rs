//! The address space: its map, its page table and its lock, its limits, and how pages get into it.

pub mod address_space;
pub mod collapse;
pub mod cursor;
pub mod file_cache;
pub mod fill;
pub mod guard;
pub mod kept;
pub mod limits;
pub mod move_pages;
pub mod populate;
pub mod vdso;
