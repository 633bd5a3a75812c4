//! How the one producer of a queue finds its credits: which tickets are given out, and which may
//! be.

use std::sync::atomic::Ordering;

use hanare_ikc::posted::Ticket;

use super::Queue;

impl Queue {
    /// The ticket of a credit that was given out, or is the next.
    #[must_use]
    pub fn live(&self, index: u16) -> u64 {
        match self.is_shared() {
            true => self.shared_live().at(index.into()).load(Ordering::Acquire),
            false => self.own(Ticket::zero(index).word()).live.get(),
        }
    }

    /// Sets the ticket of a credit.
    pub fn set_live(&self, index: u16, word: u64) {
        match self.is_shared() {
            true => self.shared_live().at(index.into()).store(word, Ordering::Release),
            false => self.own(Ticket::zero(index).word()).live.set(word),
        }
    }

    /// The ticket of a credit, which is `word`, is used up; the next is in place. `false`: another
    /// thread was first.
    #[must_use]
    pub fn use_up(&self, ticket: Ticket, word: u64) -> bool {
        let (index, next) = (ticket.index(), ticket.next().word());
        if self.is_shared() {
            let live = self.shared_live().at(index.into());
            return live.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        }
        let is_first = self.live(index) == word;
        if is_first {
            self.set_live(index, next);
        }
        is_first
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

    /// A credit will come back by itself.
    pub fn owe(&self) {
        if !self.is_shared() {
            self.set_owed(self.owed() + 1);
        }
    }

    /// The one producer: credits that have come back may be given out.
    pub fn collect(&self) {
        self.credits().take_all(|index| {
            // No more than are owed, whatever stands in the list.
            if let (Some(owed), Some(ticket)) =
                (self.owed().checked_sub(1), Ticket::from_word(self.live(index)))
            {
                self.set_owed(owed);
                self.push_free(ticket);
            }
        });
    }
}
