//! Making a map out of another one's mappings.

use super::{Vma, VmaMap};
use crate::errno::Result;
use crate::lists;

/// Mappings that are appended between two looks at the memory.
const AT_ONCE: usize = 12;
/// Entries that may each need a node of the tree and a split one: nodes that are appended to are
/// left half full, with six entries.
const NODES_FOR: usize = 2;

impl<F: Clone + PartialEq> VmaMap<F> {
    /// Adds mappings that come in order and lie behind all others, and merges those that are
    /// compatible. Nothing is searched for: that is most of what [`insert`](Self::insert) costs.
    /// `room` says whether there is memory for so many bytes.
    ///
    /// # Errors
    /// Errors of `room`; some mappings have been added.
    pub fn append(
        &mut self,
        vmas: impl Iterator<Item = Vma<F>>,
        room: impl Fn(usize) -> Result<()>,
    ) -> Result<()> {
        let mut last: Option<Vma<F>> = None;
        for vma in vmas {
            match &mut last {
                Some(last) if last.joins(&vma) => last.join(&vma),
                _ => last.replace(vma).map_or(Ok(()), |whole| self.append_one(whole, &room))?,
            }
        }
        last.map_or(Ok(()), |whole| self.append_one(whole, &room))
    }

    fn append_one(&mut self, vma: Vma<F>, room: impl Fn(usize) -> Result<()>) -> Result<()> {
        debug_assert!(self.vmas.last_key_value().is_none_or(|(_, last)| last.end <= vma.start));
        if self.count().is_multiple_of(AT_ONCE) {
            room(NODES_FOR * lists::entry_bytes::<u64, Vma<F>>())?;
        }
        self.add_bytes(vma.len());
        lists::insert_within(&mut self.vmas, vma.start, vma);
        Ok(())
    }
}
