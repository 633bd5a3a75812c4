//! From the module's SIPI to Rust: image header, trampoline, first stack.

use crate::firststack::{FIRST_STACK, FIRST_STACK_SIZE};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::{BootParams, ImageHeader};

pub use crate::firststack::is_first_guard;
pub use crate::percpu::CPUS_MAX;

global_asm!(
    r#"
    // The trampoline: copied by the module to any page below 1 MiB, entered in
    // real mode with CS = page >> 4, IP = 0. Position independent: it computes
    // its linear base from CS and patches its own far pointers.
    .section .hanare.trampoline, "ax"
    .code16
    .global trampoline_start, trampoline_end, trampoline_args
trampoline_start:
    cli
    cld
    mov %cs, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    xor %ebx, %ebx
    mov %ax, %bx
    shl $4, %ebx                                // ebx = linear base
    lea (tramp_gdt - trampoline_start)(%ebx), %eax
    mov %eax, (tramp_gdtr - trampoline_start + 2)
    lea (tramp_32 - trampoline_start)(%ebx), %eax
    mov %eax, (tramp_far32 - trampoline_start)
    lea (tramp_64 - trampoline_start)(%ebx), %eax
    mov %eax, (tramp_far64 - trampoline_start)
    lgdtl (tramp_gdtr - trampoline_start)
    mov %cr0, %eax
    and $0x9fffffff, %eax                       // caches on: INIT sets CD and NW
    or $1, %eax
    mov %eax, %cr0
    ljmpl *(tramp_far32 - trampoline_start)

    .code32
tramp_32:
    mov $0x10, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov %cr4, %eax
    or $0xa0, %eax                              // PAE, PGE
    mov %eax, %cr4
    mov (trampoline_args - trampoline_start)(%ebx), %eax
    mov %eax, %cr3
    mov %ebx, %edi                              // cpuid clobbers ebx
    mov $0x80000001, %eax
    cpuid
    mov %edx, %ebp
    mov %edi, %ebx
    mov $0xc0000080, %ecx                       // EFER: LME, and NXE if there
    rdmsr
    or $0x100, %eax
    test $0x100000, %ebp
    jz 1f
    or $0x800, %eax
1:  wrmsr
    mov %cr0, %eax
    or $0x80010000, %eax                        // PG, WP
    mov %eax, %cr0
    ljmpl *(tramp_far64 - trampoline_start)(%ebx)

    .code64
tramp_64:
    mov %ebx, %ebx
    mov (trampoline_args - trampoline_start + 16)(%rbx), %rdi
    mov (trampoline_args - trampoline_start + 24)(%rbx), %rsi
    mov (trampoline_args - trampoline_start + 8)(%rbx), %rax
    jmp *%rax

    .balign 8
tramp_gdt:
    .quad 0
    .quad 0x00cf9b000000ffff                    // 0x08: 32-bit code
    .quad 0x00cf93000000ffff                    // 0x10: data
    .quad 0x00af9b000000ffff                    // 0x18: 64-bit code
tramp_gdtr:
    .word 31
    .long 0
    .balign 4
tramp_far32:
    .long 0
    .word 0x08
    .balign 4
tramp_far64:
    .long 0
    .word 0x18
    .balign 8
trampoline_args:
    .quad 0, 0, 0, 0
trampoline_end:
    .text
"#,
    options(att_syntax)
);

global_asm!(
    r#"
    // ImageHeader (abi/src/boot.rs): found by the module at the image's start.
    .section .hanare.header, "a"
    .quad {magic}
    .long {version}
    .long {header_size}
    .long trampoline_start - . + 16             // from the header's start
    .long trampoline_end - trampoline_start
    .long trampoline_args - trampoline_start
    .long 0

    // 64-bit entry: rdi = BootParams, rsi = CPU index.
    .section .text
    .global lwk_entry
lwk_entry:
    lea rax, [rip + {stacks}]
    mov rax, [rax + rsi * 8]
    test rax, rax
    jz 1f
    // The boot page table does not have the stacks; the kernel's, which the first CPU made, has.
    mov rdx, [rip + {root}]
    mov cr3, rdx
    mov rsp, rax
    jmp 2f
1:  lea rsp, [rip + {first_stack} + {first_stack_size}]
2:  xor ebp, ebp
    call {entry}
    ud2
"#,
    magic = const hanare_abi::MAGIC,
    version = const hanare_abi::VERSION,
    header_size = const size_of::<ImageHeader>(),
    stacks = sym STACKS,
    root = sym crate::paging::KERNEL_ROOT,
    first_stack = sym FIRST_STACK,
    first_stack_size = const FIRST_STACK_SIZE,
    entry = sym rust_entry,
);

/// Stack tops by CPU index; 0 for the first CPU: `FIRST_STACK`.
static STACKS: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];

/// Gives CPU `cpu` (not the first) the stack it will start on.
pub fn set_stack(cpu: usize, top: u64) {
    STACKS[cpu].store(top, Ordering::Release);
}

/// The kernel's entry point, set at link time by [`crate::entry!`].
#[macro_export]
macro_rules! entry {
    ($path:path) => {
        #[unsafe(no_mangle)]
        extern "Rust" fn lwk_main(cpu: usize) -> ! {
            let f: fn(usize) -> ! = $path;
            f(cpu)
        }
    };
}

unsafe extern "Rust" {
    fn lwk_main(cpu: usize) -> !;
}

extern "C" fn rust_entry(params: *const BootParams, cpu: usize) -> ! {
    if cpu == 0 {
        // SAFETY: the module passes the direct-map address of the block it filled; the boot page
        // table maps it, and no other CPU runs yet.
        unsafe { crate::shared::init(params) };
    }
    crate::shared::cpu(cpu).set_state(hanare_abi::boot::CPU_ENTERED);
    // SAFETY: defined by the kernel through `entry!` with this signature.
    unsafe { lwk_main(cpu) }
}
