//! The LWK's hardware layer: boot, paging, traps, APIC, TSC, user copy.
//!
//! All assembly and nearly all `unsafe` of the LWK live in this crate; what it
//! exports is safe to call from a kernel that follows three rules:
//!
//! 1. kernel code runs with interrupts off, except inside [`cpu::wait_for_interrupt`];
//! 2. a frame given to [`paging`] belongs to the caller until it is unmapped
//!    there and the TLB is flushed;
//! 3. [`traps::Handlers`] are installed before the first user thread runs.
#![no_std]

extern crate alloc;

pub mod addr;
pub mod apic;
pub mod boot;
pub mod condition;
pub mod context;
pub mod cpu;
pub mod debugregs;
pub mod devices;
mod firststack;
pub mod fpu;
pub mod gdt;
pub mod hardened;
pub mod heap;
mod idt;
pub mod isolation;
mod kept;
pub mod machinecheck;
pub mod memory;
pub mod mmio;
pub mod oncpu;
pub mod paging;
pub mod percpu;
pub mod pte;
pub mod selectors;
pub mod shared;
pub mod speculation;
mod table;
pub mod traps;
pub mod usercopy;
