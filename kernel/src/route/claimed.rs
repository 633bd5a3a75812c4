//! Claims: calls on a descriptor that a driver of the LWK has claimed are executed by the driver,
//! without Linux (`device`).
//!
//! A driver says of each call whether it serves it; Linux executes the others, since the descriptor
//! is Linux' as well.

use crate::device;
use crate::device::driver::{Access, Answer, Driver};
use crate::link::services;
use crate::parts::claims::Claim;
use crate::process::thread::Thread;
use alloc::sync::Arc;
use hanare_abi::layout::USER_MAX;
use hanare_core::link::Outcome;
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::{
    __NR_fdatasync, __NR_fsync, __NR_pread64, __NR_preadv, __NR_preadv2, __NR_pwrite64,
    __NR_pwritev, __NR_pwritev2, __NR_read, __NR_write, RWF_DSYNC, RWF_HIPRI, RWF_SYNC,
};

/// Most parts of a buffer; a call with more is Linux'.
const PARTS_MAX: usize = 16;
/// Most bytes of a call: what is more Linux cuts.
const BYTES_MAX: u64 = 0x7fff_f000;
/// Flags that drivers know.
const FLAGS: u64 = (RWF_HIPRI | RWF_DSYNC | RWF_SYNC) as u64;

/// Kind of a call.
#[derive(Clone, Copy)]
enum What {
    Read,
    Write,
    Sync,
}

/// A call that a driver may serve.
struct Wanted {
    what: What,
    /// The buffer is a list of parts.
    has_parts: bool,
    /// `None`: where the file's position is.
    offset: Option<u64>,
    flags: u64,
}

impl Wanted {
    fn of(number: u32, args: &[u64; 6]) -> Option<Wanted> {
        let there = Some(args[3]);
        // Linux, too, takes the lower word alone; -1 of all is the file's position.
        let there_or_here = there.filter(|&offset| offset != u64::MAX);
        let (what, has_parts, offset, flags) = match number {
            __NR_read => (What::Read, false, None, 0),
            __NR_write => (What::Write, false, None, 0),
            __NR_preadv => (What::Read, true, there, 0),
            __NR_pwritev => (What::Write, true, there, 0),
            __NR_preadv2 => (What::Read, true, there_or_here, args[5]),
            __NR_pwritev2 => (What::Write, true, there_or_here, args[5]),
            __NR_fsync | __NR_fdatasync => (What::Sync, false, None, 0),
            _ => return None,
        };
        Some(Wanted { what, has_parts, offset, flags })
    }
}

/// Has the driver that has claimed the call's descriptor execute the call of the running thread
/// `me`. `None`: no driver has, or it leaves this call to Linux.
pub fn call(me: &Thread, number: u32, args: &[u64; 6]) -> Option<Outcome> {
    let result = if is_at_offset(number) {
        at_offset(me, number, [args[0], args[1], args[2], args[3]])
    } else {
        another(me, &Wanted::of(number, args)?, args)
    };
    result.map(Outcome::Done)
}

/// Whether a call is pread64(2) or pwrite64(2).
#[inline(always)]
pub const fn is_at_offset(number: u32) -> bool {
    matches!(number, __NR_pread64 | __NR_pwrite64)
}

/// [`call`] of pread64(2) and pwrite64(2), by the shortest way: its result.
#[inline(always)]
pub fn at_offset(me: &Thread, number: u32, args: [u64; 4]) -> Option<i64> {
    let [descriptor, buffer, bytes, offset] = args;
    // Linux says what is wrong with negative ones.
    if (bytes | offset) >> 63 != 0 {
        return None;
    }
    by_driver(me, descriptor, |driver, claim| {
        let (buffer, offset) = (UserAddr::of(buffer), Some(offset));
        let access = Access { thread: me, claim, buffer, bytes, offset, flags: 0 };
        match number == __NR_pwrite64 {
            true if claim.is_writable => driver.write(&access),
            false if claim.is_readable => driver.read(&access),
            _ => Answer::Linux,
        }
    })
}

