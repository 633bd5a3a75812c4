//! Starting a program that waits before its first instruction until it is watched.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use hanare_sdk::Observer;
use rustix::io::FdFlags;

use crate::program::Program;

/// A program that waits.
pub struct Held {
    /// The proxy.
    pub child: Child,
    socket: UnixStream,
}

/// Starts it. `Err(status)`: it could not be started; what there is to say has been said.
pub fn start(
    program: Program,
    change: impl FnOnce(&mut Command),
) -> Result<std::result::Result<Held, i32>> {
    let (mut own, its) = UnixStream::pair().context("cannot make a socket")?;
    rustix::io::fcntl_setfd(&its, FdFlags::empty())?;
    let (proxy, arguments) = program.proxy(Some(its.as_raw_fd()))?;
    let mut command = Command::new(&proxy);
    command.arg0(&arguments[0]).args(&arguments[1..]);
    change(&mut command);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", proxy.display()))?;
    drop(its);
    if own.read(&mut [0])? == 0 {
        return Ok(Err(exit_status(child.wait()?)));
    }
    Ok(Ok(Held { child, socket: own }))
}

impl Held {
    /// Opens an observer of the program's process.
    pub fn observer(&self) -> Result<Observer> {
        Ok(Observer::open(self.child.id())?)
    }

    /// Lets the program run.
    pub fn go(mut self) -> Result<Child> {
        self.socket.write_all(b"!").context("the program has gone")?;
        Ok(self.child)
    }

    /// Ends the program.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As a shell shows it: a death by signal n is 128 + n.
pub fn exit_status(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
