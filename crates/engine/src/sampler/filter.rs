//! Which candidates survive top-k, top-p and min-p.
//!
//! All three keep a first part of one order: falling logit, then rising id. So nothing is ever
//! sorted but what top-k kept, or the one bin of a histogram in which top-p ends.

use super::exp::{exp_nonpositive, total};

/// Entries that are skipped together when none of them can be kept.
const BLOCK: usize = 32;
/// Bins of top-p's histogram, and how many of them cover one unit of logit: 32 units in all.
const N_BINS: usize = 2048;
const BINS_PER_UNIT: f32 = 64.0;

/// An entry of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) logit: f32,
    pub(super) id: u32,
}

impl Candidate {
    /// Falling logit, then rising id. Logits are not NaN here.
    fn order(&self, other: &Candidate) -> std::cmp::Ordering {
        other.logit.partial_cmp(&self.logit).unwrap_or(std::cmp::Ordering::Equal).then(self.id.cmp(&other.id))
    }
}

/// Memory for the filters.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    candidates: Vec<Candidate>,
    weights: Vec<f32>,
    bins: Vec<f64>,
}

/// The three filters in the order in which they apply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filters {
    pub(super) top_k: usize,
    pub(super) top_p: f32,
    pub(super) min_p: f32,
}

impl Filters {
    /// Nothing is filtered from a row of `n`.
    pub(super) fn keep_all(&self, n: usize) -> bool {
        self.whole_row(n) && self.top_p >= 1.0 && self.min_p <= 0.0
    }

    fn whole_row(&self, n: usize) -> bool {
        self.top_k == 0 || self.top_k >= n
    }

    /// Puts the ids that survive into `kept`, rising. The largest logit, `max`, always does.
    pub(super) fn keep(&self, logits: &[f32], max: f32, kept: &mut Vec<u32>, scratch: &mut Scratch) {
        kept.clear();
        if self.whole_row(logits.len()) {
            self.keep_of_row(logits, max, kept, scratch);
        } else {
            self.keep_of_top(logits, max, kept, scratch);
        }
    }

    fn keep_of_top(&self, logits: &[f32], max: f32, kept: &mut Vec<u32>, scratch: &mut Scratch) {
        let Scratch { candidates, weights, .. } = scratch;
        top(logits, self.top_k, candidates);
        weights.clear();
        weights.extend(candidates.iter().map(|c| exp_nonpositive(c.logit - max)));
        if self.top_p < 1.0 {
            let target = f64::from(self.top_p) * total(weights);
            candidates.truncate(first_reaching(weights.iter().copied(), target).saturating_add(1));
        }
        let passing = candidates.iter().zip(weights).filter(|(_, weight)| **weight >= self.min_p);
        kept.extend(passing.map(|(candidate, _)| candidate.id));
        kept.sort_unstable();
    }

    fn keep_of_row(&self, logits: &[f32], max: f32, kept: &mut Vec<u32>, scratch: &mut Scratch) {
        scratch.weights.clear();
        scratch.weights.extend(logits.iter().map(|logit| exp_nonpositive(logit - max)));
        let last = if self.top_p < 1.0 { self.last_of_row(logits, max, scratch) } else { None };
        // A little below the last one's weight: rounding may give a larger logit a smaller weight.
        let floor = last.map_or(0.0, |last| scratch.weights[last.id as usize] * 0.999).max(self.min_p);
        for_blocks_above(&scratch.weights, floor, |i, _| {
            let candidate = Candidate { logit: logits[i], id: id_of(i) };
            if last.is_none_or(|last| candidate.order(&last).is_le()) {
                kept.push(candidate.id);
            }
        });
    }

    /// The last candidate that top-p keeps of a whole row; none if it keeps all.
    ///
    /// Weights are added up in bins by logit, from the largest down; only the bin in which the sum
    /// reaches its target is sorted. Weights so small that all of them together are less than what
    /// may be left out are not looked at.
    fn last_of_row(&self, logits: &[f32], max: f32, scratch: &mut Scratch) -> Option<Candidate> {
        let Scratch { candidates, weights, bins } = scratch;
        let all = total(weights);
        let target = f64::from(self.top_p) * all;
        #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest f32")]
        let negligible = ((all - target) / logits.len() as f64) as f32;
        bins.clear();
        bins.resize(N_BINS, 0.0);
        for_blocks_above(weights, negligible, |i, weight| bins[bin_of(logits[i], max)] += f64::from(weight));
        let mut before = 0.0;
        let bin = bins.iter().position(|sum| {
            before += sum;
            before >= target
        })?;
        before -= bins[bin];
        candidates.clear();
        for_blocks_above(weights, negligible, |i, _| {
            if bin_of(logits[i], max) == bin {
                candidates.push(Candidate { logit: logits[i], id: id_of(i) });
            }
        });
        candidates.sort_unstable_by(Candidate::order);
        let in_order = candidates.iter().map(|c| weights[c.id as usize]);
        let place = first_reaching(in_order, target - before).min(candidates.len().saturating_sub(1));
        candidates.get(place).copied()
    }
}

/// The `k` first candidates of a row in order, fewer if the others are -inf.
///
/// A buffer of twice as many is cut back to `k` whenever it is full, and its last then is the floor
/// that a later entry must exceed. So almost every block is skipped after one comparison.
pub(super) fn top(logits: &[f32], k: usize, candidates: &mut Vec<Candidate>) {
    candidates.clear();
    if k == 0 {
        return;
    }
    let room = k.saturating_mul(2).max(64);
    let mut floor = f32::NEG_INFINITY;
    for (block_idx, block) in logits.chunks(BLOCK).enumerate() {
        if !block.iter().fold(false, |any, &logit| any | (logit > floor)) {
            continue;
        }
        for (i, &logit) in block.iter().enumerate() {
            if logit > floor {
                candidates.push(Candidate { logit, id: id_of(block_idx * BLOCK + i) });
            }
            if candidates.len() == room {
                candidates.select_nth_unstable_by(k - 1, Candidate::order);
                candidates.truncate(k);
                floor = candidates[k - 1].logit;
            }
        }
    }
    candidates.sort_unstable_by(Candidate::order);
    candidates.truncate(k);
}

/// Calls `f` with the place and value of every weight of at least `floor`.
fn for_blocks_above(weights: &[f32], floor: f32, mut f: impl FnMut(usize, f32)) {
    for (block_idx, block) in weights.chunks(BLOCK).enumerate() {
        if !block.iter().fold(false, |any, &weight| any | (weight >= floor)) {
            continue;
        }
        for (i, &weight) in block.iter().enumerate() {
            if weight >= floor {
                f(block_idx * BLOCK + i, weight);
            }
        }
    }
}

/// The first place at which the running sum reaches `target`; `usize::MAX` if it never does.
fn first_reaching(weights: impl Iterator<Item = f32>, target: f64) -> usize {
    let mut sum = 0.0;
    weights
        .into_iter()
        .position(|weight| {
            sum += f64::from(weight);
            sum >= target
        })
        .unwrap_or(usize::MAX)
}

/// Rises as the logit falls, so a bin holds a run of the order.
fn bin_of(logit: f32, max: f32) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "not negative; a cast saturates")]
    let bin = ((max - logit) * BINS_PER_UNIT) as usize;
    bin.min(N_BINS - 1)
}

fn id_of(place: usize) -> u32 {
    u32::try_from(place).expect("a vocabulary has fewer than 2^32 entries")
}
