//! A tracee's memory. Linux sees it through the proxy, with the rights of the program; the
//! rest is done here: text is written in a copy of the tracee's own.

use super::tracer::{hold, is_mine, linux};
use crate::syscalls::put;
use crate::mm::patch;
use crate::space;
use crate::thread::Thread;
use crate::{cpus, delegate};
use alloc::sync::Arc;
use alloc::vec;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::request;
use hanare_hal::usercopy;

/// PTRACE_PEEKDATA.
pub fn peek(thread: &Arc<Thread>, a: &[u64; 6]) -> Result<u64> {
    let result = linux(*a);
    if result == Err(errno::EIO) && hold(thread).is_ok() {
        // Memory that the program itself may not read.
        let mut word = [0; 8];
        if patch::read(&thread.process, a[2], &mut word) == 8 {
            return put(a[3], &word);
        }
    }
    result
}

/// PTRACE_POKEDATA.
pub fn poke(thread: &Arc<Thread>, addr: u64, data: u64) -> Result<u64> {
    hold(thread)?;
    let me = cpus::current();
    let scratch = me.process.write_scratch(me.slot_index, &[0; 8])?;
    let tid = u64::from(thread.slot.tid());
    // Linux brings the page in.
    let there = linux([request::PEEKDATA, tid, addr, scratch, 0, 0]);
    if patch::write(&thread.process, addr, &data.to_le_bytes()).is_ok() {
        return Ok(0);
    }
    there?;
    linux([request::POKEDATA, tid, addr, data, 0, 0])
}

/// The most that one call of [`memory_file`] does: pages, since debuggers write little.
const BYTES_MAX: u64 = 16 << 10;

/// pread64(2) and pwrite64(2) that Linux could not do (`EIO`): of `/proc/PID/mem` of a
/// tracee's process they are done here.
pub fn memory_file(number: u16, a: &[u64; 6]) -> Result<u64> {
    const PREAD64: u16 = 17;
    const PWRITE64: u16 = 18;
    let [fd, buffer, count, at, ..] = *a;
    if !matches!(number, PREAD64 | PWRITE64) || !cpus::current().process.traces.load(core::sync::atomic::Ordering::Relaxed) {
        return Err(errno::EIO);
    }
    let thread = of_file(fd).ok_or(errno::EIO)?;
    let p = &thread.process;
    if !p.threads().iter().any(|t| is_mine(t)) {
        return Err(errno::EIO);
    }
    let mut bytes = vec![0; count.min(BYTES_MAX) as usize];
    if number == PREAD64 {
        let read = patch::read(p, at, &mut bytes);
        put(buffer, &bytes[..read])?;
        return if read == 0 { Err(errno::EIO) } else { Ok(read as u64) };
    }
    usercopy::read(buffer, &mut bytes).map_err(|_| errno::EFAULT)?;
    let mut done = 0;
    while done < bytes.len() {
        let place = at.wrapping_add(done as u64);
        let n = (bytes.len() - done).min(4096 - (place % 4096) as usize);
        bring_in(fd, place);
        if patch::write(p, place, &bytes[done..done + n]).is_err() {
            break;
        }
        done += n;
    }
    if done == 0 { Err(errno::EIO) } else { Ok(done as u64) }
}

/// Has Linux fetch the page that the file shows.
fn bring_in(fd: u64, at: u64) {
    let me = cpus::current();
    if let Ok(scratch) = me.process.write_scratch(me.slot_index, &[0]) {
        const PREAD64: u32 = 17;
        let _ = delegate::linux(PREAD64, [fd, scratch, 1, at, 0, 0]);
    }
}

/// The thread whose memory a descriptor shows.
fn of_file(fd: u64) -> Option<Arc<Thread>> {
    const READLINK: u32 = 89;
    const BYTES: u64 = 64;
    let me = cpus::current();
    let link = alloc::format!("/proc/thread-self/fd/{}\0", fd as u32);
    let scratch = me.process.write_scratch(me.slot_index, link.as_bytes()).ok()?;
    let count = delegate::linux(READLINK, [scratch, scratch + BYTES, BYTES, 0, 0, 0]).ok()?;
    let mut path = vec![0; count.min(BYTES) as usize];
    me.process.read_control(scratch + BYTES, &mut path);
    let path = core::str::from_utf8(&path).ok()?.strip_prefix("/proc/")?.strip_suffix("/mem")?;
    space::find_thread(&cpus::current().process, path.rsplit('/').next()?.parse().ok()?)
}
