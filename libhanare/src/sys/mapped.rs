//! The memory of a queue: rings, records and credits, with all its other words, in one mapping.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hanare_ikc::posted::{Entry, FinishedEntry, Record, RecordRef, Slots, Ticket};

use super::line::Line;
use super::memory::{Mapping, Pieces};
use super::own::{Free, Own};
use super::ring::Ring;
use super::table::Table;

/// Contents of the mapping of a queue, with `T`, its words that are not in `sys`. It is made by
/// [`Owner::make`] only, and lies where that has put it.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Mapped<T> {
    /// Which calls the short way of posting takes: none where it is not to be used.
    pub short: Table,
    /// Lets through the bytes of an index in a ticket.
    pub(super) offsets: u64,
    entries: Slots<'static, Entry>,
    records: NonNull<Record>,
    shared_live: Slots<'static, AtomicU64>,
    links: Slots<'static, AtomicU32>,
    finished_entries: Slots<'static, FinishedEntry>,
    bytes: usize,
    /// Threads that use it, and one more while it is in a list.
    users: AtomicU32,
    /// The next queue in the list.
    pub(super) next: AtomicPtr<Self>,
    pub(super) free: Line<Free>,
    head: Line<AtomicU64>,
    words: T,
}

// SAFETY: what changes is atomic, but `Free` and `Own`, which are the one producer's. Queues of
// Rust have several producers, and do not write them. The maker of one of C says which thread uses
// it.
unsafe impl<T: Sync> Sync for Mapped<T> {}
// SAFETY: likewise; the pieces lie in its own mapping.
unsafe impl<T: Send> Send for Mapped<T> {}

impl<T> Deref for Mapped<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.words
    }
}

impl<T> Mapped<T> {
    const BYTES_OF_CREDIT: usize = size_of::<Entry>()
        + size_of::<Record>()
        + size_of::<Own>()
        + size_of::<AtomicU64>()
        + size_of::<AtomicU32>()
        + size_of::<FinishedEntry>();

    /// Credits.
    #[must_use]
    pub const fn depth(&self) -> u64 {
        self.offsets / size_of::<Own>() as u64 + 1
    }

    /// The ring of submissions without a key.
    #[must_use]
    #[inline(always)]
    pub const fn ring(&self) -> Ring<'_> {
        Ring::new(&self.head.0, self.entries)
    }

    /// The record of a ticket.
    #[must_use]
    #[inline(always)]
    pub const fn record_at(&self, word: u64) -> RecordRef<'_> {
        let offset = (word & self.offsets) as usize;
        // SAFETY: `make` has put as many there as `offsets` lets through: a record and `Own` have
        // one size. They last as long as `self`.
        RecordRef::new(unsafe { self.records.byte_add(offset).as_ref() })
    }

    /// A record.
    #[must_use]
    #[inline(always)]
    pub const fn record(&self, index: u16) -> RecordRef<'_> {
        self.record_at(Ticket::zero(index).word())
    }

    /// Ticket of each credit that was given out, or is the next, where there are several producers.
    #[must_use]
    #[inline(always)]
    pub const fn shared_live(&self) -> Slots<'_, AtomicU64> {
        self.shared_live
    }

    /// Links of the list of free credits.
    #[must_use]
    #[inline(always)]
    pub const fn links(&self) -> Slots<'_, AtomicU32> {
        self.links
    }

    /// Entries of the ring of submissions that are done.
    #[must_use]
    pub const fn finished_entries(&self) -> Slots<'_, FinishedEntry> {
        self.finished_entries
    }

    /// For tests: where the entries lie, the records, and the head of the ring; and their bytes.
    #[must_use]
    pub const fn pieces(&self) -> [(*const u64, usize); 3] {
        let depth = self.depth() as usize;
        [
            ((&raw const *self.entries.at(0)).cast(), depth * size_of::<Entry>()),
            (self.records.as_ptr().cast_const().cast(), depth * size_of::<Record>()),
            ((&raw const self.head).cast(), size_of::<u64>()),
        ]
    }

    /// Counts one more user of the queue.
    pub(super) fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one user of the queue less.
    pub(super) fn leave(&self) {
        self.users.fetch_sub(1, Ordering::Release);
    }

    /// Sets the number of users of the queue.
    pub(super) fn set_users(&self, users: u32) {
        self.users.store(users, Ordering::Relaxed);
    }
}

