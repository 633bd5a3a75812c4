//! Outstanding calls: a ring of records, and a buffer for their data. The worker makes these calls,
//! in order.

use std::hint;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use hanare_ikc::preload::{Nap, Progress, Way};

use crate::calls::OUTSTANDING;
use crate::state;
use crate::sys::buffer::Buffer;
use crate::sys::lock::Locked;
use crate::sys::{self, local, threads};

/// Descriptors from here on are left alone.
pub const DESCRIPTORS: usize = 4096;
const RECORDS: u64 = 1024;
/// Bytes of [`DATA`].
const DATA_BYTES: u64 = 8 << 20;
/// A write larger than this is made by its caller.
pub const WRITE_BYTES_MAX: u64 = DATA_BYTES / 2;
const SPINS: u32 = 2000;

/// A posted call.
#[derive(Clone, Copy)]
pub enum What {
    /// A write at the descriptor's offset.
    Write,
    /// A write at an offset.
    WriteAt(i64),
    /// `close`.
    Close,
    /// `fsync`, or `fdatasync`.
    Sync(i64),
    /// A reply to a connection.
    Send,
    /// From, how much.
    ReadAhead(u64, u64),
    /// The worker ends.
    End,
}

impl What {
    /// Index of the counter for such a call.
    pub fn counter(self) -> usize {
        match self {
            Self::Write | Self::WriteAt(_) => 0,
            Self::Close | Self::End => 1,
            Self::Sync(_) => 2,
            Self::ReadAhead(..) => 3,
            Self::Send => 4,
        }
    }
}

/// A posted call.
#[derive(Clone, Copy)]
pub struct Record {
    /// The call.
    pub what: What,
    /// Descriptor of the call.
    pub fd: i32,
    /// Where its data begins and ends, counted from the beginning of all data.
    data: (u64, u64),
}

impl Record {
    /// Where its data begins in [`DATA`], and how much it is. It stays until the call was made.
    pub fn data(&self) -> (u64, u64) {
        (self.data.0, self.data.1 - self.data.0)
    }
}

/// Place of a record, as words. It is written by the holder of the lock, before HEAD passes it, and
/// read by the worker after that.
struct Place([AtomicU64; 5]);

impl Place {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 5])
    }

    fn write(&self, record: Record) {
        let (kind, first, second) = match record.what {
            What::Write => (0, 0, 0),
            What::WriteAt(offset) => (1, offset as u64, 0),
            What::Close => (2, 0, 0),
            What::Sync(nr) => (3, nr as u64, 0),
            What::Send => (4, 0, 0),
            What::ReadAhead(from, size) => (5, from, size),
            What::End => (6, 0, 0),
        };
        let (begin, end) = record.data;
        let words = [kind << 32 | u64::from(record.fd as u32), first, second, begin, end];
        self.0.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
    }

    fn read(&self) -> Record {
        let [head, first, second, begin, _] =
            self.0.each_ref().map(|word| word.load(Ordering::Relaxed));
        let what = match head >> 32 {
            0 => What::Write,
            1 => What::WriteAt(first as i64),
            2 => What::Close,
            3 => What::Sync(first as i64),
            4 => What::Send,
            5 => What::ReadAhead(first, second),
            _ => What::End,
        };
        Record { what, fd: head as i32, data: (begin, self.data_end()) }
    }

    fn data_end(&self) -> u64 {
        self.0[4].load(Ordering::Relaxed)
    }
}

static RING: [Place; RECORDS as usize] = [const { Place::new() }; RECORDS as usize];

fn place_of(record: u64) -> &'static Place {
    &RING[(record % RECORDS) as usize]
}

/// Number of posted calls.
static HEAD: AtomicU64 = AtomicU64::new(0);
/// Number of posted calls that are done.
static TAIL: AtomicU64 = AtomicU64::new(0);
/// Value of `HEAD` after the last call that is neither readahead nor a reply.
static LAST_OF_FILES: AtomicU64 = AtomicU64::new(0);
/// Value of `HEAD` after the last call that is not readahead.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Data of outstanding writes. It has memory before the first worker.
pub static DATA: Buffer<DATA_BYTES> = Buffer::new();
static DATA_HEAD: AtomicU64 = AtomicU64::new(0);
static DATA_TAIL: AtomicU64 = AtomicU64::new(0);

static NAP: Nap = Nap::new();
/// The worker's thread id where it sleeps on Linux, beside an LWK; 0: it sleeps on a futex.
static RUNG: AtomicI32 = AtomicI32::new(0);
/// Number of replies that were awaited.
static REPLIES_AWAITED: AtomicU64 = AtomicU64::new(0);
static PROGRESS: Progress = Progress::new();

/// Takes the right to post and to change what is known of descriptors.
pub fn lock(_: &state::Inside) -> Locked {
    Locked::take()
}

/// Waits for room for data, then for a record; where in [`DATA`] it goes.
pub fn reserve(_: &mut Locked, size: u64) -> u64 {
    let mut head = DATA_HEAD.load(Ordering::Relaxed);
    if head % DATA_BYTES + size > DATA_BYTES {
        head = head.next_multiple_of(DATA_BYTES);
    }
    let has_room = |done| head + size - done <= DATA_BYTES;
    if !has_room(DATA_TAIL.load(Ordering::Acquire)) {
        let posted = HEAD.load(Ordering::Relaxed);
        let gives_room = |record: &u64| has_room(place_of(*record).data_end());
        await_record((done()..posted).find(gives_room).map_or(posted, |record| record + 1));
    }
    head
}

