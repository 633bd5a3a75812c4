//! The system call entry: the table's row decides which function serves a call.

use crate::calls::context::{Context, Served};
use crate::calls::notified::{self, Decision};
use crate::calls::seccomp::{self, Judged};
use crate::calls::{delegated, handlers, identity};
use crate::gate::ptrace;
use crate::process::thread::{self, Thread};
use crate::route::{self, pooled};
use crate::sched::cpus;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Errno};
use hanare_core::syscalls::{self, Hook, Service};
use hanare_hal::traps::{self, Call, Regs};
use hanare_hal::{shared, speculation};
use linux_raw_sys::general::__NR_getpid;

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
                Service::Local if row.number as u32 == __NR_getpid => identity::getpid,
                _ => other,
            };
        }
        number += 1;
    }
    calls
};

/// Serves a call that has no entry of its own, by its row.
extern "C" fn other(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64, regs: &mut Regs) -> u64 {
    if execute(thread::current(), regs, regs.orig_rax).is_none() {
        cpus::request_attention(); // all of them are to be restored
    }
    regs.rax
}

/// Serves a call of the running thread `me`, if it is allowed to be made; `None` if the registers
/// are another context's afterwards.
pub fn serve(me: &'static Thread, regs: &mut Regs, number: u64) -> Option<()> {
    match seccomp::judge(me, regs) {
        Judged::Allowed => execute(me, regs, number),
        Judged::Permitted => {
            let number = regs.orig_rax as u32;
            ptrace::permit(me, Some(number));
            let returned = execute(me, regs, number.into());
            ptrace::permit(me, None);
            returned
        }
        Judged::Answered => Some(()),
        Judged::Notified(listener) => match notified::ask(me, regs, listener) {
            // The call about which it was asked: a tracer may have made that one of another.
            Decision::GoesOn => execute(me, regs, u64::from(regs.orig_rax as u32)),
            Decision::Departs(call) => {
                let departs = &me.seccomp.departs;
                departs.store(call, Ordering::Relaxed);
                let served = execute(me, regs, u64::from(regs.orig_rax as u32));
                departs.store(0, Ordering::Relaxed);
                notified::forget(me, listener, call);
                served
            }
            Decision::Plainly(row) => {
                let result = route::call(me, row, regs.arguments());
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

fn execute(me: &'static Thread, regs: &mut Regs, number: u64) -> Option<()> {
    let Some(row) = syscalls::row(speculation::below(number, syscalls::NUMBERS as u64)) else {
        regs.rax = errno::ENOSYS.as_return() as u64;
        return Some(());
    };
    let mut call = Context::new(me, row, regs);
    crate::debug!("{} {:x?}", row.name, call.args);
    if let Some(error) = is_refused(&call) {
        call.regs.rax = error.as_return() as u64;
        return Some(());
    }
    let result = match row.service {
        Service::Local => {
            shared::here().count_local_call();
            match handlers::serve(&mut call) {
                Served::Answered(result) => result,
                Served::Replaced => return None,
            }
        }
        Service::Delegated(hook) => delegated::serve(&call, hook),
        Service::Refused(error, why) => {
            crate::debug!("{} is refused: {why}", row.name);
            Err(error)
        }
    };
    crate::debug!("{} = {:x?}", row.name, result);
    call.regs.rax = result.unwrap_or_else(|e| e.as_return() as u64);
    Some(())
}

/// Whether the calling thread is a native task's, which has no such call: the error.
fn is_refused(call: &Context<'_>) -> Option<Errno> {
    let is_native = call.process.pool.is_packed();
    is_native.then(|| pooled::refusal(call.thread, call.row.number.into(), &call.args))?
}
