//! Where a thread runs: on the LWK or on Linux, and on which CPU.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::memory::Mapping;
use super::{Child, call};

/// Asks the LWK to execute this thread's program on Linux.
const PR_HANARE_RUN_ON: u64 = 0x484e_524f;
const RUN_ON_ASK: u64 = 2;
const RUN_ON_EVENTFD: u64 = 3;
const RUN_ON_RING: u64 = 4;
const AREA_BYTES: usize = 64 << 10;

/// Memory that the LWK wants of a thread that executes on Linux, or none.
#[derive(Debug)]
pub struct Area {
    start: AtomicPtr<u8>,
    /// Not zero: a thread has the area.
    is_used: AtomicU32,
}

impl Area {
    /// A place for an area, without memory yet.
    #[must_use]
    pub const fn none() -> Self {
        Self { start: AtomicPtr::new(null_mut()), is_used: AtomicU32::new(0) }
    }

    /// Whether there is memory.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.start.load(Ordering::Acquire).is_null()
    }

    /// Has memory from now on. `false`: there is none.
    #[must_use]
    pub fn make(&self) -> bool {
        if self.is_there() {
            return true;
        }
        let Some(area) = Mapping::new(AREA_BYTES) else { return false };
        let start = area.into_start();
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.start.compare_exchange(null_mut(), start.as_ptr(), order.0, order.1).is_err() {
            // SAFETY: it was taken from the mapping above, and given to no other code.
            drop(unsafe { Mapping::from_start(start, AREA_BYTES) });
        }
        true
    }

    /// Calls a function while the calling thread runs on Linux, on a CPU or (-1) on any. It is told
    /// whether the thread does: not where there is no LWK, no memory, or another thread has it.
    pub fn on_linux<R>(&self, cpu: i32, function: impl FnOnce(bool) -> R) -> R {
        let start = self.start.load(Ordering::Acquire);
        let has_area = !start.is_null() && self.is_used.swap(1, Ordering::AcqRel) == 0;
        let is_remote = has_area && run_on([1, start as u64, AREA_BYTES as u64, cpu as u64]) == 0;
        let result = function(is_remote);
        if is_remote {
            // It goes back to where it came from, which has the same memory.
            run_on([0; 4]);
        }
        if has_area {
            self.is_used.store(0, Ordering::Release);
        }
        result
    }

    /// In the child of a fork: no thread has it.
    pub fn forget(&self, _: &Child) {
        self.is_used.store(0, Ordering::Relaxed);
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if let Some(start) = NonNull::new(*self.start.get_mut()) {
            // SAFETY: `make` has mapped it. `on_linux` borrows this while the LWK has the memory.
            drop(unsafe { Mapping::from_start(start, AREA_BYTES) });
        }
    }
}

/// `PR_HANARE_RUN_ON`. What it is given memory for is the caller's.
fn run_on([what, first, second, third]: [u64; 4]) -> i64 {
    // SAFETY: `Area` has the memory as long as the LWK uses it; the others are given none.
    unsafe { call(libc::SYS_prctl as u64, [PR_HANARE_RUN_ON, what, first, second, third, 0]) }
}

/// Whether this thread runs on Linux beside an LWK; `None`: there is no LWK.
#[must_use]
pub fn is_on_linux() -> Option<bool> {
    match run_on([RUN_ON_ASK, 0, 0, 0]) {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The CPU on which this thread runs, as the kernel numbers it that executes it. The C library may
/// have kept another one's.
#[must_use]
pub fn current_cpu() -> i32 {
    let mut cpu = u32::MAX;
    // SAFETY: it writes one number.
    unsafe { call(libc::SYS_getcpu as u64, [&raw mut cpu as u64, 0, 0, 0, 0, 0]) };
    cpu as i32
}

/// The calling thread sleeps in [`await_ring`] of this eventfd from now on: threads on the LWK may
/// [`ring_thread`] it. `false`: there is no LWK, or it cannot.
#[must_use]
pub fn be_rung_by(fd: c_int) -> bool {
    run_on([RUN_ON_EVENTFD, fd as u64, 0, 0]) == 0
}

/// Adds one to the eventfd of a thread, soon: the LWK sends an interrupt, and the calling thread
/// does not wait. `false`: it does not.
#[must_use]
pub fn ring_thread(thread: i32) -> bool {
    run_on([RUN_ON_RING, thread as u64, 0, 0]) == 0
}

/// The thread stays on one CPU of the kernel that it runs on. `false`: there is none such, and it
/// runs anywhere.
pub fn stay_on(cpu: i32) -> bool {
    if !(0..libc::CPU_SETSIZE).contains(&cpu) {
        return false;
    }
    // SAFETY: the set is a value.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
    }
}
