//! A run of `hanare bench` as it is saved: its JSON, from which every report is made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::samples::{Range, Summary};

/// Version of the structures below. A change that old files do not survive makes it larger.
pub const SCHEMA: u32 = 1;

/// One run: what was measured, when, where, by which build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`] of the command that wrote the file.
    pub schema: u32,
    /// Version and commit of the command that measured.
    pub build: Build,
    /// Options by which the run was asked to measure.
    pub options: Options,
    /// Begin, UTC, RFC 3339.
    pub begun: String,
    /// End, UTC, RFC 3339.
    pub ended: String,
    /// Machine on which the run measured.
    pub machine: Machine,
    /// Load average of one, five and fifteen minutes, of Linux, at the begin.
    pub load_begun: Option<[f64; 3]>,
    /// Load average at the end.
    pub load_ended: Option<[f64; 3]>,
    /// Explanations of the words of this file.
    pub words: BTreeMap<String, String>,
    /// The figures, in the order in which they were measured.
    pub figures: Vec<Measured>,
    /// Figures and groups that were not measured, with the reasons.
    pub not_measured: Vec<Missing>,
    /// Figures of a second run on a Linux that was booted for quiet CPUs, see [`Run::add_tuned`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Box<Run>>,
}

/// The command that measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// Version of the command.
    pub version: String,
    /// `git describe` of the sources when it was built; `-dirty`: they were changed since that
    /// commit.
    pub commit: Option<String>,
    /// `hanare_abi::VERSION`, which the module and the LWK have to have as well.
    pub abi: u32,
}

/// How the command was asked to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Rounds of each figure.
    pub rounds: u32,
    /// Small batches.
    pub quick: bool,
    /// Tasks of posted calls in each measurement, where batches are not small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// Figures and groups that were asked for; empty: all.
    pub only: Vec<String>,
}

/// The machine and both of its kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -v`: the build of that kernel.
    pub kernel_build: String,
    /// The CPU's name for itself.
    pub processor: String,
    /// Maker and model of the machine, by its firmware.
    pub model: Option<String>,
    /// Hypervisor that the machine runs in, by CPUID or Linux; `None` on bare hardware.
    pub hypervisor: Option<String>,
    /// Whether a hypervisor is known that translates instructions: times mislead there.
    pub emulated: bool,
    /// The side of Linux.
    pub linux: Side,
    /// The side of the LWK; `None`: no instance was looked at.
    pub lwk: Option<Side>,
    /// Name of the instance.
    pub instance: Option<String>,
    /// Whether the instance was booted before; its options are not known then.
    pub instance_given: bool,
}

/// Share of one kernel in the machine: its CPUs, memory and settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// CPUs of the kernel, by Linux' numbers, while both kernels run.
    pub cpus: String,
    /// Number of these CPUs.
    pub cpu_count: usize,
    /// Bytes of the kernel's memory.
    pub memory_bytes: Option<u64>,
    /// Boot options of the kernel; those of a group of the LWK's figures stand with the figures.
    pub boot_options: Option<String>,
    /// Mitigations of the kernel, by `/sys/devices/system/cpu/vulnerabilities` as its programs see
    /// it.
    pub mitigations: BTreeMap<String, String>,
    /// CPUs of Linux on which the measured program was kept; `None`: it might use all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_on: Option<String>,
    /// Boot options by which Linux was told to leave those CPUs alone; `None`: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<String>,
}

/// A figure with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Id of the figure.
    pub id: String,
    /// Name of the figure's group.
    pub group: String,
    /// Description in one line.
    pub what: String,
    /// Unit of the samples.
    pub unit: String,
    /// Which way is up.
    pub better: Better,
    /// Target of the figure; `None`: nothing is promised.
    pub target: Option<Bound>,
    /// Whether the target is met; `None` where nothing is promised or nothing known.
    pub met: Option<bool>,
    /// Boot options of the LWK; `None`: it was booted before, by others.
    pub lwk_boot_options: Option<String>,
    /// The LWK's samples.
    pub lwk: Series,
    /// Linux'.
    pub linux: Series,
    /// The LWK's median over Linux'.
    pub ratio: Option<f64>,
    /// The spread of the ratio.
    pub ratio_spread: Option<Range>,
    /// The ratio of the best rounds, which shows what a busy host hides.
    pub best_ratio: Option<f64>,
}

/// All samples of one side, in the order of the rounds, and their summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Samples, one for each round.
    pub samples: Vec<f64>,
    /// `None`: there is no sample.
    #[serde(flatten)]
    pub summary: Option<Summary>,
}

/// Which way is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A time, a count.
    Lower,
    /// A throughput.
    Higher,
}

impl Better {
    /// The direction in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
        }
    }
}

/// A target: at most so much where lower is better, else at least.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Quantity that the target bounds.
    pub of: BoundOf,
    /// The number.
    pub bound: f64,
}

