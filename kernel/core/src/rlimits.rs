//! Limits of a process (prlimit(2)) that Linux keeps and the LWK applies: stack, data, address
//! space, CPU time. Linux is where they are set, by the program or by others, so what was found
//! there last decides. Limits that Hanare sets there for itself are left out.

use hanare_abi::service::{LIMIT_LIFTED, LIMITS_WORDS, STACK_LIMIT_OF_PROXY};

/// RLIMIT_CPU.
pub const CPU: usize = 0;
/// RLIMIT_DATA.
pub const DATA: usize = 2;
/// RLIMIT_STACK.
pub const STACK: usize = 3;
/// RLIMIT_MEMLOCK.
pub const MEMLOCK: usize = 8;
/// RLIMIT_AS.
pub const ADDRESS_SPACE: usize = 9;

/// Soft and hard limit.
pub type Limit = (u64, u64);

/// Limits as they were found on Linux last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sequence number of the finding: one with a lower number is older.
    sequence: u64,
    /// RLIMIT_CPU there. The LWK's own goes on with each SIGXCPU, of which Linux is told a little
    /// later.
    cpu: Limit,
}

/// Limits to apply from now on. `None`: as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Soft RLIMIT_DATA.
    pub data: u64,
    /// Soft RLIMIT_STACK.
    pub stack: Option<u64>,
    /// Soft RLIMIT_AS.
    pub space: Option<u64>,
    /// Hard RLIMIT_AS.
    pub space_hard: u64,
    /// RLIMIT_CPU.
    pub cpu: Option<Limit>,
}

impl Found {
    /// A program begins, and Linux has this limit of CPU time for it.
    #[must_use]
    pub const fn at_begin(cpu: Limit) -> Self {
        Self { sequence: 0, cpu }
    }

    /// Linux is being told that the soft limit of CPU time has moved on.
    pub const fn tell_cpu(&mut self, cpu: Limit) {
        self.cpu = cpu;
    }

    /// The limit of CPU time that Linux had.
    #[must_use]
    pub const fn cpu(&self) -> Limit {
        self.cpu
    }

    /// Takes what was found over; `None`: something newer has been.
    #[must_use]
    pub fn take(&mut self, sequence: u64, words: &[u64; LIMITS_WORDS]) -> Option<Changes> {
        if sequence <= self.sequence {
            return None;
        }
        self.sequence = sequence;
        let limit = |resource: usize| (words[2 * resource], words[2 * resource + 1]);
        let cpu = limit(CPU);
        let is_new = cpu != self.cpu;
        self.cpu = cpu;
        let (space, space_hard) = limit(ADDRESS_SPACE);
        let (stack, _) = limit(STACK);
        Some(Changes {
            data: limit(DATA).0,
            stack: Some(stack).filter(|&stack| stack != STACK_LIMIT_OF_PROXY),
            space: Some(space).filter(|&space| space != LIMIT_LIFTED),
            space_hard,
            cpu: is_new.then_some(cpu),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: u64 = u64::MAX;

    fn words(limits: &[(usize, u64, u64)]) -> [u64; LIMITS_WORDS] {
        let mut words = [NONE; LIMITS_WORDS];
        for &(resource, soft, hard) in limits {
            words[2 * resource] = soft;
            words[2 * resource + 1] = hard;
        }
        words
    }

    #[test]
    fn limits_that_others_set_are_taken() {
        let mut found = Found::at_begin((NONE, NONE));
        let set = words(&[(DATA, 1, 2), (STACK, 3, 4), (ADDRESS_SPACE, 5, 6), (CPU, 7, 8)]);
        let changes =
            Changes { data: 1, stack: Some(3), space: Some(5), space_hard: 6, cpu: Some((7, 8)) };
        assert_eq!(found.take(1, &set), Some(changes));
        assert_eq!(found.take(2, &set), Some(Changes { cpu: None, ..changes }));
    }

    #[test]
    fn limits_of_the_proxy_itself_are_nobodys() {
        let mut found = Found::at_begin((NONE, NONE));
        let own = words(&[(STACK, STACK_LIMIT_OF_PROXY, NONE), (ADDRESS_SPACE, LIMIT_LIFTED, 6)]);
        let changes = found.take(1, &own).unwrap();
        assert_eq!((changes.stack, changes.space, changes.space_hard), (None, None, 6));
    }

    #[test]
    fn what_was_found_before_is_not_taken_after_that_found_later() {
        let mut found = Found::at_begin((NONE, NONE));
        assert!(found.take(5, &words(&[(DATA, 2, NONE)])).is_some());
        assert_eq!(found.take(4, &words(&[(DATA, 1, NONE)])), None);
        assert_eq!(found.take(5, &words(&[(DATA, 1, NONE)])), None);
    }

    #[test]
    fn a_limit_of_cpu_time_that_has_moved_on_is_no_change() {
        let mut found = Found::at_begin((1, 9));
        assert_eq!(found.take(1, &words(&[(CPU, 1, 9)])).unwrap().cpu, None);
        found.tell_cpu((2, 9));
        assert_eq!(found.take(2, &words(&[(CPU, 2, 9)])).unwrap().cpu, None);
        assert_eq!(found.take(3, &words(&[(CPU, 1, 9)])).unwrap().cpu, Some((1, 9)));
    }

    proptest! {
        /// In whichever order answers come, what was found last counts.
        #[test]
        fn the_last_one_counts(order in Just((1..=8u64).collect::<std::vec::Vec<_>>()).prop_shuffle()) {
            let (mut found, mut data) = (Found::at_begin((NONE, NONE)), 0);
            for sequence in order {
                if let Some(changes) = found.take(sequence, &words(&[(DATA, 100 + sequence, NONE)])) {
                    data = changes.data;
                }
            }
            prop_assert_eq!(data, 108);
        }
    }
}
