//! Physical memory as both sides speak of it.

use crate::PAGE_SIZE;

/// Bits of an extent word that hold the number of pages minus one. The bits up to
/// [`EXTENT_CACHE_SHIFT`] are the address of the first frame (4 KiB aligned).
pub const EXTENT_PAGES_MASK: u64 = 0xfff;
/// First of the three bits of an extent word that hold the cache policy, one of `CACHE_*`.
pub const EXTENT_CACHE_SHIFT: u32 = 52;
/// Cache policy of an extent: cached; ordinary memory.
pub const CACHE_WRITE_BACK: u64 = 0;
/// Not cached, with writes gathered: frame buffers.
pub const CACHE_WRITE_COMBINING: u64 = 1;
/// Not cached, unless a memory type range register says write-combining.
pub const CACHE_UNCACHED_MINUS: u64 = 2;
/// Not cached, in order: registers of devices.
pub const CACHE_UNCACHED: u64 = 3;
/// Cached for reading; writes go to memory at once.
pub const CACHE_WRITE_THROUGH: u64 = 4;
/// Bit of an extent word: the frames are of a mapping that Linux keeps no `struct page` for
/// (`VM_PFNMAP`, `VM_IO`): memory of a device mostly. It says nothing of caching or trust.
pub const EXTENT_DEVICE: u64 = 1 << 55;
/// Bit of an extent word: a watch follows the frames, so `REQUEST_INVALIDATE` takes them back.
pub const EXTENT_WATCHED: u64 = 1 << 56;

/// Frame of physical memory, by its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PhysFrame(u64);

impl PhysFrame {
    /// Bits that the address of a frame may have.
    pub const MASK: u64 = 0x000f_ffff_ffff_f000;

    /// Frame at an address. `None`: no frame begins there.
    #[must_use]
    pub const fn at(address: u64) -> Option<PhysFrame> {
        if address & !Self::MASK == 0 { Some(PhysFrame(address)) } else { None }
    }

    /// Frame in which an address lies; of a word with flags beside the address, its frame.
    #[must_use]
    pub const fn holding(address: u64) -> PhysFrame {
        PhysFrame(address & Self::MASK)
    }

    /// Address of the first byte.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Number of the frame, from the first one of all memory on.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 / PAGE_SIZE
    }
}

/// Page in an answer to a fault or in an offer: its frame, and the rights of Linux to it (`PAGE_*`
/// of `abi/src/request.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct GivenPage(u64);

impl GivenPage {
    /// Hole: no page is given there.
    pub const NONE: GivenPage = GivenPage(0);

    /// Page of a frame.
    #[must_use]
    pub const fn of(frame: PhysFrame, rights: u64) -> GivenPage {
        debug_assert!(rights & PhysFrame::MASK == 0);
        GivenPage(frame.0 | rights)
    }

    /// Page that is such a word.
    #[must_use]
    pub const fn of_word(word: u64) -> GivenPage {
        GivenPage(word)
    }

    /// The word.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Frame of the page.
    #[must_use]
    pub const fn frame(self) -> PhysFrame {
        PhysFrame::holding(self.0)
    }

    /// Rights of Linux to the page.
    #[must_use]
    pub const fn rights(self) -> u64 {
        self.0 & !PhysFrame::MASK
    }
}

/// Run of frames in one word, as services name them ([`crate::service::Service::extents`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Extent(u64);

impl Extent {
    /// Most pages of one extent.
    pub const PAGES_MAX: u64 = EXTENT_PAGES_MASK + 1;

    /// Extent of 1 to [`Self::PAGES_MAX`] pages of ordinary memory, which no watch follows.
    #[must_use]
    pub const fn of(first: PhysFrame, pages: u64) -> Extent {
        debug_assert!(pages >= 1 && pages <= Self::PAGES_MAX);
        Extent(first.0 | (pages - 1))
    }

    /// Extent that is such a word.
    #[must_use]
    pub const fn of_word(word: u64) -> Extent {
        Extent(word)
    }

    /// The word.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Extent of the same frames, as memory of a device that is accessed so.
    #[must_use]
    pub const fn of_device(self, policy: CachePolicy) -> Extent {
        Extent(self.0 | EXTENT_DEVICE | (policy.code() as u64) << EXTENT_CACHE_SHIFT)
    }

    /// Extent of the same frames, which a watch follows.
    #[must_use]
    pub const fn watched(self) -> Extent {
        Extent(self.0 | EXTENT_WATCHED)
    }

    /// First frame.
    #[must_use]
    pub const fn first(self) -> PhysFrame {
        PhysFrame::holding(self.0)
    }

