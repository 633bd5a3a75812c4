//! Management of instances, and looks at them: arguments of the ioctls of a descriptor without a
//! space ([`crate::ioctl`]).

use crate::copied::CopiedStatus;
use crate::grant::{GRANT_NAME_BYTES, GRANTS_MAX, GrantStatus};
use crate::request::LEDGER_WORDS;
use crate::requestbox::DispatchStatus;
use crate::text::{MESSAGE_SIZE, NAME_SIZE};

/// Memory that stays with Linux when some is reserved.
pub const MEMORY_KEPT_BYTES: u64 = 64 << 20;

/// `IOCTL_INFO`: the module's version, and the number of instances. Any user may ask.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Out: [`crate::MAGIC`].
    pub magic: u64,
    /// Out: [`crate::VERSION`] of the module.
    pub version: u32,
    /// Out: number of instances.
    pub instances: u32,
}

/// `IOCTL_CREATE`: begin an instance; the descriptor becomes its builder.
/// EEXIST: name in use. EINVAL: bad name.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Create {
    /// In: name.
    pub name: [u8; NAME_SIZE],
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// `IOCTL_ADD_MEMORY`: reserve memory for the instance under construction. May be
/// called many times (the command does so piece by piece, to show progress).
/// ENOMEM: nothing of this call was kept. EINVAL: no such node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AddMemory {
    /// In: bytes, multiple of 2 MiB.
    pub bytes: u64,
    /// In: NUMA node, or -1: the nodes of its CPUs, any if none is given yet.
    pub node: i32,
    /// Zero.
    pub reserved: u32,
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// `IOCTL_ADD_CPU`: take a CPU from Linux (offline it). EINVAL: unknown, boot
/// CPU, or last of Linux; EBUSY: owned by another instance or offline.
/// With `check` set it only checks, so that nothing is taken before all is known good.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AddCpu {
    /// In: Linux' CPU number.
    pub cpu: u32,
    /// In: 1: only check.
    pub check: u32,
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// `IOCTL_ADD_DEVICE`: give a driver of the LWK its part of a device, a PCI function that a driver
/// of Linux' has. EINVAL: the descriptor is no device, or none of that function. ENODEV: there is
/// no such function, or no driver of Linux' has it. EBUSY: it was given before. ENOSPC: too many.
/// EOPNOTSUPP: the controller has no queues for the LWK.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AddDevice {
    /// In: zero-terminated name of the LWK's driver.
    pub driver: [u8; GRANT_NAME_BYTES],
    /// In: descriptor of the device's file, by which programs have it.
    pub descriptor: u32,
    /// In: address of the function: PCI domain.
    pub domain: u32,
    /// In: its bus.
    pub bus: u32,
    /// In: its number there: device << 3 | function.
    pub function: u32,
    /// In: how many pairs of queues Linux' driver makes at most if it is an NVMe controller, of
    /// which the LWK is to have some; 0: it is none.
    pub queues_of_linux: u32,
    /// Zero.
    pub reserved: u32,
    /// In: address of 72 bytes of the caller's for a command to the controller (`struct
    /// nvme_passthru_cmd`), which are written to; unused where it is none.
    pub command: u64,
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// `IOCTL_BOOT`: load the image and start every CPU. The instance then lives on
/// without the descriptor. ENOEXEC: not an LWK image, or of another version.
/// ETIMEDOUT: a CPU did not answer (named); the instance stays under construction.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Boot {
    /// In: the ELF image in the caller's memory.
    pub image: u64,
    /// In: its bytes.
    pub image_size: u64,
    /// In: time each CPU may take to answer, ms (0: 20 000); six times that to come online.
    pub timeout_ms: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: ns spent loading the image, in the first CPU's start until it is
    /// online, in the others'.
    pub load_ns: u64,
    /// Time until the first CPU was online, ns.
    pub first_cpu_ns: u64,
    /// Time until the other CPUs were online, ns.
    pub other_cpus_ns: u64,
    /// In: boot options.
    pub cmdline: [u8; 256],
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// `IOCTL_SHUTDOWN`: stop an instance; CPUs and memory go back to Linux.
/// EBUSY: programs are running on it (their number is named) and `force` is not set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shutdown {
    /// In: name.
    pub name: [u8; NAME_SIZE],
    /// In: 1: kill the programs running there.
    pub force: u32,
    /// In: time each CPU may take to park before INIT alone stops it, ms (0: 5000).
    pub timeout_ms: u32,
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// Per-CPU part of [`Status`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CpuStatus {
    /// Linux' number of the CPU.
    pub linux_cpu: u32,
    /// `CPU_*` of [`crate::boot`].
    pub state: u32,
    /// Space running, or 0.
    pub space: u32,
    /// NUMA node.
    pub node: u32,
    /// Heartbeat of the CPU, as in [`crate::boot::CpuShared`].
    pub heartbeat: u64,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Exceptions taken.
    pub exceptions: u64,
    /// Page faults.
    pub page_faults: u64,
    /// Calls served locally.
    pub local_calls: u64,
    /// Calls delegated.
    pub delegated_calls: u64,
    /// Time without a thread to run since boot, ns.
    pub idle_ns: u64,
    /// Interrupts by vector, see [`crate::boot::CpuShared::interrupts_by`].
    pub interrupts_by: [u32; crate::boot::VECTORS],
    /// Exceptions by vector.
    pub exceptions_by: [u32; crate::boot::EXCEPTIONS],
}

