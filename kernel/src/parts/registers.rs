//! The user registers of a thread that a tracer or a debugger stops.

use crate::base::heap;
use crate::base::lock::{Mutex, rank};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use hanare_core::errno::Result;
use hanare_core::gate::{Parking, TRAP_FLAG};
use hanare_core::ptrace::{self, FXSAVE, USER_REGS, index};
use hanare_hal::cpu;
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::{self, Regs};
use zerocopy::IntoBytes;

/// A thread as its tracer and its debugger have it.
#[derive(Default)]
pub struct OfThread {
    /// A [`Parking`].
    word: AtomicU32,
    /// The registers that the thread has left: there are some if [`Parking::REGISTERS`] is set.
    registers: Mutex<Option<Box<Snapshot>>, rank::Parking>,
}

impl OfThread {
    /// The thread's state, read without the lock.
    pub fn now(&self) -> Parking {
        Parking::from_bits_retain(self.word.load(Ordering::SeqCst))
    }

    /// A change of state, with its registers locked.
    pub fn change<R>(&self, f: impl FnOnce(&mut Parking, &mut Option<Box<Snapshot>>) -> R) -> R {
        let mut registers = self.registers.lock();
        let mut parking = self.now();
        let result = f(&mut parking, &mut registers);
        debug_assert_eq!(parking.contains(Parking::REGISTERS), registers.is_some());
        self.word.store(parking.bits(), Ordering::SeqCst);
        result
    }
}

/// User registers of a thread that is stopped.
pub struct Snapshot {
    /// General registers.
    pub regs: Regs,
    /// FS base.
    pub fs_base: u64,
    /// GS base.
    pub gs_base: u64,
    /// Extended state.
    pub fpu: FpuState,
}

/// The user registers of the running thread, which is in the kernel. If it never was in user mode
/// they are those that it will start with. While its program is not there yet, only user mode's
/// selectors are set.
pub fn of_running() -> Regs {
    traps::saved_registers().unwrap_or_else(|| Regs::of_user(0, 0))
}

impl Snapshot {
    /// The user registers of the running thread, copied.
    #[expect(
        clippy::disallowed_methods,
        reason = "one for a thread that is stopped already, if need be of the reserve"
    )]
    pub fn take(regs: Regs) -> Box<Snapshot> {
        let mut fpu = FpuState::new();
        fpu.save();
        Box::new(Snapshot { regs, fs_base: cpu::fs_base(), gs_base: cpu::user_gs_base(), fpu })
    }

    /// In the order of Linux' `user_regs_struct`, without the trap flag.
    pub fn words(&self) -> [u64; USER_REGS] {
        let mut words = [0; USER_REGS];
        words.as_mut_bytes()[..size_of::<Regs>()].copy_from_slice(self.regs.as_bytes());
        words[index::EFLAGS] &= !TRAP_FLAG;
        (words[index::FS_BASE], words[index::GS_BASE]) = (self.fs_base, self.gs_base);
        words
    }

    /// Sets the first ones, one after the other as Linux does; what may not be set stays. `EIO`:
    /// not such registers, and those before are set.
    pub fn set_words(&mut self, wanted: &[u64]) -> Result<()> {
        let mut w = self.words();
        let mut all = wanted.iter().enumerate();
        let result = all.try_for_each(|(which, &value)| ptrace::set_word(&mut w, which, value));
        self.regs.as_mut_bytes().copy_from_slice(&w.as_bytes()[..size_of::<Regs>()]);
        (self.fs_base, self.gs_base) = (w[index::FS_BASE], w[index::GS_BASE]);
        result
    }

    /// State of x87 and SSE, as FXSAVE has it.
    pub fn legacy(&self) -> &[u8] {
        &self.fpu.bytes()[..FXSAVE]
    }

    /// Sets the state of x87 and SSE.
    pub fn set_legacy(&mut self, bytes: &[u8]) -> Result<()> {
        let mut all = heap::copied(self.fpu.bytes())?;
        all[..bytes.len()].copy_from_slice(bytes);
        if all.len() > FXSAVE {
            all[FXSAVE] |= 3; // x87 and SSE state is there
        }
        self.fpu.set_bytes(&all);
        Ok(())
    }

    /// Makes them the running thread's, but for selectors with which no CPU enters user mode:
    /// false, there are such.
    #[must_use]
    pub fn load(&self, regs: &mut Regs) -> bool {
        let user = Regs::of_user(0, 0);
        let enters = ptrace::enters_user_mode(self.regs.cs, self.regs.ss);
        *regs = Regs { cs: user.cs, ss: user.ss, ..self.regs };
        self.fpu.restore();
        cpu::set_fs_base(self.fs_base);
        cpu::set_user_gs_base(self.gs_base);
        enters
    }
}
