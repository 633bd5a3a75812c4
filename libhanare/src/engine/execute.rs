//! How a worker executes what it has taken.

use std::sync::atomic::AtomicU32;

use super::sys;
use crate::calls::{POSTED, class};

/// Kind and flags of a submission; of a call its number, too.
#[derive(Clone, Copy, Debug)]
pub struct What(pub u32);

const KIND_SHIFT: u32 = 16;
const KIND: u32 = 3 << KIND_SHIFT;
const CALL: u32 = 0;
const FUNCTION: u32 = 1 << KIND_SHIFT;
const CHAIN: u32 = 2 << KIND_SHIFT;
const DETACHED: u32 = 1 << 20;
const FOR_NEXT: u32 = 1 << 21;
const BEFORE_EXIT: u32 = 1 << 22;
const WAKER: u32 = 1 << 23;

/// Flags of hanare.h, which begin at bit 16.
pub mod flags {
    /// There is no ticket.
    pub const DETACH: u64 = 1 << 16;
    /// The result is for `hanare_next`.
    pub const NEXT: u64 = 1 << 17;
    /// Waits for room.
    pub const BLOCK: u64 = 1 << 18;
    /// exit(3) waits for it.
    pub const AT_EXIT: u64 = 1 << 19;
    /// The submission has a key, in the upper half.
    pub const KEYED: u64 = 1 << 20;
    /// A waker is told. Of the library itself.
    pub const WAKER: u64 = 1 << 21;
    /// All that programs may use.
    pub const ALL: u64 = DETACH | NEXT | BLOCK | AT_EXIT | KEYED;
}

impl What {
    const fn with_flags(word: u32, given: u64) -> Self {
        let mut word = word;
        let pairs = [
            (flags::DETACH, DETACHED),
            (flags::NEXT, FOR_NEXT),
            (flags::AT_EXIT, BEFORE_EXIT),
            (flags::WAKER, WAKER),
        ];
        let mut i = 0;
        while i < pairs.len() {
            if given & pairs[i].0 != 0 {
                word |= pairs[i].1;
            }
            i += 1;
        }
        Self(word)
    }

    /// A call, without flags.
    #[must_use]
    #[inline(always)]
    pub const fn plain(nr: u64) -> Self {
        Self(nr as u32)
    }

    /// A call.
    #[must_use]
    pub const fn call(nr: u16, given: u64) -> Self {
        Self::with_flags(CALL | nr as u32, given)
    }

    /// A function: its address and its arguments.
    #[must_use]
    pub const fn function(given: u64) -> Self {
        Self::with_flags(FUNCTION, given)
    }

    /// A chain: where its links are, and how many.
    #[must_use]
    pub const fn chain(given: u64) -> Self {
        Self::with_flags(CHAIN, given)
    }

    /// Whether there is more to do for it than to write its result.
    #[must_use]
    #[inline(always)]
    pub const fn has_flags(self) -> bool {
        self.0 >= DETACHED
    }

    /// Whether the submission has no ticket.
    #[must_use]
    pub const fn is_detached(self) -> bool {
        self.0 & DETACHED != 0
    }

    /// Whether the result is for `hanare_next`.
    #[must_use]
    pub const fn is_for_next(self) -> bool {
        self.0 & FOR_NEXT != 0
    }

    /// Whether exit(3) waits for the submission.
    #[must_use]
    pub const fn is_before_exit(self) -> bool {
        self.0 & BEFORE_EXIT != 0
    }

    /// A future waits for it.
    #[must_use]
    pub const fn has_waker(self) -> bool {
        self.0 & WAKER != 0
    }

    /// Whether this is an error as its result.
    #[must_use]
    pub const fn is_error(self, result: i64) -> bool {
        self.0 & KIND != FUNCTION && result < 0 && result >= -4095
    }
}

/// Ends the program where a function is left by an exception, a panic, or the end of its thread (`pthread_exit`). A frame of the ABI
/// "C" does so as well, but lets the last one pass: so this must not be inlined into one.
struct NoWayOut;

