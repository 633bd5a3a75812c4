//! System calls and functions that a program posts, and that workers execute beside it: on an LWK
//! of Hanare on Linux' CPUs, on plain Linux in threads. `docs/posted.md` says how.
//!
//! ```no_run
//! let queue = hanare::Queue::new()?;
//! let file = std::sync::Arc::new(std::fs::File::create("log")?);
//! let written = queue.write(file.clone(), b"a line\n".to_vec())?;
//! let sum = queue.call(|| (0..1000).sum::<u64>());
//! // … the program computes …
//! assert_eq!(sum.join(), 499_500);
//! let (result, _buffer) = written.wait();
//! assert_eq!(result?, 7);
//! # std::io::Result::Ok(())
//! ```
//!
//! [`Operation`] and [`Call`] are futures as well, for any executor. A buffer belongs to its
//! operation until that is done; what is only borrowed is posted in a [`Queue::scope`]. [`c`] has
//! the functions of `hanare.h`.

#![deny(unsafe_code)]

pub mod c;
mod call;
#[allow(missing_docs, reason = "generated")]
pub mod calls;
mod completion;
mod engine;
mod inner;
mod operation;
mod pending;
mod queue;
mod scope;
#[allow(unsafe_code)]
mod sys;

pub use call::Call;
pub use engine::cancel::is_cancelled;
pub use operation::Operation;
pub use queue::{Builder, Queue};
pub use scope::Borrowed;
pub use sys::scope::Scope;
