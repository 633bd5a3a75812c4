//! How a result is picked up.

use std::sync::atomic::Ordering;

use hanare_ikc::posted::{Look, Ticket};

use super::bells::Bell;
use super::queue::Queue;
use super::time::ticks_of_ns;
use super::{Error, IS_NEXT, error, worker};
use crate::sys;

/// Time at which a wait ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<u64>);

impl Deadline {
    /// The time in so many nanoseconds; never, if that is negative.
    #[must_use]
    pub fn after(timeout_ns: i64) -> Self {
        Self(u64::try_from(timeout_ns).ok().map(|ns| sys::now_ns().saturating_add(ns)))
    }

    /// How long until then, `u64::MAX` if for ever; `None`: it is over.
    #[must_use]
    pub fn left_ns(self) -> Option<u64> {
        match self.0 {
            None => Some(u64::MAX),
            Some(end) => end.checked_sub(sys::now_ns()).filter(|&left| left > 0),
        }
    }
}

/// While something that was cancelled runs, it is interrupted so often.
const AGAIN_NS: u64 = 1_000_000;
/// Looks at a record without a look at anything else: a call that a worker makes at once takes
/// about as long.
const EAGER: u32 = 64;
/// Time between two looks of a thread that cannot sleep.
const LOOK_NS: u64 = 100_000;

impl Queue {
    /// Picks a result up.
    ///
    /// # Errors
    /// EAGAIN, EINVAL.
    pub fn poll_any(&self, word: u64) -> Result<i64, Error> {
        if let Some(result) = self.poll(word).or_else(|| self.poll_shared(word)) {
            return Ok(result as i64);
        }
        let ticket = self.checked(word)?;
        match self.record(ticket.index()).look(ticket) {
            Look::NotYet => error(libc::EAGAIN),
            Look::Done(result) => {
                self.release(ticket, word)?;
                Ok(result as i64)
            }
            Look::Cancelled => self.abandon(ticket, word),
        }
    }

    /// One of several producers picks a result up, if it is there: the short way.
    #[inline(always)]
    fn poll_shared(&self, word: u64) -> Option<u64> {
        let ticket = Ticket::from_live(word);
        if self.is_short_shared.load(Ordering::Relaxed) == 0 || self.live(ticket.index()) != word {
            return None;
        }
        let result = self.record_at(word).result(ticket)?;
        if !self.use_up(ticket, word) {
            return None;
        }
        self.give(ticket.index());
        Some(result)
    }

    /// The ticket of something that was posted and is not picked up; not of those for
    /// `hanare_next`.
    pub fn checked(&self, word: u64) -> Result<Ticket, Error> {
        let is_stale = self.is_stale.load(Ordering::Acquire) != 0;
        match Ticket::from_word(word) {
            Some(ticket)
                if !is_stale
                    && u64::from(ticket.index()) < self.depth()
                    && self.live(ticket.index()) == word =>
            {
                Ok(ticket)
            }
            _ => error(libc::EINVAL),
        }
    }

    fn release(&self, ticket: Ticket, word: u64) -> Result<(), Error> {
        if !self.use_up(ticket, word) {
            return error(libc::EINVAL);
        }
        self.free(ticket);
        Ok(())
    }

    /// The credit of a ticket that was used up may be given out.
    fn free(&self, ticket: Ticket) {
        if self.is_shared() {
            self.give(ticket.index());
        } else {
            self.push_free(ticket.next());
        }
    }

    /// Gives up a cancelled ticket that is still in the ring: the worker that finds it gives the
    /// credit back.
    fn abandon(&self, ticket: Ticket, word: u64) -> Result<i64, Error> {
        if !self.use_up(ticket, word) {
            return error(libc::EINVAL);
        }
        if self.record(ticket.index()).abandon(ticket) {
            self.owe();
        } else {
            self.free(ticket);
        }
        Ok(-i64::from(libc::ECANCELED))
    }

    /// Waits for a result, and picks it up.
    ///
    /// # Errors
    /// ETIMEDOUT, EDEADLK, EINVAL.
    #[inline(always)]
    pub fn wait(&self, word: u64, timeout_ns: i64) -> Result<i64, Error> {
        match self.poll(word) {
            Some(result) => Ok(result as i64),
            None => self.wait_for(word, timeout_ns),
        }
    }

    #[inline(never)]
    fn wait_for(&self, word: u64, timeout_ns: i64) -> Result<i64, Error> {
        // The one producer looks for a result that comes soon, and at nothing else.
        if timeout_ns != 0 && !self.is_shared() {
            for _ in 0..EAGER {
                std::hint::spin_loop();
                if let Some(result) = self.poll(word) {
                    return Ok(result as i64);
                }
            }
        }
        self.wait_long(word, timeout_ns)
    }

    #[cold]
    #[inline(never)]
    fn wait_long(&self, word: u64, timeout_ns: i64) -> Result<i64, Error> {
        let polled = || match self.poll_any(word) {
            Err(Error(libc::EAGAIN)) => None,
            other => Some(other),
        };
        if let Some(result) = polled() {
            return result;
        }
        if worker::is_of(self) {
            return error(libc::EDEADLK);
        }
        let (start, window) = (sys::ticks(), ticks_of_ns(self.attributes.wait_spin_ns.into()));
        let deadline = Deadline::after(timeout_ns);
        while timeout_ns != 0 && sys::ticks().wrapping_sub(start) < window {
            for _ in 0..16 {
                std::hint::spin_loop();
                if let Some(result) = polled() {
                    return result;
                }
            }
        }
        loop {
            self.sleep_for(word, deadline)?;
            if let Some(result) = polled() {
                return result;
            }
        }
    }

