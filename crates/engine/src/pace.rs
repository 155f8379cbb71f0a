//! How much of the prompts a step may compute while sequences decode.
//!
//! Whoever reads a running answer notices a step that takes long. The time of a prompt token is
//! measured as steps pass, and beside decodes a step gets no more of them than fit the gap that is
//! allowed between two tokens; a few in any case, so that prompts go on.

use std::time::Duration;

/// Prompt tokens that a step gets at least.
pub const PREFILL_TOKENS_MIN: u32 = 16;
/// Prompt tokens of a step while nothing was measured.
const PREFILL_TOKENS_UNMEASURED: u32 = 64;
/// Share of a new measurement in the average.
const NEW_SHARE: f64 = 0.3;

/// Measures prompt tokens and says how many fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    gap_max: Duration,
    token_seconds: Option<f64>,
}

impl Pace {
    pub(crate) fn new(gap_max: Duration) -> Pace {
        Pace { gap_max, token_seconds: None }
    }

    /// A step of `n_tokens` took that long. Steps of few tokens say nothing of prompts.
    pub(crate) fn observe(&mut self, n_tokens: u32, took: Duration) {
        if n_tokens < PREFILL_TOKENS_MIN {
            return;
        }
        let new = took.as_secs_f64() / f64::from(n_tokens);
        self.token_seconds = Some(self.token_seconds.map_or(new, |old| old + NEW_SHARE * (new - old)));
    }

    /// Prompt tokens that a step with decodes may have.
    pub(crate) fn prefill_tokens(&self) -> u32 {
        let Some(token_seconds) = self.token_seconds else { return PREFILL_TOKENS_UNMEASURED };
        let fitting = self.gap_max.as_secs_f64() / token_seconds.max(1e-9);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before it is cut")]
        let fitting = fitting.min(f64::from(u32::MAX)) as u32;
        fitting.max(PREFILL_TOKENS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_gets_what_fits_the_gap() {
        let mut pace = Pace::new(Duration::from_millis(200));
        assert_eq!(pace.prefill_tokens(), PREFILL_TOKENS_UNMEASURED);
        pace.observe(8, Duration::from_secs(8));
        assert_eq!(pace.prefill_tokens(), PREFILL_TOKENS_UNMEASURED, "a small step says nothing");
        pace.observe(100, Duration::from_millis(400));
        assert_eq!(pace.prefill_tokens(), 50, "4 ms each");
        for _ in 0..60 {
            pace.observe(100, Duration::from_millis(100));
        }
        assert!((199..=200).contains(&pace.prefill_tokens()), "1 ms each: {}", pace.prefill_tokens());
        pace.observe(16, Duration::from_secs(1000));
        assert_eq!(pace.prefill_tokens(), PREFILL_TOKENS_MIN);
        let mut pace = Pace::new(Duration::from_secs(1));
        pace.observe(16, Duration::ZERO);
        assert!(pace.prefill_tokens() > 1_000_000);
    }
}
