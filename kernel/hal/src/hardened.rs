//! Measures of entries and exits against leaks of the CPU. The code in [`crate::traps`] is that of
//! a CPU without leaks. At boot, jumps to the code here are written into it (*patched*) for the
//! measures that are on. Those that are off cost nothing.
//!
//! Isolation (Meltdown, CVE-2017-5754; Linux: Documentation/arch/x86/pti.rst): user mode has page
//! tables without the kernel ([`crate::isolation`]). An entry loads the kernel's CR3 before it
//! touches a thread's stack, an exit the user's after. Each CPU has a small stack that both tables
//! map: the processor pushes the frame of a trap from user mode there, and `iretq` takes it from
//! there.
//!
//! Buffers (MDS and its like; Documentation/arch/x86/mds.rst): `verw` with a selector in memory is
//! the last that is done before user mode.
//!
//! Branch predictors: Spectre variant 2 ("Speculative Execution Side Channel Mitigations" of Intel,
//! 2.4.1; AMD, "Indirect Branch Control Extension"). A CPU that has only the first form of IBRS
//! needs it turned on after each change from user mode, before an indirect branch or a return. It
//! is turned off before user mode, which it would slow down. Between the entry and there, all
//! branches here are direct.
//!
//! Branch history (BHI, CVE-2022-0001; Intel, "Branch History Injection and Intra-mode Branch
//! Target Injection"): the call through the table of system calls is predicted by the branches
//! before it, of user mode, too. Where the CPU cannot keep them from it ([`crate::speculation`])
//! they are overwritten with branches that are always the same, and a barrier sees to it that they
//! have been. As on Linux at system calls only, not at traps.
//!
//! `swapgs` (CVE-2019-1125; Documentation/admin-guide/hw-vuln/spectre.rst): a barrier on both sides
//! of the branch that decides about it, lest the kernel goes on speculatively with the other GS. A
//! write to CR3 is one.

use crate::percpu::{
    ENTRY_TOP, KERNEL_CR3, KERNEL_PREDICTION, USER_CR3, USER_PREDICTION, USER_RSP, VERW_SELECTOR,
    WATCHED,
};
use core::arch::global_asm;
use hanare_abi::boot::{
    MEASURE_CLEAR_BUFFERS, MEASURE_CLEAR_HISTORY, MEASURE_ENTRY_IBRS, MEASURE_FENCE_SWAPGS,
    MEASURE_ISOLATION,
};

