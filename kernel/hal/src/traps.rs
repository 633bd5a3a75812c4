//! System call entry, the 256 vectors, and the way back.

use crate::idt::{self, Gate};
use crate::percpu::{ATTENTION, JUDGED, KERNEL_RSP, USER_RSP, WATCHED};
use crate::{apic, cpu, gdt};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use spin::Once;
use x86_64::registers::rflags::RFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// [`Regs::orig_rax`] of registers that do not belong to a system call.
pub const NO_CALL: u64 = u64::MAX;

/// User registers at entry, in Linux' `pt_regs` order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
#[allow(missing_docs)]
pub struct Regs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// System call number, or the error code of an exception.
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

// As the entry finds them: behind a word, from rsp on.
const _: () = assert!(offset_of!(Regs, rbx) == 40 && offset_of!(Regs, r10) == 56);
const _: () = assert!(offset_of!(Regs, rax) == 80 && offset_of!(Regs, rdi) == 112);
const _: () = assert!(offset_of!(Regs, rip) == 128 && offset_of!(Regs, rsp) == 152);

impl Regs {
    /// The six arguments of a system call.
    #[must_use]
    pub fn arguments(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }

    /// Registers of a thread in user mode at `rip`, in no system call, with interrupts on.
    pub fn of_user(rip: u64, rsp: u64) -> Regs {
        Regs {
            rip,
            rsp,
            rflags: 0x202,
            cs: gdt::USER_CS.into(),
            ss: gdt::USER_DS.into(),
            orig_rax: NO_CALL,
            ..Regs::default()
        }
    }

    /// Whether the registers are those of a system call: `syscall` leaves address and flags in two
    /// registers, and an entry from elsewhere has others there. `ignored`: flags that were changed
    /// since.
    pub fn is_call(&self, ignored: u64) -> bool {
        let has_left = self.rcx == self.rip && (self.r11 ^ self.rflags) & !ignored == 0;
        has_left && self.orig_rax as i64 >= 0
    }

    /// Whether these are registers of user mode.
    pub fn is_user(&self) -> bool {
        self.cs & 3 == 3
    }
}

/// The running thread's registers, with which this CPU last came from user mode on its kernel stack
/// ([`gdt::set_kernel_stack`]). None: the thread never was in user mode.
pub fn saved_registers() -> Option<Regs> {
    let top = crate::percpu::kernel_rsp();
    // SAFETY: this stack is the calling CPU's.
    if top == 0 { None } else { unsafe { registers_on_stack(top) } }
}

/// The registers with which a thread last came from user mode on the kernel stack that ends at
/// `top`. None: it never was in user mode. They may be anything if the thread runs.
///
/// # Safety
/// `top` is the end of a kernel stack that is there.
pub unsafe fn registers_on_stack(top: u64) -> Option<Regs> {
    let place = (top as usize - size_of::<Regs>()) as *const Regs;
    // SAFETY: the stack is there. Any words are `Regs`. They are read as volatile, since the
    // entry's handler, which waits further up the stack, has a reference to them.
    let regs = unsafe { place.read_volatile() };
    let of_user = regs.cs == u64::from(gdt::USER_CS) && regs.ss == u64::from(gdt::USER_DS);
    of_user.then_some(regs)
}

/// Has [`saved_registers`] tell `regs`, with which the running thread enters user mode for the
/// first time: an observer of the thread before that sees what it will start with.
pub fn save_registers(regs: &Regs) {
    let place = (crate::percpu::kernel_rsp() as usize - size_of::<Regs>()) as *mut Regs;
    // SAFETY: the end of the running thread's stack, which is kept free for entries from user mode.
    unsafe { place.write_volatile(*regs) };
}

/// Exception vectors (SDM volume 3, table 6-1).
#[allow(missing_docs)]
pub mod vector {
    pub const DIVIDE: u8 = 0;
    pub const DEBUG: u8 = 1;
    pub const NMI: u8 = 2;
    pub const BREAKPOINT: u8 = 3;
    pub const OVERFLOW: u8 = 4;
    pub const BOUND: u8 = 5;
    pub const INVALID_OPCODE: u8 = 6;
    pub const DOUBLE_FAULT: u8 = 8;
    pub const INVALID_TSS: u8 = 10;
    pub const NOT_PRESENT: u8 = 11;
    pub const STACK: u8 = 12;
    pub const PROTECTION: u8 = 13;
    pub const PAGE_FAULT: u8 = 14;
    pub const X87: u8 = 16;
    pub const ALIGNMENT: u8 = 17;
    pub const MACHINE_CHECK: u8 = 18;
    pub const SIMD: u8 = 19;
}

