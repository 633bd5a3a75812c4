//! Library of native tasks.
//!
//! A *native task* is a program on the LWK that shares no addresses with a Linux process:
//! `hanare native PROGRAM` starts it. What it asks of Linux goes there packed, and is executed by
//! one of a pool of proxies, each call by another one. So a call that leaves state behind, such as
//! an open descriptor, needs a proxy that is *kept*: [`Proxy::keep`] gives a guard, [`Kept`], and
//! everything that is opened by it lives no longer than the guard. On Linux itself the same program
//! runs as well.
//!
//! A program is a function, named by [`entry!`]:
//!
//! ```text
//! #![no_std]
//! #![no_main]
//!
//! use hanare_native::{Failure, Flags, OrFail, Program, Proxy, println};
//!
//! hanare_native::entry!(main);
//!
//! fn main(_: Program) -> Result<(), Failure> {
//!     let kept = Proxy::keep().or_fail(format_args!("cannot keep a proxy"))?;
//!     let file = kept.open(c"/etc/hostname", Flags::READ).or_fail(format_args!("cannot open"))?;
//!     let mut bytes = [0; 64];
//!     let length = file.read(&mut bytes).or_fail(format_args!("cannot read"))?;
//!     println!("{}", bytes[..length].escape_ascii()).or_fail(format_args!("cannot write"))
//! }
//! ```
//!
//! How it is built, and what is not there, is in `docs/native.md`.
//!
//! Nothing outlives the guard. This is refused:
//!
//! ```compile_fail,E0505
//! # fn main() -> hanare_native::Result<()> {
//! use hanare_native::{Flags, Proxy};
//! let kept = Proxy::keep()?;
//! let file = kept.open(c"/etc/hostname", Flags::READ)?;
//! kept.give_back()?;
//! file.read(&mut [0; 64])?; // its descriptor is closed by then
//! # Ok(())
//! # }
//! ```
//!
//! And the same in the right order is not:
//!
//! ```
//! # fn main() -> hanare_native::Result<()> {
//! use hanare_native::{Flags, Proxy};
//! let kept = Proxy::keep()?;
//! let file = kept.open(c"/proc/self/comm", Flags::READ)?;
//! file.read(&mut [0; 64])?;
//! drop(file);
//! kept.give_back()?;
//! # Ok(())
//! # }
//! ```
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod address;
mod descriptor;
mod directory;
mod errno;
mod failure;
mod file;
mod output;
pub mod path;
mod proxy;
mod status;
mod stream;
mod sys;

pub use directory::{Directory, Entry};
pub use errno::{Errno, Result};
pub use failure::{Ending, Failure, OrFail, Quoted, quoted};
pub use file::{File, Flags};
pub use output::{Input, Output};
pub use proxy::{Kept, PR_HANARE_PROXY, Proxy};
pub use status::{Kind, Status};
pub use stream::{Listener, Stream};
pub use sys::{Heap, Program, Strings};

#[doc(hidden)]
pub use {failure::panicked, sys::run};

/// Makes a function the program: `fn main(program: Program) -> E`, where `E` is an [`Ending`].
///
/// The macro brings the start, the heap, and what a panic does: it prints its place, and the
/// program ends with status 101. The program is built without a C library and without start files
/// (`docs/native.md`).
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[global_allocator]
        static HANARE_NATIVE_HEAP: $crate::Heap = $crate::Heap::new();

        #[panic_handler]
        fn hanare_native_panic(information: &::core::panic::PanicInfo<'_>) -> ! {
            $crate::panicked(information)
        }

        extern "C" fn hanare_native_start(stack: *const usize) -> ! {
            // SAFETY: the code at `_start` passes the stack pointer that the kernel gave it.
            unsafe { $crate::run(stack, |program| $crate::Ending::status($main(program))) }
        }

        $crate::start_code!(hanare_native_start);
    };
}