    /// Sleeps until this may be done.
    fn sleep_for(&self, word: u64, deadline: Deadline) -> Result<(), Error> {
        let ticket = self.checked(word)?;
        let Some(left_ns) = deadline.left_ns() else { return error(libc::ETIMEDOUT) };
        self.look_for_worker();
        let record = self.record(ticket.index());
        let bell = Bell::take().filter(|bell| record.prepare_sleep(ticket, bell.number()));
        let Some(bell) = bell else {
            // It is done, or another waits for it as well, or there is no bell.
            if record.look(ticket) == Look::NotYet {
                sys::sleep_ns(LOOK_NS.min(left_ns));
            }
            return Ok(());
        };
        loop {
            let is_asked = record.is_asked(ticket);
            let Some(left_ns) = deadline.left_ns() else { break };
            let left_ns = if is_asked { left_ns.min(AGAIN_NS) } else { left_ns };
            if bell.sleep(left_ns) {
                return Ok(());
            }
            if record.is_asked(ticket) {
                self.interrupt(ticket);
            }
            if self.told_otherwise(left_ns) {
                break;
            }
        }
        if !record.leave(ticket, bell.number()) {
            bell.await_sure_ring();
        }
        Ok(())
    }

    /// A sleep without end has ended without a ring: the descriptor is none any more. Then the
    /// waiter looks from time to time.
    fn told_otherwise(&self, left_ns: u64) -> bool {
        if left_ns == u64::MAX {
            sys::sleep_ns(LOOK_NS);
        }
        left_ns == u64::MAX
    }

    /// Picks up any of those for `hanare_next`.
    ///
    /// # Errors
    /// EAGAIN if `timeout_ns` is zero, ETIMEDOUT, EDEADLK.
    pub fn next_finished(&self, timeout_ns: i64) -> Result<(u64, i64), Error> {
        if self.is_stale.load(Ordering::Acquire) != 0 {
            self.revive()?;
        }
        let deadline = Deadline::after(timeout_ns);
        let mut window = ticks_of_ns(self.attributes.wait_spin_ns.into());
        loop {
            let start = sys::ticks();
            loop {
                if let Some(found) = self.take_finished() {
                    return Ok(found);
                }
                if timeout_ns == 0 || sys::ticks().wrapping_sub(start) >= window {
                    break;
                }
                std::hint::spin_loop();
            }
            if timeout_ns == 0 {
                if !self.armed.0.is_on() || self.arm()? {
                    return error(libc::EAGAIN);
                }
                continue;
            }
            if worker::is_of(self) {
                return error(libc::EDEADLK);
            }
            let Some(left_ns) = deadline.left_ns() else { return error(libc::ETIMEDOUT) };
            self.look_for_worker();
            if self.arm()? {
                // Some other thread may take what is told of: then this one arms again.
                let _ = sys::is_readable(
                    self.told.load(Ordering::Relaxed),
                    left_ns.min(u64::from(u32::MAX) * 1000),
                );
            }
            window = 0;
        }
    }

    fn take_finished(&self) -> Option<(u64, i64)> {
        loop {
            let index = self.finished().take()?;
            let word = self.live(index);
            let ticket = Ticket::from_word(word & !IS_NEXT).filter(|_| word & IS_NEXT != 0);
            let record = ticket.and_then(|ticket| self.record(index).result(ticket));
            // If not, the ring is forged.
            if let (Some(ticket), Some(result)) = (ticket, record)
                && self.release(ticket, word).is_ok()
            {
                return Some((ticket.word(), result as i64));
            }
        }
    }

    /// The descriptor becomes readable with the next that is finished. `false`: something is there
    /// already.
    fn arm(&self) -> Result<bool, Error> {
        let _held = self.lock.hold();
        let mut told = self.told.load(Ordering::Relaxed);
        if told < 0 {
            told = sys::eventfd();
            if told < 0 {
                return Err(Error(-told));
            }
            self.told.store(told, Ordering::Release);
        }
        let untell = || {
            let _ = sys::await_ring(told);
        };
        if self.armed.0.arm(untell, || self.finished().is_empty()) {
            return Ok(true);
        }
        if self.armed.0.tells() {
            sys::ring(told);
        }
        Ok(false)
    }

    /// The descriptor that is readable while something is finished.
    ///
    /// # Errors
    /// EMFILE and the like.
    pub fn descriptor(&self) -> Result<i32, Error> {
        if self.is_stale.load(Ordering::Acquire) != 0 {
            self.revive()?;
        }
        if !self.armed.0.is_on() {
            self.arm()?;
        }
        Ok(self.told.load(Ordering::Relaxed))
    }

    /// Waits until all that was posted is done.
    ///
    /// # Errors
    /// ETIMEDOUT, EDEADLK.
    pub fn drain(&self, timeout_ns: i64) -> Result<(), Error> {
        if self.is_stale.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        if worker::is_of(self) {
            return error(libc::EDEADLK);
        }
        let (deadline, posted) = (Deadline::after(timeout_ns), self.posted());
        let mut pause_ns = 1000;
        while (self.completed().wrapping_sub(posted) as i64) < 0 {
            if deadline.left_ns().is_none() {
                return error(libc::ETIMEDOUT);
            }
            self.look_for_worker();
            sys::sleep_ns(pause_ns);
            pause_ns = (pause_ns * 2).min(1_000_000);
        }
        Ok(())
    }
}
