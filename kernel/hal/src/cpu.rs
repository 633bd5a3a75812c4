//! Control registers, MSRs, CPU features, TSC, halting.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU64, Ordering};

/// MSR numbers (SDM volume 4).
pub mod msr {
    #![allow(missing_docs)]
    pub const APIC_BASE: u32 = 0x1b;
    pub const ARCH_CAPABILITIES: u32 = 0x10a;
    pub const PAT: u32 = 0x277;
    pub const MCG_CAP: u32 = 0x179;
    pub const MCG_STATUS: u32 = 0x17a;
    pub const MC0_CTL: u32 = 0x400;
    pub const X2APIC: u32 = 0x800;
    pub const EFER: u32 = 0xc000_0080;
    pub const STAR: u32 = 0xc000_0081;
    pub const LSTAR: u32 = 0xc000_0082;
    pub const SFMASK: u32 = 0xc000_0084;
    pub const FS_BASE: u32 = 0xc000_0100;
    pub const GS_BASE: u32 = 0xc000_0101;
    pub const KERNEL_GS_BASE: u32 = 0xc000_0102;
    pub const TSC_AUX: u32 = 0xc000_0103;
    pub const XSS: u32 = 0xda0;
}

/// Reads an MSR that every x86-64 CPU with our feature checks has.
pub(crate) fn rdmsr(msr: u32) -> u64 {
    let (lo, hi): (u32, u32);
    // SAFETY: reading the MSRs listed above has no side effect.
    unsafe {
        asm!("rdmsr", in("ecx") msr, out("eax") lo, out("edx") hi, options(nomem, nostack, preserves_flags))
    };
    u64::from(hi) << 32 | u64::from(lo)
}

/// Writes an MSR.
///
/// # Safety
/// The value must keep what the kernel relies on (entry points, bases) valid.
pub(crate) unsafe fn wrmsr(msr: u32, value: u64) {
    // SAFETY: the caller vouches for the value.
    unsafe {
        asm!("wrmsr", in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack, preserves_flags));
    }
}

/// What this CPU can do, as far as the kernel asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    /// Supervisor-mode execution prevention.
    pub smep: bool,
    /// Supervisor-mode access prevention.
    pub smap: bool,
    /// No-execute pages.
    pub nx: bool,
    /// rd/wr fs/gs base from user mode.
    pub fsgsbase: bool,
    /// User-mode instruction prevention.
    pub umip: bool,
    /// XSAVE and XGETBV.
    pub xsave: bool,
    /// XSAVEOPT.
    pub xsaveopt: bool,
    /// `rdtscp`.
    pub rdtscp: bool,
    /// TSC deadline mode of the APIC timer.
    pub tsc_deadline: bool,
    /// MONITOR/MWAIT.
    pub mwait: bool,
}

const SMAP_BIT: u64 = 1;
static FLAGS: AtomicU64 = AtomicU64::new(0);

impl Features {
    /// Asks CPUID.
    pub fn detect() -> Features {
        let max = __cpuid(0).eax;
        let l1 = __cpuid(1);
        let (l7, e1) = (
            if max >= 7 { __cpuid_count(7, 0) } else { __cpuid(0x8000_0000) },
            __cpuid(0x8000_0001),
        );
        let has7 = max >= 7;
        let xsave = l1.ecx & 1 << 26 != 0;
        Features {
            smep: has7 && l7.ebx & 1 << 7 != 0,
            smap: has7 && l7.ebx & 1 << 20 != 0,
            fsgsbase: has7 && l7.ebx & 1 != 0,
            umip: has7 && l7.ecx & 1 << 2 != 0,
            nx: e1.edx & 1 << 20 != 0,
            rdtscp: e1.edx & 1 << 27 != 0,
            xsave,
            xsaveopt: xsave && __cpuid_count(0xd, 1).eax & 1 != 0,
            tsc_deadline: l1.ecx & 1 << 24 != 0,
            mwait: l1.ecx & 1 << 3 != 0,
        }
    }
}

/// What the CPU says of its leaks and of the means against them.
#[derive(Clone, Copy, Debug)]
pub struct LeakWords {
    /// CPUID 7.0, edx.
    pub leaf7_edx: u32,
    /// CPUID 8000_0008, ebx.
    pub leaf8000_0008_ebx: u32,
    /// CPUID 8000_0021, eax.
    pub leaf8000_0021_eax: u32,
    /// IA32_ARCH_CAPABILITIES; 0 where there is none.
    pub arch_capabilities: u64,
}

impl LeakWords {
    /// Asks the calling CPU.
    pub fn read() -> LeakWords {
        const HAS_ARCH_CAPABILITIES: u32 = 1 << 29;
        let leaf7_edx = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).edx } else { 0 };
        let highest = __cpuid(0x8000_0000).eax;
        LeakWords {
            leaf7_edx,
            leaf8000_0008_ebx: if highest >= 0x8000_0008 { __cpuid(0x8000_0008).ebx } else { 0 },
            leaf8000_0021_eax: if highest >= 0x8000_0021 { __cpuid(0x8000_0021).eax } else { 0 },
            arch_capabilities: if leaf7_edx & HAS_ARCH_CAPABILITIES != 0 {
                rdmsr(msr::ARCH_CAPABILITIES)
            } else {
                0
            },
        }
    }
}

