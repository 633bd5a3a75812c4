//! Walking over the mappings of an address space.

use super::{Prot, Vma, VmaMap};
use crate::pagerange::PageRange;

impl<F: Clone + PartialEq> VmaMap<F> {
    /// Bytes of the mappings for which `wanted` holds. O(n).
    pub fn bytes_where(&self, wanted: impl Fn(&Vma<F>) -> bool) -> u64 {
        self.iter().filter(|vma| wanted(vma)).map(Vma::len).sum()
    }

    /// Whether a mapping put there would overlap nothing and keep out of the guard gap of a stack
    /// above it.
    #[must_use]
    pub fn is_free(&self, range: PageRange) -> bool {
        self.find_next(range.start()).is_none_or(|vma| range.end() <= vma.guarded_start())
    }

    /// How far [`protect`](Self::protect) of a range would get.
    #[must_use]
    pub fn protectable(&self, range: PageRange, prot: Prot) -> u64 {
        let mut at = range.start();
        for vma in self.range(range) {
            if vma.start > at || !vma.may_have(prot, self.denies_write_exec) {
                break;
            }
            at = vma.end;
        }
        at.min(range.end())
    }

    /// Mappings that begin at `address` or above, by address.
    pub fn iter_from(&self, address: u64) -> impl Iterator<Item = &Vma<F>> {
        self.vmas.range(address..).map(|(_, vma)| vma)
    }
}
