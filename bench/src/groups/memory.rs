//! Address space calls and page faults.

use crate::figure::{Figure, Group, Needs, Target, by_guest};

/// mmap, munmap, first touch.
pub const MEMORY: Group = Group {
    name: "memory",
    needs: Needs::Instance,
    figures: &[
        Figure::lower("mm.map-unmap", "ns", "mmap and munmap of 64 KiB").target(Target::Ratio(0.5)),
        Figure::lower("mm.map-touch-unmap", "ns", "mmap, touch and munmap of one page"),
        Figure::lower("mm.touch", "ns/KiB", "first touch of 8 MiB").target(Target::Ratio(0.3)),
        Figure::lower("mm.touch-4k", "ns/KiB", "first touch of 8 MiB with MADV_NOHUGEPAGE"),
    ],
    measure: by_guest,
};
