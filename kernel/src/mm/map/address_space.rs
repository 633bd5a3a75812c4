//! An address space: the VMA map and the page table, kept in step.

use crate::base::accounts::{Account, Sizes};
use crate::base::chain::{Chain, Run};
use crate::base::frames::{self, Known};
use crate::base::heap;
use crate::base::tables::{Tables, UserTables};
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{counted, is_owned, pages_of, sight};
use crate::mm::pages::leftovers::Removed;
use crate::mm::pages::tlb_stale::{Stale, StaleTables};
use crate::sched::tlb;
use alloc::sync::Arc;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::coherence::{Change, Coherence, Sight, may_give_up};
use hanare_core::errno::{self, Result};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_core::mempolicy::{Policies, Policy};
use hanare_core::nodes::Placement;
use hanare_core::pagerange::PageRange;
use hanare_core::rangeset::RangeSet;
use hanare_core::rss::{Counted, Rss, RssDelta};
use hanare_core::transfers::Transfers;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags, VmaMap};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::{LARGE, Leaf, PageTable, SMALL};
use hanare_hal::percpu;
use hanare_hal::pte::{self, Entry};

/// Large pages that are split for each look at the table.
const AT_ONCE: usize = 64;
/// Block order of a large page.
const LARGE_ORDER: u32 = (LARGE / SMALL).ilog2();

/// The heap of a program.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Heap {
    /// The lowest address.
    pub start: u64,
    /// The current end (`brk`).
    pub end: u64,
}

/// One address space.
pub struct AddressSpace {
    /// The mappings.
    pub(super) vmas: VmaMap<FileRef>,
    /// The hardware's view.
    pub(super) table: PageTable,
    /// The supply of pages for that page table.
    pub(super) tables: UserTables,
    pub(super) heap: Heap,
    pub(super) mmap_base: u64,
    /// Pages mapped now and at most: exactly those that the table has, see
    /// [`check_resident`](Self::check_resident).
    pub(super) rss: Rss,
    /// CPUs that have the table loaded.
    pub(super) active: Arc<tlb::CpuSet>,
    /// Translations that other CPUs have to forget, and the frames and tables that are free then.
    pub(super) stale: Stale,
    /// Changes under way.
    pub(super) coherence: Coherence,
    /// Flags of new mappings (`mlockall(MCL_FUTURE)`).
    pub(super) lock_future: VmaFlags,
    /// NUMA policies (`mbind`).
    pub(super) policies: Policies,
    /// Where Linux pins pages (`change/pinnable.rs`), and perhaps some more.
    pub(in crate::mm) pinnable: RangeSet,
    /// Transfers by devices: their pages stay where they are.
    pub(in crate::mm) transfers: Transfers,
    /// The policy of the thread for which pages are made, of the rest of the space. It goes when
    /// the lock is given back.
    pub(super) wish: Option<Policy>,
    /// The space whose pages are offered to Linux now (`offer.rs`), or 0.
    pub(super) offered_by: u32,
    /// How many pages are lent to Linux (`lent.rs`), at most.
    pub(super) written_by_linux: u64,
    /// The account that is charged for the address space.
    pub(super) account: Option<Arc<Account>>,
    charged: Sizes,
}

impl AddressSpace {
    /// Nothing mapped. `None`: no memory.
    pub fn new(account: Arc<Account>) -> Option<AddressSpace> {
        heap::room_for_arc::<tlb::CpuSet>().ok()?;
        let owner = account.owner(Subject::Tables);
        let table = PageTable::new(&mut Tables(owner)).ok()?;
        let mut new = Self::nothing();
        (new.table, new.tables, new.account) = (table, UserTables(owner), Some(account));
        new.mmap_base = USER_MAX - (64 << 30);
        Some(new)
    }

    /// A placeholder that maps nothing and must not be used.
    pub fn nothing() -> AddressSpace {
        AddressSpace {
            vmas: VmaMap::new(USER_MIN, USER_MAX),
            table: PageTable::empty(),
            tables: UserTables(FrameOwner::NOBODY),
            heap: Heap::default(),
            mmap_base: 0,
            rss: Rss::default(),
            active: Arc::default(),
            stale: Stale::default(),
            coherence: Coherence::new(),
            lock_future: VmaFlags::empty(),
            policies: Policies::default(),
            pinnable: RangeSet::new(),
            transfers: Transfers::new(),
            wish: None,
            offered_by: 0,
            written_by_linux: 0,
            account: None,
            charged: Sizes::default(),
        }
    }

