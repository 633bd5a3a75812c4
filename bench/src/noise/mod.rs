//! `hanare noise`: what disturbs a program that computes, by quanta of always the same work.
//!
//! `sides` says which CPUs, `crate::computing` runs the measured program there, `statistics` says
//! what came of it, `plot` draws it.

mod measured;
mod plot;
mod sides;
mod statistics;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use hanare_sdk::Device;
use serde::Serialize;

use crate::computing::{Computation, Counts};
use crate::lab::Lab;
use hanare_common::cpu_list::CpuList;
use hanare_common::interrupts::Source;
use hanare_common::output::outln;
use hanare_common::{failure, instances, machine, table};
use measured::Measured;
use sides::{Linux, Place};
use statistics::Statistics;

/// Measure what disturbs a program that computes: on CPUs of Linux, plain and tuned, and of an LWK.
#[derive(Args)]
#[command(after_help = "\
The same work is done again and again on one CPU (fixed work quantum), and each time it takes as long as \
the work itself and what disturbed it: interrupts, other programs, a hypervisor. LOST is what all quanta together \
took beyond the shortest one. Interrupts are counted from outside in the same time. CPUs are measured one after the \
other: a plain one of Linux, a tuned one where Linux was booted with isolcpus or nohz_full, and one of the LWK where an \
instance is booted.

Examples:
  hanare noise
  hanare noise --seconds 60 --plot noise.svg
  hanare noise --cpus 1,3 --quantum 1000 --on blue --json > noise.json")]
pub struct Noise {
    /// Machine-readable output
    #[arg(long)]
    json: bool,
    /// Draw the lengths over time and their distribution
    #[arg(long, value_name = "FILE.svg", value_parser = svg_file, value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
    /// How long each CPU is measured, s
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How long a quantum of work takes where nothing disturbs it, µs
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    quantum: u64,
    /// CPUs of Linux [default: the last plain one, the last tuned one]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Instance, the last of whose CPUs is measured [default: the only one, or the one called
    /// 'default', if there is one]
    #[arg(long, value_name = "NAME", value_parser = instances::name)]
    on: Option<String>,
}

/// Most quanta of a CPU: each is kept until the end.
const QUANTA_MAX: u64 = 2_000_000;

/// The report as JSON.
#[derive(Serialize)]
struct Report {
    kernel: String,
    processor: String,
    hypervisor: bool,
    load_average: [f64; 2],
    seconds: u64,
    quantum_us: u64,
    /// Iterations of the work, the same on all sides.
    loops: u64,
    sides: Vec<Measured>,
    not_measured: Vec<Missing>,
}

/// A side that was not measured.
#[derive(Serialize)]
struct Missing {
    side: &'static str,
    why: String,
}

/// The file of a plot: nothing else than SVG is written.
fn svg_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.extension().is_some_and(|ending| ending == "svg") {
        Ok(path)
    } else {
        Err(format!("'{text}' does not end in .svg"))
    }
}

impl Noise {
    /// Measures and prints.
    pub fn execute(self) -> Result<i32> {
        if self.seconds * 1_000_000 / self.quantum > QUANTA_MAX {
            return Err(failure::wrong_usage(format!(
                "that is more than {QUANTA_MAX} quanta: ask for longer ones, or for less time"
            )));
        }
        let lab = Lab::beside(self.on.as_deref())?;
        let mut places = Linux::look().choose(self.cpus.as_ref())?;
        let mut report = self.report();
        match lab.given() {
            Some(name) => places.push(place_on(name)?),
            None => report.miss("lwk", "no instance is booted"),
        }
        if !places.iter().any(|place| place.isolated || place.nohz_full) {
            report.miss(
                "linux-tuned",
                "Linux was booted without isolcpus and nohz_full, or --cpus leaves those CPUs out",
            );
        }
        for place in places {
            lab.progress(&format!("{}: computing for {} s", place.describe(), self.seconds));
            let measured = self.measure(&lab, place, &mut report.loops);
            lab.check_interrupted()?;
            report.sides.push(measured?);
        }
        lab.progress("");
        report.load_average[1] = machine::load_average();
        if let Some(file) = &self.plot {
            plot::draw(file, &report.title(), &report.sides)
                .with_context(|| format!("cannot draw {}", file.display()))?;
        }
        report.print(self.json)?;
        Ok(0)
    }

