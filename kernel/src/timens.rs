//! Time namespaces: a process in one has clocks that differ from the machine's. Linux
//! is asked by how much where that may have changed; the clocks stay local.

use crate::process::Process;
use crate::thread::Thread;
use crate::{delegate, time, vdso};
use hanare_core::errno::{self, Result};
use hanare_core::time::{Clock, namespace_offsets};
use hanare_hal::paging::SMALL;

const SYS_READ: u32 = 0;
const SYS_CLOSE: u32 = 3;
const SYS_OPENAT: u32 = 257;
const AT_FDCWD: u64 = -100i64 as u64;
const O_CLOEXEC: u64 = 0o2_000_000;

/// Clocks of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offsets {
    /// Its children may have other clocks than it.
    pub children: bool,
    monotonic_ns: i64,
    boottime_ns: i64,
}

impl Offsets {
    /// Whether its clocks are not the machine's.
    pub fn differ(&self) -> bool {
        self.monotonic_ns != 0 || self.boottime_ns != 0
    }
}

/// Value of a clock as the process has it, ns.
pub fn now(p: &Process, clock: Clock) -> Option<u64> {
    time::now(clock).map(|ns| ns.saturating_add_signed(offset_ns(p, clock)))
}

/// What the machine's clock shows when the process' one shows `ns`.
pub fn of_machine(p: &Process, clock: Clock, ns: u64) -> u64 {
    ns.saturating_add_signed(offset_ns(p, clock).saturating_neg())
}

fn offset_ns(p: &Process, clock: Clock) -> i64 {
    match clock {
        Clock::Monotonic | Clock::MonotonicRaw | Clock::MonotonicCoarse => p.identity.lock().time.monotonic_ns,
        Clock::Boottime => p.identity.lock().time.boottime_ns,
        _ => 0,
    }
}

/// The first words of a child.
pub fn begin(thread: &Thread) {
    if thread.process.identity.lock().time.children {
        refresh(thread);
    }
}

/// The running thread's process may be in another namespace than before.
pub fn refresh(thread: &Thread) {
    let p = &thread.process;
    // Without /proc nothing is known; then the clocks stay as they are.
    let Ok((monotonic_ns, boottime_ns)) = ask(thread) else { return };
    let differ = {
        let mut id = p.identity.lock();
        (id.time.monotonic_ns, id.time.boottime_ns) = (monotonic_ns, boottime_ns);
        id.time.differ()
    };
    vdso::set_traps(&mut p.mm.lock(), differ);
}

fn ask(thread: &Thread) -> Result<(i64, i64)> {
    let p = &thread.process;
    let scratch = p.write_scratch(thread.slot_index, b"/proc/self/timens_offsets\0")?;
    let fd = delegate::linux(SYS_OPENAT, [AT_FDCWD, scratch, O_CLOEXEC, 0, 0, 0])?;
    let read = delegate::linux(SYS_READ, [fd, scratch, SMALL / 2, 0, 0, 0]);
    let _ = delegate::linux(SYS_CLOSE, [fd, 0, 0, 0, 0, 0]);
    let mut text = [0; SMALL as usize / 2];
    let text = text.get_mut(..read? as usize).ok_or(errno::EIO)?;
    p.read_control(scratch, text);
    namespace_offsets(core::str::from_utf8(text).map_err(|_| errno::EIO)?).ok_or(errno::EIO)
}
