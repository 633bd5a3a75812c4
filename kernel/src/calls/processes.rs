//! Beginnings and ends of threads and processes, and ptrace(2).

use crate::calls::context::{Context, Family, Served, handlers};
use crate::gate::ptrace;
use crate::life::child::Request;
use crate::life::{clone, exit, newborn, share};
use crate::process::robust;
use hanare_core::link::{Call, Last};
use hanare_core::ptrace::request;
use linux_raw_sys::general::{__NR_exit, __NR_exit_group};

handlers! { call:
    __NR_clone => clone::clone2(call.thread, &call.args, call.regs),
    __NR_clone3 => clone::clone3(call.thread, call.args[0], call.args[1], call.regs),
    __NR_fork => {
        clone::clone(call.thread, &Request { exit_signal: 17, ..Request::default() }, call.regs)
    },
    __NR_vfork => {
        let vfork = Request { flags: 0x4100, exit_signal: 17, ..Request::default() };
        clone::clone(call.thread, &vfork, call.regs)
    },
    __NR_ptrace => {
        if matches!(call.args[0], request::ATTACH | request::SEIZE) {
            newborn::before_attachment(call.args[1] as u32);
        }
        ptrace::call(call.thread, &call.args)
    },
}

/// The handlers that do not come back with a result.
pub const ENDS: Family = &[
    (__NR_exit, |call| exit(call)),
    (__NR_exit_group, |call| {
        ptrace::on_exit(call.thread, (call.args[0] as u32 & 0xff) << 8);
        share::leave(call.thread);
        robust::forget_empty(call.thread);
        exit::by_last_call(call.thread, exit_group(call.args[0]));
        Served::Replaced
    }),
];

/// exit(2): one thread of several ends, or the process.
fn exit(call: &Context<'_>) -> ! {
    let status = call.args[0];
    ptrace::on_exit(call.thread, (status as u32 & 0xff) << 8);
    exit::by_call(call.thread, exit_group(status))
}

/// exit_group(2), by which the proxy ends with its process.
fn exit_group(status: u64) -> Last {
    Last::Call(Call::new(__NR_exit_group, [status, 0, 0, 0, 0, 0]))
}
