//! Buddy allocator of a zone: the chunks of physical memory of one NUMA node.
//!
//! Free blocks of all chunks hang in doubly linked lists of frame indices, one per order,
//! kept inside the [`Frame`] metadata: allocation and freeing are O(1) per order
//! step and touch only the metadata of block heads. No block goes beyond its chunk. A frame of
//! a zone with one chunk is found at once, of one with several by a binary search.

use crate::addr::Pfn;
use crate::limits::{MAX_ORDER, ORDERS};

const NONE: u32 = u32::MAX;

/// State of a frame, as far as the allocator knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// Never given to the allocator.
    Reserved,
    /// Inside a block, not its first page.
    Tail,
    /// First page of a free block.
    Free,
    /// First page of an allocated block.
    Allocated,
}

/// State of a block of frames, for a walk over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Never given to the allocator.
    Reserved,
    /// Free.
    Free,
    /// Handed out.
    Allocated,
}

/// Bits of [`Frame::marks`] that a block joined from single pages has if one of the pages has them.
pub const MARKS_ADDED: u16 = 0xf;

/// Metadata of one frame. 16 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Frame {
    /// References, for the owner's use (copy-on-write). 1 after allocation for
    /// the first page, for every page after [`Zone::split`]; 0 when free.
    pub refs: u32,
    next: u32,
    prev: u32,
    state: State,
    order: u8,
    /// Marks of the owner, e.g. *seen by Linux*. Zero after allocation.
    pub marks: u16,
}

const _: () = assert!(size_of::<Frame>() == 16);

impl Frame {
    /// Metadata of a reserved frame: what a zone's array starts as.
    pub const RESERVED: Self =
        Self { refs: 0, next: NONE, prev: NONE, state: State::Reserved, order: 0, marks: 0 };

    /// The first page of an allocated block.
    const fn allocated(order: u32) -> Self {
        Self { refs: 1, state: State::Allocated, order: order as u8, ..Self::RESERVED }
    }

    /// A number that the owner of an allocated block keeps with its first page, where a free
    /// block has its place in a list: owners make lists of their own with it, which need no memory.
    #[must_use]
    pub const fn note(&self) -> u64 {
        (self.next as u64) << 32 | self.prev as u64
    }

    /// Sets [`note`](Self::note).
    ///
    /// # Panics
    /// If no allocated block begins there.
    pub fn set_note(&mut self, note: u64) {
        assert!(self.state == State::Allocated, "a note of a frame without an owner");
        (self.next, self.prev) = ((note >> 32) as u32, note as u32);
    }

    /// Whether the frame was never given to the allocator.
    #[must_use]
    pub const fn is_reserved(&self) -> bool {
        matches!(self.state, State::Reserved)
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::RESERVED
    }
}

/// A run of frames.
#[derive(Debug)]
pub struct Chunk<'a> {
    base: Pfn,
    frames: &'a mut [Frame],
}

impl<'a> Chunk<'a> {
    /// The frames `base..base + frames.len()`, all of them reserved (whatever `frames` holds is
    /// overwritten).
    #[must_use]
    pub fn new(base: Pfn, frames: &'a mut [Frame]) -> Self {
        frames.fill(Frame::RESERVED);
        Self { base, frames }
    }

    const fn end(&self) -> u64 {
        self.base.0 + self.frames.len() as u64
    }

    const fn contains(&self, pfn: Pfn) -> bool {
        pfn.0 >= self.base.0 && pfn.0 < self.end()
    }
}

/// Frames with their buddy allocator.
#[derive(Debug)]
pub struct Zone<'a> {
    /// The chunks of the zone, in ascending order.
    chunks: &'a mut [Chunk<'a>],
    /// First free block of each order.
    heads: [u32; ORDERS],
    /// Free blocks of each order.
    counts: [usize; ORDERS],
    /// Bit n: there is a free block of order n.
    available: u32,
    free_pages: usize,
    total_pages: usize,
}

