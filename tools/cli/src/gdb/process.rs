//! A process as a debugger sees it: the LWK's requests, with breakpoints hidden.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gdbstub::target::ext::breakpoints::WatchKind;
use hanare_abi::observe::*;
use hanare_sdk::{Error, Observed, Observer};
use rustix::io::Errno;

use super::registers::State;

/// How long the threads of a process may take to stop.
const STOP: Duration = Duration::from_secs(20);
/// How long Linux may keep the LWK waiting for what a change of memory needs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes written at once.
const WRITE: usize = 512;
const PAGE: u64 = 4096;

/// A process that is debugged.
pub struct Process {
    /// The LWK's side.
    pub observer: Observer,
    /// The bytes of text that breakpoints replace, by address.
    breakpoints: BTreeMap<u64, u8>,
    /// Watchpoints, by number.
    watches: [Option<Watch>; 4],
}

/// A watchpoint.
#[derive(Clone, Copy, PartialEq)]
pub struct Watch {
    /// Address of the watchpoint.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The kind that GDB asked for, and by which it is told.
    pub kind: WatchKind,
}

impl Process {
    /// Attaches to the process and asks it to stop.
    pub fn attach(observer: Observer, pid: u32) -> Result<Self> {
        observer.ask(OBSERVE_DEBUG, [0; 2], &[]).map_err(|error| match error.errno() {
            Some(Errno::BUSY) => {
                anyhow::anyhow!("process {pid} is debugged by somebody else already")
            }
            _ => error.into(),
        })?;
        observer.ask(OBSERVE_STOP, [0; 2], &[])?;
        Ok(Self { observer, breakpoints: BTreeMap::new(), watches: [None; 4] })
    }

    /// Waits until the process has stopped.
    pub fn stopped(&self) -> Result<Observed> {
        let until = Instant::now() + STOP;
        loop {
            let status = self.observer.status()?;
            match status.why {
                OBSERVED_RUNS | OBSERVED_STOPPING if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                OBSERVED_RUNS | OBSERVED_STOPPING => {
                    bail!("the process does not stop (see: hanare status --ping, hanare log)")
                }
                OBSERVED_ENDED => bail!("the process has ended"),
                _ => return Ok(status),
            }
        }
    }

