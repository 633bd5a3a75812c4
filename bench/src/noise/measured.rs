//! Results of the measurement of one CPU.

use serde::Serialize;

use super::sides::Place;
use super::statistics::Statistics;
use hanare_common::interrupts::Source;

/// Results of the measurement of one CPU.
#[derive(Serialize)]
pub struct Measured {
    /// The CPU.
    #[serde(flatten)]
    pub place: Place,
    /// Statistics of the CPU's quanta.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// During `seconds` of the run.
    pub interrupts: u64,
    /// By kind; of the LWK exceptions, too.
    pub sources: Vec<Source>,
    /// Exceptions of the LWK's CPU; Linux does not count them.
    pub exceptions: Option<u64>,
    /// Each quantum, in the order of time.
    #[serde(skip)]
    pub lengths_us: Vec<f64>,
}

impl Measured {
    /// A line of the legend.
    pub fn label(&self) -> String {
        format!(
            "{}: lost {:.0} ppm, {} interrupts",
            self.place.describe(),
            self.statistics.lost_ppm,
            self.interrupts
        )
    }
}
