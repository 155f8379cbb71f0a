//! Logits of every position of a text, for tools: perplexity, divergence, comparison with goldens.
//!
//! The rows go to a callback one by one, and a step has only as many as fit a fixed amount of
//! memory, so the length of the text costs none. Requests that run meanwhile keep their place.

use std::ops::ControlFlow;

use crate::Engine;
use crate::batch::{self, Outputs, Span};
use crate::error::Error;
use crate::kv::Allocation;

/// Bytes of logits that one step may make.
const LOGITS_BYTES_MAX: usize = 64 << 20;

impl Engine {
    /// Computes `ids` as one sequence and calls `row(position, logits)` for each position in order,
    /// until it breaks off. `logits`, `[n_vocab]`, is what follows the token at that position.
    ///
    /// # Errors
    /// Ids that the model does not know, more of them than the context holds, no room beside the
    /// requests that run, or a device that fails, which breaks the engine.
    pub fn evaluate(
        &mut self,
        ids: &[u32],
        mut row: impl FnMut(usize, &[f32]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.check_whole()?;
        self.checker.check_ids(ids)?;
        let context_tokens = self.limits.config.context_tokens;
        let n_tokens = match u32::try_from(ids.len()) {
            Ok(n) if n <= context_tokens => n,
            _ => return Err(Error::PromptTooLong { n_tokens: ids.len(), context_tokens }),
        };
        let chunk_tokens = chunk_tokens(self.model.n_vocab, self.limits.config.step_tokens);
        let mut kv = self.scheduler.claim(n_tokens, chunk_tokens)?;
        let result = self.evaluate_in(&mut kv, ids, chunk_tokens, &mut row);
        self.scheduler.release(kv);
        result.map_err(|error| self.break_down(error))
    }

    fn evaluate_in(
        &mut self,
        kv: &mut Allocation,
        ids: &[u32],
        chunk_tokens: u32,
        row: &mut dyn FnMut(usize, &[f32]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut start = 0;
        for ids in ids.chunks(chunk_tokens as usize) {
            let end = start + u32::try_from(ids.len()).expect("a chunk of a text that fits the context");
            self.scheduler.grow_claimed(kv, end);
            batch::fill(&mut self.batch, &[Span { ids, start, kv, outputs: Outputs::All }]);
            let (plan, ticket) = self.start_batch()?;
            self.backend.wait(ticket)?;
            for i in 0..ids.len() {
                let logits = self.output.logits(self.backend.as_mut(), &self.model, plan, i)?;
                if row(start as usize + i, logits).is_break() {
                    return Ok(());
                }
            }
            start = end;
            self.scheduler.advance_claimed(kv, start);
        }
        Ok(())
    }
}

/// Tokens of a step whose every row is an output.
fn chunk_tokens(n_vocab: u32, step_tokens: u32) -> u32 {
    let rows = LOGITS_BYTES_MAX / (n_vocab as usize * size_of::<f32>()).max(1);
    u32::try_from(rows).unwrap_or(u32::MAX).clamp(1, step_tokens)
}

#[cfg(test)]
mod tests {
    use super::chunk_tokens;

    #[test]
    fn a_step_of_logits_is_bounded() {
        assert_eq!(chunk_tokens(512, 256), 256);
        assert_eq!(chunk_tokens(262_144, 512), 64);
        assert_eq!(chunk_tokens(u32::MAX, 512), 1);
    }
}
