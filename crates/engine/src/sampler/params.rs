//! The parameters of sampling and what makes sense of them.

/// Most entries of a logit bias.
pub const LOGIT_BIAS_MAX: usize = 4096;

// Far beyond any use, and small enough that no adjustment turns a finite logit into an infinite
// one: such a logit is always the model's.
const REPETITION_MIN: f32 = 0.01;
const PENALTY_MAX: f32 = 1e3;
const BIAS_MAX: f32 = 1e6;

/// How tokens are chosen. See the module for the order in which the parts apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 chooses the largest.
    pub temperature: f32,
    /// Keeps that many of the largest logits; 0 keeps all.
    pub top_k: u32,
    /// Keeps the fewest candidates whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keeps candidates of at least this share of the largest probability; 0 keeps all.
    pub min_p: f32,
    /// A positive logit of a token in the window is divided by it, a negative one multiplied; 1 is none.
    pub repetition_penalty: f32,
    /// Subtracted from the logit of a token that is in the window; 0 is none.
    pub presence_penalty: f32,
    /// Subtracted for each time that the token is in the window; 0 is none.
    pub frequency_penalty: f32,
    /// The penalties look at that many last tokens, those of the prompt included; `u32::MAX` is all.
    pub penalty_window: u32,
    /// Added to the logits of these ids before anything else; -inf bans an id.
    pub logit_bias: Vec<(u32, f32)>,
}

impl Sampling {
    /// The largest logit wins.
    #[must_use]
    pub const fn greedy() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            penalty_window: 0,
            logit_bias: Vec::new(),
        }
    }

    /// Every parameter is in its range.
    pub(crate) fn check(&self, n_vocab: u32) -> Result<(), SamplingError> {
        let shift = |value: f32| value.abs() <= PENALTY_MAX;
        let repetition = REPETITION_MIN..=1.0 / REPETITION_MIN;
        let ranges = [
            ("temperature", self.temperature, self.temperature >= 0.0, "finite and at least 0"),
            ("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0 and at most 1"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "at least 0 and at most 1"),
            (
                "repetition_penalty",
                self.repetition_penalty,
                repetition.contains(&self.repetition_penalty),
                "0.01 to 100",
            ),
            ("presence_penalty", self.presence_penalty, shift(self.presence_penalty), "-1000 to 1000"),
            ("frequency_penalty", self.frequency_penalty, shift(self.frequency_penalty), "-1000 to 1000"),
        ];
        for (name, value, in_range, rule) in ranges {
            if !in_range || !value.is_finite() {
                return Err(SamplingError::Range { name, value, rule });
            }
        }
        if self.logit_bias.len() > LOGIT_BIAS_MAX {
            return Err(SamplingError::BiasTooLong { n: self.logit_bias.len() });
        }
        for &(id, bias) in &self.logit_bias {
            if id >= n_vocab {
                return Err(SamplingError::BiasId { id, n_vocab });
            }
            if bias.abs() > BIAS_MAX && bias != f32::NEG_INFINITY || bias.is_nan() {
                return Err(SamplingError::Range {
                    name: "logit_bias",
                    value: bias,
                    rule: "-1000000 to 1000000, or -inf",
                });
            }
        }
        Ok(())
    }

    pub(super) fn has_penalties(&self) -> bool {
        let off = self.repetition_penalty == 1.0 && self.presence_penalty == 0.0 && self.frequency_penalty == 0.0;
        self.penalty_window > 0 && !off
    }
}

/// A parameter that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A number is out of its range.
    #[error("`{name}` is {value}; it must be {rule}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f32,
        /// Its range.
        rule: &'static str,
    },
    /// A bias for a token that does not exist.
    #[error("`logit_bias` names token {id}, the vocabulary has {n_vocab}")]
    BiasId {
        /// The id.
        id: u32,
        /// Entries of the vocabulary.
        n_vocab: u32,
    },
    /// Too many biases.
    #[error("`logit_bias` has {n} entries, at most {LOGIT_BIAS_MAX} are taken")]
    BiasTooLong {
        /// How many there are.
        n: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Sampling)) -> Option<String> {
        let mut sampling = Sampling::greedy();
        change(&mut sampling);
        sampling.check(100).err().map(|e| e.to_string())
    }

    #[test]
    fn senseless_values_are_refused_by_name() {
        let message = |name: &str, value: &str, rule: &str| Some(format!("`{name}` is {value}; it must be {rule}"));
        assert_eq!(check(|s| s.temperature = -0.5), message("temperature", "-0.5", "finite and at least 0"));
        assert_eq!(check(|s| s.temperature = f32::NAN), message("temperature", "NaN", "finite and at least 0"));
        assert_eq!(check(|s| s.temperature = f32::INFINITY), message("temperature", "inf", "finite and at least 0"));
        assert_eq!(check(|s| s.top_p = 0.0), message("top_p", "0", "above 0 and at most 1"));
        assert_eq!(check(|s| s.top_p = 1.5), message("top_p", "1.5", "above 0 and at most 1"));
        assert_eq!(check(|s| s.min_p = -1.0), message("min_p", "-1", "at least 0 and at most 1"));
        assert_eq!(check(|s| s.repetition_penalty = 0.0), message("repetition_penalty", "0", "0.01 to 100"));
        assert_eq!(check(|s| s.presence_penalty = f32::NAN), message("presence_penalty", "NaN", "-1000 to 1000"));
        assert_eq!(
            check(|s| s.logit_bias = vec![(3, f32::INFINITY)]),
            message("logit_bias", "inf", "-1000000 to 1000000, or -inf")
        );
        assert_eq!(
            check(|s| s.logit_bias = vec![(100, 1.0)]),
            Some("`logit_bias` names token 100, the vocabulary has 100".into())
        );
        assert!(check(|s| s.logit_bias = vec![(1, 1.0); LOGIT_BIAS_MAX + 1]).is_some());
    }

    #[test]
    fn the_ends_of_the_ranges_are_taken() {
        assert_eq!(check(|s| s.top_p = 1.0), None);
        assert_eq!(check(|s| s.top_k = u32::MAX), None);
        assert_eq!(check(|s| s.min_p = 1.0), None);
        assert_eq!(check(|s| s.repetition_penalty = 100.0), None);
        assert_eq!(check(|s| s.frequency_penalty = -1000.0), None);
        assert_eq!(check(|s| s.logit_bias = vec![(99, f32::NEG_INFINITY)]), None);
    }
}
