//! What is outstanding: a ring of records, a buffer for their data, and the worker that makes the calls, in order.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::{hint, ptr};

use hanare_ikc::preload::{Nap, Progress, Way, Worker};

use crate::entry::{self, OUTSTANDING};
use crate::state::{self, Reason};
use crate::{files, sockets, sys};

const RECORDS: u64 = 1024;
/// Data of outstanding writes.
const DATA_BYTES: u64 = 8 << 20;
/// A write larger than this is made by its caller.
pub const WRITE_BYTES_MAX: u64 = DATA_BYTES / 2;
const SPINS: u32 = 2000;

/// A posted call.
#[derive(Clone, Copy)]
pub enum What {
    /// At the descriptor's offset.
    Write,
    /// At an offset.
    WriteAt(i64),
    /// `close`.
    Close,
    /// `fsync`, or `fdatasync`.
    Sync(i64),
    /// To a connection.
    Send,
    /// From, how much.
    ReadAhead(u64, u64),
    /// The worker ends.
    End,
}

#[derive(Clone, Copy)]
struct Record {
    what: What,
    fd: i32,
    /// Where its data begins and ends, counted from the beginning of all data.
    data: (u64, u64),
}

struct Ring(UnsafeCell<[Record; RECORDS as usize]>);

// SAFETY: A record is written by who holds the lock, before HEAD passes it, and read by the worker after that.
unsafe impl Sync for Ring {}

static RING: Ring =
    Ring(UnsafeCell::new([Record { what: What::Close, fd: -1, data: (0, 0) }; RECORDS as usize]));
/// How many were posted; how many are done.
static HEAD: AtomicU64 = AtomicU64::new(0);
static TAIL: AtomicU64 = AtomicU64::new(0);
/// Like HEAD, after the last one that is neither readahead nor a reply.
static LAST_OF_FILES: AtomicU64 = AtomicU64::new(0);
/// Like HEAD, after the last one that is not readahead.
static LAST: AtomicU64 = AtomicU64::new(0);
static DATA: AtomicU64 = AtomicU64::new(0);
static DATA_HEAD: AtomicU64 = AtomicU64::new(0);
static DATA_TAIL: AtomicU64 = AtomicU64::new(0);

static LOCK: AtomicBool = AtomicBool::new(false);
static WORKER: Worker = Worker::new();
/// The worker, for who waits for its end.
static THREAD: AtomicU64 = AtomicU64::new(0);
static NAP: Nap = Nap::new();
/// The worker's thread id where it sleeps on Linux, beside an LWK; 0: it sleeps on a futex.
static RUNG: AtomicI32 = AtomicI32::new(0);
/// How often a reply was awaited.
static REPLIES_AWAITED: AtomicU64 = AtomicU64::new(0);
static PROGRESS: Progress = Progress::new();

/// The right to post and to change what is known of descriptors. Its holder is [`state::Inside`].
pub struct Locked(());

/// Takes it.
pub fn lock(_: &state::Inside) -> Locked {
    while LOCK.swap(true, Ordering::Acquire) {
        sys::give_way();
    }
    Locked(())
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.store(false, Ordering::Release);
    }
}

/// Starts the worker, if there is none. Not from a thread that may hold a lock of the C library's. Others make their calls
/// themselves meanwhile.
pub fn start(_: &state::Inside) {
    if !WORKER.begin_start(state::is_off) {
        return;
    }
    let thread = map_data().and_then(|()| make_thread());
    match thread {
        Some(thread) => THREAD.store(thread, Ordering::Relaxed),
        None => state::turn_off(Reason::Worker),
    }
    WORKER.started(thread.is_some());
}

fn map_data() -> Option<()> {
    if DATA.load(Ordering::Relaxed) == 0 {
        DATA.store(sys::map(DATA_BYTES).ok()?, Ordering::Relaxed);
    }
    Some(())
}

fn make_thread() -> Option<libc::pthread_t> {
    extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
        work();
        ptr::null_mut()
    }
    let mask = sys::set_mask(libc::SIG_BLOCK, !0);
    let mut thread: libc::pthread_t = 0;
    // SAFETY: An ordinary thread. Its calls, and those that make it, are known for the library's: see
    // hook::clone.
    let result = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, 256 << 10);
        let result = libc::pthread_create(&mut thread, &attributes, run, ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
        result
    };
    sys::set_mask(libc::SIG_SETMASK, mask);
    (result == 0).then_some(thread)
}

