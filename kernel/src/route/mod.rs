//! Routes of delegated calls: which server executes a call, and how its arguments get there
//! (`docs/link.md`).
//!
//! This is the one place that chooses. [`hanare_core::link::route`] decides what a row of the table
//! allows, and which of it a caller takes. There is a file here for each server and for each way of
//! the arguments. The server `direct`, a thread's own worker, is `link/direct.rs`, which the LWK
//! uses for calls of its own, too. Calls to which nothing is special go by [`plain`],
//! [`with_pointers`] and [`early`], which `calls/dispatch.rs` enters by number.

pub mod bounced;
pub mod boxed;
pub mod claimed;
pub mod copied;
mod mapped;
mod packed;
pub mod pooled;
mod program;
mod result;
mod server;
pub mod utility;

use crate::device;
use crate::link::direct;
use crate::process::thread::{self, Thread};
use hanare_core::claims::Descriptors;
use hanare_core::errno::{self, Result};
use hanare_core::link::route::{self, Arguments, Caller, Route, Server};
use hanare_core::link::{Call, Outcome};
use hanare_core::syscalls::{self, Row, pointers};
use hanare_hal::traps::{self, Regs};
use linux_raw_sys::general::{
    __NR_creat, __NR_fcntl, __NR_ioctl, __NR_open, __NR_openat, __NR_openat2, F_SETFL,
};

/// `ioctl` of any file: whether it waits, and whether it sends signals (`asm-generic/ioctls.h`).
const FIONBIO: u32 = 0x5421;
const FIOASYNC: u32 = 0x5452;

/// The entry for a call in which the LWK has no part, by the routes and pointers of its row.
pub const fn entry(row: &Row) -> traps::Call {
    if opens(row.number as u32) {
        opening
    } else if row.number as u32 == __NR_fcntl {
        fcntl
    } else if route::of_row(row).has(Route::BOUNCED) {
        early
    } else if pointers::of_call(row.number as usize).is_empty() {
        plain
    } else {
        with_pointers
    }
}

/// Has a call executed that refers to no memory.
extern "C" fn plain(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, regs: &mut Regs) -> u64 {
    let me = thread::current();
    if me.process.pool.is_special() {
        return by_number(a, b, c, d, e, f, regs);
    }
    at_once(me, regs.orig_rax as u32, [a, b, c, d, e, f], false)
}

/// Has a call executed that has pointers.
extern "C" fn with_pointers(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    regs: &mut Regs,
) -> u64 {
    let me = thread::current();
    if me.process.pool.is_special() {
        return by_number(a, b, c, d, e, f, regs);
    }
    at_once(me, regs.orig_rax as u32, [a, b, c, d, e, f], true)
}

/// Like [`with_pointers`], for calls that programs make when they begin.
extern "C" fn early(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, regs: &mut Regs) -> u64 {
    let me = thread::current();
    if me.process.memory().is_indirect() {
        return by_number(a, b, c, d, e, f, regs);
    }
    with_pointers(a, b, c, d, e, f, regs)
}

/// Whether a call opens a file by its name.
const fn opens(number: u32) -> bool {
    matches!(number, __NR_open | __NR_openat | __NR_openat2 | __NR_creat)
}

/// Like [`early`], for calls that open files, which drivers of the LWK may claim.
extern "C" fn opening(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, regs: &mut Regs) -> u64 {
    let result = early(a, b, c, d, e, f, regs);
    if device::are_used() && result as i64 >= 0 {
        device::opened(thread::current(), result as u32);
    }
    result
}

/// Like [`with_pointers`], for fcntl(2): claims go by flags of files.
extern "C" fn fcntl(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, regs: &mut Regs) -> u64 {
    if changes_flags(__NR_fcntl, b) {
        // Another descriptor may be the same open file.
        let me = thread::current();
        return device::changing(me, Descriptors::ALL, || with_pointers(a, b, c, d, e, f, regs));
    }
    with_pointers(a, b, c, d, e, f, regs)
}

/// Whether a call changes the flags of a file, which may be claimed.
#[inline(always)]
pub fn changes_flags(number: u32, operation: u64) -> bool {
    let changes = match number {
        __NR_fcntl => operation as u32 == F_SETFL,
        __NR_ioctl => matches!(operation as u32, FIONBIO | FIOASYNC),
        _ => false,
    };
    changes && device::are_used()
}

#[inline(always)]
fn returned(result: Result<u64>) -> u64 {
    result.unwrap_or_else(|e| e.as_return() as u64)
}

/// Has the own worker execute a call with mapped arguments.
#[inline(always)]
fn at_once(me: &Thread, number: u32, args: [u64; 6], has_pointers: bool) -> u64 {
    if has_pointers {
        mapped::offer(me, number, &args);
    }
    returned(result::of(me, number, &args, direct::call_at_once(me, Call::new(number, args))))
}