global_asm!(
    r#"
    // At `site` a jump to `target`, over five bytes or more to which nothing jumps: if any of
    // `measures` is on (when = 1), or if none is (when = 0). Read by `apply`.
    .macro PATCH site, target, measures, when
    .pushsection .hanare.patches, "a"
    .quad \site, \target
    .long \measures, \when
    .popsection
    .endm

    // What follows, up to `target`, is done only if one of `measures` is on.
    .macro ONLY_WITH measures, site, target
    PATCH \site, \target, \measures, 0
\site:
    .byte 0x0f, 0x1f, 0x44, 0, 0    // a nop of five bytes
    .endm

    PATCH hal_syscall_entry, hal_syscall_isolated, {isolation}, 1
    PATCH hal_sysret_site, hal_sysret_hardened, {exits}, 1
    PATCH hal_iret_site, hal_iret_hardened, {exits}, 1
    PATCH hal_trap_common, hal_trap_hardened, {traps}, 1
    PATCH hal_debug_site, hal_debug_hardened, {traps}, 1
    PATCH hal_paranoid_enter_site, hal_paranoid_enter, {paranoid}, 1
    PATCH hal_paranoid_leave_site, hal_paranoid_leave, {paranoid}, 1
    PATCH hal_syscall_call_site, hal_syscall_predicted, {syscalls}, 1
    PATCH hal_sysret_pops_site, hal_sysret_ibrs, {ibrs}, 1
    PATCH hal_trap_call_site, hal_trap_ibrs, {ibrs}, 1
    PATCH hal_return_site, hal_return_ibrs, {ibrs}, 1

    // Takes rax, rcx and rdx.
    .macro PREDICT value
    mov ecx, {spec_ctrl}
    mov eax, gs:[\value]
    xor edx, edx
    wrmsr
    .endm

    .section .hanare.entry, "ax"
hal_syscall_isolated:
    swapgs
    mov gs:[{user_rsp}], rsp
    mov rsp, gs:[{kernel_cr3}]      // no other register is free
    mov cr3, rsp
    jmp hal_syscall_stack

hal_sysret_hardened:                // rsp -> the user's
    pop qword ptr gs:[{user_rsp}]
    ONLY_WITH {isolation}, hal_site_1, 1f
    mov rsp, gs:[{user_cr3}]
    mov cr3, rsp
1:  mov rsp, gs:[{user_rsp}]
    ONLY_WITH {buffers}, hal_site_2, 1f
    verw word ptr gs:[{verw}]
1:  swapgs
    sysretq

hal_iret_hardened:                  // rsp -> user rdi, orig_rax, rip, cs, rflags, rsp, ss
    ONLY_WITH {isolation}, hal_site_3, 1f
    mov rdi, rsp
    mov rsp, gs:[{entry_top}]
    push qword ptr [rdi + 48]
    push qword ptr [rdi + 40]
    push qword ptr [rdi + 32]
    push qword ptr [rdi + 24]
    push qword ptr [rdi + 16]
    push qword ptr [rdi]
    mov rdi, gs:[{user_cr3}]
    mov cr3, rdi
    pop rdi
    jmp 2f
1:  pop rdi
    add rsp, 8
2:  ONLY_WITH {buffers}, hal_site_4, 1f
    verw word ptr gs:[{verw}]
1:  swapgs
    iretq

hal_trap_hardened:                  // rsp -> vector, error code, rip, cs, rflags, rsp, ss
    cld
    test byte ptr [rsp + 24], 3
    jz 2f
    swapgs
    ONLY_WITH {swapgs}, hal_site_5, 1f
    lfence
1:  ONLY_WITH {isolation}, hal_site_6, hal_trap_save
    jmp hal_trap_isolated
2:  ONLY_WITH {swapgs}, hal_site_7, hal_trap_kernel
    lfence
    jmp hal_trap_kernel

hal_debug_hardened:                 // from user mode, on the stack of #DB
    swapgs
    ONLY_WITH {swapgs}, hal_site_8, 1f
    lfence
1:  ONLY_WITH {isolation}, hal_site_9, 2f
hal_trap_isolated:                  // from user mode, the kernel's GS
    push rdi
    mov rdi, gs:[{kernel_cr3}]
    mov cr3, rdi
    mov rdi, rsp
    jmp hal_trap_stack

2:  push rdi
    mov rdi, rsp
    jmp hal_trap_stack

hal_syscall_predicted:              // rsp -> Regs
    ONLY_WITH {ibrs}, hal_site_14, 1f
    PREDICT {kernel_prediction}
    mov rdx, [rsp + 96]
1:  ONLY_WITH {history}, hal_site_15, 1f
    mov ecx, 5
    call hal_overwrite_history
    lfence
1:  mov eax, [rsp + 80]
    xor ebp, ebp
    mov r11, gs:[{watched}]
    jmp hal_syscall_call

    // The software sequence of Intel's paper: ecx times five branches, each round one call deeper,
    // so that no loop buffer serves them; then as many returns. Uses eax and ecx. Both `ret` lie in
    // the upper half of a cache line, where their prediction cannot be taken for another branch's
    // (ITS, CVE-2024-28956).
    .balign 64, 0xcc
    .skip 27, 0xcc
hal_overwrite_history:
    call hal_history_round
    ret
    .balign 64, 0xcc
    .skip 16, 0xcc
hal_history_round:
    mov eax, 5
2:  jmp 3f
    nop
3:  dec eax
    jnz 2b
    dec ecx
    jnz hal_overwrite_history
    ret

hal_sysret_ibrs:                    // rsp -> a word, Regs; rax is the result, rcx the user's rip
    mov rdi, rax
    PREDICT {user_prediction}
    mov rax, rdi
    mov rcx, [rsp + 136]
    mov rdi, [rsp + 120]
    mov rsi, [rsp + 112]
    jmp hal_sysret_pops

hal_trap_ibrs:                      // rsp -> Regs; in the kernel it is on
    xor ebp, ebp
    movzx esi, dil
    test byte ptr [rsp + 136], 3
    jz hal_trap_call
    PREDICT {kernel_prediction}
    jmp hal_trap_call

hal_return_ibrs:
    PREDICT {user_prediction}
    pop r15
    pop r14
    pop r13
    jmp hal_return_pops

hal_paranoid_enter:                 // from anywhere, with either table, and whatever is predicted
    ONLY_WITH {isolation}, hal_site_10, 1f
    mov r14, cr3
    mov rax, gs:[{kernel_cr3}]
    mov cr3, rax
1:  ONLY_WITH {ibrs}, hal_site_11, 1f
    mov ecx, {spec_ctrl}
    rdmsr
    mov r15d, eax
    PREDICT {kernel_prediction}
1:  xor ebp, ebp
    mov rdi, rsp
    jmp hal_paranoid_entered

hal_paranoid_leave:
    ONLY_WITH {ibrs}, hal_site_12, 1f
    mov ecx, {spec_ctrl}
    mov eax, r15d
    xor edx, edx
    wrmsr
1:  ONLY_WITH {isolation}, hal_site_13, 1f
    mov cr3, r14
1:  mov ecx, {gs_base}
    jmp hal_paranoid_left
"#,
    isolation = const MEASURE_ISOLATION,
    buffers = const MEASURE_CLEAR_BUFFERS,
    swapgs = const MEASURE_FENCE_SWAPGS,
    exits = const MEASURE_ISOLATION | MEASURE_CLEAR_BUFFERS,
    traps = const MEASURE_ISOLATION | MEASURE_FENCE_SWAPGS,
    ibrs = const MEASURE_ENTRY_IBRS,
    history = const MEASURE_CLEAR_HISTORY,
    syscalls = const MEASURE_ENTRY_IBRS | MEASURE_CLEAR_HISTORY,
    paranoid = const MEASURE_ISOLATION | MEASURE_ENTRY_IBRS,
    kernel_prediction = const KERNEL_PREDICTION,
    user_prediction = const USER_PREDICTION,
    spec_ctrl = const crate::speculation::msr::SPEC_CTRL,
    user_rsp = const USER_RSP,
    watched = const WATCHED,
    kernel_cr3 = const KERNEL_CR3,
    user_cr3 = const USER_CR3,
    entry_top = const ENTRY_TOP,
    verw = const VERW_SELECTOR,
    gs_base = const crate::cpu::msr::GS_BASE,
);

