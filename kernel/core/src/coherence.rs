//! Coherence: what Linux may have of each page, and the one kind of transaction by which the LWK
//! changes a mapping that Linux has seen (`docs/coherence.md`).
//!
//! The proxy maps the frames of its program at the same addresses, so a page has two views: the
//! page table of the LWK and that of Linux. A page's [`Sight`] says what Linux' view may have of
//! it. A [`Change`] plans under the lock of the address space, reserves the pages, gives the lock
//! back, has Linux forget them, and commits under the lock again. The kernel and the exploration
//! (`explore`, for tests) run this code.

#[cfg(test)]
mod explore;

use crate::lists;
use crate::pagerange::PageRange;
use alloc::vec::Vec;

/// Most that Linux may have of a page. The LWK never has less written down than Linux has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sight {
    /// Nothing: Linux was never given the page, or has forgotten it.
    Unseen,
    /// A mapping for reading.
    Read,
    /// A mapping for writing.
    Write,
}

impl Sight {
    /// After Linux was given the page.
    #[must_use]
    pub fn given(self, is_writable: bool) -> Sight {
        self.max(if is_writable && !wrong!(ForgetsThatLinuxWrites) {
            Sight::Write
        } else {
            Sight::Read
        })
    }

    /// Whether Linux has to forget the page before its mapping has these rights only.
    #[must_use]
    pub fn exceeds(self, may_read: bool, may_write: bool) -> bool {
        match self {
            Sight::Unseen => false,
            Sight::Read => !may_read,
            Sight::Write => !may_write,
        }
    }

    /// Whether Linux has to forget the page before another frame is at its address, or its frame
    /// at another address.
    #[must_use]
    pub fn is_seen(self) -> bool {
        self != Sight::Unseen
    }
}

/// Steps that a page of the LWK's needs before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForWrite {
    /// Nothing: no other mapping has its frame.
    Allow,
    /// The page is [hidden](Coherence) and reserved. All CPUs drop their translations of it, and
    /// Linux forgets it if `ask`.
    Prepare {
        /// Linux has to be asked first, since it may have the page.
        ask: bool,
    },
    /// A copy takes the place of the page's frame.
    Copy,
    /// Nothing until the fork under way is over: the frame stays this process', and the child gets
    /// a copy.
    Wait,
}

/// State of a page whose frame others have, too, as far as a write or giving it up has prepared it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// No CPU has a translation of the page.
    pub is_flushed: bool,
    /// Linux has forgotten the page.
    pub is_forgotten: bool,
}

/// Decides what a write to a page that is there needs. `is_shared`: other mappings have its frame.
/// `is_lent`: Linux may hold the frame for writing, see [`Change::may_share`]; then only the child
/// of a fork under way shares it.
#[must_use]
pub fn for_write(sight: Sight, is_shared: bool, is_lent: bool, prepared: Prepared) -> ForWrite {
    let ask = sight.is_seen() && !prepared.is_forgotten && !wrong!(CopiesUnasked);
    if !is_shared {
        ForWrite::Allow
    } else if is_lent && !wrong!(CopiesLent) {
        ForWrite::Wait
    } else if ask || !prepared.is_flushed && !wrong!(CopiesUnflushed) {
        ForWrite::Prepare { ask }
    } else {
        ForWrite::Copy
    }
}

/// Whether a page whose frame others have, too, may be given up: from then on they may write to the
/// frame, or free it. Until then it is hidden.
#[must_use]
pub fn may_give_up(sight: Sight, prepared: Prepared) -> bool {
    let is_flushed = prepared.is_flushed || wrong!(GivesUpUnflushed);
    let is_unseen = prepared.is_forgotten || !sight.is_seen() || wrong!(GivesUpSeen);
    is_flushed && is_unseen
}

/// Reason why addresses without a mapping are kept.
///
/// An unmapping commits before Linux is asked: it cannot be undone, and needs one question less. So
/// from the commit on its addresses are [`Busy`](Kept::Busy), and free when Linux has forgotten
/// what it has there. Where it makes room for another mapping they are [`Replaced`](Kept::Replaced)
/// from the commit on, and until that mapping is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    /// A mapping that a thread is about to make where nothing was mapped.
    Coming,
    /// A mapping that a thread puts in place of another one, or moves: one step for other threads,
    /// so their accesses wait, too.
    Replaced,
    /// A thread asks Linux to forget what was mapped.
    Busy,
    /// The old mapping is gone here, but Linux, which could not be asked, may have it.
    Unforgotten,
}

