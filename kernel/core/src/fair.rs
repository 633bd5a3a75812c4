//! Shares of what many users take from: service entries of a CPU.

/// Entries that are left, and those that one user has already.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Entries that nobody has.
    pub free: u32,
    /// The user has so many.
    pub of_user: u32,
    /// Of his, those of the space that wants one more.
    pub of_space: u32,
}

/// Whether one more may be taken: by a user who has less than half of what is left for the
/// others, for a space that has less than a third of it.
///
/// So the first user takes a third of all at most, the next one a third of what that leaves; who
/// comes after them finds something, though they give nothing back. A space leaves something to
/// the other ones of its user, too: he may have a stopped program.
#[must_use]
pub const fn may_take(now: Use) -> bool {
    2 * now.of_user < now.free && 3 * now.of_space < now.free
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const TOTAL: u32 = 56;

    struct Taken(Vec<Vec<u32>>);

    impl Taken {
        fn free(&self) -> u32 {
            TOTAL - self.0.iter().flatten().sum::<u32>()
        }

        fn take(&mut self, user: usize, space: usize) -> bool {
            let of_user = self.0[user].iter().sum();
            let may = may_take(Use { free: self.free(), of_user, of_space: self.0[user][space] });
            self.0[user][space] += u32::from(may);
            may
        }
    }

    proptest! {
        /// In whatever order others take and give back, if those are not very many.
        #[test]
        fn a_newcomer_finds_a_free_entry(hostile in 1..=8usize, spaces in 1..4usize, steps in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8u8), 0..600)) {
            let mut taken = Taken(vec![vec![0; spaces]; hostile + 1]);
            for (user, space, what) in steps {
                let (user, space) = (user.index(hostile), space.index(spaces));
                if what == 0 {
                    taken.0[user][space] = 0;
                } else {
                    taken.take(user, space);
                }
                prop_assert!(taken.free() > 0);
                let newcomer = Use { free: taken.free(), of_user: 0, of_space: 0 };
                prop_assert!(may_take(newcomer));
            }
        }

        /// Those who came first do not keep more than their part from those who come later, once
        /// they have to ask anew.
        #[test]
        fn users_get_equal_parts(users in 1..8usize) {
            let mut taken = Taken(vec![vec![0; 3]; users]);
            while (0..users * 3).filter(|i| taken.take(i % users, i / users)).count() > 0 {}
            let parts: Vec<u32> = taken.0.iter().map(|spaces| spaces.iter().sum()).collect();
            let part = TOTAL / (users as u32 + 2);
            prop_assert!(parts.iter().all(|&p| p.abs_diff(part) <= 2), "{:?}, not {}", parts, part);
        }
    }

    #[test]
    fn a_space_leaves_some_to_its_users_others() {
        let mut taken = Taken(vec![vec![0; 2]]);
        while taken.take(0, 0) {}
        assert_eq!(taken.0[0][0], 14);
        assert!(taken.take(0, 1));
    }
}
