//! Which bytes of a file are there: a sorted list of stretches that do not touch.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Stretches of bytes, in order, none empty, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// All bytes before `end`.
    pub(crate) fn up_to(end: u64) -> Ranges {
        let mut ranges = Ranges::default();
        ranges.insert(0..end);
        ranges
    }

    /// Adds a stretch, which may overlap others.
    pub(crate) fn insert(&mut self, mut new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let first = self.0.partition_point(|old| old.end < new.start);
        let last = self.0.partition_point(|old| old.start <= new.end);
        if first < last {
            new = new.start.min(self.0[first].start)..new.end.max(self.0[last - 1].end);
        }
        self.0.splice(first..last, [new]);
    }

    /// Bytes in all.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Where the first stretch ends if it begins at byte 0, or else 0.
    pub(crate) fn prefix(&self) -> u64 {
        self.0.first().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    /// Where the last stretch ends.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |last| last.end)
    }

    /// The first stretch before `size` that is neither here nor in `others`.
    pub(crate) fn first_gap(&self, others: &[Range<u64>], size: u64) -> Option<Range<u64>> {
        let mut taken = self.clone();
        others.iter().for_each(|other| taken.insert(other.clone()));
        let start = taken.prefix();
        let end = taken.0.iter().map(|range| range.start).find(|&at| at > start).unwrap_or(size);
        (start < size).then_some(start..end.min(size))
    }
}

impl TryFrom<Vec<(u64, u64)>> for Ranges {
    type Error = &'static str;

    fn try_from(pairs: Vec<(u64, u64)>) -> Result<Ranges, &'static str> {
        if pairs.iter().any(|(start, end)| start >= end) {
            return Err("a stretch of bytes ends before it begins");
        }
        let mut ranges = Ranges::default();
        pairs.into_iter().for_each(|(start, end)| ranges.insert(start..end));
        Ok(ranges)
    }
}

impl From<Ranges> for Vec<(u64, u64)> {
    fn from(ranges: Ranges) -> Vec<(u64, u64)> {
        ranges.0.into_iter().map(|range| (range.start, range.end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    /// Against a plain set of bytes.
    #[allow(clippy::cast_possible_truncation, reason = "places in a list of 24")]
    #[test]
    fn stretches_are_the_bytes_that_were_put_in() {
        const SIZE: u64 = 24;
        let mut state = 1u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..500 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; SIZE as usize]);
            for _ in 0..next(6) {
                let start = next(SIZE);
                let end = start + next(SIZE - start + 1);
                ranges.insert(start..end);
                (start..end).for_each(|at| bytes[at as usize] = true);
                assert_eq!(ranges.n_bytes(), bytes.iter().filter(|there| **there).count() as u64);
                let missing = bytes.iter().position(|there| !there).map(|at| at as u64);
                assert_eq!(ranges.prefix(), missing.unwrap_or(SIZE), "{ranges:?}");
                assert_eq!(ranges.end(), bytes.iter().rposition(|there| *there).map_or(0, |at| at as u64 + 1));
                let claim = next(SIZE)..SIZE;
                let is_free = |at: &u64| !bytes[*at as usize] && !claim.contains(at);
                let gap = ranges.first_gap(std::slice::from_ref(&claim), SIZE);
                assert_eq!(gap.as_ref().map(|gap| gap.start), (0..SIZE).find(is_free));
                let is_whole = |gap: &std::ops::Range<u64>| {
                    gap.clone().all(|at| is_free(&at)) && (gap.end == SIZE || !is_free(&gap.end))
                };
                assert!(gap.as_ref().is_none_or(is_whole), "{ranges:?} {gap:?}");
            }
            assert!(ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start), "{ranges:?}");
            let text = serde_json::to_string(&ranges).unwrap();
            assert_eq!(serde_json::from_str::<Ranges>(&text).unwrap(), ranges);
        }
        assert!(serde_json::from_str::<Ranges>("[[3, 3]]").is_err());
    }
}
