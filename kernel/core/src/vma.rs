//! The address-space map: which ranges are mapped, how, and with what behind them.
//!
//! Plain bookkeeping: page tables, frames and messages to Linux are the caller's, which learns from
//! the returned pieces what to undo.

mod copy;
mod merge;
mod place;
mod walk;

use alloc::collections::{BTreeMap, LinkedList};

use crate::addr::{PAGE_SIZE, align_down, align_up};
use crate::errno::{EACCES, EFAULT, EINVAL, ENOMEM, Result};
use crate::limits::{MAX_VMAS, STACK_GUARD_GAP, STACK_STEP};
use crate::lists;
use crate::pagerange::PageRange;

mod backing;
mod flags;
pub use backing::{Backing, SpecialKind};
pub use flags::{Prot, VmaFlags};

/// One mapping: `start..end`, page aligned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma<F> {
    /// First byte.
    pub start: u64,
    /// End (exclusive).
    pub end: u64,
    /// Rights now.
    pub prot: Prot,
    /// Rights `mprotect` may give (a shared mapping of a read-only file lacks WRITE).
    pub max_prot: Prot,
    /// Properties.
    pub flags: VmaFlags,
    /// Source of the mapping's pages.
    pub backing: Backing<F>,
}

impl<F: Clone + PartialEq> Vma<F> {
    /// Bytes of the mapping.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Range of the mapping's pages.
    #[must_use]
    #[inline(always)] // two words that the caller has
    pub const fn range(&self) -> PageRange {
        PageRange::of(self.start, self.end)
    }

    /// Whether the mapping has no bytes; never so for one in a map.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether `address` lies in the mapping.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        address >= self.start && address < self.end
    }

    /// Offset in the file of the byte at `address`, which lies in the mapping;
    /// `None` if there is no file.
    #[must_use]
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        match &self.backing {
            Backing::PrivateFile { offset, .. }
            | Backing::SharedLinux { file: Some(_), offset, .. } => {
                Some(offset.wrapping_add(address - self.start)) // as `advanced`
            }
            _ => None,
        }
    }

    /// The part of it within a range, with the backing adjusted; `None` if empty.
    #[must_use]
    pub fn slice(&self, range: PageRange) -> Option<Self> {
        let part = self.range().intersect(range)?;
        Some(Self {
            start: part.start(),
            end: part.end(),
            backing: self.backing.advanced(part.start() - self.start),
            ..self.clone()
        })
    }

    /// Whether `mprotect` may give the mapping these rights. `denies`: see
    /// [`VmaMap::deny_write_exec`].
    fn may_have(&self, prot: Prot, denies: bool) -> bool {
        self.max_prot.contains(prot)
            && !self.flags.contains(VmaFlags::FIXED_KERNEL)
            && !(denies && gains_exec(self.prot, prot))
    }

    /// Lowest address another mapping should reach up to: leaves the guard gap.
    fn guarded_start(&self) -> u64 {
        if self.flags.contains(VmaFlags::GROWSDOWN) {
            self.start.saturating_sub(STACK_GUARD_GAP)
        } else {
            self.start
        }
    }
}

/// Whether memory with the rights `old` would become executable, or writable and executable, as
/// `map_deny_write_exec` of Linux has it.
fn gains_exec(old: Prot, new: Prot) -> bool {
    new.contains(Prot::EXEC) && (new.contains(Prot::WRITE) || !old.contains(Prot::EXEC))
}

/// Addresses among which [`VmaMap::find_gap`] looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The highest gap that ends at or below this address (`mmap_base`).
    TopDown(u64),
    /// The lowest gap that starts at or above this address.
    BottomUp(u64),
}

/// A top-down search's memory: no gap of at least `len` bytes lies between
/// `floor` and `limit`.
#[derive(Clone, Copy, Debug)]
struct GapHint {
    limit: u64,
    floor: u64,
    len: u64,
}

