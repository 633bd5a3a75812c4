//! Copies between kernel memory and the running application's addresses.
//!
//! User pointers are *claims*: the address is checked against the user range,
//! the access may fault, and one that cannot be resolved ends the copy.

use crate::addr::PhysAddr;
use crate::{fpu, memory};
use core::arch::{asm, global_asm};
use core::ffi::CStr;
use hanare_abi::layout::{USER_MAX, USER_MIN};

global_asm!(
    r#"
    .section .text
    .global hal_copy_user
    // rdi = to, rsi = from, rdx = bytes; returns 0, or all ones: fault. By words: not every CPU has
    // a fast `rep movsb`, and each has a fast `rep movsq`.
hal_copy_user:
    mov rcx, rdx
    shr rcx, 3
hal_copy_user_begin:
    rep movsq
    mov ecx, edx
    and ecx, 7
    jz hal_copy_user_end
    rep movsb
hal_copy_user_end:
    xor eax, eax
    ret

    // rdi = address of an XSAVE area, edx:eax of the instruction in rdx and rsi; returns as above.
    .global hal_xsave_user
hal_xsave_user:
    mov eax, esi
hal_xsave_user_begin:
    xsave64 [rdi]
hal_xsave_user_end:
    xor eax, eax
    ret
    .global hal_xrstor_user
hal_xrstor_user:
    mov eax, esi
hal_xrstor_user_begin:
    xrstor64 [rdi]
hal_xrstor_user_end:
    xor eax, eax
    ret

    // rdi = address of an FXSAVE area; returns as above.
    .global hal_fxrstor_user
hal_fxrstor_user:
hal_fxrstor_user_begin:
    fxrstor64 [rdi]
hal_fxrstor_user_end:
    xor eax, eax
    ret

    // rdi = address, esi = expected, edx = new; returns what was there, all ones: fault.
    .global hal_exchange_user
hal_exchange_user:
    mov eax, esi
hal_exchange_user_begin:
    lock cmpxchg [rdi], edx
hal_exchange_user_end:
    mov eax, eax
    ret

    // Where all of them end whose access failed.
    .global hal_user_fault
hal_user_fault:
    mov rax, -1
    ret

    // rdi = address; returns the word, all ones: fault.
    .global hal_load_user
hal_load_user:
hal_load_user_begin:
    mov eax, [rdi]
hal_load_user_end:
    ret
"#
);

unsafe extern "C" {
    fn hal_copy_user(to: u64, from: u64, bytes: usize) -> u64;
    fn hal_copy_user_begin();
    fn hal_copy_user_end();
    fn hal_xsave_user(to: u64, low: u32, high: u32) -> u64;
    fn hal_xsave_user_begin();
    fn hal_xsave_user_end();
    fn hal_xrstor_user(from: u64, low: u32, high: u32) -> u64;
    fn hal_xrstor_user_begin();
    fn hal_xrstor_user_end();
    fn hal_fxrstor_user(from: u64) -> u64;
    fn hal_fxrstor_user_begin();
    fn hal_fxrstor_user_end();
    fn hal_exchange_user(addr: u64, expected: u32, new: u32) -> u64;
    fn hal_exchange_user_begin();
    fn hal_exchange_user_end();
    fn hal_user_fault();
    fn hal_load_user(addr: u64) -> u64;
    fn hal_load_user_begin();
    fn hal_load_user_end();
}

/// Where to go on if the access of user memory by the instruction at `rip` failed;
/// `None`: it is none of ours.
pub(crate) fn fixup(rip: u64) -> Option<u64> {
    type Place = unsafe extern "C" fn();
    let places: [(Place, Place); 6] = [
        (hal_copy_user_begin, hal_copy_user_end),
        (hal_xsave_user_begin, hal_xsave_user_end),
        (hal_xrstor_user_begin, hal_xrstor_user_end),
        (hal_fxrstor_user_begin, hal_fxrstor_user_end),
        (hal_exchange_user_begin, hal_exchange_user_end),
        (hal_load_user_begin, hal_load_user_end),
    ];
    let at = |f: Place| f as *const () as u64;
    places
        .into_iter()
        .any(|(begin, end)| (at(begin)..at(end)).contains(&rip))
        .then_some(at(hal_user_fault))
}

