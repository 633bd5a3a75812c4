//! Samples by figure, and what is said of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Kernel on which a sample was taken.
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
    /// Samples on the LWK.
    pub lwk: Vec<f64>,
    /// Samples on Linux; empty where Linux has no such figure.
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

/// A part of the samples that one can rely on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Range {
    /// Number of samples for which one is left out at each end. With few samples a single one is an
    /// event, with many an accident.
    const SAMPLES_PER_OUTLIER: usize = 10;

    /// The spread of sorted samples: all, but for the lowest and the highest tenth.
    fn of_sorted(sorted: &[f64]) -> Option<Self> {
        let out = sorted.len() / Self::SAMPLES_PER_OUTLIER;
        let kept = sorted.get(out..sorted.len() - out)?;
        Some(Self { low: *kept.first()?, high: *kept.last()? })
    }

    /// The range that has `value` as well.
    pub fn including(self, value: f64) -> Self {
        Self { low: self.low.min(value), high: self.high.max(value) }
    }

    /// Width of the range as a share of `value`; `None` if `value` is 0.
    pub fn share_of(self, value: f64) -> Option<f64> {
        (value != 0.0).then(|| (self.high - self.low) / value.abs())
    }
}

/// Minimum, median, maximum, spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Smallest.
    pub min: f64,
    /// Middle one, or the mean of the two in the middle.
    pub median: f64,
    /// Largest.
    pub max: f64,
    /// Range of the samples, but for outliers.
    pub spread: Range,
}

impl Summary {
    /// Summary of some samples; `None` if there are none.
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
        Some(Self { min, median, max, spread: Range::of_sorted(&sorted)? })
    }
}

impl Pair {
    /// The spread of the LWK's samples over Linux'. Both sides are measured in turn, so each round
    /// has a ratio of its own, which what slows both down leaves alone.
    pub fn ratio_spread(&self) -> Option<Range> {
        if self.linux.contains(&0.0) {
            return None;
        }
        if self.lwk.len() == self.linux.len() {
            let rounds = self.lwk.iter().zip(&self.linux).map(|(lwk, linux)| lwk / linux);
            return Some(Summary::of(&rounds.collect::<Vec<_>>())?.spread);
        }
        let (lwk, linux) = (Summary::of(&self.lwk)?.spread, Summary::of(&self.linux)?.spread);
        Some(Range { low: lwk.low / linux.high, high: lwk.high / linux.low })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_minimum_median_and_maximum() {
        assert_eq!(Summary::of(&[]), None);
        let summary = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((summary.min, summary.median, summary.max), (1.0, 2.0, 3.0));
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    }

    #[test]
    fn the_spread_leaves_out_a_tenth_at_each_end() {
        let spread = |count: u32| {
            let samples: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let Range { low, high } = Summary::of(&samples).unwrap().spread;
            (low, high)
        };
        assert_eq!(spread(1), (1.0, 1.0));
        assert_eq!(spread(5), (1.0, 5.0));
        assert_eq!(spread(20), (3.0, 18.0));
    }

    #[test]
    fn a_ratio_is_spread_as_the_rounds_are() {
        // The machine is twice as slow in the second round, for both.
        let pair = Pair { lwk: vec![3.0, 6.0], linux: vec![1.0, 2.0] };
        assert_eq!(pair.ratio_spread(), Some(Range { low: 3.0, high: 3.0 }));
        let pair = Pair { lwk: vec![3.0, 6.0], linux: vec![2.0] };
        assert_eq!(pair.ratio_spread(), Some(Range { low: 1.5, high: 3.0 }));
        let pair = Pair { lwk: vec![3.0], linux: vec![] };
        assert_eq!(pair.ratio_spread(), None);
        let pair = Pair { lwk: vec![3.0], linux: vec![0.0] };
        assert_eq!(pair.ratio_spread(), None);
    }
}
