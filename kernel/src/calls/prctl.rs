//! prctl(2): Linux' business but for what would hit the proxy instead of the program.

use crate::base::user::put;
use crate::calls::seccomp;
use crate::process::thread;
use crate::process::workers;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::syscalls::Row;
use hanare_hal::usercopy;

/// PR_* (linux/prctl.h).
mod option {
    pub const SET_KEEPCAPS: u32 = 8;
    pub const SET_NAME: u32 = 15;
    pub const GET_SECCOMP: u32 = 21;
    pub const SET_SECCOMP: u32 = 22;
    pub const CAPBSET_DROP: u32 = 24;
    pub const GET_TSC: u32 = 25;
    pub const SET_TSC: u32 = 26;
    pub const SET_SECUREBITS: u32 = 28;
    pub const SET_TIMERSLACK: u32 = 29;
    pub const SET_MM: u32 = 35;
    pub const SET_NO_NEW_PRIVS: u32 = 38;
    pub const GET_TID_ADDRESS: u32 = 40;
    pub const CAP_AMBIENT: u32 = 47;
    pub const SET_SYSCALL_USER_DISPATCH: u32 = 59;
    pub const SET_VMA: u32 = 0x5356_4d41;
    pub const GET_AUXV: u32 = 0x4155_5856;
}
const TSC_ENABLE: u64 = 1;
const TSC_SIGSEGV: u64 = 2;

/// Serves a call.
pub fn prctl(row: &Row, a: [u64; 6]) -> Result<u64> {
    let thread = thread::current();
    match a[0] as u32 {
        option::SET_SECCOMP => seccomp::prctl(a[1], a[2]),
        option::GET_SECCOMP => Ok(u64::from(thread.seccomp.mode())),
        option::SET_SYSCALL_USER_DISPATCH | option::GET_AUXV => Err(errno::EINVAL),
        option::SET_TSC => {
            match a[1] {
                TSC_ENABLE => thread.forbid_tsc(false),
                TSC_SIGSEGV => thread.forbid_tsc(true),
                _ => return Err(errno::EINVAL),
            }
            Ok(0)
        }
        option::GET_TSC => {
            let mode = if thread.no_tsc.load(Ordering::Relaxed) { TSC_SIGSEGV } else { TSC_ENABLE };
            put(a[1], &(mode as u32).to_le_bytes())
        }
        option::GET_TID_ADDRESS => {
            put(a[1], &thread.clear_tid.load(Ordering::Relaxed).to_le_bytes())
        }
        option::SET_MM => Err(errno::EPERM),
        option::SET_VMA if a[1] == 0 && a[2].is_multiple_of(4096) => Ok(0), // names of memory are not shown
        option::SET_VMA => Err(errno::EINVAL),
        option::SET_NAME => {
            let result = super::delegated::forward(row, a)?;
            let mut name = [0; 16];
            if let Ok(Some(text)) = usercopy::read_string(a[1], &mut [0; 16]) {
                name[..text.len()].copy_from_slice(text);
            } else {
                let _ = usercopy::read(a[1], &mut name[..15]);
            }
            *thread.name.lock() = Some(name);
            Ok(result)
        }
        other => {
            let result = super::delegated::forward(row, a)?;
            use option::{
                CAP_AMBIENT, CAPBSET_DROP, SET_KEEPCAPS, SET_NO_NEW_PRIVS, SET_SECUREBITS,
                SET_TIMERSLACK,
            };
            if matches!(
                other,
                CAP_AMBIENT | CAPBSET_DROP | SET_KEEPCAPS | SET_NO_NEW_PRIVS | SET_SECUREBITS
            ) {
                workers::rights_changed(thread);
            } else if other == SET_TIMERSLACK {
                workers::attributes_changed(thread);
            }
            Ok(result)
        }
    }
}
