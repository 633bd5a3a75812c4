//! How other layers look at an address space, and how they change it: a cursor changes one range.

use super::address_space::{AddressSpace, Heap};
use crate::base::accounts::Account;
use crate::base::heap;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::counted;
use alloc::collections::LinkedList;
use alloc::sync::Arc;
use hanare_core::coherence::Change;
use hanare_core::errno::Result;
use hanare_core::mempolicy::{Policies, Policy};
use hanare_core::pagerange::PageRange;
use hanare_core::rss::RssDelta;
use hanare_core::vma::{Prot, Search, Vma, VmaFlags, VmaMap};
use hanare_hal::paging::{LARGE, Leaf, PageTable, SMALL};
use hanare_hal::pte::Entry;

/// The pages of an address space, to be looked at.
pub struct Pages<'a>(&'a mut PageTable);

impl Pages<'_> {
    /// Calls `f` for each leaf that begins in a range.
    pub fn each(&mut self, range: PageRange, mut f: impl FnMut(&Leaf)) {
        self.0.update(range.addresses(), &mut |leaf| {
            f(&leaf);
            leaf.entry
        });
    }

    /// Sets bits of each leaf that begins in a range. None of them goes.
    pub(in crate::mm) fn mark(&mut self, range: PageRange, f: &mut dyn FnMut(Leaf) -> Entry) {
        self.0.update(range.addresses(), f);
    }

    /// Calls `f` for each leaf of a range, with the number of pages of 4 KiB that it has there.
    pub fn each_within(&mut self, range: PageRange, mut f: impl FnMut(&Leaf, u64)) {
        let (start, end) = (range.start(), range.end());
        self.each(PageRange::of(start & !(LARGE - 1), end), |leaf| {
            let there = (leaf.addr + leaf.size).min(end).saturating_sub(leaf.addr.max(start));
            if there > 0 {
                f(leaf, there / SMALL);
            }
        });
    }
}

impl AddressSpace {
    /// The mappings.
    pub fn mappings(&self) -> &VmaMap<FileRef> {
        &self.vmas
    }

    /// The leaf that covers `addr`.
    pub fn leaf(&self, addr: u64) -> Option<Leaf> {
        self.table.find(addr)
    }

    /// The mappings, their NUMA policies (`mbind`), and their pages.
    pub fn view(&mut self) -> (&VmaMap<FileRef>, &Policies, Pages<'_>) {
        (&self.vmas, &self.policies, Pages(&mut self.table))
    }

    /// Changes the leaves that begin in a range to what `f` returns, and counts those that go
    /// or become another space's.
    pub(in crate::mm) fn change_pages(
        &mut self,
        range: PageRange,
        f: &mut dyn FnMut(Leaf) -> Entry,
    ) {
        let mut delta = RssDelta::default();
        self.table.update(range.addresses(), &mut |leaf| {
            let entry = f(leaf);
            delta.replace(leaf.size / SMALL, counted(leaf.entry), counted(entry));
            entry
        });
        self.rss.apply(delta);
    }

    /// Changes, like [`change_pages`](Self::change_pages), the leaves of the mappings in
    /// a range that are `wanted`.
    pub(in crate::mm) fn change_pages_of(
        &mut self,
        range: PageRange,
        wanted: impl Fn(&Vma<FileRef>) -> bool,
        mut f: impl FnMut(&Vma<FileRef>, Leaf) -> Entry,
    ) {
        let mut delta = RssDelta::default();
        for (v, part) in self.vmas.parts(range).filter(|(v, _)| wanted(v)) {
            self.table.update(part.addresses(), &mut |leaf| {
                let entry = f(v, leaf);
                delta.replace(leaf.size / SMALL, counted(leaf.entry), counted(entry));
                entry
            });
        }
        self.rss.apply(delta);
    }

