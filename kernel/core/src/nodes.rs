//! Sets of NUMA nodes, and from which of them a page is to come.

use crate::errno::{EFAULT, EINVAL, Result};
use crate::usermemory::UserMemory;

/// Words of a set of nodes: 1,024 of them, as Linux' distributions have it.
pub const WORDS: usize = 16;

/// A set of nodes, bit n of word n / 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nodes(pub [u64; WORDS]);

impl Nodes {
    /// A set of a program's, of `max_node - 1` bits; those that no node can have must be clear.
    ///
    /// # Errors
    /// `EINVAL`: one is not, or there are too many. `EFAULT`.
    pub fn read(memory: &impl UserMemory, at: u64, max_node: u64) -> Result<Self> {
        const MOST_BITS: u64 = 4096 * 8;
        let mut nodes = [0; WORDS];
        let bits = max_node.wrapping_sub(1);
        if bits == 0 || at == 0 {
            return Ok(Self::default());
        }
        if bits > MOST_BITS {
            return Err(EINVAL);
        }
        for i in 0..bits.div_ceil(64) {
            let mut word = memory.read_u64(at.wrapping_add(i * 8)).map_err(|_| EFAULT)?;
            if bits - i * 64 < 64 {
                word &= (1 << (bits - i * 64)) - 1;
            }
            match nodes.get_mut(i as usize) {
                Some(to) => *to = word,
                None if word != 0 => return Err(EINVAL),
                None => {}
            }
        }
        Ok(Self(nodes))
    }

    /// Whether the set has `node`.
    #[must_use]
    pub fn contains(&self, node: u32) -> bool {
        self.0.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 != 0)
    }

    /// Adds a node, if Linux can have one with this number.
    pub fn insert(&mut self, node: u32) {
        if let Some(word) = self.0.get_mut(node as usize / 64) {
            *word |= 1 << (node % 64);
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Number of nodes.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Nodes that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The nodes, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        (0..).zip(self.0).flat_map(|(i, word)| {
            core::iter::successors(Some(word), |&left| Some(left & left.wrapping_sub(1)))
                .take_while(|&left| left != 0)
                .map(move |left| 64 * i + left.trailing_zeros())
        })
    }

    /// The node with the lowest number.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Bit n stands for the n-th node of `allowed`, counted around (`MPOL_F_RELATIVE_NODES`).
    #[must_use]
    pub fn relative_to(&self, allowed: &Self) -> Self {
        let mut meant = Self::default();
        let count = allowed.count().max(1);
        for bit in self.iter() {
            allowed.iter().nth((bit % count) as usize).into_iter().for_each(|n| meant.insert(n));
        }
        meant
    }
}

/// From which nodes a page may come, and in which order they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node that is asked first, if it is among those below, and from which on the others
    /// follow. `None`: that of the CPU.
    pub first: Option<u32>,
    /// Nodes that come before all others. `None`: all are equal.
    pub among: Option<Nodes>,
    /// The others do not count.
    pub is_strict: bool,
    /// Smaller blocks of a node will do before a block of one that is asked later.
    pub breaks_up: bool,
}

impl Placement {
    /// Near the CPU, or anywhere.
    pub const NEAR: Self = Self { first: None, among: None, is_strict: false, breaks_up: false };