    /// Ids of the process' threads.
    pub fn threads(&self) -> Result<Vec<u32>> {
        let mut all: Vec<u32> = Vec::new();
        loop {
            let (_, some) = self.observer.ask(OBSERVE_THREADS, [all.len() as u64, 0], &[])?;
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some.iter().map(|&tid| tid as u32));
        }
    }

    /// Registers of a thread.
    pub fn registers(&self, tid: u64) -> Result<State, Error> {
        let mut state = State::default();
        let (_, general) = self.observer.ask(OBSERVE_GET_REGISTERS, [tid, 0], &[])?;
        let (_, fpu) = self.observer.ask(OBSERVE_GET_FPU, [tid, 0], &[])?;
        state.general.iter_mut().zip(general).for_each(|(to, word)| *to = word);
        state.fpu.iter_mut().zip(fpu).for_each(|(to, word)| *to = word);
        Ok(state)
    }

    /// Sets those that differ. EBUSY: the thread waits in the kernel.
    pub fn set_registers(&self, tid: u64, state: &State) -> Result<(), Error> {
        let old = self.registers(tid)?;
        if old.general != state.general {
            self.observer.ask(OBSERVE_SET_REGISTERS, [tid, 0], &state.general)?;
        }
        if old.fpu != state.fpu {
            self.observer.ask(OBSERVE_SET_FPU, [tid, 0], &state.fpu)?;
        }
        Ok(())
    }

    /// Reads memory up to the first page that is not there.
    pub fn read(&self, address: u64, to: &mut [u8]) -> usize {
        let mut done = 0;
        while done < to.len() {
            let at = address.wrapping_add(done as u64);
            let end = to.len().min(done + (PAGE - at % PAGE) as usize);
            match self.observer.read_memory(at, &mut to[done..end]) {
                Ok(count @ 1..) => done += count,
                _ => break,
            }
        }
        let shown = address..address.wrapping_add(done as u64);
        for (at, byte) in self.breakpoints.range(shown) {
            to[(at - address) as usize] = *byte;
        }
        done
    }

    /// Writes memory, for this process only where it is read-only to it.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut bytes = bytes.to_vec();
        // Breakpoints stay where they are; what they hide is changed.
        for (at, byte) in
            self.breakpoints.range_mut(address..address.wrapping_add(bytes.len() as u64))
        {
            let index = (at - address) as usize;
            (*byte, bytes[index]) = (bytes[index], 0xcc);
        }
        for (index, piece) in bytes.chunks(WRITE).enumerate() {
            let at = address + (index * WRITE) as u64;
            let _ = self.observer.read_memory(at, &mut [0]);
            let _ = self.observer.read_memory(at + piece.len() as u64 - 1, &mut [0]);
            let words: Vec<u64> = piece.chunks(8).map(word).collect();
            match self.change(OBSERVE_WRITE, [at, piece.len() as u64], &words) {
                // A mapping that Linux shares: written as the process would.
                Err(error) if error.errno() == Some(Errno::FAULT) => {
                    let written = self.observer.write_memory(at, piece).unwrap_or(0);
                    if written != piece.len() {
                        return Err(error);
                    }
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Asks for a change of memory, again while Linux keeps the LWK waiting for what that needs.
    fn change(&self, op: u32, args: [u64; 2], words: &[u64]) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.observer.ask(op, args, words) {
                Err(error) if error.errno() == Some(Errno::AGAIN) && Instant::now() < until => {}
                other => return other.map(drop),
            }
        }
    }

    /// Sets or clears a breakpoint. False: there is no memory.
    pub fn set_breakpoint(&mut self, address: u64, on: bool) -> bool {
        let mut byte = [0];
        if on && self.read(address, &mut byte) != 1 {
            return false;
        }
        let done = self.change(OBSERVE_BREAK, [address, on.into()], &[]).is_ok();
        if done && on {
            self.breakpoints.entry(address).or_insert(byte[0]);
        } else if done {
            self.breakpoints.remove(&address);
        }
        done
    }

    /// Sets a watchpoint. False: the CPU has no more of them, or none for that.
    pub fn add_watch(&mut self, watch: Watch) -> bool {
        // The CPU knows none for reads alone; GDB ignores what changed the value.
        let kind = if watch.kind == WatchKind::Write { 1 } else { 3 };
        let Some(number) = self.watches.iter().position(Option::is_none) else { return false };
        let done = self
            .observer
            .ask(OBSERVE_WATCH, [number as u64, watch.address], &[watch.bytes, kind])
            .is_ok();
        if done {
            self.watches[number] = Some(watch);
        }
        done
    }

    /// Clears a watchpoint. False: there is no such.
    pub fn remove_watch(&mut self, watch: Watch) -> bool {
        let Some(number) = self.watches.iter().position(|&w| w == Some(watch)) else {
            return false;
        };
        self.watches[number] = None;
        self.observer.ask(OBSERVE_WATCH, [number as u64, 0], &[0, 0]).is_ok()
    }

    /// The kind of the watchpoint at `address`.
    pub fn watched(&self, address: u64) -> WatchKind {
        self.watches
            .iter()
            .flatten()
            .find(|w| w.address == address)
            .map_or(WatchKind::Write, |w| w.kind)
    }

    /// A text of the LWK's.
    pub fn text(&self, which: u64) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        loop {
            let (args, words) = self.observer.ask(OBSERVE_TEXT, [which, all.len() as u64], &[])?;
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take(args[0] as usize);
            let before = all.len();
            all.extend(bytes);
            if all.len() == before {
                return Ok(all);
            }
        }
    }

    /// Goes on, by actions for threads and one for the others. A process that has ended
    /// meanwhile (killed from outside) does not: its status says so.
    pub fn resume(&self, actions: &BTreeMap<u64, u64>, others: u64) -> Result<()> {
        let ask_all = || -> Result<(), Error> {
            for (tid, action) in actions {
                self.observer.ask(OBSERVE_ACTION, [*tid, *action], &[])?;
            }
            self.observer.ask(OBSERVE_RESUME, [others, 0], &[]).map(|_| ())
        };
        match ask_all() {
            Err(_) if self.observer.status().is_ok_and(|s| s.why == OBSERVED_ENDED) => Ok(()),
            result => result.context("cannot go on"),
        }
    }

    /// Asks all threads to stop.
    pub fn stop(&self) -> Result<()> {
        self.observer.ask(OBSERVE_STOP, [0; 2], &[])?;
        Ok(())
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