    /// The pages.
    pub fn pages(&mut self) -> Pages<'_> {
        Pages(&mut self.table)
    }

    /// The NUMA policies (`mbind`).
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Bytes that the page table takes.
    pub fn table_bytes(&self) -> u64 {
        self.table.pages() * SMALL
    }

    /// Bytes of pages that are mapped now, and that were mapped at most.
    pub fn resident_bytes(&self) -> (u64, u64) {
        (self.rss.pages() * SMALL, self.rss.peak() * SMALL)
    }

    /// Forgets the most pages that were mapped at once.
    pub(in crate::mm) fn reset_peak(&mut self) {
        self.rss.reset_peak();
    }

    /// The first address of a range that a leaf covers, or its end.
    pub(in crate::mm) fn first_leaf(&self, range: PageRange) -> u64 {
        self.table.first_leaf(range.addresses())
    }

    /// Whether there is a table of small pages for `addr`.
    pub(in crate::mm) fn has_small_table(&self, addr: u64) -> bool {
        self.table.has_small_table(addr)
    }

    /// Takes over from the parent of a fork what is no mapping, and the mappings that are `wanted`,
    /// as `copy` makes them.
    ///
    /// # Errors
    /// `ENOMEM` inside: of the mappings, some may be there.
    pub(in crate::mm) fn take_after(
        &mut self,
        parent: &AddressSpace,
        wanted: fn(&Vma<FileRef>) -> bool,
        copy: fn(&Vma<FileRef>) -> Vma<FileRef>,
    ) -> Result<Result<()>> {
        (self.heap, self.mmap_base) = (parent.heap, parent.mmap_base);
        (self.policies, self.wish) = (parent.policies.copied()?, parent.wish);
        let mappings = parent.vmas.iter().filter(|v| wanted(v)).map(copy);
        Ok(self.vmas.append(mappings, heap::room))
    }

    /// Maps a page of the parent of a fork, or the mark of a lost one. False: there is no memory.
    pub(in crate::mm) fn map_inherited(&mut self, addr: u64, size: u64, entry: Entry) -> bool {
        let mapped = if size == LARGE {
            self.map_large(addr, entry)
        } else {
            self.table.map_small(addr, entry, &mut self.tables).is_ok()
        };
        if mapped {
            self.count_mapped(size / SMALL, counted(entry));
        }
        mapped
    }

    /// Puts another page of the space's own in the place of a small one. False: there is no memory.
    pub(in crate::mm) fn replace_small(&mut self, addr: u64, entry: Entry) -> bool {
        self.table.map_small(addr, entry, &mut self.tables).is_ok()
    }

    /// A fork of it has begun, see [`Coherence`](hanare_core::coherence::Coherence).
    pub(in crate::mm) fn begin_fork(&mut self) {
        self.coherence.begin_fork();
    }

    /// The fork is over.
    pub(in crate::mm) fn end_fork(&mut self) {
        self.coherence.end_fork();
    }

    /// Number of pages that are lent to Linux, at most.
    pub(in crate::mm) fn lent_pages(&self) -> u64 {
        self.written_by_linux
    }

    /// Sets how many pages are lent to Linux: they were counted.
    pub(in crate::mm) fn set_lent_pages(&mut self, pages: u64) {
        self.written_by_linux = pages;
    }

    /// The account that is charged for the address space.
    pub(in crate::mm) fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// The pages of a space are offered to Linux now (`offer.rs`).
    pub(in crate::mm) fn set_offered_by(&mut self, space: u32) {
        self.offered_by = space;
    }

    /// Takes all mappings out, and their policies.
    pub(in crate::mm) fn take_mappings(&mut self) -> VmaMap<FileRef> {
        let vmas = self.vmas.take();
        self.policies.clear(vmas.whole());
        vmas
    }

    /// Writes to the pages of all mappings are to be seen from now on.
    pub(in crate::mm) fn clear_soft_dirty(&mut self) {
        self.vmas.clear_soft_dirty();
    }

    /// Whether a change under way has reserved a page of a range.
    pub(in crate::mm) fn is_reserved(&self, range: PageRange) -> bool {
        self.coherence.is_reserved(range)
    }

    /// CPUs may have translations of a range that a change has made stale.
    pub(in crate::mm) fn disturb(&mut self, range: PageRange) {
        self.coherence.disturb(range);
    }

    /// Resumes a change after Linux was asked, see [`Change::resume`].
    pub(in crate::mm) fn resume(&mut self, change: &mut Change, is_forgotten: bool) {
        change.resume(&mut self.coherence, is_forgotten);
    }

    /// Sets the NUMA policy of the thread for which pages are made until the lock is given back.
    pub(in crate::mm) fn set_wish(&mut self, wish: Option<Policy>) {
        self.wish = wish;
    }

    /// Counts pages that are lent to Linux.
    pub(in crate::mm) fn count_lent(&mut self, pages: u64) {
        self.written_by_linux += pages;
    }

    /// An unmapped range, see [`VmaMap::find_gap`].
    pub fn find_gap(&mut self, len: u64, align: u64, search: Search) -> Option<u64> {
        self.vmas.find_gap(len, align, search)
    }

    /// Mappings without a wish are placed below this.
    pub fn mmap_base(&self) -> u64 {
        self.mmap_base
    }

    /// Sets where mappings without a wish are placed, for a new program, which has no heap yet.
    pub fn set_mmap_base(&mut self, base: u64) {
        (self.mmap_base, self.heap) = (base, Heap::default());
    }

    /// The heap.
    pub fn heap(&self) -> Heap {
        self.heap
    }

    /// Sets the heap.
    pub fn set_heap(&mut self, heap: Heap) {
        self.heap = heap;
    }

    /// Flags of new mappings (`mlockall(MCL_FUTURE)`).
    pub fn lock_future(&self) -> VmaFlags {
        self.lock_future
    }

    /// Sets the flags of new mappings.
    pub fn set_lock_future(&mut self, flags: VmaFlags) {
        self.lock_future = flags;
    }

    /// Adds a mapping, see [`VmaMap::insert`].
    pub fn insert(&mut self, vma: Vma<FileRef>) -> Result<()> {
        self.vmas.insert(vma)
    }

    /// Adds a mapping that takes the place of others, see [`VmaMap::insert_anyway`].
    pub fn insert_anyway(&mut self, vma: Vma<FileRef>) -> Result<()> {
        self.vmas.insert_anyway(vma)
    }

    /// The right to change the mappings of a range.
    pub fn cursor(&mut self, range: PageRange) -> Cursor<'_> {
        Cursor { mm: self, range }
    }
}

