//! The ioctls. The only place in the tools that has unsafe code.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use hanare_abi::copied::MAPPED_CALLS;
use hanare_abi::ioctl::*;
use hanare_abi::observe::{Observation, Observe, TraceRead};
use hanare_abi::pooled::PoolMake;
use rustix::io::Result;
use rustix::ioctl::{Updater, ioctl};

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $number:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(fd: BorrowedFd, argument: &mut $type) -> Result<()> {
            // SAFETY: the number says how many bytes the module reads and writes
            // at `argument`: those of the type, all of whose bit patterns are
            // valid. It holds no address (those that do are below).
            unsafe { ioctl(fd, Updater::<$number, $type>::new(argument)) }
        }
    )* };
}

calls! {
    /// Magic number, version and count of instances.
    info(Info) = IOCTL_INFO;
    /// Begins an instance.
    create(Create) = IOCTL_CREATE;
    /// Reserves memory.
    add_memory(AddMemory) = IOCTL_ADD_MEMORY;
    /// Checks or takes a CPU.
    add_cpu(AddCpu) = IOCTL_ADD_CPU;
    /// Gives a driver of the LWK its part of a device.
    add_device(AddDevice) = IOCTL_ADD_DEVICE;
    /// Stops an instance.
    shutdown(Shutdown) = IOCTL_SHUTDOWN;
    /// A debug request.
    debug(Debug) = IOCTL_DEBUG;
    /// Makes the descriptor that of a new space.
    attach(Attach) = IOCTL_ATTACH;
    /// Makes the descriptor that of an observer.
    observe(Observe) = IOCTL_OBSERVE;
    /// A request of an observer.
    observation(Observation) = IOCTL_OBSERVATION;
    /// Resource use of a space.
    usage(Usage) = IOCTL_USAGE;
    /// The next process.
    process(ProcessStatus) = IOCTL_PROCESS;
    /// Makes the descriptor that of a pool of proxies.
    pool(PoolMake) = IOCTL_POOL;
    /// Threads of a process.
    threads(Threads) = IOCTL_THREADS;
    /// The next space whose end is not confirmed.
    end(EndStatus) = IOCTL_END;
}

/// Loads `image` and starts the CPUs.
pub fn boot(fd: BorrowedFd, argument: &mut Boot, image: &[u8]) -> Result<()> {
    argument.image = image.as_ptr() as u64;
    argument.image_size = image.len() as u64;
    // SAFETY: as above; the address is that of a slice which the module reads.
    unsafe { ioctl(fd, Updater::<IOCTL_BOOT, Boot>::new(argument)) }
}

/// Asks for the status of an instance and of as many CPUs as `cpus` has room for, and which calls
/// were mapped.
pub fn status(
    fd: BorrowedFd,
    argument: &mut Status,
    cpus: &mut [CpuStatus],
    mapped_calls: &mut [u64; MAPPED_CALLS],
) -> Result<()> {
    argument.copied.mapped_calls = mapped_calls.as_mut_ptr() as u64;
    argument.cpu_count = cpus.len() as u32;
    argument.cpus = if cpus.is_empty() { 0 } else { cpus.as_mut_ptr() as u64 };
    // SAFETY: as above; the module writes at most `cpu_count` entries there, and `MAPPED_CALLS`
    // words.
    unsafe { ioctl(fd, Updater::<IOCTL_STATUS, Status>::new(argument)) }
}

/// Reads the log into `buffer`.
pub fn log(fd: BorrowedFd, argument: &mut Log, buffer: &mut [u8]) -> Result<()> {
    argument.buffer = buffer.as_mut_ptr() as u64;
    argument.size = buffer.len() as u64;
    // SAFETY: as above; the module writes at most `size` bytes there.
    unsafe { ioctl(fd, Updater::<IOCTL_LOG, Log>::new(argument)) }
}

/// Takes records of a trace into `buffer`.
pub fn trace_read(fd: BorrowedFd, argument: &mut TraceRead, buffer: &mut [u8]) -> Result<()> {
    argument.buffer = buffer.as_mut_ptr() as u64;
    argument.size = buffer.len() as u64;
    // SAFETY: as above; the module writes at most `size` bytes there.
    unsafe { ioctl(fd, Updater::<IOCTL_TRACE_READ, TraceRead>::new(argument)) }
}
