//! GDT, TSS and interrupt stacks of each CPU.

use crate::percpu::CPUS_MAX;
use core::arch::asm;
use core::cell::UnsafeCell;

pub use crate::selectors::{KERNEL_CS, KERNEL_DS, USER_CS, USER_DS};

const TSS_SELECTOR: u16 = 0x40;
/// Entry of the segment whose limit tells user mode the CPU (`lsl` of selector 0x7b).
const CPU_NUMBER: usize = 15;
const ENTRIES: usize = CPU_NUMBER + 1;

/// Interrupt stack table entries: double fault, NMI, machine check, debug exception.
pub(crate) const IST_DOUBLE_FAULT: u8 = 1;
pub(crate) const IST_NMI: u8 = 2;
pub(crate) const IST_MACHINE_CHECK: u8 = 3;
pub(crate) const IST_DEBUG: u8 = 4;
const IST_STACKS: usize = 4;
const IST_NAMES: [&str; IST_STACKS] = ["double fault", "NMI", "machine check", "debug exception"];
pub(crate) const IST_SIZE: usize = 8 << 10;
/// Addresses of each such stack: the lower half is not mapped.
const IST_STRIDE: usize = 2 * IST_SIZE;
/// Bytes from the end of each such stack down to the address of its CPU's block (`percpu`);
/// there the stack begins, aligned as the processor wants it.
pub(crate) const BLOCK_POINTER: usize = 16;

#[repr(C, packed(4))]
struct Tss {
    reserved0: u32,
    rsp: [u64; 3],
    reserved1: u64,
    ist: [u64; 7],
    reserved2: u64,
    reserved3: u16,
    io_map: u16,
}

#[repr(C, align(64))]
struct Tables {
    gdt: [u64; ENTRIES],
    tss: Tss,
}

/// Tables of all CPUs, on pages of their own: user mode's page tables may have them.
#[repr(C, align(4096))]
struct All(UnsafeCell<[Tables; CPUS_MAX]>);
// SAFETY: each CPU writes only its own element, before loading it.
unsafe impl Sync for All {}
static TABLES: All = All(UnsafeCell::new(
    [const {
        Tables {
            gdt: [0; ENTRIES],
            tss: Tss {
                reserved0: 0,
                rsp: [0; 3],
                reserved1: 0,
                ist: [0; 7],
                reserved2: 0,
                reserved3: 0,
                io_map: 104,
            },
        }
    }; CPUS_MAX],
));

/// Addresses that the interrupt stacks of a CPU take.
pub const INTERRUPT_STACK_ADDRESSES: u64 = (IST_STACKS * IST_STRIDE) as u64;

/// Which of those addresses, from `stacks` on, are to be mapped.
pub fn interrupt_stacks(stacks: u64) -> impl Iterator<Item = core::ops::Range<u64>> {
    (0..IST_STACKS).map(move |i| {
        let end = stacks + ((i + 1) * IST_STRIDE) as u64;
        end - IST_SIZE as u64..end
    })
}

/// Name of the interrupt stack whose guard has the address at an offset from the first one.
pub fn guarded_by(offset: u64) -> Option<&'static str> {
    let in_guard = offset % (IST_STRIDE as u64) < (IST_STRIDE - IST_SIZE) as u64;
    IST_NAMES.get(offset as usize / IST_STRIDE).filter(|_| in_guard).copied()
}

/// Loads GDT and TSS on the calling CPU; `stacks` is the start of
/// [`INTERRUPT_STACK_ADDRESSES`], of which [`interrupt_stacks`] are mapped and the CPU's alone;
/// `number` is what `lsl` tells.
pub fn init(cpu: usize, stacks: u64, number: u32) {
    assert!(stacks.is_multiple_of(IST_SIZE as u64));
    // SAFETY: the stacks are this CPU's alone; element `cpu` is, too; descriptors are the constants
    // of SDM 3.4.5 and 7.2.3; the segment registers are reloaded to match.
    unsafe {
        let t = &mut *TABLES.0.get().cast::<Tables>().add(cpu);
        for (i, stack) in interrupt_stacks(stacks).enumerate() {
            let top = stack.end - BLOCK_POINTER as u64;
            (top as *mut u64).write(crate::percpu::block());
            t.tss.ist[i] = top;
        }
        let base = &raw const t.tss as u64;
        t.gdt[..10].copy_from_slice(&[
            0,
            0,
            0x00af_9b00_0000_ffff, // 0x10 kernel code
            0x00cf_9300_0000_ffff, // 0x18 kernel data
            0x00cf_fb00_0000_ffff, // 0x20 user 32-bit code (for sysret's arithmetic)
            0x00cf_f300_0000_ffff, // 0x28 user data
            0x00af_fb00_0000_ffff, // 0x30 user code
            0,
            0x0000_8900_0000_0067 | (base & 0xff_ffff) << 16 | (base >> 24 & 0xff) << 56, // 0x40 TSS
            base >> 32,
        ]);
        let limit = u64::from(number);
        t.gdt[CPU_NUMBER] = 0x0040_f500_0000_0000 | limit & 0xffff | (limit >> 16 & 0xf) << 48; // data, read-only
        let pointer = [0u16; 5];
        let mut pointer = pointer;
        let gdt = &raw const t.gdt as u64;
        pointer[0] = (ENTRIES * 8 - 1) as u16;
        for i in 0..4 {
            pointer[1 + i] = (gdt >> (16 * i)) as u16;
        }
        asm!(
            "lgdt [{p}]",
            "push {cs}", "lea {t}, [rip + 2f]", "push {t}", "retfq", "2:",
            "mov ss, {ds:x}", "mov ds, {ds:x}", "mov es, {ds:x}",
            "xor {t:e}, {t:e}", "mov fs, {t:x}", "mov gs, {t:x}",
            // After a reset a CPU takes 64 KiB at address 0, which are a program's, for its local
            // descriptors.
            "lldt {t:x}",
            "ltr {tss:x}",
            p = in(reg) &pointer, t = out(reg) _, cs = const KERNEL_CS as u64,
            ds = in(reg) u64::from(KERNEL_DS), tss = in(reg) u64::from(TSS_SELECTOR),
        );
    }
}

/// Address and bytes of a CPU's tables.
pub(crate) fn place(cpu: usize) -> (u64, u64) {
    (TABLES.0.get().cast::<Tables>().wrapping_add(cpu) as u64, size_of::<Tables>() as u64)
}

/// Sets the stack for entries from user mode (system calls and traps): `top` is the end of one that
/// stays mapped. Traps come to it by the CPU's small stack where user mode's page tables do not
/// have it.
pub fn set_kernel_stack(cpu: usize, top: u64) {
    crate::percpu::set_kernel_rsp(top);
    let top = if crate::isolation::switch::is_on() { crate::percpu::entry_top() } else { top };
    // SAFETY: this CPU's own TSS; the processor reads it only on a trap from user mode.
    unsafe { (*TABLES.0.get().cast::<Tables>().add(cpu)).tss.rsp[0] = top };
}
