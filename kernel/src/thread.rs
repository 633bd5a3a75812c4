//! A thread of an application, with its kernel stack, its slot, and what the
//! processor keeps for it while another one runs.

#![allow(unsafe_code)] // interior state that only the owning CPU touches

use crate::process::Process;
use crate::{frames, signals};
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_hal::context::Context;
use hanare_hal::fpu::FpuState;
use hanare_hal::{cpu, memory};
use hanare_ikc::SlotRef;
use spin::Mutex;

/// Kernel stack: 32 KiB.
const STACK_ORDER: u32 = 3;
const STACK_BYTES: u64 = 4096 << STACK_ORDER;

/// User registers that are not in the trap frame.
struct Extended {
    context: Context,
    fpu: FpuState,
    fs_base: u64,
    gs_base: u64,
}

/// A thread.
pub struct Thread {
    /// Its process.
    pub process: Arc<Process>,
    /// Slot index in the process; 0 is the first thread's.
    pub slot_index: u32,
    /// The slot shared with its worker.
    pub slot: SlotRef<'static>,
    /// It waits; others may run first.
    pub waiting: AtomicBool,
    /// Signal mask, pending signals, alternate stack.
    pub signals: Mutex<signals::ThreadSignals>,
    /// TSC cycles spent running, and spent waiting for Linux with the CPU kept.
    pub user_cycles: AtomicU64,
    /// See `user_cycles`.
    pub system_cycles: AtomicU64,
    /// Address to clear and wake at exit (set_tid_address).
    pub clear_tid: AtomicU64,
    stack: u64,
    extended: UnsafeCell<Extended>,
}

// SAFETY: `extended` is touched only by the CPU on whose queue the thread is,
// with interrupts off; everything else is atomic or locked.
unsafe impl Sync for Thread {}
// SAFETY: as above; nothing in it is bound to a CPU.
unsafe impl Send for Thread {}

impl Thread {
    /// A thread that begins in `start(thread as usize)`.
    pub fn new(process: Arc<Process>, slot_index: u32, slot: SlotRef<'static>, start: extern "C" fn(usize) -> !) -> Option<Arc<Thread>> {
        let stack = frames::alloc(STACK_ORDER)?;
        let top = memory::direct(stack) + STACK_BYTES;
        let sigmask = process.start_mask();
        Some(Arc::new_cyclic(|weak| Thread {
            process,
            slot_index,
            slot,
            waiting: AtomicBool::new(false),
            signals: Mutex::new(signals::ThreadSignals::new(sigmask)),
            user_cycles: AtomicU64::new(0),
            system_cycles: AtomicU64::new(0),
            clear_tid: AtomicU64::new(0),
            stack,
            extended: UnsafeCell::new(Extended {
                // The queue holds the thread while it starts, so the pointer stays good.
                context: Context::new(top, start, weak.as_ptr() as usize),
                fpu: FpuState::new(),
                fs_base: 0,
                gs_base: 0,
            }),
        }))
    }

    /// The thread whose address a start function was given.
    pub fn from_argument(argument: usize) -> &'static Thread {
        // SAFETY: `new` passed the address of an `Arc<Thread>` that the CPU's
        // `current` holds until the thread ends; a thread's own code sees it as static.
        unsafe { &*(argument as *const Thread) }
    }

    /// Top of the kernel stack.
    pub fn stack_top(&self) -> u64 {
        memory::direct(self.stack) + STACK_BYTES
    }

    /// Its place for the kernel context.
    pub fn context(&self) -> *mut Context {
        // SAFETY: only forms an address.
        unsafe { &raw mut (*self.extended.get()).context }
    }

    /// Keeps the processor's user state.
    pub fn save_user_state(&self) {
        // SAFETY: called by the CPU that runs the thread, see `Sync`.
        let e = unsafe { &mut *self.extended.get() };
        e.fpu.save();
        e.fs_base = cpu::fs_base();
        e.gs_base = cpu::user_gs_base();
    }

    /// Puts it back.
    pub fn restore_user_state(&self) {
        // SAFETY: as above.
        let e = unsafe { &*self.extended.get() };
        e.fpu.restore();
        cpu::set_fs_base(e.fs_base);
        cpu::set_user_gs_base(e.gs_base);
    }

    /// The state a new program starts with (exec).
    pub fn reset_user_state(&self) {
        FpuState::new().restore();
        cpu::set_fs_base(0);
        cpu::set_user_gs_base(0);
    }

    /// Adds running time.
    pub fn add_cycles(&self, user: u64, system: u64) {
        self.user_cycles.fetch_add(user, Ordering::Relaxed);
        self.system_cycles.fetch_add(system, Ordering::Relaxed);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        frames::free(self.stack, STACK_ORDER);
    }
}
