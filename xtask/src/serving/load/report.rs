//! What a load has come to: outcomes, times to the first token, memory.

use std::time::Duration;

use super::Outcome;

/// Failures that are shown.
const SHOWN_MAX: usize = 5;
/// Growth of memory that still counts as flat, as one part in so many or in bytes: the allocator's rounding.
const GROWTH_SHARE_MAX: u64 = 20;
const GROWTH_BYTES_MAX: u64 = 8 << 20;
/// A run shorter than this ends while memory is still touched for the first time; its growth says nothing.
const SECONDS_JUDGED: f64 = 60.0;
/// Memory is judged over so many parts of the run.
const PARTS: usize = 5;

/// Memory of a process that no file backs, and all of it, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    anonymous: u64,
    resident: u64,
}

impl Memory {
    /// As Linux tells; nothing elsewhere.
    pub(super) fn of(pid: u32) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
        };
        Some(Memory { anonymous: field("RssAnon:")?, resident: field("VmRSS:")? })
    }
}

/// What a load has come to.
#[derive(Debug, Default)]
pub(super) struct Report {
    n_whole: usize,
    n_left: usize,
    n_refused: usize,
    failures: Vec<String>,
    first_tokens: Vec<Duration>,
    /// Samples, oldest first.
    pub(super) memory: Vec<Memory>,
    pub(super) tokens_per_second: f64,
}

impl Report {
    pub(super) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome { failure: Some(failure), .. } => self.failures.push(failure),
            Outcome { is_refused: true, .. } => self.n_refused += 1,
            Outcome { is_whole: true, .. } => self.n_whole += 1,
            _ => self.n_left += 1,
        }
        self.first_tokens.extend(outcome.first_token);
    }

    /// Whether an answer was read to its end.
    pub(super) fn has_whole(&self) -> bool {
        self.n_whole > 0
    }

    pub(super) fn print(&mut self, streams: usize, seconds: f64) {
        self.first_tokens.sort();
        let n = self.n_whole + self.n_left + self.n_refused + self.failures.len();
        println!(
            "{streams} streams for {seconds:.0} s: {n} requests, {} read to the end, {} left by their reader, {} refused \
             with a time to come again, {} failed; {:.0} tokens/s in all",
            self.n_whole,
            self.n_left,
            self.n_refused,
            self.failures.len(),
            self.tokens_per_second,
        );
        let ms = |share: f64| percentile(&self.first_tokens, share).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        println!(
            "time to first token: p50 {:.0} ms, p90 {:.0} ms, p99 {:.0} ms, most {:.0} ms ({} seen)",
            ms(0.5),
            ms(0.9),
            ms(0.99),
            ms(1.0),
            self.first_tokens.len()
        );
        let parts: Vec<String> = self.parts().iter().map(|bytes| mebibytes(*bytes)).collect();
        let most = self.memory.iter().map(|memory| memory.resident).max().unwrap_or(0);
        println!(
            "memory without the mapped file, medians of {PARTS} parts of the run: {}; resident at most {}",
            parts.join(", "),
            mebibytes(most)
        );
    }

    /// Whether everything held in a run of so many seconds.
    pub(super) fn verdict(&self, seconds: f64) -> Result<(), String> {
        if let [first, ..] = self.failures.as_slice() {
            let shown: Vec<&str> = self.failures.iter().take(SHOWN_MAX).map(String::as_str).collect();
            let n = self.failures.len();
            return Err(format!("{n} requests failed, the first with: {first}\n{}", shown.join("\n")));
        }
        if !self.has_whole() {
            return Err("no request was read to its end".to_owned());
        }
        if seconds < SECONDS_JUDGED {
            return Ok(());
        }
        let parts = self.parts();
        let (Some(&before), Some(&after)) = (parts.get(1), parts.last()) else { return Ok(()) };
        let most = before + GROWTH_BYTES_MAX.max(before / GROWTH_SHARE_MAX);
        if after > most {
            return Err(format!(
                "memory grew from {} to {} while the load was the same",
                mebibytes(before),
                mebibytes(after)
            ));
        }
        Ok(())
    }

    /// The median of anonymous memory in each part of the run.
    fn parts(&self) -> Vec<u64> {
        let size = self.memory.len().div_ceil(PARTS).max(1);
        let median = |part: &[Memory]| {
            let mut sorted: Vec<u64> = part.iter().map(|memory| memory.anonymous).collect();
            sorted.sort_unstable();
            sorted[sorted.len() / 2]
        };
        self.memory.chunks(size).map(median).collect()
    }
}

/// The value below which a share of a sorted list lies.
fn percentile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let last = sorted.len().checked_sub(1)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of the list")]
    let index = (share * last as f64).round() as usize;
    sorted.get(index).copied()
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::{Memory, Report, percentile};
    use std::time::Duration;

    fn report(megabytes: [u64; 10]) -> Report {
        let memory = megabytes.map(|n| Memory { anonymous: n << 20, resident: n << 20 });
        Report { n_whole: 1, memory: memory.to_vec(), ..Report::default() }
    }

    #[test]
    fn growth_is_found_and_warming_up_is_not() {
        assert!(report([10, 50, 200, 200, 201, 199, 203, 200, 204, 205]).verdict(300.0).is_ok());
        let error = report([10, 50, 200, 200, 210, 220, 230, 240, 250, 260]).verdict(300.0).unwrap_err();
        assert!(error.starts_with("memory grew from 200.0 MiB to 260.0 MiB"), "{error}");
    }

    #[test]
    fn percentiles_are_values_of_the_list() {
        let list: Vec<Duration> = (0..101).map(Duration::from_millis).collect();
        let ms = |share| percentile(&list, share).map(|time| time.as_millis());
        assert_eq!((ms(0.5), ms(0.99), ms(1.0)), (Some(50), Some(99), Some(100)));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