/// The mappings of one address space, sorted, not overlapping, neighbours merged.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub struct VmaMap<F> {
    min: u64,
    max: u64,
    vmas: BTreeMap<u64, Vma<F>>,
    total_bytes: u64,
    peak_bytes: u64,
    hint: Option<GapHint>,
    denies_write_exec: bool,
}

impl<F: Clone + PartialEq> VmaMap<F> {
    /// An empty map for the addresses `min..max` (page aligned).
    #[must_use]
    pub const fn new(min: u64, max: u64) -> Self {
        let vmas = BTreeMap::new();
        let (total_bytes, peak_bytes, hint) = (0, 0, None);
        Self { min, max, vmas, total_bytes, peak_bytes, hint, denies_write_exec: false }
    }

    /// From now on no mapping becomes writable and executable, or executable (`PR_SET_MDWE`).
    pub const fn deny_write_exec(&mut self) {
        self.denies_write_exec = true;
    }

    /// Whether a new mapping may have these rights.
    #[must_use]
    pub fn may_map(&self, prot: Prot) -> bool {
        !(self.denies_write_exec && gains_exec(prot, prot))
    }

    /// Lowest address that can be mapped.
    #[must_use]
    pub const fn min(&self) -> u64 {
        self.min
    }

    /// End (exclusive) of what can be mapped.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// All addresses that can be mapped.
    #[must_use]
    pub const fn whole(&self) -> PageRange {
        PageRange::of(self.min, self.max)
    }

    /// Bytes that are mapped.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Most bytes that were mapped at once.
    #[must_use]
    pub const fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Number of mappings.
    #[must_use]
    pub fn count(&self) -> usize {
        self.vmas.len()
    }

