//! Several tasks of one command: signals for it are theirs, and none of them outlives it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Child, Command};

use anyhow::Result;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::trace::launch::exit_status;

/// Signals that are forwarded.
const FORWARDED: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
/// `si_code` of Ctrl-C and its like: the terminal sends them to all tasks, too.
const SI_KERNEL: i32 = 0x80;

/// The tasks that have been started.
pub struct Tasks {
    started: Vec<(Child, OwnedFd)>,
    signals: SignalFd,
    /// The signal mask of the command's caller.
    mask: SigSet,
}

impl Tasks {
    /// None yet. From now on signals wait for [`Tasks::wait`].
    pub fn begin() -> Result<Self> {
        let set = FORWARDED.into_iter().collect::<SigSet>();
        let mask = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { started: Vec::new(), signals, mask })
    }

    /// Starts one. It is killed where this process ends before it.
    pub fn start(&mut self, mut command: Command) -> io::Result<()> {
        let (mask, parent) = (self.mask, std::process::id());
        let prepare = move || {
            set_pdeathsig(Signal::SIGKILL)?;
            // If the parent ended before that, the signal will not come.
            if parent_id() != parent {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(mask.thread_set_mask()?)
        };
        // SAFETY: three system calls, and no memory is allocated.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(prepare)
        };
        let child = command.spawn()?;
        let descriptor = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        self.started.push((child, descriptor));
        Ok(())
    }

    /// Waits for all, and forwards signals meanwhile. The first status that is not 0; where that is
    /// of a signal that this process has got as well, it ends so itself, as its caller expects.
    pub fn wait(mut self) -> Result<i32> {
        let mut got = SigSet::empty();
        loop {
            let running = self.started.iter().map(|(_, descriptor)| descriptor.as_fd());
            let running: Vec<BorrowedFd> = running.filter(|&task| !has_ended(task)).collect();
            if running.is_empty() {
                break;
            }
            let all = running.iter().copied().chain([self.signals.as_fd()]);
            let mut all: Vec<PollFd> =
                all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            rustix::io::retry_on_intr(|| poll(&mut all, None))?;
            while let Some(info) = self.signals.read_signal()? {
                let signal = Signal::try_from(info.ssi_signo as i32)?;
                got.add(signal);
                if info.ssi_code != SI_KERNEL {
                    running.iter().for_each(|&task| forward(task, signal));
                }
            }
        }
        let mut statuses = Vec::new();
        for (child, _) in &mut self.started {
            statuses.push(exit_status(child.wait()?));
        }
        let status = statuses.into_iter().find(|&status| status != 0).unwrap_or(0);
        if let Some(signal) = got.iter().find(|&signal| status == 128 + signal as i32) {
            self.mask.thread_set_mask()?;
            raise(signal)?;
        }
        Ok(status)
    }
}

fn has_ended(task: BorrowedFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(task, PollFlags::IN)];
    poll(&mut fds, Some(&Default::default())) == Ok(1)
}

/// A task that has just ended needs none.
fn forward(task: BorrowedFd, signal: Signal) {
    if let Some(signal) = rustix::process::Signal::from_named_raw(signal as i32) {
        let _ = pidfd_send_signal(task, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The set of forwarded signals is blocked in the thread of a test only.
    fn tasks(scripts: &[&str]) -> Tasks {
        let mut tasks = Tasks::begin().unwrap();
        for script in scripts {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            tasks.start(command).unwrap();
        }
        tasks
    }

    #[test]
    fn the_first_status_that_is_not_0_counts() {
        let scripts = ["exit 0", "sleep 0.2; exit 3", "exit 4"];
        assert_eq!(tasks(&scripts).wait().unwrap(), 3);
        assert_eq!(tasks(&["kill -ALRM $$"]).wait().unwrap(), 128 + 14);
    }

    #[test]
    fn signals_are_forwarded_and_are_not_blocked_in_tasks() {
        let scripts = ["trap 'exit 5' TERM; while :; do sleep 0.01; done"; 2];
        let tasks = tasks(&scripts);
        std::thread::sleep(std::time::Duration::from_millis(300));
        // To this thread, where it waits.
        raise(Signal::SIGTERM).unwrap();
        assert_eq!(tasks.wait().unwrap(), 5);
    }
}