/// Owner of a queue's memory. Dropping it ends the words, and gives the memory back. While a thread
/// uses it, or it is in a list, it stays for ever.
#[derive(Debug)]
pub struct Owner<T>(NonNull<Mapped<T>>);

// SAFETY: it owns what it points to.
unsafe impl<T: Send> Send for Owner<T> {}
// SAFETY: it gives references only.
unsafe impl<T: Sync> Sync for Owner<T> {}

impl<T> Owner<T> {
    /// Makes one of so many credits, a power of two; `None`: there is no memory.
    ///
    /// # Panics
    /// If `depth` is none.
    #[must_use]
    pub fn make(depth: usize, words: T) -> Option<Self> {
        const { assert!(size_of::<Own>() == size_of::<Record>()) };
        let all = size_of::<Mapped<T>>() + depth * Mapped::<T>::BYTES_OF_CREDIT + 16 * 128;
        let bytes = all.next_multiple_of(4096);
        let mut mapping = Mapping::new(bytes)?;
        let mut pieces = Pieces::of(&mut mapping);
        let place = pieces.take::<MaybeUninit<Mapped<T>>>(1, |_| MaybeUninit::uninit());
        let own = pieces.take(depth, |_| Own::default());
        let distance = own.addr().get() - place.addr().get();
        assert_eq!(distance, size_of::<Mapped<T>>(), "it follows the queue");
        let entries = pieces.take(depth, |_| Entry::new());
        let records = pieces.take(depth, |index| Record::new(index as u16));
        let shared_live = pieces.take(depth, |_| AtomicU64::new(0));
        let links = pieces.take(depth, |_| AtomicU32::new(0));
        let finished = pieces.take(depth, |_| FinishedEntry::new());
        // SAFETY: each has `depth` pieces, which last as long as what has them.
        let (entries, shared_live, links, finished_entries) = unsafe {
            let (a, b) = (slots(entries, depth), slots(shared_live, depth));
            (a, b, slots(links, depth), slots(finished, depth))
        };
        let place = place.cast::<Mapped<T>>();
        let mapped = Mapped {
            short: Table::none(),
            offsets: (depth as u64 - 1) * size_of::<Own>() as u64,
            entries,
            records,
            shared_live,
            links,
            finished_entries,
            bytes,
            users: AtomicU32::new(0),
            next: AtomicPtr::new(null_mut()),
            free: Line::default(),
            head: Line::default(),
            words,
        };
        // SAFETY: the piece is as large, and no other code has it.
        unsafe { place.write(mapped) };
        // From now on the mapping belongs to the owner.
        let start = mapping.into_start();
        assert_eq!(start.addr(), place.addr(), "the first piece is at the start");
        Some(Self(place))
    }

    /// Hands the queue to C.
    #[must_use]
    pub fn into_handle(self) -> NonNull<Mapped<T>> {
        let place = self.0;
        std::mem::forget(self);
        place
    }

    /// Takes it back.
    ///
    /// # Safety
    /// The handle came from [`Owner::into_handle`], and is taken back once at a time; no other code
    /// uses it.
    #[must_use]
    pub const unsafe fn from_handle(handle: NonNull<Mapped<T>>) -> Self {
        Self(handle)
    }
}

impl<T> Deref for Owner<T> {
    type Target = Mapped<T>;
    #[inline(always)]
    fn deref(&self) -> &Mapped<T> {
        // SAFETY: `make` has put it there, where it stays until the owner is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        let bytes = self.bytes;
        // Acquire: all that the threads did comes before.
        if self.users.load(Ordering::Acquire) != 0 {
            return;
        }
        // SAFETY: no thread uses it, no list has it, and references of others were borrowed from
        // this owner. The mapping of so many bytes begins with it, as `make` has seen.
        unsafe {
            self.0.drop_in_place();
            drop(Mapping::from_start(self.0.cast(), bytes));
        }
    }
}

/// The pieces behind this one.
///
/// # Safety
/// There are so many, for as long as the result is used.
pub(super) const unsafe fn slots<T>(first: NonNull<T>, count: usize) -> Slots<'static, T> {
    // SAFETY: the caller's.
    Slots::new(unsafe { std::slice::from_raw_parts(first.as_ptr(), count) })
}
