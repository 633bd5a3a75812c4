//! NUMA memory policies (set_mempolicy(2), mbind(2)): checked and remembered as Linux
//! does. They are wishes: pages come from the node of the CPU that touches them first.

use alloc::vec::Vec;

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
    let (plain, flags) = (mode & !(STATIC | RELATIVE | BALANCING), mode & (STATIC | RELATIVE | BALANCING));
    if plain >= MODES || flags & STATIC != 0 && flags & RELATIVE != 0 || flags & BALANCING != 0 && plain != BIND {
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

/// Policies of pieces of an address space; the rest has the default one.
#[derive(Clone, Debug, Default)]
pub struct Policies(Vec<(u64, u64, Policy)>);

impl Policies {
    /// The policy at `addr`.
    #[must_use]
    pub fn get(&self, addr: u64) -> Policy {
        self.0.iter().find(|(start, end, _)| (*start..*end).contains(&addr)).map_or_else(Policy::default, |p| p.2)
    }

    /// `start..end` has the default policy again: it is another mapping.
    pub fn clear(&mut self, start: u64, end: u64) {
        if self.0.iter().all(|p| p.1 <= start || p.0 >= end) {
            return;
        }
        let old = core::mem::take(&mut self.0);
        for (s, e, policy) in old {
            for (s, e) in [(s, e.min(start)), (s.max(end), e)] {
                if s < e {
                    self.0.push((s, e, policy));
                }
            }
        }
    }

    /// `target..` gets what `start..end` has, and `more` bytes behind what its last page has.
    pub fn copy(&mut self, start: u64, end: u64, target: u64, more: u64) {
        let last = self.get(end - 1);
        let inside = |&(s, e, policy): &(u64, u64, Policy)| {
            let (s, e) = (s.max(start), e.min(end));
            (s < e).then_some((s - start + target, e - start + target, policy))
        };
        let pieces: Vec<_> = self.0.iter().filter_map(inside).collect();
        let target_end = target + (end - start);
        self.clear(target, target_end);
        self.0.extend(pieces);
        self.set(target_end, target_end + more, last);
    }

    /// Sets the policy of `start..end`.
    pub fn set(&mut self, start: u64, end: u64, policy: Policy) {
        self.clear(start, end);
        if policy != Policy::default() && start < end {
            self.0.push((start, end, policy));
        }
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
        let new = |mode, wished| Policy::new(mode, nodes(wished), &two).map(|p| (p.mode, p.nodes[0]));
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

    #[test]
    fn pieces() {
        let bind = |n| Policy { mode: BIND, nodes: nodes(n) };
        let mut all = Policies::default();
        all.set(10, 50, bind(1));
        all.set(20, 30, bind(2));
        assert_eq!([5, 10, 19, 20, 29, 30, 49, 50].map(|a| all.get(a).nodes[0]), [0, 1, 1, 2, 2, 1, 1, 0]);
        all.clear(15, 25);
        assert_eq!([10, 15, 24, 25, 30].map(|a| all.get(a).nodes[0]), [1, 0, 0, 2, 1]);
        all.set(0, 100, Policy::default());
        assert!(all.0.is_empty());
    }
}
