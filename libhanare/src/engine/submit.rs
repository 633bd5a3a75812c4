//! How something is posted.

use std::sync::atomic::Ordering;

use hanare_ikc::posted::{Submission, Ticket};

use super::bells::Bell;
use super::queue::Queue;
use super::time::ticks_of_ns;
use super::what::{What, flags};
use super::{Error, IS_NEXT, error};
use crate::calls::{AT_ONCE, POSTED, class};
use crate::sys::{self, Links, Vouched};

impl Queue {
    /// Posts a call: its ticket as a word. It is the short way that posts it, unless anything is
    /// unusual.
    #[inline(always)]
    pub fn submit(
        &self,
        vouched: Vouched,
        what: u64,
        a: u64,
        b: u64,
        c: u64,
        d: u64,
        rest: Rest,
    ) -> i64 {
        let classes = self.short.get();
        // Numbers with flags are beyond the table.
        if what >= classes.len() as u64 || classes[what as usize] != POSTED || !self.has_free() {
            return submit_long(self, vouched, what, a, b, c, d, &rest);
        }
        let args = |index| [a, b, c, d].get(index).copied().unwrap_or_else(|| rest.get(index));
        let filled = self.ring().fill(vouched, self.next_position(), args);
        let ticket = self.next_free();
        filled.post(What::plain(what).0, ticket);
        if self.idle.0.has_no_sleeper() { ticket as i64 } else { wake_for(self, ticket) }
    }

    fn submit_any(&self, vouched: Vouched, what: u64, args: [u64; 6]) -> Result<i64, Error> {
        let given = checked_flags(what)?;
        let nr = what as u16;
        match class(nr.into()) {
            POSTED => self.post(vouched, What::call(nr, given), what, args),
            AT_ONCE => self.make_at_once(vouched, nr, what, args),
            _ => error(libc::EINVAL),
        }
    }

    /// Posts a function: its ticket as a word. The short way, as of [`Queue::submit`].
    #[inline(always)]
    pub fn call_short(
        &self,
        vouched: Vouched,
        given: u64,
        function: u64,
        a: u64,
        b: u64,
        c: u64,
        rest: Rest,
    ) -> i64 {
        let classes = self.short.get();
        // Call 0 is in the one table, and not in the other.
        if given != 0 || function == 0 || classes[0] != POSTED || !self.has_free() {
            return call_long(self, vouched, given, function, a, b, c, &rest);
        }
        let args =
            |index| [function, a, b, c].get(index).copied().unwrap_or_else(|| rest.get(index));
        let filled = self.ring().fill(vouched, self.next_position(), args);
        let ticket = self.next_free();
        filled.post(What::function(0).0, ticket);
        if self.idle.0.has_no_sleeper() { ticket as i64 } else { wake_for(self, ticket) }
    }

    /// One of several producers posts without flags: the short way. `None`: that is not to be used,
    /// or there is no credit.
    #[inline(always)]
    fn post_shared(&self, vouched: Vouched, what: What, args: &[u64; 6]) -> Option<i64> {
        if self.is_short_shared.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let index = self.credits().take()?;
        let ticket = self.live(index);
        self.post_in(vouched, None, &Submission { what: what.0, ticket, args: *args });
        if !self.idle.0.has_no_sleeper() {
            self.wake_sleeper();
        }
        Some(ticket as i64)
    }

    /// Posts a function.
    pub fn call(
        &self,
        vouched: Vouched,
        what: u64,
        function: u64,
        args: [u64; 5],
    ) -> Result<i64, Error> {
        let given = checked_flags(what)?;
        if what as u16 != 0 || function == 0 {
            return error(libc::EINVAL);
        }
        let [a, b, c, d, e] = args;
        self.post(vouched, What::function(given), what, [function, a, b, c, d, e])
    }

    /// Posts a chain.
    ///
    /// # Errors
    /// EINVAL: a link is not one that workers make, or takes a result that is not there.
    pub fn submit_chain(&self, what: u64, links: Links) -> Result<i64, Error> {
        let given = checked_flags(what)?;
        if what as u16 != 0 || !links.are_good() {
            return error(libc::EINVAL);
        }
        let (vouched, args) = links.into_parts();
        self.post(vouched, What::chain(given), what, args)
    }

    /// Posts with a waker.
    pub fn post_with_waker(
        &self,
        vouched: Vouched,
        what: What,
        args: [u64; 6],
    ) -> Result<i64, Error> {
        self.post(vouched, what, flags::BLOCK, args)
    }

    fn post(&self, vouched: Vouched, what: What, given: u64, args: [u64; 6]) -> Result<i64, Error> {
        if self.is_stale.load(Ordering::Acquire) != 0 {
            self.revive()?;
        }
        let lane = match given & flags::KEYED {
            0 => None,
            _ => Some(self.lane((given >> 32) as u32)?),
        };
        let ticket = self.take_ticket(given & flags::BLOCK != 0)?;
        if what.is_detached() {
            self.set_live(ticket.index(), ticket.next().word());
            self.owe();
        } else if what.is_for_next() {
            self.set_live(ticket.index(), ticket.word() | IS_NEXT);
        }
        if what.is_before_exit() {
            self.at_exit.fetch_add(1, Ordering::Relaxed);
        }
        let submission = Submission { what: what.0, ticket: ticket.word(), args };
        self.post_in(vouched, lane.map(|(_, lane)| lane), &submission);
        match lane {
            Some((worker, _)) if self.idle.0.wake(worker) => self.workers[worker as usize].wake(),
            Some(_) => {}
            None => self.wake_sleeper(),
        }
        Ok(if what.is_detached() { 0 } else { ticket.word() as i64 })
    }

