//! Mappings that are one, because nothing keeps them apart, and the property that does not:
//! soft-dirty.

use super::{Vma, VmaFlags, VmaMap};
use crate::pagerange::PageRange;

impl<F: Clone + PartialEq> Vma<F> {
    /// Whether `next` could be one mapping with this one. Whether they are soft-dirty does not keep
    /// two apart, as on Linux: see [`join`](Self::join). Mappings that are being replaced stay as
    /// they were found: two threads may have marked them, each a part.
    pub(super) fn joins(&self, next: &Self) -> bool {
        self.end == next.start
            && self.prot == next.prot
            && self.max_prot == next.max_prot
            && !self.flags.contains(VmaFlags::MOVING)
            && (self.flags ^ next.flags).difference(VmaFlags::SOFT_CLEAN).is_empty()
            && self.backing.continued_by(&next.backing, self.len())
    }

    /// Takes in `next`, which [`joins`](Self::joins) it. The whole is soft-dirty if one of the two
    /// was, so that no new mapping passes for one in which nothing has changed.
    pub(super) fn join(&mut self, next: &Self) {
        self.end = next.end;
        self.flags &= next.flags | VmaFlags::all().difference(VmaFlags::SOFT_CLEAN);
    }
}

impl<F: Clone + PartialEq> VmaMap<F> {
    /// Takes the soft-dirty property from all mappings (`clear_refs`).
    pub fn clear_soft_dirty(&mut self) {
        // Those that could be one are: this property keeps none apart.
        self.vmas.values_mut().for_each(|vma| vma.flags |= VmaFlags::SOFT_CLEAN);
    }

    /// Merges the mappings that touch or lie in a range.
    pub(super) fn merge(&mut self, range: PageRange) {
        let (start, end) = (range.start(), range.end());
        let mut key = self.find_before(start).map_or(start, |vma| vma.start);
        loop {
            let Some((_, vma)) = self.vmas.range(key..).next() else {
                return;
            };
            if vma.start > end {
                return;
            }
            let (from, to) = (vma.start, vma.end);
            let Some(next) = self.vmas.get(&to) else {
                key = to;
                continue;
            };
            if next.start > end {
                return;
            }
            if vma.joins(next) {
                if let (Some(next), Some(vma)) = (self.vmas.remove(&to), self.vmas.get_mut(&from)) {
                    vma.join(&next);
                }
                key = from;
            } else {
                key = to;
            }
        }
    }
}
