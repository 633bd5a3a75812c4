//! Samples by figure, and what is said of them.

use std::collections::BTreeMap;

use serde::Serialize;

/// Where a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The Linux beside the LWK.
    Linux,
    /// The LWK.
    Lwk,
}

/// The samples of one figure: one per round and side.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// Of the LWK.
    pub lwk: Vec<f64>,
    /// Of Linux; empty where there is no such thing.
    pub linux: Vec<f64>,
}

/// All samples of a group, by the figures' ids.
#[derive(Clone, Debug, Default)]
pub struct Samples(BTreeMap<String, Pair>);

impl Samples {
    /// Adds a sample.
    pub fn add(&mut self, side: Side, id: &str, value: f64) {
        let pair = self.0.entry(id.into()).or_default();
        match side {
            Side::Linux => pair.linux.push(value),
            Side::Lwk => pair.lwk.push(value),
        }
    }

    /// The samples of a figure.
    pub fn get(&self, id: &str) -> Option<&Pair> {
        self.0.get(id)
    }
}

/// Minimum, median and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Smallest.
    pub min: f64,
    /// Middle one, or the mean of the two in the middle.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// Of some samples; `None` of none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[half]
        } else {
            f64::midpoint(sorted[half - 1], sorted[half])
        };
        Some(Self { min, median, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_minimum_median_and_maximum() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(
            Summary::of(&[3.0, 1.0, 2.0]),
            Some(Summary { min: 1.0, median: 2.0, max: 3.0 })
        );
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    }
}
