//! Processes and threads that run on an instance.

use std::path::Path;
use std::time::Duration;

use hanare_abi::info::{self, ThreadInfo};
use hanare_abi::{ioctl, slot};
use rustix::io::Errno;

use crate::{Device, Error, Result, name, raw};

/// The bits of [`ThreadInfo::link`] that are the state of a slot.
const SLOT_STATES: u32 = 0xff;

/// A process that has ended on Linux, of which the LWK has not said yet that nothing is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Process id; none outside the caller's namespace.
    pub pid: Option<u32>,
    /// Linux' number of the CPU that has been asked and has not answered.
    pub cpu: Option<u32>,
    /// Whether the task that ends waits for the answer.
    pub waits: bool,
    /// Threads that the LWK had of the process when it answered last.
    pub threads: u32,
    /// Thread id of one of the threads.
    pub tid: Option<u32>,
    /// Time since the process has ended.
    pub since: Duration,
}

/// A thread.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Thread {
    /// Thread id on Linux (that of its worker).
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// Whether the thread runs, or could.
    pub running: bool,
    /// Reason in its process' life for which the thread waits: a child, other threads, Linux.
    pub waits_until: Option<&'static str>,
    /// Linux' number of the CPU it runs on or ran on last.
    pub cpu: Option<u32>,
    /// Time in user mode and in the LWK, ns.
    pub user_ns: u64,
    /// Time waiting for Linux with the CPU kept, ns.
    pub system_ns: u64,
    /// Calls that Linux served.
    pub delegated_calls: u64,
    /// Times that the thread gave the CPU away to wait.
    pub voluntary_switches: u64,
    /// Times that the thread lost the CPU to another one.
    pub involuntary_switches: u64,
    /// The delegated call, or control request, that the thread waits for.
    pub asks: Option<Asked>,
}

/// A call or request that a thread has given its worker, and waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Asked {
    /// Number of the system call, or of the control request.
    pub number: u32,
    /// Whether this is a control request, by which the LWK has Linux do something for the process.
    /// Not known once it is answered.
    pub is_request: bool,
    /// Stage of the request.
    pub stage: Stage,
}

/// How far a call has come. Both sides look at it before they sleep: a stage other than `Executed`
/// or `Boxed` that lasts is an error of Hanare's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Stage {
    /// The worker has been asked, and sleeps.
    Asked,
    /// The call is in the request box, or a server executes it.
    Boxed,
    /// The worker is awake: it executes the call.
    Executed,
    /// The answer is there; the thread polls for it.
    Answered,
    /// The answer is there; the thread sleeps.
    AnsweredAsleep,
}

/// A process.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Process {
    /// Process id; `None`: of another pid namespace.
    pub pid: Option<u32>,
    /// Space id: its number in the LWK.
    pub space: u32,
    /// Name of the process.
    pub name: String,
    /// Arguments of the program, as far as Linux shows them.
    pub command: String,
    /// Time of all threads, ended ones too, in user mode and in the LWK, ns.
    pub user_ns: u64,
    /// Time of all threads, ended ones too, waiting for Linux with the CPU kept, ns.
    pub system_ns: u64,
    /// Calls that Linux served.
    pub delegated_calls: u64,
    /// Bytes that are mapped.
    pub mapped_bytes: u64,
    /// Bytes that are resident.
    pub resident_bytes: u64,
    /// Bytes that were resident at most.
    pub peak_bytes: u64,
    /// Threads of the process.
    pub threads: Vec<Thread>,
}

impl Process {
    /// Whether one of the process' threads runs, or could.
    #[must_use]
    pub fn running(&self) -> bool {
        self.threads.iter().any(|thread| thread.running)
    }
}

impl Device {
    /// The processes of an instance, oldest first. One that ends meanwhile is left out.
    pub fn processes(&self, name: &str) -> Result<Vec<Process>> {
        let instance = self.instance(name, false)?;
        let cpu = |index: u32| instance.cpus.get(index as usize).map(|cpu| cpu.linux_cpu);
        let mut all = Vec::new();
        let mut after = 0;
        loop {
            let mut status = ioctl::ProcessStatus {
                name: name::field(name)?,
                after,
                pid: 0,
                info: info::ProcessInfo::default(),
            };
            match raw::process(self.fd(), &mut status) {
                Ok(()) => {}
                Err(Errno::NOENT) => return Ok(all),
                Err(errno) => return Err(Error::of_instance("list the processes", errno, name)),
            }
            after = status.after;
            let threads = self.threads(name, &status, &cpu)?;
            all.push(process(&status, threads));
        }
    }

