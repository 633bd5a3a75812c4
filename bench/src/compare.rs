//! Two runs, figure by figure: what changed by more than both spreads.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;

use super::report::number;
use super::run::{Better, BoundOf, Measured, Run, SCHEMA, Side};
use super::samples::Range;
use hanare_common::output::outln;
use hanare_common::table;

/// Fewest samples on each side that say how wide a spread is. A count is exact with one.
const SAMPLES_MIN: usize = 3;
/// Unit of what is counted, not timed.
const COUNT: &str = "count";

/// Result of comparing two runs, as it is printed and as JSON.
#[derive(Debug, Serialize)]
pub struct Comparison {
    schema: u32,
    /// Explanations of the words that the comparison uses.
    meaning: &'static str,
    old: Source,
    new: Source,
    /// Differences between the machines.
    differences: Vec<String>,
    figures: Vec<Compared>,
    only_in_old: Vec<String>,
    only_in_new: Vec<String>,
    better: usize,
    worse: usize,
}

const MEANING: &str = "Compared is the ratio of the LWK to Linux, or the LWK's median where the target is about that \
    or Linux has no such figure. 'better' and 'worse': the spreads of both runs do not touch; 'same': they do; \
    'unknown': fewer than three samples, or no such number; 'failed': measured in the old run only, and an error in \
    the new.";

/// Origin of a run.
#[derive(Debug, Serialize)]
struct Source {
    commit: Option<String>,
    begun: String,
    rounds: u32,
    load: Option<[f64; 3]>,
}

/// A figure of both runs.
#[derive(Debug, Serialize)]
struct Compared {
    id: String,
    unit: String,
    by: BoundOf,
    old: Option<Value>,
    new: Option<Value>,
    /// By how much of the old value it grew; negative: it shrank.
    change: Option<f64>,
    verdict: Verdict,
}

/// A number and its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Value {
    value: f64,
    low: f64,
    high: f64,
}

/// Judgement of a figure's change from the old run to the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Better,
    Worse,
    Same,
    Unknown,
    Failed,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }

    const fn is_worse(self) -> bool {
        matches!(self, Self::Worse | Self::Failed)
    }
}

impl Comparison {
    /// Compares all figures.
    pub fn of(old: &Run, new: &Run) -> Self {
        let news: BTreeMap<&str, &Measured> =
            new.figures.iter().map(|figure| (figure.id.as_str(), figure)).collect();
        let has_failed = |group: &str| {
            new.not_measured.iter().any(|missing| missing.failed && missing.group == group)
        };
        let mut figures = Vec::new();
        let mut only_in_old = Vec::new();
        for figure in &old.figures {
            match news.get(figure.id.as_str()) {
                Some(other) => figures.push(compared(figure, other)),
                None if has_failed(&figure.group) => figures.push(failed(figure)),
                None => only_in_old.push(figure.id.clone()),
            }
        }
        let is_old = |id: &str| old.figures.iter().any(|figure| figure.id == id);
        let ids = new.figures.iter().map(|figure| figure.id.clone());
        Self {
            schema: SCHEMA,
            meaning: MEANING,
            old: source(old),
            new: source(new),
            differences: differences(old, new),
            only_in_old,
            only_in_new: ids.filter(|id| !is_old(id)).collect(),
            better: figures.iter().filter(|found| found.verdict == Verdict::Better).count(),
            worse: figures.iter().filter(|found| found.verdict.is_worse()).count(),
            figures,
        }
    }

    /// In what the machines differ, so that their figures say nothing about each other.
    pub fn differences(&self) -> &[String] {
        &self.differences
    }

    /// Whether both runs have a figure, or the new one failed to have it.
    pub fn has_figures(&self) -> bool {
        !self.figures.is_empty()
    }

    /// Whether a figure got worse.
    pub fn is_worse(&self) -> bool {
        self.worse > 0
    }