fn open_window() {
    if crate::cpu::smap() {
        // SAFETY: `stac` exists with SMAP; closed again right after the copy, and
        // by every trap.
        unsafe { asm!("stac", options(nomem, nostack)) };
    }
}

/// Forbids access to user memory again (`clac`).
pub(crate) fn close_window() {
    if crate::cpu::smap() {
        // SAFETY: `clac` exists with SMAP.
        unsafe { asm!("clac", options(nomem, nostack)) };
    }
}

/// An address in the running program's memory, as a call's argument or the program's memory gives
/// it: it is neither an address of the kernel's nor a physical one, and nothing else is known of
/// it. Each copy checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct UserAddr(u64);

impl UserAddr {
    /// The address that a program gives.
    #[must_use]
    pub const fn of(addr: u64) -> Self {
        Self(addr)
    }

    /// So many bytes behind an address that a program gives. Where that wraps nothing can be read
    /// or written, as at the address itself.
    #[must_use]
    pub const fn behind(addr: u64, bytes: u64) -> Self {
        match addr.checked_add(bytes) {
            Some(addr) => Self(addr),
            None => Self(u64::MAX),
        }
    }

    /// The number, to look up what is mapped there, or to pass it on to Linux.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether the address is null.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// So many bytes further.
    #[must_use]
    pub fn checked_add(self, bytes: usize) -> Option<Self> {
        self.0.checked_add(bytes as u64).map(Self)
    }
}

/// The user side of a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault;

fn in_range(addr: UserAddr, bytes: usize) -> bool {
    addr.0 >= USER_MIN && addr.checked_add(bytes).is_some_and(|end| end.0 <= USER_MAX)
}

/// An address that [`in_range`] has accepted, and no other one where that was only predicted
/// (Spectre variant 1; as `mask_user_address` of Linux): all ones has no memory. The end may lie
/// beyond the range by what one copies.
fn checked(addr: UserAddr) -> u64 {
    crate::speculation::below(addr.0, USER_MAX)
}

/// Reads user memory into `to`.
pub fn read(addr: UserAddr, to: &mut [u8]) -> Result<(), Fault> {
    if to.is_empty() {
        return Ok(());
    }
    if !in_range(addr, to.len()) {
        return Err(Fault);
    }
    open_window();
    // SAFETY: `to` is ours; the source is in the user range, and faults on it are
    // resolved or end the copy.
    let result = unsafe { hal_copy_user(to.as_mut_ptr() as u64, checked(addr), to.len()) };
    close_window();
    if result == 0 { Ok(()) } else { Err(Fault) }
}

/// Writes `from` to user memory.
pub fn write(addr: UserAddr, from: &[u8]) -> Result<(), Fault> {
    if from.is_empty() {
        return Ok(());
    }
    if !in_range(addr, from.len()) {
        return Err(Fault);
    }
    open_window();
    // SAFETY: as in `read`, the other way round; kernel pages cannot be reached.
    let result = unsafe { hal_copy_user(checked(addr), from.as_ptr() as u64, from.len()) };
    close_window();
    if result == 0 { Ok(()) } else { Err(Fault) }
}

/// Reads user memory into frames that the caller owns, one behind the other. Other threads that map
/// them may write at the same time.
pub fn read_to(addr: UserAddr, to: PhysAddr, bytes: usize) -> Result<(), Fault> {
    let to = memory::checked(to, bytes) as u64;
    if !in_range(addr, bytes) {
        return Err(Fault);
    }
    open_window();
    // SAFETY: as in `read`; `to` is the instance's memory, and the caller's.
    let result = unsafe { hal_copy_user(to, checked(addr), bytes) };
    close_window();
    if result == 0 { Ok(()) } else { Err(Fault) }
}

/// Writes what lies in such frames to user memory.
pub fn write_from(addr: UserAddr, from: PhysAddr, bytes: usize) -> Result<(), Fault> {
    let from = memory::checked(from, bytes) as u64;
    if !in_range(addr, bytes) {
        return Err(Fault);
    }
    open_window();
    // SAFETY: as in `write`; `from` is the instance's memory.
    let result = unsafe { hal_copy_user(checked(addr), from, bytes) };
    close_window();
    if result == 0 { Ok(()) } else { Err(Fault) }
}

