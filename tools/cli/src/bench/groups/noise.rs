//! What disturbs a program that computes.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use hanare_sdk::{Cpu, Device};

use crate::bench::figure::{Figure, Group, Needs, Target};
use crate::bench::lab::Lab;
use crate::bench::samples::{Samples, Side};
use crate::machine;

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
/// Until the program computes, and before it ends.
const MARGIN: Duration = Duration::from_millis(300);

fn measure(lab: &mut Lab, _: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    let seconds = if lab.quick { SECONDS_QUICK } else { SECONDS };
    let mut samples = Samples::default();

    let device = Device::open()?;
    let instance = device.instance(lab.name(), false)?;
    let cpu = instance.cpus.last().context("an instance without CPUs")?.linux_cpu;
    let lwk_counters = || -> Result<Vec<u64>> {
        let instance = device.instance(lab.name(), false)?;
        let cpu: &Cpu =
            instance.cpus.iter().find(|found| found.linux_cpu == cpu).context("the CPU is gone")?;
        Ok(vec![cpu.interrupts, cpu.exceptions])
    };
    let counts = while_computing(lab, Side::Lwk, cpu, seconds, &lwk_counters)?;
    samples.add(Side::Lwk, "noise.interrupts", counts[0]);
    samples.add(Side::Lwk, "noise.exceptions", counts[1]);

    let cpu = *machine::online_cpus().numbers().last().context("Linux without CPUs")?;
    let linux_counters = || Ok(vec![interrupts(cpu).context("/proc/interrupts cannot be read")?]);
    let counts = while_computing(lab, Side::Linux, cpu, seconds, &linux_counters)?;
    samples.add(Side::Linux, "noise.interrupts", counts[0]);
    Ok(samples)
}

/// How much the counters grow in `seconds` of a program that computes on `cpu`.
fn while_computing(
    lab: &Lab,
    side: Side,
    cpu: u32,
    seconds: u64,
    counters: &dyn Fn() -> Result<Vec<u64>>,
) -> Result<Vec<f64>> {
    lab.progress(&format!("noise: computing for {seconds} s"));
    let on = cpu.to_string();
    let duration = format!("seconds={:.1}", seconds as f64 + 2.0 * MARGIN.as_secs_f64());
    let mut guest = match side {
        Side::Lwk => lab.guest(side, &["--cpus", &on], &["compute", &duration])?,
        Side::Linux => lab.guest(side, &[], &["compute", &duration, &format!("cpu={cpu}")])?,
    };
    guest.next()?.context("the measured program did not begin")?;
    sleep(MARGIN);
    let before = counters()?;
    sleep(Duration::from_secs(seconds));
    let after = counters()?;
    guest.samples()?;
    Ok(after.iter().zip(before).map(|(after, before)| (after - before) as f64).collect())
}

/// Interrupts of all kinds that a CPU of Linux took.
fn interrupts(cpu: u32) -> Option<u64> {
    sum_column(&machine::read("/proc/interrupts")?, &format!("CPU{cpu}"))
}

fn sum_column(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines();
    let column = lines.next()?.split_whitespace().position(|header| header == name)?;
    let cells =
        lines.filter_map(|line| line.split_whitespace().nth(column + 1)?.parse::<u64>().ok());
    Some(cells.sum())
}

#[cfg(test)]
mod tests {
    use super::sum_column;

    #[test]
    fn interrupts_of_a_cpu_are_its_columns_sum() {
        let table = "       CPU0   CPU2\n  0:  5  7  IO-APIC 2-edge timer\nLOC:  10  20  Local timer\nERR:  0\n";
        assert_eq!(sum_column(table, "CPU0"), Some(15));
        assert_eq!(sum_column(table, "CPU2"), Some(27));
        assert_eq!(sum_column(table, "CPU1"), None);
    }
}
