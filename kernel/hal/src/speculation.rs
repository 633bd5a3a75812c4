//! Measures against speculative execution: behind bounds checks (Spectre variant 1), and by branch
//! predictors that other programs have trained (variant 2). None of it can be seen under emulation;
//! the sources are named instead
//! (Documentation/admin-guide/hw-vuln/spectre.rst; SDM volume 4; Intel, "Retpoline: A Branch Target
//! Injection Mitigation"; AMD, "Software Techniques for Managing Speculation on AMD Processors").

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};
use hanare_abi::boot::{
    MEASURE_AUTO_IBRS, MEASURE_BHI_DIS, MEASURE_ENTRY_IBRS, MEASURE_FILL_RSB, MEASURE_IBPB,
    MEASURE_IBRS, MEASURE_STIBP,
};

pub(crate) mod msr {
    pub const SPEC_CTRL: u32 = 0x48;
    pub const PRED_CMD: u32 = 0x49;
}
/// Bits of SPEC_CTRL.
const IBRS: u64 = 1 << 0;
const STIBP: u64 = 1 << 1;
/// BHI_DIS_S binds the kernel's predictions only: it costs user mode nothing, and is always set
/// (Intel, "Branch History Injection").
const BHI_DIS_S: u64 = 1 << 10;
/// Bit of PRED_CMD.
const IBPB: u64 = 1 << 0;
/// Bit of EFER: automatic IBRS (AMD APM volume 2, 3.1.7).
const EFER_AUTO_IBRS: u64 = 1 << 21;

static MEASURES: AtomicU32 = AtomicU32::new(0);

/// Says what is done, `MEASURE_*`; before the first CPU enters user mode.
pub fn choose(measures: u32) {
    MEASURES.store(measures, Ordering::Relaxed);
}

fn is_on(measure: u32) -> bool {
    MEASURES.load(Ordering::Relaxed) & measure != 0
}

/// Keeps the kernel from using predictions of less privileged code and of the sibling thread, on
/// each CPU. IBRS is set once for all where the CPU has the enhanced one, else from each entry to
/// each exit ([`crate::hardened`]); STIBP is for the sibling. With BHI_DIS_S the branch history of
/// user mode does not choose among the kernel's own predictions. Linux sets its own bits when it
/// gets the CPU back.
pub fn init_cpu() {
    let of = |measure, bit| if is_on(measure) { bit } else { 0 };
    let always = of(MEASURE_IBRS, IBRS) | of(MEASURE_STIBP, STIBP) | of(MEASURE_BHI_DIS, BHI_DIS_S);
    let value = always | of(MEASURE_ENTRY_IBRS, IBRS);
    crate::percpu::set_predictions(value as u32, always as u32);
    // SAFETY: the measures are chosen only where CPUID names these bits
    // (`hanare_core::mitigations`); they change what is predicted and nothing else.
    unsafe {
        if value != 0 {
            crate::cpu::wrmsr(msr::SPEC_CTRL, value);
        }
        if is_on(MEASURE_AUTO_IBRS) {
            let efer = crate::cpu::rdmsr(crate::cpu::msr::EFER);
            crate::cpu::wrmsr(crate::cpu::msr::EFER, efer | EFER_AUTO_IBRS);
        }
    }
}

/// Makes the predictors of this CPU forget the program before: another one comes.
pub(crate) fn forget_predictions() {
    if is_on(MEASURE_IBPB) {
        // SAFETY: as in `init_cpu`; a command without other effect.
        unsafe { crate::cpu::wrmsr(msr::PRED_CMD, IBPB) };
    }
}

/// Fills the stack of predicted return addresses, as Linux does at each switch of threads
/// (`FILL_RETURN_BUFFER`, arch/x86/include/asm/nospec-branch.h): returns predict neither what
/// another thread has left there, nor, when it is empty, what the other predictors say. 32 calls
/// that are predicted to end in a trap.
pub(crate) fn fill_return_stack() {
    if is_on(MEASURE_FILL_RSB) {
        // SAFETY: uses the stack below (there is no red zone), and puts it back.
        unsafe {
            asm!(
                "2: call 3f", "int3",
                "3: call 4f", "int3",
                "4: add rsp, 16",
                "dec {n:e}", "jnz 2b",
                "lfence",
                n = inout(reg) 16 => _,
            );
        }
    }
}

/// `index` where it is below `limit`, else all ones: also speculatively, behind a check that is
/// predicted to pass (`array_index_nospec` of Linux, which gives 0).
#[inline(always)]
pub fn below(index: u64, limit: u64) -> u64 {
    let outside: u64;
    // SAFETY: arithmetic only. In assembly, since a compiler would make it the branch that it is to
    // do without.
    unsafe {
        asm!("cmp {i}, {l}", "sbb {o}, {o}", "not {o}", i = in(reg) index, l = in(reg) limit, o = out(reg) outside,
             options(pure, nomem, nostack));
    }
    index | outside
}
