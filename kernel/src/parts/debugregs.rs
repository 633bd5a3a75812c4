//! The debug registers that a tracer or a debugger has set for a thread.

use crate::base::lock::{Mutex, rank};
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::debugregs::DebugRegisters;
use hanare_core::errno::Result;

/// Debug registers of one thread.
#[derive(Default)]
pub struct OfThread {
    /// The CPU has to have them while the thread runs.
    pub on: AtomicBool,
    /// The registers were set since the CPU got them.
    pub changed: AtomicBool,
    pub registers: Mutex<DebugRegisters, rank::DebugRegisters>,
}

impl OfThread {
    /// Register `n` of `struct user`.
    pub fn get(&self, n: usize) -> u64 {
        self.registers.lock().get(n)
    }

    /// Sets it; the thread is stopped, and looks on its way to user mode. Errors as
    /// [`DebugRegisters::set`].
    pub fn set(&self, n: usize, value: u64) -> Result<()> {
        self.change(|registers| registers.set(n, value))
    }

    /// A debugger's watchpoint; the thread as in [`OfThread::set`], errors as of
    /// [`DebugRegisters::watch`].
    pub fn watch(&self, n: usize, address: u64, bytes: u64, kind: u64) -> Result<()> {
        self.change(|registers| registers.watch(n, address, bytes, kind))
    }

    fn change(&self, how: impl FnOnce(&mut DebugRegisters) -> Result<()>) -> Result<()> {
        let mut registers = self.registers.lock();
        how(&mut registers)?;
        self.on.store(registers.is_on(), Ordering::Relaxed);
        self.changed.store(true, Ordering::Release);
        Ok(())
    }

    /// Clears the registers; the result says whether the CPU has them.
    pub fn reset(&self) -> bool {
        *self.registers.lock() = DebugRegisters::default();
        self.on.swap(false, Ordering::Relaxed)
    }
}