/// How a thread that unmaps deals with addresses that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmapping {
    /// Takes them without a question to Linux, which only a wrong step does.
    Take,
    /// Waits: a thread that takes them would map where Linux has something else, or is about to
    /// map something, or to take it away.
    Wait,
    /// Takes the addresses, and asks Linux.
    Ask,
}

impl Kept {
    /// Reason to keep the addresses of a mapping to come, where something `was_mapped` or not.
    #[must_use]
    pub fn for_mapping(was_mapped: bool) -> Kept {
        if was_mapped && !wrong!(LeavesHole) { Kept::Replaced } else { Kept::Coming }
    }

    /// How a thread deals with these addresses that unmaps them.
    #[must_use]
    pub fn to_unmap(self) -> Unmapping {
        match self {
            Kept::Coming if wrong!(TakesComing) => Unmapping::Take,
            Kept::Busy | Kept::Replaced if wrong!(TakesBusy) => Unmapping::Take,
            Kept::Coming | Kept::Replaced | Kept::Busy => Unmapping::Wait,
            Kept::Unforgotten => Unmapping::Ask,
        }
    }

    /// Whether a thread that changes what is mapped there has to wait. Where a mapping is to come
    /// nothing is mapped.
    #[must_use]
    pub fn keeps_waiting(self) -> bool {
        matches!(self, Kept::Busy | Kept::Replaced) && !wrong!(TakesBusy)
    }

    /// Whether an access waits, of a thread or of Linux. Elsewhere it finds that nothing is mapped.
    #[must_use]
    pub fn holds_accesses(self) -> bool {
        self == Kept::Replaced && !wrong!(SeesHole)
    }

    /// Reason to keep the addresses of an unmapping after Linux was asked; `None`: they are free.
    #[must_use]
    pub fn after_asking(is_forgotten: bool) -> Option<Kept> {
        (!is_forgotten && !wrong!(FreesUnforgotten)).then_some(Kept::Unforgotten)
    }
}

/// Whether a thread has to wait before it keeps addresses of which `there` is kept already, for a
/// call that is to change others later, of which `beside` is.
///
/// The thread keeps all of its addresses at once, and waits for none of the others while it holds
/// nothing. So threads never wait for each other in a circle: of these the last one that has kept
/// addresses had found what it waits for kept already.
#[must_use]
pub fn must_wait_to_keep(
    there: impl Iterator<Item = Kept>,
    mut beside: impl Iterator<Item = Kept>,
) -> bool {
    let waits = |kept: Kept| kept.to_unmap() == Unmapping::Wait;
    { there }.any(waits) || beside.any(waits) && !wrong!(KeepsWhileOthersMove)
}

/// There is no memory to reserve a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A range that a change has reserved: Linux is not given its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reserved {
    number: u32,
    range: PageRange,
    /// Since then CPUs may have got translations that they have not dropped: a page of it was
    /// visible again, or there was a fork.
    is_disturbed: bool,
    /// Addresses of the reservation to which pages have come from elsewhere since then.
    arrived: Arrived,
}

/// Addresses where pages have arrived: up to four ranges, and more than that where there were more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Arrived([PageRange; 4]);

impl Arrived {
    const NOWHERE: Arrived = Arrived([PageRange::NONE; 4]);

    /// Takes a range in, into the one to which it is nearest where there are too many.
    fn add(&mut self, new: PageRange) {
        let joined = |old: PageRange| if old.is_empty() { new } else { old.join(new) };
        // A free place rather than addresses where nothing has arrived.
        let gap = |old: &PageRange| match *old {
            PageRange::NONE => 0,
            old => joined(old).len().saturating_sub(old.len() + new.len()),
        };
        if let Some(best) = self.0.iter_mut().min_by_key(|old| gap(old)) {
            *best = joined(*best);
        }
    }

    fn meets(&self, range: PageRange) -> bool {
        self.0.iter().any(|r| r.meets(range))
    }
}

