//! NUMA memory policies (set_mempolicy(2), mbind(2)): checked and remembered as Linux
//! does. They are wishes: pages come from the node of the CPU that touches them first.

use alloc::collections::BTreeMap;

use crate::errno::{EINVAL, Result};

/// Words of a set of nodes: 1,024 of them, as Linux' distributions have it.
pub const WORDS: usize = 16;
/// A set of nodes, bit n of word n / 64.
pub type Nodes = [u64; WORDS];

const DEFAULT: u32 = 0;
const PREFERRED: u32 = 1;
const LOCAL: u32 = 4;
const MODES: u32 = 6;
const BIND: u32 = 2;
const STATIC: u32 = 1 << 15;
const RELATIVE: u32 = 1 << 14;
const BALANCING: u32 = 1 << 13;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `MPOL_*` with its flags.
    pub mode: u32,
    /// What is given back: the nodes that count, or, with a flag, those that were wished.
    pub nodes: Nodes,
}

impl Default for Policy {
    fn default() -> Self {
        Self { mode: DEFAULT, nodes: [0; WORDS] }
    }
}

fn first_only(nodes: &Nodes) -> Nodes {
    let mut first = [0; WORDS];
    if let Some(i) = nodes.iter().position(|w| *w != 0) {
        first[i] = nodes[i] & nodes[i].wrapping_neg();
    }
    first
}

/// Whether there is such a mode with such flags.
///
/// # Errors
/// `EINVAL`
pub const fn check_mode(mode: u32) -> Result<()> {
    let (plain, flags) =
        (mode & !(STATIC | RELATIVE | BALANCING), mode & (STATIC | RELATIVE | BALANCING));
    if plain >= MODES
        || flags & STATIC != 0 && flags & RELATIVE != 0
        || flags & BALANCING != 0 && plain != BIND
    {
        return Err(EINVAL);
    }
    Ok(())
}

impl Policy {
    /// The policy that the arguments ask for on a machine with the nodes `allowed`.
    ///
    /// # Errors
    /// `EINVAL`: no such mode, or nodes that do not go with it.
    pub fn new(mode: u32, nodes: Nodes, allowed: &Nodes) -> Result<Self> {
        check_mode(mode)?;
        let plain = mode & !(STATIC | RELATIVE | BALANCING);
        let flags = mode & (STATIC | RELATIVE);
        let none = nodes == [0; WORDS];
        match plain {
            DEFAULT if none => return Ok(Self::default()),
            PREFERRED if none && flags == 0 => return Ok(Self { mode: LOCAL, nodes }),
            LOCAL if none && flags == 0 => return Ok(Self { mode: LOCAL, nodes }),
            DEFAULT | LOCAL => return Err(EINVAL),
            _ if none => return Err(EINVAL),
            _ => {}
        }
        let mut effective: Nodes = core::array::from_fn(|i| nodes[i] & allowed[i]);
        if flags & RELATIVE != 0 && allowed.iter().any(|w| *w != 0) {
            effective = *allowed; // at least one of them is meant
        }
        if effective == [0; WORDS] {
            return Err(EINVAL);
        }
        let shown = match (flags, plain) {
            (0, PREFERRED) => first_only(&effective),
            (0, _) => effective,
            _ => nodes,
        };
        Ok(Self { mode, nodes: shown })
    }
}

/// Policies of pieces of an address space, by where they begin, with where they end; the rest has
/// the default one. Neighbours differ. A tree, for a program may make tens of thousands: no call
/// goes through all of them, and they need no contiguous memory.
#[derive(Clone, Debug, Default)]
pub struct Policies(BTreeMap<u64, (u64, Policy)>);