    /// The zones to be asked for a page for a CPU of the node `here`, the best one first; each is
    /// named by its place in `ids`, the nodes that have memory, in ascending order. Nothing is
    /// known of distances: behind a node come those with higher numbers, then those with lower
    /// ones.
    pub fn order<'a>(&'a self, here: u32, ids: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
        let first = self.first.unwrap_or(here);
        let from = ids.iter().position(|&id| id >= first).unwrap_or(0);
        let around = move || (from..ids.len()).chain(0..from);
        let is_wanted =
            move |zone: usize| self.among.as_ref().is_none_or(|nodes| nodes.contains(ids[zone]));
        let others = if self.is_strict { 0 } else { ids.len() };
        around()
            .filter(move |&zone| is_wanted(zone))
            .chain(around().take(others).filter(move |&zone| !is_wanted(zone)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usermemory::tests::Bytes;
    use std::vec;
    use std::vec::Vec;

    fn set(nodes: &[u32]) -> Nodes {
        let mut all = Nodes::default();
        nodes.iter().for_each(|&n| all.insert(n));
        all
    }

    /// Memory that has the words from address 8 on.
    fn words(words: &[u64]) -> Bytes {
        let behind_null = core::iter::once(&0).chain(words);
        Bytes(behind_null.flat_map(|word| word.to_le_bytes()).collect())
    }

    #[test]
    fn a_set_in_memory_has_one_bit_less_than_is_said() {
        let read = |words: &[u64], max_node| Nodes::read(&self::words(words), 8, max_node);
        let nodes = |result: Result<Nodes>| result.map(|nodes| nodes.iter().collect::<Vec<u32>>());
        assert_eq!(nodes(read(&[0b111], 3)), Ok(vec![0, 1]));
        assert_eq!(nodes(read(&[u64::MAX, 0b101], 67)).map(|all| all.len()), Ok(65));
        assert_eq!(nodes(read(&[], 1)), Ok(vec![]));
        assert_eq!(Nodes::read(&self::words(&[]), 0, 64), Ok(Nodes::default()));
        assert_eq!(read(&[1], 66), Err(EFAULT));
        assert_eq!(read(&[], 0), Err(EINVAL));
        assert_eq!(read(&[], 4096 * 8 + 2), Err(EINVAL));
        // Behind the nodes that there can be: zeros, and nothing else.
        let mut words = vec![0; 20];
        assert_eq!(read(&words, 1281), Ok(Nodes::default()));
        words[16] = 1;
        assert_eq!(read(&words, 1281), Err(EINVAL));
    }

    #[test]
    fn a_set_has_what_was_inserted() {
        let all = set(&[0, 5, 63, 64, 1023, 1024]);
        assert_eq!(all.iter().collect::<Vec<_>>(), [0, 5, 63, 64, 1023]);
        assert_eq!((all.count(), all.first(), all.is_empty()), (5, Some(0), false));
        assert!(all.contains(64) && !all.contains(65) && !all.contains(1024));
        assert_eq!(all.and(&set(&[5, 6, 64])), set(&[5, 64]));
        assert_eq!((Nodes::default().first(), Nodes::default().is_empty()), (None, true));
    }

    #[test]
    fn relative_nodes_are_counted_around() {
        let allowed = set(&[2, 4, 7]);
        assert_eq!(set(&[0, 1]).relative_to(&allowed), set(&[2, 4]));
        assert_eq!(set(&[3, 5]).relative_to(&allowed), set(&[2, 7]));
        assert_eq!(set(&[1]).relative_to(&Nodes::default()), Nodes::default());
    }

    #[test]
    fn zones_are_asked_from_the_wished_one_on() {
        let ids = [1, 3, 6];
        let order = |place: Placement, here| place.order(here, &ids).collect::<Vec<_>>();
        let near = Placement::NEAR;
        assert_eq!(order(near, 3), [1, 2, 0]);
        assert_eq!(order(near, 2), [1, 2, 0], "a node without memory");
        assert_eq!(order(near, 9), [0, 1, 2]);
        assert_eq!(order(Placement { first: Some(6), ..near }, 1), [2, 0, 1]);
        let among = Placement { among: Some(set(&[1, 6])), ..near };
        assert_eq!(order(among, 3), [2, 0, 1]);
        assert_eq!(order(Placement { first: Some(1), ..among }, 3), [0, 2, 1]);
        let strict = Placement { is_strict: true, ..among };
        assert_eq!(order(strict, 3), [2, 0]);
        assert_eq!(order(Placement { among: Some(set(&[2])), ..strict }, 3), vec![0; 0]);
    }

    proptest::proptest! {
        #[test]
        fn each_zone_is_asked_once(
            ids in proptest::collection::btree_set(0u32..70, 1..8),
            among in proptest::option::of(proptest::collection::vec(0u32..70, 0..8)),
            first in proptest::option::of(0u32..70),
            here in 0u32..70,
            is_strict: bool,
        ) {
            let ids: Vec<u32> = ids.into_iter().collect();
            let among = among.map(|nodes| set(&nodes));
            let place = Placement { first, among, is_strict, breaks_up: false };
            let asked: Vec<usize> = place.order(here, &ids).collect();
            let wanted = |zone: &usize| among.is_none_or(|nodes| nodes.contains(ids[*zone]));
            let mut sorted = asked.clone();
            sorted.sort_unstable();
            let all: Vec<usize> = (0..ids.len()).filter(|z| !is_strict || wanted(z)).collect();
            assert_eq!(sorted, all);
            assert!(asked.is_sorted_by_key(|z| !wanted(z)), "those that are wanted come first");
            let best = first.unwrap_or(here);
            if let Some(zone) = ids.iter().position(|&id| id == best).filter(wanted) {
                assert_eq!(asked[0], zone);
            }
        }
    }
}
