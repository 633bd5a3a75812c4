//! Booting, by phase, and giving everything back.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::figure::{Figure, Group, Needs, Target};
use crate::lab::{Lab, OWN};
use crate::samples::{Samples, Side};
use hanare_common::cpu_list::CpuList;
use hanare_common::machine;

/// The phases of booting an instance; Linux has nothing to compare with.
pub const BOOT: Group = Group {
    name: "boot",
    needs: Needs::Machine,
    figures: &[
        Figure::lower("boot.memory", "ms", "reserve 256 MiB"),
        Figure::lower("boot.cpus", "ms", "take the CPUs from Linux"),
        Figure::lower("boot.load", "ms", "load the image"),
        Figure::lower("boot.first-cpu", "ms", "first CPU: from its start until it serves requests"),
        Figure::lower("boot.other-cpus", "ms", "the other CPUs"),
        Figure::lower(
            "boot.total",
            "ms",
            "'hanare boot', then 'hanare run' to the first user instruction",
        )
        .target(Target::Value(1000.0)),
        Figure::lower("boot.shutdown", "ms", "CPUs and memory back in Linux"),
    ],
    measure,
};

fn measure(lab: &mut Lab, _: &Group) -> Result<Samples> {
    let mut samples = Samples::default();
    let mut add = |id: &str, ms: f64| samples.add(Side::Lwk, id, ms);
    for round in 1..=lab.rounds {
        lab.progress(&format!("boot: round {round} of {}", lab.rounds));
        lab.check_interrupted()?;
        lab.shutdown()?;
        let phases = lab.boot("")?;
        add("boot.memory", phases.memory.as_secs_f64() * 1e3);
        add("boot.cpus", phases.cpus.as_secs_f64() * 1e3);
        add("boot.load", phases.times.load_ns as f64 / 1e6);
        add("boot.first-cpu", phases.times.first_cpu_ns as f64 / 1e6);
        add("boot.other-cpus", phases.times.other_cpus_ns as f64 / 1e6);
        let start = Instant::now();
        lab.shutdown()?;
        add("boot.shutdown", start.elapsed().as_secs_f64() * 1e3);
        add("boot.total", total_ms(lab)?);
    }
    Ok(samples)
}

/// By the commands that a user would give.
fn total_ms(lab: &mut Lab) -> Result<f64> {
    let cpus: CpuList = Lab::own_cpus()?.into_iter().collect();
    let memory = format!("{}M", Lab::own_bytes() >> 20);
    let start = machine::monotonic_s();
    let mut boot = Command::new(std::env::current_exe().context("where is this command?")?);
    boot.args(["boot", OWN, "--cpus", &cpus.to_string(), "--mem", &memory]);
    let status = boot.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        bail!("hanare boot failed: {status}");
    }
    lab.adopt();
    let samples = lab.guest(Side::Lwk, &[], &["first"])?.samples()?;
    let (_, first) = samples.first().context("the measured program printed nothing")?;
    Ok((first - start) * 1e3)
}