    /// Number of pages.
    #[must_use]
    pub const fn pages(self) -> u64 {
        (self.0 & EXTENT_PAGES_MASK) + 1
    }

    /// Frames, one after the other.
    pub fn frames(self) -> impl Iterator<Item = PhysFrame> {
        (0..self.pages()).map(move |i| PhysFrame(self.first().0 + i * PAGE_SIZE))
    }

    /// How CPUs access the frames. `None`: the word says something that no side knows.
    #[must_use]
    pub const fn cache(self) -> Option<CachePolicy> {
        CachePolicy::of_code((self.0 >> EXTENT_CACHE_SHIFT) as u8 & 7)
    }

    /// Whether the frames are memory of a device.
    #[must_use]
    pub const fn is_device(self) -> bool {
        self.0 & EXTENT_DEVICE != 0
    }

    /// Whether a watch follows the frames.
    #[must_use]
    pub const fn is_watched(self) -> bool {
        self.0 & EXTENT_WATCHED != 0
    }
}

/// Memory type by which CPUs access a frame.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// [`CACHE_WRITE_BACK`].
    #[default]
    WriteBack = CACHE_WRITE_BACK as u8,
    /// [`CACHE_WRITE_COMBINING`].
    WriteCombining = CACHE_WRITE_COMBINING as u8,
    /// [`CACHE_UNCACHED_MINUS`].
    UncachedMinus = CACHE_UNCACHED_MINUS as u8,
    /// [`CACHE_UNCACHED`].
    Uncached = CACHE_UNCACHED as u8,
    /// [`CACHE_WRITE_THROUGH`].
    WriteThrough = CACHE_WRITE_THROUGH as u8,
}

impl CachePolicy {
    /// All of them, in the order of their numbers.
    pub const ALL: [CachePolicy; 5] = [
        CachePolicy::WriteBack,
        CachePolicy::WriteCombining,
        CachePolicy::UncachedMinus,
        CachePolicy::Uncached,
        CachePolicy::WriteThrough,
    ];

    /// Number of the policy, below 5.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Policy with a number. `None`: no policy has it.
    #[must_use]
    pub const fn of_code(code: u8) -> Option<CachePolicy> {
        if (code as usize) < Self::ALL.len() { Some(Self::ALL[code as usize]) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{PAGE_EXECUTABLE, PAGE_WRITABLE};

    #[test]
    fn frames_have_aligned_addresses_of_52_bits() {
        assert_eq!(PhysFrame::at(0x1234_5000).map(PhysFrame::address), Some(0x1234_5000));
        for bad in [1, 0x1234_5008, 1 << 52, EXTENT_DEVICE] {
            assert_eq!(PhysFrame::at(bad), None, "{bad:#x}");
        }
        assert_eq!(PhysFrame::holding(0x8000_0000_1234_5fff).address(), 0x1234_5000);
        assert_eq!(PhysFrame::holding(0x1234_5000).number(), 0x1_2345);
    }

    #[test]
    fn given_pages_keep_frame_and_rights_apart() {
        let (frame, rights) = (PhysFrame::holding(u64::MAX), PAGE_WRITABLE | PAGE_EXECUTABLE);
        let page = GivenPage::of(frame, rights);
        assert_eq!((page.frame(), page.rights()), (frame, rights));
        assert_eq!(GivenPage::of_word(page.word()), page);
        assert_eq!(GivenPage::NONE, GivenPage::default());
    }

    #[test]
    fn extents_keep_frames_pages_and_kind_apart() {
        let (low, high) = (PhysFrame::holding(0), PhysFrame::holding(u64::MAX));
        for (first, pages) in [(low, 1), (high, 4096), (PhysFrame::holding(0x20_0000), 512)] {
            let extent = Extent::of(first, pages);
            assert_eq!((extent.first(), extent.pages()), (first, pages));
            assert_eq!((extent.is_device(), extent.is_watched()), (false, false));
            assert_eq!(extent.cache(), Some(CachePolicy::WriteBack));
            for policy in CachePolicy::ALL {
                assert_eq!(CachePolicy::of_code(policy.code()), Some(policy));
                let extent = extent.of_device(policy).watched();
                assert_eq!((extent.first(), extent.pages()), (first, pages));
                assert_eq!((extent.is_device(), extent.is_watched()), (true, true));
                assert_eq!(extent.cache(), Some(policy));
                assert_eq!(Extent::of_word(extent.word()), extent);
            }
        }
        assert_eq!(Extent::of_word(5 << EXTENT_CACHE_SHIFT).cache(), None);
        let frames = Extent::of(PhysFrame::holding(0x3000), 2).frames();
        assert!(frames.map(PhysFrame::address).eq([0x3000, 0x4000]));
    }
}