/// How many numbers of system calls are looked up: a power of two.
pub const CALLS: usize = 512;

/// A system call with its six arguments and all registers.
pub type Call = extern "C" fn(u64, u64, u64, u64, u64, u64, &mut Regs) -> u64;

/// Functions of the kernel for each kind of entry. Interrupts are off when they run.
pub struct Handlers {
    /// System calls by number, where nothing is special. What they return goes to `rax`; of the
    /// registers they change none of the others unless they see to it that `leave` follows.
    pub calls: &'static [Call; CALLS],
    /// A system call that is watched by a tracer or judged by a filter, or of a number that is not
    /// in `calls`. The number is in `orig_rax` and `rax`. Returns true if the fast return (sysret)
    /// is right: rcx, r11 need not be restored.
    pub syscall: fn(&mut Regs) -> bool,
    /// The end of a system call if the CPU has work to do before user mode. Returns the same.
    pub leave: fn(&mut Regs) -> bool,
    /// An exception of user mode (`vector` < 32).
    pub user_exception: fn(&mut Regs, u8),
    /// A page fault of the kernel on a user address inside [`crate::usercopy`]:
    /// true if it is resolved and the access is to be repeated.
    pub kernel_fault: fn(addr: u64, write: bool) -> bool,
    /// An interrupt with its vector, but [`apic::LINUX_VECTOR`], before `interrupted`.
    pub interrupt: fn(u8),
    /// An interrupt of user mode, before going back there.
    pub interrupted: fn(&mut Regs),
    /// A machine check that came in the kernel, at any instruction: on a stack of its own, and
    /// the interrupted code may hold any lock.
    pub machine_check: fn(&Regs),
    /// An exception of the kernel that nothing can resolve. Must not return.
    pub fatal: fn(&Regs, u8) -> !,
}

/// NMIs that no look has counted yet.
static NMIS: AtomicU32 = AtomicU32::new(0);

/// How many NMIs came since the last look, on any CPU. Nothing here asks for one: a watchdog, a
/// button, or hardware that reports an error. As on Linux the machine goes on, and the log says so.
/// In the handler nothing can be said: it may have interrupted the holder of a lock.
pub fn take_nmis() -> u32 {
    if NMIS.load(Ordering::Relaxed) == 0 { 0 } else { NMIS.swap(0, Ordering::Relaxed) }
}

static HANDLERS: Once<&'static Handlers> = Once::new();
/// Their `calls`, for the entry.
static TABLE: AtomicPtr<Call> = AtomicPtr::new(core::ptr::null_mut());

/// Installs the kernel's handlers (once).
pub fn install(handlers: &'static Handlers) {
    HANDLERS.call_once(|| handlers);
    TABLE.store(handlers.calls.as_ptr().cast_mut(), Ordering::Relaxed);
}

fn handlers() -> &'static Handlers {
    HANDLERS.get().expect("trap before the handlers were installed")
}

