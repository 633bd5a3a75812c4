//! Insertion of mappings in the place of others, and checks that expected mappings are still there.

use super::{Vma, VmaFlags, VmaMap};
use crate::errno::{EEXIST, EINVAL, Result};
use crate::lists;
use alloc::collections::LinkedList;

impl<F: Clone + PartialEq> VmaMap<F> {
    /// As [`insert`](Self::insert), however many mappings there are: for what takes the place
    /// of others, which cannot be refused when those are gone.
    ///
    /// # Errors
    /// `EINVAL`, `EEXIST`: as `insert`.
    pub fn insert_anyway(&mut self, vma: Vma<F>) -> Result<()> {
        self.check_free(&vma)?;
        let (start, end) = (vma.start, vma.end);
        self.add_bytes(vma.len());
        lists::insert_within(&mut self.vmas, start, vma);
        self.merge(start, end);
        Ok(())
    }

    /// Whether a mapping could be there.
    pub(super) fn check_free(&self, vma: &Vma<F>) -> Result<()> {
        match vma {
            v if !self.is_range(v.start, v.end) || v.is_empty() => Err(EINVAL),
            v if self.overlaps(v.start, v.end) => Err(EEXIST),
            _ => Ok(()),
        }
    }

    /// Whether this very mapping is there, be it as part of a larger one.
    #[must_use]
    pub fn holds(&self, vma: &Vma<F>) -> bool {
        let now = self.find(vma.start).and_then(|now| now.slice(vma.start, vma.end));
        now.is_some_and(|mut now| {
            now.flags.set(VmaFlags::SOFT_CLEAN, vma.flags.contains(VmaFlags::SOFT_CLEAN));
            now == *vma
        })
    }

    /// Removes what is mapped in `start..end` with `wanted`, and nothing else.
    pub fn remove_where(
        &mut self,
        start: u64,
        end: u64,
        wanted: impl Fn(&Vma<F>) -> bool,
    ) -> LinkedList<Vma<F>> {
        let mut removed = LinkedList::new();
        let mut at = start;
        loop {
            let next = self.range(at, end).find(|v| wanted(v));
            let Some((from, to)) = next.map(|v| (v.start.max(at), v.end.min(end))) else { break };
            removed.append(&mut self.remove(from, to));
            at = to;
        }
        removed
    }
}
