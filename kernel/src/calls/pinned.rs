//! Calls by which a driver of Linux' pins memory of the program for a device: registrations of
//! RDMA, VFIO, AF_XDP, `io_uring`.
//!
//! From 6.5 on Linux refuses to pin pages of the proxy's mapping for long, since that mapping is
//! told of writes. And of a page that is pinned for reading only nobody tells the LWK. So the
//! mappings that the arguments of such a call name are made pinnable first. Of other calls, any of
//! which may pin, only what they have not done is known: they are `EFAULT`, and nothing says of
//! which pages. Then the same is done, and the call is made again; if that does not help, with all
//! mappings (`docs/devices.md`).

use crate::calls::context::Context;
use crate::mm::Caller;
use crate::mm::change::pinnable::{Pinning, give_back, is_allowed, is_private, make, others};
use alloc::vec::Vec;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::link::ENDING;
use hanare_core::pagerange::PageRange;
use hanare_core::pins::{self, Pins};
use hanare_hal::paging::SMALL;
use hanare_hal::usercopy::{self, UserAddr};

/// Number of words of an argument that are looked at.
const WORDS: usize = 64;
/// Number of words that are looked at where one of these leads to.
const WORDS_BEHIND: usize = 16;
/// Most addresses that are kept of these.
const NAMED_MAX: usize = 2 * WORDS;
/// Most ranges that are made pinnable for one call.
const RANGES_MAX: usize = 1024;

/// Addresses that the arguments of a call may name.
struct Named {
    addresses: [u64; NAMED_MAX],
    count: usize,
}

impl Named {
    /// Addresses in the structure at an address, and in private memory that these lead to: a look
    /// at a register of a device may change it.
    fn at(p: &Caller<'_>, pins: &Pins) -> Named {
        let mut named = Named { addresses: [0; NAMED_MAX], count: 0 };
        // Operations of RDMA name the size of their head only.
        let is_sized = pins.bytes > 0 && !pins.is_known;
        let words = if is_sized { pins.bytes.div_ceil(8) as usize } else { WORDS };
        named.add_words::<WORDS>(pins.block, words);
        for i in 0..named.count {
            if is_private(p, named.addresses[i]) {
                named.add_words::<WORDS_BEHIND>(named.addresses[i], WORDS_BEHIND);
            }
        }
        named
    }

    /// Up to `count` words around an address and behind it, as far as they are there.
    fn add_words<const MOST: usize>(&mut self, at: u64, count: usize) {
        let (start, count, mut words) = (at & !7, count.min(MOST), [[0; 8]; MOST]);
        let in_page = ((SMALL - start % SMALL) / 8) as usize;
        let there = [count, count.min(in_page)].into_iter().find(|&count| {
            usercopy::read(UserAddr::of(start), words[..count].as_flattened_mut()).is_ok()
        });
        for word in &words[..there.unwrap_or(0)] {
            self.add(u64::from_le_bytes(*word));
        }
    }

    fn add(&mut self, word: u64) {
        if (USER_MIN..USER_MAX).contains(&word)
            && !self.addresses[..self.count].contains(&word)
            && let Some(place) = self.addresses.get_mut(self.count)
        {
            (*place, self.count) = (word, self.count + 1);
        }
    }

    fn is_in(&self, range: PageRange) -> bool {
        self.addresses[..self.count].iter().any(|&address| range.contains(address))
    }
}

/// Makes a call that may pin memory.
pub fn call(call: &Context<'_>) -> Result<u64> {
    let Some(pins) = pins::of_call(call.row.number.into(), &call.args) else {
        return call.forward();
    };
    let known = pins.is_known.then(|| Pinning::begin(&call.thread.caller()));
    if known.is_some() {
        prepare(call, &pins)?;
    }
    match call.forward() {
        Err(error) if pins.may_be(error) => again(call, &pins, error, known),
        result => result,
    }
}

/// Makes pinnable what a call names that is known to pin.
///
/// # Errors
/// `ENOMEM`
#[cold]
fn prepare(call: &Context<'_>, pins: &Pins) -> Result<()> {
    let p = &call.thread.caller();
    let named = Named::at(p, pins);
    let mut made = Vec::new();
    for range in others(p, |range| named.is_in(range))? {
        match make(p, range, pins.device, false, &mut made) {
            Ok(()) => {}
            // Linux says what is wrong, or the thread ends.
            Err(errno::ENOTTY | ENDING) => break,
            Err(_) => return Err(errno::ENOMEM),
        }
    }
    Ok(())
}

/// Makes a call again where Linux may have refused to pin. What was made pinnable in vain is mapped
/// as ever. `pinning`: the call is one that is known to pin.
#[cold]
fn again(
    call: &Context<'_>,
    pins: &Pins,
    error: Errno,
    pinning: Option<Pinning<'_>>,
) -> Result<u64> {
    let p = &call.thread.caller();
    let block = PageRange::around(pins.block, pins.block.saturating_add(pins.bytes.max(1)));
    if !block.is_some_and(|block| is_allowed(p, block, pins.is_answered)) {
        return Err(error); // the argument itself is not there
    }
    let _pinning = pinning.unwrap_or_else(|| Pinning::begin(p));
    let named = Named::at(p, pins);
    let (mut made, mut result) = (Vec::new(), Err(error));
    for only_named in [true, false] {
        let found = others(p, |range| !only_named || named.is_in(range)).unwrap_or_default();
        if found.is_empty() || found.len() > RANGES_MAX {
            continue;
        }
        let mut is_refused = |range| make(p, range, pins.device, true, &mut made).is_err();
        if found.into_iter().any(&mut is_refused) {
            break;
        }
        result = call.forward();
        if !matches!(result, Err(error) if pins.may_be(error)) {
            break;
        }
    }
    if result.is_err() {
        for range in made {
            let _ = give_back(p, range);
        }
    }
    result
}
