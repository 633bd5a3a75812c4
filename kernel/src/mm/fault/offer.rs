//! Offers: the LWK says what a delegated call is about to touch, before the proxy faults
//! (`docs/coherence.md`, *Offers*).
//!
//! Otherwise the worker faults, the module asks, a CPU of the LWK is interrupted, and the worker
//! waits.

use crate::mm::change::reserve::resume;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::kept_for;
use crate::mm::map::populate::Gained;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_owned, sight};
use crate::mm::window::caller::Caller;
use crate::mm::window::release;
use crate::mm::window::space::Space;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::frame::GivenPage;
use hanare_abi::layout::USER_MIN;
use hanare_abi::offer::OFFER_PAGES;
use hanare_core::coherence::{Change, Sight};
use hanare_core::pagerange::PageRange;
use hanare_core::syscalls::pointers::{POINTERS_MAX, Pointer, Pointers};
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;
use hanare_hal::{pte, shared};

/// Pages remembered for each pointer of calls.
const REMEMBERED: usize = 8;
/// Flag of a remembered page, above all addresses: Linux may write to it.
const WRITTEN: u64 = 1 << 63;

/// Pages that calls of a thread have handed to Linux, so that not every call looks into the page
/// table. A hint: a page that Linux has lost since is asked for.
#[derive(Default)]
pub struct HandedPages {
    /// The space and its [`losses`](Space::losses) when the pages were remembered.
    since: AtomicU64,
    pages: [[AtomicU64; REMEMBERED]; POINTERS_MAX],
}

impl HandedPages {
    /// Forgets all pages if Linux may have lost one, or the thread is in another space.
    fn update(&self, p: &Caller<'_>) {
        let now = u64::from(p.memory.id) << 32 | u64::from(p.memory.losses.load(Ordering::Relaxed));
        if self.since.load(Ordering::Relaxed) != now {
            self.since.store(now, Ordering::Relaxed);
            self.pages.iter().flatten().for_each(|page| page.store(0, Ordering::Relaxed));
        }
    }

    /// Whether the page at `addr` is remembered. If not, it is from now on.
    fn has(&self, addr: u64, pointer: &Pointer) -> bool {
        let page = addr / SMALL;
        let place = &self.pages[pointer.index][page as usize % REMEMBERED];
        let wanted = page | if pointer.writes { WRITTEN } else { 0 };
        let found = place.load(Ordering::Relaxed);
        if found == wanted || found == page | WRITTEN {
            return true;
        }
        place.store(wanted, Ordering::Relaxed);
        false
    }
}

/// Offers the memory that the pointers of a call name, unless calls before have handed it to Linux.
/// The running thread `p` is about to post the call.
#[inline(always)] // most calls with pointers find that they have
pub fn before_call(p: &Caller<'_>, handed: &HandedPages, pointers: Pointers, args: &[u64; 6]) {
    handed.update(p);
    let mut new = [None; POINTERS_MAX];
    let mut are_new = false;
    for pointer in pointers {
        let addr = args[pointer.argument];
        if addr >= USER_MIN && !handed.has(addr, &pointer) {
            new[pointer.index] = Some(pointer);
            are_new = true;
        }
    }
    if are_new {
        offer(p, new, args);
    }
}

/// Offered pages, from the first one on, with holes between them.
struct Run {
    start: u64,
    pages: [GivenPage; OFFER_PAGES],
    count: usize,
}

impl Run {
    /// Where the pages from `page` on lie in the run; `None`: too far from what is there.
    fn place(&mut self, page: u64) -> Option<&mut [GivenPage]> {
        if self.count == 0 {
            self.start = page;
        }
        if page < self.start {
            // Below it: what is there moves up.
            let by = usize::try_from((self.start - page) / SMALL).ok()?;
            if by + self.count > OFFER_PAGES {
                return None;
            }
            self.pages.copy_within(..self.count, by);
            self.pages[..by].fill(GivenPage::NONE);
            (self.start, self.count) = (page, self.count + by);
        }
        self.pages.get_mut(usize::try_from((page - self.start) / SMALL).ok()?..)
    }
}

