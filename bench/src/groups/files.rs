//! Reading a file in memory.

use crate::figure::{Figure, Group, Needs, Target, by_guest};

/// `read` into a buffer that is used again, and into memory not touched before.
pub const FILES: Group = Group {
    name: "files",
    needs: Needs::Instance,
    figures: &[
        Figure::higher("read.1k", "MiB/s", "read 1 KiB into the same buffer")
            .target(Target::Ratio(0.92)),
        Figure::higher("read.64k", "MiB/s", "read 64 KiB into the same buffer")
            .target(Target::Ratio(0.97)),
        Figure::higher("read.1m", "MiB/s", "read 1 MiB into the same buffer")
            .target(Target::Ratio(0.97)),
        Figure::higher("read.10m", "MiB/s", "read 10 MiB into the same buffer")
            .target(Target::Ratio(0.97)),
        Figure::higher("read.1k-first", "MiB/s", "read 1 KiB into untouched memory")
            .target(Target::Ratio(0.8)),
        Figure::higher("read.64k-first", "MiB/s", "read 64 KiB into untouched memory")
            .target(Target::Ratio(0.8)),
        Figure::higher("read.1m-first", "MiB/s", "read 1 MiB into untouched memory")
            .target(Target::Ratio(0.8)),
        Figure::higher("read.10m-first", "MiB/s", "read 10 MiB into untouched memory")
            .target(Target::Ratio(0.8)),
        Figure::lower("read.1m-by-1k", "ms", "read 1 MB in 1,024 calls").target(Target::Ratio(2.0)),
    ],
    measure: by_guest,
};
