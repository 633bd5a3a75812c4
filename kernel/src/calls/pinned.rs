//! Calls by which a driver of Linux' pins memory of the program for a device: registrations of
//! RDMA, VFIO, AF_XDP, `io_uring`.
//!
//! From 6.5 on Linux refuses to pin pages of the proxy's mapping for long, since that mapping is
//! told of writes: the call is `EFAULT`. Nothing says of which pages. So the mappings that the
//! arguments name are made pinnable, and the call is made again; if that does not help, the same
//! with all mappings (`docs/devices.md`).

use crate::calls::context::Context;
use crate::mm::Caller;
use crate::mm::change::pinnable::{is_private, make, ranges};
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::pins::{self, Pins};
use hanare_hal::usercopy::{self, UserAddr};

/// Number of words of an argument that are looked at.
const WORDS: usize = 64;
/// Number of words that are looked at where one of these leads to.
const WORDS_BEHIND: usize = 16;
/// Most addresses that are kept of these.
const NAMED_MAX: usize = 64;

/// Addresses that the arguments of a call may name.
struct Named {
    addresses: [u64; NAMED_MAX],
    count: usize,
}

impl Named {
    /// Addresses in the structure at an address, and in private memory that these lead to: a look
    /// at a register of a device may change it.
    fn at(p: &Caller<'_>, block: u64) -> Named {
        let mut named = Named { addresses: [0; NAMED_MAX], count: 0 };
        for word in words(block, WORDS) {
            named.add(word);
            if is_private(p, word) {
                words(word, WORDS_BEHIND).for_each(|word| named.add(word));
            }
        }
        named
    }

    fn add(&mut self, word: u64) {
        if !self.addresses[..self.count].contains(&word)
            && let Some(place) = self.addresses.get_mut(self.count)
        {
            (*place, self.count) = (word, self.count + 1);
        }
    }

    fn is_in(&self, range: PageRange) -> bool {
        self.addresses[..self.count].iter().any(|&address| range.contains(address))
    }
}

/// Words of the program's memory from an address on, as far as they are there.
fn words(at: u64, count: usize) -> impl Iterator<Item = u64> {
    (0..count as u64).map_while(move |i| {
        let mut word = [0; 8];
        let at = at.checked_add(8 * i).filter(|at| at.is_multiple_of(8))?;
        usercopy::read(UserAddr::of(at), &mut word).ok()?;
        Some(u64::from_le_bytes(word))
    })
}

/// Makes a call that may pin memory.
pub fn call(call: &Context<'_>) -> Result<u64> {
    match call.forward() {
        Err(errno::EFAULT) => again(call),
        result => result,
    }
}

/// Makes it again where Linux may have refused that.
#[cold]
fn again(call: &Context<'_>) -> Result<u64> {
    let Some(Pins { block, device }) = pins::of_call(call.row.number.into(), &call.args) else {
        return Err(errno::EFAULT);
    };
    if words(block & !7, 1).next().is_none() {
        return Err(errno::EFAULT); // the argument itself is not there
    }
    let p = &call.thread.caller();
    let named = Named::at(p, block);
    // What counts as pinnable may not be so any more: it has been Linux' mapping in between.
    for (only_named, only_new) in [(true, true), (true, false), (false, true)] {
        let found = ranges(p, |mm, range| {
            (!only_named || named.is_in(range)) && (!only_new || !mm.is_pinnable(range))
        })?;
        if found.is_empty() {
            continue;
        }
        for range in found {
            match make(p, range, device) {
                Ok(()) => {}
                Err(errno::EFAULT) => {} // something else is mapped there by now
                Err(_) => return Err(errno::EFAULT),
            }
        }
        match call.forward() {
            Err(errno::EFAULT) => {}
            result => return result,
        }
    }
    Err(errno::EFAULT)
}
