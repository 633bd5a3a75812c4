//! `hanare gdb`: GDB's remote protocol for a process on an LWK, by the crate gdbstub.

mod files;
pub mod process;
mod registers;
pub mod session;
mod signals;
pub mod target;
