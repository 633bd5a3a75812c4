//! Sets of CPUs of the instance, as programs give them.

use crate::base::heap;
use alloc::vec::Vec;
use hanare_abi::cpus::{CPU_SET_WORDS, CpuSet};
use hanare_core::errno::Result;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::shared;

/// Words of a set of CPUs.
pub const MASK_WORDS: usize = CPUS_MAX / 64;
const _: () = assert!(MASK_WORDS <= CPU_SET_WORDS);

/// CPUs of the instance, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMask([u64; MASK_WORDS]);

impl CpuMask {
    /// The mask of all CPUs.
    pub const fn all() -> CpuMask {
        CpuMask([u64::MAX; MASK_WORDS])
    }

    /// The mask without a CPU.
    pub const fn none() -> CpuMask {
        CpuMask([0; MASK_WORDS])
    }

    /// From a set of Linux' side, which may name CPUs that do not exist.
    pub fn of(set: &CpuSet) -> CpuMask {
        CpuMask(core::array::from_fn(|i| set.words[i]))
    }

    /// For Linux' side: the full set if no CPUs were chosen.
    pub fn as_set(&self) -> CpuSet {
        if *self == CpuMask::all() { CpuSet::ALL } else { CpuSet::of_words(&self.0) }
    }

    /// The words of the set: bit n of word m is CPU 64 m + n.
    pub const fn words(&self) -> &[u64; MASK_WORDS] {
        &self.0
    }

    /// The union of both sets.
    pub fn union(&self, other: &CpuMask) -> CpuMask {
        CpuMask(core::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Whether a CPU of the instance is not in it.
    pub fn leaves_out(&self) -> bool {
        self.0.iter().enumerate().any(|(i, word)| {
            let here = count().saturating_sub(i * 64).min(64) as u32;
            !word & u64::MAX.checked_shr(64 - here).unwrap_or(0) != 0
        })
    }

    /// Whether the mask has a CPU.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64] & 1 << (cpu % 64) != 0
    }

    /// From Linux' CPU numbers, bit n of byte n / 8; `None`: no CPU of the instance.
    pub fn from_linux(bytes: &[u8]) -> Option<CpuMask> {
        let mut mask = CpuMask::none();
        for cpu in 0..count() {
            let n = shared::cpu(cpu).linux_cpu() as usize;
            if bytes.get(n / 8).is_some_and(|b| b & 1 << (n % 8) != 0) {
                mask.0[cpu / 64] |= 1 << (cpu % 64);
            }
        }
        (mask != CpuMask::none()).then_some(mask)
    }

    /// The mask in Linux' numbers, as large as Linux' own.
    pub fn to_linux(self) -> Result<Vec<u8>> {
        let mut bytes = heap::zeroed(shared::params().linux_cpumask_size as usize)?;
        for cpu in (0..count()).filter(|&c| self.contains(c)) {
            let n = shared::cpu(cpu).linux_cpu() as usize;
            if let Some(byte) = bytes.get_mut(n / 8) {
                *byte |= 1 << (n % 8);
            }
        }
        Ok(bytes)
    }
}

/// CPUs of the instance.
pub fn count() -> usize {
    shared::params().cpu_count as usize
}