/// The right to change the mappings of a range. Their pages are changed by a
/// [`Change`](hanare_core::coherence::Change).
pub struct Cursor<'a> {
    mm: &'a mut AddressSpace,
    range: PageRange,
}

impl Cursor<'_> {
    /// Removes the mappings and their policies, see [`VmaMap::remove`].
    pub fn remove(&mut self) -> LinkedList<Vma<FileRef>> {
        let removed = self.mm.vmas.remove(self.range);
        self.clear_policy();
        removed
    }

    /// Removes the mappings and their policies, see [`VmaMap::try_remove`].
    pub fn try_remove(&mut self) -> Result<LinkedList<Vma<FileRef>>> {
        self.mm.policies.room_to_clear()?;
        let removed = self.mm.vmas.try_remove(self.range)?;
        self.clear_policy();
        Ok(removed)
    }

    /// Removes the mappings that are `wanted`, see [`VmaMap::remove_where`].
    pub fn remove_where(
        &mut self,
        wanted: impl Fn(&Vma<FileRef>) -> bool,
    ) -> LinkedList<Vma<FileRef>> {
        self.mm.vmas.remove_where(self.range, wanted)
    }

    /// Changes the mappings, see [`VmaMap::update`].
    pub fn update(&mut self, change: impl FnMut(&mut Vma<FileRef>) -> Result<()>) -> Result<()> {
        self.mm.vmas.update(self.range, change)
    }

    /// Sets flags of the mappings and clears others, see [`VmaMap::set_flags`].
    pub fn set_flags(&mut self, add: VmaFlags, remove: VmaFlags) -> Result<()> {
        self.mm.vmas.set_flags(self.range, add, remove)
    }

    /// Changes the rights of the mappings, see [`VmaMap::protect`].
    pub fn protect(&mut self, prot: Prot) -> Result<()> {
        self.mm.vmas.protect(self.range, prot)
    }

    /// Sets the NUMA policy.
    pub fn set_policy(&mut self, policy: Policy) -> Result<()> {
        self.mm.policies.set(self.range, policy)
    }

    /// Sets the node of the NUMA policies that is tried first (`set_mempolicy_home_node`).
    pub fn set_home(&mut self, node: u32) -> Result<()> {
        self.mm.policies.set_home(self.range, node)
    }

    /// Takes the NUMA policy away.
    pub fn clear_policy(&mut self) {
        self.mm.policies.clear(self.range);
    }
}
