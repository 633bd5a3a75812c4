//! The system call entry: the table's row decides which function serves a call.

use crate::calls::notified::{self, Decision};
use crate::calls::seccomp::{self, Judged};
use crate::calls::{delegated, local};
use crate::gate::ptrace;
use crate::process::thread;
use crate::route::{self, pooled};
use crate::sched::cpus;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Errno};
use hanare_core::syscalls::{self, Hook, LocalCall, Row, Service};
use hanare_hal::traps::{self, Call, Regs};
use hanare_hal::{shared, speculation};

/// Handlers of calls that are neither watched nor judged, by number.
pub static CALLS: [Call; traps::CALLS] = {
    let mut calls = [other as Call; traps::CALLS];
    let mut number = 0;
    while number < traps::CALLS {
        if let Some(row) = syscalls::row(number as u64) {
            calls[number] = match row.service {
                Service::Delegated(Hook::None | Hook::OtherMemory | Hook::SigWait) => {
                    route::entry(row)
                }
                Service::Local(LocalCall::Getpid) => local::getpid,
                _ => other,
            };
        }
        number += 1;
    }
    calls
};

/// One that is not in a hurry.
extern "C" fn other(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64, regs: &mut Regs) -> u64 {
    if execute(regs, regs.orig_rax).is_none() {
        cpus::request_attention(); // all of them are to be restored
    }
    regs.rax
}

/// Serves a call, if it is allowed to be made; `None` if the registers are another context's
/// afterwards.
pub fn serve(regs: &mut Regs, number: u64) -> Option<()> {
    match seccomp::judge(regs) {
        Judged::Allowed => execute(regs, number),
        Judged::Permitted => {
            let (thread, number) = (thread::current(), regs.orig_rax as u32);
            ptrace::permit(thread, Some(number));
            let returned = execute(regs, number.into());
            ptrace::permit(thread, None);
            returned
        }
        Judged::Answered => Some(()),
        Judged::Notified(listener) => match notified::ask(regs, listener) {
            // The call about which it was asked: a tracer may have made that one of another.
            Decision::GoesOn => execute(regs, u64::from(regs.orig_rax as u32)),
            Decision::Departs(call) => {
                let departs = &thread::current().seccomp.departs;
                departs.store(call, Ordering::Relaxed);
                let served = execute(regs, u64::from(regs.orig_rax as u32));
                departs.store(0, Ordering::Relaxed);
                notified::forget(listener, call);
                served
            }
            Decision::Plainly(row) => {
                let result = route::call(row, regs.arguments());
                regs.rax = result.unwrap_or_else(|e| e.as_return() as u64);
                Some(())
            }
            Decision::Answered(value) => {
                regs.rax = value;
                Some(())
            }
        },
        Judged::Replaced => None,
    }
}

fn execute(regs: &mut Regs, number: u64) -> Option<()> {
    let Some(row) = syscalls::row(speculation::below(number, syscalls::NUMBERS as u64)) else {
        regs.rax = errno::ENOSYS.as_return() as u64;
        return Some(());
    };
    crate::debug!("{} {:x?}", row.name, regs.arguments());
    if let Some(error) = is_refused(row, &regs.arguments()) {
        regs.rax = error.as_return() as u64;
        return Some(());
    }
    let result = match row.service {
        Service::Local(call) => {
            shared::here().count_local_call();
            local::serve(call, row, regs)?
        }
        Service::Delegated(hook) => delegated::serve(row, hook, regs.arguments()),
        Service::Refused(error, why) => {
            crate::debug!("{} is refused: {why}", row.name);
            Err(error)
        }
    };
    crate::debug!("{} = {:x?}", row.name, result);
    regs.rax = result.unwrap_or_else(|e| e.as_return() as u64);
    Some(())
}

/// Whether the running thread is a native task's, which has no such call: the error.
fn is_refused(row: &Row, args: &[u64; 6]) -> Option<Errno> {
    let is_native = thread::current().process.pool.is_packed();
    is_native.then(|| pooled::refusal(row.number.into(), args))?
}