/// Ends the worker: for calls that are refused where a process has threads. Posting has been turned off.
pub fn stop(inside: &state::Inside) {
    if !WORKER.begin_end(sys::give_way) {
        return;
    }
    post(&lock(inside), What::End, -1, None);
    // SAFETY: The thread was started, ends now, and nobody else joins it.
    unsafe { libc::pthread_join(THREAD.load(Ordering::Relaxed), ptr::null_mut()) };
    WORKER.ended();
    // It has been joined before the kernel has counted it off.
    let others = state::THREADS.load(Ordering::Relaxed) as u64;
    for _ in 0..1000 {
        if sys::threads().is_none_or(|threads| threads <= others) {
            break;
        }
        sys::sleep(10_000);
    }
}

/// Whether there is one.
pub fn has_worker() -> bool {
    WORKER.is_there()
}

/// Waits for room for data, then for a record; where the data goes.
pub fn reserve(_: &Locked, size: u64) -> (u64, *mut u8) {
    let mut head = DATA_HEAD.load(Ordering::Relaxed);
    if head % DATA_BYTES + size > DATA_BYTES {
        head = head.next_multiple_of(DATA_BYTES);
    }
    let has_room = |done| head + size - done <= DATA_BYTES;
    if !has_room(DATA_TAIL.load(Ordering::Acquire)) {
        let posted = HEAD.load(Ordering::Relaxed);
        let gives_room = |record: &u64| {
            // SAFETY: It was posted; the worker only reads it, and who holds the lock writes none meanwhile.
            has_room(unsafe { (*RING.0.get())[(record % RECORDS) as usize].data.1 })
        };
        await_record((done()..posted).find(gives_room).map_or(posted, |record| record + 1));
    }
    (head, (DATA.load(Ordering::Relaxed) + head % DATA_BYTES) as *mut u8)
}

