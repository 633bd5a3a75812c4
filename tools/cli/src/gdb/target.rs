//! Answers to what the crate gdbstub asks of a process.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::*;
use gdbstub::target::ext::breakpoints::*;
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::host_io::*;
use gdbstub::target::ext::target_description_xml_override::*;
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use hanare_abi::observe::*;

use super::files::{self, Files};
use super::process::{Process, Watch};
use super::registers::{State, X86, description};
use super::signals;

/// EIO, EBUSY, EFAULT in GDB's answers.
const EIO: u8 = 5;
const EBUSY: u8 = 16;

/// A process as GDB's target.
pub struct Gdb {
    /// The process.
    pub process: Process,
    /// Files that GDB has open.
    pub files: Files,
    /// Linux process id of the process.
    pub pid: u32,
    actions: BTreeMap<u64, u64>,
    others: u64,
}

impl Gdb {
    /// A target for a process that has stopped.
    pub fn new(process: Process, pid: u32) -> Self {
        Self {
            process,
            files: Files::default(),
            pid,
            actions: BTreeMap::new(),
            others: ACTION_CONTINUE,
        }
    }

    fn act(&mut self, tid: Tid, action: u64, signal: Option<Signal>) {
        let signal = signal.map_or(0, |signal| u64::from(signals::from_gdb(signal)));
        self.actions.insert(tid.get() as u64, action | signal << 8);
    }
}

fn failed(error: &hanare_sdk::Error) -> TargetError<anyhow::Error> {
    TargetError::Errno(error.errno().map_or(EIO, |errno| errno.raw_os_error() as u8))
}

/// The part of `all` that GDB asks for.
fn part(all: &[u8], offset: u64, length: usize, buffer: &mut [u8]) -> usize {
    let rest = all.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
    let count = rest.len().min(length).min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

impl Target for Gdb {
    type Arch = X86;
    type Error = anyhow::Error;

    fn base_ops(&mut self) -> BaseOps<'_, X86, anyhow::Error> {
        BaseOps::MultiThread(self)
    }
    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }
    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }
    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }
    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Gdb {
    fn read_registers(&mut self, registers: &mut State, tid: Tid) -> TargetResult<(), Self> {
        *registers = self.process.registers(tid.get() as u64).map_err(|error| failed(&error))?;
        Ok(())
    }

    fn write_registers(&mut self, registers: &State, tid: Tid) -> TargetResult<(), Self> {
        self.process.set_registers(tid.get() as u64, registers).map_err(|error| failed(&error))
    }

    fn read_addrs(&mut self, address: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        match self.process.read(address, data) {
            0 if !data.is_empty() => Err(TargetError::Errno(14)),
            count => Ok(count),
        }
    }

    fn write_addrs(&mut self, address: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        self.process.write(address, data).map_err(|error| failed(&error))
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), anyhow::Error> {
        let tids = self.process.threads().unwrap_or_default();
        tids.into_iter().filter_map(|tid| NonZeroUsize::new(tid as usize)).for_each(is_active);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for Gdb {
    fn resume(&mut self) -> Result<(), anyhow::Error> {
        self.process.resume(&self.actions, self.others)
    }

    fn clear_resume_actions(&mut self) -> Result<(), anyhow::Error> {
        self.actions.clear();
        self.others = ACTION_CONTINUE;
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), anyhow::Error> {
        self.act(tid, ACTION_CONTINUE, signal);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }
    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Gdb {
    fn set_resume_action_step(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), anyhow::Error> {
        self.act(tid, ACTION_STEP, signal);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Gdb {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), anyhow::Error> {
        self.others = ACTION_STAY;
        Ok(())
    }
}

impl ThreadExtraInfo for Gdb {
    fn thread_extra_info(&self, tid: Tid, buffer: &mut [u8]) -> Result<usize, anyhow::Error> {
        let name = std::fs::read_to_string(format!("/proc/{}/task/{tid}/comm", self.pid))
            .unwrap_or_default();
        Ok(part(name.trim_end().as_bytes(), 0, buffer.len(), buffer))
    }
}

impl Breakpoints for Gdb {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl HwWatchpoint for Gdb {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.process.add_watch(Watch { address, bytes, kind }))
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.process.remove_watch(Watch { address, bytes, kind }))
    }
}

impl SwBreakpoint for Gdb {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.process.set_breakpoint(address, true))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.process.set_breakpoint(address, false))
    }
}

impl Auxv for Gdb {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        let auxv = self.process.text(TEXT_AUXV).map_err(|error| failed(&error))?;
        Ok(part(&auxv, offset, length, buffer))
    }
}

impl ExecFile for Gdb {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let path = self.process.text(TEXT_PROGRAM).map_err(|error| failed(&error))?;
        Ok(part(&path, offset, length, buffer))
    }
}

impl HostIo for Gdb {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }
    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }
    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }
    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }
    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Gdb {
    fn open(
        &mut self,
        name: &[u8],
        flags: HostIoOpenFlags,
        _: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        self.files.open(name, flags)
    }
}

impl HostIoClose for Gdb {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.files.close(fd)
    }
}

impl HostIoPread for Gdb {
    fn pread(
        &mut self,
        fd: u32,
        count: usize,
        offset: u64,
        buffer: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        self.files.read_at(fd, count, offset, buffer)
    }
}

impl HostIoFstat for Gdb {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        self.files.stat(fd)
    }
}

impl HostIoReadlink for Gdb {
    fn readlink(&mut self, name: &[u8], buffer: &mut [u8]) -> HostIoResult<usize, Self> {
        files::read_link(name, buffer)
    }
}

impl HostIoSetfs for Gdb {
    fn setfs(&mut self, _: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for Gdb {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        match annex {
            b"target.xml" => Ok(part(description().as_bytes(), offset, length, buffer)),
            _ => Err(TargetError::Errno(EBUSY)),
        }
    }
}
