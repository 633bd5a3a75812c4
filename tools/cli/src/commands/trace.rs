//! `hanare trace`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, LineWriter, Write};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueHint};
use hanare_sdk::{Error, Observer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::program::Program;
use crate::trace::launch;
use crate::trace::printer::{Printer, Style};
use hanare_common::{find, instances};

/// Print the system calls of a program on an LWK: names, arguments, results, the kernel that
/// served each (LWK, Linux, none) and how long it took, in seconds.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare trace ls -l
  hanare trace -f -o calls make
  hanare trace -c python3 script.py
  hanare trace -p 4711 -e openat,read

<local ...>: served by the LWK; <local, asked Linux ...>: by the LWK, which needed Linux, for instance to hold \
a file; <delegated ...>: by Linux; <refused ...>: see syscalls.md of the documents (make install puts them \
into share/doc/hanare/docs).

A user may trace the processes that the user may ptrace on Linux. Exit status: the program's, 128 + n if signal n killed \
it; 125 if Hanare failed.")]
pub struct Trace {
    /// Trace a process that runs already; Ctrl-C lets it go
    #[arg(short, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Trace all threads, and children
    #[arg(short)]
    follow: bool,
    /// Print only a table of counts and times, at the end
    #[arg(short)]
    counts: bool,
    /// Write to a file instead of stderr
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Bytes shown of data that is read or written
    #[arg(short, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u16).range(0..=4096))]
    string_max: u16,
    /// Begin each line with the time, in seconds since 1970
    #[arg(short)]
    time: bool,
    /// Only these calls, e.g. openat,read
    #[arg(short, value_name = "CALLS", value_delimiter = ',')]
    expression: Vec<String>,
    /// Instance to run on [default: the only one, or the one called 'default']
    #[arg(long, value_name = "NAME", value_parser = instances::name)]
    on: Option<String>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", required_unless_present = "pid", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<std::ffi::OsString>,
}

/// How long the tracer lets records gather after it has read some.
const GATHER: Duration = Duration::from_millis(2);
/// Without news for so long, what has begun is shown.
const IDLE_MS: i64 = 100;

impl Trace {
    /// Traces; the result is the exit status.
    pub fn execute(self) -> Result<i32> {
        let stop = Arc::new(AtomicBool::new(false));
        let printer = self.printer()?;
        let Some(pid) = self.pid else { return self.program(printer, &stop) };
        let observer = Observer::open(pid)?;
        for signal in [2, 15] {
            signal_hook::flag::register(signal, stop.clone())?;
        }
        self.begin(&observer, pid)?;
        follow(&observer, printer, &mut None, &stop)?;
        Ok(0)
    }

    fn printer(&self) -> Result<Printer> {
        let mut only: BTreeSet<String> = BTreeSet::new();
        for name in &self.expression {
            let name = name.trim_start_matches("trace=");
            if !hanare_core::syscalls::rows().iter().any(|row| row.name == name) {
                let table = find::document("syscalls.md");
                bail!("-e {name}: there is no such system call (see {})", table.display());
            }
            only.insert(name.into());
        }
        let style = Style {
            string_max: self.string_max.into(),
            always_name: self.follow && self.output.is_some(),
            time: self.time,
            only,
            summary: self.counts,
        };
        let out: Box<dyn Write> = match &self.output {
            None => Box::new(LineWriter::new(std::io::stderr())),
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Box::new(BufWriter::new(file))
            }
        };
        Ok(Printer::new(out, style))
    }

    fn begin(&self, observer: &Observer, pid: u32) -> Result<()> {
        observer.trace(self.follow, self.string_max.into()).map_err(|error| match error.errno() {
            Some(Errno::BUSY) => {
                anyhow::anyhow!("process {pid} is traced by somebody else already")
            }
            _ => error.into(),
        })
    }

    fn program(self, printer: Printer, stop: &Arc<AtomicBool>) -> Result<i32> {
        let (on, command) = (self.on.clone(), self.command.clone());
        let program = Program {
            on,
            cpus: None,
            arguments: None,
            dispatch: None,
            stats: false,
            pool: None,
            command,
        };
        let held = match launch::start(program, |_| ())? {
            Ok(held) => held,
            Err(status) => return Ok(status),
        };
        let begun = held.observer().and_then(|observer| {
            self.begin(&observer, held.child.id())?;
            Ok(observer)
        });
        let observer = match begun {
            Ok(observer) => observer,
            Err(error) => {
                held.kill();
                return Err(error);
            }
        };
        // Ctrl-C is the program's; the tracer ends when that does.
        for signal in [2, 3] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        signal_hook::flag::register(15, stop.clone())?;
        let mut child = Some(held.go()?);
        let followed = follow(&observer, printer, &mut child, stop);
        // Where the trace cannot be written the program goes on, and its caller waits for it.
        drop(observer);
        let mut child = child.context("the program")?;
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
        }
        let status = child.wait()?;
        followed.map(|()| launch::exit_status(status))
    }
}

/// Prints until the program and, if they are traced, its children are gone.
fn follow(
    observer: &Observer,
    mut printer: Printer,
    child: &mut Option<Child>,
    stop: &AtomicBool,
) -> Result<()> {
    let mut buffer = vec![0; 65536];
    loop {
        let mut fds = [PollFd::new(observer, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: IDLE_MS * 1_000_000 };
        let news = match poll(&mut fds, Some(&timeout)) {
            Ok(count) => count > 0,
            Err(Errno::INTR) => true,
            Err(errno) => return Err(errno.into()),
        };
        // Before the records are read: what comes before the end is among them.
        let ended = ended(observer, child)? || stop.load(Ordering::Relaxed);
        let mut any = false;
        loop {
            let (bytes, lost) = match observer.read_trace(&mut buffer) {
                Err(Error::Failed { errno: Errno::IO, .. }) => {
                    printer.finish().map_err(cannot_write)?;
                    bail!("the LWK stopped working (see: hanare log)");
                }
                other => other?,
            };
            printer.feed(&buffer[..bytes]).map_err(cannot_write)?;
            printer.lost(lost).map_err(cannot_write)?;
            if bytes == 0 {
                break;
            }
            any = true;
        }
        if ended {
            printer.finish().map_err(cannot_write)?;
            return Ok(());
        }
        if any || news {
            std::thread::sleep(GATHER);
        } else {
            printer.idle().map_err(cannot_write)?;
        }
    }
}

fn cannot_write(error: std::io::Error) -> anyhow::Error {
    anyhow::Error::from(error).context("cannot write the trace")
}

fn ended(observer: &Observer, child: &mut Option<Child>) -> Result<bool> {
    match observer.status() {
        Ok(status) if status.watched > 0 => Ok(false),
        Ok(_) => Ok(true),
        Err(Error::Failed { errno: Errno::IO, .. }) => match child {
            Some(child) => Ok(child.try_wait()?.is_some()),
            None => Ok(true),
        },
        Err(error) => Err(error.into()),
    }
}
