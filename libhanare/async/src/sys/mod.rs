//! Linux, the program's memory and its code: everything in this library that is unsafe.
//!
//! * [`call`](mod@call) makes system calls, by instructions that are not replaced; [`files`],
//!   [`signals`], [`threads`] and [`pages`] are safe functions for those of the library itself
//! * [`program`] reads and writes memory at addresses that the program gave to its calls
//! * [`lock`] has the one lock, and what its holder uses alone, of which [`buffer`] is a part;
//!   [`local`] has variables of each thread
//! * [`objects`] finds the text of loaded objects, [`code`](mod@code) writes stubs and jumps, and
//!   [`entry`] is where these lead

pub mod buffer;
mod call;
pub mod code;
pub mod entry;
mod files;
pub mod local;
pub mod lock;
pub mod objects;
mod pages;
pub mod program;
pub mod signals;
pub mod threads;

pub use call::{Errno, make};
pub use files::{
    await_room, close, complain, filesystem_of, finish, flags_of, is_file_size_unlimited,
    keep_standard_error, link_of, open_place, open_place_as, option_of, position_of, read_ahead,
    stat_at, stat_of,
};
pub use pages::PAGE_BYTES;
pub use program::{is_readable, word_at};
pub use signals::{Mask, set_mask};
pub use threads::{
    be_rung, give_way, now_ns, ring, sleep, sleep_on, sleep_until_rung, thread_id, threads, wake_on,
};
