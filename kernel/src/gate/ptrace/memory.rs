//! A tracee's memory. Linux sees it through the proxy, with the rights of the program; the
//! rest is done here: text is written in a copy of the tracee's own.

use super::held::{hold, linux};
use crate::base::user::{self, UserAddr, put};
use crate::base::{heap, lists};
use crate::link::{delegate, services};
use crate::mm::change::patch;
use crate::process::Process;
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::service::{MAY_REACH, SERVICE_MAY};
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::request;
use hanare_hal::cpu;
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{
    __NR_lseek, __NR_pread64, __NR_preadv, __NR_preadv2, __NR_process_vm_readv, __NR_pwrite64,
    __NR_pwritev, __NR_pwritev2, __NR_read, __NR_readlink, __NR_readv, __NR_write, __NR_writev,
};
use zerocopy::IntoBytes;

/// How long a write waits for Linux, which is to forget a page, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Time between two tries, ns.
const LOOK_NS: u64 = 1_000_000;

/// Writes a tracee's memory as a debugger does, by the running thread, which can wait.
fn write(me: &Thread, p: &Process, at: u64, bytes: &[u8]) -> Result<()> {
    let until = cpus::deadline(PATIENCE_NS);
    loop {
        let written = patch::write(p.memory(), at, bytes);
        let waits = written == Err(errno::EAGAIN) && cpu::rdtsc() < until;
        if !waits || me.must_end() {
            return written;
        }
        cpus::until_told(|| me.must_end(), cpus::deadline(LOOK_NS));
    }
}

/// PTRACE_PEEKDATA.
pub fn peek(me: &Thread, thread: &Arc<Thread>, a: &[u64; 6]) -> Result<u64> {
    let result = linux(me, *a);
    if result == Err(errno::EIO)
        && let Ok(thread) = hold(me, thread)
    {
        // Memory that the program itself may not read.
        let mut word = [0; 8];
        if patch::read(thread.process.memory(), a[2], &mut word) == 8 {
            return put(UserAddr::of(a[3]), &word);
        }
    }
    result
}

/// PTRACE_POKEDATA.
pub fn poke(me: &Thread, thread: &Arc<Thread>, addr: u64, data: u64) -> Result<u64> {
    let thread = hold(me, thread)?;
    let scratch = me.write_scratch(&[0; 8])?;
    let tid = u64::from(thread.tid());
    // Linux brings the page in.
    let there = linux(me, [request::PEEKDATA, tid, addr, scratch, 0, 0]);
    if write(me, &thread.process, addr, &data.to_le_bytes()).is_ok() {
        return Ok(0);
    }
    there?;
    linux(me, [request::POKEDATA, tid, addr, data, 0, 0])
}

/// read(2), write(2) and their relatives that Linux could not do (`EIO`): of
/// `/proc/PID/mem` they are done here, since they may read and write, in a copy of the
/// process' own, what it may not itself.
pub fn memory_file(me: &Thread, number: u32, a: &[u64; 6]) -> Result<u64> {
    const CURRENT: u64 = 1;
    let fd = a[0];
    let Some(access) = Access::of(number, a)? else { return Err(errno::EIO) };
    let thread =
        of_file(me, fd).filter(|t| may_reach(me, t, fd, access.write)).ok_or(errno::EIO)?;
    let start = match access.at {
        Some(at) => at,
        None => seek(me, fd, 0, CURRENT)?,
    };
    let mut at = start;
    for &(buffer, count) in &access.parts {
        let moved = transfer(me, &thread.process, fd, at, buffer, count, access.write)?;
        at += moved;
        if moved < count {
            break;
        }
    }
    if access.at.is_none() {
        seek(me, fd, at - start, CURRENT)?;
    }
    if at == start { Err(errno::EIO) } else { Ok(at - start) }
}

/// Whether Linux lets the caller at a thread's memory by that descriptor. The file's name, by which
/// the thread was found, proves nothing: any file may be mounted at /proc. Nor does what its worker
/// is told: the module looks whether it is that file.
fn may_reach(me: &Thread, thread: &Thread, fd: u64, write: bool) -> bool {
    if core::ptr::eq(&*thread.process, &*me.process) {
        return true;
    }
    // Two struct iovec: a byte to behind them, from address 0.
    let iovecs = |scratch: u64| [scratch + 32, 1, 0, 1];
    let asked = me.write_scratch(&[0; 40]).and_then(|scratch| {
        me.write_scratch(iovecs(scratch).as_bytes())?;
        delegate::linux(
            me,
            __NR_process_vm_readv,
            [u64::from(thread.tid()), scratch, 1, scratch + 16, 1, 0],
        )
    });
    let about = [
        u64::from(thread.tid()),
        u64::from(thread.process.memory().id),
        MAY_REACH,
        fd,
        write.into(),
    ];
    matches!(asked, Ok(_) | Err(errno::EFAULT))
        && services::by_worker(me, SERVICE_MAY, &about, &[]).is_ok()
}

