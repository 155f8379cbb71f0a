//! A device without a model: what it keeps for a token is a hash of that token and all before it, so
//! a wrong page, a page too early or a wrong recurrent state shows in everything that follows. Layers with
//! a window keep the same hashes in their own pages, and all that a step sees of them is looked at.

use std::time::Duration;

use zinc_graph::Batch;
use zinc_graph::batch::PageGroup;

use crate::kv::{KvLimits, StateCopy};

/// The hash before the first token.
const NOTHING: u64 = 0x9e37_79b9_7f4a_7c15;
/// Ids of the simulated vocabulary; few, so that texts often begin alike.
pub(super) const N_VOCAB: u32 = 5;
/// The id that ends an answer.
pub(super) const STOP: u32 = 0;

/// Pages and slots of hashes.
pub(super) struct Device {
    /// `[n_pages * 16]`.
    kv: Vec<u64>,
    /// Tokens that a window has, and `[n_window_pages * 16]`; none for a model without windows.
    window: Option<(u32, Vec<u64>)>,
    /// `[n_slots]`; none for a model without recurrent state.
    states: Option<Vec<u64>>,
}

impl Device {
    pub(super) fn new(limits: &KvLimits) -> Device {
        let places = |n_pages: u32| vec![0; n_pages as usize * 16];
        Device {
            kv: places(limits.n_pages),
            window: limits.window.map(|window| (window.tokens, places(window.n_pages))),
            states: limits.is_recurrent.then(|| vec![0; (limits.n_slots + limits.n_snapshots) as usize]),
        }
    }

    pub(super) fn copy(&mut self, copy: StateCopy) {
        if let Some(states) = &mut self.states {
            states[copy.to as usize] = states[copy.from as usize];
        }
    }

    /// Computes a step; the hashes of its output rows.
    pub(super) fn compute(&mut self, batch: &Batch, outputs: &mut Vec<u64>) {
        outputs.clear();
        let mut wanted = batch.output_rows.iter().copied().peekable();
        for run in batch.runs() {
            let first = run.rows.start;
            let (seq, position) = (batch.seq_idx[first], batch.positions[first]);
            let mut hash = match position {
                0 => NOTHING,
                _ => self.kv[batch.slot_of(PageGroup::Full, seq, position - 1) as usize],
            };
            if let Some(states) = &self.states {
                let state = if run.fresh { NOTHING } else { states[run.state_slot as usize] };
                assert_eq!(state, hash, "the recurrent state is that of other tokens");
            }
            for row in run.rows.clone() {
                hash = after(hash, batch.ids[row]);
                self.kv[batch.full.kv_slots[row] as usize] = hash;
                if let Some((_, kv)) = &mut self.window {
                    kv[batch.window.kv_slots[row] as usize] = hash;
                }
                if wanted.next_if(|&next| next as usize == row).is_some() {
                    outputs.push(hash);
                }
            }
            self.look_through_window(batch, seq, position, batch.positions[run.rows.end - 1]);
            if let Some(states) = &mut self.states {
                states[run.state_slot as usize] = hash;
            }
        }
    }

    /// Everything that the tokens from `first` to `last` of a sequence see through a window is what was written for it.
    fn look_through_window(&self, batch: &Batch, seq: u32, first: u32, last: u32) {
        let Some((window, kv)) = &self.window else { return };
        for position in (first + 1).saturating_sub(*window)..=last {
            let seen = kv[batch.slot_of(PageGroup::Window, seq, position) as usize];
            let written = self.kv[batch.slot_of(PageGroup::Full, seq, position) as usize];
            assert_eq!(seen, written, "a window shows what other tokens left at {position}");
        }
    }

    /// What is kept at a place of the pool.
    pub(super) fn at(&self, slot: u32) -> u64 {
        self.kv[slot as usize]
    }
}

/// The hash after one token more.
fn after(hash: u64, id: u32) -> u64 {
    let mixed = (hash ^ u64::from(id).wrapping_add(1)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// The hash of a text.
pub(super) fn hash(tokens: &[u32]) -> u64 {
    tokens.iter().fold(NOTHING, |hash, &id| after(hash, id))
}

/// The token that a choice puts after a text.
pub(super) fn choose(hash: u64, choice: u32) -> u32 {
    let mixed = after(hash, choice.wrapping_mul(977));
    match mixed % 40 {
        0 => STOP,
        _ => 1 + u32::try_from((mixed >> 8) % u64::from(N_VOCAB - 1)).expect("below the vocabulary"),
    }
}

/// A hash for the next token, kept up as a text grows.
pub(super) fn grown(hash: u64, tokens: &[u32]) -> u64 {
    tokens.iter().fold(hash, |hash, &id| after(hash, id))
}

/// The hash before any token.
pub(super) const fn empty() -> u64 {
    NOTHING
}

/// What steps cost.
#[derive(Clone, Copy, Debug)]
pub(super) enum Costs {
    /// As much for 5 tokens as for 8, and hardly less for one than for 4: fewer at a time are often faster.
    Buckets,
    /// As much for every token, and up to a tenth more now and then.
    Linear,
}

impl Costs {
    pub(super) fn of_seed(seed: u64) -> Costs {
        if seed % 3 == 2 { Costs::Linear } else { Costs::Buckets }
    }

    /// The time of a step.
    pub(super) fn step(self, n_tokens: u32, step: u64) -> Duration {
        Duration::from_micros(match self {
            Costs::Buckets if n_tokens <= 4 => 1000 + 10 * u64::from(n_tokens),
            Costs::Buckets => 300 * u64::from(n_tokens.next_power_of_two()),
            Costs::Linear => u64::from(n_tokens) * (1000 + after(step, 0) % 100),
        })
    }
}
