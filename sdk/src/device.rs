//! `/dev/hanare`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use hanare_abi::ioctl::{self, MESSAGE_SIZE};
use hanare_abi::pooled::ATTACH_PROGRAM;
use hanare_abi::{MAGIC, VERSION, request};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, Result, name, raw};

/// Path of the device.
pub const DEVICE_PATH: &str = "/dev/hanare";

/// An open descriptor of the device, as a manager.
#[derive(Debug)]
pub struct Device {
    fd: OwnedFd,
}

impl Device {
    /// Opens the device and checks that module and crate fit together.
    pub fn open() -> Result<Self> {
        let fd = rustix::fs::open(DEVICE_PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let fd = fd.map_err(|errno| match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => Error::NotLoaded,
            Errno::ACCESS | Errno::PERM => Error::Permission,
            errno => Error::Open(errno),
        })?;
        let mut info = ioctl::Info { magic: 0, version: 0, instances: 0 };
        raw::info(fd.as_fd(), &mut info).map_err(|_| Error::Foreign)?;
        check(&info)?;
        Ok(Self { fd })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Stops an instance and gives its CPUs and memory back to Linux. With `force`
    /// the programs running there are killed.
    pub fn shutdown(&self, name: &str, force: bool, timeout_ms: u32) -> Result<()> {
        let mut shutdown = ioctl::Shutdown {
            name: name::field(name)?,
            force: force.into(),
            timeout_ms,
            message: [0; MESSAGE_SIZE],
        };
        raw::shutdown(self.fd(), &mut shutdown).map_err(|errno| {
            if errno == Errno::NOENT && shutdown.message[0] == 0 {
                return Error::NoInstance(name.into());
            }
            Error::refused("shut the instance down", errno, &shutdown.message)
        })
    }

    /// Sends a debug request.
    pub(crate) fn ask_debug(
        &self,
        name: &str,
        cpu: u32,
        op: u64,
        args: [u64; 4],
    ) -> Result<ioctl::Debug> {
        let name_field = name::field(name)?;
        let words = [0; request::LEDGER_WORDS];
        let mut debug = ioctl::Debug { name: name_field, cpu, op: op as u32, args, words };
        raw::debug(self.fd(), &mut debug)
            .map_err(|errno| Error::of_instance("send the debug request", errno, name))?;
        Ok(debug)
    }

    /// A debug request to the CPU with index `cpu` of an instance.
    pub fn debug(&self, name: &str, cpu: u32, what: Debug) -> Result<MemoryReport> {
        let op = match what {
            Debug::Panic => request::DEBUG_PANIC,
            Debug::Hang { .. } => request::DEBUG_HANG,
            Debug::Memory => request::DEBUG_MEMORY,
            Debug::FailAlloc { .. } => request::DEBUG_FAIL_ALLOC,
            Debug::Overflow => request::DEBUG_OVERFLOW,
        };
        let args = match what {
            Debug::Hang { ms } => [ms, 0, 0, 0],
            Debug::FailAlloc { first, step } => [first, step, 0, 0],
            Debug::Panic | Debug::Memory | Debug::Overflow => [0; 4],
        };
        let debug = self.ask_debug(name, cpu, op, args)?;
        let [free_bytes, total_bytes, quarantined_bytes, processes] = debug.args;
        let [
            heap_bytes,
            used_bytes,
            blocks,
            large_bytes,
            reserve_bytes,
            spaces,
            threads,
            children,
            programs,
            traces,
            debuggers,
            ..,
        ] = debug.words;
        Ok(MemoryReport {
            free_bytes,
            total_bytes,
            quarantined_bytes,
            processes,
            heap_bytes,
            used_bytes,
            blocks,
            large_bytes,
            reserve_bytes,
            spaces,
            threads,
            children,
            programs,
            traces,
            debuggers,
        })
    }

    /// Becomes a process of an instance (`None`: the only one, or `default`) that
    /// may run on `cpus` (Linux numbers; empty: all of the instance).
    pub fn attach(self, name: Option<&str>, cpus: &[u32]) -> Result<Space> {
        let mut attach = ioctl::Attach {
            name: name.map_or(Ok([0; ioctl::NAME_SIZE]), name::field)?,
            cpus: cpus.iter().map(|&cpu| cpu as usize).collect(),
            space: 0,
            cpu_count: 0,
            fd: self.fd.as_raw_fd() as u32,
            counted: 0,
            kind: ATTACH_PROGRAM,
            pool_fd: 0,
            message: [0; MESSAGE_SIZE],
        };
        raw::attach(self.fd(), &mut attach)
            .map_err(|errno| Error::refused("attach to the instance", errno, &attach.message))?;
        Ok(Space { device: self, id: attach.space, cpu_count: attach.cpu_count })
    }
}

fn check(info: &ioctl::Info) -> Result<()> {
    if info.magic != MAGIC {
        return Err(Error::Foreign);
    }
    if info.version != VERSION {
        return Err(Error::Version { module: info.version, ours: VERSION });
    }
    Ok(())
}

/// Requests of [`Device::debug`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug {
    /// Panic deliberately.
    Panic,
    /// Stop answering.
    Hang {
        /// Time to hang, ms; 0: for ever.
        ms: u64,
    },
    /// Log and report memory.
    Memory,
    /// Have allocations of the LWK fail; the answer's first number is how many were counted before.
    FailAlloc {
        /// Which is the first one that fails, counted from 1; 0: none, they are counted only;
        /// `u64::MAX`: neither.
        first: u64,
        /// After how many each further one fails; 0: none does.
        step: u64,
    },
    /// Use up the kernel stack on which the request is answered.
    Overflow,
}

