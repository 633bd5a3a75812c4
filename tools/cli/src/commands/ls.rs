//! `hanare ls`.

use anyhow::Result;
use clap::Args;
use hanare_sdk::{Device, Instance};

use hanare_common::cpu_list::CpuList;
use hanare_common::output::outln;
use hanare_common::size::Bytes;
use hanare_common::table;

/// List the LWK instances.
#[derive(Args)]
pub struct Ls {
    /// Machine-readable, as 'hanare status --json'
    #[arg(long)]
    json: bool,
}

impl Ls {
    /// Prints the table.
    pub fn execute(self) -> Result<()> {
        let instances = Device::open()?.instances()?;
        if self.json {
            return outln!("{}", serde_json::to_string_pretty(&instances)?);
        }
        let rows: Vec<Vec<String>> = instances.iter().map(row).collect();
        table::print(&["NAME", "STATE", "CPUS", "MEMORY", "PROGRAMS", "UPTIME"], &rows)
    }
}

/// Linux' numbers of the CPUs of an instance.
pub fn cpus(instance: &Instance) -> CpuList {
    instance.cpus.iter().map(|cpu| cpu.linux_cpu).collect()
}

fn row(instance: &Instance) -> Vec<String> {
    vec![
        instance.name.clone(),
        instance.state.to_string(),
        cpus(instance).to_string(),
        Bytes(instance.memory_bytes).to_string(),
        instance.programs.to_string(),
        table::duration(instance.uptime_ns),
    ]
}
