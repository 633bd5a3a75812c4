//! The worker, which makes the posted calls, in order.

use std::sync::atomic::Ordering;

use hanare_ikc::preload::Worker;

use crate::poster::{self, DATA, Record, What};
use crate::state::{self, Inside, Reason};
use crate::sys::threads::Thread;
use crate::sys::{self, Errno};
use crate::{files, sockets};

static WORKER: Worker = Worker::new();
static THREAD: Thread = Thread::new();

/// Starts the worker, if there is none. Others make their calls themselves meanwhile.
pub fn start(_: &Inside) {
    if !WORKER.begin_start(state::is_off) {
        return;
    }
    if state::IS_SLOW.load(Ordering::Relaxed) {
        sys::sleep(50_000_000);
    }
    let is_there = DATA.map().is_some() && THREAD.start(run);
    if !is_there {
        state::turn_off(Reason::Worker);
    }
    WORKER.started(is_there);
}

extern "C" fn run() {
    poster::work(make);
}

/// Ends the worker, if there is one, when everything that was posted is done: the kernel has no
/// such thread any more. Posting has been turned off, or the last thread of the program ends.
pub fn stop(inside: &Inside) {
    if !WORKER.begin_end(sys::give_way) {
        return;
    }
    poster::post(&mut poster::lock(inside), What::End, -1, None);
    THREAD.await_end();
    WORKER.ended();
}

/// Whether there is one, or one is being started or ended.
pub fn may_be_there() -> bool {
    WORKER.may_be_there()
}

/// Whether there is a worker.
pub fn is_there() -> bool {
    WORKER.is_there()
}

fn make(record: &Record) {
    match record.what {
        What::ReadAhead(from, size) => {
            sys::read_ahead(record.fd, from, size);
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
            if let Err(Errno(error)) = sys::finish(nr, record.fd) {
                files::fail(record.fd, error);
            }
        }
        What::End => {}
        What::Close => {
            let name = files::name_of(record.fd);
            let failed = sys::finish(libc::SYS_close, record.fd).err();
            files::closed(record.fd, failed.map(|Errno(error)| error), &name);
        }
    }
}

fn write_all(record: &Record) -> Result<(), i32> {
    let (data, size) = record.data();
    let mut written = 0;
    while written < size {
        let offset = match record.what {
            What::WriteAt(offset) => Some(offset as u64 + written),
            _ => None,
        };
        match DATA.write(record.fd, (data + written, size - written), offset) {
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
        match DATA.send(record.fd, (data + sent, size - sent)) {
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