impl Policies {
    /// Bytes that a copy of the policies takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        2 * self.0.len() * size_of::<(u64, u64, Policy)>()
    }

    /// The policy at `addr`.
    #[must_use]
    pub fn get(&self, addr: u64) -> Policy {
        self.0
            .range(..=addr)
            .next_back()
            .filter(|(_, piece)| addr < piece.0)
            .map_or_else(Policy::default, |(_, piece)| piece.1)
    }

    /// Number of pieces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// No fewer than there would be with another policy for `start..end`.
    #[must_use]
    pub fn count_with(&self, start: u64, end: u64) -> usize {
        let replaced = self.0.range(start..end).count();
        let cut = self.0.range(..end).next_back().is_some_and(|(_, piece)| piece.0 > end);
        self.count() - replaced + usize::from(cut) + 1
    }

    /// Whether all of `start..end` has one policy.
    #[must_use]
    pub fn is_one(&self, start: u64, end: u64) -> bool {
        let ends_inside = self
            .0
            .range(..start)
            .next_back()
            .is_some_and(|(_, piece)| piece.0 > start && piece.0 < end);
        let first = self.0.range(start..end).next();
        !ends_inside && first.is_none_or(|(&s, piece)| s == start && piece.0 >= end)
    }

    /// `start..end` has the default policy again: it is another mapping, or none.
    pub fn clear(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
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
            self.0.insert(at, upper);
        }
    }

    /// Sets the policy of `start..end`.
    pub fn set(&mut self, start: u64, end: u64, policy: Policy) {
        self.clear(start, end);
        if policy == Policy::default() || start >= end {
            return;
        }
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
        self.0.insert(first, (last, policy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(word: u64) -> Nodes {
        let mut nodes = [0; WORDS];
        nodes[0] = word;
        nodes
    }

    #[test]
    fn as_linux_checks_them() {
        let two = nodes(3);
        let new =
            |mode, wished| Policy::new(mode, nodes(wished), &two).map(|p| (p.mode, p.nodes[0]));
        assert_eq!(new(DEFAULT, 0), Ok((DEFAULT, 0)));
        assert_eq!(new(DEFAULT, 1), Err(EINVAL));
        assert_eq!(new(PREFERRED, 0), Ok((LOCAL, 0)));
        assert_eq!(new(PREFERRED, 3), Ok((PREFERRED, 1)));
        assert_eq!(new(PREFERRED | STATIC, 0), Err(EINVAL));
        assert_eq!(new(BIND, 0), Err(EINVAL));
        assert_eq!(new(BIND, 4), Err(EINVAL));
        assert_eq!(new(BIND, 6), Ok((BIND, 2)));
        assert_eq!(new(BIND | STATIC, 6), Ok((BIND | STATIC, 6)));
        assert_eq!(new(BIND | BALANCING, 1), Ok((BIND | BALANCING, 1)));
        assert_eq!(new(PREFERRED | BALANCING, 1), Err(EINVAL));
        assert_eq!(new(BIND | STATIC | RELATIVE, 1), Err(EINVAL));
        assert_eq!(new(LOCAL, 0), Ok((LOCAL, 0)));
        assert_eq!(new(LOCAL, 1), Err(EINVAL));
        assert_eq!(new(MODES, 1), Err(EINVAL));
    }

    fn bind(n: u64) -> Policy {
        Policy { mode: BIND, nodes: nodes(n) }
    }

    #[test]
    fn pieces() {
        let mut all = Policies::default();
        all.set(10, 50, bind(1));
        all.set(20, 30, bind(2));
        assert_eq!(
            [5, 10, 19, 20, 29, 30, 49, 50].map(|a| all.get(a).nodes[0]),
            [0, 1, 1, 2, 2, 1, 1, 0]
        );
        assert!(
            all.is_one(20, 30) && all.is_one(12, 15) && all.is_one(50, 90) && all.is_one(20, 20)
        );
        assert!(
            !all.is_one(19, 21)
                && !all.is_one(29, 31)
                && !all.is_one(5, 11)
                && !all.is_one(49, 51)
                && !all.is_one(5, 90)
        );
        all.clear(15, 25);
        assert_eq!([10, 15, 24, 25, 30].map(|a| all.get(a).nodes[0]), [1, 0, 0, 2, 1]);
        all.set(0, 100, Policy::default());
        assert_eq!(all.count(), 0);
    }

    #[test]
    fn neighbours_are_one() {
        let mut all = Policies::default();
        for page in [0, 2, 1, 4, 3] {
            all.set(page, page + 1, bind(1));
        }
        assert_eq!((all.count(), all.is_one(0, 5)), (1, true));
        all.set(2, 3, bind(2));
        assert_eq!(all.count(), 3);
        all.set(2, 3, bind(1));
        assert_eq!(all.count(), 1);
    }

    proptest::proptest! {
        #[test]
        fn as_an_array_of_pages(calls in proptest::collection::vec((0u64..24, 0u64..8, 0u64..3), 1..40)) {
            let (mut all, mut pages) = (Policies::default(), [0; 32]);
            for (start, len, n) in calls {
                let most = all.count_with(start, start + len);
                all.set(start, start + len, if n == 0 { Policy::default() } else { bind(n) });
                pages[start as usize..(start + len) as usize].fill(n);
                assert!(all.count() <= most);
                assert_eq!(core::array::from_fn(|a| all.get(a as u64).nodes[0]), pages);
                let borders = pages.windows(2).filter(|w| w[1] != 0 && w[0] != w[1]).count() + usize::from(pages[0] != 0);
                assert_eq!(all.count(), borders);
            }
        }
    }
}
