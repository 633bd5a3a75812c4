//! What was done to the mappings of an address space since some moment.

use super::{Prot, Vma, VmaMap};
use alloc::vec::Vec;

/// A range and its rights, as they were. Neighbours may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Was {
    /// First byte.
    pub start: u64,
    /// End (exclusive).
    pub end: u64,
    /// Rights.
    pub prot: Prot,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<F> {
    /// Nothing is there any more.
    Unmapped(u64, u64),
    /// It was not there: the mapping, or the new part of one.
    Mapped(Vma<F>),
    /// Other rights.
    Protected(u64, u64, Prot),
}

impl<F: Clone + PartialEq> VmaMap<F> {
    /// The mappings for which `wanted` holds, for [`changes`](Self::changes).
    pub fn outline(&self, wanted: impl Fn(&Vma<F>) -> bool) -> Vec<Was> {
        let was = |v: &Vma<F>| Was { start: v.start, end: v.end, prot: v.prot };
        self.iter().filter(|v| wanted(v)).map(was).collect()
    }

    /// What was changed since `before`, by address; of what is there now, mappings for which
    /// `wanted` holds. What was mapped anew where something was before is not seen.
    pub fn changes(&self, before: &[Was], wanted: impl Fn(&Vma<F>) -> bool) -> Vec<Change<F>> {
        let mut all = Vec::new();
        let mut old = before.iter().peekable();
        for v in self.iter() {
            let mut at = v.start;
            while at < v.end {
                // What ended below is done with; its part above `at` may be in the next one.
                while old.next_if(|w| w.end <= at).is_some() {}
                let (end, was) = match old.peek() {
                    Some(w) if w.start <= at => (w.end.min(v.end), Some(w.prot)),
                    Some(w) => (w.start.min(v.end), None),
                    None => (v.end, None),
                };
                match was {
                    None if wanted(v) => all.extend(v.slice(at, end).map(Change::Mapped)),
                    Some(prot) if prot != v.prot && wanted(v) => all.push(Change::Protected(at, end, v.prot)),
                    _ => {}
                }
                at = end;
            }
        }
        all.extend(before.iter().flat_map(|w| self.holes(w.start, w.end)).map(|(s, e)| Change::Unmapped(s, e)));
        all
    }

    /// The parts of `start..end` where nothing is mapped.
    fn holes(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut holes = Vec::new();
        let mut at = start;
        for v in self.range(start, end) {
            if v.start > at {
                holes.push((at, v.start));
            }
            at = v.end;
        }
        if at < end {
            holes.push((at, end));
        }
        holes
    }
}
