//! `hanare bench`: its command line, and what it does of it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueHint};

use crate::compare::Comparison;
use crate::document::ReportFile;
use crate::figure::{Figure, Group};
use crate::lab::Lab;
use crate::published::Published;
use crate::report::Report;
use crate::run::Run;
use crate::{groups, lab, native, published, report};
use hanare_common::cpu_list::CpuList;
use hanare_common::output::outln;
use hanare_common::{failure, instances, table};

/// Measure the LWK against this machine's Linux: calls, files, memory, signals, threads, processes,
/// noise, boot.
#[derive(Args)]
#[command(after_help = "\
Without an instance, one is booted on the upper half of the CPUs and shut down at the end; only then are the \
figures of booting and of doorbells measured, too. 'ratio' is the LWK's median over Linux', 'best' the same of \
the best rounds: what a busy host hides. The JSON has all samples and the machine, and says what its words mean.

A report is HTML in one file, or Markdown with its plots in files beside it. --compare prints what changed by more \
than the spread of both runs; its exit status is 0 if nothing got worse, 1 if something did, 2 if the runs cannot be \
compared.

With --native nothing is booted, and no right is needed: two threads on two CPUs of this Linux hand the turn over \
and back by a slot, by rings and by what Linux offers. A sample is the best batch of a round (of what sleeps, the middle one); 'median', 'min' and \
'max' are those of the rounds, 'typical' is the median of all batches, 'ratio' is over the bare cache line's.

Examples:
  hanare bench                       all but what is posted, about ten minutes
  hanare bench --quick               short batches, for a first impression
  hanare bench F6                    posted calls, checkpoints, servers: an hour
  hanare bench servers --rounds 2    servers under load, posted and not
  hanare bench read call.local
  hanare bench delegation            the ways to delegate against each other
  hanare bench F1 F7                 what answers published figures
  hanare bench --on blue --json > figures.json
  hanare bench --json --report figures.html --report figures.md > run.json
  hanare bench --from run.json --report figures.html   the same, not measured
  hanare bench --compare old.json new.json
  hanare bench --native --cpus 2,6   slots and rings, on any Linux")]
pub struct Bench {
    /// Machine-readable output
    #[arg(long, conflicts_with = "list")]
    json: bool,
    /// Only these figures, groups or published figures, e.g. calls read.1m F7
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Figures or groups, as IDs but in one list
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Runs of each figure on each kernel, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Instance to measure [default: the only one, or one booted for the purpose]
    #[arg(long, value_name = "NAME", value_parser = instances::name)]
    on: Option<String>,
    /// Small batches and short computations
    #[arg(long)]
    quick: bool,
    /// Tasks of posted calls in each measurement and round; published figures have 65536
    #[arg(long, value_name = "N", default_value_t = lab::TASKS, value_parser = clap::value_parser!(u32).range(64..))]
    #[arg(conflicts_with = "quick")]
    tasks: u32,
    /// Block device, or a file of 1 MiB on one, that is read past the page cache
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    device: Option<PathBuf>,
    /// Say what the figures are, measure nothing
    #[arg(long)]
    list: bool,
    /// Write a report as well: FILE.html or FILE.md; can be given several times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "native"], value_hint = ValueHint::FilePath)]
    report: Vec<ReportFile>,
    /// Take the figures of a run that --json printed, measure nothing
    #[arg(long, value_name = "RUN.json", conflicts_with_all = MEASURING, value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,
    /// A run on a Linux that was booted with isolcpus or nohz_full, to be shown beside that of
    /// --from
    #[arg(long, value_name = "RUN.json", requires = "from", value_hint = ValueHint::FilePath)]
    tuned: Option<PathBuf>,
    /// Compare two runs that --json printed, measure nothing
    #[arg(long, value_names = ["OLD.json", "NEW.json"], num_args = 2, value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = MEASURING, conflicts_with_all = ["report", "from"])]
    compare: Vec<PathBuf>,
    /// Compare runs of different machines or kernels, too
    #[arg(long, requires = "compare")]
    anyway: bool,
    /// Only the figures that need no LWK: slots and rings beside what Linux offers
    #[arg(long, conflicts_with = "on")]
    native: bool,
    /// CPUs of --native, two [default: two cores that share a cache]
    #[arg(long, value_name = "A,B", requires = "native")]
    cpus: Option<CpuList>,
}

/// Options that say how to measure.
const MEASURING: [&str; 9] =
    ["ids", "only", "rounds", "on", "quick", "tasks", "device", "list", "native"];