    /// Prints the comparison.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            return outln!("{}", serde_json::to_string_pretty(self)?);
        }
        for (name, source) in [("old", &self.old), ("new", &self.new)] {
            outln!("{name}: {}", source.text())?;
        }
        for difference in &self.differences {
            outln!("differs: {difference}")?;
        }
        if !self.figures.is_empty() {
            let header = ["FIGURE", "UNIT", "OLD", "(SPREAD)", "NEW", "(SPREAD)", "CHANGE", ""];
            table::print(&header, &self.figures.iter().map(row).collect::<Vec<_>>())?;
        }
        for (name, ids) in [("old", &self.only_in_old), ("new", &self.only_in_new)] {
            if !ids.is_empty() {
                outln!("only in the {name} run: {}", ids.join(", "))?;
            }
        }
        let same = self.figures.len() - self.better - self.worse;
        outln!("{} better, {} worse, {same} neither", self.better, self.worse)
    }
}

impl Source {
    fn text(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("a commit not known");
        let load = self.load.map_or_else(String::new, |[one, ..]| format!(", load {one}"));
        format!("{commit}, {}, rounds: {}{load}", self.begun, self.rounds)
    }
}

fn source(run: &Run) -> Source {
    Source {
        commit: run.build.commit.clone(),
        begun: run.begun.clone(),
        rounds: run.options.rounds,
        load: run.load_begun,
    }
}

/// Differences of machines, kernels and options that make figures incomparable, in words. A
/// property that either run does not know is not compared.
fn differences(old: &Run, new: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, old: &str, new: &str| {
        if old != new {
            found.push(format!("{what}: '{old}' and '{new}'"));
        }
    };
    let (a, b) = (&old.machine, &new.machine);
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
    let length = |run: &Run| String::from(if run.options.quick { "--quick" } else { "full" });
    differ("batches", &length(old), &length(new));
    differ("processor", &a.processor, &b.processor);
    differ("machine", &text(&a.model), &text(&b.model));
    differ("hypervisor", &text(&a.hypervisor), &text(&b.hypervisor));
    differ("kernel", &a.kernel, &b.kernel);
    differ("build of the kernel", &a.kernel_build, &b.kernel_build);
    differ("boot options of Linux", &text(&a.linux.boot_options), &text(&b.linux.boot_options));
    let mut sides = |name: &str, old: &Side, new: &Side| {
        let cpus = |side: &Side| match side.cpu_count {
            1 => format!("{}, 1 CPU", side.cpus),
            count => format!("{}, {count} CPUs", side.cpus),
        };
        differ(&format!("CPUs of {name}"), &cpus(old), &cpus(new));
        for (leak, text) in &old.mitigations {
            if let Some(other) = new.mitigations.get(leak) {
                differ(&format!("{leak} on {name}"), text, other);
            }
        }
    };
    // Which CPUs Linux has left is known once the LWK's are.
    if let (Some(old), Some(new)) = (&a.lwk, &b.lwk) {
        sides("Linux", &a.linux, &b.linux);
        sides("the LWK", old, new);
    }
    for (of, [old, new]) in options_of_the_lwk(old, new) {
        differ(&format!("boot options of the LWK ({of})"), old, new);
    }
    found
}

/// The LWK's boot options in both runs where both know them, once for each group of figures that
/// has the same ones.
fn options_of_the_lwk<'a>(old: &'a Run, new: &'a Run) -> BTreeSet<(&'a str, [&'a str; 2])> {
    let of = |options: &'a Option<String>| options.as_deref();
    let common = old.figures.iter().filter_map(|figure| {
        let other = new.figures.iter().find(|other| other.id == figure.id)?;
        let options = [of(&figure.lwk_boot_options)?, of(&other.lwk_boot_options)?];
        Some((figure.group.as_str(), options))
    });
    common.collect()
}

/// The number of a figure that is compared, by what its target is about.
fn by(figure: &Measured) -> BoundOf {
    match figure.target {
        Some(target) => target.of,
        None if figure.ratio.is_some() => BoundOf::Ratio,
        None => BoundOf::Lwk,
    }
}

fn value(figure: &Measured, by: BoundOf) -> Option<Value> {
    let (value, Range { low, high }) = match by {
        BoundOf::Ratio => (figure.ratio?, figure.ratio_spread?),
        BoundOf::Lwk => figure.lwk.summary.map(|summary| (summary.median, summary.spread))?,
    };
    Some(Value { value, low, high })
}