impl<'a> Zone<'a> {
    /// A zone of these chunks.
    ///
    /// # Panics
    /// If there is none, they are not in ascending order, or 16 TiB lie between the first frame
    /// and the last one.
    #[must_use]
    pub fn new(chunks: &'a mut [Chunk<'a>]) -> Self {
        assert!(chunks.is_sorted_by(|a, b| a.end() <= b.base.0), "chunks are not in order");
        let (first, last) = (&chunks[0], &chunks[chunks.len() - 1]);
        assert!(last.end() - first.base.0 < u64::from(NONE), "zone too wide");
        Self {
            chunks,
            heads: [NONE; ORDERS],
            counts: [0; ORDERS],
            available: 0,
            free_pages: 0,
            total_pages: 0,
        }
    }

    /// Pages free now.
    #[must_use]
    pub const fn free_pages(&self) -> usize {
        self.free_pages
    }

    /// Pages given to the allocator so far, free or not.
    #[must_use]
    pub const fn total_pages(&self) -> usize {
        self.total_pages
    }

    /// Free blocks of each order.
    #[must_use]
    pub const fn free_by_order(&self) -> [usize; ORDERS] {
        self.counts
    }

    /// Whether `pfn` lies in the zone (reserved frames included).
    #[must_use]
    pub fn contains(&self, pfn: Pfn) -> bool {
        self.chunk_of(pfn).is_some()
    }

    /// First frame of the zone.
    fn base(&self) -> u64 {
        self.chunks[0].base.0
    }

    /// Number of the chunk that has a frame.
    fn chunk_of(&self, pfn: Pfn) -> Option<usize> {
        let number = match &*self.chunks {
            [_] => 0,
            all => all.partition_point(|c| c.base.0 <= pfn.0).checked_sub(1)?,
        };
        self.chunks[number].contains(pfn).then_some(number)
    }

    /// The frame with an index, and those behind it in its chunk.
    fn frames_from(&mut self, index: usize) -> &mut [Frame] {
        let pfn = self.pfn(index);
        let number = self.chunk_of(pfn).expect("a frame of the zone");
        let chunk = &mut self.chunks[number];
        &mut chunk.frames[(pfn.0 - chunk.base.0) as usize..]
    }

    fn at(&self, index: usize) -> &Frame {
        let pfn = self.pfn(index);
        let chunk = &self.chunks[self.chunk_of(pfn).expect("a frame of the zone")];
        &chunk.frames[(pfn.0 - chunk.base.0) as usize]
    }

    fn at_mut(&mut self, index: usize) -> &mut Frame {
        &mut self.frames_from(index)[0]
    }

    fn pfn(&self, index: usize) -> Pfn {
        Pfn(self.base() + index as u64)
    }

    /// Metadata of a frame.
    ///
    /// # Panics
    /// If the zone does not contain it.
    #[must_use]
    pub fn frame(&self, pfn: Pfn) -> &Frame {
        self.at(self.index(pfn))
    }

    /// Metadata of a frame, to change `refs` and `marks`.
    ///
    /// # Panics
    /// If the zone does not contain it.
    pub fn frame_mut(&mut self, pfn: Pfn) -> &mut Frame {
        let index = self.index(pfn);
        self.at_mut(index)
    }

    /// As [`frame_mut`](Self::frame_mut), with those behind it in its chunk, `count` at most.
    ///
    /// # Panics
    /// As there.
    pub fn frames_mut(&mut self, pfn: Pfn, count: usize) -> &mut [Frame] {
        let index = self.index(pfn);
        let frames = self.frames_from(index);
        let count = frames.len().min(count);
        &mut frames[..count]
    }

    /// Order of the allocated block that starts at `pfn`; `None` if none does.
    #[must_use]
    pub fn block_order(&self, pfn: Pfn) -> Option<u32> {
        if !self.contains(pfn) {
            return None;
        }
        let frame = self.frame(pfn);
        (frame.state == State::Allocated).then_some(u32::from(frame.order))
    }

    /// Gives `count` reserved pages from `first` on to the allocator.
    ///
    /// # Panics
    /// If no chunk of the zone contains them, or one of them is not reserved.
    pub fn release(&mut self, first: Pfn, count: usize) {
        if count == 0 {
            return;
        }
        let start = self.index(first);
        let pages = &mut self.frames_from(start)[..count];
        assert!(pages.iter().all(Frame::is_reserved), "released twice: {count} pages at {first:?}");
        for frame in pages {
            frame.state = State::Tail;
        }
        self.total_pages += count;
        self.insert_run(start, count);
    }

    /// Allocates 2^`order` pages, aligned to their size. `None`: no such block is
    /// free, or `order` is above [`MAX_ORDER`]. Takes the most recently freed block.
    pub fn alloc(&mut self, order: u32) -> Option<Pfn> {
        if order > MAX_ORDER {
            return None;
        }
        let usable = self.available >> order << order;
        if usable == 0 {
            return None;
        }
        let mut found = usable.trailing_zeros();
        let index = self.heads[found as usize] as usize;
        self.unlink(index, found);
        while found > order {
            found -= 1;
            self.link(index + (1 << found), found);
        }
        self.mark_allocated(index, order);
        self.free_pages -= 1 << order;
        Some(self.pfn(index))
    }

    /// Frees a block that [`alloc`](Self::alloc) gave with the same `order`, or,
    /// after [`split`](Self::split), a page of it with order 0. Coalesces.
    ///
    /// # Panics
    /// In debug builds, if no allocated block of that order starts there (double
    /// free). In release builds such a call is ignored: memory leaks rather than
    /// being handed out twice.
    pub fn free(&mut self, pfn: Pfn, order: u32) {
        let good = self.block_order(pfn) == Some(order);
        debug_assert!(good, "free of {pfn:?} order {order}: not such an allocated block");
        if !good {
            return;
        }
        let index = self.index(pfn);
        self.insert_coalesced(index, order);
    }

    /// Frees single pages that lie one behind the other, each as [`free`](Self::free) does, from
    /// `pfn` on: how many, at most `count` and no more than the chunk has. `marks` is told of each
    /// page's marks.
    ///
    /// # Panics
    /// As `free`, in debug builds.
    pub fn free_run(&mut self, pfn: Pfn, count: usize, mut marks: impl FnMut(u16)) -> usize {
        let start = self.index(pfn);
        let frames = self.frames_from(start);
        let count = frames.len().min(count);
        let mut good = 0;
        for frame in &mut frames[..count] {
            if frame.state != State::Allocated || frame.order != 0 {
                break;
            }
            marks(frame.marks);
            *frame = Frame { state: State::Tail, ..Frame::RESERVED };
            good += 1;
        }
        debug_assert!(
            good == count,
            "free of {count} pages at {pfn:?}, of which {good} are single"
        );
        self.insert_run(start, good);
        good.max(1) // what is none stays as it is
    }

    /// Enters pages that are in no block, in blocks as large as can be.
    fn insert_run(&mut self, start: usize, count: usize) {
        let mut index = start;
        while index < start + count {
            let order = self.largest_order(index, start + count - index);
            self.insert_coalesced(index, order);
            index += 1 << order;
        }
    }

    /// Makes 2^`order` single pages of an allocated block, each with the first page's
    /// `refs` and `marks`, so that each may be freed by itself.
    ///
    /// # Panics
    /// As [`free`](Self::free), in debug builds.
    pub fn split(&mut self, pfn: Pfn, order: u32) {
        self.split_to(pfn, order, 0);
    }

    /// Makes blocks of order `to` of an allocated block of order `from`; each gets
    /// the first page's `refs` and `marks`.
    ///
    /// # Panics
    /// As [`free`](Self::free), in debug builds.
    pub fn split_to(&mut self, pfn: Pfn, from: u32, to: u32) {
        let good = self.block_order(pfn) == Some(from) && to <= from;
        debug_assert!(good, "split of {pfn:?} order {from} to {to}: not such an allocated block");
        if !good {
            return;
        }
        let index = self.index(pfn);
        let frames = &mut self.frames_from(index)[..1 << from];
        let Frame { refs, marks, .. } = frames[0];
        let head = Frame { refs, marks, ..Frame::allocated(to) };
        frames.iter_mut().step_by(1 << to).for_each(|f| *f = head);
    }

    /// Makes one block of 2^`order` single pages again, if each of them is allocated
    /// and has `refs` 1, and has the others' marks but for [`MARKS_ADDED`]; of those the block
    /// has all. False: nothing was changed.
    pub fn join(&mut self, pfn: Pfn, order: u32) -> bool {
        let pages = 1 << order;
        if order > MAX_ORDER || !pfn.0.is_multiple_of(1 << order) || !self.contains(pfn) {
            return false;
        }
        let index = self.index(pfn);
        let Some(frames) = self.frames_from(index).get_mut(..pages) else {
            return false;
        };
        let alike = frames.first().map_or(0, |f| f.marks & !MARKS_ADDED);
        let fits = |f: &Frame| {
            let single = f.state == State::Allocated && f.order == 0 && f.refs == 1;
            single && f.marks & !MARKS_ADDED == alike
        };
        if !frames.iter().all(fits) {
            return false;
        }
        let marks = frames.iter().fold(0, |marks, f| marks | f.marks);
        for frame in frames.iter_mut() {
            *frame = Frame { state: State::Tail, ..Frame::RESERVED };
        }
        self.mark_allocated(index, order);
        self.at_mut(index).marks = marks;
        true
    }

    fn index(&self, pfn: Pfn) -> usize {
        assert!(self.contains(pfn), "{pfn:?} is not in the zone");
        (pfn.0 - self.base()) as usize
    }

    /// Largest order of a block that starts at `index` and has at most `limit` pages.
    fn largest_order(&self, index: usize, limit: usize) -> u32 {
        let alignment = self.pfn(index).0.trailing_zeros();
        alignment.min(limit.ilog2()).min(MAX_ORDER)
    }

    /// Index of the buddy of the block at `index`, if it lies in the same chunk.
    fn buddy(&self, index: usize, order: u32) -> Option<usize> {
        let pfn = self.pfn(index);
        let buddy = Pfn(pfn.0 ^ 1 << order);
        let chunk = &self.chunks[self.chunk_of(pfn)?];
        chunk.contains(buddy).then(|| (buddy.0 - self.base()) as usize)
    }

    fn mark_allocated(&mut self, index: usize, order: u32) {
        *self.at_mut(index) = Frame::allocated(order);
    }

    fn insert_coalesced(&mut self, mut index: usize, mut order: u32) {
        self.free_pages += 1 << order;
        while order < MAX_ORDER {
            let Some(buddy) = self.buddy(index, order) else {
                break;
            };
            let other = self.at(buddy);
            if other.state != State::Free || u32::from(other.order) != order {
                break;
            }
            self.unlink(buddy, order);
            let upper = index.max(buddy);
            *self.at_mut(upper) = Frame { state: State::Tail, ..Frame::RESERVED };
            index = index.min(buddy);
            order += 1;
        }
        self.link(index, order);
    }

    fn link(&mut self, index: usize, order: u32) {
        let head = self.heads[order as usize];
        *self.at_mut(index) =
            Frame { next: head, state: State::Free, order: order as u8, ..Frame::RESERVED };
        if head != NONE {
            self.at_mut(head as usize).prev = index as u32;
        }
        self.heads[order as usize] = index as u32;
        self.counts[order as usize] += 1;
        self.available |= 1 << order;
    }

    fn unlink(&mut self, index: usize, order: u32) {
        let Frame { next, prev, .. } = *self.at(index);
        if next != NONE {
            self.at_mut(next as usize).prev = prev;
        }
        if prev != NONE {
            self.at_mut(prev as usize).next = next;
        } else {
            self.heads[order as usize] = next;
            if next == NONE {
                self.available &= !(1 << order);
            }
        }
        self.counts[order as usize] -= 1;
    }

    /// Tells of the blocks from a frame on: first frame, pages and state. So many of them at most:
    /// where to go on, or `None` at the end. Where blocks change between two such looks, some are
    /// told of twice, or not at all.
    pub fn walk(
        &self,
        from: Pfn,
        most: usize,
        mut tell: impl FnMut(Pfn, u64, BlockState),
    ) -> Option<Pfn> {
        let mut left = most;
        for chunk in self.chunks.iter() {
            let mut at = from.0.saturating_sub(chunk.base.0);
            while let Some(frame) = usize::try_from(at).ok().and_then(|at| chunk.frames.get(at)) {
                let pfn = Pfn(chunk.base.0 + at);
                left = match left.checked_sub(1) {
                    None => return Some(pfn),
                    Some(left) => left,
                };
                let (pages, state) = match frame.state {
                    State::Reserved => (1, BlockState::Reserved),
                    State::Free => (1 << frame.order, BlockState::Free),
                    State::Allocated => (1 << frame.order, BlockState::Allocated),
                    // Of a block that has become free since the last look.
                    State::Tail => (1, BlockState::Free),
                };
                tell(pfn, pages, state);
                at += pages;
            }
        }
        None
    }

    /// Checks every invariant; for tests and `hanare doctor`. O(frames).
    ///
    /// # Panics
    /// If the structure is damaged.
    pub fn check(&self) {
        let mut free = 0;
        for order in 0..=MAX_ORDER {
            let mut count = 0;
            let mut prev = NONE;
            let mut at = self.heads[order as usize];
            while at != NONE {
                let frame = self.at(at as usize);
                assert!(frame.state == State::Free && u32::from(frame.order) == order);
                assert_eq!(frame.prev, prev);
                let first = self.pfn(at as usize);
                assert!(first.is_aligned(order));
                assert_eq!(self.chunk_of(first), self.chunk_of(first + ((1 << order) - 1)));
                if order < MAX_ORDER
                    && let Some(buddy) = self.buddy(at as usize, order)
                {
                    let buddy = self.at(buddy);
                    assert!(buddy.state != State::Free || u32::from(buddy.order) != order);
                }
                count += 1;
                prev = at;
                at = frame.next;
            }
            assert_eq!(count, self.counts[order as usize]);
            assert_eq!(count > 0, self.available >> order & 1 == 1);
            free += count << order;
        }
        assert_eq!(free, self.free_pages);
    }
}

#[cfg(test)]
mod tests;
