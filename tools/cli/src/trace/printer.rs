//! Records, one after the other, to lines in the manner of strace.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use hanare_abi::observe::*;
use hanare_core::syscalls;

use super::record::{self, Entry};
use super::summary::Summary;
use super::{format, names};
use hanare_common::output;

/// How to print.
pub struct Style {
    /// Bytes of data shown.
    pub string_max: usize,
    /// Every line begins with the thread (output to a file, with children).
    pub always_name: bool,
    /// Lines begin with the time.
    pub time: bool,
    /// Only these calls; empty: all.
    pub only: BTreeSet<String>,
    /// Only the table at the end.
    pub summary: bool,
}

/// Where the lines go, and what is not finished yet.
pub struct Printer {
    out: Box<dyn Write>,
    style: Style,
    bytes: Vec<u8>,
    begun: BTreeMap<u32, Begun>,
    tids: BTreeSet<u32>,
    status: BTreeMap<u32, String>,
    summary: Summary,
    lost: u64,
}

struct Begun {
    entry: Entry,
    /// Whether the call has been printed as "<unfinished ...>".
    shown: bool,
}

impl Printer {
    /// A printer that writes to `out`.
    pub fn new(out: Box<dyn Write>, style: Style) -> Self {
        Self {
            out,
            style,
            bytes: Vec::new(),
            begun: BTreeMap::new(),
            tids: BTreeSet::new(),
            status: BTreeMap::new(),
            summary: Summary::default(),
            lost: 0,
        }
    }

    /// Bytes of the ring, which may end in the middle of a record.
    pub fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        while let Some(entry) = record::take(&mut self.bytes) {
            self.entry(entry)?;
        }
        Ok(())
    }

    /// Says how many records were lost, if more than before.
    pub fn lost(&mut self, lost: u64) -> io::Result<()> {
        if lost > self.lost {
            writeln!(
                self.out,
                "hanare: {} lost (the tracer was too slow)",
                output::count(lost - self.lost, "event", "events")
            )?;
            self.lost = lost;
        }
        Ok(())
    }

    /// Nothing has come for a while: what has begun is shown.
    pub fn idle(&mut self) -> io::Result<()> {
        if !self.style.summary {
            let waiting: Vec<u32> = self
                .begun
                .iter()
                .filter(|(_, begun)| !begun.shown && self.wanted(begun.entry.head.number))
                .map(|(tid, _)| *tid)
                .collect();
            for tid in waiting {
                let Some(begun) = self.begun.get_mut(&tid) else { continue };
                begun.shown = true;
                let text = format::call(&begun.entry, None, self.style.string_max);
                let time = begun.entry.head.time_ns;
                self.line(tid, time, &format!("{} <unfinished ...>", text.trim_end_matches(')')))?;
            }
        }
        self.out.flush()
    }

    /// Prints the calls that never ended, and the table.
    pub fn finish(&mut self) -> io::Result<()> {
        self.idle()?;
        if self.style.summary {
            self.out.write_all(self.summary.text().as_bytes())?;
        }
        self.out.flush()
    }

    fn wanted(&self, number: u32) -> bool {
        self.style.only.is_empty() || self.style.only.contains(syscalls::name(u64::from(number)))
    }

    fn shown(&self, number: u32) -> bool {
        !self.style.summary && self.wanted(number)
    }

    fn line(&mut self, tid: u32, time_ns: u64, text: &str) -> io::Result<()> {
        if self.style.always_name {
            write!(self.out, "{tid} ")?;
        } else if self.tids.len() > 1 {
            write!(self.out, "[pid {tid}] ")?;
        }
        if self.style.time {
            write!(self.out, "{}.{:06} ", time_ns / 1_000_000_000, time_ns % 1_000_000_000 / 1000)?;
        }
        writeln!(self.out, "{text}")
    }

    fn entry(&mut self, entry: Entry) -> io::Result<()> {
        let head = entry.head;
        self.tids.insert(head.tid);
        match head.kind {
            RECORD_ENTER => self.enter(entry),
            RECORD_EXIT => self.exit(&entry),
            RECORD_SIGNAL if !self.style.summary => {
                let name = names::signal(u64::from(head.number));
                let (code, word) = (head.args[1] as i32, head.args[2]);
                let more = match code {
                    // From a process, or of a child.
                    _ if code <= 0 || head.number == 17 => {
                        format!(", si_code={code}, si_pid={}, si_uid={}", word as u32, word >> 32)
                    }
                    code if code != 0x80 => format!(", si_code={code}, si_addr={word:#x}"),
                    code => format!(", si_code={code}"),
                };
                self.line(
                    head.tid,
                    head.time_ns,
                    &format!("--- {name} {{si_signo={name}{more}}} ---"),
                )
            }
            RECORD_KILLED => {
                self.status.insert(
                    head.pid,
                    format!("killed by {}", names::signal(u64::from(head.number))),
                );
                Ok(())
            }
            RECORD_GONE => self.gone(head.pid, head.time_ns),
            _ => Ok(()),
        }
    }

    fn enter(&mut self, entry: Entry) -> io::Result<()> {
        let head = entry.head;
        match syscalls::name(u64::from(head.number)) {
            name @ ("exit" | "exit_group") => {
                if name == "exit_group" || head.pid == head.tid {
                    self.status.insert(head.pid, format!("exited with {}", head.args[0] & 0xff));
                }
                if self.shown(head.number) {
                    let text = format::call(&entry, None, self.style.string_max);
                    self.line(head.tid, head.time_ns, &format!("{text} = ?"))?;
                }
            }
            _ => {
                self.begun.insert(head.tid, Begun { entry, shown: false });
            }
        }
        Ok(())
    }

    fn exit(&mut self, entry: &Entry) -> io::Result<()> {
        let head = &entry.head;
        let Some(begun) = self.begun.remove(&head.tid) else { return Ok(()) };
        if self.wanted(head.number) {
            self.summary.add(head);
        }
        if !self.shown(head.number) {
            return Ok(());
        }
        let text = match begun.shown {
            true => format!("<... {} resumed>)", syscalls::name(u64::from(head.number))),
            false => format::call(&begun.entry, Some(entry), self.style.string_max),
        };
        let served = match head.served {
            SERVED_LOCAL => "local",
            SERVED_DELEGATED => "delegated",
            SERVED_REFUSED => "refused",
            SERVED_HELPED => "local, asked Linux",
            _ => "?",
        };
        let seconds = format!(
            "{}.{:06}",
            head.duration_ns / 1_000_000_000,
            head.duration_ns % 1_000_000_000 / 1000
        );
        let result = format::result(head.number, head.result);
        self.line(head.tid, head.time_ns, &format!("{text} = {result} <{served} {seconds}>"))
    }

    fn gone(&mut self, pid: u32, time_ns: u64) -> io::Result<()> {
        // Threads of other processes have ids of their own: only those of this one end.
        let ended: Vec<u32> = self
            .begun
            .iter()
            .filter(|(_, begun)| begun.entry.head.pid == pid)
            .map(|(tid, _)| *tid)
            .collect();
        for tid in ended {
            let Some(begun) = self.begun.remove(&tid) else { continue };
            if !begun.shown && self.shown(begun.entry.head.number) {
                let text = format::call(&begun.entry, None, self.style.string_max);
                self.line(tid, begun.entry.head.time_ns, &format!("{text} = ?"))?;
            }
        }
        if self.style.summary {
            return Ok(());
        }
        let how = self.status.remove(&pid).unwrap_or_else(|| "killed by SIGKILL".into());
        self.line(pid, time_ns, &format!("+++ {how} +++"))
    }
}