    /// The calling thread makes a call that acts on the thread that makes it.
    fn make_at_once(
        &self,
        vouched: Vouched,
        nr: u16,
        what: u64,
        args: [u64; 6],
    ) -> Result<i64, Error> {
        if self.is_stale.load(Ordering::Acquire) != 0 {
            self.revive()?;
        }
        let is_detached = what & flags::DETACH != 0;
        let ticket = match is_detached {
            true => None,
            false => Some(self.take_ticket(what & flags::BLOCK != 0)?),
        };
        let result = sys::make_at_once(vouched, nr.into(), args);
        let Some(ticket) = ticket else {
            if What::plain(nr.into()).is_error(result) {
                self.errors_at_once.fetch_add(1, Ordering::Relaxed);
                self.last_error.store(-result as i32, Ordering::Relaxed);
            }
            return Ok(0);
        };
        self.record(ticket.index()).complete_at_once(ticket, result as u64);
        if what & flags::NEXT != 0 {
            self.set_live(ticket.index(), ticket.word() | IS_NEXT);
            self.finished().push(ticket.index());
            if self.armed.0.tells() {
                sys::ring(self.told.load(Ordering::Relaxed));
            }
        }
        Ok(ticket.word() as i64)
    }

    /// A credit's next ticket.
    pub fn take_ticket(&self, blocks: bool) -> Result<Ticket, Error> {
        if let Some(ticket) = self.try_ticket() {
            return Ok(ticket);
        }
        if !blocks && !self.is_blocking() {
            return error(libc::EAGAIN);
        }
        let (start, window) = (sys::ticks(), ticks_of_ns(self.attributes.wait_spin_ns.into()));
        while sys::ticks().wrapping_sub(start) < window {
            std::hint::spin_loop();
            if let Some(ticket) = self.try_ticket() {
                return Ok(ticket);
            }
        }
        loop {
            if !self.is_shared() && self.owed() == 0 {
                return error(libc::EDEADLK);
            }
            if let Some(ticket) = self.sleep_for_room() {
                return Ok(ticket);
            }
        }
    }

    fn sleep_for_room(&self) -> Option<Ticket> {
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        let enter = |bell: &Bell| {
            let number = u32::from(bell.number());
            self.room_bell.compare_exchange(0, number, order.0, order.1).is_ok()
        };
        let Some(bell) = Bell::take().filter(enter) else {
            // Another thread waits already.
            sys::sleep_ns(100_000);
            return self.try_ticket();
        };
        let ticket = self.try_ticket();
        if ticket.is_none() {
            while !bell.sleep(u64::MAX) && self.try_ticket().is_none() {
                sys::sleep_ns(100_000);
            }
            return self.try_ticket();
        }
        let number = u32::from(bell.number());
        if self.room_bell.compare_exchange(number, 0, order.0, order.1).is_err() {
            bell.await_sure_ring();
        }
        ticket
    }

    fn try_ticket(&self) -> Option<Ticket> {
        if self.is_shared() {
            let index = self.credits().take()?;
            return Ticket::from_word(self.live(index));
        }
        self.pop_free()
            .or_else(|| {
                self.collect();
                self.pop_free()
            })
            .and_then(Ticket::from_word)
    }
}

/// The last two arguments of a call. By the ABI of C they lie in memory, one behind the other, as
/// two numbers would of which six are in front. Numbers would be loaded into registers at the
/// beginning; a packed structure is loaded when it is needed.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug)]
pub struct Rest(pub u64, pub u64);

impl Rest {
    /// Argument 4 or 5.
    #[inline(always)]
    const fn get(&self, index: usize) -> u64 {
        if index == 4 { self.0 } else { self.1 }
    }
}

#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "the promise has no bytes, and C does not call it")]
extern "C" fn submit_long(
    queue: &Queue,
    vouched: Vouched,
    what: u64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    rest: &Rest,
) -> i64 {
    let args = [a, b, c, d, rest.0, rest.1];
    if class(what) == POSTED
        && let Some(ticket) = queue.post_shared(vouched, What::plain(what), &args)
    {
        return ticket;
    }
    as_word(queue.submit_any(vouched, what, args))
}

#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as above")]
extern "C" fn call_long(
    queue: &Queue,
    vouched: Vouched,
    given: u64,
    function: u64,
    a: u64,
    b: u64,
    c: u64,
    rest: &Rest,
) -> i64 {
    if given == 0
        && function != 0
        && let Some(ticket) =
            queue.post_shared(vouched, What::function(0), &[function, a, b, c, rest.0, rest.1])
    {
        return ticket;
    }
    as_word(queue.call(vouched, given, function, [a, b, c, rest.0, rest.1]))
}

#[cold]
#[inline(never)]
extern "C" fn wake_for(queue: &Queue, ticket: u64) -> i64 {
    queue.wake_sleeper();
    // Otherwise the compiler keeps the ticket over the call, and pays for it in each submission.
    std::hint::black_box(ticket) as i64
}

/// A result as the functions of C return it.
#[must_use]
pub fn as_word(result: Result<i64, Error>) -> i64 {
    result.unwrap_or_else(|Error(number)| -i64::from(number))
}

/// A result as other functions of C return it.
#[must_use]
pub fn as_int(result: Result<(), Error>) -> i32 {
    result.map_or_else(|Error(number)| -number, |()| 0)
}

/// The flags of what is posted.
fn checked_flags(what: u64) -> Result<u64, Error> {
    let given = what & 0xffff_0000;
    let has_key = given & flags::KEYED != 0;
    let is_good = given & !flags::ALL == 0
        && (has_key || what >> 32 == 0)
        && given & (flags::DETACH | flags::NEXT) != flags::DETACH | flags::NEXT;
    if is_good { Ok(given) } else { error(libc::EINVAL) }
}
