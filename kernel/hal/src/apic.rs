//! Local APIC: xAPIC by MMIO or x2APIC by MSR, as Linux left it.

use crate::addr::PhysAddr;
use crate::cpu::{self, msr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_abi::boot;
use x86_64::registers::model_specific::ApicBaseFlags;

/// Where the xAPIC page is mapped (uncached) in the kernel's half.
pub const MMIO_VADDR: u64 = 0xffff_fe00_0000_0000;

const ID: u32 = 0x02;
const EOI: u32 = 0x0b;
const SPURIOUS: u32 = 0x0f;
const ICR_LOW: u32 = 0x30;
const ICR_HIGH: u32 = 0x31;
const LVT_TIMER: u32 = 0x32;
const LVT_LINT0: u32 = 0x35;
const LVT_LINT1: u32 = 0x36;
const LVT_ERROR: u32 = 0x37;
const LVT_PERF: u32 = 0x34;
const LVT_THERMAL: u32 = 0x33;
const TIMER_INITIAL: u32 = 0x38;
const TIMER_CURRENT: u32 = 0x39;
const TIMER_DIVIDE: u32 = 0x3e;

/// Vector of the local timer.
pub const TIMER_VECTOR: u8 = boot::TIMER_VECTOR as u8;
/// Vector on which LWK CPUs ring each other.
pub const PEER_VECTOR: u8 = boot::PEER_VECTOR as u8;
/// Vector on which Linux rings LWK CPUs.
pub const LINUX_VECTOR: u8 = boot::VECTOR_FIRST as u8;
/// Vector of interrupts that were withdrawn; there is no end of one.
pub(crate) const SPURIOUS_VECTOR: u32 = 0xff;

static X2: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);
/// APIC timer ticks per 2^20 TSC cycles (divide by 1).
static TIMER_RATIO: AtomicU64 = AtomicU64::new(0);

fn read(reg: u32) -> u32 {
    if X2.load(Ordering::Relaxed) { cpu::rdmsr(msr::X2APIC + reg) as u32 } else { read_mmio(reg) }
}

fn read_mmio(reg: u32) -> u32 {
    // SAFETY: the APIC page is mapped at MMIO_VADDR by the kernel's page table.
    unsafe { ((MMIO_VADDR + u64::from(reg) * 16) as *const u32).read_volatile() }
}

fn write(reg: u32, value: u32) {
    if X2.load(Ordering::Relaxed) {
        // SAFETY: APIC registers of this CPU only.
        unsafe { cpu::wrmsr(msr::X2APIC + reg, u64::from(value)) };
    } else {
        write_mmio(reg, value);
    }
}

fn write_mmio(reg: u32, value: u32) {
    // SAFETY: as in `read_mmio`; registers of this CPU only.
    unsafe { ((MMIO_VADDR + u64::from(reg) * 16) as *mut u32).write_volatile(value) };
}

const X2APIC_ENABLE: u64 = ApicBaseFlags::X2APIC_ENABLE.bits();

/// Physical address of the xAPIC page, or `None` in x2APIC mode.
pub fn mmio_paddr() -> Option<PhysAddr> {
    let base = cpu::rdmsr(msr::APIC_BASE);
    (base & X2APIC_ENABLE == 0).then_some(PhysAddr(base & 0xf_ffff_f000))
}

/// Whether some CPU has come to [`init`]: before, the registers may not be mapped.
pub fn is_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

/// Enables the local APIC with every local source masked.
pub fn init() {
    READY.store(true, Ordering::Relaxed);
    X2.store(cpu::rdmsr(msr::APIC_BASE) & X2APIC_ENABLE != 0, Ordering::Relaxed);
    for lvt in [LVT_TIMER, LVT_LINT0, LVT_LINT1, LVT_ERROR, LVT_PERF, LVT_THERMAL] {
        write(lvt, 1 << 16);
    }
    write(0x08, 0); // task priority: accept everything
    write(SPURIOUS, 1 << 8 | SPURIOUS_VECTOR);
}

/// Soft-disables the APIC: this CPU hears only INIT, SIPI and NMI from now on.
pub fn disable() {
    write(SPURIOUS, SPURIOUS_VECTOR);
}

/// True in x2APIC mode.
pub fn is_x2apic() -> bool {
    X2.load(Ordering::Relaxed)
}

/// This CPU's APIC id.
pub fn id() -> u32 {
    if is_x2apic() { read(ID) } else { read(ID) >> 24 }
}

/// End of interrupt.
pub fn eoi() {
    write(EOI, 0);
}

/// Sends a fixed, edge, physical IPI.
pub fn send(apic_id: u32, vector: u8) {
    send_raw(apic_id, u32::from(vector));
}

/// Sends an NMI (used by a panic to stop the other CPUs).
pub fn send_nmi(apic_id: u32) {
    send_raw(apic_id, 4 << 8);
}

fn send_raw(apic_id: u32, low: u32) {
    cpu::fence(); // x2APIC ICR writes are not ordered after earlier stores
    if is_x2apic() {
        // SAFETY: an IPI to a CPU that expects this vector (doorbell word or peer).
        unsafe { cpu::wrmsr(msr::X2APIC + ICR_LOW, u64::from(apic_id) << 32 | u64::from(low)) };
    } else {
        while read_mmio(ICR_LOW) & 1 << 12 != 0 {
            cpu::pause();
        }
        write_mmio(ICR_HIGH, apic_id << 24);
        write_mmio(ICR_LOW, low);
    }
}

/// Measures the timer against the TSC over `tsc_cycles` (once, first CPU).
pub fn calibrate_timer(tsc_cycles: u64) {
    write(TIMER_DIVIDE, 0b1011);
    write(TIMER_INITIAL, u32::MAX);
    let start = cpu::rdtsc();
    let mut now = start;
    while now.wrapping_sub(start) < tsc_cycles {
        cpu::pause();
        now = cpu::rdtsc();
    }
    let ticks = u64::from(u32::MAX - read(TIMER_CURRENT));
    write(TIMER_INITIAL, 0);
    TIMER_RATIO
        .store(((u128::from(ticks) << 20) / u128::from(now - start)) as u64, Ordering::Relaxed);
}

/// Fires [`TIMER_VECTOR`] once, `tsc_cycles` from now.
pub fn arm_timer(tsc_cycles: u64) {
    let ticks = (u128::from(tsc_cycles) * u128::from(TIMER_RATIO.load(Ordering::Relaxed))) >> 20;
    write(TIMER_DIVIDE, 0b1011);
    write(LVT_TIMER, u32::from(TIMER_VECTOR));
    write(TIMER_INITIAL, (ticks.clamp(1, u128::from(u32::MAX))) as u32);
}

/// Stops the timer.
pub fn stop_timer() {
    write(LVT_TIMER, 1 << 16);
    write(TIMER_INITIAL, 0);
}
