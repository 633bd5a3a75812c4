//! Statistics of the quanta of one CPU.

use serde::Serialize;

/// Lengths of quanta of the same work, µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of quanta.
    pub quanta: usize,
    /// The shortest: what the work takes.
    pub min_us: f64,
    /// The median.
    pub median_us: f64,
    /// Length that 99.9 % of the quanta do not exceed.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Time that all quanta took beyond the shortest, of the whole time; parts per million.
    pub lost_ppm: f64,
}

impl Statistics {
    /// Statistics of some quanta; `None` if there are none.
    pub fn of(lengths_us: &[f64]) -> Option<Self> {
        let mut sorted = lengths_us.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let whole: f64 = sorted.iter().sum();
        let lost: f64 = sorted.iter().map(|length| length - min).sum();
        Some(Self {
            quanta: sorted.len(),
            min_us: min,
            median_us: quantile(&sorted, 0.5),
            p999_us: quantile(&sorted, 0.999),
            max_us: max,
            lost_ppm: if whole > 0.0 { lost / whole * 1e6 } else { 0.0 },
        })
    }
}

/// The smallest value that the given part of all does not exceed (nearest rank).
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Columns of a histogram whose edges grow by a constant factor.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    /// Lower edge of each, and how many values lie in it.
    pub columns: Vec<(f64, u64)>,
    /// From an edge to the next.
    pub factor: f64,
}

impl Histogram {
    /// Histogram of values between `low` and `high`, in `count` columns.
    pub fn of(values: &[f64], low: f64, high: f64, count: usize) -> Self {
        let factor = (high / low).powf(1.0 / count as f64).max(1.0 + 1e-9);
        let mut columns: Vec<(f64, u64)> =
            (0..count).map(|column| (low * factor.powf(column as f64), 0)).collect();
        for value in values {
            let column = ((value / low).ln() / factor.ln()).floor().max(0.0) as usize;
            columns[column.min(count - 1)].1 += 1;
        }
        Self { columns, factor }
    }
}

/// The shortest and the longest quantum of each stretch of time: (start in s, µs, µs).
pub fn envelope(lengths_us: &[f64], stretches: usize) -> Vec<(f64, f64, f64)> {
    let whole: f64 = lengths_us.iter().sum();
    let mut envelope: Vec<(f64, f64, f64)> = Vec::with_capacity(stretches);
    let (mut now, mut last) = (0.0, usize::MAX);
    for &length in lengths_us {
        let stretch = (now / whole * stretches as f64) as usize;
        match envelope.last_mut() {
            Some((_, low, high)) if stretch == last => {
                *low = low.min(length);
                *high = high.max(length);
            }
            _ => envelope.push((now / 1e6, length, length)),
        }
        last = stretch;
        now += length;
    }
    envelope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_what_exceeds_the_shortest() {
        assert_eq!(Statistics::of(&[]), None);
        let mut lengths = vec![100.0; 997];
        lengths.extend([150.0, 200.0, 1000.0]);
        let said = Statistics::of(&lengths).unwrap();
        assert_eq!((said.quanta, said.min_us, said.median_us), (1000, 100.0, 100.0));
        assert_eq!((said.p999_us, said.max_us), (200.0, 1000.0));
        let expected = 1050.0 / (99_700.0 + 1350.0) * 1e6;
        assert!((said.lost_ppm - expected).abs() < 1e-6, "{said:?}");
        assert_eq!(Statistics::of(&[5.0; 3]).unwrap().lost_ppm, 0.0);
    }

    #[test]
    fn a_histogram_has_every_value_once() {
        let histogram = Histogram::of(&[1.0, 1.5, 10.0, 99.0, 100.0], 1.0, 100.0, 2);
        let counts: Vec<u64> = histogram.columns.iter().map(|column| column.1).collect();
        assert_eq!(counts, [2, 3]);
        assert!((histogram.factor - 10.0).abs() < 1e-9);
        // All of the same length.
        let flat = Histogram::of(&[7.0; 4], 7.0, 7.0, 3);
        assert_eq!(flat.columns.iter().map(|column| column.1).sum::<u64>(), 4);
    }

    #[test]
    fn an_envelope_keeps_the_longest_of_each_stretch() {
        let lengths = [1e6, 1e6, 3e6, 1e6, 1e6, 1e6];
        assert_eq!(envelope(&lengths, 2), [(0.0, 1e6, 3e6), (5.0, 1e6, 1e6)]);
        assert_eq!(envelope(&lengths, 100).len(), lengths.len());
        assert_eq!(envelope(&[], 5), []);
    }
}
