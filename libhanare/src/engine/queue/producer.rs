//! How the one producer of a queue finds its credits: which tickets are given out, and which may be.

use std::sync::atomic::Ordering;

use hanare_ikc::posted::Ticket;

use super::own::Own;
use super::{OWN, Queue};

impl Queue {
    /// State of a ticket's credit, as the one producer keeps it.
    #[inline(always)]
    fn own(&self, word: u64) -> &Own {
        self.own_at(word & self.offsets)
    }

    /// The ticket of a credit that was given out, or is the next.
    #[must_use]
    pub fn live(&self, index: u16) -> u64 {
        match self.is_shared() {
            true => self.shared_live.at(index.into()).load(Ordering::Acquire),
            false => self.own(Ticket::zero(index).word()).live.get(),
        }
    }

    /// Changes it.
    pub fn set_live(&self, index: u16, word: u64) {
        match self.is_shared() {
            true => self.shared_live.at(index.into()).store(word, Ordering::Release),
            false => self.own(Ticket::zero(index).word()).live.set(word),
        }
    }

    /// The ticket of a credit, which is `word`, is used up; the next is in place. `false`: another thread was first.
    #[must_use]
    pub fn use_up(&self, ticket: Ticket, word: u64) -> bool {
        let (index, next) = (ticket.index(), ticket.next().word());
        if self.is_shared() {
            let live = self.shared_live.at(index.into());
            return live.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        }
        let is_first = self.live(index) == word;
        if is_first {
            self.set_live(index, next);
        }
        is_first
    }

    /// The one producer: whether there is a ticket that may be given out.
    #[must_use]
    #[inline(always)]
    pub const fn has_free(&self) -> bool {
        self.producer.0.free_bytes.get() != 0
    }

    /// The one producer: takes a ticket that may be given out. There is one.
    #[must_use]
    #[inline(always)]
    pub fn next_free(&self) -> u64 {
        let bytes = self.producer.0.free_bytes.get().wrapping_sub(size_of::<Own>() as u64);
        self.producer.0.free_bytes.set(bytes);
        self.own_at(bytes).free.get()
    }

    /// The one producer: takes a ticket that may be given out, if there is one.
    #[must_use]
    pub fn pop_free(&self) -> Option<u64> {
        self.has_free().then(|| self.next_free())
    }

    /// The one producer: a ticket may be given out.
    #[inline(always)]
    pub fn push_free(&self, ticket: Ticket) {
        self.own_at(self.producer.0.free_bytes.get()).free.set(ticket.word());
        // Read anew: the compiler adds in memory then, by one instruction.
        self.producer.0.free_bytes.set(self.producer.0.free_bytes.get() + size_of::<Own>() as u64);
    }

    /// State of a credit, so many bytes behind the first one.
    #[inline(always)]
    fn own_at(&self, bytes: u64) -> &Own {
        debug_assert!(bytes <= self.offsets);
        let address = (&raw const *self).addr() + OWN + bytes as usize;
        // SAFETY: `create` has put them there, in a mapping whose address it has exposed, as many as `offsets` lets through.
        // `free_bytes` is not above that when something is put there, since each ticket is in the list once: `use_up` sees to it.
        unsafe { &*std::ptr::with_exposed_provenance::<Own>(address) }
    }

    /// The one producer: how many tickets may be given out.
    #[must_use]
    pub fn free_count(&self) -> u64 {
        self.producer.0.free_bytes.get() / size_of::<Own>() as u64
    }

    /// The one producer picks a result up: the short way.
    #[inline(always)]
    pub fn poll(&self, word: u64) -> Option<u64> {
        let own = self.own(word);
        if own.live.get() != word {
            return None;
        }
        let ticket = Ticket::from_live(word);
        let result = self.record_at(word).result(ticket)?;
        // The last generation is for the long way.
        let next = ticket.next_unless_last()?;
        own.live.set(next.word());
        self.push_free(next);
        Some(result)
    }

    /// One producer: how many credits will come back by themselves.
    #[must_use]
    pub const fn owed(&self) -> u64 {
        self.producer.0.owed.get()
    }

    /// A credit will come back by itself.
    pub fn owe(&self) {
        if !self.is_shared() {
            self.producer.0.owed.set(self.producer.0.owed.get() + 1);
        }
    }

    /// The one producer: credits that have come back may be given out.
    pub fn collect(&self) {
        self.credits().take_all(|index| {
            // No more than are owed, whatever stands in the list.
            if let (Some(owed), Some(ticket)) =
                (self.producer.0.owed.get().checked_sub(1), Ticket::from_word(self.live(index)))
            {
                self.producer.0.owed.set(owed);
                self.push_free(ticket);
            }
        });
    }
}