fn compared(old: &Measured, new: &Measured) -> Compared {
    let by = by(new);
    let (before, after) = (value(old, by), value(new, by));
    let is_known =
        old.unit == new.unit && [old, new].into_iter().all(|figure| has_spread(figure, by));
    let verdict = match (before, after) {
        (Some(before), Some(after)) if is_known => judge(new.better, before, after),
        _ => Verdict::Unknown,
    };
    let change = before.zip(after).filter(|(before, _)| before.value != 0.0);
    Compared {
        id: new.id.clone(),
        unit: new.unit.clone(),
        by,
        old: before,
        new: after,
        change: change.map(|(before, after)| after.value / before.value - 1.0),
        verdict,
    }
}

/// Whether the figure has enough samples for a spread.
fn has_spread(figure: &Measured, by: BoundOf) -> bool {
    let (lwk, linux) = (figure.lwk.samples.len(), figure.linux.samples.len());
    figure.unit == COUNT || lwk >= SAMPLES_MIN && (by == BoundOf::Lwk || linux >= SAMPLES_MIN)
}

fn judge(better: Better, old: Value, new: Value) -> Verdict {
    let (lower, higher) = match better {
        Better::Lower => (Verdict::Better, Verdict::Worse),
        Better::Higher => (Verdict::Worse, Verdict::Better),
    };
    if new.high < old.low {
        lower
    } else if new.low > old.high {
        higher
    } else {
        Verdict::Same
    }
}

fn failed(old: &Measured) -> Compared {
    let by = by(old);
    Compared {
        id: old.id.clone(),
        unit: old.unit.clone(),
        by,
        old: value(old, by),
        new: None,
        change: None,
        verdict: Verdict::Failed,
    }
}

