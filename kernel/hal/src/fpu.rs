//! Extended processor state of user threads: x87, SSE, AVX, AVX-512.
//!
//! The kernel itself uses none of it, so the registers stay the running thread's
//! while the kernel works, and are saved only when another thread gets the CPU.

use alloc::boxed::Box;
use alloc::vec;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use x86_64::registers::xcontrol::XCr0Flags;

/// The state components of AVX-512.
const AVX512: XCr0Flags = XCr0Flags::OPMASK.union(XCr0Flags::ZMM_HI256).union(XCr0Flags::HI16_ZMM);
/// State components of MPX, which are enabled where the CPU has them, as on Linux. Programs ask
/// once how large a state is (the loader's `xsave` does), and utility threads save it on Linux'
/// CPUs.
const MPX: XCr0Flags = XCr0Flags::BNDREG.union(XCr0Flags::BNDCSR);
/// State components we enable where the CPU has them (SDM volume 1, 13.1).
const WANTED: XCr0Flags =
    XCr0Flags::X87.union(XCr0Flags::SSE).union(XCr0Flags::AVX).union(AVX512).union(MPX);

static MASK: AtomicU64 = AtomicU64::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(512);

/// Enables the state components on the calling CPU.
pub fn init(f: &crate::cpu::Features) {
    if !f.xsave {
        return;
    }
    let d = __cpuid_count(0xd, 0);
    let mut wanted = XCr0Flags::from_bits_truncate(d.eax.into()) & WANTED;
    if !wanted.contains(AVX512) {
        wanted.remove(AVX512); // all or nothing
    }
    if !wanted.contains(MPX) {
        wanted.remove(MPX);
    }
    let mask = wanted.bits();
    // SAFETY: CR4.OSXSAVE is set and the bits are supported. (Not by `XCr0::write`, which panics at
    // what a hypervisor may leave out.)
    unsafe {
        asm!("xsetbv", in("ecx") 0, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nomem, nostack, preserves_flags));
    }
    MASK.store(mask, Ordering::Relaxed);
    SIZE.store(__cpuid_count(0xd, 0).ebx as usize, Ordering::Relaxed);
}

/// Bytes of a saved state, in the standard (not compacted) XSAVE format.
pub fn size() -> usize {
    SIZE.load(Ordering::Relaxed)
}

/// Enabled components (XCR0), or 0 if only FXSAVE is there.
pub fn mask() -> u64 {
    MASK.load(Ordering::Relaxed)
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

/// Lines of a state that has nothing but its legacy area and its header.
const LEAST: usize = 9;
/// The state a program starts with: control word 0x37f, MXCSR 0x1f80.
static INITIAL: [Line; LEAST] = {
    let mut lines = [Line([0; 64]); LEAST];
    [lines[0].0[0], lines[0].0[1]] = 0x37fu16.to_le_bytes();
    [lines[0].0[24], lines[0].0[25], lines[0].0[26], lines[0].0[27]] = 0x1f80u32.to_le_bytes();
    // XSTATE_BV: x87 and SSE hold the values above, the rest is initial.
    lines[8].0[0] = 3;
    lines
};

/// The components that FXSAVE has: x87 and SSE.
pub const LEGACY: u64 = 3;

/// Loads the registers with what a program starts with.
pub fn reset() {
    load(INITIAL.as_ptr(), mask());
}

/// As [`reset`], but for these components.
pub fn reset_all_but(features: u64) {
    let others = mask() & !features;
    if others != 0 {
        load(INITIAL.as_ptr(), others);
    }
}

/// Loads those components of a state that `m` names: all that there are, where FXSAVE is all.
fn load(p: *const Line, m: u64) {
    // SAFETY: only this module calls it, with the start of a state that has all the parts that its
    // XSTATE_BV names. The content was written by `save`, is `INITIAL` or passed `set_bytes`, so no
    // reserved bit is set that would make xrstor fault.
    unsafe {
        if mask() != 0 {
            asm!("xrstor64 [{}]", in(reg) p, in("eax") m as u32, in("edx") (m >> 32) as u32, options(nostack, readonly, preserves_flags));
        } else {
            asm!("fxrstor64 [{}]", in(reg) p, options(nostack, readonly, preserves_flags));
        }
    }
}

/// A saved state.
#[derive(Clone)]
pub struct FpuState(Box<[Line]>);

impl Default for FpuState {
    fn default() -> Self {
        Self::new()
    }
}

impl FpuState {
    /// The state a program starts with.
    #[expect(
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        reason = "a thread's creator has asked for room; for one that is stopped it comes from the reserve"
    )]
    pub fn new() -> FpuState {
        let mut lines = vec![Line([0; 64]); size().div_ceil(64)].into_boxed_slice();
        let least = LEAST.min(lines.len());
        lines[..least].copy_from_slice(&INITIAL[..least]);
        FpuState(lines)
    }

    /// Saves the registers of the thread that last ran on this CPU.
    pub fn save(&mut self) {
        let p = self.0.as_mut_ptr();
        let m = mask();
        // SAFETY: the area is 64-byte aligned and `size()` long.
        unsafe {
            if m != 0 {
                asm!("xsave64 [{}]", in(reg) p, in("eax") m as u32, in("edx") (m >> 32) as u32, options(nostack, preserves_flags));
            } else {
                asm!("fxsave64 [{}]", in(reg) p, options(nostack, preserves_flags));
            }
        }
    }

    /// Loads the registers from here.
    pub fn restore(&self) {
        load(self.0.as_ptr(), mask());
    }

    /// The bytes, for a signal frame.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `Line` is 64 plain bytes.
        let all =
            unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len() * 64) };
        &all[..size()]
    }

    /// Takes over bytes that a user program could have changed (rt_sigreturn):
    /// reserved bits that would fault are cleared. So is the state of MPX, which has some.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(size());
        // SAFETY: as in `bytes`, exclusively borrowed.
        let all = unsafe {
            core::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast::<u8>(), self.0.len() * 64)
        };
        all[..n].copy_from_slice(&bytes[..n]);
        let mxcsr = u32::from_le_bytes([all[24], all[25], all[26], all[27]]) & 0xffff;
        all[24..28].copy_from_slice(&mxcsr.to_le_bytes());
        if mask() != 0 {
            let mut bv = [0; 8];
            bv.copy_from_slice(&all[512..520]);
            let bv = u64::from_le_bytes(bv) & mask() & !MPX.bits();
            all[512..520].copy_from_slice(&bv.to_le_bytes());
            all[520..576].fill(0); // XCOMP_BV and reserved: standard format
        }
    }
}
