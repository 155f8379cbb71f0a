//! What clients ask for: random numbers from a seed, and texts that often begin as others did.

use std::time::{Duration, Instant};

use super::device::{self, N_VOCAB, STOP};
use crate::request::{PromptCache, Request};
use crate::sequence::{Bounds, Sequence};

/// Bounds of every simulated sequence.
pub(super) const BOUNDS: Bounds = Bounds { context_tokens: 300, n_vocab: N_VOCAB };
/// Conversations that may be continued.
const N_PAST: usize = 6;

/// A source of requests.
pub(super) struct Workload {
    state: u64,
    past: Vec<Vec<u32>>,
}

impl Workload {
    pub(super) fn new(seed: u64) -> Workload {
        Workload { state: seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1), past: Vec::new() }
    }

    /// A number below `n`: SplitMix64.
    pub(super) fn draw(&mut self, n: u32) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        u32::try_from((u128::from(z) * u128::from(n)) >> 64).expect("below n")
    }

    pub(super) fn request(&mut self, now: Instant) -> Request {
        let mut prompt = match self.draw(4) {
            0 if !self.past.is_empty() => {
                let nth = self.draw(u32::try_from(self.past.len()).expect("few")) as usize;
                self.past[nth].clone()
            }
            _ => Vec::new(),
        };
        let n_new = match self.draw(4) {
            0 => 1,
            1 => 1 + self.draw(250),
            _ => 1 + self.draw(40),
        };
        prompt.extend((0..n_new).map(|_| 1 + self.draw(N_VOCAB - 1)));
        prompt.truncate(BOUNDS.context_tokens as usize - 1);
        let n_prompt = u32::try_from(prompt.len()).expect("shorter than the context");
        Request {
            n_choices: if self.draw(5) == 0 { 1 + self.draw(5) } else { 1 },
            stop_ids: vec![STOP],
            deadline: (self.draw(20) == 0).then(|| now + Duration::from_millis(u64::from(self.draw(200)))),
            cache: match self.draw(8) {
                0 => PromptCache::Off,
                1 => PromptCache::Salted(7),
                _ => PromptCache::Shared,
            },
            boundaries: (0..self.draw(3)).map(|_| self.draw(n_prompt + 1)).collect(),
            max_tokens: 1 + self.draw(200),
            ..Request::greedy(prompt, 1)
        }
    }

    /// An answer is what the device gives for its prompt, whatever happened on the way.
    pub(super) fn check_answer(&mut self, sequence: &Sequence) {
        let n_prompt = sequence.n_prompt() as usize;
        let mut hash = device::hash(&sequence.tokens[..n_prompt]);
        for &token in &sequence.tokens[n_prompt..] {
            assert_eq!(token, device::choose(hash, sequence.id.choice), "{} says something else", sequence.id);
            hash = device::grown(hash, &[token]);
        }
        let text = sequence.tokens.clone();
        if self.past.len() < N_PAST {
            self.past.push(text);
        } else {
            let nth = self.draw(u32::try_from(N_PAST).expect("few")) as usize;
            self.past[nth] = text;
        }
    }
}
