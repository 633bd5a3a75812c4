//! Content of a run's report, in order: the machine, missed targets, all figures, plots.

use std::collections::BTreeSet;

use super::curves;
use super::parts::Column::{Number, Text};
use super::parts::{Block, Cell, Column, Document, Mark, Picture, Table};
use super::plot::{self, Colour, Row};
use crate::report::{number, times};
use crate::run::{Better, BoundOf, Machine, Measured, Run, Series, Side};
use crate::samples::{Range, Summary};
use hanare_common::size::Bytes;

const MACHINE: &[Column] = &[Text("Machine"), Text("")];
const MISSED: &[Column] =
    &[Text("Figure"), Text("What"), Number("Reached"), Number("Target"), Number("Missed by")];
const NOT_MEASURED: &[Column] = &[Text("Group"), Text("Reason")];
const FIGURES: &[Column] = &[
    Text("Figure"),
    Text("What"),
    Text("Unit"),
    Number("LWK"),
    Number("Spread"),
    Number("Linux"),
    Number("Spread"),
    Number("Ratio"),
    Number("Spread"),
    Number("Target"),
    Text(""),
];
/// Columns of [`FIGURES`], and those of a tuned Linux.
const FIGURES_AND_TUNED: &[Column] = &[
    Text("Figure"),
    Text("What"),
    Text("Unit"),
    Number("LWK"),
    Number("Spread"),
    Number("Linux"),
    Number("Spread"),
    Number("Ratio"),
    Number("Spread"),
    Number("Linux, tuned"),
    Number("Ratio"),
    Text("Target"),
    Text(""),
];
const MITIGATIONS: &[Column] = &[Text("Leak"), Text("Linux"), Text("LWK")];
const WORDS: &[Column] = &[Text("Word"), Text("Meaning")];

/// The report of a run.
pub fn of(run: &Run) -> Document {
    let mut blocks = vec![Block::Text(summary(run))];
    blocks.extend(run.tuned.as_deref().map(|tuned| Block::Text(about_tuned(tuned))));
    blocks.extend(warnings(run).into_iter().map(Block::Warning));
    blocks.push(Block::Table(Table { header: MACHINE, rows: machine(run) }));
    blocks.push(Block::Heading("Missed targets"));
    blocks.extend(missed(run));
    if !run.not_measured.is_empty() {
        blocks.push(Block::Heading("Not measured"));
        let rows = run.not_measured.iter().map(|missing| {
            let mark = if missing.failed { Mark::Bad } else { Mark::Plain };
            vec![missing.group.as_str().into(), Cell { text: missing.why.clone(), mark }]
        });
        blocks.push(Block::Table(Table { header: NOT_MEASURED, rows: rows.collect() }));
    }
    blocks.push(Block::Heading("All figures"));
    if run.figures.is_empty() {
        blocks.push(Block::Text("Nothing was measured.".into()));
    } else {
        let rows = run.figures.iter().map(|measured| figure(run, measured)).collect();
        let header = if run.tuned.is_some() { FIGURES_AND_TUNED } else { FIGURES };
        blocks.push(Block::Table(Table { header, rows }));
    }
    if let Some(picture) = ratios(run) {
        blocks.push(Block::Heading("The LWK over Linux"));
        blocks.push(Block::Picture(picture));
    }
    let pictures = pictures_of_curves(run);
    if !pictures.is_empty() {
        blocks.push(Block::Heading("Curves"));
        blocks.extend(pictures.into_iter().map(Block::Picture));
    }
    let pictures = samples(run);
    if !pictures.is_empty() {
        blocks.push(Block::Heading("Samples"));
        blocks.extend(pictures.into_iter().map(Block::Picture));
    }
    blocks.push(Block::Heading("Mitigations"));
    blocks.extend(mitigations(&run.machine));
    blocks.push(Block::Heading("Words"));
    let rows =
        run.words.iter().map(|(word, what)| vec![word.as_str().into(), what.as_str().into()]);
    blocks.push(Block::Table(Table { header: WORDS, rows: rows.collect() }));
    Document { title: "Figures of Hanare".into(), blocks }
}

fn commit(run: &Run) -> &str {
    run.build.commit.as_deref().unwrap_or("not known")
}

fn summary(run: &Run) -> String {
    let met = |verdict| run.figures.iter().filter(|figure| figure.met == Some(verdict)).count();
    format!(
        "The LWK against the Linux beside it, the same programs in turn on both, in one run that began {}, of commit \
         {}. Figures: {}; targets met: {}; missed: {}.",
        run.begun,
        commit(run),
        run.figures.len(),
        met(true),
        met(false),
    )
}