fn row(figure: &Compared) -> Vec<String> {
    let dash = || String::from("-");
    let unit = match figure.by {
        BoundOf::Ratio => "x Linux",
        BoundOf::Lwk => figure.unit.as_str(),
    };
    let of = |value: Option<Value>| value.map_or_else(dash, |value| number(value.value));
    let spread = |value: Option<Value>| {
        value.map_or_else(dash, |value| format!("{}..{}", number(value.low), number(value.high)))
    };
    vec![
        figure.id.clone(),
        unit.into(),
        of(figure.old),
        spread(figure.old),
        of(figure.new),
        spread(figure.new),
        figure.change.map_or_else(dash, |change| format!("{:+.1} %", change * 100.0)),
        figure.verdict.name().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::EXAMPLE;

    fn example() -> Run {
        Run::parse(EXAMPLE).unwrap()
    }

    fn of(value: f64, low: f64, high: f64) -> Value {
        Value { value, low, high }
    }

    fn figure<'a>(run: &'a mut Run, id: &str) -> &'a mut Measured {
        run.figures.iter_mut().find(|figure| figure.id == id).unwrap()
    }

    fn verdict(comparison: &Comparison, id: &str) -> Verdict {
        comparison.figures.iter().find(|figure| figure.id == id).unwrap().verdict
    }

    #[test]
    fn what_lies_beyond_both_spreads_has_changed() {
        let old = of(10.0, 9.0, 12.0);
        assert_eq!(judge(Better::Lower, old, of(13.0, 12.5, 14.0)), Verdict::Worse);
        assert_eq!(judge(Better::Higher, old, of(13.0, 12.5, 14.0)), Verdict::Better);
        assert_eq!(judge(Better::Lower, old, of(8.0, 7.0, 8.5)), Verdict::Better);
        assert_eq!(judge(Better::Higher, old, of(8.0, 7.0, 8.5)), Verdict::Worse);
        assert_eq!(judge(Better::Lower, old, of(13.0, 12.0, 14.0)), Verdict::Same);
    }

    #[test]
    fn a_run_is_no_worse_than_itself() {
        let found = Comparison::of(&example(), &example());
        assert!(!found.is_worse() && found.better == 0 && found.differences().is_empty());
        assert_eq!(found.figures.len(), example().figures.len());
    }

    #[test]
    fn both_sides_slower_is_no_change() {
        let mut slow = example();
        let found = figure(&mut slow, "call.local");
        for series in [&mut found.lwk, &mut found.linux] {
            series.samples.iter_mut().for_each(|sample| *sample *= 3.0);
            let summary = series.summary.as_mut().unwrap();
            summary.median *= 3.0;
        }
        assert_eq!(verdict(&Comparison::of(&example(), &slow), "call.local"), Verdict::Same);
        let found = figure(&mut slow, "call.local");
        found.ratio = Some(1.5);
        found.ratio_spread = Some(Range { low: 1.4, high: 1.6 });
        let found = Comparison::of(&example(), &slow);
        assert_eq!(verdict(&found, "call.local"), Verdict::Worse);
        assert!(found.is_worse());
        assert_eq!(verdict(&Comparison::of(&slow, &example()), "call.local"), Verdict::Better);
    }

    #[test]
    fn a_count_is_exact_with_one_sample_a_time_is_not() {
        let mut new = example();
        for id in ["noise.interrupts", "start.true"] {
            let found = figure(&mut new, id);
            assert_eq!(found.lwk.samples.len(), 1, "{id}");
            let summary = found.lwk.summary.as_mut().unwrap();
            summary.median += 1.0;
            summary.spread = Range { low: summary.median, high: summary.median };
            found.ratio = found.ratio.map(|ratio| ratio * 2.0);
            found.ratio_spread = found.ratio.map(|ratio| Range { low: ratio, high: ratio });
        }
        let found = Comparison::of(&example(), &new);
        assert_eq!(verdict(&found, "noise.interrupts"), Verdict::Worse);
        assert_eq!(verdict(&found, "start.true"), Verdict::Unknown);
    }

    #[test]
    fn a_figure_that_failed_in_the_new_run_got_worse_one_not_asked_for_did_not() {
        let mut new = example();
        new.figures.retain(|figure| figure.id != "call.local");
        let found = Comparison::of(&example(), &new);
        assert_eq!(
            (found.is_worse(), found.only_in_old.as_slice()),
            (false, &["call.local".into()][..])
        );
        assert_eq!(Comparison::of(&new, &example()).only_in_new, ["call.local"]);
        new.not_measured.push(crate::run::Missing {
            group: "calls".into(),
            why: "the measured program failed".into(),
            failed: true,
        });
        let found = Comparison::of(&example(), &new);
        assert_eq!(verdict(&found, "call.local"), Verdict::Failed);
        assert!(found.is_worse());
    }

    #[test]
    fn runs_without_a_common_figure_say_nothing() {
        let mut new = example();
        new.figures.retain(|figure| figure.id == "call.local");
        let mut old = example();
        old.figures.retain(|figure| figure.id != "call.local");
        assert!(!Comparison::of(&old, &new).has_figures());
        assert!(Comparison::of(&example(), &new).has_figures());
    }

    #[test]
    fn other_machines_and_kernels_are_told_apart() {
        let change = |change: fn(&mut Run)| {
            let mut new = example();
            change(&mut new);
            Comparison::of(&example(), &new).differences().join("; ")
        };
        assert!(change(|run| run.machine.kernel = "6.12".into()).starts_with("kernel: '"));
        assert!(change(|run| run.machine.hypervisor = None).contains("and 'none'"));
        assert!(change(|run| run.options.quick = true).contains("'full' and '--quick'"));
        assert!(
            change(|run| run.machine.lwk.as_mut().unwrap().cpus = "3".into()).contains("the LWK")
        );
        let other = change(|run| {
            let lwk = run.machine.lwk.as_mut().unwrap();
            lwk.mitigations.insert("meltdown".into(), "Vulnerable".into());
        });
        assert!(other.contains("meltdown on the LWK"), "{other}");
        let count = change(|run| run.machine.lwk.as_mut().unwrap().cpu_count = 1);
        assert_eq!(count, "CPUs of the LWK: '2-3, 2 CPUs' and '2-3, 1 CPU'");
        let options = change(|run| {
            for figure in run.figures.iter_mut().filter(|figure| figure.group == "calls") {
                figure.lwk_boot_options = Some("spin_us=7".into());
            }
        });
        assert!(
            options.starts_with("boot options of the LWK (calls): '")
                && options.contains("and 'spin_us=7'"),
            "{options}"
        );
        let unknown = |run: &mut Run| {
            run.figures.iter_mut().for_each(|figure| figure.lwk_boot_options = None);
        };
        assert_eq!(change(unknown), "");
        assert_eq!(change(|run| run.machine.lwk = None), "");
        assert_eq!(change(|run| run.load_begun = None), "");
    }
}
