//! Memory types of pages: the page attribute table (SDM volume 3A, 12.12; AMD volume 2, 7.8), by
//! which three bits of a page-table entry choose how CPUs access a page.

use hanare_abi::frame::CachePolicy;

/// Memory types as numbers of the table (SDM volume 3A, table 12-10).
const UNCACHED: u8 = 0;
const WRITE_COMBINING: u8 = 1;
const WRITE_THROUGH: u8 = 4;
const WRITE_BACK: u8 = 6;
const UNCACHED_MINUS: u8 = 7;

/// Table that CPUs have after power-on: without write-combining.
const POWER_ON: u64 = 0x0007_0406_0007_0406;
/// Entry that the kernel's own memory and all ordinary pages have: no bit is set.
const ORDINARY: usize = 0;
/// Entry of the kernel's pages of devices: the two bits are set that every x86 CPU has.
const OWN_DEVICES: usize = 3;

/// Page attribute table: eight memory types, a byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pat([u8; 8]);

impl Pat {
    /// Table that is such a word of IA32_PAT. One that the kernel cannot run by, as 0 where nobody
    /// said one, is taken for what CPUs have after power-on.
    #[must_use]
    pub const fn of(word: u64) -> Pat {
        let types = word.to_le_bytes();
        if types[ORDINARY] == WRITE_BACK && types[OWN_DEVICES] == UNCACHED && is_valid(&types) {
            Pat(types)
        } else {
            Pat(POWER_ON.to_le_bytes())
        }
    }

    /// The word.
    #[must_use]
    pub const fn word(self) -> u64 {
        u64::from_le_bytes(self.0)
    }

    /// Number of the entry for a policy, below 8. In place of one that the table has not stands
    /// the nearest that is safer: what is not cached is never cached.
    #[must_use]
    pub fn index(self, policy: CachePolicy) -> u8 {
        let types: &[u8] = match policy {
            CachePolicy::WriteBack => &[WRITE_BACK],
            CachePolicy::WriteThrough => &[WRITE_THROUGH, UNCACHED_MINUS],
            CachePolicy::WriteCombining => &[WRITE_COMBINING, UNCACHED_MINUS],
            CachePolicy::UncachedMinus => &[UNCACHED_MINUS],
            CachePolicy::Uncached => &[],
        };
        let find = |wanted: &u8| self.0.iter().position(|has| has == wanted);
        types.iter().find_map(find).unwrap_or(OWN_DEVICES) as u8
    }
}

/// Whether there are such types: a CPU takes no others.
const fn is_valid(types: &[u8; 8]) -> bool {
    let mut at = 0;
    while at < types.len() {
        if !matches!(types[at], 0 | 1 | 4..=7) {
            return false;
        }
        at += 1;
    }
    true
}

/// Size of a page, as far as the places of bits in its entry go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Large,
}

/// Bits of a page-table entry (PWT, PCD, PAT) that choose an entry of the table.
#[must_use]
pub const fn leaf_bits(index: u8, size: LeafSize) -> u64 {
    let index = index as u64;
    let pat = match size {
        LeafSize::Small => 7,
        LeafSize::Large => 12, // bit 7 says that it is one
    };
    (index & 1) << 3 | (index >> 1 & 1) << 4 | (index >> 2 & 1) << pat
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word of Linux 6.1, 6.12 and 7.2 alike.
    const LINUX: u64 = 0x0407_0506_0007_0106;

    #[test]
    fn policies_are_found_in_linuxs_table() {
        let pat = Pat::of(LINUX);
        assert_eq!(pat.word(), LINUX);
        let expected = [0, 1, 2, 3, 7];
        for (policy, index) in CachePolicy::ALL.into_iter().zip(expected) {
            assert_eq!(pat.index(policy), index, "{policy:?}");
        }
    }

    #[test]
    fn what_a_table_has_not_is_not_cached_instead() {
        let power_on = Pat::of(POWER_ON);
        assert_eq!(power_on.index(CachePolicy::WriteCombining), 2);
        assert_eq!(power_on.index(CachePolicy::WriteThrough), 1);
        let poor = Pat::of(0x0006_0606_0006_0606);
        for policy in CachePolicy::ALL {
            assert_eq!(poor.index(policy), if policy == CachePolicy::WriteBack { 0 } else { 3 });
        }
    }

    #[test]
    fn tables_that_the_kernel_cannot_run_by_are_not_taken() {
        for bad in [0, u64::MAX, LINUX << 8, LINUX & !0xff, LINUX | 0xff << 24, LINUX ^ 4 << 32] {
            assert_eq!(Pat::of(bad).word(), POWER_ON, "{bad:#x}");
        }
    }

    #[test]
    fn large_pages_have_the_third_bit_elsewhere() {
        let bits = |index| (leaf_bits(index, LeafSize::Small), leaf_bits(index, LeafSize::Large));
        assert_eq!(bits(0), (0, 0));
        assert_eq!(bits(1), (1 << 3, 1 << 3));
        assert_eq!(bits(2), (1 << 4, 1 << 4));
        assert_eq!(bits(3), (3 << 3, 3 << 3));
        assert_eq!(bits(4), (1 << 7, 1 << 12));
        assert_eq!(bits(7), (3 << 3 | 1 << 7, 3 << 3 | 1 << 12));
    }
}
