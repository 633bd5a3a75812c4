//! `hanare run`: becomes the proxy of a program.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};

use crate::dispatch::Mode;
use crate::preload::Posted;
use crate::program::{Arguments, Program};
use hanare_common::cpu_list::CpuList;
use hanare_common::instances;

/// Run a program on an LWK as if it were run directly: standard input and output,
/// environment, working directory, signals and exit status are its own.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare run ls -l
  hanare run --on blue --cpus 3 ./solver --steps 100
  hanare run --async=write ./solver --checkpoint state
  hanare run --async=all,socket memcached -u memcache
  hanare run --stats python3 -c 'print(sum(range(10**6)))' | tee log

Exit status: the program's; 125 if Hanare failed, 126 if the program cannot be run, 127 if there is no such \
program.")]
pub struct Run {
    /// Instance to run on [default: the only one, or the one called 'default']
    #[arg(long, value_name = "NAME", value_parser = instances::name)]
    pub on: Option<String>,
    /// CPUs of the instance to begin on, as with taskset: by Linux' numbers, e.g. 2,4-6
    /// [default: all of them]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// How arguments of its calls, and of its children's, reach Linux [default: as booted]
    #[arg(long, value_name = "HOW")]
    pub arguments: Option<Arguments>,
    /// Print time, memory and calls when the program ends: on the stderr of this command, also
    /// where the program has closed or replaced its own
    #[arg(long)]
    pub stats: bool,
    /// Way in which delegated calls are executed [default: as the instance was booted]
    #[arg(long, value_name = "WAY")]
    pub dispatch: Option<Mode>,
    /// Post calls of the program, where no process can tell the difference, and go on computing:
    /// docs/async.md
    #[arg(long = "async", value_name = "KINDS", num_args = 0..=1, require_equals = true, value_delimiter = ',', default_missing_value = "all")]
    pub posted: Option<Vec<Posted>>,
    /// The program, looked up in PATH as a shell does, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl Run {
    /// `hanare run` of nothing but a program and its arguments, from all that the command was
    /// started with: what is most often run, and needs no parser, which takes longer than all the
    /// rest. `None`: something else.
    pub fn plain(mut all: impl Iterator<Item = OsString>) -> Option<Self> {
        all.next()?;
        let is_run = all.next()? == "run";
        let mut command: Vec<_> = all.collect();
        // What follows it is the program and its arguments, whatever they look like.
        let is_marked = command.first()? == "--";
        if is_marked {
            command.remove(0);
        }
        let is_plain = is_marked
            || !command.first()?.as_bytes().starts_with(b"-")
                && command.iter().all(|part| part != "--");
        let is_plain =
            is_plain && !command.is_empty() && command.iter().all(|part| !part.is_empty());
        (is_run && is_plain).then_some(Self {
            on: None,
            cpus: None,
            arguments: None,
            dispatch: None,
            stats: false,
            posted: None,
            command,
        })
    }

    /// Becomes the proxy.
    pub fn execute(self) -> Result<Infallible> {
        let Self { on, cpus, arguments, dispatch, stats, posted, command } = self;
        let environment = posted.map(|kinds| Posted::environment(&kinds)).transpose()?;
        let program = Program { on, cpus, arguments, dispatch, stats, pool: None, command };
        let (proxy, arguments) = program.proxy(None)?;
        let arguments =
            arguments.iter().map(|argument| c_string(argument)).collect::<Result<Vec<_>>>()?;
        let path = c_string(proxy.as_os_str())?;
        let result = match environment {
            Some(environment) => nix::unistd::execve(&path, &arguments, &environment),
            None => nix::unistd::execv(&path, &arguments),
        };
        result.with_context(|| format!("cannot start {}", proxy.display()))
    }
}

fn c_string(text: &OsStr) -> Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}
