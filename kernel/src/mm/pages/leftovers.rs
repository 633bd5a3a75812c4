//! Leftovers of an unmapping.

use super::content::FileRef;
use super::quarantine::{self, Passing};
use crate::base::chain::Chain;
use crate::base::quarantine::Giver;
use alloc::collections::LinkedList;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::Vma;

/// The frames and mappings that an unmapping has removed, to be finished without the lock.
#[derive(Default)]
pub struct Removed {
    /// Frames that Linux has seen, and may hold.
    pub(in crate::mm) seen: Chain,
    /// The charge for these frames.
    pub(in crate::mm) passing: Passing,
    /// Addresses where Linux has the frames mapped.
    pub(in crate::mm) range: Option<PageRange>,
    /// Pages are hidden only: [`finish`](Self::finish) first, then they may be given up.
    pub(in crate::mm) is_hidden: bool,
    /// The mappings that went.
    pub vmas: LinkedList<Vma<FileRef>>,
}

impl Removed {
    /// Whether something is to be done before the range can be used again.
    pub fn needs_finish(&self) -> bool {
        self.is_hidden || self.range.is_some() || !self.seen.is_empty()
    }

    /// Linux has forgotten the pages: it may only hold frames.
    pub fn set_forgotten(&mut self) {
        self.range = None;
    }

    /// For memory that Linux never mapped in this space: last pages that it saw
    /// elsewhere wait in quarantine.
    pub fn set_aside(mut self, giver: Giver<'_>) {
        self.passing.set(0);
        while let Some(run) = self.seen.pop() {
            quarantine::set_aside(run, giver);
        }
    }
}
