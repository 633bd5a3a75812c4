//! `hanare shutdown`.

use anyhow::Result;
use clap::Args;
use hanare_sdk::Device;

use hanare_common::instances;

/// Stop an instance and give its CPUs and memory back to Linux.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare shutdown
  hanare shutdown blue --force      kill the programs running there, too
  hanare shutdown --all")]
pub struct Shutdown {
    /// Instance [default: the only one, or the one called 'default']
    #[arg(value_parser = instances::name)]
    name: Option<String>,
    /// Kill the programs that run there
    #[arg(long)]
    force: bool,
    /// Every instance
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Seconds each CPU may take to stop by itself before it is stopped
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    timeout: u32,
}

impl Shutdown {
    /// Stops it, or all of them (the first failure is reported after the last).
    pub fn execute(self) -> Result<()> {
        let device = Device::open()?;
        let names = if self.all {
            device.instances()?.into_iter().map(|instance| instance.name).collect()
        } else {
            vec![instances::resolve(&device, self.name.as_deref())?]
        };
        let stop = |name: &String| device.shutdown(name, self.force, self.timeout * 1000);
        let results: Vec<_> = names.iter().map(stop).collect();
        for result in results {
            result?;
        }
        Ok(())
    }
}