fn another(me: &Thread, wanted: &Wanted, args: &[u64; 6]) -> Option<i64> {
    // Linux says what is wrong with negative offsets and with flags.
    if wanted.offset.unwrap_or(0) >> 63 != 0 || wanted.flags & !FLAGS != 0 {
        return None;
    }
    by_driver(me, args[0], |driver, claim| serve(me, driver, claim, wanted, args))
}

/// Has the driver serve a call that has claimed its descriptor.
#[inline(always)]
fn by_driver(
    me: &Thread,
    descriptor: u64,
    serve: impl FnOnce(&'static dyn Driver, &Claim) -> Answer,
) -> Option<i64> {
    let claim = me.process.claims.get(descriptor as u32)?;
    let answer = serve(device::driver_of(&claim), &claim);
    // Another thread has given the claim up meanwhile.
    if let Some(last) = Arc::into_inner(claim) {
        services::put_together(|| drop(last));
    }
    match answer {
        Answer::Done(result) => Some(result),
        Answer::Linux => None,
    }
}

fn serve(
    me: &Thread,
    driver: &'static dyn Driver,
    claim: &Claim,
    wanted: &Wanted,
    args: &[u64; 6],
) -> Answer {
    let is_open = match wanted.what {
        What::Read => claim.is_readable,
        What::Write => claim.is_writable,
        What::Sync => return driver.sync(me, claim),
    };
    if !is_open {
        return Answer::Linux;
    }
    let access = |buffer, bytes: u64, done: u64| {
        let offset = match wanted.offset {
            Some(offset) => Some(offset.checked_add(done)?),
            None => None,
        };
        // Linux says what is wrong with negative ones.
        let is_negative = (bytes | offset.unwrap_or(0)) >> 63 != 0;
        let (buffer, flags) = (UserAddr::of(buffer), wanted.flags as u32);
        (!is_negative).then_some(Access { thread: me, claim, buffer, bytes, offset, flags })
    };
    let serve = |access: &Access<'_>| match wanted.what {
        What::Write => driver.write(access),
        _ => driver.read(access),
    };
    if wanted.has_parts {
        let may_come_again = wanted.offset.is_some();
        return by_parts(args[1], args[2], may_come_again, driver, access, serve);
    }
    access(args[1], args[2], 0).map_or(Answer::Linux, |access| serve(&access))
}

/// Serves a call part by part, if the driver serves them all. If a part turns out to be Linux', so
/// is the whole call: it does the same again.
fn by_parts<'a>(
    list: u64,
    count: u64,
    may_come_again: bool,
    driver: &dyn Driver,
    access: impl Fn(u64, u64, u64) -> Option<Access<'a>>,
    serve: impl Fn(&Access<'_>) -> Answer,
) -> Answer {
    let mut parts = [[[0; 8]; 2]; PARTS_MAX];
    if count == 0 || count > PARTS_MAX as u64 || !(count == 1 || may_come_again) {
        return Answer::Linux;
    }
    let parts = &mut parts[..count as usize];
    if usercopy::read(UserAddr::of(list), parts.as_flattened_mut().as_flattened_mut()).is_err() {
        return Answer::Linux;
    }
    let parts = parts.iter().map(|words| words.map(u64::from_le_bytes));
    let mut all = 0_u64;
    for [start, bytes] in parts.clone() {
        // Linux looks at the addresses of all parts first.
        let is_users = start.checked_add(bytes).is_some_and(|end| end <= USER_MAX);
        let is_served =
            is_users && access(start, bytes, all).is_some_and(|access| driver.serves(&access));
        all = all.saturating_add(bytes);
        if !is_served || all > BYTES_MAX {
            return Answer::Linux;
        }
    }
    let mut done = 0;
    for [start, bytes] in parts.filter(|&[_, bytes]| bytes != 0 || all == 0) {
        let Some(part) = access(start, bytes, done as u64) else { return Answer::Linux };
        match serve(&part) {
            Answer::Done(now @ 0..) => {
                done += now;
                if (now as u64) < bytes {
                    break;
                }
            }
            Answer::Done(error) => return Answer::Done(if done > 0 { done } else { error }),
            Answer::Linux => return Answer::Linux,
        }
    }
    Answer::Done(done)
}