/// Changes under way in an address space, whose lock guards this.
///
/// A page is *hidden* while its entry keeps the frame and is not present: no CPU gets a
/// translation of it.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Coherence {
    reserved: Vec<Reserved>,
    next: u32,
    /// Forks that have made pages read-only, which other CPUs may not know yet.
    unflushed_forks: u32,
}

impl Coherence {
    /// Nothing under way.
    #[must_use]
    pub const fn new() -> Coherence {
        Coherence { reserved: Vec::new(), next: 0, unflushed_forks: 0 }
    }

    /// Whether Linux may not be given any of these pages now: it is to ask again.
    #[must_use]
    pub fn is_reserved(&self, range: PageRange) -> bool {
        self.reserved.iter().any(|r| r.range.meets(range)) && !wrong!(GivesReserved)
    }

    /// Pages of a range, which CPUs may have translations of, are hidden.
    pub fn disturb(&mut self, range: PageRange) {
        for r in &mut self.reserved {
            r.is_disturbed |= r.range.meets(range) && !wrong!(TrustsDisturbed);
        }
    }

    /// Pages have arrived from other addresses, where CPUs may have translations of them, and where
    /// Linux may have been given them while the range itself was reserved.
    pub fn arrive(&mut self, range: PageRange) {
        self.disturb(range);
        self.reserved.iter_mut().for_each(|r| r.arrived.add(range));
    }

    /// A fork has made pages read-only; CPUs drop their translations once the lock is given back.
    /// A thread that has prepared a copy did not have them drop all.
    pub fn begin_fork(&mut self) {
        self.unflushed_forks += 1;
        self.disturb(PageRange::ALL);
    }

    /// All CPUs know that the pages are read-only: the fork is over.
    pub fn end_fork(&mut self) {
        self.unflushed_forks -= 1;
    }

    /// Addresses that CPUs drop before a page that is hidden at `range` is copied.
    /// Another copy must not be
    /// written while a CPU can still write to what a fork has just shared.
    #[must_use]
    pub fn to_flush(&self, range: PageRange, all: PageRange) -> PageRange {
        let is_flushed = self.unflushed_forks == 0 || wrong!(CopiesBeforeForkIsFlushed);
        if is_flushed { range } else { all }
    }

    fn reserve(&mut self, range: PageRange) -> Result<u32, NoMemory> {
        let number = self.next;
        let reserved = Reserved { number, range, is_disturbed: false, arrived: Arrived::NOWHERE };
        lists::push(&mut self.reserved, reserved).map_err(|_| NoMemory)?;
        self.next = number.wrapping_add(1);
        Ok(number)
    }

    fn release(&mut self, number: u32) -> Option<Reserved> {
        let at = self.reserved.iter().position(|r| r.number == number)?;
        let reserved = self.reserved.swap_remove(at);
        if self.reserved.is_empty() {
            // So that numbers stay small, and the list's memory is free.
            (self.reserved, self.next) = (Vec::new(), 0);
        }
        Some(reserved)
    }
}

/// A change of a range's mapping: what it has reserved, and what Linux has forgotten for it.
///
/// 1. *Plan*, under the lock: which pages does Linux have to forget? None: commit.
/// 2. *Reserve* them ([`Change::reserve`]): Linux is not given them again.
/// 3. *Unlock*; CPUs drop their translations; *ask Linux* to forget the pages.
/// 4. *Check*, under the lock ([`Change::resume`]): plan once more, for other threads have changed
///    what they liked; what the plan then finds to be forgotten it need not ask for.
/// 5. *Commit*, or *undo* where Linux could not be asked: the plan has changed nothing yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    whole: PageRange,
    reserved: Option<(u32, PageRange)>,
    forgotten: Option<PageRange>,
    flushed: Option<PageRange>,
    /// Where pages have arrived from other addresses while Linux was asked.
    arrived: Arrived,
    has_asked: bool,
}

impl Change {
    /// A change that has reserved nothing yet. `whole`: the whole range that it may need.
    #[must_use]
    pub const fn new(whole: PageRange) -> Change {
        let arrived = Arrived::NOWHERE;
        Change { whole, reserved: None, forgotten: None, flushed: None, arrived, has_asked: false }
    }

