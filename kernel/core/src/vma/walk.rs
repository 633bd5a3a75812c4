//! Walking over the mappings of an address space.

use super::{Vma, VmaMap};

impl<F: Clone + PartialEq> VmaMap<F> {
    /// Bytes of the mappings for which `wanted` holds. O(n).
    pub fn bytes_where(&self, wanted: impl Fn(&Vma<F>) -> bool) -> u64 {
        self.iter().filter(|vma| wanted(vma)).map(Vma::len).sum()
    }

    /// Mappings that begin at `address` or above, by address.
    pub fn iter_from(&self, address: u64) -> impl Iterator<Item = &Vma<F>> {
        self.vmas.range(address..).map(|(_, vma)| vma)
    }
}
