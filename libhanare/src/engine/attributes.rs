//! Attributes of a queue, as a program asks for them.

use super::{Error, error};
use crate::sys::Pointer;

/// Calls that may be posted and not picked up at once, at most.
pub const DEPTH_MAX: u32 = 65536;
/// Workers of one queue, at most.
pub const WORKERS_MAX: u32 = 32;

/// Workers run on the kernel that the program runs on.
pub const SIDE_HERE: u32 = 1;
/// Several threads use the queue.
pub const MULTI_PRODUCER: u32 = 1;
/// Submissions wait where the queue is full.
pub const BLOCKING: u32 = 2;

/// `struct hanare_attributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "as in hanare.h")]
pub struct Attributes {
    pub size: u32,
    pub flags: u32,
    pub depth: u32,
    pub side: u32,
    pub workers_min: u32,
    pub workers_max: u32,
    pub cpus: Pointer<i32>,
    pub cpus_count: u32,
    pub spin_ns: u32,
    pub wait_spin_ns: u32,
    pub idle_ms: u32,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            size: size_of::<Self>() as u32,
            flags: 0,
            depth: 256,
            side: 0,
            workers_min: 1,
            workers_max: 1,
            cpus: Pointer::null(),
            cpus_count: 0,
            spin_ns: 50_000,
            wait_spin_ns: 50_000,
            idle_ms: 1000,
        }
    }
}

impl Attributes {
    /// Whether a queue may have them.
    ///
    /// # Errors
    /// EINVAL.
    pub fn check(&self) -> Result<(), Error> {
        let is_good = self.flags & !(MULTI_PRODUCER | BLOCKING) == 0
            && (1..=DEPTH_MAX).contains(&self.depth)
            && self.side <= SIDE_HERE
            && (1..=WORKERS_MAX).contains(&self.workers_min)
            && (self.workers_min..=WORKERS_MAX).contains(&self.workers_max)
            && (self.cpus_count == 0 || !self.cpus.is_null());
        if is_good { Ok(()) } else { error(libc::EINVAL) }
    }
}

/// CPUs of workers; -1: any.
pub type Cpus = [i32; WORKERS_MAX as usize];

/// The CPU of each worker, if they run on these in turn, or on any if there are none.
#[must_use]
pub fn spread(cpus: &[i32]) -> Cpus {
    std::array::from_fn(|worker| match cpus.len() {
        0 => -1,
        count => cpus[worker % count],
    })
}
