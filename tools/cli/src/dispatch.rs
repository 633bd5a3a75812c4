//! How delegated calls reach who executes them, as options of commands.

use clap::{Args, ValueEnum};
use hanare_abi::requestbox::SERVERS_MAX;
use hanare_core::options;

/// Who executes delegated calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Each thread's own worker
    Direct,
    /// Servers, fewer than threads, which look into a request box; what depends on the thread its own worker
    Box,
    /// By the request box while a process has more threads than servers, else each thread's own worker
    Auto,
}

impl Mode {
    /// As options have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Box => "box",
            Self::Auto => "auto",
        }
    }
}

/// What an instance does where a program does not say otherwise, and what servers there are.
#[derive(Args)]
pub struct Dispatch {
    /// Who executes delegated calls [default: direct]
    #[arg(long, value_name = "WAY")]
    dispatch: Option<Mode>,
    /// Servers that a process has at most, with --dispatch box or auto [default: as many as Linux has CPUs, 4 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(SERVERS_MAX)))]
    servers: Option<u32>,
    /// CPUs of Linux' that servers run on, e.g. 0-1 [default: those of the program's proxy]
    #[arg(long, value_name = "LIST", value_parser = server_cpus)]
    server_cpus: Option<String>,
}

impl Dispatch {
    /// As boot options.
    pub fn options(self) -> impl Iterator<Item = String> {
        let mode = self.dispatch.map(|mode| format!("dispatch={}", mode.word()));
        let servers = self.servers.map(|number| format!("servers={number}"));
        let cpus = self.server_cpus.map(|list| format!("server_cpus={list}"));
        [mode, servers, cpus].into_iter().flatten()
    }
}

/// CPUs that the LWK understands.
fn server_cpus(text: &str) -> Result<String, String> {
    let known = options::Options::parse(&format!("server_cpus={text}")).is_ok();
    known
        .then(|| text.into())
        .ok_or_else(|| "expected numbers and ranges below 64 like 0,2-3".into())
}