impl Drop for NoWayOut {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Calls a function of the program.
#[inline(never)]
fn call_function(args: &[u64; 6]) -> i64 {
    type Function = extern "C-unwind" fn(u64, u64, u64, u64, u64) -> i64;
    if args[0] == 0 {
        return -i64::from(libc::EFAULT);
    }
    // SAFETY: the poster says that it is a function of so many arguments at most; one of fewer
    // ignores registers.
    let function = unsafe { std::mem::transmute::<usize, Function>(args[0] as usize) };
    let no_way_out = NoWayOut;
    let result = function(args[1], args[2], args[3], args[4], args[5]);
    std::mem::forget(no_way_out);
    result
}

/// Makes a call, if it is one that workers make.
#[inline(always)]
fn make_call(asked: &AtomicU32, nr: u64, args: &[u64; 6]) -> i64 {
    if class(nr) != POSTED {
        return -i64::from(libc::EINVAL);
    }
    // SAFETY: the poster answers for its arguments, as for those of a call of its own.
    unsafe { sys::call_unless(asked, nr, args) }
}

/// Executes it: the result. Calls are interrupted when `asked` is not zero.
#[inline(always)]
#[must_use]
pub fn execute(what: What, args: &[u64; 6], asked: &AtomicU32) -> i64 {
    match what.0 & KIND {
        CALL => make_call(asked, u64::from(what.0 as u16), args),
        FUNCTION => call_function(args),
        // SAFETY: the poster says that they lie there until it is done.
        CHAIN => unsafe { execute_chain(args[0] as *mut Link, args[1] as usize, asked) },
        _ => -i64::from(libc::EINVAL),
    }
}

/// `struct hanare_link`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "as in hanare.h")]
pub struct Link {
    pub nr: u16,
    pub from: [u8; 6],
    pub flags: u32,
    pub reserved: u32,
    pub args: [u64; 6],
    pub result: i64,
}

/// The link is executed after an error, too.
const ALWAYS: u32 = 1;
/// Links of a chain, at most.
pub const LINKS_MAX: usize = 255;

impl Link {
    /// Whether link `index` of a chain may be posted.
    #[must_use]
    pub fn is_good(&self, index: usize) -> bool {
        class(self.nr.into()) == POSTED
            && self.flags & !ALWAYS == 0
            && self.reserved == 0
            && self.from.iter().all(|&from| usize::from(from) <= index)
    }
}

const fn is_error(result: i64) -> bool {
    result < 0 && result >= -4095
}

/// # Safety
/// So many links lie there, and stay until this returns.
unsafe fn execute_chain(links: *mut Link, count: usize, asked: &AtomicU32) -> i64 {
    let (mut first_error, mut last) = (0, 0);
    for index in 0..count.min(LINKS_MAX) {
        // SAFETY: the caller's. The program may write to it meanwhile: it is read once, and checked again.
        let link = unsafe { links.add(index).read_volatile() };
        let mut args = link.args;
        let mut has_all = link.is_good(index);
        for (arg, from) in args.iter_mut().zip(link.from) {
            let from = usize::from(from);
            if from != 0 && from <= index {
                // SAFETY: one of those before.
                let earlier = unsafe { (&raw const (*links.add(from - 1)).result).read_volatile() };
                has_all &= !is_error(earlier);
                *arg = earlier as u64;
            }
        }
        let result = if !link.is_good(index) {
            -i64::from(libc::EINVAL)
        } else if has_all && (first_error == 0 || link.flags & ALWAYS != 0) {
            make_call(asked, link.nr.into(), &args)
        } else {
            -i64::from(libc::ECANCELED)
        };
        // SAFETY: as above.
        unsafe { (&raw mut (*links.add(index)).result).write_volatile(result) };
        if is_error(result) && first_error == 0 {
            first_error = result;
        }
        last = result;
    }
    if first_error == 0 { last } else { first_error }
}