global_asm!(
    r#"
    .macro SAVE_REST
    push rsi
    push rdx
    push rcx
    push rax
    push r8
    push r9
    push r10
    push r11
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    .endm

    // All registers but rdi and those of the frame of iretq.
    .macro RESTORE
    pop r15
    pop r14
    pop r13
    RESTORE_REST
    .endm

    .macro RESTORE_REST
    pop r12
    pop rbp
    pop rbx
    pop r11
    pop r10
    pop r9
    pop r8
    pop rax
    pop rcx
    pop rdx
    pop rsi
    .endm

    // A section of its own: user mode's page tables have it. At labels that end in `_site`, and at
    // hal_syscall_entry and hal_trap_common, a jump may be written over the first five bytes:
    // `hardened` says when, and what is done there instead.
    .section .hanare.entry, "ax"
    .global hal_syscall_entry
    .balign 64
hal_syscall_entry:
    swapgs
    mov gs:[{user_rsp}], rsp
hal_syscall_stack:
    mov rsp, gs:[{kernel_rsp}]
    mov eax, eax                    // as on Linux the number has 32 bits
    push {user_ds}
    push qword ptr gs:[{user_rsp}]
    push r11
    push {user_cs}
    push rcx
    push rax
    push rdi
    SAVE_REST
hal_syscall_call_site:
    xor ebp, ebp
    mov r11, gs:[{watched}]
hal_syscall_call:
    mov rcx, gs:[{judged}]
    movzx ecx, byte ptr [rcx]
    or ecx, [r11]
    jnz hal_syscall_watched
    cmp eax, {calls}
    jae hal_syscall_watched
    and eax, {calls} - 1            // also where that is predicted wrongly
    mov r11, [rip + {table}]
    mov rcx, r10
    push rsp                        // the seventh argument, and an aligned stack
    call [r11 + rax * 8]
    mov rcx, gs:[{attention}]
    cmp dword ptr [rcx], 0
    jne hal_syscall_attend
    // rsp -> a word, Regs. rbx and r12 to r15 are the user's still, and rax is the result.
hal_sysret:
    mov rcx, [rsp + 136]            // rip
    bt rcx, 47                      // behind the last page: sysret would trap in the kernel
    jc hal_syscall_attend
    mov r11, [rsp + 152]            // rflags
    test r11d, 0x10100              // TF, RF: a trap behind the next instruction is iretq's
    jnz hal_syscall_attend
hal_sysret_pops_site:
    mov rdi, [rsp + 120]
    mov rsi, [rsp + 112]
hal_sysret_pops:
    mov rbp, [rsp + 40]
    mov rdx, [rsp + 104]
    mov r8, [rsp + 80]
    mov r9, [rsp + 72]
    mov r10, [rsp + 64]
    add rsp, 160
hal_sysret_site:
    pop rsp
    swapgs
    sysretq

hal_syscall_attend:
    mov [rsp + 88], rax
    lea rdi, [rsp + 8]
    call {leave}
    jmp 1f
hal_syscall_watched:
    mov rdi, rsp
    sub rsp, 8
    call {syscall}
1:  test al, al
    jz 2f
    mov r15, [rsp + 8]              // any of them may have been changed
    mov r14, [rsp + 16]
    mov r13, [rsp + 24]
    mov r12, [rsp + 32]
    mov rbx, [rsp + 48]
    mov rax, [rsp + 88]
    jmp hal_sysret
2:  add rsp, 8

    .global hal_return_to_user
hal_return_to_user:
    // rsp -> Regs of user mode
hal_return_site:
    pop r15
    pop r14
    pop r13
hal_return_pops:
    RESTORE_REST
hal_iret_site:
    pop rdi
    add rsp, 8
    swapgs
    iretq

    // Vectors: stack = vector, error code, rip, cs, rflags, rsp, ss
hal_trap_common:
    cld
    test byte ptr [rsp + 24], 3
    jz hal_trap_kernel
    swapgs
hal_trap_save:
    xchg rdi, [rsp]                 // rdi = vector; its slot = user rdi
    SAVE_REST
hal_trap_call_site:
    xor ebp, ebp
    movzx esi, dil
hal_trap_call:
    mov rdi, rsp
    sub rsp, 8
    call {trap}
    add rsp, 8
    test byte ptr [rsp + 136], 3
    jnz {ret}
2:  RESTORE
    pop rdi
    add rsp, 8
    iretq

    // #DB comes on a stack of its own: a watched address that `mov ss` reads is told of
    // behind the `syscall` that follows, in the kernel with the user's stack and GS
    // (CVE-2018-8897). From user mode it goes on as others do, on the thread's stack; so does
    // #MC, whose handler changes the program's memory and may wait.
hal_trap_debug:
    test byte ptr [rsp + 24], 3
    jz hal_trap_paranoid
    cld
hal_debug_site:
    swapgs
    push rdi
    mov rdi, rsp                    // -> user rdi, vector, error code, rip, cs, rflags, rsp, ss
hal_trap_stack:
    mov rsp, gs:[{kernel_rsp}]
    push qword ptr [rdi + 56]
    push qword ptr [rdi + 48]
    push qword ptr [rdi + 40]
    push qword ptr [rdi + 32]
    push qword ptr [rdi + 24]
    push qword ptr [rdi + 16]
    push qword ptr [rdi + 8]
    mov rdi, [rdi]
    jmp hal_trap_save

    // An interrupt that comes in the kernel ends a halt: `cpu::wait_for_interrupt` expects that the
    // registers are changed which a call may change. The stack is aligned without the vector.
hal_trap_kernel:
    cmp qword ptr [rsp], 32
    jb hal_trap_save
    pop rdi
    call {halted}
    add rsp, 8
    iretq

    // NMI, #DF, #MC come at any moment, on stacks of their own, and so between an entry
    // and its `swapgs`. Whose GS it is cannot be told from its value: user mode may set it to
    // any (FSGSBASE). So GS is taken from the top of the stack (`gdt::init`), and given
    // its old value after: right wherever it came, and for one within another.
hal_trap_paranoid:
    cld
    xchg rdi, [rsp]
    SAVE_REST
    movzx esi, dil
    mov ecx, {gs_base}
    rdmsr
    mov r12d, eax
    mov r13d, edx
    mov rax, rsp
    or rax, {stack_bytes} - 1
    mov rax, [rax - {block_back}]
    mov rdx, rax
    shr rdx, 32
    wrmsr
hal_paranoid_enter_site:
    xor ebp, ebp
    mov rdi, rsp
hal_paranoid_entered:
    sub rsp, 8
    call {trap}
    add rsp, 8
hal_paranoid_leave_site:
    mov ecx, {gs_base}
hal_paranoid_left:
    mov eax, r12d
    mov edx, r13d
    wrmsr
    jmp 2b

    .macro VECTOR n
    .balign 16
    .if \n == 8 || (\n >= 10 && \n <= 14) || \n == 17 || \n == 21 || \n == 29 || \n == 30
    .else
    push 0
    .endif
    push \n
    .if \n == 2 || \n == 8
    jmp hal_trap_paranoid
    .elseif \n == 1 || \n == 18
    jmp hal_trap_debug
    .else
    jmp hal_trap_common
    .endif
    .endm

    .balign 16
    .global hal_vectors
hal_vectors:
    .altmacro
    .set vec, 0
    .rept 256
    VECTOR %vec
    .set vec, vec + 1
    .endr
    .noaltmacro
"#,
    gs_base = const cpu::msr::GS_BASE,
    stack_bytes = const gdt::IST_SIZE,
    // From the last byte of the stack to the pointer.
    block_back = const gdt::BLOCK_POINTER - 1,
    user_rsp = const USER_RSP,
    kernel_rsp = const KERNEL_RSP,
    user_ds = const gdt::USER_DS as u64,
    user_cs = const gdt::USER_CS as u64,
    watched = const WATCHED,
    judged = const JUDGED,
    attention = const ATTENTION,
    calls = const CALLS,
    table = sym TABLE,
    syscall = sym rust_syscall,
    leave = sym rust_leave,
    trap = sym rust_trap,
    halted = sym rust_halted,
    ret = sym return_to_user,
);

