//! Calls that a filter leaves to a tracer (`SECCOMP_RET_TRACE`): what the worker of a thread may
//! make of the call that the thread's tracer has let through.
//!
//! Linux asks the tracer once more when the worker makes it. By then the thread's own tracer has
//! decided about the call with its arguments. Whatever else the worker makes, a program has had it
//! make.

use hanare_abi::control::Control;
use linux_raw_sys::general::{__NR_clone, __NR_clone3, __NR_execve, __NR_execveat};

/// Flags of clone(2) for which a worker needs its filter's permission: `CLONE_PARENT`, and new
/// namespaces.
const JUDGED: u64 = 0x7e02_8000;

/// Last work that the thread has asked its worker for, in which the worker's filter may leave a
/// call to the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Call { number: u32, args: [u64; 6] },
    Clone { flags: u64 },
    Execve { directory: u64, path: u64, arguments: u64, flags: u64 },
}

/// A call that a thread's tracer has let through, and what the thread has its worker make for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permitted {
    number: u32,
    asked: Asked,
}

impl Permitted {
    /// The thread is about to make call `number`, of which its worker has not been asked for
    /// anything yet.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self { number, asked: Asked::Nothing }
    }

    /// The worker is asked for a call: for the thread's own one, or a part of it.
    pub fn asks_call(&mut self, number: u32, args: [u64; 6]) {
        self.asked = Asked::Call { number, args };
    }

    /// The worker is asked for something of the LWK's, for which it makes calls as it needs them.
    pub fn asks(&mut self, request: &Control) {
        self.asked = match *request {
            Control::Fork { flags, .. } | Control::Share { flags, .. } => Asked::Clone { flags },
            Control::Exec { directory, path, flags, arguments, .. } => {
                Asked::Execve { directory, path, arguments, flags: flags.0.into() }
            }
            _ => Asked::Nothing,
        };
    }

    /// Whether the worker may make call `number` with these arguments.
    #[must_use]
    pub fn permits(&self, number: u32, args: &[u64; 6]) -> bool {
        const EXECVES: [u32; 2] = [__NR_execve, __NR_execveat];
        match self.asked {
            Asked::Nothing => false,
            Asked::Call { number: asked, args: all } => {
                number == self.number && number == asked && *args == all
            }
            // The flags of clone3(2) lie in memory.
            Asked::Clone { flags } => {
                number == self.number
                    && (number == __NR_clone3
                        || number == __NR_clone && (args[0] ^ flags) & JUDGED == 0)
            }
            // An execveat is made as an execve where it could have been one, and the other way
            // round.
            Asked::Execve { directory, path, arguments, flags } => {
                let vector = |at| arguments == 0 || at == arguments;
                let is_asked = if number == __NR_execve {
                    args[0] == path && vector(args[1]) && flags == 0
                } else {
                    args[..2] == [directory, path] && vector(args[2]) && args[4] == flags
                };
                EXECVES.contains(&self.number) && EXECVES.contains(&number) && is_asked
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::general::{__NR_fcntl, __NR_openat};

    const AT_FDCWD: u64 = -100i64 as u64;

    fn exec(directory: u64, flags: u32) -> Control {
        let (path, arguments) = (0x7000, 0x5000);
        let (flags, files) = ((flags, 0), (1, 2));
        Control::Exec { token: 1, directory, path, flags, files, arguments }
    }

    #[test]
    fn a_worker_makes_the_very_call_that_its_tracer_let_through() {
        let args = [1, 2, 3, 4, 5, 6];
        let mut call = Permitted::new(__NR_openat);
        assert!(!call.permits(__NR_openat, &args), "the worker has not been asked for it");
        call.asks_call(__NR_openat, args);
        assert!(call.permits(__NR_openat, &args));
        assert!(!call.permits(__NR_fcntl, &args));
        for changed in 0..6 {
            let mut others = args;
            others[changed] ^= 1 << 40;
            assert!(!call.permits(__NR_openat, &others), "argument {changed}");
        }
        // A part of it that is another call is the filter's to judge, and what comes after it is
        // not that call any more.
        call.asks_call(__NR_fcntl, args);
        assert!(!call.permits(__NR_fcntl, &args) && !call.permits(__NR_openat, &args));
    }

    #[test]
    fn a_worker_makes_the_execve_that_it_was_asked_for() {
        for number in [__NR_execve, __NR_execveat] {
            let mut call = Permitted::new(number);
            call.asks(&exec(AT_FDCWD, 0));
            assert!(call.permits(__NR_execve, &[0x7000, 0x5000, 0x9000, 0, 0, 0]));
            assert!(!call.permits(__NR_execve, &[0x7001, 0x5000, 0x9000, 0, 0, 0]), "the path");
            assert!(!call.permits(__NR_execve, &[0x7000, 0x5008, 0x9000, 0, 0, 0]), "arguments");
            call.asks(&exec(5, 0x1000));
            assert!(call.permits(__NR_execveat, &[5, 0x7000, 0x5000, 0x9000, 0x1000, 0]));
            assert!(!call.permits(__NR_execveat, &[6, 0x7000, 0x5000, 0x9000, 0x1000, 0]));
            assert!(!call.permits(__NR_execveat, &[5, 0x7000, 0x5000, 0x9000, 0, 0]), "flags");
            assert!(!call.permits(__NR_execve, &[0x7000, 0x5000, 0x9000, 0, 0, 0]), "flags");
            assert!(!call.permits(__NR_openat, &[5, 0x7000, 0, 0, 0, 0]));
        }
        let mut other = Permitted::new(__NR_openat);
        other.asks(&exec(AT_FDCWD, 0));
        assert!(!other.permits(__NR_execve, &[0x7000, 0x5000, 0, 0, 0, 0]));
    }

    #[test]
    fn a_worker_makes_the_namespaces_that_it_was_asked_for() {
        const NEWUSER: u64 = 0x1000_0000;
        let fork = |flags| Control::Fork {
            token: 1,
            flags,
            pidfd: 0,
            set_tid: 0,
            set_tid_size: 0,
            cgroup: 0,
        };
        let mut call = Permitted::new(__NR_clone);
        call.asks(&fork(NEWUSER | 17));
        assert!(call.permits(__NR_clone, &[NEWUSER | 17, 0, 0, 0, 0, 0]));
        assert!(!call.permits(__NR_clone, &[0x4000_0000 | 17, 0, 0, 0, 0, 0]));
        assert!(!call.permits(__NR_clone3, &[0x9000, 88, 0, 0, 0, 0]));
        call.asks(&Control::TakeMask);
        assert!(!call.permits(__NR_clone, &[NEWUSER | 17, 0, 0, 0, 0, 0]), "it is over");
    }
}
