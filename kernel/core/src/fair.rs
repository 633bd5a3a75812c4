//! Shares of what many users take from: service entries of a CPU.

/// A space and its user, which have shares of what the link has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// User, as the module counts them; `u32::MAX` is none.
    pub user: u32,
    /// The id of the space.
    pub space: u32,
}

impl Owner {
    /// The kernel, which takes what there is, for a space or for none (0).
    #[must_use]
    pub const fn kernel(space: u32) -> Owner {
        Owner { user: u32::MAX, space }
    }
}

/// Entries that are left, and those that one user has already.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// Entries without an owner.
    free: u32,
    /// The user has so many.
    of_user: u32,
    /// Entries of the user that the space has which wants one more.
    of_space: u32,
}

/// Whether one more entry may be taken: by a user with less than half of what is left for the
/// others, for a space with less than a third of it.
///
/// So the first user takes a third of all at most, and the next one a third of what that leaves.
/// Later users find something, though the earlier ones give nothing back. A space leaves something
/// to the other ones of its user, too: that user may have a stopped program.
const fn may_take(now: Use) -> bool {
    2 * now.of_user < now.free && 3 * now.of_space < now.free
}

/// A free entry of those with a bit in `part`, if `who` may have one more of them. Bit i of `used`:
/// entry i is that of `has(i)`.
pub fn find(part: u64, used: u64, who: Owner, has: impl Fn(u32) -> Owner) -> Option<u32> {
    let free = part & !used;
    let mut now = Use { free: free.count_ones(), of_user: 0, of_space: 0 };
    for owner in (0..64).filter(|i| part & used & 1 << i != 0).map(has) {
        now.of_user += u32::from(owner.user == who.user);
        now.of_space += u32::from(owner == who);
    }
    let may = if who.user == u32::MAX { free != 0 } else { may_take(now) };
    may.then(|| free.trailing_zeros())
}

/// Whether to wait for entries that come back by themselves (`pending`, of those with a bit in
/// `used`) can help `who` to one more. The user's own entries are not counted: by these the user
/// would keep a CPU for any time.
pub fn may_come(
    part: u64,
    used: u64,
    pending: u64,
    who: Owner,
    has: impl Fn(u32) -> Owner + Copy,
) -> bool {
    let others = |i: &u32| pending & 1 << i != 0 && has(*i).user != who.user;
    let back = (0..64).filter(others).fold(0, |all, i| all | 1 << i);
    find(part, used & !back, who, has).is_some()
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

        /// Users that came first do not keep more than their part from later ones, once they have
        /// to ask anew.
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

    /// Entries of a CPU, of which the service thread has the first eight for itself.
    struct Cpu(u64, [Owner; 64]);

    impl Cpu {
        fn take(&mut self, parts: &[u64], who: Owner) -> bool {
            let found = parts.iter().find_map(|&p| find(p, self.0, who, |i| self.1[i as usize]));
            if let Some(i) = found {
                assert_eq!(self.0 & 1 << i, 0);
                (self.0, self.1[i as usize]) = (self.0 | 1 << i, who);
            }
            found.is_some()
        }
    }

    #[test]
    fn no_user_waits_for_entries_that_do_not_come_back_or_are_its_own() {
        let (who, other) = (Owner { user: 1, space: 1 }, Owner { user: 2, space: 2 });
        let mine = |_| who;
        let others = |_| other;
        assert!(find(0xff, 0x7, who, mine).is_none(), "the share is used up");
        assert!(!may_come(0xff, 0x7, 0, who, mine));
        assert!(!may_come(0xff, 0x7, 0x7, who, mine), "by himself alone");
        assert!(!may_come(0xff, 0xff, 0, who, others), "all are waited for by threads");
        assert!(may_come(0xff, 0xff, 0x3, who, others), "others' come back");
        let mixed = |i| if i < 3 { who } else { other };
        assert!(!may_come(0xff, 0xff, 0x7, who, mixed), "only his own come back");
        assert!(may_come(0xff, 0x0f, 0xff, Owner { user: 3, space: 3 }, mixed));
    }

    #[test]
    fn one_user_leaves_entries_of_the_service_thread_and_the_others() {
        const OWN: u64 = 0xff;
        let mut cpu = Cpu(0, [Owner::kernel(0); 64]);
        for space in 1..=40 {
            while cpu.take(&[OWN, !OWN], Owner { user: 1000, space }) {}
            while cpu.take(&[!OWN], Owner { user: 1000, space }) {}
        }
        for user in 1..=3 {
            let other = Owner { user, space: 100 + user };
            assert!(cpu.take(&[!OWN], other), "of a worker or a fault");
            assert!(cpu.take(&[OWN], other), "of the service thread's own");
        }
        while cpu.take(&[OWN, !OWN], Owner::kernel(0)) {}
        assert_eq!(cpu.0, u64::MAX);
    }
}