    /// Denies execution from now on, see [`VmaMap::deny_write_exec`].
    pub fn deny_write_exec(&mut self) {
        self.vmas.deny_write_exec();
    }

    /// Sets a large leaf; false if something is in its way or there is no memory.
    pub(in crate::mm) fn map_large(&mut self, addr: u64, entry: Entry) -> bool {
        let mapped =
            self.table.map_large(addr, entry, &mut StaleTables(&mut self.stale, self.tables))
                == Ok(true);
        if self.stale.has_tables() {
            self.flush(PageRange::of(addr, addr + SMALL)); // other CPUs may have cached the way to a table that is gone
        }
        mapped
    }

    /// Charges what it has now. At the end of each change: when its lock is given back.
    pub fn settle_account(&mut self) {
        let memory = self.rss.own() * SMALL;
        let now = Sizes { memory, kernel: self.table.pages() * SMALL + self.map_bytes() };
        if now != self.charged
            && let Some(account) = &self.account
        {
            account.move_space(self.charged, now);
            self.charged = now;
        }
    }

    /// Charges the space to another account from now on.
    pub fn charge_to(&mut self, account: Arc<Account>) {
        self.settle_account();
        self.tables = UserTables(account.owner(Subject::Tables));
        if let Some(before) = self.account.replace(account) {
            before.move_space(self.charged, Sizes::default());
        }
        self.charged = Sizes::default();
        self.settle_account();
    }

    /// Where a block of `1 << order` pages for `addr` is to come from.
    pub(super) fn placement(&self, addr: u64, order: u32) -> Placement {
        match self.policies.find(addr).or(self.wish.as_ref()) {
            None => Placement::NEAR,
            Some(policy) => {
                let page = addr / (SMALL << order);
                Placement { breaks_up: true, ..policy.placement(frames::nodes(), page) }
            }
        }
    }

    /// A page of its own for `addr`, charged to its control group.
    pub(in crate::mm) fn alloc(&self, addr: u64) -> Option<PhysAddr> {
        self.account.as_ref()?.alloc(0, &self.placement(addr, 0), true)
    }

    /// A large page of its own for `addr`; `is_needed`: no small ones will do.
    pub(super) fn alloc_large(&self, addr: u64, is_needed: bool) -> Option<PhysAddr> {
        let mut place = self.placement(addr, LARGE_ORDER);
        place.breaks_up &= !is_needed;
        self.account.as_ref()?.alloc(LARGE_ORDER, &place, true)
    }

    /// Up to `pages` pages for what is behind `addr`, freed one by one: how many, in a block of
    /// 2^n. `is_own`: charged to its control group.
    pub(super) fn alloc_run(&self, addr: u64, pages: u32, is_own: bool) -> Option<(PhysAddr, u32)> {
        let takes_turns =
            self.policies.find(addr).or(self.wish.as_ref()).is_some_and(Policy::takes_turns);
        let most = if takes_turns { 0 } else { pages.ilog2() };
        let account = self.account.as_ref()?;
        (0..=most).rev().find_map(|order| {
            let frame = account.alloc(order, &self.placement(addr, 0), is_own)?;
            frames::split(frame, order);
            Some((frame, 1 << order))
        })
    }

    /// Charges a page of a file to its control group: it may be written from now on, and what of
    /// it can be had again is no more what it is. False: that is beyond the limit.
    pub(super) fn take(&self, paddr: PhysAddr) -> bool {
        self.account.as_ref().is_none_or(|account| account.take(paddr))
    }

