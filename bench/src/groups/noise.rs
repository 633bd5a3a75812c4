//! Interference with a program that computes: interrupts and exceptions of its CPU.

use anyhow::{Context, Result};
use hanare_sdk::Device;

use crate::computing::{Computation, Counts};
use crate::figure::{Figure, Group, Needs, Target};
use crate::lab::Lab;
use crate::samples::{Samples, Side};
use hanare_common::machine;

/// Counted from outside, while the program makes no call.
pub const NOISE: Group = Group {
    name: "noise",
    needs: Needs::Instance,
    figures: &[
        Figure::lower(
            "noise.interrupts",
            "count",
            "interrupts while a program computes for 10 s (--quick: 1 s)",
        )
        .target(Target::Value(0.0)),
        Figure::lower("noise.exceptions", "count", "exceptions in the same time")
            .target(Target::Value(0.0)),
    ],
    measure,
};

/// Each counts for so long, once: the count is exact, and there is much of it.
const SECONDS: u64 = 10;
const SECONDS_QUICK: u64 = 1;

fn measure(lab: &mut Lab, _: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    let seconds = if lab.quick { SECONDS_QUICK } else { SECONDS };
    let mut samples = Samples::default();

    let device = Device::open()?;
    let instance = device.instance(lab.name(), false)?;
    let cpu = instance.cpus.last().context("an instance without CPUs")?.linux_cpu;
    let taken = counts(lab, &Computation { side: Side::Lwk, cpu, seconds })?;
    samples.add(Side::Lwk, "noise.interrupts", taken.interrupts as f64);
    samples.add(Side::Lwk, "noise.exceptions", taken.exceptions.unwrap_or(0) as f64);

    let cpus = lab.linux_cpus().unwrap_or_else(machine::online_cpus);
    let cpu = *cpus.numbers().last().context("Linux without CPUs")?;
    let taken = counts(lab, &Computation { side: Side::Linux, cpu, seconds })?;
    samples.add(Side::Linux, "noise.interrupts", taken.interrupts as f64);
    Ok(samples)
}

fn counts(lab: &Lab, computation: &Computation) -> Result<Counts> {
    lab.progress(&format!("noise: computing for {} s", computation.seconds));
    Ok(computation.run(lab, &["compute"])?.counts)
}
