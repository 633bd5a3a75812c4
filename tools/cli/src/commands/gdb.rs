//! `hanare gdb`.

use std::ffi::OsString;
use std::io::{IsTerminal, stderr, stdin};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use hanare_sdk::Observer;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::gdb::process::Process;
use crate::gdb::session::{self, End, Wire};
use crate::gdb::target::Gdb as Target;
use crate::program::Program;
use crate::trace::launch;
use hanare_common::{instances, output};

/// Debug a program on an LWK with gdb: breakpoints, threads, memory, registers, single steps.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare gdb 4711                            on a terminal: gdb on process 4711
  hanare gdb -- ./program ARGUMENT...        gdb on a new program
  gdb -ex 'target remote | hanare gdb 4711'  from within gdb
  hanare gdb --listen :2345 -- ./program     then gdb -ex 'target remote :2345'

A program that reads from the terminal is best started with --listen, gdb in another terminal. When gdb \
detaches or ends, the program goes on; with --listen and a PID it does, too, when Ctrl-C ends hanare gdb. A \
program that hanare gdb has started with --listen gets Ctrl-C of its terminal itself. A thread that waits in a \
system call shows the registers of the call; they can be changed when it has come out. A user may debug \
the processes that the user may ptrace on Linux. Exit status: with a program its own once it has ended, 128 + n if signal n \
killed it; 125 if Hanare failed.")]
pub struct Gdb {
    /// The process to debug
    #[arg(value_name = "PID", conflicts_with = "command", required_unless_present = "command")]
    pid: Option<u32>,
    /// Wait for gdb at a TCP port ([HOST]:PORT; without HOST only on this machine) or a Unix socket
    /// (a path)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Instance to run on [default: the only one, or the one called 'default']
    #[arg(long, value_name = "NAME", value_parser = instances::name)]
    on: Option<String>,
    /// The program and its arguments, behind --
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// How gdb is reached.
enum Way {
    Standard,
    Terminal,
    Listen(String),
}

impl Gdb {
    /// Serves gdb until it or the process ends; the result is the exit status.
    pub fn execute(self) -> Result<i32> {
        let way = match &self.listen {
            Some(address) => Way::Listen(address.clone()),
            None if stdin().is_terminal() => Way::Terminal,
            None => Way::Standard,
        };
        let interrupts = interrupts()?;
        let (mut child, pid, process) = match self.pid {
            Some(pid) => (None, pid, Process::attach(Observer::open(pid)?, pid)?),
            None => match self.start(&way)? {
                Ok((child, process)) => {
                    let pid = child.id();
                    (Some(child), pid, process)
                }
                Err(status) => return Ok(status),
            },
        };
        let connected = process.stopped().and_then(|_| connect(&way, &interrupts));
        let mut gdb = Target::new(process, pid);
        let end = match connected {
            // Ctrl-C on the terminal reaches a program of ours, too, and is gdb's where it is
            // there.
            Ok(Some((wire, debugger))) => {
                let looks = matches!(way, Way::Listen(_)) && child.is_none();
                let end = session::serve(&mut gdb, wire, looks.then_some(&interrupts))?;
                debugger.map(|mut debugger| debugger.wait()); // its user may still be reading
                end
            }
            Ok(None) => End::Detached,
            Err(error) => {
                // Started to be debugged, but no debugger came. Left alone the program would go on.
                child.iter_mut().for_each(|child| drop(child.kill()));
                drop(gdb);
                child.iter_mut().for_each(|child| drop(child.wait()));
                return Err(error);
            }
        };
        if end == End::Killed {
            let pid = rustix::process::Pid::from_raw(pid as i32).context("process 0")?;
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        drop(gdb);
        match &mut child {
            Some(child) => Ok(launch::exit_status(child.wait()?)),
            None => Ok(0),
        }
    }

    fn start(&self, way: &Way) -> Result<std::result::Result<(Child, Process), i32>> {
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
        let held = launch::start(program, |command| redirect(command, way))?;
        let held = match held {
            Ok(held) => held,
            Err(status) => return Ok(Err(status)),
        };
        let pid = held.child.id();
        match held.observer().and_then(|observer| Process::attach(observer, pid)) {
            Ok(process) => Ok(Ok((held.go()?, process))),
            Err(error) => {
                held.kill();
                Err(error)
            }
        }
    }
}

/// Gives the program standard streams and a process group that do not disturb gdb's.
fn redirect(command: &mut Command, way: &Way) {
    match way {
        // Standard input and output are gdb's; what the program prints goes where gdb's messages
        // go.
        Way::Standard => {
            command.stdin(Stdio::null());
            if let Ok(copy) = rustix::io::dup(stderr()) {
                command.stdout(copy);
            }
        }
        // A process group of its own: Ctrl-C is gdb's.
        Way::Terminal => {
            command.stdin(Stdio::null()).process_group(0);
        }
        Way::Listen(_) => {}
    }
}

/// A socket that can be read from once Ctrl-C was pressed. A caller that does not look at it
/// ignores Ctrl-C.
fn interrupts() -> Result<UnixStream> {
    let (read, write) = UnixStream::pair().context("cannot make a socket")?;
    signal_hook::low_level::pipe::register(2, write)?;
    Ok(read)
}

/// The way to gdb, and gdb if it is ours; `None`: Ctrl-C came first.
fn connect(way: &Way, interrupts: &UnixStream) -> Result<Option<(Wire, Option<Child>)>> {
    match way {
        Way::Standard => Ok(Some((Wire::Standard, None))),
        Way::Terminal => start_gdb().map(|(wire, debugger)| Some((wire, Some(debugger)))),
        Way::Listen(address) => Ok(listen(address, interrupts)?.map(|wire| (wire, None))),
    }
}

/// Waits for gdb there; `None`: Ctrl-C came first.
fn listen(address: &str, interrupts: &UnixStream) -> Result<Option<Wire>> {
    let cannot = || format!("cannot listen at {address}");
    match address.rsplit_once(':') {
        Some((host, port)) if !address.contains('/') => {
            let port: u16 = port.parse().with_context(cannot)?;
            let host = if host.is_empty() { "localhost" } else { host };
            let listener = TcpListener::bind((host, port)).with_context(cannot)?;
            output::complain(format_args!(
                "hanare: next: gdb -ex 'target remote {host}:{}'\n",
                listener.local_addr()?.port()
            ));
            if !has_connection(&listener, interrupts)? {
                return Ok(None);
            }
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            Ok(Some(Wire::Tcp(stream)))
        }
        _ => {
            let listener = UnixListener::bind(address).with_context(cannot)?;
            output::complain(format_args!("hanare: next: gdb -ex 'target remote {address}'\n"));
            let accepted = has_connection(&listener, interrupts)
                .and_then(|comes| comes.then(|| listener.accept()).transpose().map_err(Into::into));
            let _ = std::fs::remove_file(address);
            Ok(accepted?.map(|(stream, _)| Wire::Unix(stream)))
        }
    }
}

/// Waits for a connection. False: Ctrl-C came first.
fn has_connection(listener: &impl AsFd, interrupts: &UnixStream) -> Result<bool> {
    let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(interrupts, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => return Ok(fds[1].revents().is_empty()),
        }
    }
}

/// A folder that goes with its content.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts gdb on this terminal, connected to us.
fn start_gdb() -> Result<(Wire, Child)> {
    use std::os::unix::fs::DirBuilderExt;
    let folder = Folder(std::env::temp_dir().join(format!("hanare-gdb-{}", std::process::id())));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder.0)
        .with_context(|| format!("cannot create {}", folder.0.display()))?;
    let socket = folder.0.join("socket");
    let listener = UnixListener::bind(&socket)?;
    let mut debugger = Command::new("gdb")
        // Its own 2 s are little for a program's start on a busy machine.
        .args(["-q", "-ex", "set remotetimeout 30", "-ex"])
        .arg(format!("target remote {}", socket.display()))
        .spawn()
        .context("cannot start gdb (next: apt install gdb, or --listen for one elsewhere)")?;
    listener.set_nonblocking(true)?;
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
                return Err(error.into());
            }
            Err(_) if debugger.try_wait()?.is_some() => bail!("gdb has ended without connecting"),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    stream.set_nonblocking(false)?;
    Ok((Wire::Unix(stream), debugger))
}