    /// Whether the space's user may have no more pages.
    pub fn is_full(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.is_full())
    }

    /// Whether the space's user may have more mappings.
    pub fn may_have_mappings(&self) -> bool {
        self.account.as_ref().is_none_or(|account| account.may_have(SMALL).is_ok())
    }

    /// Counts pages that were mapped.
    pub(in crate::mm) fn count_mapped(&mut self, pages: u64, kind: Counted) {
        self.rss.apply(RssDelta::of(pages, kind));
    }

    /// Whether the counts are what the table has: in debug builds, where a space ends or is copied.
    pub(in crate::mm) fn check_resident(&mut self) {
        if cfg!(debug_assertions) {
            let mut delta = RssDelta::default();
            self.table.update(self.vmas.whole().addresses(), &mut |leaf| {
                delta.replace(leaf.size / SMALL, Counted::Not, counted(leaf.entry));
                leaf.entry
            });
            let mut there = Rss::default();
            there.apply(delta);
            let counts = |rss: Rss| (rss.own(), rss.foreign());
            assert_eq!(counts(self.rss), counts(there), "own and foreign pages");
        }
    }

    /// Whether something of it is memory that other processes may have, too: files and shared
    /// memory of Linux'.
    pub fn shares_with_linux(&self) -> bool {
        self.vmas.iter().any(|v| matches!(v.backing, Backing::SharedLinux { .. }))
    }

    /// Bytes of kernel memory for the maps of mappings and policies, about.
    pub fn map_bytes(&self) -> u64 {
        const ENTRY: usize = 2 * size_of::<Vma<FileRef>>(); // nodes of trees are half full at worst
        const PIECE: usize = 2 * size_of::<(u64, u64, Policy)>();
        (self.vmas.count() * ENTRY + self.policies.count() * PIECE) as u64
    }

    /// Removes the pages of a range, whose edges are split, from the table (not from the map). A
    /// page that other spaces have, too, is only hidden ([`Removed::is_hidden`]) while CPUs, or
    /// Linux, may have a translation of it: `change` knows. `is_flushed`: CPUs have none.
    pub fn unmap_pages(
        &mut self,
        range: PageRange,
        change: &Change,
        is_flushed: bool,
        removed: &mut Removed,
    ) {
        if let Some(gone) = self.take_pages(range, change, is_flushed, removed) {
            self.flush(gone);
        }
        // A CPU that loads the table from now on gets no translation of a hidden page.
        if removed.is_hidden && !is_flushed && self.is_alone() {
            removed.is_hidden = false;
            self.take_pages(range, change, true, removed);
        }
    }

    /// Like [`unmap_pages`](Self::unmap_pages), without the TLB flush; returns the range in which
    /// pages were mapped.
    pub(in crate::mm) fn take_pages(
        &mut self,
        range: PageRange,
        change: &Change,
        is_flushed: bool,
        removed: &mut Removed,
    ) -> Option<PageRange> {
        let (mut delta, mut gone) = (RssDelta::default(), None);
        let mut gathered = Gathered::default();
        let (free, seen) = (&mut self.stale.blocks, &mut removed.seen);
        let hides_none = is_flushed && change.has_forgotten(range);
        self.table.update(range.addresses(), &mut |leaf| {
            let is_told = leaf.entry.has(pte::SEEN);
            let first = gone.map_or(leaf.addr, PageRange::start);
            gone = Some(PageRange::of(first, leaf.addr + leaf.size));
            if is_told {
                removed.range = Some(tlb::join(removed.range, pages_of(&leaf)));
            }
            if !hides_none && is_to_hide(&leaf, change, is_flushed) {
                removed.is_hidden = true;
                return leaf.entry & !pte::PRESENT;
            }
            delta.replace(leaf.size / SMALL, counted(leaf.entry), Counted::Not);
            if !is_owned(leaf.entry) {
                return Entry::NONE;
            }
            if !gathered.adds(&leaf, is_told) {
                let before = core::mem::replace(&mut gathered, Gathered::of(&leaf, is_told));
                before.give_up(free, seen);
            }
            Entry::NONE
        });
        gathered.give_up(free, seen);
        self.rss.apply(delta);
        // Not charged twice until the lock is given back: others of the user would find no room.
        self.settle_account();
        removed.passing.begin(self.account.as_ref(), removed.seen.pages());
        gone
    }

    /// Hides the pages of a range that other spaces have, too, for a change that is to give them
    /// up. Returns whether that has to wait: other CPUs drop them when the lock is given back.
    pub fn hide_shared(&mut self, range: PageRange, change: &Change) -> bool {
        let mut hidden = None;
        self.table.update(range.addresses(), &mut |leaf| {
            if !is_to_hide(&leaf, change, false) {
                return leaf.entry;
            }
            hidden = Some(tlb::join(hidden, pages_of(&leaf)));
            leaf.entry & !pte::PRESENT
        });
        let Some(hidden) = hidden else { return false };
        self.coherence.disturb(hidden);
        self.flush(hidden);
        !self.is_alone()
    }

    /// Whether no other CPU has a translation of what was hidden.
    pub(in crate::mm) fn is_alone(&self) -> bool {
        self.active.after_change().others(percpu::index()).next().is_none()
    }

    /// Splits large pages that `start` or `end` cut.
    pub fn split_edges(&mut self, range: PageRange) -> Result<()> {
        for edge in [range.start(), range.end()] {
            let cut = self.table.find(edge).filter(|l| l.size == LARGE && l.addr != edge);
            if let Some(leaf) = cut {
                self.table
                    .split(leaf.addr, &mut Tables(self.tables.0))
                    .map_err(|_| errno::ENOMEM)?;
                frames::split_large(leaf.frame());
            }
        }
        Ok(())
    }

    /// The leaf of a page, a small one from now on.
    pub(in crate::mm) fn find_small(&mut self, page: u64) -> Result<Option<Leaf>> {
        self.split_edges(PageRange::of(page, page + SMALL))?;
        Ok(self.table.find(page))
    }

    /// Splits the large pages that are `meant`, of mappings that are `wanted`.
    pub(in crate::mm) fn split_where(
        &mut self,
        wanted: impl Fn(&Vma<FileRef>) -> bool,
        meant: impl Fn(&Leaf) -> bool,
    ) -> Result<()> {
        let Self { vmas, table, tables, .. } = self;
        let mut of_these = vmas.iter().filter(|v| wanted(v));
        of_these.try_for_each(|v| split_all(table, Tables(tables.0), v.range(), &meant))
    }

    /// Splits all large pages of a range.
    pub(super) fn split_all(&mut self, range: PageRange) -> Result<()> {
        split_all(&mut self.table, Tables(self.tables.0), range, |_| true)
    }

    /// Where Linux has something of a range that `exceeds` says it has to forget for a change.
    /// Large pages at the edges are to be split before.
    pub fn must_forget(
        &mut self,
        range: PageRange,
        change: &Change,
        exceeds: impl Fn(&Leaf, Sight) -> bool,
    ) -> Option<PageRange> {
        let mut needed = None;
        self.table.update(range.addresses(), &mut |leaf| {
            if exceeds(&leaf, change.sight(pages_of(&leaf), sight(leaf.entry))) {
                needed = Some(tlb::join(needed, pages_of(&leaf)));
            }
            leaf.entry
        });
        needed
    }

    /// Drops stale translations of a range: from this CPU now, from the others when
    /// the lock is given back.
    pub fn flush(&mut self, range: PageRange) {
        self.stale.add(range);
        if self.table.is_active() {
            tlb::flush_here(range);
        }
    }

    fn clear(&mut self) {
        let mut removed = Removed::default();
        self.check_resident();
        drop((self.vmas.take(), core::mem::take(&mut self.policies)));
        let all = self.vmas.whole();
        self.unmap_pages(all, &Change::of_forgotten(all), true, &mut removed);
        removed.set_aside(self.account.as_ref());
        let stale = core::mem::take(&mut self.stale);
        stale.post(&self.active);
        stale.settle(&self.active);
        core::mem::replace(&mut self.table, PageTable::empty()).free(&mut Tables::kernel());
        self.settle_account();
    }
}

