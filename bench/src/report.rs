//! A run while it grows, and the table of it.

use anyhow::Result;

use super::environment;
use super::figure::{Better, Figure, Group, Target};
use super::lab::Lab;
use super::run::{Bound, BoundOf, Measured, Missing, Options, Run, SCHEMA, Series};
use super::samples::{Pair, Samples, Summary};
use hanare_common::cpu_list::CpuList;
use hanare_common::output::{self, outln};
use hanare_common::table;

/// Explanations of the words of a run. They stand in its file, so that it can be read without this
/// command.
const WORDS: &[(&str, &str)] = &[
    (
        "sample",
        "One for each round and side, LWK and Linux in turn. Of what is short it is the best of many batches of one \
         run of the measured program (as many as fit into 0.5 s, with --quick into 0.1 s, at least 5), per call.",
    ),
    (
        "median",
        "The middle one of the samples of all rounds; the mean of the two in the middle where their number is even.",
    ),
    (
        "spread",
        "The lowest to the highest sample, without the lowest and the highest tenth, rounded down: of fewer than ten \
         samples, all. In percent: its width over the median.",
    ),
    (
        "ratio",
        "The LWK's median over Linux'. Its spread is that of the ratios of single rounds: what slows down both sides \
         of a round does not show.",
    ),
    ("best ratio", "The LWK's best sample over Linux' best: what a busy host hides."),
    (
        "met",
        "The median, or the ratio, is at least as good as the target; the spread is not looked at.",
    ),
    ("load", "Linux' load average over one, five and fifteen minutes."),
];

/// A run that grows.
pub struct Report {
    run: Run,
}

impl Report {
    /// A report without figures, begun now.
    pub fn new(lab: &Lab, only: &[String]) -> Self {
        let mut machine = environment::machine();
        machine.instance_given = lab.given().is_some();
        Self {
            run: Run {
                schema: SCHEMA,
                build: environment::build(),
                options: Options {
                    rounds: lab.rounds,
                    quick: lab.quick,
                    tasks: Some(lab.tasks),
                    only: only.to_vec(),
                },
                begun: environment::now(),
                ended: String::new(),
                machine,
                load_begun: hanare_common::machine::load(),
                load_ended: None,
                words: WORDS.iter().map(|&(word, what)| (word.into(), what.into())).collect(),
                figures: Vec::new(),
                not_measured: Vec::new(),
                tuned: None,
            },
        }
    }

    /// Adds what a group measured, as far as it is wanted.
    pub fn add(
        &mut self,
        group: &Group,
        samples: &Samples,
        options: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
    ) {
        for figure in group.figures.iter().filter(|figure| wanted(figure.id)) {
            let pair = samples.get(figure.id).filter(|pair| !pair.lwk.is_empty());
            match pair {
                None => self.fail(group, &format!("{}: the program gave no sample", figure.id)),
                Some(pair) if !pair.lwk.iter().chain(&pair.linux).all(|x| x.is_finite()) => {
                    self.fail(group, &format!("{}: a sample is no number", figure.id));
                }
                Some(pair) => self.run.figures.push(measured(group, figure, pair, options)),
            }
        }
    }

    /// A group that cannot be measured here.
    pub fn skip(&mut self, group: &Group, why: &str) {
        self.miss(group, why, false);
    }

    /// A group that should have been measured.
    pub fn fail(&mut self, group: &Group, why: &str) {
        self.miss(group, why, true);
    }

    fn miss(&mut self, group: &Group, why: &str, failed: bool) {
        let missing = Missing { group: group.name.into(), why: why.into(), failed };
        self.run.not_measured.push(missing);
    }

    /// The run, ended now.
    pub fn end(mut self, lab: &Lab) -> Run {
        self.run.ended = environment::now();
        self.run.load_ended = hanare_common::machine::load();
        let machine = &mut self.run.machine;
        if let Some(side) = lab.side() {
            machine.instance = Some(lab.name().into());
            machine.lwk = Some(side.clone());
            machine.linux.cpus = without(&machine.linux.cpus, &side.cpus).to_string();
            machine.linux.cpu_count = without(&machine.linux.cpus, &side.cpus).numbers().len();
        }
        machine.linux.kept_on = lab.linux_cpus().map(|cpus| cpus.to_string());
        machine.linux.tuned = lab.tuned();
        self.run
    }
}

/// The CPUs of a list that another one has not.
fn without(list: &str, other: &str) -> CpuList {
    let numbers = |list: &str| list.parse::<CpuList>().unwrap_or_default();
    let other = numbers(other);
    numbers(list).numbers().iter().copied().filter(|cpu| !other.numbers().contains(cpu)).collect()
}

/// Prints a run.
pub fn print(run: &Run, json: bool) -> Result<()> {
    if json {
        return outln!("{}", serde_json::to_string_pretty(run)?);
    }
    if !run.figures.is_empty() {
        let header = [
            "FIGURE", "UNIT", "LWK", "(MIN", "MAX)", "LINUX", "RATIO", "BEST", "TARGET", "", "WHAT",
        ];
        let columns = header.len() - usize::from(is_narrow());
        let rows: Vec<Vec<String>> =
            run.figures.iter().map(|figure| row(figure)[..columns].to_vec()).collect();
        table::print(&header[..columns], &rows)?;
    }
    for missing in &run.not_measured {
        outln!("{}: not measured: {}", missing.group, missing.why)?;
    }
    Ok(())
}

