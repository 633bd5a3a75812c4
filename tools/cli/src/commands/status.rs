//! `hanare status`.

use anyhow::Result;
use clap::Args;
use hanare_sdk::{Cpu, Device, Instance};

use crate::commands::ls;
use crate::size::Bytes;
use crate::{instances, table};

/// Show the state of an instance in detail.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare status
  hanare status blue --ping
  hanare status --json | jq '.cpus[].interrupts'")]
pub struct Status {
    /// Instance [default: the only one, or the one called 'default']
    name: Option<String>,
    /// Machine-readable
    #[arg(long)]
    json: bool,
    /// Ask every CPU for an answer first (up to 1 s each)
    #[arg(long)]
    ping: bool,
}

impl Status {
    /// Prints it.
    pub fn execute(self) -> Result<()> {
        let device = Device::open()?;
        let name = instances::resolve(&device, self.name.as_deref())?;
        let instance = device.instance(&name, self.ping)?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&instance)?);
        } else {
            print(&instance);
        }
        Ok(())
    }
}

fn print(instance: &Instance) {
    println!("name      {}", instance.name);
    println!("state     {}{}", instance.state, hint(instance));
    println!("uptime    {}", table::duration(instance.uptime_ns));
    println!("cpus      {}", ls::cpus(instance));
    let plural = if instance.memory_chunks == 1 { "" } else { "s" };
    let pieces = format!("{} piece{plural}", instance.memory_chunks);
    println!(
        "memory    {} in {pieces}{}",
        Bytes(instance.memory_bytes),
        nodes(instance)
    );
    println!("programs  {}", instance.programs);
    println!("log       {} written", Bytes(instance.log_bytes));
    if let Some(ns) = instance.ping_ns {
        println!("ping      {} µs", ns.div_ceil(1000));
    }
    println!();
    let header = [
        "CPU",
        "NODE",
        "STATE",
        "SPACE",
        "INTERRUPTS",
        "EXCEPTIONS",
        "PAGE-FAULTS",
        "LOCAL",
        "DELEGATED",
    ];
    table::print(&header, &instance.cpus.iter().map(row).collect::<Vec<_>>());
}

/// What to do in a bad state.
fn hint(instance: &Instance) -> String {
    use hanare_sdk::State::{Hung, Panicked};
    match instance.state {
        Panicked | Hung => format!(
            " (next: hanare log {0}; hanare shutdown {0} --force)",
            instance.name
        ),
        _ => String::new(),
    }
}

/// Memory per node, where there is more than one.
fn nodes(instance: &Instance) -> String {
    if instance.node_bytes.len() < 2 {
        return String::new();
    }
    let each = instance.node_bytes.iter().enumerate();
    let each = each.map(|(node, &bytes)| format!("node {node}: {}", Bytes(bytes)));
    format!(" ({})", each.collect::<Vec<_>>().join(", "))
}

fn row(cpu: &Cpu) -> Vec<String> {
    let space = if cpu.space == 0 {
        "-".into()
    } else {
        cpu.space.to_string()
    };
    let mut row = vec![
        cpu.linux_cpu.to_string(),
        cpu.node.to_string(),
        cpu.state.to_string(),
        space,
    ];
    let counters = [
        cpu.interrupts,
        cpu.exceptions,
        cpu.page_faults,
        cpu.local_calls,
        cpu.delegated_calls,
    ];
    row.extend(counters.iter().map(u64::to_string));
    row
}