impl Bench {
    /// Measures and prints; exit status 1 if a group could not be measured.
    pub fn execute(mut self) -> Result<i32> {
        if let [old, new] = &self.compare[..] {
            return self.compare(old, new);
        }
        if let Some(path) = &self.from {
            let mut run = Run::read(path)?;
            if let Some(tuned) = &self.tuned {
                run.add_tuned(Run::read(tuned)?).map_err(failure::wrong_usage)?;
            }
            return self.show(&run, self.json || self.report.is_empty()).map(|()| 0);
        }
        self.ids.append(&mut self.only);
        if let Some(wrong) = self.ids.iter().find(|id| !is_known(id)) {
            return Err(failure::wrong_usage(format!(
                "no figure or group is called '{wrong}' (see: hanare bench --list)"
            )));
        }
        let elsewhere: Vec<&Published> =
            self.ids.iter().filter_map(|id| published::find(id)).collect();
        self.only = published::resolve(&self.ids);
        if self.only.is_empty() && !self.ids.is_empty() {
            return say_where(elsewhere.iter().copied()).map(|()| 0);
        }
        let mut groups: Vec<&Group> =
            groups::ALL.iter().filter(|group| self.wants_group(group)).collect();
        if self.only.is_empty() && !self.list {
            groups.retain(|group| !groups::LONG.contains(&group.name));
        }
        if self.native {
            groups.clear();
        }
        let native = self.native_figures();
        if groups.is_empty() && native.is_empty() {
            return Err(failure::wrong_usage(
                "none of these is measured without an LWK (see: hanare bench --list native)".into(),
            ));
        }
        if self.list {
            list(&groups, &native)?;
            outln!()?;
            let all = published::ALL.iter().filter(|_| self.ids.is_empty());
            return say_where(all.chain(elsewhere.iter().copied())).map(|()| 0);
        }
        if groups.is_empty() {
            return self.measure_native();
        }
        if !native.is_empty() && !self.only.is_empty() {
            return Err(failure::wrong_usage(
                "native figures are measured by themselves: hanare bench --native".into(),
            ));
        }
        self.report.iter().try_for_each(ReportFile::check)?;
        let run = self.measure(&groups)?;
        self.show(&run, true)?;
        if !self.json {
            say_where(elsewhere.iter().copied())?;
        }
        Ok(i32::from(run.failed()))
    }

    fn measure(&self, groups: &[&Group]) -> Result<Run> {
        let mut lab = Lab::new(self.on.as_deref(), self.rounds, self.quick)?;
        lab.device.clone_from(&self.device);
        lab.tasks = self.tasks;
        let mut report = Report::new(&lab, &self.only);
        for group in groups {
            if let Some(why) = group.needs.missing(&lab) {
                report.skip(group, &why);
                continue;
            }
            lab.progress(group.name);
            match (group.measure)(&mut lab, group) {
                Ok(samples) => {
                    report.add(group, &samples, lab.options(), &|id| self.wants(group, id));
                }
                Err(error) => report.fail(group, &format!("{error:#}")),
            }
            lab.check_interrupted()?;
        }
        lab.look();
        lab.close()?;
        Ok(report.end(&lab))
    }

    /// Prints a run, where that is wanted, and writes its reports.
    fn show(&self, run: &Run, print: bool) -> Result<()> {
        if print {
            report::print(run, self.json)?;
        }
        self.report.iter().try_for_each(|file| file.write(run))
    }

    /// Exit status 1 if something got worse, 2 if the runs cannot be compared.
    fn compare(&self, old: &Path, new: &Path) -> Result<i32> {
        let read = |path: &Path| {
            Run::read(path).map_err(|error| failure::wrong_usage(format!("{error:#}")))
        };
        let found = Comparison::of(&read(old)?, &read(new)?);
        if !found.differences().is_empty() && !self.anyway {
            return Err(failure::wrong_usage(format!(
                "{} and {} are not alike; --anyway compares them nevertheless: {}",
                old.display(),
                new.display(),
                found.differences().join("; "),
            )));
        }
        if !found.has_figures() {
            return Err(failure::wrong_usage(format!(
                "{} and {} have no figure in common",
                old.display(),
                new.display()
            )));
        }
        found.print(self.json)?;
        Ok(i32::from(found.is_worse()))
    }

