//! Which calls Linux executes for a utility thread as they are, without the LWK
//! (`hanare_abi::utility`).

use super::is_one_of;
use super::row::{Hook, Service};
use super::table::ROWS;
use linux_raw_sys::general::*;

/// Calls of which the proxy makes something after Linux has executed them: what they open or list
/// may have to show the LWK's machine.
pub const SHOWN: [u32; 6] =
    [__NR_open, __NR_openat, __NR_openat2, __NR_creat, __NR_getdents, __NR_getdents64];

/// Local calls that mean the same on Linux for a thread that executes there: its worker has its
/// ids, and sleeps for it. Linux itself has the thread make `restart_syscall`, where it goes on
/// with a call after a stop.
const SAME: [u32; 6] =
    [__NR_sched_yield, __NR_getpid, __NR_gettid, __NR_nanosleep, __NR_getcpu, __NR_restart_syscall];

/// Words of [`NATIVE`].
pub const NATIVE_WORDS: usize = 8;

/// A bit for each call, by number: those in which the LWK has no part. `close` is among them though
/// the control descriptor may not be closed: the worker's filter looks at that.
pub static NATIVE: [u64; NATIVE_WORDS] = {
    let mut set = [0; NATIVE_WORDS];
    let mut i = 0;
    while i < ROWS.len() {
        let number = ROWS[i].number as u32;
        let is_plain = match ROWS[i].service {
            // Memory that is not pinnable yet is not made so by a utility thread.
            Service::Delegated(Hook::None | Hook::Pins) => !is_one_of(number, &SHOWN),
            Service::Delegated(Hook::Close | Hook::Random | Hook::Truncate) => true,
            Service::Local => is_one_of(number, &SAME),
            _ => false,
        };
        if is_plain {
            set[number as usize / 64] |= 1 << (number % 64);
        }
        i += 1;
    }
    set
};

#[cfg(test)]
mod tests {
    use super::*;

    fn is_native(number: u32) -> bool {
        NATIVE[number as usize / 64] >> (number % 64) & 1 != 0
    }

    #[test]
    fn linux_executes_what_the_lwk_has_no_part_in() {
        for number in [
            __NR_read,
            __NR_write,
            __NR_close,
            __NR_sendto,
            __NR_fsync,
            __NR_getpid,
            __NR_restart_syscall,
        ] {
            assert!(is_native(number), "{number}");
        }
        for number in [
            __NR_mmap,
            __NR_munmap,
            __NR_brk,
            __NR_mprotect,
            __NR_futex,
            __NR_clone,
            __NR_fork,
            __NR_vfork,
            __NR_clone3,
            __NR_execve,
            __NR_execveat,
            __NR_exit,
            __NR_exit_group,
            __NR_rt_sigaction,
            __NR_rt_sigprocmask,
            __NR_rt_sigreturn,
            __NR_arch_prctl,
            __NR_prctl,
            __NR_seccomp,
            __NR_setuid,
            __NR_openat,
            __NR_dup2,
            __NR_close_range,
            __NR_kill,
            __NR_wait4,
            __NR_sigaltstack,
            __NR_set_tid_address,
            __NR_rseq,
            __NR_set_robust_list,
            __NR_ptrace,
            __NR_shmat,
            __NR_mremap,
        ] {
            assert!(!is_native(number), "{number}");
        }
    }
}
