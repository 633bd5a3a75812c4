//! The system call entry: the table's row decides who serves a call.

use crate::calls::seccomp::{self, Judged};
use crate::calls::{delegated, local};
use crate::gate::observe;
use crate::process::thread;
use hanare_core::errno::{self, Result};
use hanare_core::syscalls::{self, Row, Service};
use hanare_hal::traps::Regs;
use hanare_hal::{percpu, shared, speculation};

/// A system call of the running thread. The result is put into `rax`.
pub fn entry(regs: &mut Regs) {
    // As Linux: the number is a 32-bit value.
    let number = u64::from(regs.orig_rax as u32);
    regs.orig_rax = number;
    if thread::current().process.observed.is_on() {
        return observe::call(regs, serve);
    }
    serve(regs, number);
}

/// Serves a call; `None` if the registers are another context's afterwards.
pub fn serve(regs: &mut Regs, number: u64) -> Option<()> {
    if thread::current().seccomp.is_on() {
        match seccomp::judge(regs) {
            Judged::Allowed => {}
            Judged::Answered => return Some(()),
            Judged::Replaced => return None,
        }
    }
    let Some(row) = syscalls::row(speculation::below(number, syscalls::NUMBERS as u64)) else {
        regs.rax = errno::ENOSYS.as_return() as u64;
        return Some(());
    };
    crate::debug!("{} {:x?}", row.name, regs.arguments());
    let result = match row.service {
        Service::Local(call) => {
            shared::cpu(percpu::index()).count_local_call();
            local::serve(call, row, regs)?
        }
        Service::Delegated(hook) => delegated::serve(row, hook, regs.arguments()),
        Service::Refused(error, why) => refused(row, error, why),
    };
    crate::debug!("{} = {:x?}", row.name, result);
    regs.rax = match result {
        Ok(value) => value,
        Err(e) => e.as_return() as u64,
    };
    Some(())
}

fn refused(row: &Row, error: errno::Errno, why: &str) -> Result<u64> {
    crate::debug!(
        "pid {}: {} refused: {why}",
        thread::current().process.identity.lock().pid,
        row.name
    );
    Err(error)
}
