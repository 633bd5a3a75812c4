//! The table of the native figures, and the JSON.

use anyhow::Result;
use serde::Serialize;

use super::cpus::{Machine, Relation};
use super::figures::{FIGURES, GROUP, Wish};
use super::pair::Batches;
use crate::figure::{Figure, Target};
use crate::samples::Summary;
use hanare_common::output::outln;
use hanare_common::{machine, table};

/// Series of the measured figures, with the CPUs and the load under which they were taken.
pub struct Report {
    cpus: (u32, u32),
    relation: Relation,
    quick: bool,
    load_before: f64,
    series: Vec<Series>,
    wanted: Vec<&'static str>,
}

/// Samples of one figure.
struct Series {
    id: &'static str,
    /// The sample of each round.
    rounds: Vec<f64>,
    /// All batches of all rounds.
    all: Vec<f64>,
    failed: Option<String>,
}

/// The report as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    kernel: String,
    processor: String,
    hypervisor: bool,
    cpus: [u32; 2],
    relation: &'static str,
    relation_text: String,
    shared_cache_level: Option<u32>,
    nodes: [Option<u32>; 2],
    load_average: [f64; 2],
    quick: bool,
    figures: &'a [Measured],
    not_measured: Vec<Missing<'a>>,
}

/// A figure with its numbers.
#[derive(Debug, PartialEq, Serialize)]
struct Measured {
    id: &'static str,
    group: &'static str,
    what: &'static str,
    unit: &'static str,
    better: &'static str,
    rounds: usize,
    batches: usize,
    #[serde(flatten)]
    native: Summary,
    /// Median of all batches: what a busy machine gives.
    typical: f64,
    /// The median over that of the ping-pong.
    ratio: f64,
    /// The ratio of the best rounds, which shows what a busy machine hides.
    best_ratio: f64,
    target: Option<String>,
    met: Option<bool>,
}

/// A figure that was not measured.
#[derive(Serialize)]
struct Missing<'a> {
    id: &'static str,
    why: &'a str,
}

impl Report {
    /// A report without figures.
    pub fn new(machine: &Machine, cpus: (u32, u32), wish: &Wish) -> Self {
        let ids = FIGURES.iter().map(|figure| figure.id);
        Self {
            cpus,
            relation: machine.relation(cpus.0, cpus.1),
            quick: wish.quick,
            load_before: machine::load_average(),
            series: ids
                .clone()
                .map(|id| Series { id, rounds: Vec::new(), all: Vec::new(), failed: None })
                .collect(),
            wanted: ids.filter(|id| (wish.wants)(id)).collect(),
        }
    }

    /// Adds what one round gave.
    pub fn add(&mut self, id: &str, batches: &Batches) {
        if let Some(series) = self.series.iter_mut().find(|series| series.id == id) {
            series.rounds.extend(batches.sample());
            series.all.extend(&batches.ns);
        }
    }

    /// A figure that cannot be measured here.
    pub fn fail(&mut self, id: &str, why: &str) {
        if let Some(series) = self.series.iter_mut().find(|series| series.id == id) {
            series.failed = Some(why.into());
        }
    }

    /// Whether the figure was tried in vain.
    pub fn has_failed(&self, id: &str) -> bool {
        self.series.iter().any(|series| series.id == id && series.failed.is_some())
    }

    /// Whether a figure is missing that any Linux gives: all but io_uring.
    pub fn is_incomplete(&self) -> bool {
        self.series.iter().any(|series| series.failed.is_some() && series.id != "native.uring")
    }

    /// Prints the report.
    pub fn print(&self, json: bool) -> Result<()> {
        let measured = measured(&self.series);
        let figures: Vec<Measured> =
            measured.into_iter().filter(|figure| self.wanted.contains(&figure.id)).collect();
        let load = [self.load_before, machine::load_average()];
        if json {
            return self.print_json(&figures, load);
        }
        let (a, b) = self.cpus;
        outln!("CPUs {a} and {b}: {}; {}", self.relation.describe(), machine::processor())?;
        let online = machine::online_cpus().numbers().len();
        // Afterwards we are part of it ourselves.
        let busy = load[0] > online as f64 / 2.0;
        let remark = if busy { ": a busy machine, believe BEST rather than RATIO" } else { "" };
        outln!("load average {:.1} to {:.1} on {online} CPUs{remark}", load[0], load[1])?;
        let header = [
            "FIGURE", "UNIT", "MEDIAN", "(MIN", "MAX)", "TYPICAL", "RATIO", "BEST", "TARGET", "",
            "WHAT",
        ];
        table::print(&header, &figures.iter().map(row).collect::<Vec<_>>())?;
        for Missing { id, why } in self.missing() {
            outln!("{id}: not measured: {why}")?;
        }
        Ok(())
    }

