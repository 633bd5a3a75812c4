//! NUMA memory policies (set_mempolicy(2), mbind(2)): checked and remembered as Linux
//! does, and what they say of a page.

use alloc::collections::BTreeMap;

use crate::errno::{EINVAL, ENOENT, EOPNOTSUPP, Result};
use crate::lists;
use crate::nodes::{Nodes, Placement};
use crate::pagerange::PageRange;

const DEFAULT: u32 = 0;
const PREFERRED: u32 = 1;
const BIND: u32 = 2;
const INTERLEAVE: u32 = 3;
const LOCAL: u32 = 4;
const PREFERRED_MANY: u32 = 5;
/// Linux has it since 6.9.
const WEIGHTED_INTERLEAVE: u32 = 6;
const MODES: u32 = 7;
const STATIC: u32 = 1 << 15;
const RELATIVE: u32 = 1 << 14;
const BALANCING: u32 = 1 << 13;
const FLAGS: u32 = STATIC | RELATIVE | BALANCING;

/// A policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `MPOL_*` with its flags.
    pub mode: u32,
    /// Nodes that get_mempolicy(2) gives back: the ones that count, or, with a flag, those that
    /// were wished.
    pub nodes: Nodes,
    /// Node that is asked first if the policy has several (`set_mempolicy_home_node`).
    home: Option<u32>,
}

const _: () = assert!(DEFAULT == 0); // that of `Policy::default`

/// A mode without its flags.
#[must_use]
pub const fn plain(mode: u32) -> u32 {
    mode & !FLAGS
}

/// Whether there is such a mode with such flags, on a Linux that has `modes` of them.
///
/// # Errors
/// `EINVAL`
pub const fn check_mode(mode: u32, modes: u32) -> Result<()> {
    let (plain, flags) = (plain(mode), mode & FLAGS);
    if plain >= modes
        || plain >= MODES
        || flags & STATIC != 0 && flags & RELATIVE != 0
        || flags & BALANCING != 0 && plain != BIND
    {
        return Err(EINVAL);
    }
    Ok(())
}

impl Policy {
    /// The policy that the arguments ask for on a machine with the nodes `allowed`. The mode has
    /// been checked.
    ///
    /// # Errors
    /// `EINVAL`: nodes that do not go with the mode.
    pub fn new(mode: u32, nodes: Nodes, allowed: &Nodes) -> Result<Self> {
        let flags = mode & (STATIC | RELATIVE);
        let none = nodes.is_empty();
        match plain(mode) {
            DEFAULT if none => return Ok(Self::default()),
            PREFERRED | LOCAL if none && flags == 0 => {
                return Ok(Self { mode: LOCAL, ..Self::default() });
            }
            DEFAULT | LOCAL => return Err(EINVAL),
            _ if none => return Err(EINVAL),
            _ => {}
        }
        let mut policy = Self { mode, nodes, home: None };
        let effective = policy.effective(allowed);
        if effective.is_empty() {
            return Err(EINVAL);
        }
        if flags == 0 {
            policy.nodes = effective;
        }
        Ok(policy)
    }

    /// The nodes that count, on a machine with the nodes `allowed`.
    #[must_use]
    pub fn effective(&self, allowed: &Nodes) -> Nodes {
        let nodes = match self.mode & (STATIC | RELATIVE) {
            RELATIVE => self.nodes.relative_to(allowed),
            _ => self.nodes.and(allowed),
        };
        match (plain(self.mode), nodes.first()) {
            (PREFERRED, Some(first)) => {
                let mut one = Nodes::default();
                one.insert(first);
                one
            }
            _ => nodes,
        }
    }

    /// Whether pages take turns among the nodes.
    #[must_use]
    pub const fn takes_turns(&self) -> bool {
        matches!(plain(self.mode), INTERLEAVE | WEIGHTED_INTERLEAVE)
    }

    /// Where the page with the number `page`, counted in pages of its size from address 0, is to
    /// come from, on a machine with the nodes `allowed`. All nodes have the weight 1.
    #[must_use]
    pub fn placement(&self, allowed: &Nodes, page: u64) -> Placement {
        let nodes = self.effective(allowed);
        let among = Placement { first: self.home, among: Some(nodes), ..Placement::NEAR };
        match plain(self.mode) {
            PREFERRED => Placement { first: nodes.first(), ..Placement::NEAR },
            BIND => Placement { is_strict: true, ..among },
            PREFERRED_MANY => among,
            INTERLEAVE | WEIGHTED_INTERLEAVE => {
                let turn = page % u64::from(nodes.count().max(1));
                Placement { first: nodes.iter().nth(turn as usize), ..Placement::NEAR }
            }
            _ => Placement::NEAR,
        }
    }
}