fn about_tuned(tuned: &Run) -> String {
    let linux = &tuned.machine.linux;
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".into());
    format!(
        "'Linux, tuned' is from a second run, which began {}, on a Linux booted with {}. There the programs ran on its \
         CPUs {}, which it leaves alone, and the 'Ratio' behind it is that of the LWK (CPUs {}) to it in the second run.",
        tuned.begun,
        or(&linux.tuned),
        or(&linux.kept_on),
        tuned.machine.lwk.as_ref().map_or("not known", |side| side.cpus.as_str()),
    )
}

fn warnings(run: &Run) -> Vec<String> {
    let mut found = Vec::new();
    if run.machine.emulated {
        found.push(
            "This machine is emulated: a time says little, a ratio of the same run something; a count is exact.".into(),
        );
    }
    if run.options.quick {
        found.push("Measured with small batches (--quick): a first impression.".into());
    }
    if run.build.commit.as_deref().is_some_and(|commit| commit.ends_with("-dirty")) {
        found.push("Built from sources that were changed since that commit.".into());
    }
    let cpus =
        run.machine.linux.cpu_count + run.machine.lwk.as_ref().map_or(0, |side| side.cpu_count);
    if let Some([one, ..]) = run.load_begun
        && one > cpus as f64
    {
        found.push(format!("The machine was busy: a load of {one} at the begin, on {cpus} CPUs."));
    }
    found
}

fn machine(run: &Run) -> Vec<Vec<Cell>> {
    let machine = &run.machine;
    let or =
        |text: &Option<String>, otherwise: &str| text.clone().unwrap_or_else(|| otherwise.into());
    let load = |load: Option<[f64; 3]>| {
        load.map_or_else(|| "not known".into(), |load| load.map(|part| part.to_string()).join(" "))
    };
    let mut rows: Vec<(&str, String)> = vec![
        ("Begin, end", format!("{}, {}", run.begun, run.ended)),
        ("Hanare", format!("{}, commit {}", run.build.version, commit(run))),
        ("Rounds", run.options.rounds.to_string()),
        ("Processor", machine.processor.clone()),
        ("Model", or(&machine.model, "not known")),
        ("Hypervisor", or(&machine.hypervisor, "none")),
        ("Kernel", format!("{} ({})", machine.kernel, machine.kernel_build)),
        ("Load, begin and end", format!("{}; {}", load(run.load_begun), load(run.load_ended))),
        (
            if machine.linux.tuned.is_some() { "Linux, tuned" } else { "Linux" },
            side(&machine.linux),
        ),
        ("Boot options of Linux", or(&machine.linux.boot_options, "not known")),
    ];
    match &machine.lwk {
        None => rows.push(("LWK", "not looked at".into())),
        Some(lwk) => {
            rows.push(("LWK", side(lwk)));
            rows.push(("Boot options of the LWK", options(run)));
        }
    }
    if !run.options.only.is_empty() {
        rows.push(("Asked for", run.options.only.join(", ")));
    }
    rows.into_iter().map(|(name, text)| vec![name.into(), text.into()]).collect()
}

fn side(side: &Side) -> String {
    let memory = side.memory_bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
    let kept = side.kept_on.as_ref().map(|cpus| format!("; measured on CPUs {cpus}"));
    format!(
        "CPUs {} (in number: {}){memory}{}",
        side.cpus,
        side.cpu_count,
        kept.unwrap_or_default()
    )
}

