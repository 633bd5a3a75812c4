//! Definitions of a figure and of a group of figures.

use anyhow::Result;

use super::lab::Lab;
pub use super::run::Better;
use super::samples::Samples;

/// The target of a figure: set before Hanare was built, from published figures of comparable
/// systems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// There is no target.
    None,
    /// The LWK's median over Linux'.
    Ratio(f64),
    /// The LWK's median itself.
    Value(f64),
}

/// One number that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// `group-like.name`; the guest prints samples under it.
    pub id: &'static str,
    /// Description in one line.
    pub what: &'static str,
    /// Unit of the samples.
    pub unit: &'static str,
    /// Which way is up.
    pub better: Better,
    /// Target of the figure, or none.
    pub target: Target,
}

impl Figure {
    /// A figure where less is better and nothing is promised.
    pub const fn lower(id: &'static str, unit: &'static str, what: &'static str) -> Self {
        Self { id, what, unit, better: Better::Lower, target: Target::None }
    }

    /// A figure where more is better and nothing is promised.
    pub const fn higher(id: &'static str, unit: &'static str, what: &'static str) -> Self {
        Self { better: Better::Higher, ..Self::lower(id, unit, what) }
    }

    /// Sets the target.
    pub const fn target(self, target: Target) -> Self {
        Self { target, ..self }
    }

    /// Whether the target is met; `None` where nothing is promised or nothing known.
    pub fn is_met(&self, median: f64, ratio: Option<f64>) -> Option<bool> {
        let (value, bound) = match self.target {
            Target::None => return None,
            Target::Ratio(bound) => (ratio?, bound),
            Target::Value(bound) => (median, bound),
        };
        Some(match self.better {
            Better::Lower => value <= bound,
            Better::Higher => value >= bound,
        })
    }
}

/// A program of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name of the program in PATH.
    pub program: &'static str,
    /// Debian's package.
    pub package: &'static str,
}

impl Tool {
    /// Whether the program is installed.
    fn is_there(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(self.program).is_file())
    }
}

/// Conditions under which a group can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// An instance.
    Instance,
    /// The right to boot an instance; none may exist.
    Machine,
    /// An instance, and a block device or a file on one (`--device`).
    Device,
    /// An instance, and programs of others.
    Tools(&'static [Tool]),
}

impl Needs {
    /// Reason why `lab` does not meet the condition; `None`: it does.
    pub fn missing(&self, lab: &Lab) -> Option<String> {
        match self {
            Needs::Instance => None,
            Needs::Machine => (!lab.may_boot()).then(|| "an instance is booted already".into()),
            Needs::Device => lab.device.is_none().then(|| "no device is named (--device)".into()),
            Needs::Tools(tools) => {
                tools.iter().find(|tool| !tool.is_there()).map(|Tool { program, package }| {
                    format!("{program} is not in PATH (apt-get install {package})")
                })
            }
        }
    }
}

/// Figures that are measured together.
pub struct Group {
    /// Name of the group; also the guest's, where the guest measures it.
    pub name: &'static str,
    /// Condition for measuring the group.
    pub needs: Needs,
    /// Figures of the group, in the order they are shown.
    pub figures: &'static [Figure],
    /// Measures all figures of the group.
    pub measure: fn(&mut Lab, &Group) -> Result<Samples>,
}

/// `measure` of a group that the guest measures by itself.
pub fn by_guest(lab: &mut Lab, group: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    lab.pairs(&[group.name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_meets_its_target_or_has_none() {
        let figure = Figure::lower("a", "ns", "").target(Target::Ratio(2.0));
        assert_eq!(figure.is_met(100.0, Some(1.9)), Some(true));
        assert_eq!(figure.is_met(100.0, Some(2.1)), Some(false));
        assert_eq!(figure.is_met(100.0, None), None);
        let figure = Figure::higher("a", "MiB/s", "").target(Target::Value(10.0));
        assert_eq!(figure.is_met(9.0, None), Some(false));
        assert_eq!(Figure::lower("a", "ns", "").is_met(1.0, Some(1.0)), None);
    }
}
