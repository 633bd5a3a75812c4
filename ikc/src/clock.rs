//! Reading the clock page.

use hanare_abi::clock::ClockPage;

use crate::same_layout;
#[cfg(any(test, loom))]
use crate::sync::in_c;
use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, fence};

/// [`ClockPage`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(64)))]
#[derive(Debug)]
pub struct ClockWords {
    sequence: AtomicU32,
    shift: AtomicU32,
    tsc: AtomicU64,
    mult: AtomicU64,
    monotonic_ns: AtomicU64,
    realtime_ns: AtomicU64,
    boottime_ns: AtomicU64,
    raw_ns: AtomicU64,
    tai_ns: AtomicU64,
    minutes_west: AtomicU32,
    dst: AtomicU32,
    realtime_coarse_ns: AtomicU64,
    monotonic_coarse_ns: AtomicU64,
}

same_layout!(ClockWords, ClockPage:
    sequence, shift, tsc, mult, monotonic_ns, realtime_ns, boottime_ns, raw_ns, tai_ns,
    minutes_west, dst, realtime_coarse_ns, monotonic_coarse_ns);

/// The clock page, which the module writes about once a second.
#[derive(Clone, Copy, Debug)]
pub struct ClockReader<'a, const MUTANT: u8 = REAL> {
    words: &'a ClockWords,
}

#[cfg(not(loom))]
impl<'a> ClockReader<'a> {
    /// The page at `page`.
    ///
    /// # Safety
    /// `page` points to an aligned [`ClockPage`] that stays mapped and readable for
    /// `'a`, and that is written only by the module.
    #[must_use]
    pub const unsafe fn from_raw(page: *const ClockPage) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which
        // others may change; they are only loaded here.
        let words = unsafe { &*page.cast::<ClockWords>() };
        Self { words }
    }

    /// A consistent copy. Waits while the module writes (some nanoseconds).
    #[must_use]
    pub fn read(&self) -> ClockPage {
        loop {
            if let Some(page) = self.try_read() {
                return page;
            }
            core::hint::spin_loop();
        }
    }
}

impl<'a, const MUTANT: u8> ClockReader<'a, MUTANT> {
    /// The page made of these words.
    #[must_use]
    pub const fn new(words: &'a ClockWords) -> Self {
        Self { words }
    }

    /// A consistent copy; `None` if the module wrote meanwhile.
    #[must_use]
    pub fn try_read(&self) -> Option<ClockPage> {
        let words = self.words;
        let before = words.sequence.load(Ordering::Acquire);
        if before & 1 != 0 {
            return None;
        }
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let page = ClockPage {
            sequence: before,
            shift: words.shift.load(Ordering::Relaxed),
            tsc: load(&words.tsc),
            mult: load(&words.mult),
            monotonic_ns: load(&words.monotonic_ns),
            realtime_ns: load(&words.realtime_ns),
            boottime_ns: load(&words.boottime_ns),
            raw_ns: load(&words.raw_ns),
            tai_ns: load(&words.tai_ns),
            minutes_west: words.minutes_west.load(Ordering::Relaxed) as i32,
            dst: words.dst.load(Ordering::Relaxed) as i32,
            realtime_coarse_ns: load(&words.realtime_coarse_ns),
            monotonic_coarse_ns: load(&words.monotonic_coarse_ns),
        };
        if MUTANT != 1 {
            fence(Ordering::Acquire);
        }
        (words.sequence.load(Ordering::Relaxed) == before).then_some(page)
    }
}

#[cfg(any(test, loom))]
#[allow(clippy::new_without_default, reason = "for tests")]
impl ClockWords {
    /// A page of zeros.
    pub fn new() -> Self {
        Self {
            sequence: AtomicU32::new(0),
            shift: AtomicU32::new(0),
            tsc: AtomicU64::new(0),
            mult: AtomicU64::new(0),
            monotonic_ns: AtomicU64::new(0),
            realtime_ns: AtomicU64::new(0),
            boottime_ns: AtomicU64::new(0),
            raw_ns: AtomicU64::new(0),
            tai_ns: AtomicU64::new(0),
            minutes_west: AtomicU32::new(0),
            dst: AtomicU32::new(0),
            realtime_coarse_ns: AtomicU64::new(0),
            monotonic_coarse_ns: AtomicU64::new(0),
        }
    }

    /// As the module writes: a sequence lock with one writer at a time. In C: `hanare_clock_begin`,
    /// the fields, `hanare_clock_end`.
    #[allow(dead_code, reason = "used by the models")]
    pub fn module_write<const MUTANT: u8>(&self, tsc: u64, ns: u64) {
        self.module_begin::<MUTANT>();
        self.tsc.store(tsc, Ordering::Relaxed);
        self.monotonic_ns.store(ns, Ordering::Relaxed);
        self.module_end::<MUTANT>();
    }

    fn module_begin<const MUTANT: u8>(&self) {
        in_c!(MUTANT, module => module.clock_begin(&self.sequence));
        self.sequence
            .store(self.sequence.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    fn module_end<const MUTANT: u8>(&self) {
        in_c!(MUTANT, module => module.clock_end(&self.sequence));
        self.sequence
            .store(self.sequence.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_never_torn() {
        const UPDATES: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let words = ClockWords::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for update in 1..=UPDATES {
                    words.module_write::<REAL>(update, update * 3);
                }
            });
            let reader: ClockReader<'_> = ClockReader::new(&words);
            let mut last = 0;
            while last < UPDATES {
                let page = reader.read();
                assert_eq!(page.monotonic_ns, page.tsc * 3);
                assert!(page.tsc >= last);
                last = page.tsc;
                std::thread::yield_now();
            }
        });
        words.sequence.store(1, Ordering::Relaxed);
        assert!(ClockReader::<REAL>::new(&words).try_read().is_none());
    }
}