/// The answer to [`Debug::Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryReport {
    /// Bytes of memory that are free.
    pub free_bytes: u64,
    /// Bytes of all memory that the LWK manages.
    pub total_bytes: u64,
    /// Kept back because Linux may still write there.
    pub quarantined_bytes: u64,
    /// Processes that the kernel knows, ended ones, too, as long as anything of them is left.
    pub processes: u64,
    /// Bytes of the kernel's heap.
    pub heap_bytes: u64,
    /// Bytes of the heap that are in use.
    pub used_bytes: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Blocks that are too large for the heap.
    pub large_bytes: u64,
    /// Bytes in use of the reserve for the time when there is no memory.
    pub reserve_bytes: u64,
    /// Address spaces.
    pub spaces: u64,
    /// Threads.
    pub threads: u64,
    /// Children of fork whose proxy has not come yet.
    pub children: u64,
    /// Programs of execve whose proxy has not come yet.
    pub programs: u64,
    /// Traces.
    pub traces: u64,
    /// Debuggers.
    pub debuggers: u64,
}

/// An attached process.
#[derive(Debug)]
pub struct Space {
    device: Device,
    /// Space id.
    pub id: u32,
    /// CPUs that the program may run on.
    pub cpu_count: u32,
}

impl Space {
    /// Time and memory that the program used so far.
    pub fn usage(&self) -> Result<Usage> {
        let mut usage = ioctl::Usage { user_ns: 0, system_ns: 0, resident_bytes: 0, peak_bytes: 0 };
        raw::usage(self.as_fd(), &mut usage)
            .map_err(|errno| Error::Failed { what: "ask for the use of resources", errno })?;
        let ioctl::Usage { user_ns, system_ns, resident_bytes, peak_bytes } = usage;
        Ok(Usage { user_ns, system_ns, resident_bytes, peak_bytes })
    }
}

/// Time and memory that a process used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Time in user mode.
    pub user_ns: u64,
    /// Time in the LWK.
    pub system_ns: u64,
    /// Memory that the program has now.
    pub resident_bytes: u64,
    /// Most memory that the program had.
    pub peak_bytes: u64,
}

impl AsFd for Space {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_module_or_version_is_refused() {
        let good = ioctl::Info { magic: MAGIC, version: VERSION, instances: 0 };
        assert!(check(&good).is_ok());
        assert!(matches!(check(&ioctl::Info { magic: 1, ..good }), Err(Error::Foreign)));
        let other = ioctl::Info { version: !VERSION, ..good };
        assert!(matches!(check(&other), Err(Error::Version { .. })));
    }
}