/// Has a call executed that does not go directly. What is claimed is to be quick.
#[cold]
#[inline(never)] // calls that go directly do not pay for it
extern "C" fn by_number(a: u64, b: u64, c: u64, d: u64, _: u64, _: u64, regs: &mut Regs) -> u64 {
    let (me, number) = (thread::current(), regs.orig_rax as u32);
    if me.process.pool.has_claims()
        && claimed::is_at_offset(number)
        && let Some(result) = claimed::at_offset(me, number, [a, b, c, d])
    {
        return result as u64;
    }
    by_fitting(me, number, regs.arguments())
}

/// Has a call executed by the route that fits it. One at an offset no driver has executed.
#[inline(never)] // nor do claimed ones
fn by_fitting(me: &Thread, number: u32, args: [u64; 6]) -> u64 {
    if !claimed::is_at_offset(number)
        && let Some(result) = by_driver(me, number, &args)
    {
        return returned(result);
    }
    returned(match syscalls::row(number.into()) {
        Some(row) => chosen(me, row, &args),
        None => Err(errno::ENOSYS),
    })
}

/// Has the driver that has claimed the call's descriptor execute it, if one has, and does. The rest
/// of the caller's state does not matter then.
fn by_driver(me: &Thread, number: u32, args: &[u64; 6]) -> Option<Result<u64>> {
    if !me.process.pool.has_claims() {
        return None;
    }
    claimed::call(me, number, args).map(|outcome| result::of(me, number, args, outcome))
}

/// Has a call of the running thread `me` executed by the route that fits it; an interruption is
/// noted for delivery.
pub fn call(me: &Thread, row: &Row, args: [u64; 6]) -> Result<u64> {
    let number = row.number.into();
    if changes_flags(number, args[1]) {
        return device::changing(me, Descriptors::ALL, || fitting(me, row, args));
    }
    let result = fitting(me, row, args);
    if let Ok(descriptor) = result
        && opens(number)
        && device::are_used()
    {
        device::opened(me, descriptor as u32);
    }
    result
}

fn fitting(me: &Thread, row: &Row, args: [u64; 6]) -> Result<u64> {
    let number = row.number.into();
    if me.process.memory().is_indirect() || me.process.pool.is_special() {
        return by_driver(me, number, &args).unwrap_or_else(|| chosen(me, row, &args));
    }
    mapped::offer(me, number, &args);
    result::of(me, number, &args, direct::call_at_once(me, Call::new(number, args)))
}

/// Has the own worker of the running thread `me` execute a call whose arguments it can use as they
/// are, since they lie in the scratch page already.
pub fn by_worker(me: &Thread, row: &Row, args: [u64; 6]) -> Result<u64> {
    let number = row.number.into();
    result::of(me, number, &args, direct::call(me, Call::new(number, args)))
}

/// Has a call executed by the first route that is open to it.
fn chosen(me: &Thread, row: &Row, args: &[u64; 6]) -> Result<u64> {
    let call = Call::new(row.number.into(), *args);
    let routes = route::of_number(call.nr);
    let mut caller = state(me, &call);
    loop {
        let route = route::choose(routes, caller);
        if let Some(outcome) = by_route(me, route, row, &call) {
            return result::by(me, call.nr, args, outcome);
        }
        caller = caller.without(route);
    }
}

/// The state of the caller on which the route of `call` depends.
fn state(me: &Thread, call: &Call) -> Caller {
    let (p, pool) = (&me.process, &me.process.pool);
    Caller {
        is_packed: pool.is_packed(),
        has_claims: false, // tried before
        copies: p.memory().copies(),
        bounces: p.memory().is_indirect() && !p.memory().copies(),
        has_box: boxed::is_open(me, call),
    }
}

/// The outcome of a call by `route`, and whether a server of the request box executed it, which a
/// signal interrupted. `None`: the route is not open to this call, and no server has begun it.
fn by_route(me: &Thread, route: Route, row: &Row, call: &Call) -> Option<(Outcome, bool)> {
    let own = |outcome| (outcome, false);
    match (route.server(), route.arguments()) {
        (Server::Pooled, _) | (_, Arguments::Packed) => {
            Some(own(pooled::call(me, call.nr, &call.args)))
        }
        (Server::Claimed, _) => claimed::call(me, call.nr, &call.args).map(own),
        (_, Arguments::Bounced) => bounced::call(me, row, &call.args).map(own),
        (server, Arguments::Copied) => copied::call(me, server, call.nr, &call.args),
        (server, Arguments::Mapped) => {
            mapped::offer(me, call.nr, &call.args);
            Some(server::execute(me, server, call, call))
        }
    }
}
