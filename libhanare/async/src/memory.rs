//! Which memory of the program can be copied without a fault.
//!
//! `write` of an address where nothing is returns EFAULT; a copy by the library would end the
//! program. So each page is tried by a call once, and what was found is remembered until a call
//! changes the address space.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::{self, Reason};
use crate::sys::lock::{Held, Locked};
use crate::sys::{self, PAGE_BYTES, program};

const KNOWN_MAX: usize = 16;
const MAPPED_MAX: usize = 2048;

/// Counts changes of the address space.
static CHANGES: AtomicU64 = AtomicU64::new(0);

struct Ranges {
    known: [(u64, u64); KNOWN_MAX],
    next: usize,
    changes: u64,
    /// Ranges of mapped files, which another process may truncate at any time.
    mapped: [(u64, u64); MAPPED_MAX],
    mapped_count: usize,
}

static RANGES: Held<Ranges> = Held::new(Ranges {
    known: [(0, 0); KNOWN_MAX],
    next: 0,
    changes: 0,
    mapped: [(0, 0); MAPPED_MAX],
    mapped_count: 0,
});

/// A call changes the address space: said before it, and after it.
pub fn changed() {
    CHANGES.fetch_add(1, Ordering::SeqCst);
}

/// A file was mapped there.
pub fn mapped(locked: &mut Locked, start: u64, size: u64) {
    RANGES.with(locked, |ranges| {
        let Some(place) = ranges.mapped.get_mut(ranges.mapped_count) else {
            return state::turn_off(Reason::Mappings);
        };
        *place = (start, start + size);
        ranges.mapped_count += 1;
    });
}

/// Copies words of the program; `None`: they cannot be read.
pub fn copy_of(locked: &mut Locked, start: u64, words: &mut [u64]) -> Option<()> {
    let size = size_of_val(words);
    if !is_readable(locked, start, size as u64) {
        return None;
    }
    program::copy_of(start, words);
    Some(())
}

/// Whether these bytes can be copied.
pub fn is_readable(locked: &mut Locked, start: u64, size: u64) -> bool {
    let Some(end) = start.checked_add(size).filter(|end| *end < 1 << 47) else { return false };
    RANGES.with(locked, |ranges| is_known_or_readable(ranges, start, end))
}

fn is_known_or_readable(ranges: &mut Ranges, start: u64, end: u64) -> bool {
    let changes = CHANGES.load(Ordering::SeqCst);
    if ranges.changes != changes {
        ranges.known = [(0, 0); KNOWN_MAX];
        ranges.changes = changes;
    }
    if ranges.known.iter().any(|known| known.0 <= start && end <= known.1) {
        return true;
    }
    let first = start & !(PAGE_BYTES - 1);
    let last = end.next_multiple_of(PAGE_BYTES);
    let mapped = &ranges.mapped[..ranges.mapped_count];
    if mapped.iter().any(|mapped| first < mapped.1 && mapped.0 < last) {
        return false;
    }
    if !(first..last).step_by(PAGE_BYTES as usize).all(sys::is_readable) {
        return false;
    }
    ranges.known[ranges.next % KNOWN_MAX] = (first, last);
    ranges.next += 1;
    true
}
