//! Calls about which a listener decides (SECCOMP_RET_USER_NOTIF): which kernel tells the listener,
//! and how (`docs/seccomp.md`).

use super::worker;
use crate::syscalls::{Hook, Row, Service};
use linux_raw_sys::general::{__NR_execve, __NR_execveat};

/// How a listener is told of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Linux tells it when the worker makes the call, with what the LWK does beside Linux.
    AsEver,
    /// Linux tells it when the worker makes the call, without what the LWK does besides. That would
    /// be in place of Linux, or overwrite what the listener has answered.
    Plainly,
    /// Linux tells it when the worker makes an execve for that of the program.
    Execve,
    /// By a call that stands for it (`NR_NOTIFY`); it is served if the listener lets it go on.
    Apart,
}

/// How a listener is told of a call with these arguments. `row`: as the table has it, if there is
/// such a call; `departs`: an execve is made by Linux, too, whose filter notifies the listener
/// whatever the arguments are.
#[must_use]
pub fn way(row: Option<&Row>, args: &[u64; 6], control_fd: u32, departs: impl Fn() -> bool) -> Way {
    let Some(row) = row else { return Way::Apart };
    match row.service {
        Service::Delegated(_) if worker::is_own(row.number.into(), args, control_fd) => Way::Apart,
        Service::Delegated(hook) => of_hook(hook, args),
        // The worker makes the very call then; of an execveat that may be an execve it may not.
        Service::Local if may_be_notified(row, args) && departs() => Way::Execve,
        Service::Local | Service::Refused(..) => Way::Apart,
    }
}

/// Whether the call is an execve, not one that may be an execveat of a descriptor.
fn may_be_notified(row: &Row, args: &[u64; 6]) -> bool {
    let number = u32::from(row.number);
    number == __NR_execve || number == __NR_execveat && args[4] as u32 != 0
}

/// Way for a call that the worker makes as its filter lets it.
const fn of_hook(hook: Hook, args: &[u64; 6]) -> Way {
    const ITIMER_REAL: u64 = 0;
    match hook {
        Hook::Getitimer | Hook::Setitimer if args[0] == ITIMER_REAL => Way::AsEver,
        Hook::None
        | Hook::Close
        | Hook::Dup2
        | Hook::CloseRange
        | Hook::Credentials
        | Hook::Unshare
        | Hook::Setns
        | Hook::Attributes
        | Hook::Rights
        | Hook::Getrlimit
        | Hook::Setrlimit
        | Hook::Prlimit
        | Hook::Truncate
        | Hook::Personality
        | Hook::IoUringSetup
        | Hook::Pins
        | Hook::OtherMemory
        | Hook::SigWait
        | Hook::EpollPwait
        | Hook::Ppoll
        | Hook::Pselect
        | Hook::IoUringEnter
        | Hook::Perf
        | Hook::Wait4
        | Hook::Waitid
        | Hook::Path
        | Hook::PathAt => Way::AsEver,
        Hook::Kill
        | Hook::Tkill
        | Hook::Tgkill
        | Hook::QueueToThread
        | Hook::QueueToProcess
        | Hook::Sysinfo => Way::Plainly,
        // The LWK may serve them without Linux.
        Hook::Getitimer
        | Hook::Setitimer
        | Hook::TimerCreate
        | Hook::TimerSettime
        | Hook::TimerGettime
        | Hook::TimerGetoverrun
        | Hook::TimerDelete
        | Hook::Msync
        | Hook::Random
        | Hook::Sigtimedwait => Way::Apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls;
    use linux_raw_sys::general::*;

    const CONTROL: u32 = 4095;

    fn told(number: u32, args: &[u64]) -> Way {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        way(syscalls::row(number.into()), &all, CONTROL, || true)
    }

    #[test]
    fn linux_tells_of_what_its_filter_sees_and_the_lwk_of_the_rest() {
        for number in [__NR_mkdirat, __NR_mount, __NR_mknodat, __NR_read, __NR_socket, __NR_bpf] {
            assert_eq!(told(number, &[]), Way::AsEver, "{number}");
        }
        for number in [__NR_kill, __NR_sysinfo] {
            assert_eq!(told(number, &[1, 9]), Way::Plainly);
        }
        for number in [__NR_getpid, __NR_mmap, __NR_futex, __NR_getppid, __NR_close, __NR_clone] {
            assert_eq!(told(number, &[]), Way::Apart, "{number}");
        }
        // What a worker may do with some arguments whatever the filter says.
        assert_eq!(told(__NR_ioctl, &[1, 0x5401]), Way::AsEver);
        let ioctl = u64::from(hanare_abi::ioctl::IOCTL_WAIT);
        assert_eq!(told(__NR_ioctl, &[u64::from(CONTROL), ioctl]), Way::Apart);
        assert_eq!(told(__NR_tgkill, &[1, 1, 0]), Way::Apart);
        assert_eq!(told(__NR_tgkill, &[1, 1, 9]), Way::Plainly);
        // A timer of Linux', and one of the LWK's.
        assert_eq!(told(__NR_setitimer, &[0]), Way::AsEver);
        assert_eq!(told(__NR_setitimer, &[1]), Way::Apart);
        // No such call, and one that is refused.
        assert_eq!(told(5000, &[]), Way::Apart);
        assert_eq!(told(__NR_execve, &[]), Way::Execve);
        assert_eq!(told(__NR_execveat, &[3, 1, 2, 3, 0x1000]), Way::Execve);
        assert_eq!(told(__NR_execveat, &[3, 1, 2, 3, 0]), Way::Apart);
        let stays = way(syscalls::row(__NR_execve.into()), &[0; 6], CONTROL, || false);
        assert_eq!(stays, Way::Apart);
    }
}