fn seek(me: &Thread, fd: u64, offset: u64, whence: u64) -> Result<u64> {
    delegate::linux(me, __NR_lseek, [fd, offset, whence, 0, 0, 0])
}

/// A read or a write of a `mem` file in /proc, as the call's arguments say it.
struct Access {
    write: bool,
    /// Offset in the file; `None`: at the file's position.
    at: Option<u64>,
    /// Addresses and sizes of the caller's buffers.
    parts: Vec<(u64, u64)>,
}

impl Access {
    /// Reads the arguments of call `number`; `None`: the call reads and writes no file.
    fn of(number: u32, a: &[u64; 6]) -> Result<Option<Access>> {
        const AT_POSITION: u64 = u64::MAX;
        let (write, vector, at) = match number {
            __NR_read => (false, false, None),
            __NR_write => (true, false, None),
            __NR_pread64 => (false, false, Some(a[3])),
            __NR_pwrite64 => (true, false, Some(a[3])),
            __NR_readv => (false, true, None),
            __NR_writev => (true, true, None),
            __NR_preadv => (false, true, Some(a[3])),
            __NR_pwritev => (true, true, Some(a[3])),
            __NR_preadv2 => (false, true, Some(a[3]).filter(|&at| at != AT_POSITION)),
            __NR_pwritev2 => (true, true, Some(a[3]).filter(|&at| at != AT_POSITION)),
            _ => return Ok(None),
        };
        let parts = if vector { vectors(a[1], a[2])? } else { heap::copied(&[(a[1], a[2])])? };
        Ok(Some(Access { write, at, parts }))
    }
}

/// The elements of an array of struct iovec.
fn vectors(at: u64, count: u64) -> Result<Vec<(u64, u64)>> {
    const MOST: u64 = 1024; // IOV_MAX
    if count > MOST {
        return Err(errno::EINVAL);
    }
    let word = |i: u64| user::get::<u64>(UserAddr::behind(at, i * 8));
    let mut all = heap::with_room(count as usize)?;
    for i in 0..count {
        lists::push_within(&mut all, (word(2 * i)?, word(2 * i + 1)?));
    }
    Ok(all)
}

/// Between a process' memory and a buffer of the caller's: how many bytes.
fn transfer(
    me: &Thread,
    p: &Process,
    fd: u64,
    at: u64,
    buffer: u64,
    count: u64,
    write: bool,
) -> Result<u64> {
    let mut page = heap::zeroed(SMALL as usize)?;
    let mut done = 0;
    while done < count && !me.must_end() {
        let place = at.wrapping_add(done);
        let bytes = &mut page[..(count - done).min(SMALL - place % SMALL) as usize];
        bring_in(me, p, fd, place);
        if write {
            user::read(UserAddr::behind(buffer, done), bytes)?;
            if self::write(me, p, place, bytes).is_err() {
                break;
            }
        } else {
            let read = patch::read(p.memory(), place, bytes);
            if read < bytes.len() {
                break;
            }
            put(UserAddr::behind(buffer, done), bytes)?;
        }
        done += bytes.len() as u64;
    }
    Ok(done)
}

/// Has the page there that the file shows: made here, or fetched by Linux.
fn bring_in(me: &Thread, p: &Process, fd: u64, at: u64) {
    if patch::touch(p.memory(), at) {
        return;
    }
    if let Ok(scratch) = me.write_scratch(&[0]) {
        let _ = delegate::linux(me, __NR_pread64, [fd, scratch, 1, at, 0, 0]);
    }
}

/// The thread whose memory a descriptor shows.
fn of_file(me: &Thread, fd: u64) -> Option<Arc<Thread>> {
    const BYTES: u64 = 64;
    let link = lists::text(format_args!("/proc/thread-self/fd/{}\0", fd as u32)).ok()?;
    let scratch = me.write_scratch(link.as_bytes()).ok()?;
    let count =
        delegate::linux(me, __NR_readlink, [scratch, scratch + BYTES, BYTES, 0, 0, 0]).ok()?;
    let mut path = [0; BYTES as usize];
    let path = &mut path[..count.min(BYTES) as usize];
    me.process.memory().read_control(scratch + BYTES, path);
    let path = core::str::from_utf8(path).ok()?.strip_prefix("/proc/")?.strip_suffix("/mem")?;
    spaces::find_thread(&me.process, path.rsplit('/').next()?.parse().ok()?)
}
