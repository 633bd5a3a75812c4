//! The NUMA policy of a thread, and on which nodes pages lie.

use super::space::Space;
use crate::base::frames;
use crate::base::lock::{Mutex, rank};
use crate::mm::map::address_space::AddressSpace;
use crate::mm::pages::entry::is_owned;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_abi::layout::USER_MIN;
use hanare_core::mempolicy::Policy;
use hanare_core::nodes::Nodes;
use hanare_core::pagerange::PageRange;
use hanare_hal::paging::Leaf;

/// How much of a page table is walked before others may have the lock, bytes.
const PIECE: u64 = 256 << 20;

/// The policy of a thread (`set_mempolicy`). Most have the default one, which costs no lock.
#[derive(Default)]
pub struct ThreadPolicy {
    is_set: AtomicBool,
    policy: Mutex<Policy, rank::MemoryPolicy>,
}

impl ThreadPolicy {
    /// The policy, be it the default one.
    pub fn get(&self) -> Policy {
        self.wish().unwrap_or_default()
    }

    /// The policy, if it is not the default one.
    pub fn wish(&self) -> Option<Policy> {
        self.is_set.load(Ordering::Relaxed).then(|| *self.policy.lock())
    }

    /// Sets the policy, for a thread of `p`.
    pub fn set(&self, policy: Policy, p: &Space) {
        let is_set = policy != Policy::default();
        *self.policy.lock() = policy;
        self.is_set.store(is_set, Ordering::Relaxed);
        if is_set && frames::nodes().count() > 1 {
            p.has_policies.store(true, Ordering::Relaxed);
        }
    }
}

/// The node of a page, if it is of the instance's memory.
pub fn node_of(leaf: &Leaf) -> Option<u32> {
    frames::node_of(leaf.frame())
}

impl Space {
    /// Pages of 4 KiB of its own that lie on some nodes.
    pub fn pages_on(&self, nodes: &Nodes) -> u64 {
        let (mut pages, mut from) = (0, USER_MIN);
        loop {
            let mut mm = self.mm.lock();
            let Some(vma) = mm.mappings().find_next(from) else { return pages };
            let start = vma.start.max(from);
            from = vma.end.min(start + PIECE);
            pages += mm.pages_on(nodes, PageRange::of(start, from));
        }
    }
}

impl AddressSpace {
    /// Pages of 4 KiB of its own in a range that lie on some nodes.
    pub fn pages_on(&mut self, nodes: &Nodes, range: PageRange) -> u64 {
        let mut pages = 0;
        self.pages().each_within(range, |leaf, n| {
            if is_owned(leaf.entry) && node_of(leaf).is_some_and(|node| nodes.contains(node)) {
                pages += n;
            }
        });
        pages
    }
}