/// Posts a call with the data at that place of the buffer.
pub fn post(_: &Locked, what: What, fd: i32, data: Option<(u64, u64)>) -> u64 {
    let head = HEAD.load(Ordering::Relaxed);
    await_record((head + 1).saturating_sub(RECORDS));
    let last = DATA_HEAD.load(Ordering::Relaxed);
    let data = data.map_or((last, last), |(start, size)| (start, start + size));
    DATA_HEAD.store(data.1, Ordering::Relaxed);
    // SAFETY: Below the ring's end; the worker has done with it, and does not look at it before HEAD passes it.
    unsafe {
        RING.0.get().cast::<Record>().add((head % RECORDS) as usize).write(Record {
            what,
            fd,
            data,
        })
    };
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

/// Waits until everything but readahead is done. From any thread of the program, in a handler or not.
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

/// How often somebody waited while the last call that was posted was a reply.
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

/// What [`post`] answers next.
pub fn next() -> u64 {
    HEAD.load(Ordering::Relaxed) + 1
}

/// How many are done.
pub fn done() -> u64 {
    TAIL.load(Ordering::Acquire)
}

fn work() {
    run_beside();
    loop {
        let tail = TAIL.load(Ordering::Relaxed);
        wait_for_work(tail);
        // SAFETY: HEAD has passed it.
        let record = unsafe { RING.0.get().cast::<Record>().add((tail % RECORDS) as usize).read() };
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
        // Where somebody has to see its calls it is not on Linux.
        if way == Way::Futex || !sys::sleep_until_rung() && NAP.turns_to_futex() {
            sys::sleep_on(NAP.word(), Nap::<0>::VALUE);
        }
    }
}

/// On an LWK, the worker's code runs on a CPU of Linux from now on (docs/posted.md), and sleeps there: a futex is the LWK's, which would
/// have it come back. Elsewhere there is no such call.
fn run_beside() {
    const AREA_BYTES: u64 = 64 << 10;
    RUNG.store(0, Ordering::Relaxed);
    let Ok(area) = sys::map(AREA_BYTES) else { return };
    let is_rung = sys::be_rung();
    // SAFETY: The area is the thread's, which lives as long as the process.
    if unsafe { sys::run_on_linux(area, AREA_BYTES) } {
        RUNG.store(if is_rung { sys::thread_id() } else { 0 }, Ordering::Relaxed);
    } else {
        // SAFETY: Nobody else knows of it.
        let _ = unsafe { sys::call(libc::SYS_munmap, [area, AREA_BYTES, 0, 0, 0, 0]) };
    }
}

fn make(record: &Record) {
    let fd = record.fd as u64;
    let simple = |nr| {
        // SAFETY: Neither has pointers.
        match unsafe { sys::call(nr, [fd, 0, 0, 0, 0, 0]) } {
            0.. => Ok(()),
            error => Err(-error as i32),
        }
    };
    match record.what {
        What::ReadAhead(from, size) => {
            // SAFETY: It has no pointers. An error means that nothing is read ahead.
            let _ = unsafe { sys::call(libc::SYS_readahead, [fd, from, size, 0, 0, 0]) };
        }
        // What follows a failure is not written: the file ends where it failed.
        What::Write | What::WriteAt(_) if files::has_failed(record.fd) => {}
        What::Write | What::WriteAt(_) => {
            if let Err(error) = write_all(record) {
                files::fail(record.fd, error);
            }
        }
        What::Send if sockets::has_failed(record.fd) => {}
        What::Send => {
            if let Err(error) = send_all(record) {
                sockets::fail(record.fd, error);
            }
        }
        What::Sync(nr) => {
            if let Err(error) = simple(nr) {
                files::fail(record.fd, error);
            }
        }
        What::End => {}
        What::Close => {
            let name = files::name_of(record.fd);
            let result = simple(libc::SYS_close);
            files::closed(record.fd, result.err(), &name);
        }
    }
}

fn write_all(record: &Record) -> Result<(), i32> {
    let data = DATA.load(Ordering::Acquire) + record.data.0 % DATA_BYTES;
    let size = record.data.1 - record.data.0;
    let mut written = 0;
    while written < size {
        let (nr, offset) = match record.what {
            What::WriteAt(offset) => (libc::SYS_pwrite64, offset as u64 + written),
            _ => (libc::SYS_write, 0),
        };
        let args = [record.fd as u64, data + written, size - written, offset, 0, 0];
        // SAFETY: The data stays until TAIL passes the record.
        match unsafe { sys::call(nr, args) } {
            0 => return Err(libc::EIO),
            count @ 1.. => written += count as u64,
            error if error == i64::from(-libc::EINTR) => {}
            error => return Err(-error as i32),
        }
    }
    Ok(())
}

/// The program was told that all of it was taken.
fn send_all(record: &Record) -> Result<(), i32> {
    let data = DATA.load(Ordering::Acquire) + record.data.0 % DATA_BYTES;
    let size = record.data.1 - record.data.0;
    let mut sent = 0;
    while sent < size {
        let flags = libc::MSG_NOSIGNAL as u64;
        let args = [record.fd as u64, data + sent, size - sent, flags, 0, 0];
        // SAFETY: The data stays until TAIL passes the record.
        match unsafe { sys::call(libc::SYS_sendto, args) } {
            count @ 0.. => sent += count as u64,
            error if error == i64::from(-libc::EINTR) => {}
            // The machine is short of memory: the bound says that there is room.
            error if error == i64::from(-libc::EAGAIN) => sys::await_room(record.fd),
            error => return Err(-error as i32),
        }
    }
    Ok(())
}

/// In the child of a fork: nothing is outstanding, and there is no worker.
pub fn reset() {
    let head = HEAD.load(Ordering::Relaxed);
    TAIL.store(head, Ordering::Relaxed);
    LAST.store(head, Ordering::Relaxed);
    DATA_TAIL.store(DATA_HEAD.load(Ordering::Relaxed), Ordering::Relaxed);
    OUTSTANDING.store(0, Ordering::Relaxed);
    LAST_OF_FILES.store(head, Ordering::Relaxed);
    NAP.reset();
    PROGRESS.reset();
    WORKER.reset();
    LOCK.store(false, Ordering::Release);
    // SAFETY: The thread's own.
    unsafe { (*entry::local()).is_inside = false };
}