/// Whether SMAP is on (read by the user-copy code).
pub(crate) fn smap() -> bool {
    FLAGS.load(Ordering::Relaxed) & SMAP_BIT != 0
}

/// Sets CR0, CR4 and EFER of the calling CPU.
pub fn init_control(f: &Features) {
    if f.smap {
        FLAGS.fetch_or(SMAP_BIT, Ordering::Relaxed);
    }
    // PAE, PGE, OSFXSR, OSXMMEXCPT, MCE and what the CPU has of the rest.
    let mut cr4: u64 = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 9 | 1 << 10;
    for (have, bit) in [(f.umip, 11), (f.fsgsbase, 16), (f.xsave, 18), (f.smep, 20), (f.smap, 21)] {
        cr4 |= u64::from(have) << bit;
    }
    // PE, MP, ET, NE, WP, AM, PG; caches on.
    let cr0: u64 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 18 | 1 << 31;
    // SAFETY: keeps paging and 64-bit mode as they are; only protections and
    // extended state are switched on. EFER: SCE, LME, LMA, NXE.
    unsafe {
        asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags));
        asm!("mov cr0, {}", in(reg) cr0, options(nostack, preserves_flags));
        wrmsr(msr::EFER, rdmsr(msr::EFER) | 1 | u64::from(f.nx) << 11);
    }
}

/// Whether user mode of this CPU may read the time stamp counter (CR4.TSD).
pub fn allow_user_tsc(allowed: bool) {
    const TSD: u64 = 1 << 2;
    // SAFETY: changes what `rdtsc` does in user mode and nothing else.
    unsafe {
        let mut cr4: u64;
        asm!("mov {}, cr4", out(reg) cr4, options(nomem, nostack, preserves_flags));
        cr4 = if allowed { cr4 & !TSD } else { cr4 | TSD };
        asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags));
    }
}

/// Current page table root.
pub fn cr3() -> u64 {
    let v: u64;
    // SAFETY: reading CR3 has no side effect.
    unsafe { asm!("mov {}, cr3", out(reg) v, options(nomem, nostack, preserves_flags)) };
    v & !0xfff
}

/// Address of the last page fault.
pub fn cr2() -> u64 {
    let v: u64;
    // SAFETY: reading CR2 has no side effect.
    unsafe { asm!("mov {}, cr2", out(reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

/// Switches to another page table.
///
/// # Safety
/// The table must map the kernel as the current one does.
pub(crate) unsafe fn set_cr3(root: u64) {
    // SAFETY: the caller vouches for the table.
    unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) };
}

/// Removes one page from this CPU's TLB.
pub fn flush_page(addr: u64) {
    // SAFETY: only drops a cached translation.
    unsafe { asm!("invlpg [{}]", in(reg) addr, options(nostack, preserves_flags)) };
}

/// Removes all user pages from this CPU's TLB.
pub fn flush_all() {
    // SAFETY: reloads the same table.
    unsafe { set_cr3(cr3()) };
}

/// Time stamp counter, not ordered with other instructions.
pub fn rdtsc() -> u64 {
    // SAFETY: no side effect.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Hint that this is a spin loop.
pub fn pause() {
    core::hint::spin_loop();
}

/// Full memory fence (Dekker-style handshakes).
pub fn fence() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// Opens interrupts, halts until one was handled, closes them again. An
/// interrupt that became pending before the halt ends it at once (`sti` holds
/// interrupts back for one instruction).
pub fn wait_for_interrupt() {
    // SAFETY: handlers preserve all registers and touch no lock (rule 1).
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
}

/// Lets pending interrupts in, then goes on with interrupts off.
pub fn let_interrupts_in() {
    // SAFETY: as above.
    unsafe { asm!("sti", "nop", "cli", options(nostack)) };
}

/// Halts for good, interrupts off.
pub fn park() -> ! {
    loop {
        // SAFETY: nothing after this runs on this CPU.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// User FS base of the running thread.
pub fn fs_base() -> u64 {
    rdmsr(msr::FS_BASE)
}

fn is_canonical(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}

/// Sets the user FS base. It must be canonical, as everything is that a program
/// could have put there itself (wrfsbase).
pub fn set_fs_base(base: u64) {
    assert!(is_canonical(base));
    // SAFETY: FS is a user register to this kernel.
    unsafe { wrmsr(msr::FS_BASE, base) };
}

/// User GS base of the running thread (kept in KERNEL_GS_BASE while in the kernel).
pub fn user_gs_base() -> u64 {
    rdmsr(msr::KERNEL_GS_BASE)
}

/// Sets it; as [`set_fs_base`].
pub fn set_user_gs_base(base: u64) {
    assert!(is_canonical(base));
    // SAFETY: swapped in only on return to user mode.
    unsafe { wrmsr(msr::KERNEL_GS_BASE, base) };
}

/// What `rdtscp` and `rdpid` give in user mode.
pub fn set_tsc_aux(number: u32, f: &Features) {
    if f.rdtscp {
        // SAFETY: only read by rdtscp and rdpid.
        unsafe { wrmsr(msr::TSC_AUX, u64::from(number)) };
    }
}
