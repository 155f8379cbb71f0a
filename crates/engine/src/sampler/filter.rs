//! Which candidates survive top-k, top-p and min-p.
//!
//! All three keep a first part of one order: falling logit, then rising id. So nothing is ever
//! sorted but what top-k kept, or the one bin of a histogram in which top-p ends.

use super::exp::{exp_nonpositive, total};

/// Entries that are skipped together when none of them can be kept.
const BLOCK: usize = 32;
/// Bins of top-p's histogram, and how many of them cover one unit of logit: 32 units in all.
const N_BINS: usize = 2048;
const _: () = assert!(N_BINS.is_power_of_two(), "a bin is cut out of the low bits");
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
#[derive(Debug)]
pub(super) struct Scratch {
    candidates: Vec<Candidate>,
    weights: Vec<f32>,
    bins: Box<[f64; N_BINS]>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { candidates: Vec::new(), weights: Vec::new(), bins: Box::new([0.0; N_BINS]) }
    }
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
        if self.top_p >= 1.0 {
            return collect_at_least(&scratch.weights, self.min_p, kept);
        }
        let all = total(&scratch.weights);
        let target = f64::from(self.top_p) * all;
        // All weights below this together are no more than what may be left out, so the sum reaches
        // its target above it; mostly it does so among far fewer.
        let negligible = (all - target) / logits.len() as f64;
        for floor in [negligible * 64.0, negligible] {
            #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest f32")]
            let floor = floor as f32;
            collect_at_least(&scratch.weights, floor.max(self.min_p), kept);
            if let Some(last) = last_before(target, logits, max, kept, scratch) {
                return retain(kept, |id| {
                    let logit = logits[id as usize];
                    (logit > last.logit) | ((logit == last.logit) & (id <= last.id))
                });
            }
        }
    }
}

/// The candidate at which the sum of the weights of `ids`, from the largest down, reaches `target`;
/// none if it never does. Weights are added up in bins by logit, and only the bin in which the sum
/// passes its target is sorted.
fn last_before(target: f64, logits: &[f32], max: f32, ids: &[u32], scratch: &mut Scratch) -> Option<Candidate> {
    let Scratch { candidates, weights, bins } = scratch;
    bins.fill(0.0);
    for &id in ids {
        bins[bin_of(logits[id as usize], max)] += f64::from(weights[id as usize]);
    }
    let mut before = 0.0;
    let bin = bins.iter().position(|sum| {
        before += sum;
        before >= target
    })?;
    before -= bins[bin];
    candidates.clear();
    let in_bin =
        ids.iter().map(|&id| Candidate { logit: logits[id as usize], id }).filter(|c| bin_of(c.logit, max) == bin);
    candidates.extend(in_bin);
    candidates.sort_unstable_by(Candidate::order);
    let in_order = candidates.iter().map(|c| weights[c.id as usize]);
    let place = first_reaching(in_order, target - before).min(candidates.len().saturating_sub(1));
    candidates.get(place).copied()
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

/// Puts the places of all weights of at least `floor` into `ids`, rising.
///
/// Blocks without any are skipped. Inside a block there is no branch to mispredict: every place is
/// written, and the count moves on only if it is wanted.
fn collect_at_least(weights: &[f32], floor: f32, ids: &mut Vec<u32>) {
    ids.clear();
    for (block_idx, block) in weights.chunks(BLOCK).enumerate() {
        if !block.iter().fold(false, |any, &weight| any | (weight >= floor)) {
            continue;
        }
        let first = id_of(block_idx * BLOCK);
        let mut passing = [0; BLOCK];
        let mut n = 0;
        for (id, &weight) in (first..).zip(block) {
            passing[n] = id;
            n += usize::from(weight >= floor);
        }
        ids.extend_from_slice(&passing[..n]);
    }
}

/// `Vec::retain` without a branch on the outcome.
fn retain(ids: &mut Vec<u32>, keep: impl Fn(u32) -> bool) {
    let mut n = 0;
    for i in 0..ids.len() {
        let id = ids[i];
        ids[n] = id;
        n += usize::from(keep(id));
    }
    ids.truncate(n);
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
    /// 2^23: adding it rounds to an integer, which then stands in the low bits. A cast would do the
    /// same with branches.
    const SHIFT: f32 = 8_388_608.0;
    const LAST: f32 = (N_BINS - 1) as f32;
    let place = ((max - logit) * BINS_PER_UNIT).min(LAST);
    (place + SHIFT).to_bits() as usize % N_BINS
}

fn id_of(place: usize) -> u32 {
    u32::try_from(place).expect("a vocabulary has fewer than 2^32 entries")
}
