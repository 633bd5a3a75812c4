//! Samples of the processes of instances, and the differences between two of them.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::Result;
use hanare_sdk::{Device, Instance, Process, State, Thread};
use serde::Serialize;

use hanare_common::instances;
use hanare_common::processes::{self, Placed};

/// A sample, with the differences to the one before.
#[derive(Serialize)]
pub struct Look {
    /// Instances.
    pub instances: Vec<Machine>,
    /// Processes of all instances.
    pub processes: Vec<Busy>,
}

/// An instance.
#[derive(Serialize)]
pub struct Machine {
    /// Name of the instance.
    pub name: String,
    /// State of the instance.
    pub state: State,
    /// Memory reserved for the instance.
    pub memory_bytes: u64,
    /// CPUs of the instance.
    pub cpus: Vec<BusyCpu>,
}

/// A CPU.
#[derive(Serialize)]
pub struct BusyCpu {
    /// Linux' number.
    pub cpu: u32,
    /// Time with a thread to run, percent.
    pub busy_percent: f64,
}

/// A process and how much it did.
#[derive(Serialize)]
pub struct Busy {
    /// The sum over the threads.
    #[serde(flatten)]
    pub rates: Rates,
    /// The difference of each thread, in the order of `process.threads`.
    pub thread_rates: Vec<Rates>,
    /// The instance that the process runs on.
    pub instance: String,
    /// The process.
    pub process: Process,
}

/// Changes between two looks.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Rates {
    /// Time in user mode and in the LWK, in percent of one CPU.
    pub user_percent: f64,
    /// Time of waiting for Linux with the CPU kept, in percent of one CPU.
    pub system_percent: f64,
    /// Calls that Linux served.
    pub delegated_per_second: f64,
}

impl Rates {
    /// Use of CPUs in percent of one CPU.
    pub fn cpu_percent(&self) -> f64 {
        self.user_percent + self.system_percent
    }
}

/// Counters, which only grow.
#[derive(Clone, Copy, Default)]
struct Counters {
    user_ns: u64,
    system_ns: u64,
    delegated_calls: u64,
}

impl Counters {
    fn of(process: &Process) -> Self {
        let Process { user_ns, system_ns, delegated_calls, .. } = *process;
        Self { user_ns, system_ns, delegated_calls }
    }

    fn of_thread(thread: &Thread) -> Self {
        let Thread { user_ns, system_ns, delegated_calls, .. } = *thread;
        Self { user_ns, system_ns, delegated_calls }
    }

    fn since(self, before: Self, seconds: f64) -> Rates {
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Rates {
            user_percent: rate(self.user_ns, before.user_ns) / 1e7,
            system_percent: rate(self.system_ns, before.system_ns) / 1e7,
            delegated_per_second: rate(self.delegated_calls, before.delegated_calls),
        }
    }
}

/// The last look.
#[derive(Default)]
struct Last {
    /// Counters by instance, space and thread (0: the process).
    counters: HashMap<(String, u32, u32), Counters>,
    /// Idle time of each CPU, by Linux' number.
    idle_ns: HashMap<u32, u64>,
}

/// Looks again and again.
pub struct Watch {
    device: Device,
    name: Option<String>,
    last: Last,
    since: Instant,
}

impl Watch {
    /// Watches the instance `name`, or all instances.
    pub fn begin(name: Option<String>) -> Result<Self> {
        let device = Device::open()?;
        // For the sake of the message if there is none.
        instances::select(&device, name.as_deref())?;
        let mut watch = Self { device, name, last: Last::default(), since: Instant::now() };
        watch.look()?;
        Ok(watch)
    }

    /// Looks once.
    pub fn look(&mut self) -> Result<Look> {
        let mut instances = self.device.instances()?;
        if let Some(name) = &self.name {
            instances = instances::select(&self.device, Some(name))?;
        }
        let processes = processes::of(&self.device, &instances)?;
        let seconds = self.since.elapsed().as_secs_f64().max(0.001);
        self.since = Instant::now();
        Ok(self.last.compare(&instances, processes, seconds))
    }
}

impl Last {
    fn compare(&mut self, instances: &[Instance], processes: Vec<Placed>, seconds: f64) -> Look {
        let idle_ns = instances
            .iter()
            .flat_map(|instance| instance.cpus.iter().map(|cpu| (cpu.linux_cpu, cpu.idle_ns)))
            .collect();
        let idle_before = std::mem::replace(&mut self.idle_ns, idle_ns);
        let machine = |instance: &Instance| Machine {
            name: instance.name.clone(),
            state: instance.state,
            memory_bytes: instance.memory_bytes,
            cpus: instance
                .cpus
                .iter()
                .map(|cpu| busy_cpu(cpu.linux_cpu, cpu.idle_ns, &idle_before, seconds))
                .collect(),
        };
        let before = std::mem::take(&mut self.counters);
        let mut rates = |key: (String, u32, u32), now: Counters| {
            // What was not there before has done it all since.
            let rates = now.since(before.get(&key).copied().unwrap_or_default(), seconds);
            self.counters.insert(key, now);
            rates
        };
        let busy = |Placed { instance, process }: Placed| Busy {
            rates: rates((instance.clone(), process.space, 0), Counters::of(&process)),
            thread_rates: process
                .threads
                .iter()
                .map(|thread| {
                    rates(
                        (instance.clone(), process.space, thread.tid),
                        Counters::of_thread(thread),
                    )
                })
                .collect(),
            instance,
            process,
        };
        Look {
            instances: instances.iter().map(machine).collect(),
            processes: processes.into_iter().map(busy).collect(),
        }
    }
}

fn busy_cpu(cpu: u32, idle_ns: u64, before: &HashMap<u32, u64>, seconds: f64) -> BusyCpu {
    let idle =
        idle_ns.saturating_sub(before.get(&cpu).copied().unwrap_or(0)) as f64 / 1e7 / seconds;
    BusyCpu { cpu, busy_percent: (100.0 - idle).clamp(0.0, 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_and_of_one_cpu() {
        let before = Counters { user_ns: 1_000_000_000, system_ns: 0, delegated_calls: 10 };
        let now = Counters { user_ns: 2_000_000_000, system_ns: 500_000_000, delegated_calls: 30 };
        let rates = now.since(before, 2.0);
        assert_eq!(
            (rates.user_percent, rates.system_percent, rates.delegated_per_second),
            (50.0, 25.0, 10.0)
        );
        assert_eq!(rates.cpu_percent(), 75.0);
    }

    #[test]
    fn a_cpu_is_busy_when_it_is_not_idle() {
        let before = HashMap::from([(2, 1_000_000_000)]);
        assert_eq!(busy_cpu(2, 1_500_000_000, &before, 1.0).busy_percent, 50.0);
        assert_eq!(busy_cpu(2, 9_000_000_000, &before, 1.0).busy_percent, 0.0);
    }
}