/// Frees a space that no process ever used; of others the page table has been taken before.
impl Drop for AddressSpace {
    fn drop(&mut self) {
        if self.table.exists() {
            self.clear();
        }
    }
}

/// Pages one behind the other, or a large one, of which mappings go.
#[derive(Default)]
struct Gathered {
    frame: PhysAddr,
    /// Address behind the last one.
    end: u64,
    /// Number of pages; a large page counts as one.
    pages: u32,
    is_large: bool,
    /// Linux may have been told of these mappings.
    is_told: bool,
}

impl Gathered {
    /// Most pages for one look at the marks of frames.
    const MOST: u32 = 512;

    fn of(leaf: &Leaf, is_told: bool) -> Gathered {
        let (frame, is_large) = (leaf.frame(), leaf.size == LARGE);
        Gathered { frame, end: frame.0 + leaf.size, pages: 1, is_large, is_told }
    }

    /// Takes a page in, if it is the next one.
    fn adds(&mut self, leaf: &Leaf, is_told: bool) -> bool {
        let is_alike = leaf.size == SMALL && !self.is_large && self.is_told == is_told;
        let adds = leaf.frame().0 == self.end && is_alike && self.pages < Self::MOST;
        if adds {
            self.pages += 1;
            self.end += SMALL;
        }
        adds
    }