/// Posts a call with the data at that place of the buffer.
pub fn post(_: &mut Locked, what: What, fd: i32, data: Option<(u64, u64)>) -> u64 {
    let head = HEAD.load(Ordering::Relaxed);
    await_record((head + 1).saturating_sub(RECORDS));
    let last = DATA_HEAD.load(Ordering::Relaxed);
    let data = data.map_or((last, last), |(start, size)| (start, start + size));
    DATA_HEAD.store(data.1, Ordering::Relaxed);
    // The worker has done with it, and does not look at it before HEAD passes it.
    place_of(head).write(Record { what, fd, data });
    if !matches!(what, What::ReadAhead(..)) {
        OUTSTANDING.fetch_add(1, Ordering::SeqCst);
        LAST.store(head + 1, Ordering::SeqCst);
        if !matches!(what, What::Send) {
            LAST_OF_FILES.store(head + 1, Ordering::SeqCst);
        }
    }
    HEAD.store(head + 1, Ordering::Release);
    match NAP.wakes() {
        None => {}
        Some(Way::Futex) => sys::wake_on(NAP.word()),
        Some(Way::Rung) => sys::ring(RUNG.load(Ordering::Relaxed)),
    }
    head + 1
}

/// Waits until everything but readahead is done. From any thread of the program, in a handler or
/// not.
pub fn await_all() {
    // A library that does not wait has to fail its tests.
    if OUTSTANDING.load(Ordering::SeqCst) == 0 || cfg!(feature = "mutant") {
        return;
    }
    state::count(state::AWAITED);
    let last = LAST.load(Ordering::SeqCst);
    if LAST_OF_FILES.load(Ordering::SeqCst) != last {
        REPLIES_AWAITED.fetch_add(1, Ordering::Relaxed);
    }
    await_record(last);
}

/// How often a thread waited while the last call that was posted was a reply.
pub fn replies_awaited() -> u64 {
    REPLIES_AWAITED.load(Ordering::Relaxed)
}

/// Whether something other than replies is outstanding.
pub fn has_files() -> bool {
    LAST_OF_FILES.load(Ordering::SeqCst) > done()
}

/// Waits, unless only replies are outstanding.
pub fn await_files() {
    if has_files() {
        await_all();
    }
}

/// Waits until so many are done, and for none behind them, which may last for ever.
pub fn await_record(count: u64) {
    for _ in 0..SPINS {
        if done() >= count {
            return;
        }
        hint::spin_loop();
    }
    while let Some(value) = PROGRESS.prepare_sleep(count, done) {
        sys::sleep_on(PROGRESS.word(), value);
    }
}

/// Number that [`post`] returns next.
pub fn next() -> u64 {
    HEAD.load(Ordering::Relaxed) + 1
}

/// Number of posted calls that are done.
pub fn done() -> u64 {
    TAIL.load(Ordering::Acquire)
}

/// The worker: has each call made, as soon as it is posted, until the last one.
pub fn work(make: impl Fn(&Record)) {
    run_beside();
    loop {
        let tail = TAIL.load(Ordering::Relaxed);
        wait_for_work(tail);
        let record = place_of(tail).read();
        if state::IS_SLOW.load(Ordering::Relaxed) {
            sys::sleep(300_000);
        }
        make(&record);
        DATA_TAIL.store(record.data.1, Ordering::Release);
        TAIL.store(tail + 1, Ordering::Release);
        if !matches!(record.what, What::ReadAhead(..)) {
            OUTSTANDING.fetch_sub(1, Ordering::SeqCst);
        }
        if PROGRESS.wakes(tail + 1) {
            sys::wake_on(PROGRESS.word());
        }
        if matches!(record.what, What::End) {
            return;
        }
    }
}

fn wait_for_work(tail: u64) {
    let is_there = || HEAD.load(Ordering::Acquire) != tail;
    for _ in 0..SPINS {
        if is_there() {
            return;
        }
        hint::spin_loop();
    }
    let way = if RUNG.load(Ordering::Relaxed) == 0 { Way::Futex } else { Way::Rung };
    while !is_there() {
        if !NAP.begins(way, is_there) {
            return;
        }
        // Where its calls have to be seen the worker is not on Linux.
        if way == Way::Futex || !sys::sleep_until_rung() && NAP.turns_to_futex() {
            sys::sleep_on(NAP.word(), Nap::<0>::VALUE);
        }
    }
}

/// On an LWK, the worker's code runs on a CPU of Linux from now on (docs/posted.md), and sleeps
/// there: a futex is the LWK's, which would have it come back. Elsewhere there is no such call.
fn run_beside() {
    RUNG.store(0, Ordering::Relaxed);
    let Some(area) = threads::Area::map() else { return };
    let is_rung = sys::be_rung();
    if threads::run_on_linux(area) {
        RUNG.store(if is_rung { sys::thread_id() } else { 0 }, Ordering::Relaxed);
    }
}

/// In the child of a fork: nothing is outstanding.
pub fn reset() {
    let head = HEAD.load(Ordering::Relaxed);
    TAIL.store(head, Ordering::Relaxed);
    LAST.store(head, Ordering::Relaxed);
    DATA_TAIL.store(DATA_HEAD.load(Ordering::Relaxed), Ordering::Relaxed);
    OUTSTANDING.store(0, Ordering::Relaxed);
    LAST_OF_FILES.store(head, Ordering::Relaxed);
    NAP.reset();
    PROGRESS.reset();
    Locked::reset();
    local::current().is_inside.set(false);
}
