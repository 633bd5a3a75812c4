//! Control registers, MSRs, CPU features, TSC, halting.
//!
//! CPUID, MSRs and the bits of control registers are those of `raw-cpuid` and `x86_64`. CR3 and the
//! TLB are written here: the crate checks each address, at each switch of address spaces.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU64, Ordering};
use raw_cpuid::CpuId;
use x86_64::registers::control::{Cr0, Cr0Flags, Cr2, Cr3, Cr4, Cr4Flags};
use x86_64::registers::model_specific::{Efer, EferFlags, Msr};

/// MSR numbers (SDM volume 4), also for assembly, to which `x86_64` does not tell them.
pub mod msr {
    #![allow(missing_docs)]
    pub const APIC_BASE: u32 = 0x1b;
    pub const ARCH_CAPABILITIES: u32 = 0x10a;
    pub const DEBUGCTL: u32 = 0x1d9;
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
    // SAFETY: reading the MSRs listed above has no side effect.
    unsafe { Msr::new(msr).read() }
}

/// Writes an MSR.
///
/// # Safety
/// The value must keep what the kernel relies on (entry points, bases) valid.
pub(crate) unsafe fn wrmsr(msr: u32, value: u64) {
    // SAFETY: the caller vouches for the value.
    unsafe { Msr::new(msr).write(value) };
}

/// Features of this CPU, as far as the kernel asks.
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
        let cpu = CpuId::new();
        let basic = cpu.get_feature_info();
        let structured = cpu.get_extended_feature_info();
        let extended = cpu.get_extended_processor_and_feature_identifiers();
        let xsave = basic.as_ref().is_some_and(|has| has.has_xsave());
        Features {
            smep: structured.as_ref().is_some_and(|has| has.has_smep()),
            smap: structured.as_ref().is_some_and(|has| has.has_smap()),
            fsgsbase: structured.as_ref().is_some_and(|has| has.has_fsgsbase()),
            umip: structured.as_ref().is_some_and(|has| has.has_umip()),
            nx: extended.as_ref().is_some_and(|has| has.has_execute_disable()),
            rdtscp: extended.as_ref().is_some_and(|has| has.has_rdtscp()),
            xsave,
            xsaveopt: xsave && cpu.get_extended_state_info().is_some_and(|has| has.has_xsaveopt()),
            tsc_deadline: basic.as_ref().is_some_and(|has| has.has_tsc_deadline()),
            mwait: basic.as_ref().is_some_and(|has| has.has_monitor_mwait()),
        }
    }
}

/// CPUID words and an MSR that tell of the CPU's leaks and of the means against them. As words,
/// since `raw-cpuid` does not name all of the bits that `hanare_core::mitigations` looks at.
#[derive(Clone, Copy, Debug)]
pub struct LeakWords {
    /// CPUID 7.0, edx.
    pub leaf7_edx: u32,
    /// CPUID 7.2, edx.
    pub leaf7_2_edx: u32,
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
        let has_leaf7 = __cpuid(0).eax >= 7;
        let leaf7_edx = if has_leaf7 { __cpuid_count(7, 0).edx } else { 0 };
        let has_leaf7_2 = has_leaf7 && __cpuid_count(7, 0).eax >= 2;
        let highest = __cpuid(0x8000_0000).eax;
        LeakWords {
            leaf7_edx,
            leaf7_2_edx: if has_leaf7_2 { __cpuid_count(7, 2).edx } else { 0 },
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
    let mut cr4 = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION
        | Cr4Flags::MACHINE_CHECK_EXCEPTION
        | Cr4Flags::PAGE_GLOBAL
        | Cr4Flags::OSFXSR
        | Cr4Flags::OSXMMEXCPT_ENABLE;
    cr4.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, f.umip);
    cr4.set(Cr4Flags::FSGSBASE, f.fsgsbase);
    cr4.set(Cr4Flags::OSXSAVE, f.xsave);
    cr4.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, f.smep);
    cr4.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, f.smap);
    // Caches on.
    let cr0 = Cr0Flags::PROTECTED_MODE_ENABLE
        | Cr0Flags::MONITOR_COPROCESSOR
        | Cr0Flags::EXTENSION_TYPE
        | Cr0Flags::NUMERIC_ERROR
        | Cr0Flags::WRITE_PROTECT
        | Cr0Flags::ALIGNMENT_MASK
        | Cr0Flags::PAGING;
    let mut efer = EferFlags::SYSTEM_CALL_EXTENSIONS;
    efer.set(EferFlags::NO_EXECUTE_ENABLE, f.nx);
    // SAFETY: keeps paging and 64-bit mode as they are; only protections and
    // extended state are switched on.
    unsafe {
        Cr4::write_raw(cr4.bits());
        Cr0::write_raw(cr0.bits());
        Efer::write_raw(Efer::read_raw() | efer.bits());
    }
}

/// Sets the page attribute table of the calling CPU (SDM volume 3A, 12.12.4), before a program runs
/// there. That of most is such already: Linux set it, and INIT keeps it.
///
/// # Panics
/// The table has other memory types for what the kernel has mapped: its memory, the APIC.
pub fn set_pat(table: u64) {
    const WRITE_BACK: u8 = 6;
    const UNCACHED: u8 = 0;
    let [memory, _, _, devices, ..] = table.to_le_bytes();
    assert!(memory == WRITE_BACK && devices == UNCACHED, "a page attribute table of {table:#x}");
    if rdmsr(msr::PAT) != table {
        // SAFETY: what is mapped has the same memory type by this table.
        unsafe { wrmsr(msr::PAT, table) };
    }
}

/// Whether user mode of this CPU may read the time stamp counter (CR4.TSD).
pub fn allow_user_tsc(allowed: bool) {
    const TSD: u64 = Cr4Flags::TIMESTAMP_DISABLE.bits();
    let cr4 = Cr4::read_raw();
    // SAFETY: changes what `rdtsc` does in user mode and nothing else.
    unsafe { Cr4::write_raw(if allowed { cr4 & !TSD } else { cr4 | TSD }) };
}

/// Current page table root.
pub fn cr3() -> u64 {
    Cr3::read_raw().0.start_address().as_u64()
}

/// Address of the last page fault.
pub fn cr2() -> u64 {
    Cr2::read_raw()
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
    // SAFETY: handlers change no registers but those that a call changes, and touch no lock (rule
    // 1).
    unsafe { asm!("sti", "hlt", "cli", clobber_abi("C"), options(nostack)) };
}

/// Lets pending interrupts in, then goes on with interrupts off.
pub fn let_interrupts_in() {
    // SAFETY: as above.
    unsafe { asm!("sti", "nop", "cli", clobber_abi("C"), options(nostack)) };
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

/// Sets the user GS base, as [`set_fs_base`] does the FS base.
pub fn set_user_gs_base(base: u64) {
    assert!(is_canonical(base));
    // SAFETY: swapped in only on return to user mode.
    unsafe { wrmsr(msr::KERNEL_GS_BASE, base) };
}

/// Sets the number that `rdtscp` and `rdpid` return in user mode.
pub fn set_tsc_aux(number: u32, f: &Features) {
    if f.rdtscp {
        // SAFETY: only read by rdtscp and rdpid.
        unsafe { wrmsr(msr::TSC_AUX, u64::from(number)) };
    }
}
