//! Kinds of the frames that page tables lead to: a page-table entry says in four bits whose its
//! frame is and how CPUs cache it.

use hanare_abi::frame::CachePolicy;

/// Kind of the frame of a page-table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Memory of the instance that the account of the space is charged with: counted, copied at a
    /// write, and freed with its last mapping.
    Own,
    /// A page of Linux' page cache. Linux takes it back by the watch of its range.
    PageCache,
    /// Memory of the kernel that all processes have, as the vDSO: never freed.
    Kernel,
    /// No frame: the memory of the page was bad.
    Lost,
    /// Memory behind a mapping of a device, as Linux' driver made it.
    Device(CachePolicy),
}

/// Bit of a code that all kinds but [`FrameKind::Own`] have, so that the common question is about
/// one bit.
const FOREIGN: u8 = 1;
const PAGE_CACHE: u8 = FOREIGN;
const KERNEL: u8 = FOREIGN | 1 << 1;
const LOST: u8 = FOREIGN | 2 << 1;
/// First of the codes of devices, one for each cache policy in the order of their numbers.
const DEVICE: u8 = FOREIGN | 3 << 1;

impl FrameKind {
    /// Number of the kind, of four bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            FrameKind::Own => 0,
            FrameKind::PageCache => PAGE_CACHE,
            FrameKind::Kernel => KERNEL,
            FrameKind::Lost => LOST,
            FrameKind::Device(policy) => DEVICE + (policy.code() << 1),
        }
    }

    /// Kind with such a number; a number that no kind has counts as no frame.
    #[must_use]
    #[inline(always)] // for each leaf of a range that goes
    pub const fn of_code(code: u8) -> FrameKind {
        if code & FOREIGN == 0 {
            return FrameKind::Own;
        }
        match code {
            PAGE_CACHE => FrameKind::PageCache,
            KERNEL => FrameKind::Kernel,
            DEVICE..16 => match CachePolicy::of_code((code - DEVICE) >> 1) {
                Some(policy) => FrameKind::Device(policy),
                None => FrameKind::Lost,
            },
            _ => FrameKind::Lost,
        }
    }

    /// Whether the frame is the space's: counted and freed with its last mapping.
    #[must_use]
    #[inline(always)] // for each leaf of a range that goes
    pub const fn is_own(self) -> bool {
        matches!(self, FrameKind::Own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [FrameKind; 9] = [
        FrameKind::Own,
        FrameKind::PageCache,
        FrameKind::Kernel,
        FrameKind::Lost,
        FrameKind::Device(CachePolicy::WriteBack),
        FrameKind::Device(CachePolicy::WriteCombining),
        FrameKind::Device(CachePolicy::UncachedMinus),
        FrameKind::Device(CachePolicy::Uncached),
        FrameKind::Device(CachePolicy::WriteThrough),
    ];

    #[test]
    fn frame_kinds_survive_their_code() {
        for kind in ALL {
            assert!(kind.code() < 16);
            assert_eq!(FrameKind::of_code(kind.code()), kind);
            assert_eq!(kind.code() & FOREIGN == 0, kind.is_own());
        }
    }

    #[test]
    fn unknown_frame_kinds_are_never_freed_nor_given() {
        for code in (0..16).filter(|code| ALL.iter().all(|kind| kind.code() != *code)) {
            let kind = FrameKind::of_code(code);
            assert!(matches!(kind, FrameKind::Own | FrameKind::Lost), "{code}: {kind:?}");
            assert_eq!(kind.is_own(), code & FOREIGN == 0);
        }
    }
}
