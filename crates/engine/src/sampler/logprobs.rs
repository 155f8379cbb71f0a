//! The model's own distribution over a row: log probabilities, and whether the row is sound.

use super::{exp, filter};
use crate::request::Logprob;

/// A row that no token can be chosen from.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NonFinite {
    /// NaN or +inf: the model or its arithmetic went wrong.
    #[error("the logit of token {id} is {value}")]
    Logit {
        /// Token.
        id: u32,
        /// The logit.
        value: f32,
    },
    /// Every entry is -inf.
    #[error("no token is left to choose: every logit is -inf")]
    AllMasked,
}

/// The largest logit. Entries of -inf are tokens that cannot be.
pub(super) fn largest(logits: &[f32]) -> Result<f32, NonFinite> {
    const LANES: usize = 16;
    let mut max = [f32::NEG_INFINITY; LANES];
    let mut broken = [0u32; LANES];
    let (whole, rest) = logits.as_chunks::<LANES>();
    for chunk in whole {
        for i in 0..LANES {
            max[i] = if chunk[i] > max[i] { chunk[i] } else { max[i] };
            broken[i] |= u32::from(is_broken(chunk[i]));
        }
    }
    if broken != [0; LANES] || rest.iter().any(|&logit| is_broken(logit)) {
        let id = super::position_u32(logits, is_broken);
        return Err(NonFinite::Logit { id, value: logits[id as usize] });
    }
    let max = max.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY { Err(NonFinite::AllMasked) } else { Ok(max) }
}

fn is_broken(logit: f32) -> bool {
    logit.is_nan() | (logit == f32::INFINITY)
}

/// The softmax of a row.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    logits: &'a [f32],
    /// Logarithm of the sum of the exponentials.
    log_sum: f64,
}

impl<'a> Distribution<'a> {
    /// Normalises a row `[n_vocab]`.
    ///
    /// # Errors
    /// A logit is NaN or infinite, or all are -inf.
    pub fn new(logits: &'a [f32]) -> Result<Distribution<'a>, NonFinite> {
        let max = largest(logits)?;
        let mut weights = [0.0; exp::BLOCK];
        let mut sum = 0.0;
        for block in logits.chunks(exp::BLOCK) {
            for (weight, logit) in weights.iter_mut().zip(block) {
                *weight = exp::exp_nonpositive(logit - max);
            }
            sum += exp::block_total(&weights[..block.len()]);
        }
        Ok(Distribution { logits, log_sum: f64::from(max) + sum.ln() })
    }

    /// Logarithm of the sum of the exponentials of the row.
    #[must_use]
    pub fn log_sum(&self) -> f64 {
        self.log_sum
    }

    /// Log probability of a token.
    #[must_use]
    pub fn logprob(&self, id: u32) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest f32")]
        let logprob = (f64::from(self.logits[id as usize]) - self.log_sum) as f32;
        logprob
    }

    /// The `n` likeliest tokens, likeliest first, the lower id among equals.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<Logprob> {
        let mut candidates = Vec::new();
        filter::top(self.logits, n, &mut candidates);
        candidates.iter().map(|c| Logprob { id: c.id, logprob: self.logprob(c.id) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rows_are_told_apart() {
        for n in [1, 16, 40] {
            for at in [0, n / 2, n - 1] {
                for value in [f32::NAN, f32::INFINITY] {
                    let mut logits = vec![1.0; n];
                    logits[at] = value;
                    let error = largest(&logits).unwrap_err();
                    assert!(matches!(error, NonFinite::Logit { id, .. } if id as usize == at), "{error}");
                }
            }
            assert_eq!(largest(&vec![f32::NEG_INFINITY; n]), Err(NonFinite::AllMasked));
        }
        assert_eq!(largest(&[f32::NEG_INFINITY, -3.0]), Ok(-3.0));
        assert_eq!(largest(&[]), Err(NonFinite::AllMasked));
    }

    #[test]
    fn logprobs_of_a_simple_row() {
        // Probabilities 1/2, 1/4, 1/8, 1/8.
        let ln2 = std::f32::consts::LN_2;
        let logits = [7.0 - ln2, 7.0 - 2.0 * ln2, 7.0 - 3.0 * ln2, 7.0 - 3.0 * ln2, f32::NEG_INFINITY];
        let distribution = Distribution::new(&logits).unwrap();
        for (id, n) in [(0, 1.0), (1, 2.0), (2, 3.0), (3, 3.0)] {
            assert!((distribution.logprob(id) + n * ln2).abs() < 1e-6);
        }
        assert_eq!(distribution.logprob(4), f32::NEG_INFINITY);
        let ids: Vec<u32> = distribution.top(10).iter().map(|t| t.id).collect();
        assert_eq!(ids, [0, 1, 2, 3], "what cannot be is not listed, equals come by id");
    }
}