    fn measure_native(&self) -> Result<i32> {
        native::execute(&native::Wish {
            cpus: self.cpus.as_ref(),
            rounds: self.rounds,
            quick: self.quick,
            json: self.json,
            wants: &|id| self.wants_of(native::GROUP, id),
            progress: &lab::progress,
        })
    }

    fn native_figures(&self) -> Vec<&'static Figure> {
        let figures = native::FIGURES.iter();
        figures.filter(|figure| self.wants_of(native::GROUP, figure.id)).collect()
    }

    fn wants(&self, group: &Group, id: &str) -> bool {
        self.wants_of(group.name, id)
    }

    fn wants_of(&self, group: &str, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wish| names(wish, group, id))
    }

    fn wants_group(&self, group: &Group) -> bool {
        group.figures.iter().any(|figure| self.wants(group, figure.id))
    }
}

/// Whether a word on the command line means this figure of this group.
fn names(word: &str, group: &str, id: &str) -> bool {
    word == group || id == word || id.strip_prefix(word).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a word on the command line means any figure, or published ones.
fn is_known(word: &str) -> bool {
    published::find(word).is_some()
        || all_figures().any(|(group, figure)| names(word, group, figure.id))
}

/// All figures, with their groups.
fn all_figures() -> impl Iterator<Item = (&'static str, &'static Figure)> {
    let booted = groups::ALL
        .iter()
        .flat_map(|group| group.figures.iter().map(move |figure| (group.name, figure)));
    booted.chain(native::FIGURES.iter().map(|figure| (native::GROUP, figure)))
}

/// Which figures answer published ones, and where others are.
fn say_where<'a>(mut published: impl Iterator<Item = &'a Published>) -> Result<()> {
    published.try_for_each(|Published { id, what, by, elsewhere }| {
        let parts = [by.join(", "), elsewhere.unwrap_or_default().into()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        outln!("{id} ({what}): {}", parts.join("; "))
    })
}

fn list(groups: &[&Group], native: &[&Figure]) -> Result<()> {
    let figures = groups
        .iter()
        .flat_map(|group| group.figures.iter().map(|figure| (group.name, figure)))
        .chain(native.iter().map(|&figure| (native::GROUP, figure)));
    let rows = figures.map(|(group, figure)| {
        let cells = [figure.id, group, figure.unit, figure.better.name(), figure.what];
        cells.map(String::from).to_vec()
    });
    table::print(&["FIGURE", "GROUP", "UNIT", "BETTER", "WHAT"], &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(only: &[&str]) -> Bench {
        let only = only.iter().map(|&id| id.into()).collect();
        Bench {
            json: false,
            ids: Vec::new(),
            only,
            rounds: 5,
            on: None,
            quick: false,
            tasks: lab::TASKS,
            device: None,
            list: false,
            report: Vec::new(),
            from: None,
            tuned: None,
            compare: Vec::new(),
            anyway: false,
            native: false,
            cpus: None,
        }
    }

    #[test]
    fn ids_are_unique() {
        let figures = groups::ALL.iter().flat_map(|group| group.figures).chain(native::FIGURES);
        let mut ids: Vec<&str> = figures.map(|figure| figure.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn a_word_that_means_nothing_is_told_from_figures_groups_and_published_ones() {
        for word in ["calls", "call.local", "read", "f3", "F9", "native", "native.slot"] {
            assert!(is_known(word), "{word}");
        }
        for word in ["nosuch", "call.loca", "F12", ""] {
            assert!(!is_known(word), "{word}");
        }
        let mut bench = bench(&["nosuch"]);
        bench.ids = vec!["calls".into()];
        let error = bench.execute().unwrap_err().to_string();
        assert!(error.contains("'nosuch'"), "{error}");
    }

    #[test]
    fn chosen_by_group_prefix_or_id() {
        let chosen = |only: &[&str]| {
            let bench = bench(only);
            let all = groups::ALL
                .iter()
                .flat_map(|group| group.figures.iter().map(move |figure| (group, figure.id)));
            all.filter(|(group, id)| bench.wants(group, id)).count()
        };
        assert_eq!(chosen(&["read.1m"]), 1);
        assert_eq!(chosen(&["files"]), chosen(&["read"]));
        assert_eq!(chosen(&["nothing"]), 0);
        assert!(chosen(&[]) > 20);
        assert_eq!(chosen(&["native"]), 0);
        assert_eq!(bench(&["native"]).native_figures().len(), native::FIGURES.len());
        assert_eq!(bench(&["native.slot", "read"]).native_figures().len(), 1);
    }
}
