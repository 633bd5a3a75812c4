//! prctl(2): Linux' business but for what would hit the proxy instead of the program.

use crate::base::user::put;
use crate::calls::context::handlers;
use crate::calls::seccomp;
use crate::process::thread::Thread;
use crate::process::workers;
use crate::route::{self, pooled, utility};
use core::sync::atomic::Ordering;
use hanare_abi::utility::PR_HANARE_RUN_ON;
use hanare_core::errno::{self, Result};
use hanare_core::native::PR_HANARE_PROXY;
use hanare_core::syscalls::{Row, prctl_changes_rights};
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::prctl::{
    PR_GET_AUXV, PR_GET_MEMORY_MERGE, PR_GET_SECCOMP, PR_GET_TID_ADDRESS, PR_GET_TSC, PR_MCE_KILL,
    PR_SCHED_CORE, PR_SET_IO_FLUSHER, PR_SET_MDWE, PR_SET_MEMORY_MERGE, PR_SET_MM, PR_SET_NAME,
    PR_SET_SECCOMP, PR_SET_SPECULATION_CTRL, PR_SET_SYSCALL_USER_DISPATCH, PR_SET_TIMERSLACK,
    PR_SET_TSC, PR_SET_VMA, PR_TSC_ENABLE, PR_TSC_SIGSEGV,
};

handlers! { call:
    __NR_prctl => prctl(call.thread, call.row, call.args),
}

/// Operations that change what Linux keeps for the calling thread, and threads that it makes
/// inherit; no right is among it.
const ATTRIBUTES: [u32; 5] =
    [PR_MCE_KILL, PR_SCHED_CORE, PR_SET_IO_FLUSHER, PR_SET_SPECULATION_CTRL, PR_SET_TIMERSLACK];
/// The bit of PR_SET_MDWE that denies execution; other bits say who inherits it, which Linux knows.
const REFUSE_EXEC_GAIN: u64 = 1;
const TSC_ENABLE: u64 = PR_TSC_ENABLE as u64;
const TSC_SIGSEGV: u64 = PR_TSC_SIGSEGV as u64;

/// Serves a call.
fn prctl(thread: &Thread, row: &Row, a: [u64; 6]) -> Result<u64> {
    match a[0] as u32 {
        PR_SET_SECCOMP => seccomp::prctl(thread, a[1], UserAddr::of(a[2])),
        PR_HANARE_PROXY => pooled::proxy(thread, a[1]),
        PR_HANARE_RUN_ON => utility::run_on(thread, &a),
        PR_GET_SECCOMP => Ok(u64::from(thread.seccomp.mode())),
        // The last two as without CONFIG_KSM.
        PR_SET_SYSCALL_USER_DISPATCH | PR_GET_AUXV | PR_SET_MEMORY_MERGE | PR_GET_MEMORY_MERGE => {
            Err(errno::EINVAL)
        }
        PR_SET_TSC => {
            match a[1] {
                TSC_ENABLE => thread.forbid_tsc(false),
                TSC_SIGSEGV => thread.forbid_tsc(true),
                _ => return Err(errno::EINVAL),
            }
            Ok(0)
        }
        PR_GET_TSC => {
            let mode = if thread.no_tsc.load(Ordering::Relaxed) { TSC_SIGSEGV } else { TSC_ENABLE };
            put(UserAddr::of(a[1]), &(mode as u32).to_le_bytes())
        }
        PR_GET_TID_ADDRESS => {
            put(UserAddr::of(a[1]), &thread.clear_tid.load(Ordering::Relaxed).to_le_bytes())
        }
        PR_SET_MM => Err(errno::EPERM),
        PR_SET_VMA if a[1] == 0 && a[2].is_multiple_of(4096) => Ok(0), // names of memory are not shown
        PR_SET_VMA => Err(errno::EINVAL),
        PR_SET_NAME => {
            let result = route::call(thread, row, a)?;
            let mut name = [0; 16];
            if let Ok(Some(text)) = usercopy::read_string(UserAddr::of(a[1]), &mut [0; 16]) {
                name[..text.len()].copy_from_slice(text);
            } else {
                let _ = usercopy::read(UserAddr::of(a[1]), &mut name[..15]);
            }
            *thread.name.lock() = Some(name);
            Ok(result)
        }
        other => {
            let result = route::call(thread, row, a)?;
            if prctl_changes_rights(other) {
                workers::rights_changed(thread);
            } else if other == PR_SET_MDWE && a[1] & REFUSE_EXEC_GAIN != 0 {
                thread.process.memory().mm.lock().deny_write_exec();
            } else if ATTRIBUTES.contains(&other) {
                workers::attributes_changed(thread);
            }
            Ok(result)
        }
    }
}
