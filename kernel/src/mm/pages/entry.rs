//! Entries of page tables: the rights of a page, what kind of frame it has,
//! and what Linux has seen of it.

use super::content::FileRef;
use hanare_core::coherence::Sight;
use hanare_core::framekind::FrameKind;
use hanare_core::pagerange::PageRange;
use hanare_core::pat::{LeafSize, Pat, leaf_bits};
use hanare_core::rss::Counted;
use hanare_core::vma::{Prot, Vma, VmaFlags};
use hanare_hal::paging::Leaf;
use hanare_hal::pte::{self, Bits, Entry};
use hanare_hal::shared;

/// Kind of the frame of an entry: the one place where it is read.
#[inline(always)] // for each leaf of a range that goes
pub fn kind(entry: Entry) -> FrameKind {
    FrameKind::of_code(entry.kind_code())
}

/// Whether the frame of an entry is the space's own ([`FrameKind::Own`]).
#[inline(always)] // for each leaf of a range that goes
pub fn is_owned(entry: Entry) -> bool {
    kind(entry).is_own()
}

/// Page table bits of a small page that say the kind of its frame, and have CPUs access it so.
pub(in crate::mm) fn kind_bits(kind: FrameKind) -> Bits {
    let bits = Bits::of_kind(kind.code());
    match kind {
        FrameKind::Device(policy) => {
            let index = Pat::of(shared::params().pat).index(policy);
            bits | Bits::of_cache(leaf_bits(index, LeafSize::Small))
        }
        _ => bits,
    }
}

/// Page table bits for the rights of a mapping.
pub fn pte_bits(prot: Prot) -> Bits {
    if prot.is_empty() {
        return Bits::NONE; // kept, not present
    }
    let mut bits = pte::PRESENT | pte::USER | pte::ACCESSED;
    if prot.contains(Prot::WRITE) {
        bits |= pte::WRITE;
    }
    if !prot.contains(Prot::EXEC) {
        bits |= pte::NO_EXECUTE;
    }
    bits
}

/// Page table bits for a new page of a mapping, with these rights of it, that was not written yet.
///
/// Where soft-dirty bits were cleared the first write to it has to be seen: it is not writable
/// before.
pub(in crate::mm) fn new_page_bits(vma: &Vma<FileRef>, prot: Prot) -> Bits {
    if vma.flags.contains(VmaFlags::SOFT_CLEAN) {
        pte_bits(prot - Prot::WRITE) | pte::SOFT_CLEAN
    } else {
        pte_bits(prot)
    }
}

/// The entry of a page with other rights, and nothing of what Linux has seen. Whether the page was
/// read or written stays known, and whether it is lent; one that is to be seen written stays
/// read-only.
pub(in crate::mm) fn with_rights(entry: Entry, prot: Prot) -> Entry {
    let known = pte::DIRTY | pte::ACCESSED | pte::USED | pte::SOFT_CLEAN | pte::LENT;
    let kept = entry & (pte::ADDRESS | pte::LARGE | pte::KIND | pte::VALID | known);
    let is_clean = entry.has(pte::SOFT_CLEAN);
    kept | pte_bits(if is_clean { prot - Prot::WRITE } else { prot }) & !pte::ACCESSED
}

/// Whether a CPU or Linux has used the page since it was brought in, perhaps ahead of its use.
pub fn is_used(entry: Entry) -> bool {
    entry.has(pte::ACCESSED | pte::USED | pte::SEEN) || !is_owned(entry)
}

/// How an entry counts in the resident set.
#[inline(always)] // for each leaf of a range that goes
pub(in crate::mm) fn counted(entry: Entry) -> Counted {
    match entry {
        Entry::NONE => Counted::Not,
        entry if is_owned(entry) => Counted::Own,
        _ => Counted::Foreign,
    }
}

/// The sight of a page of ours: the access that Linux may have to it.
pub fn sight(entry: Entry) -> Sight {
    match (entry.has(pte::SEEN), entry.has(pte::SEEN_WRITE)) {
        (_, true) => Sight::Write,
        (true, false) => Sight::Read,
        (false, false) => Sight::Unseen,
    }
}

/// The bits of an entry for a sight.
pub fn sight_bits(sight: Sight) -> Bits {
    match sight {
        Sight::Unseen => Bits::NONE,
        Sight::Read => pte::SEEN,
        Sight::Write => pte::SEEN | pte::SEEN_WRITE,
    }
}

/// The addresses of a page.
pub fn pages_of(leaf: &Leaf) -> PageRange {
    PageRange::of(leaf.addr, leaf.addr + leaf.size)
}

/// The entry in place of a page whose memory is bad. It is valid, of no frame of ours, and never
/// present. Beside it stands the sight that Linux may have of the page.
pub const LOST: Entry = pte::VALID.with(Bits::of_kind(FrameKind::Lost.code())).alone();

/// Whether the memory of the page was bad.
pub fn is_lost(leaf: &Leaf) -> bool {
    kind(leaf.entry) == FrameKind::Lost
}