    fn print_json(&self, figures: &[Measured], load_average: [f64; 2]) -> Result<()> {
        let (a, b) = self.cpus;
        let printed = Printed {
            kernel: machine::kernel_release(),
            processor: machine::processor(),
            hypervisor: machine::cpu_flag("hypervisor"),
            cpus: [a, b],
            relation: self.relation.name(),
            relation_text: self.relation.describe(),
            shared_cache_level: match self.relation {
                Relation::Cache(level) => Some(level),
                _ => None,
            },
            nodes: [machine::node_of(a), machine::node_of(b)],
            load_average,
            quick: self.quick,
            figures,
            not_measured: self.missing().collect(),
        };
        outln!("{}", serde_json::to_string_pretty(&printed)?)
    }

    fn missing(&self) -> impl Iterator<Item = Missing<'_>> {
        self.series
            .iter()
            .filter_map(|series| Some(Missing { id: series.id, why: series.failed.as_deref()? }))
    }
}

/// Each figure beside the first, the limit; nothing if that is missing.
fn measured(series: &[Series]) -> Vec<Measured> {
    let Some(limit) = series.first().and_then(|series| Summary::of(&series.rounds)) else {
        return Vec::new();
    };
    let one = |figure: &Figure| -> Option<Measured> {
        let series = series.iter().find(|series| series.id == figure.id)?;
        let native = Summary::of(&series.rounds)?;
        let ratio = native.median / limit.median;
        Some(Measured {
            id: figure.id,
            group: GROUP,
            what: figure.what,
            unit: figure.unit,
            better: figure.better.name(),
            rounds: series.rounds.len(),
            batches: series.all.len(),
            native,
            typical: Summary::of(&series.all)?.median,
            ratio,
            best_ratio: native.min / limit.min,
            target: match figure.target {
                Target::Ratio(value) => Some(format!("<= {value}x")),
                Target::None | Target::Value(_) => None,
            },
            met: figure.is_met(native.median, Some(ratio)).filter(|_| !is_disturbed(ratio)),
        })
    };
    FIGURES.iter().filter_map(one).collect()
}

/// Nothing is faster than the bare line: what seems to be was measured while something else
/// disturbed the limit.
fn is_disturbed(ratio: f64) -> bool {
    ratio < 0.9
}

fn verdict(figure: &Measured) -> &'static str {
    match figure.met {
        _ if is_disturbed(figure.ratio) => "disturbed",
        None => "",
        Some(true) => "met",
        Some(false) => "missed",
    }
}

fn row(figure: &Measured) -> Vec<String> {
    let ns = |value: f64| format!("{value:.0}");
    let times = |ratio: f64| format!("{ratio:.2}x");
    vec![
        figure.id.into(),
        figure.unit.into(),
        ns(figure.native.median),
        ns(figure.native.min),
        ns(figure.native.max),
        ns(figure.typical),
        times(figure.ratio),
        times(figure.best_ratio),
        figure.target.clone().unwrap_or_else(|| "-".into()),
        verdict(figure).into(),
        figure.what.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_the_ping_pong() {
        let series = |id, best: &[f64]| Series {
            id,
            rounds: best.to_vec(),
            all: best.iter().flat_map(|&ns| [ns, ns * 2.0, ns * 3.0]).collect(),
            failed: None,
        };
        let all = [
            series("native.pingpong", &[100.0, 110.0, 130.0]),
            series("native.slot", &[125.0, 132.0, 400.0]),
            series("native.ring", &[150.0, 330.0, 340.0]),
        ];
        let figures = measured(&all);
        assert_eq!(figures.len(), 3);
        assert_eq!((figures[0].ratio, figures[0].met), (1.0, None));
        assert_eq!((figures[1].ratio, figures[1].best_ratio), (1.2, 1.25));
        assert_eq!((figures[1].met, figures[2].met), (Some(true), Some(false)));
        assert_eq!((figures[0].typical, figures[0].batches), (220.0, 9));
        assert_eq!(measured(&all[1..1]), []);
        assert_eq!((verdict(&figures[1]), verdict(&figures[2])), ("met", "missed"));
        let slow = [series("native.pingpong", &[1000.0]), series("native.slot", &[71.0])];
        let figures = measured(&slow);
        assert_eq!((figures[1].met, verdict(&figures[1])), (None, "disturbed"));
    }
}
