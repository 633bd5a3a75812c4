//! One connection of a debugger, from its first word to its last.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Result, anyhow};
use gdbstub::common::Signal;
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use hanare_abi::observe::*;
use hanare_sdk::Observed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::process::Process;
use super::signals;
use super::target::Gdb;

/// How often the process is looked at, should news be lost.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Connection to GDB.
pub enum Wire {
    /// Our standard input and output.
    Standard,
    /// A Unix socket.
    Unix(UnixStream),
    /// A TCP port.
    Tcp(TcpStream),
}

impl Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Standard => Ok(rustix::io::read(std::io::stdin(), buffer)?),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Standard => rustix::stdio::stdin(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A wire that collects what it writes until it is flushed.
struct Buffered {
    wire: Wire,
    out: Vec<u8>,
}

impl Connection for Buffered {
    type Error = std::io::Error;

    fn write(&mut self, byte: u8) -> std::io::Result<()> {
        self.out.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let out = std::mem::take(&mut self.out);
        match &mut self.wire {
            Wire::Standard => {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(&out)?;
                stdout.flush()
            }
            Wire::Unix(stream) => Write::write_all(stream, &out),
            Wire::Tcp(stream) => Write::write_all(stream, &out),
        }
    }
}

/// End of a session.
#[derive(Debug, PartialEq)]
pub enum End {
    /// GDB let the process go, or is gone.
    Detached,
    /// GDB wants the process killed.
    Killed,
    /// The process has ended.
    Ended,
}

type Machine<'a> = GdbStubStateMachine<'a, Gdb, Buffered>;

/// Serves GDB until one of them ends, or until `interrupts`, if given, can be read from.
pub fn serve(gdb: &mut Gdb, wire: Wire, interrupts: Option<&UnixStream>) -> Result<End> {
    let wrong =
        |error: gdbstub::stub::GdbStubError<anyhow::Error, std::io::Error>| anyhow!("{error}");
    let stub = GdbStub::new(Buffered { wire, out: Vec::new() });
    let mut machine = stub.run_state_machine(gdb).map_err(wrong)?;
    let mut input = Vec::new().into_iter();
    loop {
        machine = match machine {
            Machine::Idle(mut idle) => match input.next() {
                Some(byte) => idle.incoming_data(gdb, byte).map_err(wrong)?,
                None => match fill(&mut idle.borrow_conn().wire, interrupts)? {
                    Some(bytes) => {
                        input = bytes.into_iter();
                        Machine::Idle(idle)
                    }
                    None => return Ok(End::Detached),
                },
            },
            Machine::Running(mut running) => match input.next() {
                Some(byte) => running.incoming_data(gdb, byte).map_err(wrong)?,
                None => {
                    let (word, _) = wait(gdb, &running.borrow_conn().wire, interrupts)?;
                    if word {
                        match fill(&mut running.borrow_conn().wire, interrupts)? {
                            Some(bytes) => input = bytes.into_iter(),
                            None => return Ok(End::Detached),
                        }
                    }
                    match stop_reason(&gdb.process, gdb.process.observer.status()?) {
                        Some(reason) => running.report_stop(gdb, reason).map_err(wrong)?,
                        None => Machine::Running(running),
                    }
                }
            },
            Machine::CtrlCInterrupt(interrupt) => {
                gdb.process.stop()?;
                interrupt
                    .interrupt_handled(gdb, None::<MultiThreadStopReason<u64>>)
                    .map_err(wrong)?
            }
            Machine::Disconnected(end) => {
                return Ok(match end.get_reason() {
                    DisconnectReason::Kill => End::Killed,
                    DisconnectReason::Disconnect => End::Detached,
                    _ => End::Ended,
                });
            }
        };
    }
}

/// Reads from GDB; `None`: GDB is gone, or Ctrl-C has ended the wait for it.
fn fill(wire: &mut Wire, interrupts: Option<&UnixStream>) -> Result<Option<Vec<u8>>> {
    let mut buffer = vec![0; 4096];
    loop {
        let mut fds = vec![PollFd::new(&*wire, PollFlags::IN)];
        fds.extend(interrupts.map(|interrupts| PollFd::new(interrupts, PollFlags::IN)));
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(_) if fds.get(1).is_some_and(any) => return Ok(None),
            Ok(_) => {}
        }
        return match wire.read(&mut buffer) {
            Ok(0) => Ok(None),
            Ok(count) => {
                buffer.truncate(count);
                Ok(Some(buffer))
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => Ok(None),
        };
    }
}

fn any(fd: &PollFd) -> bool {
    !fd.revents().is_empty()
}

/// Waits for something to [`fill`] from (true first) or news of the process (true second).
fn wait(gdb: &Gdb, wire: &Wire, interrupts: Option<&UnixStream>) -> Result<(bool, bool)> {
    let mut fds =
        vec![PollFd::new(&gdb.process.observer, PollFlags::IN), PollFd::new(wire, PollFlags::IN)];
    fds.extend(interrupts.map(|interrupts| PollFd::new(interrupts, PollFlags::IN)));
    match poll(&mut fds, Some(&LOOK)) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok((false, false)),
        Err(errno) => return Err(errno.into()),
    }
    let word = fds[1..].iter().any(any);
    // A process that is going away hangs up before its end is told: no hurry then.
    if !word && fds[0].revents().contains(PollFlags::HUP) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok((word, any(&fds[0])))
}

/// Reason why a process has stopped, as GDB is told; `None`: the process runs.
fn stop_reason(process: &Process, status: Observed) -> Option<MultiThreadStopReason<u64>> {
    let tid = NonZeroUsize::new(status.tid as usize).unwrap_or(NonZeroUsize::MIN);
    let signal = |signal| MultiThreadStopReason::SignalWithThread { tid, signal };
    match status.why {
        OBSERVED_STOPPED => Some(signal(Signal::SIGINT)),
        OBSERVED_SIGNAL => Some(signal(signals::to_gdb(status.signal))),
        OBSERVED_BREAK => Some(MultiThreadStopReason::SwBreak(tid)),
        OBSERVED_STEP => Some(signal(Signal::SIGTRAP)),
        OBSERVED_WATCH => Some(MultiThreadStopReason::Watch {
            tid,
            kind: process.watched(status.address),
            addr: status.address,
        }),
        OBSERVED_ENDED => Some(match status.exit_status & 0x7f {
            0 => MultiThreadStopReason::Exited((status.exit_status >> 8) as u8),
            number => MultiThreadStopReason::Terminated(signals::to_gdb(number)),
        }),
        _ => None,
    }
}