/// Boot options of the LWK for all figures. Where they differ, each set of options names its
/// groups.
fn options(run: &Run) -> String {
    let text = |options: &Option<String>| match options.as_deref() {
        None => "not known: it was booted before".to_owned(),
        Some("") => "none".to_owned(),
        Some(text) => text.to_owned(),
    };
    let all: BTreeSet<String> =
        run.figures.iter().map(|figure| text(&figure.lwk_boot_options)).collect();
    let groups = |options: &String| {
        let figures =
            run.figures.iter().filter(|figure| text(&figure.lwk_boot_options) == *options);
        let groups: BTreeSet<&str> = figures.map(|figure| figure.group.as_str()).collect();
        groups.into_iter().collect::<Vec<_>>().join(", ")
    };
    match all.len() {
        0 => text(&run.machine.lwk.as_ref().and_then(|side| side.boot_options.clone())),
        1 => all.into_iter().collect(),
        _ => all
            .iter()
            .map(|options| format!("{options} ({})", groups(options)))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Figures that missed their targets, the farthest from its target first.
fn missed(run: &Run) -> Vec<Block> {
    let mut missed: Vec<(&Measured, Option<f64>)> = run
        .figures
        .iter()
        .filter(|figure| figure.met == Some(false))
        .map(|figure| (figure, factor(figure)))
        .collect();
    if missed.is_empty() {
        let targets = run.figures.iter().filter(|figure| figure.met.is_some()).count();
        let text = if targets == 0 {
            "No figure with a target was measured."
        } else {
            "None: every target that was measured is met."
        };
        return vec![Block::Text(text.into())];
    }
    let order = |factor: Option<f64>| factor.unwrap_or(f64::INFINITY);
    missed.sort_by(|(_, a), (_, b)| order(*b).total_cmp(&order(*a)));
    let rows = missed.into_iter().map(|(figure, factor)| {
        let by =
            factor.map_or_else(|| "-".into(), |factor| format!("{:.0} %", (factor - 1.0) * 100.0));
        vec![
            figure.id.as_str().into(),
            figure.what.as_str().into(),
            reached(figure).into(),
            target(figure).into(),
            Cell { text: by, mark: Mark::Bad },
        ]
    });
    vec![Block::Table(Table { header: MISSED, rows: rows.collect() })]
}

/// Measured value that the figure's target bounds: the ratio, or the LWK's median.
fn reached(figure: &Measured) -> String {
    match figure.target.map(|target| target.of) {
        Some(BoundOf::Ratio) => figure.ratio.map(times),
        _ => {
            figure.lwk.summary.map(|summary| format!("{} {}", number(summary.median), figure.unit))
        }
    }
    .unwrap_or_else(|| "-".into())
}

/// How many times the target it is; `None` where one of both is 0.
fn factor(figure: &Measured) -> Option<f64> {
    let target = figure.target?;
    let reached = match target.of {
        BoundOf::Ratio => figure.ratio?,
        BoundOf::Lwk => figure.lwk.summary?.median,
    };
    let (above, below) = match figure.better {
        Better::Lower => (reached, target.bound),
        Better::Higher => (target.bound, reached),
    };
    (below != 0.0).then(|| above / below)
}

fn target(figure: &Measured) -> String {
    figure.target_text().map_or_else(String::new, |text| text.replace("<=", "≤").replace(">=", "≥"))
}

fn figure(run: &Run, figure: &Measured) -> Vec<Cell> {
    let median = |series: &Series| {
        series.summary.map_or_else(|| "-".into(), |summary| number(summary.median)).into()
    };
    // One sample has no spread.
    let has_spread = |series: &Series| series.samples.len() > 1;
    let spread = |series: &Series| {
        let summary = series.summary.filter(|_| has_spread(series));
        percent(summary.map(|Summary { median, spread, .. }| (spread, median)))
    };
    let (verdict, mark) = match figure.met {
        Some(true) => ("met", Mark::Good),
        Some(false) => ("missed", Mark::Bad),
        None => ("", Mark::Plain),
    };
    let beside_tuned = |tuned: &Measured| {
        [median(&tuned.linux), tuned.ratio.map_or_else(|| "-".into(), times).into()]
    };
    let tuned = run.tuned.as_ref().map(|_| {
        run.tuned_figure(&figure.id).map_or_else(|| ["-".into(), "-".into()], beside_tuned)
    });
    let before = [
        figure.id.as_str().into(),
        figure.what.as_str().into(),
        figure.unit.as_str().into(),
        median(&figure.lwk),
        spread(&figure.lwk),
        median(&figure.linux),
        spread(&figure.linux),
        figure.ratio.map_or_else(|| "-".into(), times).into(),
        percent(figure.ratio_spread.filter(|_| has_spread(&figure.lwk)).zip(figure.ratio)),
    ];
    let behind = [target(figure).into(), Cell { text: verdict.into(), mark }];
    before.into_iter().chain(tuned.into_iter().flatten()).chain(behind).collect()
}

fn percent(spread: Option<(Range, f64)>) -> Cell {
    let share = spread.and_then(|(spread, of)| spread.share_of(of));
    share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0)).into()
}

/// All ratios in one picture; `None`: there is none.
fn ratios(run: &Run) -> Option<Picture> {
    let rows = run.figures.iter().filter_map(|figure| {
        let ratio = figure.ratio.filter(|&ratio| ratio > 0.0)?;
        let is_good = (ratio <= 1.0) == (figure.better == Better::Lower) || ratio == 1.0;
        let more = if figure.better == Better::Higher { " ↑" } else { "" };
        Some(Row {
            label: format!("{}{more}", figure.id),
            dots: vec![ratio],
            // 0 has no place on an axis of powers.
            bar: figure.ratio_spread.filter(|spread| spread.low > 0.0),
            mark: figure
                .target
                .filter(|target| target.of == BoundOf::Ratio && target.bound > 0.0)
                .map(|target| target.bound),
            colour: if is_good { Colour::Blue } else { Colour::Orange },
        })
    });
    let caption = "The LWK's median over Linux', with its spread. Blue: the LWK is the better one; orange: Linux is. \
                   Less is better, but where an arrow says that more is. A short black line is the target.";
    let svg = plot::draw(&rows.collect::<Vec<_>>(), Some(1.0), "LWK / Linux")?;
    Some(Picture { name: "ratios".into(), caption: caption.into(), svg })
}

