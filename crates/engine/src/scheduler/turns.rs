//! How many of the sequences that decode go into a step.
//!
//! The time of a step jumps from some numbers of sequences to the next: plans are compiled for powers of two of tokens,
//! and tiles of matrices come in such sizes. Where the largest power of two below gives more tokens per second than all
//! together, only so many go into a step, and those left out go first in the next. The scheduler says whose turn it is;
//! here is how many, from times that this device took in this process and from nothing else.

use std::time::Duration;

/// Times that are kept of each number of sequences.
const TIMES_MAX: usize = 5;
/// Times without which nothing is said.
const TIMES_MIN: usize = 3;
/// Factor in tokens per second from which leaving sequences out is worth it. What times differ by from step to step comes on
/// top: see [`Times::fast`].
const GAIN_MIN: f64 = 1.01;
/// Of so many steps one is of the number that is thought slower, since times change as texts grow.
const STEPS_PER_TRIAL: u64 = 128;
/// The same while a number has few times: the first of them may have been taken while nothing was warm.
const STEPS_PER_TRIAL_UNSETTLED: u64 = 8;
/// Times of a number after which the first, perhaps cold, ones are outvoted.
const TIMES_SETTLED: usize = TIMES_MIN + 4;

/// Measures steps of nothing but decodes and says how many to compute in one.
#[derive(Debug)]
pub(super) struct Turns {
    /// By sequences of a step. Not by bucket: where a backend computes no more rows than it is given, steps of one bucket
    /// differ by a factor of two.
    times: Vec<Times>,
    /// Steps that were measured.
    n_steps: u64,
    /// When the last trial was chosen, in steps.
    last_trial: u64,
}

impl Turns {
    /// For up to `n_sequences` in a step.
    pub(super) fn new(n_sequences: u32) -> Turns {
        let times = vec![Times::default(); n_sequences as usize + 1];
        Turns { times, n_steps: 0, last_trial: 0 }
    }

    /// A step in which so many sequences decoded, and nothing else, took that long.
    pub(super) fn observe(&mut self, n_sequences: usize, took: Duration) {
        self.n_steps += 1;
        self.times[n_sequences].add(took.as_secs_f64(), self.n_steps);
    }

    /// How many of `n` sequences to decode in the next step: all, or the largest power of two below.
    pub(super) fn n_decodes(&mut self, n: usize) -> usize {
        let fewer = n.next_power_of_two() / 2;
        if n.is_power_of_two() || fewer == 0 || !self.times[n].is_known() {
            return n;
        }
        if !self.times[fewer].is_known() {
            return fewer;
        }
        let (of_all, of_fewer) = (self.times[n].fast() * fewer as f64, self.times[fewer].slow() * n as f64);
        let (better, other) = if of_fewer * GAIN_MIN < of_all { (fewer, n) } else { (n, fewer) };
        let Times { n: n_times, last_step, .. } = self.times[other];
        let is_due = match n_times < TIMES_SETTLED {
            true => self.n_steps - last_step >= STEPS_PER_TRIAL_UNSETTLED,
            false => self.n_steps - self.last_trial >= STEPS_PER_TRIAL,
        };
        if is_due {
            self.last_trial = self.n_steps;
            return other;
        }
        better
    }
}

/// The last times of one number of sequences.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Seconds; the oldest is overwritten.
    seconds: [f64; TIMES_MAX],
    n: usize,
    /// When the last was added, in steps.
    last_step: u64,
}

impl Times {
    fn add(&mut self, seconds: f64, step: u64) {
        self.seconds[self.n % TIMES_MAX] = seconds;
        self.n += 1;
        self.last_step = step;
    }

    fn is_known(&self) -> bool {
        self.n >= TIMES_MIN
    }

    /// The second fastest. To compare one number's fast time with the slow one of another asks for a gain beyond what
    /// steps differ by, and one step that was held up changes neither much.
    fn fast(&self) -> f64 {
        self.sorted(1)
    }

    /// The second slowest.
    fn slow(&self) -> f64 {
        self.sorted(self.n.min(TIMES_MAX) - 2)
    }

    fn sorted(&self, index: usize) -> f64 {
        let mut seconds = self.seconds;
        let seconds = &mut seconds[..self.n.min(TIMES_MAX)];
        seconds.sort_unstable_by(f64::total_cmp);
        seconds[index]
    }
}

#[cfg(test)]
pub(super) mod tests;