/// One record of `PATCH`.
#[repr(C)]
struct Patch {
    site: u64,
    target: u64,
    measures: u32,
    when: u32,
}

/// Bytes of a `jmp` with a 32-bit distance.
const JUMP: u64 = 5;

/// Patches the entry code for these measures. On the first CPU, once, while text is writable:
/// before the kernel's own page table is used.
pub fn apply(measures: u32) {
    unsafe extern "C" {
        static patches_start: Patch;
        static patches_end: Patch;
    }
    // As numbers: to the compiler each of the two would be one `Patch` and nothing behind it.
    let (start, end) = (&raw const patches_start as usize, &raw const patches_end as usize);
    for at in (start..end).step_by(size_of::<Patch>()) {
        // SAFETY: the linker has put `Patch`es and nothing else between the two.
        let patch = unsafe { (at as *const Patch).read_volatile() };
        if (patch.measures & measures != 0) == (patch.when == 1) {
            let distance = patch.target.wrapping_sub(patch.site + JUMP) as u32;
            // SAFETY: the site is five bytes of text made for it, and text is writable. No other
            // CPU runs, and this one has not come there yet. (It comes there by a jump at the
            // earliest, as SDM volume 3, 9.1.3 wants.)
            unsafe {
                (patch.site as *mut u8).write_volatile(0xe9);
                ((patch.site + 1) as *mut u32).write_unaligned(distance);
            }
        }
    }
}
