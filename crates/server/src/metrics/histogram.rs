//! A histogram that many threads fill.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values up to fixed bounds.
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for all beyond.
    counts: Vec<AtomicU64>,
    /// Sum of the values, in millionths.
    sum_millionths: AtomicU64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum_millionths: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, value: f64) {
        let place = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to an integer saturates")]
        self.sum_millionths.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    /// For each bound the number of values up to it; the last bound is infinite.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.counts.iter().scan(0, |sum, count| {
            *sum += count.load(Ordering::Relaxed);
            Some(*sum)
        });
        bounds.zip(counts)
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum_millionths.load(Ordering::Relaxed) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn values_fall_into_their_buckets() {
        let histogram = Histogram::new(&[0.1, 1.0]);
        for value in [0.05, 0.1, 0.5, 7.0] {
            histogram.observe(value);
        }
        let counts: Vec<_> = histogram.cumulative().collect();
        assert_eq!(counts, [(0.1, 2), (1.0, 3), (f64::INFINITY, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 7.65));
    }
}
