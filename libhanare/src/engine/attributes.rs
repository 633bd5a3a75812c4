//! Attributes of a queue, as a program asks for them.

use super::{Error, error};

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
    pub cpus: *const i32,
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
            cpus: std::ptr::null(),
            cpus_count: 0,
            spin_ns: 50_000,
            wait_spin_ns: 50_000,
            idle_ms: 1000,
        }
    }
}

impl Attributes {
    /// Reads the attributes of a program, which may know fewer or more fields than the library.
    ///
    /// # Errors
    /// EINVAL, or E2BIG: it wants something that this library does not know.
    ///
    /// # Safety
    /// At `from` there are as many bytes as its first word says, and at `cpus` as many numbers as `cpus_count` says.
    pub unsafe fn read(from: *const Self) -> Result<Self, Error> {
        let mut attributes = Self::default();
        if from.is_null() {
            return Ok(attributes);
        }
        // SAFETY: the first word is there.
        let size = unsafe { (&raw const (*from).size).read() } as usize;
        if size < size_of::<u32>() || size > 4096 {
            return error(libc::EINVAL);
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: the caller says that they are there; ours are as many at least.
        let rest = unsafe {
            let (from, to) = (from.cast::<u8>(), (&raw mut attributes).cast::<u8>());
            from.copy_to_nonoverlapping(to, known);
            std::slice::from_raw_parts(from.add(known), size - known)
        };
        if rest.iter().any(|&byte| byte != 0) {
            return error(libc::E2BIG);
        }
        attributes.check()?;
        Ok(attributes)
    }

    fn check(&self) -> Result<(), Error> {
        let is_good = self.flags & !(MULTI_PRODUCER | BLOCKING) == 0
            && (1..=DEPTH_MAX).contains(&self.depth)
            && self.side <= SIDE_HERE
            && (1..=WORKERS_MAX).contains(&self.workers_min)
            && (self.workers_min..=WORKERS_MAX).contains(&self.workers_max)
            && (self.cpus_count == 0 || !self.cpus.is_null());
        if is_good { Ok(()) } else { error(libc::EINVAL) }
    }

    /// The CPU of each worker; -1: any.
    ///
    /// # Safety
    /// As of [`Attributes::read`].
    #[must_use]
    pub unsafe fn cpus(&self) -> [i32; WORKERS_MAX as usize] {
        std::array::from_fn(|worker| match self.cpus_count as usize {
            0 => -1,
            // SAFETY: the caller says that there are so many.
            count => unsafe { *self.cpus.add(worker % count) },
        })
    }
}
