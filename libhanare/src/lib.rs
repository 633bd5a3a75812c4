//! System calls and functions that a program posts, and that workers execute beside it: on an LWK of Hanare on Linux' CPUs, on
//! plain Linux in threads. `docs/posted.md` says how.
//!
//! [`c`] has the functions of `hanare.h`.

pub mod c;
pub mod calls;
mod engine;
