//! Credits that the one producer of a queue may give out, and where it posts.

use hanare_ikc::posted::Ticket;

use super::mapped::Mapped;
use super::own::Own;

impl<T> Mapped<T> {
    /// State of a ticket's credit, as the one producer keeps it.
    #[inline(always)]
    pub fn own(&self, word: u64) -> &Own {
        self.own_at(word & self.offsets)
    }

    /// State of a credit, so many bytes behind the first one.
    #[inline(always)]
    fn own_at(&self, bytes: u64) -> &Own {
        debug_assert!(bytes <= self.offsets);
        let address = (&raw const *self).addr() + size_of::<Self>() + bytes as usize;
        // SAFETY: `Owner::make` has put them there, in a mapping whose address it has exposed, as
        // many as `offsets` lets through. `bytes` of `Free` is not above that when something is put
        // there, since each ticket is in the list once: `use_up` sees to it.
        unsafe { &*std::ptr::with_exposed_provenance::<Own>(address) }
    }

    /// The one producer: begins at this position, with no ticket to give out.
    pub fn reset_producer(&self, tail: u64) {
        self.free.0.tail.set(tail);
        self.free.0.bytes.set(0);
        self.free.0.owed.set(0);
    }

    /// The one producer: the position at which it will post next.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.free.0.tail.get()
    }

    /// The one producer: the position at which it posts, without a key.
    #[must_use]
    #[inline(always)]
    pub fn next_position(&self) -> u64 {
        let position = self.free.0.tail.get();
        self.free.0.tail.set(position.wrapping_add(1));
        position
    }

    /// The one producer: whether there is a ticket that may be given out.
    #[must_use]
    #[inline(always)]
    pub const fn has_free(&self) -> bool {
        self.free.0.bytes.get() != 0
    }

    /// The one producer: takes a ticket that may be given out. There is one: `has_free` has said
    /// so.
    #[must_use]
    #[inline(always)]
    pub fn next_free(&self) -> u64 {
        let bytes = self.free.0.bytes.get().wrapping_sub(size_of::<Own>() as u64);
        self.free.0.bytes.set(bytes);
        self.own_at(bytes).free.get()
    }

    /// The one producer: takes a ticket that may be given out, if there is one.
    #[must_use]
    pub fn pop_free(&self) -> Option<u64> {
        self.has_free().then(|| self.next_free())
    }

    /// The one producer: a ticket may be given out, which is not in the list.
    #[inline(always)]
    pub fn push_free(&self, ticket: Ticket) {
        self.own_at(self.free.0.bytes.get()).free.set(ticket.word());
        // Read anew: the compiler adds in memory then, by one instruction.
        self.free.0.bytes.set(self.free.0.bytes.get() + size_of::<Own>() as u64);
    }

    /// The one producer: how many tickets may be given out.
    #[must_use]
    pub fn free_count(&self) -> u64 {
        self.free.0.bytes.get() / size_of::<Own>() as u64
    }

    /// One producer: how many credits will come back by themselves.
    #[must_use]
    pub const fn owed(&self) -> u64 {
        self.free.0.owed.get()
    }

    /// One producer: so many credits will come back by themselves.
    pub fn set_owed(&self, owed: u64) {
        self.free.0.owed.set(owed);
    }
}