/// Saves the running thread's FPU state to an XSAVE area of [`fpu::size`] bytes in user memory,
/// whose header is zeroed and which lies at a multiple of 64.
pub fn save_fpu(to: UserAddr) -> Result<(), Fault> {
    with_fpu(to, |at, mask| {
        // SAFETY: as in `write`, of the bytes that the instruction accesses at most. It changes no
        // registers that the kernel uses; a misaligned area is a fault, too.
        unsafe { hal_xsave_user(at, mask as u32, (mask >> 32) as u32) }
    })
}

/// Loads those `features` of the running thread's FPU state that there are from such an area, whose
/// header may be any; the others become initial. A `Fault`, too, where the CPU refuses what it
/// finds there; the state is then any.
pub fn load_fpu(from: UserAddr, features: u64) -> Result<(), Fault> {
    with_fpu(from, |at, mask| {
        let mask = mask & features;
        // SAFETY: as in `save_fpu`, the other way round; reserved bits in the area are faults, too.
        unsafe { hal_xrstor_user(at, mask as u32, (mask >> 32) as u32) }
    })?;
    fpu::reset_all_but(features);
    Ok(())
}

/// Loads the running thread's x87 and SSE state from an FXSAVE area in user memory. The rest, and
/// faults, as in [`load_fpu`].
pub fn load_legacy_fpu(from: UserAddr) -> Result<(), Fault> {
    // SAFETY: as in `load_fpu`.
    with_fpu(from, |at, _| unsafe { hal_fxrstor_user(at) })?;
    fpu::reset_all_but(fpu::LEGACY);
    Ok(())
}

/// Has an instruction access an area of [`fpu::size`] bytes in user memory: it is told its address
/// and [`fpu::mask`], and gives 0 or all ones, a fault.
fn with_fpu(area: UserAddr, instruction: impl FnOnce(u64, u64) -> u64) -> Result<(), Fault> {
    if !in_range(area, fpu::size()) {
        return Err(Fault);
    }
    open_window();
    let result = instruction(checked(area), fpu::mask());
    close_window();
    if result == 0 { Ok(()) } else { Err(Fault) }
}

/// Reads a little-endian word.
pub fn read_u64(addr: UserAddr) -> Result<u64, Fault> {
    let mut b = [0; 8];
    read(addr, &mut b)?;
    Ok(u64::from_le_bytes(b))
}

/// Reads a 32-bit word in one piece if it is aligned.
pub fn read_u32(addr: UserAddr) -> Result<u32, Fault> {
    if !in_range(addr, 4) {
        return Err(Fault);
    }
    open_window();
    // SAFETY: reads the user range; faults are resolved or answered with all ones.
    let v = unsafe { hal_load_user(checked(addr)) };
    close_window();
    u32::try_from(v).map_err(|_| Fault)
}

/// Replaces the 32-bit word at `addr`, which must be aligned, if it is `expected`;
/// what was there.
pub fn compare_exchange_u32(addr: UserAddr, expected: u32, new: u32) -> Result<u32, Fault> {
    if !in_range(addr, 4) || !addr.0.is_multiple_of(4) {
        return Err(Fault);
    }
    open_window();
    // SAFETY: as in `write`.
    let v = unsafe { hal_exchange_user(checked(addr), expected, new) };
    close_window();
    u32::try_from(v).map_err(|_| Fault)
}

/// Writes zeros.
pub fn zero(addr: UserAddr, bytes: usize) -> Result<(), Fault> {
    let zeros = [0u8; 256];
    let mut done = 0;
    while done < bytes {
        let n = (bytes - done).min(zeros.len());
        write(addr.checked_add(done).ok_or(Fault)?, &zeros[..n])?;
        done += n;
    }
    Ok(())
}

/// Reads a zero-terminated string of at most `max` bytes, without its zero.
/// `Ok(None)`: longer than that.
pub fn read_string(addr: UserAddr, buffer: &mut [u8]) -> Result<Option<&[u8]>, Fault> {
    let mut done = 0;
    while done < buffer.len() {
        // Never across a page boundary: the next page may not be there. Most strings are short.
        let at = addr.checked_add(done).ok_or(Fault)?;
        let n = (buffer.len() - done).min(done.max(64)).min(4096 - (at.0 as usize & 4095));
        read(at, &mut buffer[done..done + n])?;
        if let Ok(string) = CStr::from_bytes_until_nul(&buffer[done..done + n]) {
            let length = string.count_bytes();
            return Ok(Some(&buffer[..done + length]));
        }
        done += n;
    }
    Ok(None)
}
