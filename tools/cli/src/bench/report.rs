//! The table, and the JSON.

use anyhow::Result;
use serde::Serialize;

use super::figure::{Better, Figure, Group, Target};
use super::lab::Lab;
use super::samples::{Pair, Samples, Summary};
use crate::output::{self, outln};
use crate::{machine, table};

/// What was measured, where.
#[derive(Serialize)]
pub struct Report {
    kernel: String,
    processor: String,
    hypervisor: bool,
    linux_cpus: String,
    instance: Option<String>,
    quick: bool,
    figures: Vec<Measured>,
    not_measured: Vec<Missing>,
}

/// A figure with its numbers.
#[derive(Serialize)]
struct Measured {
    id: &'static str,
    group: &'static str,
    what: &'static str,
    unit: &'static str,
    better: &'static str,
    rounds: usize,
    #[serde(flatten)]
    lwk: Summary,
    native_min: Option<f64>,
    native_median: Option<f64>,
    native_max: Option<f64>,
    /// The LWK's median over Linux'.
    ratio: Option<f64>,
    /// The same of the best rounds, which shows what a busy host hides.
    best_ratio: Option<f64>,
    target: Option<String>,
    met: Option<bool>,
}

/// A group that was not measured.
#[derive(Serialize)]
struct Missing {
    group: &'static str,
    why: String,
    failed: bool,
}

impl Report {
    /// An empty one.
    pub fn new(lab: &Lab) -> Self {
        Self {
            kernel: machine::kernel_release(),
            processor: processor(),
            hypervisor: machine::cpu_flag("hypervisor"),
            linux_cpus: machine::online_cpus().to_string(),
            instance: lab.given().map(Into::into),
            quick: lab.quick,
            figures: Vec::new(),
            not_measured: Vec::new(),
        }
    }

    /// Adds what a group measured, as far as it is wanted.
    pub fn add(&mut self, group: &Group, samples: &Samples, wanted: &dyn Fn(&str) -> bool) {
        for figure in group.figures.iter().filter(|figure| wanted(figure.id)) {
            let measured = samples.get(figure.id).and_then(|pair| measured(group, figure, pair));
            match measured {
                Some(measured) => self.figures.push(measured),
                None => self.fail(group, &format!("{}: the program gave no sample", figure.id)),
            }
        }
    }

    /// A group that cannot be measured here.
    pub fn skip(&mut self, group: &Group, why: &str) {
        self.not_measured.push(Missing { group: group.name, why: why.into(), failed: false });
    }

    /// A group that should have been measured.
    pub fn fail(&mut self, group: &Group, why: &str) {
        self.not_measured.push(Missing { group: group.name, why: why.into(), failed: true });
    }

    /// Whether something failed.
    pub fn failed(&self) -> bool {
        self.not_measured.iter().any(|missing| missing.failed)
    }

    /// Prints it.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            return outln!("{}", serde_json::to_string_pretty(self)?);
        }
        if !self.figures.is_empty() {
            let header = [
                "FIGURE", "UNIT", "LWK", "(MIN", "MAX)", "LINUX", "RATIO", "BEST", "TARGET", "",
                "WHAT",
            ];
            let columns = header.len() - usize::from(is_narrow());
            let rows: Vec<Vec<String>> =
                self.figures.iter().map(|figure| row(figure)[..columns].to_vec()).collect();
            table::print(&header[..columns], &rows)?;
        }
        for missing in &self.not_measured {
            outln!("{}: not measured: {}", missing.group, missing.why)?;
        }
        Ok(())
    }
}

fn measured(group: &Group, figure: &Figure, pair: &Pair) -> Option<Measured> {
    let lwk = Summary::of(&pair.lwk)?;
    let native = Summary::of(&pair.linux);
    let ratio =
        native.filter(|native| native.median != 0.0).map(|native| lwk.median / native.median);
    let (bound, best): (_, fn(&Summary) -> f64) = match figure.better {
        Better::Lower => ("<=", |summary| summary.min),
        Better::Higher => (">=", |summary| summary.max),
    };
    let best_ratio =
        native.filter(|native| best(native) != 0.0).map(|native| best(&lwk) / best(&native));
    Some(Measured {
        id: figure.id,
        group: group.name,
        what: figure.what,
        unit: figure.unit,
        better: figure.better.name(),
        rounds: pair.lwk.len(),
        lwk,
        native_min: native.map(|native| native.min),
        native_median: native.map(|native| native.median),
        native_max: native.map(|native| native.max),
        ratio,
        best_ratio,
        target: match figure.target {
            Target::None => None,
            Target::Ratio(value) => Some(format!("{bound} {value}x")),
            Target::Value(value) => Some(format!("{bound} {value} {}", figure.unit)),
        },
        met: figure.is_met(lwk.median, ratio),
    })
}

fn row(figure: &Measured) -> Vec<String> {
    let dash = || String::from("-");
    vec![
        figure.id.into(),
        figure.unit.into(),
        number(figure.lwk.median),
        number(figure.lwk.min),
        number(figure.lwk.max),
        figure.native_median.map_or_else(dash, number),
        figure.ratio.map_or_else(dash, times),
        figure.best_ratio.map_or_else(dash, times),
        figure.target.clone().unwrap_or_else(dash),
        figure.met.map_or("", |met| if met { "met" } else { "missed" }).into(),
        figure.what.into(),
    ]
}

fn times(ratio: f64) -> String {
    format!("{}x", number(ratio))
}

/// Whether there is no room for a sentence in each row (`--list` has them).
fn is_narrow() -> bool {
    const ROOM: usize = 150;
    output::columns(std::io::stdout()).is_some_and(|columns| columns < ROOM)
}

/// Three digits, not more.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        0.0 => "0".into(),
        _ if magnitude < 1.0 => format!("{value:.3}"),
        _ if magnitude < 10.0 => format!("{value:.2}"),
        _ if magnitude < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn processor() -> String {
    let text = machine::read("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(String::new, |(_, name)| name.trim().into())
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.0171, 0.5, 1.0, 42.125, 99.94, 118_688.0].map(number);
        assert_eq!(shown, ["0", "0.017", "0.500", "1.00", "42.1", "99.9", "118688"]);
    }
}
