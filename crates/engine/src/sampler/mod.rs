//! From a row of logits to a token.
//!
//! The order is that of llama.cpp's default chain, because people's settings were tuned on it:
//! logit bias, penalties, top-k, top-p, min-p, temperature, draw. So top-p and min-p look at the
//! distribution before temperature; top-p's total is what top-k left. With temperature 0 the
//! largest logit wins after bias and penalties, the lowest id among equals, as `argmax` on a device.
//!
//! Each filter keeps a first part of one order (falling logit, then rising id), so what survives
//! all of them is described by its last candidate. The draw runs over the kept ids in rising order:
//! unlike an order by probability it does not change when two nearly equal logits swap places.
//! Nothing is shared between sequences but scratch memory.

mod exp;
mod filter;
mod logprobs;
mod params;
mod penalties;
mod random;

pub use logprobs::{Distribution, NonFinite};
pub use params::{LOGIT_BIAS_MAX, Sampling, SamplingError};
pub use random::Random;

use filter::Filters;
use penalties::Penalties;

/// Chooses the tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Random,
    penalties: Option<Penalties>,
}

/// Memory that sampling reuses from row to row; belongs to the engine, says nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Logits as they were before bias and penalties: id and value.
    adjusted: Vec<(u32, f32)>,
    /// Ids that the filters kept, rising; unused when nothing filters.
    kept: Vec<u32>,
    /// Weight of each kept id, or of every id when nothing filters.
    weights: Vec<f32>,
    filters: filter::Scratch,
}

impl Sampler {
    /// A sampler at the end of a prompt.
    ///
    /// # Errors
    /// The parameter that makes no sense.
    pub fn new(sampling: Sampling, seed: u64, prompt: &[u32], n_vocab: u32) -> Result<Sampler, SamplingError> {
        sampling.check(n_vocab)?;
        let mut penalties = Penalties::new(&sampling);
        if let Some(penalties) = &mut penalties {
            prompt.iter().for_each(|&id| penalties.accept(id));
        }
        Ok(Sampler { sampling, random: Random::new(seed), penalties })
    }

    /// The same sampler for another choice: it draws other numbers.
    #[must_use]
    pub fn for_choice(&self, choice: u32) -> Sampler {
        Sampler { random: self.random.stream(u64::from(choice)), ..self.clone() }
    }

    /// The largest logit of the model wins: the device can choose alone.
    #[must_use]
    pub fn is_plain_greedy(&self) -> bool {
        self.sampling.temperature == 0.0 && self.penalties.is_none() && self.sampling.logit_bias.is_empty()
    }

    /// Chooses token `index` of the answer from its row. The row is as it was afterwards.
    ///
    /// # Errors
    /// A logit is NaN or infinite, or none is left to choose.
    pub fn choose(&self, logits: &mut [f32], index: u32, scratch: &mut Scratch) -> Result<u32, NonFinite> {
        self.adjust(logits, &mut scratch.adjusted);
        let chosen = self.choose_adjusted(logits, index, scratch);
        // Backwards, so that an id that both bias and penalties changed gets its first value.
        for &(id, logit) in scratch.adjusted.iter().rev() {
            logits[id as usize] = logit;
        }
        chosen
    }

    /// Tells the sampler of a token that the sequence now has.
    pub fn accept(&mut self, id: u32) {
        if let Some(penalties) = &mut self.penalties {
            penalties.accept(id);
        }
    }

    fn choose_adjusted(&self, logits: &[f32], index: u32, scratch: &mut Scratch) -> Result<u32, NonFinite> {
        let max = logprobs::largest(logits)?;
        if self.sampling.temperature == 0.0 {
            return Ok(position_u32(logits, |logit| logit == max));
        }
        let filtered = self.weigh(logits, max, scratch);
        let place = pick(&scratch.weights, self.random.uniform(u64::from(index)));
        Ok(if filtered {
            scratch.kept[place]
        } else {
            u32::try_from(place).expect("a vocabulary has fewer than 2^32 entries")
        })
    }

    /// Applies bias and penalties and notes what they replaced.
    fn adjust(&self, logits: &mut [f32], adjusted: &mut Vec<(u32, f32)>) {
        adjusted.clear();
        for &(id, bias) in &self.sampling.logit_bias {
            adjusted.push((id, logits[id as usize]));
            logits[id as usize] += bias;
        }
        if let Some(penalties) = &self.penalties {
            penalties.apply(logits, adjusted);
        }
    }

    /// Fills `scratch.weights`, and `scratch.kept` if it returns true.
    fn weigh(&self, logits: &[f32], max: f32, scratch: &mut Scratch) -> bool {
        let Sampling { temperature, top_k, top_p, min_p, .. } = self.sampling;
        let filters = Filters { top_k: top_k as usize, top_p, min_p };
        let Scratch { kept, weights, filters: memory, .. } = scratch;
        weights.clear();
        if filters.keep_all(logits.len()) {
            weights.extend(logits.iter().map(|logit| exp::exp_nonpositive((logit - max) / temperature)));
            return false;
        }
        filters.keep(logits, max, kept, memory);
        // Two loops: the first gathers, so that the second is vector code.
        weights.extend(kept.iter().map(|&id| (logits[id as usize] - max) / temperature));
        weights.iter_mut().for_each(|x| *x = exp::exp_nonpositive(*x));
        true
    }
}

/// First place where the running sum of the weights exceeds `uniform` times their total.
fn pick(weights: &[f32], uniform: f64) -> usize {
    let mut target = uniform * exp::total(weights);
    let mut last = 0;
    for (block_idx, block) in weights.chunks(exp::BLOCK).enumerate() {
        let sum = exp::block_total(block);
        if target >= sum {
            target -= sum;
            continue;
        }
        for (i, &weight) in block.iter().enumerate() {
            if weight > 0.0 {
                last = block_idx * exp::BLOCK + i;
            }
            if target < f64::from(weight) {
                return last;
            }
            target -= f64::from(weight);
        }
        // The block's sum was rounded differently: the rest belongs to its last candidate.
        return last;
    }
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(last)
}

/// The first id of which `wanted` holds, 0 if there is none.
fn position_u32(logits: &[f32], wanted: impl Fn(f32) -> bool) -> u32 {
    // Whole blocks first: without an early exit the comparison is vector code.
    let in_block = |block: &[f32]| block.iter().fold(false, |any, &logit| any | wanted(logit));
    let first = logits.chunks(exp::BLOCK).position(in_block).unwrap_or(0) * exp::BLOCK;
    let place = logits[first..].iter().position(|&logit| wanted(logit)).map_or(0, |place| first + place);
    u32::try_from(place).expect("a vocabulary has fewer than 2^32 entries")
}

#[cfg(test)]
mod tests;