unsafe extern "C" {
    fn hal_syscall_entry();
    fn hal_vectors();
    #[link_name = "hal_return_to_user"]
    pub(crate) fn return_to_user();
}

/// Fills the IDT (first CPU, once).
pub fn build_idt() {
    idt::fill(|vec| Gate {
        // Vectors are 16 bytes apart (checked below by the assembler's .balign).
        target: hal_vectors as *const () as u64 + u64::from(vec) * 16,
        ist: match vec {
            vector::DOUBLE_FAULT => gdt::IST_DOUBLE_FAULT,
            vector::NMI => gdt::IST_NMI,
            vector::MACHINE_CHECK => gdt::IST_MACHINE_CHECK,
            vector::DEBUG => gdt::IST_DEBUG,
            _ => 0,
        },
        // By `int3` and `into`.
        user: matches!(vec, vector::BREAKPOINT | vector::OVERFLOW),
    });
}

/// Flags that the `syscall` instruction clears, as on Linux: all but those of virtual machines.
const CLEARED_BY_SYSCALL: RFlags = RFlags::all()
    .difference(RFlags::VIRTUAL_8086_MODE)
    .difference(RFlags::VIRTUAL_INTERRUPT)
    .difference(RFlags::VIRTUAL_INTERRUPT_PENDING);