/// Quantities that a target can bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundOf {
    /// The ratio.
    Ratio,
    /// The LWK's median.
    Lwk,
}

/// A group or figure that was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of the group.
    pub group: String,
    /// The reason.
    pub why: String,
    /// Whether the figure should have been measured.
    pub failed: bool,
}

impl Run {
    /// Whether something failed.
    pub fn failed(&self) -> bool {
        self.not_measured.iter().any(|missing| missing.failed)
    }

    /// Adds a run of the same build, kernel and processor on a tuned Linux.
    ///
    /// # Errors
    /// Why it is none.
    pub fn add_tuned(&mut self, tuned: Self) -> Result<(), String> {
        let (mine, other) = (&self.machine, &tuned.machine);
        let same = [
            ("commit", &self.build.commit, &tuned.build.commit),
            ("kernel", &Some(mine.kernel.clone()), &Some(other.kernel.clone())),
            ("processor", &Some(mine.processor.clone()), &Some(other.processor.clone())),
        ];
        if let Some((what, ..)) = same.iter().find(|(_, mine, other)| mine != other) {
            return Err(format!("--tuned: it is a run of another {what}"));
        }
        if other.linux.tuned.is_none() || mine.linux.tuned.is_some() {
            return Err("--tuned: only there may Linux be booted with isolcpus or nohz_full".into());
        }
        self.tuned = Some(Box::new(tuned));
        Ok(())
    }

    /// A figure as it was measured on a tuned Linux.
    pub fn tuned_figure(&self, id: &str) -> Option<&Measured> {
        self.tuned.as_ref()?.figures.iter().find(|figure| figure.id == id)
    }

    /// Reads what `hanare bench --json` wrote.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        Self::parse(&text).with_context(|| name.to_string())
    }

    /// Reads the text of such a file.
    pub fn parse(text: &str) -> Result<Self> {
        /// Fields that files of all schemata have.
        #[derive(Deserialize)]
        struct Versioned {
            schema: Option<u32>,
        }
        let Versioned { schema } =
            serde_json::from_str(text).context("no run of 'hanare bench --json'")?;
        match schema {
            Some(SCHEMA) => {}
            Some(other) => bail!("has schema {other}, this command reads schema {SCHEMA}"),
            None => bail!("has no schema version: not written by this 'hanare bench --json'"),
        }
        serde_json::from_str(text).context("no run of 'hanare bench --json'")
    }
}

impl Measured {
    /// The target in words: `<= 0.7x`, `>= 10 MiB/s`.
    pub fn target_text(&self) -> Option<String> {
        let sign = match self.better {
            Better::Lower => "<=",
            Better::Higher => ">=",
        };
        self.target.map(|target| match target.of {
            BoundOf::Ratio => format!("{sign} {}x", target.bound),
            BoundOf::Lwk => format!("{sign} {} {}", target.bound, self.unit),
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A small run as a file, with a figure of each kind.
    pub const EXAMPLE: &str = include_str!("../tests/documents/example.json");

    #[test]
    fn a_saved_run_is_read_as_it_was_written() {
        let run = Run::parse(EXAMPLE).unwrap();
        let again = Run::parse(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(again, run);
        assert!(run.figures.iter().any(|figure| figure.lwk.summary.is_none()));
        assert!(run.figures.iter().any(|figure| figure.linux.samples.is_empty()));
        // The file is what this command would write of it, to the last digit.
        assert_eq!(format!("{}\n", serde_json::to_string_pretty(&run).unwrap()), EXAMPLE);
    }

    #[test]
    fn a_run_on_a_tuned_linux_is_added_if_it_is_one() {
        let mut run = Run::parse(EXAMPLE).unwrap();
        assert!(run.add_tuned(run.clone()).unwrap_err().contains("isolcpus"));
        let mut tuned = run.clone();
        tuned.machine.linux.tuned = Some("isolcpus=1".into());
        let mut other = tuned.clone();
        other.build.commit = Some("another".into());
        assert!(run.add_tuned(other).unwrap_err().contains("another commit"));
        run.add_tuned(tuned).unwrap();
        assert!(run.tuned_figure("call.local").is_some() && run.tuned_figure("nothing").is_none());
        assert_eq!(Run::parse(&serde_json::to_string(&run).unwrap()).unwrap(), run);
    }

    #[test]
    fn another_schema_is_refused_by_name() {
        let of = |text: &str| format!("{:#}", Run::parse(text).unwrap_err());
        assert_eq!(of(r#"{"schema": 7}"#), "has schema 7, this command reads schema 1");
        assert!(of(r#"{"figures": []}"#).contains("no schema version"));
        assert!(of("{").contains("no run of 'hanare bench --json'"));
        assert!(of(r#"{"schema": 1}"#).contains("no run of 'hanare bench --json'"));
    }
}
