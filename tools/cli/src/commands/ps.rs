//! `hanare ps`.

use anyhow::Result;
use clap::Args;
use hanare_sdk::{Device, Instance, Thread};

use hanare_common::instances;
use hanare_common::output::outln;
use hanare_common::processes::{self, Placed, asked, command, cpus, number, state, time};
use hanare_common::size::Bytes;
use hanare_common::table;

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
        let processes = processes::of(&device, &instances)?;
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&processes)?)
        } else if processes.is_empty() {
            outln!("{}", nothing(&instances))
        } else if self.threads {
            let rows: Vec<_> = processes.iter().flat_map(thread_rows).collect();
            table::print(
                &[
                    "PID",
                    "TID",
                    "CPU",
                    "S",
                    "USER",
                    "SYSTEM",
                    "DELEGATED",
                    "CALL",
                    "INSTANCE",
                    "NAME",
                ],
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
            asked(thread.asks),
            instance.clone(),
            thread.name.clone(),
        ]
    };
    process.threads.iter().map(row).collect()
}
