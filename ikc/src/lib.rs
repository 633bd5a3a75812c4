//! The protocol in the memory that Linux and the LWK share: slots, rings,
//! requests, services, the log and the clock.
//!
//! The `abi` crate says where each word lies. This crate is the only one that accesses them, all of
//! them as atomics. The other side may write at any time, so every word is read once, and the
//! caller validates what was read.
//! Under `--cfg loom` the same algorithms run on loom's atomics, which try every
//! interleaving and every stale value the memory model allows:
//! `RUSTFLAGS="--cfg loom" cargo test -p hanare-ikc --profile models --target-dir target/loom`.
//!
//! The one pattern behind all wake-ups between kernels (Dekker's): a side that goes
//! to sleep stores "asleep", full fence, looks again for work; a side that has work
//! stores it, full fence, looks whether the other sleeps. One of them sees the other.
//! [`wake`] has the pattern, and the wake-ups of the LWK's CPUs; `docs/wakeup.md` lists its users.
#![cfg_attr(not(loom), no_std)]

#[cfg(all(test, not(loom)))]
extern crate std;

mod abort;
mod alone;
mod balance;
mod bell;
mod clock;
mod doorbell;
mod grant;
mod log;
mod mailbox;
mod offer;
mod one_writer;
mod patience;
mod pooled;
pub mod posted;
pub mod preload;
mod request;
mod requestbox;
mod ring;
mod service;
mod set;
mod sleeper;
mod slot;
mod sync;
mod trial;
pub mod wake;

pub use abort::{GoOn, Interrupted, Place, redirect};
pub use alone::{Alone, Waits};
pub use balance::{Balance, Takers};
pub use bell::{BellRef, BellWord};
pub use clock::{ClockReader, ClockWords};
pub use doorbell::{DoorbellRef, DoorbellWords};
#[cfg(not(loom))]
pub use grant::PairRef;
pub use grant::{Begun, GrantRef, UseWords};
#[cfg(not(loom))]
pub use log::LogWriter;
#[cfg(not(loom))]
pub use mailbox::CpuRef;
pub use mailbox::{Bells, CpuWords, Inbound, Outbound};
pub use offer::{OfferRef, OfferWords};
pub use one_writer::OneWriter;
pub use patience::Patience;
pub use pooled::{MemberRef, MemberWords};
pub use request::{RequestCall, RequestRef, RequestWords};
pub use requestbox::{BoxRef, BoxWords, Serving, Taken, interrupt, is_interrupted, serve};
pub use ring::{EntryPair, Full, Ring, Side, ToLinux, ToLwk, Word};
pub use service::{ServiceCall, ServiceRef, ServiceWords};
pub use set::CpuSet;
pub use slot::{Answer, Asked, Kind, SlotRef, SlotWords};
pub use sync::REAL;
pub use trial::Trial;

/// Asserts that fields of a `Words` structure lie where the `abi` has them.
macro_rules! same_layout {
    ($words:ty, $abi:ty: $($field:ident),* $(,)?) => {
        #[cfg(not(loom))]
        const _: () = {
            assert!(size_of::<$words>() == size_of::<$abi>());
            assert!(align_of::<$words>() <= align_of::<$abi>());
            $(assert!(core::mem::offset_of!($words, $field) == core::mem::offset_of!($abi, $field));)*
        };
    };
}
use same_layout;

/// Not under miri, which executes no C.
#[cfg(all(test, not(loom), not(miri)))]
mod in_c;
#[cfg(all(test, loom))]
mod models;