/// Policies of pieces of an address space, by where they begin, with where they end; the rest has
/// the default one. Neighbours differ. A tree, for a program may make tens of thousands: no call
/// goes through all of them, and they need no contiguous memory.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug, Default)]
pub struct Policies(BTreeMap<u64, (u64, Policy)>);

impl Policies {
    /// A copy.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn copied(&self) -> Result<Self> {
        lists::copied(&self.0).map(Self)
    }

    /// The policy at `addr`, if there is one.
    #[must_use]
    pub fn find(&self, addr: u64) -> Option<&Policy> {
        let (_, (end, policy)) = self.0.range(..=addr).next_back()?;
        (addr < *end).then_some(policy)
    }

    /// The policy at `addr`, or the default one.
    #[must_use]
    pub fn get(&self, addr: u64) -> Policy {
        self.find(addr).copied().unwrap_or_default()
    }

    /// Where, before `end`, another policy begins than that at `addr`.
    #[must_use]
    pub fn end_of(&self, addr: u64, end: u64) -> u64 {
        let piece = self.0.range(..=addr).next_back().map(|(_, piece)| piece.0);
        let next =
            piece.filter(|&e| e > addr).or_else(|| self.0.range(addr..).next().map(|p| *p.0));
        next.unwrap_or(end).min(end)
    }

    /// Number of pieces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// No fewer than there would be with another policy for a range.
    #[must_use]
    pub fn count_with(&self, range: PageRange) -> usize {
        let (start, end) = (range.start(), range.end());
        let replaced = self.0.range(start..end).count();
        let cut = self.0.range(..end).next_back().is_some_and(|(_, piece)| piece.0 > end);
        self.count() - replaced + usize::from(cut) + 1
    }

    /// Whether all of a range has one policy.
    #[must_use]
    pub fn is_one(&self, range: PageRange) -> bool {
        let (start, end) = (range.start(), range.end());
        let ends_inside = self
            .0
            .range(..start)
            .next_back()
            .is_some_and(|(_, piece)| piece.0 > start && piece.0 < end);
        let first = self.0.range(start..end).next();
        !ends_inside && first.is_none_or(|(&s, piece)| s == start && piece.0 >= end)
    }

    /// Asks for the room that [`clear`](Self::clear) may need.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn room_to_clear(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { lists::room_for_entries::<u64, (u64, Policy)>(2) }
    }

    /// A range has the default policy again: it is another mapping, or none. It cannot fail:
    /// where the room was not asked for and there is none, what lies behind loses its policy, too.
    pub fn clear(&mut self, range: PageRange) {
        if range.is_empty() {
            return;
        }
        let (start, end) = (range.start(), range.end());
        self.cut(start);
        self.cut(end);
        while let Some((&inside, _)) = self.0.range(start..end).next() {
            self.0.remove(&inside);
        }
    }

    /// Makes two of the piece that has `at` inside.
    fn cut(&mut self, at: u64) {
        if let Some((_, piece)) = self.0.range_mut(..at).next_back()
            && piece.0 > at
        {
            let upper = *piece;
            piece.0 = at;
            if lists::room_for_entries::<u64, (u64, Policy)>(1).is_ok() {
                lists::insert_within(&mut self.0, at, upper);
            }
        }
    }

    /// Sets the policy of a range.
    ///
    /// # Errors
    /// `ENOMEM`: nothing was changed.
    pub fn set(&mut self, range: PageRange, policy: Policy) -> Result<()> {
        if self.0.is_empty() && policy == Policy::default() {
            return Ok(());
        }
        // Both ends may cut a piece, and there is a new one.
        lists::room_for_entries::<u64, (u64, Policy)>(3)?;
        self.clear(range);
        if policy == Policy::default() || range.is_empty() {
            return Ok(());
        }
        let (start, end) = (range.start(), range.end());
        let (mut first, mut last) = (start, end);
        if let Some((&below, &(_, other))) =
            self.0.range(..start).next_back().filter(|(_, piece)| piece.0 == start)
            && other == policy
        {
            first = below;
        }
        if let Some(&(above, other)) = self.0.get(&end)
            && other == policy
        {
            self.0.remove(&end);
            last = above;
        }
        lists::insert_within(&mut self.0, first, (last, policy));
        Ok(())
    }

    /// set_mempolicy_home_node(2). What comes before an error is changed.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a policy that has no use for it. `ENOENT`: nothing in the range has a policy.
    /// `ENOMEM`.
    pub fn set_home(&mut self, range: PageRange, node: u32) -> Result<()> {
        let (mut at, end, mut result) = (range.start(), range.end(), Err(ENOENT));
        while at < end {
            let behind = self.end_of(at, end);
            if let Some(&policy) = self.find(at) {
                if !matches!(plain(policy.mode), BIND | PREFERRED_MANY) {
                    return Err(EOPNOTSUPP);
                }
                self.set(PageRange::of(at, behind), Policy { home: Some(node), ..policy })?;
                result = Ok(());
            }
            at = behind;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PAGE_SIZE;
    use crate::errno::ENOMEM;
    use crate::lists::failing;

    /// Range between two pages, by their numbers.
    fn pages(start: u64, end: u64) -> PageRange {
        PageRange::of(start * PAGE_SIZE, end * PAGE_SIZE)
    }

    fn nodes(word: u64) -> Nodes {
        let mut nodes = Nodes::default();
        nodes.0[0] = word;
        nodes
    }

    #[test]
    fn policies_are_checked_as_linux_checks_them() {
        let two = nodes(3);
        let new = |mode, wished| {
            check_mode(mode, MODES)?;
            Policy::new(mode, nodes(wished), &two).map(|p| (p.mode, p.nodes.0[0]))
        };
        assert_eq!(new(DEFAULT, 0), Ok((DEFAULT, 0)));
        assert_eq!(new(DEFAULT, 1), Err(EINVAL));
        assert_eq!(new(PREFERRED, 0), Ok((LOCAL, 0)));
        assert_eq!(new(PREFERRED, 3), Ok((PREFERRED, 1)));
        assert_eq!(new(PREFERRED | STATIC, 0), Err(EINVAL));
        assert_eq!(new(BIND, 0), Err(EINVAL));
        assert_eq!(new(BIND, 4), Err(EINVAL));
        assert_eq!(new(BIND, 6), Ok((BIND, 2)));
        assert_eq!(new(BIND | STATIC, 6), Ok((BIND | STATIC, 6)));
        assert_eq!(new(BIND | STATIC, 4), Err(EINVAL));
        assert_eq!(new(BIND | RELATIVE, 4), Ok((BIND | RELATIVE, 4)));
        assert_eq!(new(BIND | BALANCING, 1), Ok((BIND | BALANCING, 1)));
        assert_eq!(new(PREFERRED | BALANCING, 1), Err(EINVAL));
        assert_eq!(new(BIND | STATIC | RELATIVE, 1), Err(EINVAL));
        assert_eq!(new(LOCAL, 0), Ok((LOCAL, 0)));
        assert_eq!(new(LOCAL, 1), Err(EINVAL));
        assert_eq!(new(WEIGHTED_INTERLEAVE, 3), Ok((WEIGHTED_INTERLEAVE, 3)));
        assert_eq!(new(MODES, 1), Err(EINVAL));
        assert_eq!(check_mode(WEIGHTED_INTERLEAVE, WEIGHTED_INTERLEAVE), Err(EINVAL));
    }

    #[test]
    fn a_policy_says_which_node_a_page_comes_from() {
        let three = nodes(0b1011); // 0, 1, 3
        let place = |mode, wished, page| {
            let p = Policy::new(mode, nodes(wished), &three).unwrap().placement(&three, page);
            (p.first, p.among.map(|n| n.0[0]), p.is_strict)
        };
        assert_eq!(place(DEFAULT, 0, 7), (None, None, false));
        assert_eq!(place(LOCAL, 0, 7), (None, None, false));
        assert_eq!(place(PREFERRED, 0b1010, 7), (Some(1), None, false));
        assert_eq!(place(PREFERRED | STATIC, 0b1100, 7), (Some(3), None, false));
        assert_eq!(place(PREFERRED | RELATIVE, 0b0100, 7), (Some(3), None, false));
        assert_eq!(place(BIND, 0b1110, 7), (None, Some(0b1010), true));
        assert_eq!(place(BIND | STATIC, 0b0110, 7), (None, Some(0b0010), true));
        assert_eq!(place(BIND | RELATIVE, 0b0110, 7), (None, Some(0b1010), true));
        assert_eq!(place(PREFERRED_MANY, 0b1001, 7), (None, Some(0b1001), false));
        for mode in [INTERLEAVE, WEIGHTED_INTERLEAVE] {
            let nodes = [0, 1, 2, 3].map(|page| place(mode, 0b1010, page).0.unwrap());
            assert_eq!(nodes, [1, 3, 1, 3]);
            assert_eq!(place(mode, 0b1010, 0), (Some(1), None, false));
        }
    }

    #[test]
    fn a_home_node_is_asked_first() {
        let two = nodes(3);
        let many = Policy::new(PREFERRED_MANY, two, &two).unwrap();
        let mut all = Policies::default();
        assert_eq!(all.set_home(pages(0, 9), 1), Err(ENOENT));
        all.set(pages(2, 4), many).unwrap();
        all.set(pages(5, 7), many).unwrap();
        assert_eq!(all.set_home(pages(0, 6), 1), Ok(()));
        let homes = [2, 3, 5, 6].map(|page| all.get(page * PAGE_SIZE).placement(&two, page).first);
        assert_eq!(homes, [Some(1), Some(1), Some(1), None]);
        all.set(pages(7, 8), Policy::new(INTERLEAVE, two, &two).unwrap()).unwrap();
        assert_eq!(all.set_home(pages(6, 8), 0), Err(EOPNOTSUPP));
        assert_eq!(all.get(6 * PAGE_SIZE).placement(&two, 6).first, Some(0));
        let ends = [0, 2, 3, 4, 6, 7, 8]
            .map(|page| all.end_of(page * PAGE_SIZE, 10 * PAGE_SIZE) / PAGE_SIZE);
        assert_eq!(ends, [2, 4, 4, 5, 7, 8, 10]);
    }

    fn bind(n: u64) -> Policy {
        Policy { mode: BIND, nodes: nodes(n), home: None }
    }

    #[test]
    fn a_range_keeps_its_policy_within_another() {
        let mut all = Policies::default();
        all.set(pages(10, 50), bind(1)).unwrap();
        all.set(pages(20, 30), bind(2)).unwrap();
        assert_eq!(
            [5, 10, 19, 20, 29, 30, 49, 50].map(|a| all.get(a * PAGE_SIZE).nodes.0[0]),
            [0, 1, 1, 2, 2, 1, 1, 0]
        );
        assert!(
            all.is_one(pages(20, 30))
                && all.is_one(pages(12, 15))
                && all.is_one(pages(50, 90))
                && all.is_one(pages(20, 20))
        );
        assert!(
            !all.is_one(pages(19, 21))
                && !all.is_one(pages(29, 31))
                && !all.is_one(pages(5, 11))
                && !all.is_one(pages(49, 51))
                && !all.is_one(pages(5, 90))
        );
        all.clear(pages(15, 25));
        assert_eq!(
            [10, 15, 24, 25, 30].map(|a| all.get(a * PAGE_SIZE).nodes.0[0]),
            [1, 0, 0, 2, 1]
        );
        all.set(pages(0, 100), Policy::default()).unwrap();
        assert_eq!(all.count(), 0);
    }

    #[test]
    fn neighbours_with_one_policy_are_joined() {
        let mut all = Policies::default();
        for page in [0, 2, 1, 4, 3] {
            all.set(pages(page, page + 1), bind(1)).unwrap();
        }
        assert_eq!((all.count(), all.is_one(pages(0, 5))), (1, true));
        all.set(pages(2, 3), bind(2)).unwrap();
        assert_eq!(all.count(), 3);
        all.set(pages(2, 3), bind(1)).unwrap();
        assert_eq!(all.count(), 1);
    }

    proptest::proptest! {
        #[test]
        fn policies_are_as_an_array_of_pages(calls in proptest::collection::vec((0u64..24, 0u64..8, 0u64..3, proptest::bool::ANY), 1..40)) {
            let (mut all, mut known) = (Policies::default(), [0; 32]);
            for (start, len, n, fails) in calls {
                let policy = if n == 0 { Policy::default() } else { bind(n) };
                let needs_memory = all.count() > 0 || n > 0;
                if fails && needs_memory {
                    let before = all.clone();
                    assert_eq!(failing::at(0, || all.set(pages(start, start + len), policy)), (Err(ENOMEM), true));
                    assert_eq!(all.0, before.0);
                }
                let most = all.count_with(pages(start, start + len));
                all.set(pages(start, start + len), policy).unwrap();
                known[start as usize..(start + len) as usize].fill(n);
                assert!(all.count() <= most);
                assert_eq!(core::array::from_fn(|a| all.get(a as u64 * PAGE_SIZE).nodes.0[0]), known);
                let borders = known.windows(2).filter(|w| w[1] != 0 && w[0] != w[1]).count() + usize::from(known[0] != 0);
                assert_eq!(all.count(), borders);
            }
        }
    }
}
