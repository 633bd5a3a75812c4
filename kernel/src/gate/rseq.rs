//! Restartable sequences: a thread's registered area says on which CPU it runs, and a
//! critical section that was disturbed is left by its abort handler.

use crate::base::user::{self, UserAddr, put};
use crate::process::thread::Thread;
use crate::sched::cpus;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::limits::TASK_SIZE;
use hanare_core::rseq::{self, Area, FLAGS_OFFSET, SECTION_OFFSET, Section};
use hanare_hal::traps::Regs;
use hanare_hal::{shared, usercopy};

/// rseq(2).
pub fn register(thread: &Thread, addr: u64, len: u64, flags: u64, signature: u64) -> Result<u64> {
    let own = &thread.rseq;
    let area = rseq::change(
        own.area(),
        addr,
        u64::from(len as u32),
        u64::from(flags as u32),
        signature as u32,
        TASK_SIZE,
    )?;
    if area.is_none() {
        let ids = [0u32.to_le_bytes(), rseq::UNINITIALIZED.to_le_bytes()];
        put(UserAddr::of(addr), ids.as_flattened())?;
    }
    own.set(area);
    cpus::request_attention(); // the area is filled in on the way out
    Ok(0)
}

/// Before user mode, after whatever may have switched threads; true if the registers
/// changed.
///
/// # Errors
/// Area or section are wrong: SIGSEGV is to be raised.
pub fn before_user(thread: &Thread, regs: &mut Regs) -> Result<bool> {
    let own = &thread.rseq;
    if !own.disturbed.swap(false, Ordering::Relaxed) {
        return Ok(false);
    }
    let Some(area) = own.area().filter(|_| !thread.must_end()) else { return Ok(false) };
    // Copies may wait, and the thread go on elsewhere: then it was disturbed again.
    let (ip, done) = (regs.rip, leave_section(area, regs).and_then(|()| tell_cpu(area)));
    if done.is_err() && !thread.must_end() {
        return Err(errno::EFAULT);
    }
    Ok(done.is_err() || regs.rip != ip)
}

/// A signal is about to be handled: the frame is to show the abort handler.
///
/// # Errors
/// As of [`before_user`].
pub fn before_handler(thread: &Thread, regs: &mut Regs) -> Result<()> {
    thread.rseq.area().map_or(Ok(()), |area| leave_section(area, regs))
}

/// The thread goes on on Linux: it leaves its critical section, and its area names no CPU, so that
/// it begins none.
pub fn before_linux(thread: &Thread, regs: &mut Regs) -> Result<()> {
    let Some(area) = thread.rseq.area() else { return Ok(()) };
    leave_section(area, regs)?;
    let ids = [0u32.to_le_bytes(), rseq::UNINITIALIZED.to_le_bytes()];
    put(UserAddr::of(area.addr), ids.as_flattened()).map(drop)
}

fn tell_cpu(area: Area) -> Result<()> {
    let cpu = shared::here().linux_cpu().to_le_bytes();
    put(UserAddr::of(area.addr), [cpu, cpu].as_flattened()).map(drop)
}

/// Leaves the critical section, if the thread is in one.
fn leave_section(area: Area, regs: &mut Regs) -> Result<()> {
    let at = user::get::<u64>(UserAddr::behind(area.addr, SECTION_OFFSET))?;
    if at == 0 {
        return Ok(());
    }
    let section = Section::parse(user::get(UserAddr::of(at))?, TASK_SIZE)?;
    let word = |at| usercopy::read_u32(at).map_err(|_| errno::EFAULT);
    if word(UserAddr::of(section.abort - 4))? != area.signature {
        return Err(errno::EINVAL);
    }
    let is_inside = section.contains(regs.rip);
    if is_inside && section.flags | word(UserAddr::behind(area.addr, FLAGS_OFFSET))? != 0 {
        return Err(errno::EINVAL);
    }
    put(UserAddr::behind(area.addr, SECTION_OFFSET), &[0; 8])?;
    if is_inside {
        regs.rip = section.abort;
    }
    Ok(())
}
