//! The commands, one file each. To add one: a file with an `Args` structure that
//! has `execute`, a line in [`Command`], a line in [`Command::execute`].

pub mod boot;
pub mod completion;
pub mod debug;
pub mod doctor;
pub mod gdb;
pub mod log;
pub mod ls;
pub mod man;
pub mod native;
pub mod ps;
pub mod run;
pub mod shutdown;
pub mod status;
pub mod top;
pub mod trace;

use clap::Subcommand;

use hanare_bench::{Bench, Noise};

/// Subcommands of `hanare`.
#[derive(Subcommand)]
pub enum Command {
    /// Take CPUs and memory from Linux and boot an LWK on them
    Boot(boot::Boot),
    /// Run a program on an LWK
    Run(run::Run),
    /// Run a native task, whose calls pooled proxies execute
    Native(native::Native),
    /// List the LWK instances
    Ls(ls::Ls),
    /// Show the state of instances in detail
    Status(status::Status),
    /// List the processes that run on LWKs
    Ps(ps::Ps),
    /// Watch what the processes on LWKs do
    Top(top::Top),
    /// Show the kernel log of an instance
    Log(log::Log),
    /// Stop an instance and give its CPUs and memory back to Linux
    Shutdown(shutdown::Shutdown),
    /// Say whether this machine can run Hanare, and if not, why
    Doctor(doctor::Doctor),
    /// Print the system calls of a program on an LWK
    Trace(trace::Trace),
    /// Debug a program on an LWK with gdb
    Gdb(gdb::Gdb),
    /// Measure the LWK against this machine's Linux
    Bench(Bench),
    /// Measure what disturbs a program that computes, on Linux and on an LWK
    Noise(Noise),
    /// Print the completion of commands and options for a shell
    Completion(completion::Completion),
    /// Write the manual pages
    #[command(hide = true)]
    Man(man::Man),
    /// For tests of Hanare itself
    #[command(hide = true)]
    Debug(debug::Debug),
}

impl Command {
    /// Executes the command; the result is the exit status. `whole` makes the command line with all
    /// its help.
    pub fn execute(self, whole: fn() -> clap::Command) -> anyhow::Result<i32> {
        match self {
            Self::Boot(boot) => boot.execute().map(|()| 0),
            Self::Run(run) => run.execute().map(|never| match never {}),
            Self::Native(native) => native.execute(),
            Self::Ls(ls) => ls.execute().map(|()| 0),
            Self::Status(status) => status.execute().map(|()| 0),
            Self::Ps(ps) => ps.execute().map(|()| 0),
            Self::Top(top) => top.execute().map(|()| 0),
            Self::Log(log) => log.execute().map(|()| 0),
            Self::Shutdown(shutdown) => shutdown.execute().map(|()| 0),
            Self::Doctor(doctor) => doctor.execute(),
            Self::Trace(trace) => trace.execute(),
            Self::Gdb(gdb) => gdb.execute(),
            Self::Bench(bench) => bench.execute(),
            Self::Noise(noise) => noise.execute(),
            Self::Completion(completion) => completion.execute(whole()).map(|()| 0),
            Self::Man(man) => man.execute(whole()).map(|()| 0),
            Self::Debug(debug) => debug.execute().map(|()| 0),
        }
    }
}