const _: () = assert!(CLEARED_BY_SYSCALL.bits() == 0x25_7fd5, "as Linux' syscall_init");

/// Loads the IDT and the system call entry on the calling CPU.
pub fn init_cpu() {
    idt::load();
    // SAFETY: the entry point is the assembly above. SFMASK clears IF, DF, TF, AC, NT, IOPL and RF
    // among others, as Linux does.
    unsafe {
        cpu::wrmsr(cpu::msr::STAR, (0x23u64 << 48) | u64::from(gdt::KERNEL_CS) << 32);
        cpu::wrmsr(cpu::msr::LSTAR, hal_syscall_entry as *const () as u64);
        cpu::wrmsr(cpu::msr::SFMASK, CLEARED_BY_SYSCALL.bits());
    }
}

/// An instruction pointer that iretq would refuse, in the kernel, becomes 0: the
/// program takes the fault itself, in user mode.
pub(crate) fn sanitize(regs: &mut Regs) {
    if regs.rip >= 1 << 47 {
        regs.rip = 0;
    }
}

/// Highest address sysret may return to, see CVE-2012-0217.
const SYSRET_RIP_MAX: u64 = hanare_abi::layout::USER_MAX;

extern "C" fn rust_syscall(regs: &mut Regs) -> bool {
    let fast = (handlers().syscall)(regs);
    can_sysret(fast, regs)
}

extern "C" fn rust_leave(regs: &mut Regs) -> bool {
    let fast = (handlers().leave)(regs);
    can_sysret(fast, regs)
}

/// Whether `sysret` may be used: not with TF or RF set, nor to an address that it mishandles.
fn can_sysret(fast: bool, regs: &mut Regs) -> bool {
    sanitize(regs);
    fast && regs.rip < SYSRET_RIP_MAX
        && regs.rflags & 0x1_0100 == 0
        && regs.cs == u64::from(gdt::USER_CS)
}

extern "C" fn rust_trap(regs: &mut Regs, vec: u8) {
    trap(regs, vec);
    if regs.is_user() {
        sanitize(regs);
    }
}

/// An interrupt that ends a halt: the CPU that halted looks what it was for.
extern "C" fn rust_halted(vec: u8) {
    take_interrupt(vec);
}

/// Work of each interrupt: counting, the end of the interrupt, the handler.
#[inline(always)]
fn take_interrupt(vec: u8) {
    crate::shared::here().count_interrupt(vec);
    if u32::from(vec) != apic::SPURIOUS_VECTOR {
        apic::eoi();
    }
    if vec != apic::LINUX_VECTOR {
        (handlers().interrupt)(vec);
    }
}

fn trap(regs: &mut Regs, vec: u8) {
    crate::usercopy::close_window();
    if vec >= 32 {
        take_interrupt(vec);
        (handlers().interrupted)(regs);
        return;
    }
    crate::shared::cpu(crate::percpu::index()).count_exception(vec);
    if vec == vector::NMI {
        NMIS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if vec == vector::DEBUG && !regs.is_user() {
        // The kernel's own touch of an address that a thread watches is none of the thread's.
        crate::debugregs::take_status();
        return;
    }
    if vec == vector::MACHINE_CHECK && !regs.is_user() {
        (handlers().machine_check)(regs);
        return;
    }
    if regs.is_user() && vec != vector::DOUBLE_FAULT {
        (handlers().user_exception)(regs, vec);
        return;
    }
    if matches!(vec, vector::PAGE_FAULT | vector::PROTECTION)
        && let Some(fixup) = crate::usercopy::fixup(regs.rip)
    {
        let write = regs.orig_rax & 2 != 0;
        if vec == vector::PAGE_FAULT && (handlers().kernel_fault)(cpu::cr2(), write) {
            return;
        }
        regs.rip = fixup;
        return;
    }
    (handlers().fatal)(regs, vec)
}