    /// All mappings, by address.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Vma<F>> {
        self.vmas.values()
    }

    /// The mapping that holds `address`.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Vma<F>> {
        self.vmas.range(..=address).next_back().map(|(_, vma)| vma).filter(|vma| address < vma.end)
    }

    /// The first mapping that ends above `address`.
    #[must_use]
    pub fn find_next(&self, address: u64) -> Option<&Vma<F>> {
        self.find(address).or_else(|| self.vmas.range(address..).next().map(|(_, vma)| vma))
    }

    /// The last mapping that starts below `address`.
    #[must_use]
    pub fn find_before(&self, address: u64) -> Option<&Vma<F>> {
        self.vmas.range(..address).next_back().map(|(_, vma)| vma)
    }

    /// The mappings that have a page in a range, by address, whole.
    pub fn range(&self, range: PageRange) -> impl Iterator<Item = &Vma<F>> {
        let first = self.find(range.start()).map_or(range.start(), |vma| vma.start);
        self.vmas.range(first..range.end().max(first)).map(|(_, vma)| vma)
    }

    /// The mappings of a range, each with its pages there.
    pub fn parts(&self, range: PageRange) -> impl Iterator<Item = (&Vma<F>, PageRange)> {
        self.range(range).filter_map(move |vma| Some((vma, vma.range().intersect(range)?)))
    }

    /// Whether a page of a range is mapped.
    #[must_use]
    pub fn overlaps(&self, range: PageRange) -> bool {
        self.find_next(range.start()).is_some_and(|vma| vma.start < range.end())
            && !range.is_empty()
    }

    /// Whether every page of a range is mapped.
    #[must_use]
    pub fn is_covered(&self, range: PageRange) -> bool {
        let mut at = range.start();
        for vma in self.range(range) {
            if vma.start > at {
                return false;
            }
            at = vma.end;
        }
        at >= range.end()
    }

    /// Adds a mapping where nothing is mapped, and merges it with compatible
    /// neighbours (same rights and properties, backing continued).
    ///
    /// # Errors
    /// `EINVAL`: not page aligned, empty, or outside the map. `EEXIST`: the range
    /// is not free. `ENOMEM`: too many mappings, or no memory for one more.
    pub fn insert(&mut self, vma: Vma<F>) -> Result<()> {
        self.check_free(&vma)?;
        if self.count() > MAX_VMAS {
            let joins = self.find_before(vma.start).is_some_and(|prev| prev.joins(&vma))
                || self.vmas.get(&vma.end).is_some_and(|next| vma.joins(next));
            if !joins {
                return Err(ENOMEM);
            }
        }
        self.room_for(1)?;
        self.insert_anyway(vma)
    }

    /// Whether there is memory for so many more mappings.
    fn room_for(&self, more: usize) -> Result<()> {
        if more == 0 { Ok(()) } else { lists::room_for_entries::<u64, Vma<F>>(more) }
    }

    /// How many more mappings there are if both ends of a range are to be edges.
    fn cuts(&self, range: PageRange) -> usize {
        let cuts = |at: u64| usize::from(self.find(at).is_some_and(|vma| vma.start < at));
        cuts(range.start()) + cuts(range.end())
    }

    fn add_bytes(&mut self, more: u64) {
        self.total_bytes += more;
        self.peak_bytes = self.peak_bytes.max(self.total_bytes);
    }

    /// Removes whatever is mapped in a range and returns the pieces, cut at
    /// the edges. The number of mappings may exceed the limit by one; system calls
    /// use [`try_remove`](Self::try_remove).
    pub fn remove(&mut self, range: PageRange) -> LinkedList<Vma<F>> {
        // A list: tens of thousands must need no contiguous memory.
        let mut removed = LinkedList::new();
        if range.is_empty() {
            return removed;
        }
        let (start, end) = (range.start(), range.end());
        self.split_at(start);
        self.split_at(end);
        while let Some((&key, _)) = self.vmas.range(start..end).next() {
            if let Some(vma) = self.vmas.remove(&key) {
                lists::append_within(&mut removed, vma);
            }
        }
        self.total_bytes -= removed.iter().map(Vma::len).sum::<u64>();
        if !removed.is_empty() && self.hint.is_some_and(|hint| end > hint.floor) {
            self.hint = None;
        }
        removed
    }

    /// Takes all mappings out, for which no memory is needed. What is mapped later is denied
    /// execution as before.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.min, self.max);
        let denies_write_exec = self.denies_write_exec;
        core::mem::replace(self, Self { denies_write_exec, ..empty })
    }

    /// As [`remove`](Self::remove), with the checks of `munmap`.
    ///
    /// # Errors
    /// `EINVAL`: empty, or outside. `ENOMEM`: a mapping would be
    /// cut in two and there are too many already, or no memory; nothing was changed.
    pub fn try_remove(&mut self, range: PageRange) -> Result<LinkedList<Vma<F>>> {
        let (start, end) = (range.start(), range.end());
        if range.is_empty() || end > self.max {
            return Err(EINVAL);
        }
        if self.count() >= MAX_VMAS
            && self.find(start).is_some_and(|vma| vma.start < start && end < vma.end)
        {
            return Err(ENOMEM);
        }
        self.room_for(self.cuts(range))?;
        Ok(self.remove(range))
    }

    /// Changes the rights of a range. As Linux' `mprotect` it goes from the
    /// lowest mapping up and keeps what it did when it has to stop.
    ///
    /// # Errors
    /// `ENOMEM`: there is a hole (everything below it is changed), or too many
    /// mappings. `EACCES`: a mapping does not allow these rights, or is the
    /// kernel's, or would become executable (`deny_write_exec`; everything below it is
    /// changed).
    pub fn protect(&mut self, range: PageRange, prot: Prot) -> Result<()> {
        let denies = self.denies_write_exec;
        self.update(range, |vma| {
            if !vma.may_have(prot, denies) {
                return Err(EACCES);
            }
            vma.prot = prot;
            vma.flags.set(
                VmaFlags::UNWRITTEN,
                vma.flags.contains(VmaFlags::UNWRITTEN) && !prot.contains(Prot::WRITE),
            );
            Ok(())
        })
    }

    /// Sets the flags `add` and clears `remove` in a range.
    ///
    /// # Errors
    /// `ENOMEM`: there is a hole (as `mlock` and `madvise` of Linux, everything
    /// else in the range is changed all the same), too many mappings, or no memory
    /// (nothing was changed).
    pub fn set_flags(&mut self, range: PageRange, add: VmaFlags, remove: VmaFlags) -> Result<()> {
        self.may_cut(range)?;
        let (mut at, end, mut holes) = (range.start(), range.end(), Ok(()));
        while at < end
            && let Err(error) = self.update_within(PageRange::of(at, end), |vma| {
                vma.flags = (vma.flags - remove) | add;
                Ok(())
            })
        {
            holes = Err(error);
            // the first hole at or above `at`, then the mapping after it
            let mut hole = at;
            while let Some(vma) = self.find(hole) {
                hole = vma.end;
            }
            match self.find_next(hole) {
                Some(vma) if vma.start < end => at = vma.start,
                _ => break,
            }
        }
        holes
    }

    /// Applies `change` to the mappings of a range from the lowest up, cut at
    /// the edges and merged again afterwards, until a hole or an error.
    ///
    /// # Errors
    /// `ENOMEM`: a hole, too many mappings, or no memory (nothing was changed). And those of
    /// `change`.
    pub fn update(
        &mut self,
        range: PageRange,
        change: impl FnMut(&mut Vma<F>) -> Result<()>,
    ) -> Result<()> {
        self.may_cut(range)?;
        if range.is_empty() { Ok(()) } else { self.update_within(range, change) }
    }

    /// Whether both ends of a range may become edges.
    fn may_cut(&self, range: PageRange) -> Result<()> {
        let more = if range.is_empty() { 0 } else { self.cuts(range) };
        if more != 0 && self.count() + more > MAX_VMAS {
            return Err(ENOMEM);
        }
        self.room_for(more)
    }

    /// Updates like [`update`](Self::update), where there is room for the mappings that are cut.
    fn update_within(
        &mut self,
        range: PageRange,
        mut change: impl FnMut(&mut Vma<F>) -> Result<()>,
    ) -> Result<()> {
        let (start, end) = (range.start(), range.end());
        self.split_at(start);
        self.split_at(end);
        let mut result = Ok(());
        let mut at = start;
        for (_, vma) in self.vmas.range_mut(start..end) {
            if vma.start > at {
                break;
            }
            result = change(vma);
            if result.is_err() {
                break;
            }
            at = vma.end;
        }
        self.merge(range);
        if result.is_ok() && at < end {
            result = Err(ENOMEM);
        }
        result
    }

    /// Extends the stack-like mapping above `address` down to its page, or a little further
    /// if it is the initial stack. `limit`: most bytes it may have (RLIMIT_STACK). Returns its
    /// start before.
    ///
    /// # Errors
    /// `EFAULT`: no such mapping above, or `address` is mapped. `ENOMEM`: beyond
    /// the limit, the guard gap to the mapping below would be lost, or no memory.
    pub fn grow_down(&mut self, address: u64, limit: u64) -> Result<u64> {
        let vma = self.find_next(address).ok_or(EFAULT)?;
        if !vma.flags.contains(VmaFlags::GROWSDOWN) || vma.contains(address) {
            return Err(EFAULT);
        }
        let old = vma.start;
        let lowest = self.find_before(old).map_or(self.min, |prev| {
            let harmless = prev.prot.is_empty() || prev.flags.contains(VmaFlags::GROWSDOWN);
            let gap = if harmless { 0 } else { STACK_GUARD_GAP };
            (prev.end + gap).max(self.min)
        });
        let lowest = lowest.max(vma.end.saturating_sub(limit & !(PAGE_SIZE - 1)));
        let page = align_down(address, PAGE_SIZE);
        if page < lowest {
            return Err(ENOMEM);
        }
        let ahead = if vma.flags.contains(VmaFlags::STACK) { STACK_STEP } else { PAGE_SIZE };
        let start = align_down(address, ahead).max(lowest);
        self.room_for(1)?;
        if let Some(mut vma) = self.vmas.remove(&old) {
            self.add_bytes(old - start);
            vma.start = start;
            lists::insert_within(&mut self.vmas, start, vma);
            self.hint = None;
        }
        Ok(old)
    }

    /// An unmapped range of `len` bytes, aligned to `align` (a power of two, at
    /// least a page), with the guard gap of stacks kept free. `None`: no room, or
    /// `len` is 0 or too large.
    pub fn find_gap(&mut self, len: u64, align: u64, search: Search) -> Option<u64> {
        if len == 0 || !align.is_power_of_two() || len > self.max - self.min {
            return None;
        }
        let align = align.max(PAGE_SIZE);
        let len = align_up(len, PAGE_SIZE)?;
        match search {
            Search::TopDown(limit) => self.find_gap_below(len, align, limit),
            Search::BottomUp(from) => self.find_gap_above(len, align, from),
        }
    }

    fn find_gap_below(&mut self, len: u64, align: u64, limit: u64) -> Option<u64> {
        let limit = limit.min(self.max);
        let mut ceiling = limit;
        if let Some(hint) = self.hint
            && hint.limit == limit
            && hint.len <= len
        {
            ceiling = hint.floor;
        }
        // the gap may reach into the guard of the mapping above the ceiling
        if let Some(above) = self.vmas.range(ceiling..).next().map(|(_, vma)| vma) {
            ceiling = ceiling.min(above.guarded_start());
        }
        let mut found = None;
        for (_, vma) in self.vmas.range(..ceiling).rev() {
            if vma.end < ceiling
                && let Some(start) = fit_below(vma.end.max(self.min), ceiling, len, align)
            {
                found = Some(start);
                break;
            }
            ceiling = ceiling.min(vma.guarded_start());
        }
        let found = found.or_else(|| fit_below(self.min, ceiling, len, align));
        // Only base-page alignment proves that nothing as long lies above.
        if align == PAGE_SIZE {
            let floor = found.map_or(self.min, |start| start + len);
            self.hint = Some(GapHint { limit, floor, len });
        }
        found
    }

    fn find_gap_above(&self, len: u64, align: u64, from: u64) -> Option<u64> {
        let mut floor = from.max(self.min);
        if let Some(vma) = self.find(floor) {
            floor = vma.end;
        }
        for (_, vma) in self.vmas.range(floor..) {
            if let Some(start) = fit_above(floor, vma.guarded_start(), len, align) {
                return Some(start);
            }
            floor = vma.end;
        }
        fit_above(floor, self.max, len, align)
    }

    /// Cuts the mapping that has `address` inside.
    fn split_at(&mut self, address: u64) {
        let Some((_, vma)) = self.vmas.range_mut(..address).next_back() else {
            return;
        };
        if vma.end <= address {
            return;
        }
        let Some(upper) = vma.slice(PageRange::of(address, vma.end)) else {
            return;
        };
        vma.end = address;
        lists::insert_within(&mut self.vmas, address, upper);
    }

    /// Checks every invariant; for tests. O(n).
    ///
    /// # Panics
    /// If the structure is damaged.
    pub fn check(&self) {
        let mut last: Option<&Vma<F>> = None;
        let mut total = 0;
        for (&key, vma) in &self.vmas {
            assert_eq!(key, vma.start);
            assert!(self.whole().covers(vma.range()) && !vma.is_empty());
            if let Some(last) = last {
                assert!(last.end <= vma.start, "overlap");
                assert!(!last.joins(vma), "not merged at {:#x}", vma.start);
            }
            total += vma.len();
            last = Some(vma);
        }
        assert_eq!(total, self.total_bytes);
    }
}

/// Highest aligned start of `len` bytes within `floor..ceiling`.
fn fit_below(floor: u64, ceiling: u64, len: u64, align: u64) -> Option<u64> {
    let start = align_down(ceiling.checked_sub(len)?, align);
    (start >= floor).then_some(start)
}

/// Lowest aligned start of `len` bytes within `floor..ceiling`.
fn fit_above(floor: u64, ceiling: u64, len: u64, align: u64) -> Option<u64> {
    let start = align_up(floor, align)?;
    (start.checked_add(len)? <= ceiling).then_some(start)
}

#[cfg(test)]
mod tests;
