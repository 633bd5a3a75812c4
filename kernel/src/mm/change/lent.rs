//! Lent pages: Linux was given them for writing, and may hold their frames also when it has
//! forgotten the pages (`docs/coherence.md`, *Pinned pages*). Before a child shares them Linux is
//! asked which it holds.

use crate::base::chain::{RUN_PAGES, Run};
use crate::base::{heap, lists};
use crate::mm::map::address_space::AddressSpace;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::pages_of;
use crate::mm::pages::quarantine::Batch;
use crate::mm::window::caller::Caller;
use crate::mm::window::release::{ask, zap_asking};
use alloc::vec::Vec;
use hanare_abi::service::SERVICE_HELD;
use hanare_core::coherence::Change;
use hanare_core::errno::Result;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::Vma;
use hanare_hal::paging::{Leaf, SMALL};
use hanare_hal::pte;

/// The lent pages of a fork: which it has to ask Linux about, and what Linux has said.
#[derive(Default)]
pub(super) struct Lent {
    /// Frames to be asked about.
    to_ask: Vec<Run>,
    /// Frames that Linux did not hold after it had forgotten the pages, in order.
    let_go: Vec<Run>,
    has_asked: bool,
}

impl Lent {
    /// Gathers anew what is to be asked about.
    pub(super) fn gather(&mut self) {
        self.to_ask.clear();
    }

    /// Gathers a page. `ENOMEM`.
    pub(in crate::mm) fn add(&mut self, leaf: &Leaf) -> Result<()> {
        let (frame, pages) = (leaf.frame(), (leaf.size / SMALL) as u32);
        if let Some(last) = self.to_ask.last_mut().filter(|run| run.pages + pages <= RUN_PAGES) {
            // Pages that are brought in one after the other have frames in either order.
            let is_before = frame + leaf.size == last.frame;
            if is_before || last.frame + u64::from(last.pages) * SMALL == frame {
                last.frame = last.frame.min(frame);
                last.pages += pages;
                return Ok(());
            }
        }
        heap::more_room(&mut self.to_ask, 1)?;
        lists::push_within(&mut self.to_ask, Run { pages, ..Run::of(frame, false) });
        Ok(())
    }

    /// Has Linux forget a range, and then asks it which of the gathered frames it holds all the
    /// same. False: it has not forgotten the pages, or has not said which it holds, or there was no
    /// memory to remember that. May wait.
    ///
    /// Until the change that has reserved the range is over Linux is given none of it, and so can
    /// take hold of no more.
    pub(super) fn ask(&mut self, p: &Caller<'_>, range: PageRange) -> bool {
        let mut to_ask = core::mem::take(&mut self.to_ask);
        (self.let_go, self.has_asked) = (Vec::new(), true);
        if p.memory.is_closed() {
            self.let_go = to_ask; // there is no Linux side any more
        } else {
            let mut batch = Batch::take_last(&mut to_ask);
            let Some(mut answer) = zap_asking(p, range, batch.extents()) else { return false };
            loop {
                // A child would get copies of what counts as held for want of memory, or of an
                // answer.
                if self.sort(&batch, answer.held, &mut to_ask).is_err() {
                    return false;
                }
                if to_ask.is_empty() {
                    break;
                }
                batch = Batch::take_last(&mut to_ask);
                let next = ask(p, SERVICE_HELD, &[0, 0, 0], batch.extents());
                let Some(next) = next else { return false };
                answer = next;
            }
        }
        self.let_go.sort_unstable_by_key(|run| run.frame);
        true
    }

    /// Sorts runs by what Linux has said of them: it has let go of a run, or is to be asked about
    /// its parts. `ENOMEM`.
    fn sort(&mut self, batch: &Batch, held: u64, to_ask: &mut Vec<Run>) -> Result<()> {
        for (i, run) in batch.runs().iter().enumerate() {
            if held & 1 << i == 0 {
                heap::more_room(&mut self.let_go, 1)?;
                lists::push_within(&mut self.let_go, *run);
            } else if run.pages > 1 {
                heap::more_room(to_ask, 8)?;
                run.parts().for_each(|part| lists::push_within(to_ask, part));
            }
        }
        Ok(())
    }

    /// Whether Linux was asked about any.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// Whether Linux did not hold the page, or any of a large one, when it was asked.
    fn is_let_go(&self, leaf: &Leaf) -> bool {
        let behind = self.let_go.partition_point(|run| run.frame <= leaf.frame());
        let run = behind.checked_sub(1).and_then(|at| self.let_go.get(at));
        run.is_some_and(|run| leaf.frame() + leaf.size <= run.frame + u64::from(run.pages) * SMALL)
    }

    /// Whether the child may share the page of a leaf: [`Change::may_share`].
    pub(super) fn may_share(&self, change: &Change, leaf: &Leaf) -> bool {
        let is_lent = leaf.entry.has(pte::LENT);
        let is_let_go = is_lent && self.is_let_go(leaf);
        change.may_share(pages_of(leaf), is_lent, is_let_go)
    }
}

impl AddressSpace {
    /// Splits large pages of which Linux may hold a part, of mappings that a child `has`: it gets
    /// copies of what Linux holds, and shares the rest. `ENOMEM`.
    pub(super) fn split_held(
        &mut self,
        change: &Change,
        lent: &Lent,
        has: impl Fn(&Vma<FileRef>) -> bool,
    ) -> Result<()> {
        self.split_where(has, |leaf| !lent.may_share(change, leaf))
    }
}
