//! Kernel stacks, with unmapped addresses below each. A thread that overflows its stack faults, and
//! there is no room for the fault's frame. So the double fault comes on its own stack and names the
//! thread (`panic`).
//!
//! Threads: a second map of the instance's memory, made once at boot, in which each block of 32 KiB
//! is followed by 32 KiB of nothing: block `b` lies at `STACKS_BASE + 2 * b`, guard first. A
//! thread's stack is a block of memory, seen through this map. So a thread that begins or ends
//! changes no page table: there is nothing that could fail, no lock, and no CPU has to be told of
//! it, with ten thousand threads and with hundreds of cores. A translation that a CPU has kept is
//! right for ever. (To map each stack at addresses of its own would have all CPUs, also those that
//! compute undisturbed, interrupted now and then. To unmap guards in the direct map would split its
//! large pages.) The price is the tables: 2 MiB for each GiB.
//!
//! CPUs: the stacks for idling and for interrupts are made once, at addresses by number.

use crate::base::frames;
use crate::base::tables::Tables;
use core::ops::Range;
use hanare_abi::layout::{CPU_STACKS_BASE, STACKS_BASE};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_hal::addr::PhysAddr;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::paging::{self, SMALL};
use hanare_hal::pte::Bits;
use hanare_hal::{gdt, shared};

/// A thread's kernel stack: 32 KiB, of which 12 KiB were seen used (fork, with a request of Linux
/// served where it waits).
const ORDER: u32 = 3;
/// Bytes of a stack.
pub const BYTES: u64 = 4096 << ORDER;

/// Stack of a CPU that idles, and the guard below it.
const IDLE_BYTES: u64 = 64 << 10;
/// Addresses of each CPU's stacks: first the idle one's guard, then that, then those for
/// interrupts.
const CPU_STRIDE: u64 = 256 << 10;
const _: () = assert!(2 * IDLE_BYTES + gdt::INTERRUPT_STACK_ADDRESSES <= CPU_STRIDE);
const _: () = assert!(CPUS_MAX as u64 * CPU_STRIDE <= 1 << 39);

/// A thread's kernel stack.
pub struct Stack {
    frame: PhysAddr,
}

impl Stack {
    /// `None`: no memory.
    pub fn new(owner: FrameOwner) -> Option<Stack> {
        frames::alloc_user(ORDER, owner).map(|frame| Stack { frame })
    }

    /// End of the stack.
    pub fn top(&self) -> u64 {
        bottom(self.frame) + BYTES
    }

    /// Whether `addr` lies in the guard below the stack.
    pub fn guards(&self, addr: u64) -> bool {
        (bottom(self.frame) - BYTES..bottom(self.frame)).contains(&addr)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        frames::free(self.frame, ORDER);
    }
}

/// Lowest address of a block of memory as a stack.
fn bottom(block: PhysAddr) -> u64 {
    STACKS_BASE + 2 * block.0 + BYTES
}

/// Makes the map for threads and the stacks of the CPUs (first CPU).
pub fn init() {
    let p = shared::params();
    // Of what is never free there is no second view.
    let taken = p.shared_base..p.image_base + p.image_size;
    for c in shared::chunks() {
        for block in c
            .addresses()
            .step_by(BYTES as usize)
            .filter(|b| b + BYTES <= taken.start || *b >= taken.end)
        {
            let block = PhysAddr(block);
            assert!(
                bottom(block) < CPU_STACKS_BASE - (1 << 40),
                "memory at {block:#x} is beyond what can hold stacks"
            );
            map(bottom(block)..bottom(block) + BYTES, block);
        }
    }
    for cpu in 0..p.cpu_count as usize {
        let stacks = of_cpu(cpu);
        let idle = (cpu > 0).then(|| stacks.idle - IDLE_BYTES..stacks.idle); // the first has that of boot
        for range in idle.into_iter().chain(gdt::interrupt_stacks(stacks.interrupts)) {
            let order = ((range.end - range.start) / SMALL).trailing_zeros();
            let owner = FrameOwner::kernel(Subject::Stacks);
            map(range, frames::alloc(order, owner).expect("memory for a CPU's stack"));
        }
    }
}

fn map(range: Range<u64>, frame: PhysAddr) {
    for (i, addr) in range.step_by(SMALL as usize).enumerate() {
        paging::map_kernel(addr, frame + i as u64 * SMALL, Bits::NONE, &mut Tables::kernel())
            .expect("memory for the tables of stacks");
    }
}

/// The stacks of a CPU.
pub struct OfCpu {
    /// End of that on which it idles; the first CPU has another one.
    pub idle: u64,
    /// First address of those for interrupts, see [`gdt::init`].
    pub interrupts: u64,
}

/// Where the stacks of a CPU are.
pub fn of_cpu(cpu: usize) -> OfCpu {
    let end = CPU_STACKS_BASE + cpu as u64 * CPU_STRIDE + 2 * IDLE_BYTES;
    OfCpu { idle: end, interrupts: end }
}

/// Name and CPU of the CPU's stack in whose guard `addr` lies.
pub fn overflown_of_cpu(addr: u64) -> Option<(&'static str, usize)> {
    if hanare_hal::boot::is_first_guard(addr) {
        return Some(("idle", 0));
    }
    let offset = addr.checked_sub(CPU_STACKS_BASE)?;
    let (cpu, within) = ((offset / CPU_STRIDE) as usize, offset % CPU_STRIDE);
    let name = match within.checked_sub(2 * IDLE_BYTES) {
        None => "idle",
        Some(at) => gdt::guarded_by(at)?,
    };
    (cpu < CPUS_MAX).then_some((name, cpu))
}
