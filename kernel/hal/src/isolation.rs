//! Page tables for user mode without the kernel (page-table isolation), where the CPU has Meltdown.
//!
//! Each address space has two roots then. The kernel's maps everything. The user's has the same
//! tables for user addresses. Of the kernel's half it has only what the processor and
//! [`crate::hardened`] need before and after they change CR3: entry code, IDT, GDT and TSS, the
//! CPUs' blocks with their small stacks, the interrupt stacks.
//! As on Linux those hold addresses, and registers of the program that was interrupted last, but no
//! memory of the kernel. Nothing of the kernel's half is global then: it would stay in the TLB.
//!
//! Both tables share one tag in the TLB (no PCID), so that each change of CR3 drops user
//! translations of both, and a shootdown has nothing more to do than without isolation.

use crate::paging::{self, NoMemory, SMALL, TableSource};
use crate::pte;

pub(crate) mod switch;
pub use switch::{is_on, turn_on};

/// Makes what all CPUs need visible to user mode's tables. After the kernel's own were built, once.
pub fn build(source: &mut dyn TableSource) -> Result<(), NoMemory> {
    unsafe extern "C" {
        static entry_text_start: u8;
        static entry_text_end: u8;
    }
    if !is_on() {
        return Ok(());
    }
    paging::build_user_half(source)?;
    let text = (&raw const entry_text_start as u64, &raw const entry_text_end as u64);
    for (start, end) in [text, crate::idt::place()] {
        expose(start, end, source)?;
    }
    Ok(())
}

/// Makes visible to user mode's tables what the calling CPU needs, before it enters user mode;
/// `stacks`: its interrupt stacks.
pub fn add_cpu(cpu: usize, stacks: u64, source: &mut dyn TableSource) -> Result<(), NoMemory> {
    if !is_on() {
        return Ok(());
    }
    for stack in crate::gdt::interrupt_stacks(stacks) {
        expose(stack.start, stack.end, source)?;
    }
    let (start, bytes) = crate::percpu::place(cpu);
    expose(start, start + bytes, source)?;
    let (start, bytes) = crate::gdt::place(cpu);
    expose(start, start + bytes, source)
}

/// Pages that hold `start..end`, as the kernel has them.
fn expose(start: u64, end: u64, source: &mut dyn TableSource) -> Result<(), NoMemory> {
    for page in (start & !(SMALL - 1)..end).step_by(SMALL as usize) {
        let entry = paging::kernel_entry(page).expect("mapped in the kernel");
        paging::map_in_user_half(page, entry & !pte::GLOBAL, source)?;
    }
    Ok(())
}
