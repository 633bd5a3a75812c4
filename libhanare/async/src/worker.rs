//! The worker, which makes the posted calls, in order.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use hanare_ikc::preload::Worker;

use crate::poster::{self, Record, What};
use crate::state::{self, Inside, Reason};
use crate::{files, sockets, sys};

static WORKER: Worker = Worker::new();
/// The worker, for who waits for its end.
static THREAD: AtomicU64 = AtomicU64::new(0);

/// Starts the worker, if there is none. Not from a thread that may hold a lock of the C library's. Others make their calls
/// themselves meanwhile.
pub fn start(_: &Inside) {
    if !WORKER.begin_start(state::is_off) {
        return;
    }
    let thread = poster::map_data().and_then(|()| make_thread());
    match thread {
        Some(thread) => THREAD.store(thread, Ordering::Relaxed),
        None => state::turn_off(Reason::Worker),
    }
    WORKER.started(thread.is_some());
}

fn make_thread() -> Option<libc::pthread_t> {
    extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
        poster::work(make);
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
pub fn stop(inside: &Inside) {
    if !WORKER.begin_end(sys::give_way) {
        return;
    }
    poster::post(&poster::lock(inside), What::End, -1, None);
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
pub fn is_there() -> bool {
    WORKER.is_there()
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
    let (data, size) = record.data();
    let mut written = 0;
    while written < size {
        let (nr, offset) = match record.what {
            What::WriteAt(offset) => (libc::SYS_pwrite64, offset as u64 + written),
            _ => (libc::SYS_write, 0),
        };
        let args = [record.fd as u64, data + written, size - written, offset, 0, 0];
        // SAFETY: The data stays until the call was made.
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
    let (data, size) = record.data();
    let mut sent = 0;
    while sent < size {
        let flags = libc::MSG_NOSIGNAL as u64;
        let args = [record.fd as u64, data + sent, size - sent, flags, 0, 0];
        // SAFETY: The data stays until the call was made.
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
    poster::reset();
    WORKER.reset();
}
