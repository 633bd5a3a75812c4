//! The user registers of a thread that is stopped, for who looks at it: debuggers, tracers.

#![allow(unsafe_code)] // registers of a thread that waits, on its kernel stack

use crate::sched::task::Task;
use alloc::boxed::Box;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::{self, USER_REGS, index};
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::Regs;
use hanare_hal::{cpu, gdt};

/// RFLAGS.TF, which is the debugger's business.
pub const TRAP_FLAG: u64 = 0x100;

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
    /// It waits in the kernel.
    pub in_kernel: bool,
    /// Registers were set.
    pub changed: bool,
}

impl Snapshot {
    /// Of the running thread.
    #[expect(
        clippy::disallowed_methods,
        reason = "one for a thread that is stopped already, if need be of the reserve"
    )]
    pub fn take(regs: &Regs, in_kernel: bool) -> Box<Snapshot> {
        let mut fpu = FpuState::new();
        fpu.save();
        Box::new(Snapshot {
            regs: *regs,
            fs_base: cpu::fs_base(),
            gs_base: cpu::user_gs_base(),
            fpu,
            in_kernel,
            changed: false,
        })
    }

    /// Of the running thread, which waits in the kernel.
    pub fn of_waiting(task: &Task) -> Box<Snapshot> {
        // SAFETY: the running thread's own kernel stack, at whose top the entry from
        // user mode put the registers. One that never was in user mode has something
        // else there, which is looked at below.
        let regs =
            unsafe { ((task.stack_top() as usize - size_of::<Regs>()) as *const Regs).read() };
        let real = regs.cs == u64::from(gdt::USER_CS) && regs.ss == u64::from(gdt::USER_DS);
        Snapshot::take(&if real { regs } else { Regs::default() }, true)
    }

    /// In the order of Linux' `user_regs_struct`.
    pub fn words(&self) -> [u64; USER_REGS] {
        let r = &self.regs;
        [
            r.r15,
            r.r14,
            r.r13,
            r.r12,
            r.rbp,
            r.rbx,
            r.r11,
            r.r10,
            r.r9,
            r.r8,
            r.rax,
            r.rcx,
            r.rdx,
            r.rsi,
            r.rdi,
            r.orig_rax,
            r.rip,
            r.cs,
            r.rflags & !TRAP_FLAG,
            r.rsp,
            r.ss,
            self.fs_base,
            self.gs_base,
            0,
            0,
            0,
            0,
        ]
    }

    /// Sets all of them; what may not be set stays. `EIO`: not such registers.
    pub fn set_words(&mut self, wanted: &[u64; USER_REGS]) -> Result<()> {
        const TOP: u64 = 1 << 47;
        if wanted[index::RIP] >= TOP {
            return Err(errno::EIO);
        }
        let mut w = self.words();
        for (which, &value) in wanted.iter().enumerate() {
            ptrace::set_word(&mut w, which, value)?;
        }
        let old = self.regs;
        self.regs = Regs {
            r15: w[0],
            r14: w[1],
            r13: w[2],
            r12: w[3],
            rbp: w[4],
            rbx: w[5],
            r11: w[6],
            r10: w[7],
            r9: w[8],
            r8: w[9],
            rax: w[10],
            rcx: w[11],
            rdx: w[12],
            rsi: w[13],
            rdi: w[14],
            orig_rax: w[15],
            rip: w[16],
            cs: old.cs,
            rflags: w[18],
            rsp: w[19],
            ss: old.ss,
        };
        (self.fs_base, self.gs_base) = (w[index::FS_BASE], w[index::GS_BASE]);
        self.changed = true;
        Ok(())
    }

    /// Makes them the running thread's.
    pub fn load(&self, regs: &mut Regs) {
        *regs = self.regs;
        self.fpu.restore();
        cpu::set_fs_base(self.fs_base);
        cpu::set_user_gs_base(self.gs_base);
    }
}