    fn report(&self) -> Report {
        Report {
            kernel: machine::kernel_release(),
            processor: machine::processor(),
            hypervisor: machine::cpu_flag("hypervisor"),
            load_average: [machine::load_average(); 2],
            seconds: self.seconds,
            quantum_us: self.quantum,
            loops: 0,
            sides: Vec::new(),
            not_measured: Vec::new(),
        }
    }

    /// The first side finds out how much work a quantum is; the others do the same.
    fn measure(&self, lab: &Lab, place: Place, loops: &mut u64) -> Result<Measured> {
        let quantum = format!("quantum={}", self.quantum);
        let work = format!("loops={loops}");
        let computation = Computation { side: place.side(), cpu: place.cpu, seconds: self.seconds };
        let computed = computation.run(lab, &["quanta", &quantum, &work])?;
        let called = |id: &'static str| {
            computed.samples.iter().filter(move |sample| sample.0 == id).map(|sample| sample.1)
        };
        *loops = called("loops").next().context("the measured program named no work")? as u64;
        let lengths_us: Vec<f64> = called("q").map(|ns| ns / 1e3).collect();
        let Counts { interrupts, sources, exceptions } = computed.counts;
        Ok(Measured {
            statistics: Statistics::of(&lengths_us).context("the measured program did nothing")?,
            place,
            interrupts,
            sources,
            exceptions,
            lengths_us,
        })
    }
}

fn place_on(instance: &str) -> Result<Place> {
    let cpus = Device::open()?.instance(instance, false)?.cpus;
    let cpu = cpus.last().context("an instance without CPUs")?.linux_cpu;
    Ok(Place::lwk(instance, cpu))
}

impl Report {
    fn miss(&mut self, side: &'static str, why: &str) {
        self.not_measured.push(Missing { side, why: why.into() });
    }

    /// Title and subtitle of the plot.
    fn title(&self) -> [String; 2] {
        let emulated = if self.hypervisor { ", in a virtual machine" } else { "" };
        [
            format!(
                "Noise: a fixed work quantum of {} µs, repeated for {} s",
                self.quantum_us, self.seconds
            ),
            format!(
                "{}{emulated}; Linux {}; load average {:.1}",
                self.processor, self.kernel, self.load_average[0]
            ),
        ]
    }

    fn print(&self, json: bool) -> Result<()> {
        if json {
            return outln!("{}", serde_json::to_string_pretty(self)?);
        }
        let [before, after] = self.load_average;
        let online = machine::online_cpus().numbers().len();
        outln!(
            "{} quanta of {} µs each; load average {before:.1} to {after:.1} on {online} CPUs of Linux",
            self.sides.first().map_or(0, |side| side.statistics.quanta),
            self.quantum_us
        )?;
        let header = [
            "SIDE",
            "QUANTA",
            "MIN us",
            "MEDIAN",
            "99.9%",
            "MAX",
            "LOST ppm",
            "INTERRUPTS",
            "OF WHICH",
        ];
        table::print(&header, &self.sides.iter().map(row).collect::<Vec<_>>())?;
        for Missing { side, why } in &self.not_measured {
            outln!("{side}: not measured: {why}")?;
        }
        Ok(())
    }
}

/// Kinds of interrupts that a row names.
const NAMED: usize = 3;

fn row(measured: &Measured) -> Vec<String> {
    let Statistics { quanta, min_us, median_us, p999_us, max_us, lost_ppm } = measured.statistics;
    let named = |source: &Source| format!("{} {}", source.name, source.count);
    let mut of_which: Vec<String> = measured.sources.iter().take(NAMED).map(named).collect();
    of_which.extend(measured.exceptions.map(|count| format!("exceptions {count}")));
    let mut cells = vec![measured.place.describe(), quanta.to_string()];
    cells.extend([min_us, median_us, p999_us, max_us].map(|us| format!("{us:.1}")));
    cells.extend([format!("{lost_ppm:.0}"), measured.interrupts.to_string()]);
    cells.push(if of_which.is_empty() { "-".into() } else { of_which.join(", ") });
    cells
}
