//! Every structure, constant and ioctl that crosses a boundary of Hanare.
//!
//! Linux (the module `hanare.ko`, the proxy process, the `hanare` command) and
//! the LWK share memory and messages; each of them is described here, once.
//! `cargo xtask abi` writes `module/hanare_abi.h` from this crate, with size
//! and offset assertions computed in Rust and checked by the C compiler.
//!
//! Rules: constants are `u32`/`u64`, padding is explicit, references are
//! indices, offsets from the shared region, or physical addresses that the
//! receiver validates; never a pointer of the other side. Words that both
//! sides write are documented with the side that writes them; the `ikc` crate
//! is the only place that accesses them as atomics.
#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
pub mod clock;
pub mod control;
pub mod copied;
pub mod cpus;
pub mod frame;
pub mod grant;
pub mod info;
pub mod ioctl;
pub mod layout;
pub mod log;
pub mod manage;
pub mod message;
pub mod observe;
pub mod offer;
pub mod pooled;
pub mod request;
pub mod requestbox;
pub mod service;
pub mod signal;
pub mod slot;
pub mod start;
pub mod text;
pub mod utility;
pub mod wake;

/// First word of every structure that is handed over: "HANARE" and two zeros.
pub const MAGIC: u64 = 0x0000_4552_414e_4148;

/// Version of everything in this crate: a hash over its sources, so that what was built from others
/// is never taken for the same. The module refuses an image of another version and names both; so
/// do the proxy and the command.
pub const VERSION: u32 = include!(concat!(env!("OUT_DIR"), "/version"));

/// Bytes of a base page.
pub const PAGE_SIZE: u64 = 4096;

/// Bytes of a large page, and the granule in which memory is reserved.
pub const LARGE_PAGE_SIZE: u64 = 2 << 20;

/// Sizes that the other side relies on; offsets are asserted in the generated header.
const _: () = {
    assert!(size_of::<slot::Slot>() == 256);
    assert!(size_of::<request::Request>() == 768);
    assert!(size_of::<service::Service>() == 704);
    assert!(size_of::<log::LogRing>() == 64);
    assert!(size_of::<message::MessageHead>() == 72);
    assert!(size_of::<message::MessagePage>() == 32);
};

#[cfg(test)]
#[path = "../version.rs"]
mod version;

#[cfg(test)]
mod tests {
    use super::version::of;

    #[test]
    fn what_changes_the_layout_changes_the_version() {
        let of = |text: &str| of([text, "struct B;"].into_iter());
        let before = of("/// Words.\npub const A: u32 = 1;\nstruct S { a: u32, b: u32 }");
        assert_eq!(
            before,
            of(
                "/// Other words.\npub const A: u32 = 1; // words\n\nstruct S {\n  a: u32, b: u32 }"
            )
        );
        assert_ne!(before, of("pub const A: u32 = 2;\nstruct S { a: u32, b: u32 }"));
        assert_ne!(before, of("pub const A: u32 = 1;\nstruct S { b: u32, a: u32 }"));
        assert_ne!(before, of("pub const A: u32 = 1;\nstruct S { a: u32, b: u64 }"));
    }
}
