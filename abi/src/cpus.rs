//! Sets of CPUs: those of an instance by index, and those of Linux by number. The two types are not
//! mixed. In both, bit `n % 64` of word `n / 64` stands for CPU `n`.

/// CPUs that a [`CpuSet`] can name.
pub const CPU_SET_CPUS: usize = 1024;
/// Words of a [`CpuSet`].
pub const CPU_SET_WORDS: usize = CPU_SET_CPUS / 64;
/// CPUs that a [`LinuxCpuSet`] can name.
pub const LINUX_CPU_SET_CPUS: usize = 4096;
/// Words of a [`LinuxCpuSet`].
pub const LINUX_CPU_SET_WORDS: usize = LINUX_CPU_SET_CPUS / 64;

/// CPUs of an instance, by index. The full set also stands for CPUs that the instance gets later.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSet {
    /// The bits.
    pub words: [u64; CPU_SET_WORDS],
}

/// CPUs of Linux, by number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxCpuSet {
    /// The bits.
    pub words: [u64; LINUX_CPU_SET_WORDS],
}

/// The methods of a set of CPUs with so many words.
macro_rules! set {
    ($name:ident, $words:expr) => {
        impl $name {
            /// The set without a CPU.
            pub const EMPTY: Self = Self { words: [0; $words] };

            /// Number of CPUs that a set can name: those with lower numbers.
            pub const CPUS: usize = $words * 64;

            /// A set from its words, the lowest CPUs first; CPUs beyond the words are not in it.
            /// Words beyond a set's are left out.
            #[must_use]
            pub fn of_words(words: &[u64]) -> Self {
                let mut set = Self::EMPTY;
                set.words.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
                set
            }

            /// Whether CPU `cpu` is in the set.
            #[must_use]
            pub fn contains(&self, cpu: usize) -> bool {
                self.words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 != 0)
            }

            /// Puts CPU `cpu` into the set. False: no set can name that CPU.
            pub fn insert(&mut self, cpu: usize) -> bool {
                let word = self.words.get_mut(cpu / 64);
                word.map(|word| *word |= 1 << (cpu % 64)).is_some()
            }

            /// Whether no CPU is in the set.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.words.iter().all(|&word| word == 0)
            }

            /// Whether each CPU that a set can name is in the set.
            #[must_use]
            pub fn is_full(&self) -> bool {
                self.words.iter().all(|&word| word == u64::MAX)
            }

            /// Number of CPUs in the set.
            #[must_use]
            pub fn count(&self) -> u32 {
                self.words.iter().map(|word| word.count_ones()).sum()
            }

            /// The CPUs of the set, in ascending order.
            pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
                (0..Self::CPUS).filter(|&cpu| self.contains(cpu))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::EMPTY
            }
        }

        /// CPUs that no set can name are left out.
        impl FromIterator<usize> for $name {
            fn from_iter<T: IntoIterator<Item = usize>>(cpus: T) -> Self {
                let mut set = Self::EMPTY;
                cpus.into_iter().for_each(|cpu| {
                    set.insert(cpu);
                });
                set
            }
        }
    };
}

set!(CpuSet, CPU_SET_WORDS);
set!(LinuxCpuSet, LINUX_CPU_SET_WORDS);

impl CpuSet {
    /// The set of all CPUs, which also means that none were chosen.
    pub const ALL: Self = Self { words: [u64::MAX; CPU_SET_WORDS] };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_cpus_that_were_put_in() {
        let mut set = CpuSet::default();
        assert!(set.is_empty() && set.count() == 0 && set.iter().next().is_none());
        let cpus = [0, 63, 64, 700, CPU_SET_CPUS - 1];
        assert!(cpus.iter().all(|&cpu| set.insert(cpu)) && set.insert(64));
        assert!(set.iter().eq(cpus));
        assert_eq!((set.count(), set.is_empty(), set.is_full()), (5, false, false));
        assert_eq!((set.contains(63), set.contains(62), set.contains(65)), (true, false, false));
        assert_eq!(set, cpus.into_iter().collect());
    }

    #[test]
    fn a_set_names_no_cpu_beyond_its_last() {
        let mut set = CpuSet::EMPTY;
        assert!(!set.insert(CPU_SET_CPUS) && !set.insert(usize::MAX) && set.is_empty());
        assert!(!CpuSet::ALL.contains(CPU_SET_CPUS) && CpuSet::ALL.is_full());
        assert_eq!(CpuSet::ALL.count() as usize, CPU_SET_CPUS);
        let all: LinuxCpuSet = (0..2 * LINUX_CPU_SET_CPUS).collect();
        assert!(all.is_full() && all.iter().last() == Some(LINUX_CPU_SET_CPUS - 1));
    }

    #[test]
    fn words_of_a_set_are_the_lowest_cpus() {
        let set = CpuSet::of_words(&[1 << 5, 1]);
        assert!(set.iter().eq([5, 64]));
        assert_eq!(CpuSet::of_words(&[u64::MAX; CPU_SET_WORDS + 1]), CpuSet::ALL);
        assert_eq!(CpuSet::of_words(&[]), CpuSet::EMPTY);
    }
}
