//! Insertion of mappings in the place of others, and checks that expected mappings are still there.

use super::{Vma, VmaFlags, VmaMap};
use crate::errno::{EEXIST, EINVAL, Result};
use crate::lists;
use crate::pagerange::PageRange;
use alloc::collections::LinkedList;

impl<F: Clone + PartialEq> VmaMap<F> {
    /// As [`insert`](Self::insert), however many mappings there are: for what takes the place
    /// of others, which cannot be refused when those are gone.
    ///
    /// # Errors
    /// `EINVAL`, `EEXIST`: as `insert`.
    pub fn insert_anyway(&mut self, vma: Vma<F>) -> Result<()> {
        self.check_free(&vma)?;
        let range = vma.range();
        self.add_bytes(vma.len());
        lists::insert_within(&mut self.vmas, range.start(), vma);
        self.merge(range);
        Ok(())
    }

    /// Whether a mapping could be there.
    pub(super) fn check_free(&self, vma: &Vma<F>) -> Result<()> {
        match PageRange::new(vma.start, vma.end) {
            Some(range) if range.is_empty() || !self.whole().covers(range) => Err(EINVAL),
            Some(range) if self.overlaps(range) => Err(EEXIST),
            Some(_) => Ok(()),
            None => Err(EINVAL),
        }
    }

    /// Whether this very mapping is there, be it as part of a larger one.
    #[must_use]
    pub fn holds(&self, vma: &Vma<F>) -> bool {
        let now = self.find(vma.start).and_then(|now| now.slice(vma.range()));
        now.is_some_and(|mut now| {
            now.flags.set(VmaFlags::SOFT_CLEAN, vma.flags.contains(VmaFlags::SOFT_CLEAN));
            now == *vma
        })
    }

    /// Removes what is mapped in a range with `wanted`, and nothing else.
    pub fn remove_where(
        &mut self,
        range: PageRange,
        wanted: impl Fn(&Vma<F>) -> bool,
    ) -> LinkedList<Vma<F>> {
        let mut removed = LinkedList::new();
        let mut rest = range;
        loop {
            let next = self.range(rest).find(|v| wanted(v));
            let Some(part) = next.and_then(|v| v.range().intersect(rest)) else { break };
            removed.append(&mut self.remove(part));
            rest = PageRange::of(part.end(), range.end());
        }
        removed
    }
}