/// A picture for all figures that differ by their ways and a number.
fn pictures_of_curves(run: &Run) -> Vec<Picture> {
    let picture = |curves: curves::Curves| {
        let caption = format!(
            "{}: medians in {} on the LWK, by the number at the end of the figures' names; and the first of them on Linux.",
            curves.kind, curves.unit
        );
        let name = format!("curves-{}", file_name(&curves.kind));
        Some(Picture { name, caption, svg: curves.draw()? })
    };
    curves::of(run).into_iter().filter_map(picture).collect()
}

/// A picture for each group and unit, of what is on no curve.
fn samples(run: &Run) -> Vec<Picture> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    let on_curves = curves::of(run);
    let is_drawn = |figure: &&Measured| on_curves.iter().any(|curves| curves.has(figure));
    for figure in run.figures.iter().filter(|figure| !is_drawn(figure)) {
        let kind = (figure.group.as_str(), figure.unit.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let picture = |(index, (group, unit)): (usize, (&str, &str))| {
        let figures = run
            .figures
            .iter()
            .filter(|figure| (figure.group.as_str(), figure.unit.as_str()) == (group, unit))
            .filter(|figure| !is_drawn(figure));
        let rows = figures.flat_map(|figure| {
            let tuned = run.tuned_figure(&figure.id);
            let sides = [
                Some(("LWK", &figure.lwk, Colour::Blue)),
                Some(("Linux", &figure.linux, Colour::Orange)),
                tuned.map(|tuned| ("Linux, tuned", &tuned.linux, Colour::Green)),
            ];
            sides.into_iter().flatten().filter(|(_, series, _)| !series.samples.is_empty()).map(
                |(side, series, colour)| Row {
                    label: format!("{}, {side}", figure.id),
                    dots: series.samples.clone(),
                    bar: None,
                    mark: series.summary.map(|summary| summary.median),
                    colour,
                },
            )
        });
        let svg = plot::draw(&rows.collect::<Vec<_>>(), None, unit)?;
        let caption = format!("{group}: all samples, in {unit}. A short black line is the median.");
        Some(Picture { name: format!("{}-{}", file_name(group), index + 1), caption, svg })
    };
    kinds.into_iter().enumerate().filter_map(picture).collect()
}

/// A text as part of a file's name: a saved run may have been written by any user.
fn file_name(text: &str) -> String {
    const LENGTH_MAX: usize = 40;
    let kept = text.chars().take(LENGTH_MAX);
    kept.map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// Note for a table: why `spectre_v2` may differ.
const SPECTRE_V2: &str = " spectre_v2: Linux' own code has retpolines instead of indirect jumps where the CPU has no \
                          IBRS. The LWK, whose compiler has none, uses IBRS where the CPU has it, as Linux does there.";

fn mitigations(machine: &Machine) -> Vec<Block> {
    let linux = &machine.linux.mitigations;
    let Some(lwk) =
        machine.lwk.as_ref().map(|side| &side.mitigations).filter(|lwk| !lwk.is_empty())
    else {
        let mut blocks = vec![Block::Text("Those of the LWK are not known.".into())];
        let rows = linux
            .iter()
            .map(|(leak, text)| vec![leak.as_str().into(), text.as_str().into(), "-".into()]);
        blocks.push(Block::Table(Table { header: MITIGATIONS, rows: rows.collect() }));
        return blocks;
    };
    let leaks: BTreeSet<&String> = linux.keys().chain(lwk.keys()).collect();
    let differing: Vec<&str> = leaks
        .iter()
        .filter(|leak| linux.get(**leak) != lwk.get(**leak))
        .map(|leak| leak.as_str())
        .collect();
    let text = if differing.is_empty() {
        "Both sides do the same about leaks of the CPU.".into()
    } else {
        let why = if differing.contains(&"spectre_v2") { SPECTRE_V2 } else { "" };
        format!("The sides differ in what they do about: {}.{why}", differing.join(", "))
    };
    let cell = |text: Option<&String>| text.map_or_else(|| "-".into(), |text| text.as_str().into());
    let rows = leaks
        .iter()
        .map(|leak| vec![leak.as_str().into(), cell(linux.get(*leak)), cell(lwk.get(*leak))]);
    vec![Block::Text(text), Block::Table(Table { header: MITIGATIONS, rows: rows.collect() })]
}
