//! A program that computes on one CPU of either kernel, and what that CPU took meanwhile.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hanare_sdk::Device;

use super::lab::Lab;
use super::samples::Side;
use hanare_common::interrupts::{self, Source};
use hanare_common::machine;

/// Until the program computes, and before it ends. A busy machine may need more: then the program
/// runs again.
const MARGIN: Duration = Duration::from_millis(300);
/// The longest margin that is tried.
const MARGIN_MOST: Duration = Duration::from_secs(20);

/// Which kernel, which CPU (by Linux' number), for how long.
#[derive(Clone, Copy)]
pub struct Computation {
    /// Kernel on which the program computes.
    pub side: Side,
    /// CPU on which the program computes.
    pub cpu: u32,
    /// How long the CPU's counters are watched; the program computes a little longer.
    pub seconds: u64,
}

/// Interrupts and exceptions that a CPU took during the computation.
pub struct Counts {
    /// Interrupts of all kinds.
    pub interrupts: u64,
    /// Both by kind, without kinds that did not come.
    pub sources: Vec<Source>,
    /// Exceptions; Linux does not count them.
    pub exceptions: Option<u64>,
}

/// Result of a computation: the CPU's counts and the program's samples.
pub struct Computed {
    /// Counted from outside.
    pub counts: Counts,
    /// Samples that the program printed before and after the computation.
    pub samples: Vec<(String, f64)>,
}

impl Computation {
    /// Runs a group of the measured program, which says `until` when it has what it needs.
    pub fn run(&self, lab: &Lab, args: &[&str]) -> Result<Computed> {
        let mut margin = MARGIN;
        while margin <= MARGIN_MOST {
            if let Some(computed) = self.attempt(lab, args, margin)? {
                return Ok(computed);
            }
            margin *= 4;
        }
        bail!("this machine is too busy: the program ended before its CPU's counters were read")
    }

    /// `None`: the program did not compute all the time between the two readings of the counters,
    /// so they may hold its beginning (the answer to its last call before) or its end.
    fn attempt(&self, lab: &Lab, args: &[&str], margin: Duration) -> Result<Option<Computed>> {
        let on = self.cpu.to_string();
        let duration = format!("seconds={:.1}", self.seconds as f64 + 2.0 * margin.as_secs_f64());
        let there = format!("cpu={on}");
        let (options, place) = match self.side {
            Side::Lwk => (vec!["--cpus", on.as_str()], vec![]),
            Side::Linux => (vec![], vec![there.as_str()]),
        };
        let args = [args, &[duration.as_str()], place.as_slice()].concat();
        let mut guest = lab.guest(self.side, &options, &args)?;
        guest.allow(Duration::from_secs(self.seconds * 2) + margin * 2);
        let (mut samples, until_s) = guest.samples_before("until")?;
        sleep(margin);
        let from_s = machine::monotonic_s();
        let before = self.counters(lab)?;
        sleep(Duration::from_secs(self.seconds));
        let counts = self.counters(lab)?.since(&before);
        let is_in_time = machine::monotonic_s() < until_s;
        let (more, since_s) = guest.samples_before("since")?;
        samples.extend(more);
        samples.extend(guest.samples()?);
        Ok((since_s <= from_s && is_in_time).then_some(Computed { counts, samples }))
    }

    fn counters(&self, lab: &Lab) -> Result<Counts> {
        if self.side == Side::Lwk {
            let instance = Device::open()?.instance(lab.name(), false)?;
            let cpu = instance.cpus.iter().find(|found| found.linux_cpu == self.cpu);
            let cpu = cpu.context("the CPU is gone")?;
            return Ok(Counts {
                interrupts: cpu.interrupts,
                sources: cpu.causes.iter().map(Source::from).collect(),
                exceptions: Some(cpu.exceptions),
            });
        }
        let sources = interrupts::of_cpu(self.cpu).context("/proc/interrupts cannot be read")?;
        Ok(Counts { interrupts: interrupts::sum(&sources), sources, exceptions: None })
    }
}

impl Counts {
    fn since(self, before: &Self) -> Self {
        let sources = interrupts::grown(self.sources, &before.sources);
        Self {
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            sources,
            exceptions: self.exceptions.zip(before.exceptions).map(|(now, then)| now - then),
        }
    }
}