    /// A change of a range that Linux has just forgotten by itself.
    #[must_use]
    pub const fn of_forgotten(whole: PageRange) -> Change {
        Change { forgotten: Some(whole), ..Change::new(whole) }
    }

    /// Reserves what Linux has to forget; what it is to be asked for. The second time that is the
    /// whole range, so that there is no third one.
    ///
    /// # Errors
    /// There was no memory. Nothing is reserved.
    pub fn reserve(&mut self, c: &mut Coherence, needed: PageRange) -> Result<PageRange, NoMemory> {
        debug_assert!(self.reserved.is_none());
        let range = if self.has_asked { self.whole } else { needed };
        self.reserved = Some((c.reserve(range)?, range));
        (self.has_asked, self.forgotten, self.flushed) = (true, None, None);
        Ok(range)
    }

    /// At the beginning of each plan: gives up what was reserved. `is_forgotten`: Linux has
    /// forgotten the range since. Both counts until the lock is given back.
    pub fn resume(&mut self, c: &mut Coherence, is_forgotten: bool) {
        (self.forgotten, self.flushed) = (None, None);
        let Some((number, range)) = self.reserved.take() else { return };
        let reserved = c.release(number);
        self.flushed = reserved.filter(|r| !r.is_disturbed).map(|r| r.range);
        self.arrived = reserved.map_or(Arrived::NOWHERE, |r| r.arrived);
        self.forgotten = (is_forgotten || wrong!(TrustsFailure)).then_some(range);
    }

    /// Whether the change waits for Linux, or for CPUs.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.reserved.is_some()
    }

    /// Whether Linux has nothing of these pages. Good until the lock is given back.
    #[must_use]
    pub fn has_forgotten(&self, range: PageRange) -> bool {
        is_in(self.forgotten, range)
    }

    /// Preparation of the page `range`, which is hidden, or not if `is_present`.
    #[must_use]
    pub fn prepared(&self, range: PageRange, is_present: bool) -> Prepared {
        Prepared {
            is_flushed: is_in(self.flushed, range) && !is_present,
            is_forgotten: self.has_forgotten(range),
        }
    }

    /// Whether a child may share the frame of a page until one of the two writes; else it gets a
    /// copy.
    ///
    /// A page is *lent* from when Linux was given it for writing. Linux may have pinned the frame
    /// since (`process_vm_writev`, `O_DIRECT`), and writes to it then though it has forgotten the
    /// page, by whichever change. So a lent page is shared only where Linux has forgotten it for
    /// this fork, and after that did not hold the frame: `is_let_go`. The frame of a page that has
    /// come from elsewhere meanwhile may have been lent there after that.
    #[must_use]
    pub fn may_share(&self, range: PageRange, is_lent: bool, is_let_go: bool) -> bool {
        let has_stayed = !self.arrived.meets(range) || wrong!(TrustsMoved);
        !is_lent || self.has_forgotten(range) && (is_let_go && has_stayed || wrong!(SharesHeld))
    }

    /// Sight of a page at the moment of the commit.
    #[must_use]
    pub fn sight(&self, range: PageRange, sight: Sight) -> Sight {
        if self.has_forgotten(range) { Sight::Unseen } else { sight }
    }
}

fn is_in(outer: Option<PageRange>, range: PageRange) -> bool {
    outer.is_some_and(|o| o.start() <= range.start() && range.end() <= o.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PAGE_SIZE;

    #[test]
    fn where_pages_arrive_the_rest_stays() {
        let pages = |(start, end): (u64, u64)| PageRange::of(start * PAGE_SIZE, end * PAGE_SIZE);
        let mut arrived = Arrived::NOWHERE;
        assert!(!arrived.meets(PageRange::ALL));
        for start in [10, 20, 30, 40] {
            arrived.add(pages((start, start + 2)));
        }
        arrived.add(pages((21, 23)));
        for (range, meets) in
            [((12, 20), false), ((11, 12), true), ((22, 23), true), ((23, 30), false)]
        {
            assert_eq!(arrived.meets(pages(range)), meets, "{range:?}");
        }
        arrived.add(pages((44, 45))); // one too many: what is between it and the nearest one counts
        for (range, meets) in [((32, 40), false), ((42, 44), true), ((45, 90), false)] {
            assert_eq!(arrived.meets(pages(range)), meets, "{range:?}");
        }
    }
}