/// `IOCTL_STATUS`: one instance, by index (0..) or by name.
/// ENOENT: no such instance (end of the list).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// In: name, or empty to use `index`. Out: name.
    pub name: [u8; NAME_SIZE],
    /// In: see `name`.
    pub index: u32,
    /// Out: `INSTANCE_*` of [`crate::info`].
    pub state: u32,
    /// Out: live spaces.
    pub spaces: u32,
    /// In: entries `cpus` has room for. Out: CPUs of the instance.
    pub cpu_count: u32,
    /// Out: bytes of memory reserved, and how many chunks.
    pub memory_bytes: u64,
    /// Chunks of memory.
    pub chunks: u32,
    /// In: 1: ping every CPU first (up to 1 s each).
    pub ping: u32,
    /// Out: ns since boot.
    pub uptime_ns: u64,
    /// Out: slowest ping answer in ns (0: not asked).
    pub ping_ns: u64,
    /// Out: bytes written to the log so far.
    pub log_head: u64,
    /// In: address of an array of [`CpuStatus`], or 0.
    pub cpus: u64,
    /// Out: bytes per NUMA node (first 8 nodes).
    pub node_bytes: [u64; 8],
    /// How arguments of calls reach Linux.
    pub copied: CopiedStatus,
    /// How delegated calls reach the side that executes them.
    pub dispatch: DispatchStatus,
    /// Devices of which its drivers have a part.
    pub devices: [GrantStatus; GRANTS_MAX],
}

/// `IOCTL_LOG`: read the kernel log.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// In: name.
    pub name: [u8; NAME_SIZE],
    /// In: position (bytes since boot). Out: position after what was read; text
    /// that was overwritten is skipped.
    pub position: u64,
    /// In: buffer address.
    pub buffer: u64,
    /// In: bytes of the buffer. Out: bytes read.
    pub size: u64,
}

/// `IOCTL_DEBUG`: a `DEBUG_*` request to instance CPU `cpu`. Needs CAP_SYS_ADMIN.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Debug {
    /// In: name.
    pub name: [u8; NAME_SIZE],
    /// In: CPU index in the instance.
    pub cpu: u32,
    /// In: `DEBUG_*`.
    pub op: u32,
    /// In: args from [1] on of the request. Out: the answer's args.
    pub args: [u64; 4],
    /// Out: what `DEBUG_MEMORY` and `DEBUG_LEDGER` answer in `pages`.
    pub words: [u64; LEDGER_WORDS],
}
