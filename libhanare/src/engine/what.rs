//! Kinds and flags of what is posted.

use crate::calls::{POSTED, class};

/// Kind and flags of a submission; of a call its number, too.
#[derive(Clone, Copy, Debug)]
pub struct What(pub u32);

const KIND_SHIFT: u32 = 16;
/// Bits of the kind.
pub const KIND: u32 = 3 << KIND_SHIFT;
/// Kind of a call.
pub const CALL: u32 = 0;
/// Kind of a function.
pub const FUNCTION: u32 = 1 << KIND_SHIFT;
/// Kind of a chain.
pub const CHAIN: u32 = 2 << KIND_SHIFT;
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
    /// exit(3) waits for the submission.
    pub const AT_EXIT: u64 = 1 << 19;
    /// The submission has a key, in the upper half.
    pub const KEYED: u64 = 1 << 20;
    /// A waker is told. Of the library itself.
    pub const WAKER: u64 = 1 << 21;
    /// All flags that programs may use.
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

    /// Whether a future waits for the submission.
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
pub const ALWAYS: u32 = 1;
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

/// Whether this is an error as the result of a call.
#[must_use]
pub const fn is_error(result: i64) -> bool {
    result < 0 && result >= -4095
}
