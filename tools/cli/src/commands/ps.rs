//! `hanare ps`.

use anyhow::Result;
use clap::Args;
use hanare_sdk::{Device, Error, Instance, Process, Thread};
use serde::Serialize;

use crate::instances;
use crate::output::outln;
use crate::size::Bytes;
use crate::table;

/// List the processes that run on LWKs.
#[derive(Args)]
pub struct Ps {
    /// Instance [default: all]
    #[arg(value_parser = instances::name)]
    name: Option<String>,
    /// A line for each thread
    #[arg(short = 'T', long)]
    threads: bool,
    /// Machine-readable, with threads
    #[arg(long)]
    json: bool,
}

/// A process and where it runs.
#[derive(Serialize)]
pub struct Placed {
    /// Instance.
    pub instance: String,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
}

/// The processes of all these instances. One that is shut down meanwhile has none.
pub fn processes(device: &Device, instances: &[Instance]) -> Result<Vec<Placed>> {
    let mut all = Vec::new();
    for Instance { name, .. } in instances {
        match device.processes(name) {
            Err(Error::NoInstance(_)) if instances.len() > 1 => {}
            found => all.extend(
                found?.into_iter().map(|process| Placed { instance: name.clone(), process }),
            ),
        }
    }
    Ok(all)
}

/// Where no program runs, and how to start one.
pub fn nothing(instances: &[Instance]) -> String {
    let names: Vec<String> =
        instances.iter().map(|instance| format!("'{}'", instance.name)).collect();
    format!("no program runs on {} (start one: hanare run PROGRAM)", names.join(" or "))
}

impl Ps {
    /// Prints the table.
    pub fn execute(self) -> Result<()> {
        let device = Device::open()?;
        let instances = instances::select(&device, self.name.as_deref())?;
        let processes = processes(&device, &instances)?;
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&processes)?)
        } else if processes.is_empty() {
            outln!("{}", nothing(&instances))
        } else if self.threads {
            let rows: Vec<_> = processes.iter().flat_map(thread_rows).collect();
            table::print(
                &["PID", "TID", "CPU", "S", "USER", "SYSTEM", "DELEGATED", "INSTANCE", "NAME"],
                &rows,
            )
        } else {
            let rows: Vec<_> = processes.iter().map(row).collect();
            let header = [
                "PID",
                "THREADS",
                "CPU",
                "S",
                "USER",
                "SYSTEM",
                "MEMORY",
                "DELEGATED",
                "INSTANCE",
                "COMMAND",
            ];
            table::print(&header, &rows)
        }
    }
}

/// A number that may not be known.
pub fn number(number: Option<u32>) -> String {
    number.map_or("?".into(), |number| number.to_string())
}

/// `R`: runs or could; `S`: waits.
pub fn state(running: bool) -> &'static str {
    if running { "R" } else { "S" }
}

/// A running time: `1.25 s`, `3:05 min`.
pub fn time(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    if s < 60 {
        format!("{s}.{:02} s", ns / 10_000_000 % 100)
    } else {
        format!("{}:{:02} min", s / 60, s % 60)
    }
}

/// The CPUs of its threads, each once.
pub fn cpus(process: &Process) -> String {
    let mut cpus: Vec<u32> = process.threads.iter().filter_map(|thread| thread.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    if cpus.is_empty() { "?".into() } else { cpus.join(",") }
}

/// The command line, or the name where Linux shows none.
pub fn command(process: &Process) -> String {
    if process.command.is_empty() { format!("[{}]", process.name) } else { process.command.clone() }
}

fn row(Placed { instance, process }: &Placed) -> Vec<String> {
    vec![
        number(process.pid),
        process.threads.len().to_string(),
        cpus(process),
        state(process.running()).into(),
        time(process.user_ns),
        time(process.system_ns),
        Bytes(process.resident_bytes).to_string(),
        process.delegated_calls.to_string(),
        instance.clone(),
        command(process),
    ]
}

fn thread_rows(Placed { instance, process }: &Placed) -> Vec<Vec<String>> {
    let row = |thread: &Thread| {
        vec![
            number(process.pid),
            thread.tid.to_string(),
            number(thread.cpu),
            state(thread.running).into(),
            time(thread.user_ns),
            time(thread.system_ns),
            thread.delegated_calls.to_string(),
            instance.clone(),
            thread.name.clone(),
        ]
    };
    process.threads.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times() {
        assert_eq!(time(0), "0.00 s");
        assert_eq!(time(1_259_999_999), "1.25 s");
        assert_eq!(time(185_000_000_000), "3:05 min");
    }
}
