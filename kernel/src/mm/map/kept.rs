//! Addresses that are kept: for a mapping to come, by an unmapping under way, or for a change.

use super::address_space::AddressSpace;
use crate::base::heap;
use crate::mm::pages::content::FileRef;
use hanare_core::coherence::{Change, Kept};
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};

/// A range that a thread has reserved for a mapping to come, where nothing was.
pub fn reservation(slot: u32, range: PageRange) -> Vma<FileRef> {
    kept(Kept::Coming, slot, range)
}

/// Addresses that are kept, by the thread with this slot.
pub fn kept(what: Kept, slot: u32, range: PageRange) -> Vma<FileRef> {
    let backing = Backing::Special(SpecialKind::Kept(what, slot));
    Vma {
        start: range.start(),
        end: range.end(),
        prot: Prot::empty(),
        max_prot: Prot::empty(),
        flags: VmaFlags::FIXED_KERNEL,
        backing,
    }
}

/// The reason for which addresses are kept, if they are. A mapping that moves counts as one that is
/// replaced.
pub fn kept_for(v: &Vma<FileRef>) -> Option<Kept> {
    match v.backing {
        Backing::Special(SpecialKind::Kept(what, _)) => Some(what),
        _ => v.flags.contains(VmaFlags::MOVING).then_some(Kept::Replaced),
    }
}

/// Whether an access to a mapping waits for another thread, which is about to put another one
/// there.
pub fn holds_accesses(v: &Vma<FileRef>) -> bool {
    kept_for(v).is_some_and(Kept::holds_accesses)
}

impl AddressSpace {
    /// Reserves addresses for a change, see [`Change::reserve`]. `ENOMEM`.
    pub(in crate::mm) fn reserve(
        &mut self,
        change: &mut Change,
        needed: PageRange,
    ) -> Result<PageRange> {
        heap::fallible(|| change.reserve(&mut self.coherence, needed)).map_err(|_| errno::ENOMEM)
    }
}
