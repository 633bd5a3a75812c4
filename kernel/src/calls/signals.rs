//! Signals of the caller: dispositions, masks, frames.

use crate::base::user;
use crate::calls::context::{Context, Family, Served, handlers};
use crate::calls::delegated;
use crate::gate::raise;
use crate::route;
use crate::signal::{dispositions, pending, restart, sigframe, signals};
use hanare_core::errno::{self, Result};
use hanare_core::signal::SigSet;
use linux_raw_sys::general::__NR_rt_sigreturn;

handlers! { call:
    __NR_rt_sigaction => {
        dispositions::action(call.thread, call.args[0], call.address(1), call.address(2), call.args[3])
    },
    __NR_rt_sigprocmask => {
        signals::procmask(call.thread, call.args[0], call.address(1), call.address(2), call.args[3])
    },
    __NR_rt_sigpending => pending::pending(call.thread, call.address(0), call.args[1]),
    __NR_sigaltstack => {
        sigframe::altstack(call.thread, call.address(0), call.address(1), call.regs.rsp)
    },
    __NR_rt_sigsuspend => sigsuspend(call),
    __NR_restart_syscall => restart::restart_syscall(call.thread),
}

/// The handler that replaces the registers.
pub const RETURNS: Family = &[(__NR_rt_sigreturn, |call| {
    raise::sigreturn(call.thread, call.regs);
    Served::Replaced
})];

fn sigsuspend(call: &Context<'_>) -> Result<u64> {
    let a = &call.args;
    if a[1] != 8 {
        return Err(errno::EINVAL);
    }
    let mask = user::get::<u64>(call.address(0))?;
    call.thread.signals.lock().begin_temporary(SigSet(mask));
    signals::retarget(call.process);
    let mut args = *a;
    if let Ok(pointer) = delegated::interruptible(call.thread, SigSet(mask), args[0], 0) {
        args[0] = pointer;
    }
    let result = route::call(call.thread, call.row, args);
    call.thread.signals.lock().end_temporary();
    result
}
