//! Walking over the mappings of an address space.

use super::{Prot, Vma, VmaMap};

impl<F: Clone + PartialEq> VmaMap<F> {
    /// Bytes of the mappings for which `wanted` holds. O(n).
    pub fn bytes_where(&self, wanted: impl Fn(&Vma<F>) -> bool) -> u64 {
        self.iter().filter(|vma| wanted(vma)).map(Vma::len).sum()
    }

    /// Whether a mapping put at `start..end` would overlap nothing and keep out of the guard
    /// gap of a stack above it.
    #[must_use]
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.find_next(start).is_none_or(|vma| end <= vma.guarded_start())
    }

    /// How far [`protect`](Self::protect) of `start..end` would get.
    #[must_use]
    pub fn protectable(&self, start: u64, end: u64, prot: Prot) -> u64 {
        let mut at = start;
        for vma in self.range(start, end) {
            if vma.start > at || !vma.may_have(prot, self.denies_write_exec) {
                break;
            }
            at = vma.end;
        }
        at.min(end)
    }

    /// Mappings that begin at `address` or above, by address.
    pub fn iter_from(&self, address: u64) -> impl Iterator<Item = &Vma<F>> {
        self.vmas.range(address..).map(|(_, vma)| vma)
    }
}