    /// Processes that have ended, of which the LWK has not said yet that nothing is left. Those of
    /// other users are left out, unless the caller may trace them.
    ///
    /// # Errors
    /// There is no such instance.
    pub fn ends(&self, name: &str) -> Result<Vec<End>> {
        let mut all = Vec::new();
        let mut status = ioctl::EndStatus {
            name: name::field(name)?,
            after: 0,
            pid: 0,
            cpu: 0,
            waits: 0,
            threads: 0,
            tid: 0,
            since_ms: 0,
        };
        loop {
            match raw::end(self.fd(), &mut status) {
                Ok(()) => all.push(End {
                    pid: (status.pid != 0).then_some(status.pid),
                    cpu: (status.cpu != ioctl::END_CPU_NONE).then_some(status.cpu),
                    waits: status.waits != 0,
                    threads: status.threads,
                    tid: (status.tid != 0).then_some(status.tid),
                    since: Duration::from_millis(status.since_ms),
                }),
                Err(Errno::NOENT) => return Ok(all),
                Err(errno) => return Err(Error::of_instance("list the ends", errno, name)),
            }
        }
    }

    fn threads(
        &self,
        name: &str,
        process: &ioctl::ProcessStatus,
        cpu: &dyn Fn(u32) -> Option<u32>,
    ) -> Result<Vec<Thread>> {
        let mut all: Vec<Thread> = Vec::new();
        let mut from = 0;
        loop {
            let mut some = ioctl::Threads {
                name: name::field(name)?,
                space: process.after,
                from,
                count: 0,
                reserved: 0,
                threads: [ThreadInfo::default(); ioctl::THREADS_AT_ONCE],
            };
            match raw::threads(self.fd(), &mut some) {
                Ok(()) if some.count > 0 => from = some.from,
                Ok(()) | Err(Errno::NOENT | Errno::SRCH) => break,
                Err(errno) => return Err(Error::of_instance("list the threads", errno, name)),
            }
            let count = (some.count as usize).min(some.threads.len());
            all.extend(
                some.threads[..count].iter().map(|info| thread(process.pid, info, cpu(info.cpu))),
            );
        }
        // The oldest one first, and each once.
        all.reverse();
        let mut tids = std::collections::HashSet::new();
        all.retain(|thread| tids.insert(thread.tid));
        Ok(all)
    }
}

/// One line of text of a file, zeros as blanks; empty if there is none.
fn line(path: impl AsRef<Path>) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace(|c: char| c.is_control(), " ");
    text.trim_end().into()
}

fn waits_until(state: u32) -> Option<&'static str> {
    Some(match state {
        info::THREAD_CREATES => "the child that it made has begun",
        info::THREAD_VFORKS => "its child has left its memory (vfork)",
        info::THREAD_REPLACES => "the other threads have ended (execve)",
        info::THREAD_DEPARTS => "Linux has made its execve",
        info::THREAD_ARRIVES => "the threads of the old program have ended (execve)",
        info::THREAD_DUMPS => "the other threads are parked (core dump)",
        info::THREAD_PARKED => "the core dump is written",
        info::THREAD_EXITED => "the other threads have ended (exit)",
        info::THREAD_LAST => "Linux has ended its process",
        _ => return None,
    })
}

/// The call that the words of a thread's slot tell of.
fn asked(info: &ThreadInfo) -> Option<Asked> {
    let has = |flag| info.link & flag != 0;
    if !has(info::LINK_WAITS) {
        return None;
    }
    let stage = match info.link & SLOT_STATES {
        slot::SLOT_REQUESTED | slot::SLOT_CONTROL if has(info::LINK_WORKER_SLEEPS) => Stage::Asked,
        slot::SLOT_REQUESTED | slot::SLOT_CONTROL => Stage::Executed,
        slot::SLOT_BOXED => Stage::Boxed,
        slot::SLOT_DONE | slot::SLOT_NOT_STARTED if has(info::LINK_SLEEPS) => Stage::AnsweredAsleep,
        slot::SLOT_DONE | slot::SLOT_NOT_STARTED => Stage::Answered,
        _ => return None, // it waits for something of the LWK's
    };
    let is_request = info.link & SLOT_STATES == slot::SLOT_CONTROL;
    Some(Asked { number: info.call, is_request, stage })
}

fn thread(pid: u32, info: &ThreadInfo, cpu: Option<u32>) -> Thread {
    Thread {
        tid: info.tid,
        name: line(format!("/proc/{pid}/task/{}/comm", info.tid)),
        running: info.state == info::THREAD_RUNS,
        waits_until: waits_until(info.state),
        cpu,
        user_ns: info.user_ns,
        system_ns: info.system_ns,
        delegated_calls: info.delegated_calls,
        voluntary_switches: info.voluntary_switches,
        involuntary_switches: info.involuntary_switches,
        asks: asked(info),
    }
}

fn process(status: &ioctl::ProcessStatus, threads: Vec<Thread>) -> Process {
    let (pid, info) = (status.pid, &status.info);
    Process {
        pid: (pid != 0).then_some(pid),
        space: status.after,
        name: line(format!("/proc/{pid}/comm")),
        command: line(format!("/proc/{pid}/cmdline")),
        user_ns: info.user_ns,
        system_ns: info.system_ns,
        delegated_calls: info.delegated_calls,
        mapped_bytes: info.mapped,
        resident_bytes: info.resident,
        peak_bytes: info.resident_peak,
        threads,
    }
}
