//! `hanare bench`: figures of the LWK against those of the Linux beside it.
//!
//! `figure` says what a figure is; `groups/` has one file per group of figures,
//! and [`groups::ALL`] lists them; `lab` boots, runs the measured program
//! (`bench/guest`) on either kernel and reads its samples; `samples` makes medians
//! of them, `report` prints. To add a figure: a row in its group, and a `report()`
//! of the same id in the guest. `native` has the figures that need no LWK.

pub mod computing;
mod figure;
mod groups;
pub mod lab;
mod native;
mod report;
pub mod samples;

use anyhow::Result;
use clap::Args;

use crate::cpu_list::CpuList;
use crate::{failure, instances, table};
use figure::{Figure, Group, Needs};
use lab::Lab;
use report::Report;

/// Measure the LWK against this machine's Linux: calls, files, memory, signals, threads, processes, noise, boot.
#[derive(Args)]
#[command(after_help = "\
Without an instance, one is booted on the upper half of the CPUs and shut down at the end; only then are the \
figures of booting and of doorbells measured, too. 'ratio' is the LWK's median over Linux', 'best' the same of \
the best rounds: what a busy host hides.

With --native nothing is booted, and no right is needed: two threads on two CPUs of this Linux hand the turn over \
and back by a slot, by rings and by what Linux offers. A sample is the best batch of a round (of what sleeps, the middle one); 'median', 'min' and \
'max' are those of the rounds, 'typical' is the median of all batches, 'ratio' is over the bare cache line's.

Examples:
  hanare bench                       everything, about four minutes
  hanare bench --quick               short batches, for a first impression
  hanare bench --only read,call.local
  hanare bench --on blue --json > figures.json
  hanare bench --native --cpus 2,6   slots and rings, on any Linux")]
pub struct Bench {
    /// Machine-readable output
    #[arg(long)]
    json: bool,
    /// Only these figures or groups, e.g. calls,read.1m
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
    /// Say what the figures are, measure nothing
    #[arg(long)]
    list: bool,
    /// Only the figures that need no LWK: slots and rings beside what Linux offers
    #[arg(long, conflicts_with = "on")]
    native: bool,
    /// CPUs of --native, two [default: two cores that share a cache]
    #[arg(long, value_name = "A,B", requires = "native")]
    cpus: Option<CpuList>,
}

impl Bench {
    /// Measures and prints; exit status 1 if a group could not be measured.
    pub fn execute(self) -> Result<i32> {
        let mut groups: Vec<&Group> =
            groups::ALL.iter().filter(|group| self.wants_group(group)).collect();
        if self.native {
            groups.clear();
        }
        let native = self.native_figures();
        if groups.is_empty() && native.is_empty() {
            return Err(failure::wrong_usage(
                "no figure or group is called so (see: hanare bench --list)".into(),
            ));
        }
        if self.list {
            return list(&groups, &native).map(|()| 0);
        }
        if groups.is_empty() {
            return self.measure_native();
        }
        if !native.is_empty() && !self.only.is_empty() {
            return Err(failure::wrong_usage(
                "native figures are measured by themselves: hanare bench --native".into(),
            ));
        }
        let mut lab = Lab::new(self.on.as_deref(), self.rounds, self.quick)?;
        let mut report = Report::new(&lab);
        for group in groups {
            if group.needs == Needs::Machine && !lab.may_boot() {
                report.skip(group, "an instance is booted already");
                continue;
            }
            lab.progress(group.name);
            match (group.measure)(&mut lab, group) {
                Ok(samples) => report.add(group, &samples, &|id| self.wants(group, id)),
                Err(error) => report.fail(group, &format!("{error:#}")),
            }
            lab.check_interrupted()?;
        }
        lab.close()?;
        report.print(self.json)?;
        Ok(i32::from(report.failed()))
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
        let named =
            |wish: &String| wish == group || id == wish || id.starts_with(&format!("{wish}."));
        self.only.is_empty() || self.only.iter().any(named)
    }

    fn wants_group(&self, group: &Group) -> bool {
        group.figures.iter().any(|figure| self.wants(group, figure.id))
    }
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
            only,
            rounds: 5,
            on: None,
            quick: false,
            list: false,
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
