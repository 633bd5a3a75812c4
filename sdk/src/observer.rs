//! Watching LWK processes: traces and debuggers.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use hanare_abi::ioctl::MESSAGE_SIZE;
use hanare_abi::observe;
use rustix::io::Errno;

use crate::{Device, Error, Result, raw};

/// An observer of one process, and its memory.
#[derive(Debug)]
pub struct Observer {
    device: Device,
    memory: File,
}

/// Whether an observed process runs, has stopped or has ended, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Processes that the session watches.
    pub watched: u64,
    /// `OBSERVED_*`.
    pub why: u64,
    /// The signal that the process stopped for.
    pub signal: u32,
    /// The thread that stopped.
    pub tid: u32,
    /// Wait status, as of wait(2), if the process has ended.
    pub exit_status: u32,
    /// Address of the breakpoint or watchpoint that stopped the process.
    pub address: u64,
}

impl Observer {
    /// Opens an observer of the process `pid`. The caller has to be allowed to ptrace it on Linux.
    pub fn open(pid: u32) -> Result<Self> {
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.map_err(|error| Error::Process { pid, errno: errno_of(&error) })?;
        let device = Device::open()?;
        let mut argument = observe::Observe {
            memory: memory.as_raw_fd(),
            reserved: 0,
            message: [0; MESSAGE_SIZE],
        };
        raw::observe(device.fd(), &mut argument).map_err(|errno| match errno {
            Errno::SRCH => Error::Process { pid, errno },
            errno => Error::refused("observe the process", errno, &argument.message),
        })?;
        Ok(Self { device, memory })
    }

    /// One `OBSERVE_*` request: arguments and data in, arguments and words out.
    pub fn ask(&self, op: u32, args: [u64; 2], data: &[u64]) -> Result<([u64; 2], Vec<u64>)> {
        let mut argument = observe::Observation { op, count: 0, args, data: [0; 64] };
        argument.data[..data.len()].copy_from_slice(data);
        raw::observation(self.device.fd(), &mut argument)
            .map_err(|errno| Error::Failed { what: what(op), errno })?;
        let count = argument.count as usize;
        Ok((argument.args, argument.data[..count].to_vec()))
    }

    /// Begins a trace: `follow` children and all threads; `text_max` bytes of data are kept.
    pub fn trace(&self, follow: bool, text_max: u64) -> Result<()> {
        let flags = if follow { observe::TRACE_FOLLOW } else { 0 };
        self.ask(observe::OBSERVE_TRACE, [flags, text_max], &[]).map(|_| ())
    }

    /// Takes records into `buffer`: bytes, and how many records were lost so far.
    pub fn read_trace(&self, buffer: &mut [u8]) -> Result<(usize, u64)> {
        let mut argument = observe::TraceRead { buffer: 0, size: 0, lost: 0 };
        raw::trace_read(self.device.fd(), &mut argument, buffer)
            .map_err(|errno| Error::Failed { what: "read the trace", errno })?;
        Ok((argument.size as usize, argument.lost))
    }

    /// Whether the process runs, has stopped or has ended.
    pub fn status(&self) -> Result<Observed> {
        let mut argument = observe::Observation {
            op: observe::OBSERVE_STATUS,
            count: 0,
            args: [0; 2],
            data: [0; 64],
        };
        raw::observation(self.device.fd(), &mut argument)
            .map_err(|errno| Error::Failed { what: what(argument.op), errno })?;
        let word = argument.args[1];
        Ok(Observed {
            watched: argument.args[0],
            why: word & 0xff,
            signal: (word >> 8) as u32 & 0xff,
            tid: (word >> 32) as u32,
            exit_status: argument.data[0] as u32,
            address: argument.data[1],
        })
    }

    /// Reads memory of the process.
    pub fn read_memory(&self, address: u64, to: &mut [u8]) -> std::io::Result<usize> {
        self.memory.read_at(to, address)
    }

    /// Writes memory as the process could itself.
    pub fn write_memory(&self, address: u64, bytes: &[u8]) -> std::io::Result<usize> {
        self.memory.write_at(bytes, address)
    }
}

impl AsFd for Observer {
    /// Can be polled: readable when there are news, hung up when the process is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn what(op: u32) -> &'static str {
    match op {
        observe::OBSERVE_TRACE => "trace the process",
        observe::OBSERVE_DEBUG => "debug the process",
        observe::OBSERVE_STOP => "stop the process",
        observe::OBSERVE_RESUME => "resume the process",
        observe::OBSERVE_BREAK => "set the breakpoint",
        observe::OBSERVE_WATCH => "set the watchpoint",
        observe::OBSERVE_WRITE => "write the memory",
        _ => "ask for the process's state",
    }
}