fn measured(group: &Group, figure: &Figure, pair: &Pair, options: Option<&str>) -> Measured {
    let series =
        |samples: &Vec<f64>| Series { samples: samples.clone(), summary: Summary::of(samples) };
    let (lwk, linux) = (series(&pair.lwk), series(&pair.linux));
    let over = |of: &dyn Fn(&Summary) -> f64| {
        let linux = linux.summary.as_ref().map(of).filter(|&value| value != 0.0)?;
        Some(lwk.summary.as_ref().map(of)? / linux)
    };
    let ratio = over(&|summary| summary.median);
    let best_ratio = over(&|summary| match figure.better {
        Better::Lower => summary.min,
        Better::Higher => summary.max,
    });
    let target = match figure.target {
        Target::None => None,
        Target::Ratio(bound) => Some(Bound { of: BoundOf::Ratio, bound }),
        Target::Value(bound) => Some(Bound { of: BoundOf::Lwk, bound }),
    };
    Measured {
        id: figure.id.into(),
        group: group.name.into(),
        what: figure.what.into(),
        unit: figure.unit.into(),
        better: figure.better,
        target,
        met: lwk.summary.and_then(|summary| figure.is_met(summary.median, ratio)),
        lwk_boot_options: options.map(Into::into),
        ratio,
        ratio_spread: ratio.and_then(|ratio| Some(pair.ratio_spread()?.including(ratio))),
        best_ratio,
        lwk,
        linux,
    }
}

fn row(figure: &Measured) -> Vec<String> {
    let dash = || String::from("-");
    let of = |series: &Series, value: fn(&Summary) -> f64| {
        series.summary.as_ref().map_or_else(dash, |summary| number(value(summary)))
    };
    vec![
        figure.id.clone(),
        figure.unit.clone(),
        of(&figure.lwk, |summary| summary.median),
        of(&figure.lwk, |summary| summary.min),
        of(&figure.lwk, |summary| summary.max),
        of(&figure.linux, |summary| summary.median),
        figure.ratio.map_or_else(dash, times),
        figure.best_ratio.map_or_else(dash, times),
        figure.target_text().unwrap_or_else(dash),
        figure.met.map_or("", |met| if met { "met" } else { "missed" }).into(),
        figure.what.clone(),
    ]
}

/// A ratio: `0.52x`.
pub fn times(ratio: f64) -> String {
    format!("{}x", number(ratio))
}

/// Whether there is no room for a sentence in each row (`--list` has them).
fn is_narrow() -> bool {
    const ROOM: usize = 150;
    output::columns(std::io::stdout()).is_some_and(|columns| columns < ROOM)
}

/// Three digits, not more.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        0.0 => "0".into(),
        _ if magnitude < 1.0 => format!("{value:.3}"),
        _ if magnitude < 10.0 => format!("{value:.2}"),
        _ if magnitude < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Needs, by_guest};

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.0171, 0.5, 1.0, 42.125, 99.94, 118_688.0].map(number);
        assert_eq!(shown, ["0", "0.017", "0.500", "1.00", "42.1", "99.9", "118688"]);
    }

    fn of(figure: Figure, lwk: &[f64], linux: &[f64]) -> Measured {
        let group =
            Group { name: "group", needs: Needs::Instance, figures: &[], measure: by_guest };
        measured(&group, &figure, &Pair { lwk: lwk.into(), linux: linux.into() }, Some(""))
    }

    #[test]
    fn a_figure_has_its_ratio_and_its_verdict() {
        let figure = Figure::lower("a", "ns", "").target(Target::Ratio(2.0));
        let found = of(figure, &[30.0, 10.0, 20.0], &[10.0, 10.0, 10.0]);
        assert_eq!((found.ratio, found.best_ratio, found.met), (Some(2.0), Some(1.0), Some(true)));
        assert_eq!(found.target_text().unwrap(), "<= 2x");
        let best = of(Figure::higher("a", "MiB/s", ""), &[30.0, 10.0], &[10.0, 20.0]).best_ratio;
        assert_eq!(best, Some(1.5));
    }

    #[test]
    fn a_figure_without_linux_has_no_ratio() {
        let found = of(Figure::lower("a", "ns", "").target(Target::Value(5.0)), &[7.0], &[]);
        assert_eq!((found.ratio, found.ratio_spread, found.best_ratio), (None, None, None));
        assert_eq!((found.met, found.linux.summary), (Some(false), None));
        assert_eq!(row(&found)[5], "-");
    }

    #[test]
    fn cpus_of_linux_are_those_that_the_lwk_has_not() {
        assert_eq!(without("0-3", "2-3").to_string(), "0-1");
        assert_eq!(without("0-1", "2-3").to_string(), "0-1");
    }
}
