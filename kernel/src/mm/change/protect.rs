//! Changing the rights of mappings, and of the pages in them.

use super::transaction::carry_out;
use crate::base::frames;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::address_space::is_shared;
use crate::mm::pages::entry::{is_owned, pages_of, sight, sight_bits, with_rights};
use crate::mm::window::caller::Caller;
use hanare_core::coherence::Change;
use hanare_core::errno::Result;
use hanare_core::groups::NOBODY;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot};
use hanare_hal::paging::{Leaf, SMALL};
use hanare_hal::pte::{self, Entry};

/// Gives the mappings of a range the rights `prot`, from the lowest up; keeps what it did
/// when it has to stop. Linux forgets first what it may do more with than that.
///
/// # Errors
/// Those of [`VmaMap::protect`](hanare_core::vma::VmaMap::protect). `ENOMEM`, too, if Linux could
/// not be asked; then nothing was changed.
pub fn private(p: &Caller<'_>, range: PageRange, prot: Prot) -> Result<()> {
    let charges = prot.contains(Prot::WRITE) && p.memory.account.has_group();
    carry_out(
        p,
        range,
        |mm, change| {
            mm.may_cut(range)?;
            mm.may_part(range)?;
            mm.split_edges(range)?;
            let has_copies = mm.may_have_copies(range);
            if prot.contains(Prot::WRITE | Prot::EXEC) && !has_copies {
                return Ok(None); // Linux has no more than that
            }
            let reach = mm.mappings().protectable(range, prot);
            let (reads, writes) = (!prot.is_empty(), prot.contains(Prot::WRITE));
            // Linux may execute what it has seen and the program may execute.
            let executes = |leaf: &Leaf| !leaf.entry.has(pte::NO_EXECUTE);
            Ok(mm.must_forget(PageRange::of(range.start(), reach), change, |leaf, s| {
                s.exceeds(reads, writes)
                    || has_copies && s.is_seen()
                    || !prot.contains(Prot::EXEC) && executes(leaf) && s.is_seen()
            }))
        },
        |mm, change| {
            // As far as the map was changed, the pages follow it.
            let result = mm.cursor(range).protect(prot);
            mm.protect_pages(range, prot, charges, change);
            result
        },
    )
}

impl AddressSpace {
    fn protect_pages(&mut self, range: PageRange, prot: Prot, charges: bool, change: &Change) {
        let (start, end) = (range.start(), range.end());
        let mut at = start;
        while let Some(v) = self.mappings().find_next(at).filter(|v| v.start < end).cloned() {
            at = v.end;
            if v.prot != prot {
                continue;
            }
            let charges = charges && matches!(v.backing, Backing::PrivateFile { .. });
            self.change_pages(PageRange::of(v.start.max(start), v.end.min(end)), &mut |leaf| {
                if is_owned(leaf.entry) {
                    return protected(&leaf, prot, charges, change);
                }
                if !matches!(v.backing, Backing::SharedLinux { .. }) {
                    return leaf.entry;
                }
                // Linux' rights decide: look again at the next access.
                Entry::NONE
            });
        }
        self.disturb(range);
        self.flush(range);
    }
}

/// The entry of a page of ours with other rights.
fn protected(leaf: &Leaf, prot: Prot, charges: bool, change: &Change) -> Entry {
    // A page shared after a fork gets write access by the fault that copies it, one of
    // a file that is not charged yet by the fault that charges it.
    let is_to_charge = || charges && leaf.size == SMALL && frames::group_of(leaf.frame()) == NOBODY;
    let is_read_only = !leaf.entry.has(pte::WRITE) && (is_shared(leaf) || is_to_charge());
    // What Linux has been asked to forget for this change it has not seen any more.
    let seen = sight_bits(change.sight(pages_of(leaf), sight(leaf.entry)));
    with_rights(leaf.entry, if is_read_only { prot - Prot::WRITE } else { prot }) | seen
}