/// Offers what Linux has not seen of the memory behind these pointers. Where that is not simple,
/// Linux asks for it.
#[cold]
fn offer(p: &Caller<'_>, pointers: [Option<Pointer>; POINTERS_MAX], args: &[u64; 6]) {
    let mut run = Run { start: 0, pages: [GivenPage::NONE; OFFER_PAGES], count: 0 };
    let mut copied = [None; POINTERS_MAX];
    let mut mm = p.memory.mm.lock();
    mm.set_wish(p.policy.wish());
    // What is written first: a page that is read as well is offered as it is after that.
    let of_kind = |writes| pointers.into_iter().flatten().filter(move |p| p.writes == writes);
    for pointer in of_kind(true).chain(of_kind(false)) {
        let (addr, bytes) = (args[pointer.argument], pointer.bytes(args));
        let page = addr & !(SMALL - 1);
        let pages = (addr % SMALL).saturating_add(bytes).div_ceil(SMALL);
        let Some(vma) = mm.mappings().find(page).cloned() else { continue };
        if bytes == 0 || pages > OFFER_PAGES as u64 {
            continue;
        }
        if mm.prepare_offer(p.memory, &vma, page, pointer.writes, &mut copied[pointer.index])
            && let Some(place) = run.place(page)
        {
            let most = place.len().min(pages as usize);
            let count = mm.collect(&vma, page, pointer.writes, &mut place[..most]);
            run.count = run.count.max((page - run.start) as usize / SMALL as usize + count);
        }
    }
    if run.count > 0
        && shared::offer(p.memory.id).publish(p.memory.id, run.start, &run.pages[..run.count])
    {
        mm.set_offered_by(p.memory.id);
        p.memory.end_bounces();
    }
    drop(mm);
    copied.into_iter().flatten().for_each(|old| release::page(p, old));
}

impl AddressSpace {
    /// Makes a page ready to be offered, as its first user: `true`. `false`: Linux has it, or is to
    /// ask for it. The page whose place a copy has taken is put into `copied`, to be given up.
    fn prepare_offer(
        &mut self,
        p: &Space,
        vma: &Vma<FileRef>,
        page: u64,
        writes: bool,
        copied: &mut Option<PhysAddr>,
    ) -> bool {
        let is_own = matches!(vma.backing, Backing::Anonymous | Backing::PrivateFile { .. });
        let is_allowed = if writes { vma.prot.contains(Prot::WRITE) } else { !vma.prot.is_empty() };
        if !is_own || !is_allowed || kept_for(vma).is_some() || self.is_full() {
            return false;
        }
        let Some(leaf) = self.leaf(page) else {
            // Whether Linux writes where soft-dirty bits were cleared, its own fault says.
            let is_watched = writes && vma.flags.contains(VmaFlags::SOFT_CLEAN);
            return vma.backing == Backing::Anonymous
                && !is_watched
                && !self.is_reserved(PageRange::page(page))
                && self.populate_anonymous(vma, page, writes).is_ok();
        };
        let seen = sight(leaf.entry);
        if !leaf.entry.has(pte::PRESENT) || !is_owned(leaf.entry) {
            return false;
        }
        if !writes || leaf.entry.has(pte::WRITE) {
            return seen < if writes { Sight::Write } else { Sight::Read };
        }
        // Shared after a fork: copied where that takes one step. Else Linux' own write has it
        // copied.
        if seen.is_seen() || leaf.entry.has(pte::SOFT_CLEAN) || !self.is_alone() {
            return false;
        }
        let mut change = Change::new(PageRange::page(page));
        match self.make_writable(vma, page, &mut change) {
            Ok(Gained::Copied(old)) => {
                *copied = Some(old);
                true
            }
            Ok(Gained::Done) => true,
            Ok(Gained::Waits { .. }) => {
                // A thread has begun to run on another CPU just now: the page is as it was.
                resume(p, self, &mut change, false);
                self.refresh(page, vma.prot - Prot::WRITE);
                false
            }
            Ok(Gained::Forks) | Err(()) => false,
        }
    }
}
