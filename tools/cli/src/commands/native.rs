//! `hanare native`: becomes the command of a native task, or starts several and waits for them.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use hanare_abi::pooled::POOL_MAX;
use hanare_sdk::Pool;
use rustix::io::FdFlags;

use crate::program::{InPool, Program};
use crate::tasks::Tasks;
use hanare_common::cpu_list::CpuList;
use hanare_common::instances;

/// Most native tasks of one command.
const TASKS_MAX: u32 = 256;

/// Run a native task: a program on an LWK whose memory no process of Linux has. Its system calls
/// are packed into pages, and executed by pooled proxies, which have the command's descriptors 0 to
/// 2, working directory and rights.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare native ./copy from to
  hanare native --tasks 4 --pool 2 ./solver    four tasks, two proxies

A native task has one thread, and no children. What it opens is in the proxy that it keeps: see \
docs/native.md for what to write it with. SIGHUP, SIGINT, SIGQUIT and SIGTERM that are sent to the command \
of several tasks are sent on to all of them; when it is killed they are, too.

Exit status: the program's, of several tasks the first one that is not 0; 125 if Hanare failed, 126 if the program \
cannot be run, 127 if there is no such program.")]
pub struct Native {
    /// Instance to run on [default: the only one, or the one called 'default']
    #[arg(long, value_name = "NAME", value_parser = instances::name)]
    on: Option<String>,
    /// CPUs of the instance to begin on, by Linux' numbers, e.g. 2,4-6 [default: all of them]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Pooled proxies that are started before the tasks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=i64::from(POOL_MAX)))]
    pool: u32,
    /// Most pooled proxies; a call for which there is none waits [default: one for each task, or as
    /// many as --pool says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(POOL_MAX)))]
    pool_max: Option<u32>,
    /// Seconds without a call after which a pooled proxy ends; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    idle: u32,
    /// How many tasks to start, which share the pool; each has its number, from 0 on, in
    /// HANARE_TASK
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(TASKS_MAX)))]
    tasks: u32,
    /// Keep a proxy for each task from the beginning, as programs need that do not ask for it
    #[arg(long)]
    keep: bool,
    /// The program, looked up in PATH as a shell does, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<std::ffi::OsString>,
}

impl Native {
    /// Executes the command; the result is the exit status.
    pub fn execute(self) -> Result<i32> {
        let limit = self.pool_max.unwrap_or(self.pool.max(self.tasks));
        anyhow::ensure!(
            self.pool <= limit,
            "--pool {} is more than --pool-max {limit} allows",
            self.pool
        );
        let pool = Pool::new(self.on.as_deref(), limit, self.idle * 1000)?;
        // The proxies of the tasks have it, too.
        rustix::io::fcntl_setfd(pool.as_fd(), FdFlags::empty())?;
        let fd = pool.as_fd().as_raw_fd();
        if self.tasks == 1 {
            // This process becomes the proxy itself: signals find it, and no parent has to be
            // outlived.
            let error = self.task(fd, 0)?.exec();
            return Err(error).context("cannot start the proxy");
        }
        let mut tasks = Tasks::begin()?;
        for number in 0..self.tasks {
            tasks.start(self.task(fd, number)?).context("cannot start the proxy of a task")?;
        }
        tasks.wait()
    }

    /// The command that becomes task `number`.
    fn task(&self, fd: i32, number: u32) -> Result<Command> {
        // Each starts its share of the pool.
        let members = self.pool / self.tasks + u32::from(number < self.pool % self.tasks);
        let program = Program {
            on: self.on.clone(),
            cpus: self.cpus.clone(),
            arguments: None,
            dispatch: None,
            stats: false,
            pool: Some(InPool { fd, members, keeps: self.keep }),
            command: self.command.clone(),
        };
        let (proxy, arguments) = program.proxy(None)?;
        let mut command = Command::new(proxy);
        command.arg0(&arguments[0]).args(&arguments[1..]);
        command.env("HANARE_TASK", number.to_string());
        Ok(command)
    }
}
