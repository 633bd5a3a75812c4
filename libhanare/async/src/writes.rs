//! Calls that may be posted.

use std::sync::atomic::Ordering;

use crate::calls::Verdict;
use crate::files::{self, Role};
use crate::poster::{self, What};
use crate::state::{self, Inside};
use crate::sys::Errno;
use crate::sys::lock::Locked;
use crate::{memory, rewrite, sys, worker};

/// Vectors of one write, at most.
const VECTORS_MAX: usize = 16;

/// Awaits what is outstanding, and makes the call.
fn make_it() -> Verdict {
    poster::await_all();
    Verdict::Make
}

/// A late error is the result of this call.
fn late(error: i32) -> Verdict {
    Verdict::Done(-i64::from(error))
}

/// Takes the right to post, where posting is allowed.
pub fn begin(kind: usize) -> Option<(Locked, Inside)> {
    if !state::may_post(kind) || !worker::is_there() {
        return None;
    }
    let inside = Inside::enter();
    let locked = poster::lock(&inside);
    if state::HAS_NEW_CODE.swap(false, Ordering::SeqCst) && rewrite::cover_all().is_err() {
        state::turn_off(state::Reason::Instructions);
    }
    // The lock is released first.
    (state::may_post(kind) && !inside.is_deaf()).then_some((locked, inside))
}

/// `write` and its kin.
pub fn write(nr: i64, args: &[u64; 6]) -> Verdict {
    let fd = args[0];
    if let Some(error) = files::take_error(fd) {
        return late(error);
    }
    if !matches!(files::role(fd), Role::MayWrite | Role::Writer) {
        return make_it();
    }
    let what = match nr {
        libc::SYS_write | libc::SYS_writev => Some(What::Write),
        libc::SYS_pwrite64 | libc::SYS_pwritev => Some(What::WriteAt(args[3] as i64)),
        _ if args[5] != 0 => None,
        _ if args[3] == u64::MAX => Some(What::Write),
        _ => Some(What::WriteAt(args[3] as i64)),
    };
    let Some(what) = what.filter(|what| !matches!(what, What::WriteAt(..0))) else {
        return make_it();
    };
    let is_vector = !matches!(nr, libc::SYS_write | libc::SYS_pwrite64);
    match begin(state::WRITES).and_then(|(mut locked, inside)| {
        let result = post_write(&mut locked, fd, what, is_vector, args[1], args[2]);
        drop(locked);
        drop(inside);
        result
    }) {
        Some(count) => Verdict::Done(count as i64),
        None => make_it(),
    }
}

fn post_write(
    locked: &mut Locked,
    fd: u64,
    what: What,
    is_vector: bool,
    start: u64,
    size: u64,
) -> Option<u64> {
    if !files::is_writer(locked, fd) {
        return None;
    }
    let data = Data::of(locked, is_vector, start, size, poster::WRITE_BYTES_MAX)?;
    files::note_write(locked, fd, poster::next()).then(|| data.post(locked, what, fd))
}

/// The memory that a call writes from, as the program gave it.
pub struct Data {
    vectors: [(u64, u64); VECTORS_MAX],
    count: usize,
    size: u64,
}

impl Data {
    /// `None`: it cannot be read, is nothing, or is more than that.
    pub fn of(
        locked: &mut Locked,
        is_vector: bool,
        start: u64,
        size: u64,
        bytes_max: u64,
    ) -> Option<Self> {
        let mut vectors = [(start, size); VECTORS_MAX];
        let mut count = 1;
        if is_vector {
            count = usize::try_from(size).ok().filter(|count| *count <= VECTORS_MAX)?;
            let mut words = [0; VECTORS_MAX * 2];
            memory::copy_of(locked, start, &mut words[..count * 2])?;
            for (vector, words) in vectors.iter_mut().zip(words.chunks_exact(2)) {
                *vector = (words[0], words[1]);
            }
        }
        let mut total: u64 = 0;
        for (start, size) in &vectors[..count] {
            total = total.checked_add(*size).filter(|total| *total <= bytes_max)?;
            if *size != 0 && !memory::is_readable(locked, *start, *size) {
                return None;
            }
        }
        (total != 0).then_some(Self { vectors, count, size: total })
    }

    /// Bytes to be written.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Posts the call with a copy; its result.
    pub fn post(&self, locked: &mut Locked, what: What, fd: u64) -> u64 {
        let data = poster::reserve(locked, self.size);
        let mut place = data;
        for (start, size) in &self.vectors[..self.count] {
            poster::DATA.fill(locked, place, *start, *size);
            place += size;
        }
        post(locked, what, fd, Some((data, self.size)));
        self.size
    }
}

fn post(locked: &mut Locked, what: What, fd: u64, data: Option<(u64, u64)>) -> u64 {
    state::count(what.counter());
    poster::post(locked, what, fd as i32, data)
}

/// `close`.
pub fn close(args: &[u64; 6]) -> Verdict {
    let fd = args[0];
    let role = files::role(fd);
    let is_known = matches!(role, Role::Writer | Role::Reader);
    if let Some(error) = files::take_error(fd) {
        files::replaced(fd);
        files::forget(&mut poster::lock(&Inside::enter()), fd);
        return match sys::finish(libc::SYS_close, fd as i32) {
            Ok(()) => late(error),
            Err(Errno(error)) => Verdict::Done(-i64::from(error)),
        };
    }
    if let Some((mut locked, inside)) = is_known.then(|| begin(state::WRITES)).flatten() {
        files::forget(&mut locked, fd);
        post(&mut locked, What::Close, fd, None);
        drop(locked);
        drop(inside);
        return Verdict::Done(0);
    }
    poster::await_all();
    files::replaced(fd);
    files::forget(&mut poster::lock(&Inside::enter()), fd);
    Verdict::Make
}

/// `fsync` and `fdatasync`.
pub fn sync(nr: i64, args: &[u64; 6]) -> Verdict {
    let fd = args[0];
    if let Some(error) = files::take_error(fd) {
        return late(error);
    }
    if files::role(fd) != Role::Writer {
        return make_it();
    }
    match begin(state::WRITES) {
        Some((mut locked, inside)) => {
            post(&mut locked, What::Sync(nr), fd, None);
            drop(locked);
            drop(inside);
            Verdict::Done(0)
        }
        None => make_it(),
    }
}

/// A file is read in order: what comes next is read from the disk meanwhile.
pub fn read_ahead(fd: u64, from: u64, size: u64) {
    if !worker::is_there() {
        worker::start(&Inside::enter());
    }
    if let Some((mut locked, inside)) = begin(state::READS) {
        let record = post(&mut locked, What::ReadAhead(from, size), fd, None);
        files::note_readahead(fd, record);
        drop(locked);
        drop(inside);
    }
}