    /// Drops the mappings. Pages that have no other one go to `free` or, where Linux may hold them,
    /// to `seen`.
    fn give_up(mut self, free: &mut Chain, seen: &mut Chain) {
        let mut put = |known, run: Run| match known {
            None => {} // another process has them too
            Some(Known::Never) => free.push(run),
            Some(Known::Seen) => seen.push(run),
            Some(Known::Named) => seen.push(run.named()),
        };
        if self.is_large {
            match frames::drop_large(self.frame, self.is_told) {
                Ok(known) => return put(known, Run::of(self.frame, true)),
                Err(frames::IsSplit) => self.pages = (LARGE / SMALL) as u32,
            }
        }
        while self.pages != 0 {
            let (known, count) = frames::drop_mappings(self.frame, self.pages, self.is_told);
            put(known, Run { pages: count, ..Run::of(self.frame, false) });
            self.pages -= count;
            self.frame = self.frame + u64::from(count) * SMALL;
        }
    }
}

/// Whether a page cannot be given up yet: see [`may_give_up`]. A page that can be written is not
/// shared.
fn is_to_hide(leaf: &Leaf, change: &Change, is_flushed: bool) -> bool {
    if leaf.entry.has(pte::WRITE) || !is_owned(leaf.entry) {
        return false;
    }
    let mut prepared = change.prepared(pages_of(leaf), leaf.entry.has(pte::PRESENT));
    prepared.is_flushed |= is_flushed;
    !may_give_up(sight(leaf.entry), prepared) && is_shared(leaf)
}

/// Whether a page, or a part of a large one, has more than one mapping.
pub(in crate::mm) fn is_shared(leaf: &Leaf) -> bool {
    if leaf.size == LARGE {
        crate::base::mappings::is_large_shared(leaf.frame())
    } else {
        frames::is_shared(leaf.frame())
    }
}

/// Splits large pages of a range. None begins at 0.
fn split_all(
    table: &mut PageTable,
    mut tables: Tables,
    range: PageRange,
    is_meant: impl Fn(&Leaf) -> bool,
) -> Result<()> {
    let (mut at, end) = (range.start(), range.end());
    loop {
        let mut some = [0; AT_ONCE];
        let mut places = some.iter_mut();
        table.update(at..end, &mut |leaf| {
            if leaf.size == LARGE
                && is_meant(&leaf)
                && let Some(place) = places.next()
            {
                *place = leaf.addr;
            }
            leaf.entry
        });
        let is_full = places.next().is_none();
        for at in some.into_iter().filter(|&at| at != 0) {
            let Some(leaf) = table.find(at) else { continue };
            table.split(leaf.addr, &mut tables).map_err(|_| errno::ENOMEM)?;
            frames::split_large(leaf.frame());
        }
        if !is_full {
            return Ok(());
        }
        at = some[AT_ONCE - 1] + LARGE;
    }
}

/// A plain anonymous mapping.
pub fn anonymous(range: PageRange, prot: Prot, flags: VmaFlags) -> Vma<FileRef> {
    let (start, end) = (range.start(), range.end());
    Vma { start, end, prot, max_prot: Prot::all(), flags, backing: Backing::Anonymous }
}
