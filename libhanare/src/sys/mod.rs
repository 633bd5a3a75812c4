//! Linux and memory: everything in this library that is unsafe.
//!
//! * [`clock`], [`descriptors`], [`interrupt`] and [`sides`] are safe functions for calls of the
//!   library itself
//! * [`mapped`] has the memory of a queue, which its [`threads`] and the [`list`] of queues keep;
//!   [`free`], [`own`] and [`lanes`] are parts of it, [`memory`] is where it lies
//! * [`fork`] knows which thread is alone in the child of a fork
//! * [`ring`] has submissions for which posters have vouched, and [`execute`] executes them;
//!   [`closure`] makes one of a closure, [`operations`] and [`scope`] of system calls
//! * [`exports`] are the functions of C that are given addresses, and [`attributes`] reads one
//! * [`slot`], [`table`] and [`once`] are words that refer to what lasts

use hanare_syscall::syscall as call;

mod attributes;
mod clock;
mod closure;
mod descriptors;
mod execute;
pub mod exports;
mod fork;
mod free;
mod interrupt;
mod lanes;
mod line;
mod list;
mod mapped;
mod memory;
mod once;
pub mod operations;
mod own;
mod pointer;
mod ring;
pub mod scope;
mod sides;
mod slot;
mod table;
mod threads;
mod wakers;

pub use clock::{now_ns, sleep_ns, ticks};
pub use closure::Posted;
pub use descriptors::{await_ring, close, eventfd, is_readable, ring};
pub use execute::{Links, make_at_once};
pub use fork::{AtFork, Child, at_exit, at_fork, exit};
pub use interrupt::{block_signals, install_handler, interrupt, settle};
pub use lanes::{Lane, Lanes};
pub use line::Line;
pub use list::List;
pub use mapped::{Mapped, Owner};
pub use once::OnceSlice;
pub use pointer::Pointer;
pub use ring::{Task, Vouched};
pub use sides::{Area, be_rung_by, current_cpu, is_on_linux, ring_thread, stay_on};
pub use slot::{Taker, slot};
pub use threads::{Thread, beside, is_thread_of, thread_id, with_own};
pub use wakers::WakerPlace;
