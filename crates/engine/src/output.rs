//! From the outputs of a finished step to tokens.
//!
//! Where the largest logit of the model wins and nothing more is wanted, the device has chosen and
//! four bytes are read; otherwise one row of logits comes to the host at a time. An `argmax` does
//! not see NaN and answers 0 for a row of nothing else, so a 0 is believed only after a look.

use zinc_graph::backend::{Backend, BackendError, PlanId};
use zinc_models::Model;

use crate::request::Token;
use crate::sampler::{Distribution, NonFinite, Scratch};
use crate::sequence::Sequence;

/// Reads outputs and chooses tokens; owns the memory for both.
#[derive(Debug)]
pub(crate) struct OutputReader {
    row: Vec<f32>,
    scratch: Scratch,
}

/// Where an output lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputRow {
    pub(crate) plan: PlanId,
    pub(crate) row: usize,
}

impl OutputReader {
    pub(crate) fn new(n_vocab: u32) -> OutputReader {
        OutputReader { row: vec![0.0; n_vocab as usize], scratch: Scratch::default() }
    }

    /// The row of logits.
    pub(crate) fn logits(
        &mut self,
        backend: &mut dyn Backend,
        model: &Model,
        at: OutputRow,
    ) -> Result<&mut [f32], BackendError> {
        backend.read(at.plan, model.logits, at.row, &mut self.row)?;
        Ok(&mut self.row)
    }

    /// The next token of a sequence, or what is wrong with its row.
    pub(crate) fn token(
        &mut self,
        backend: &mut dyn Backend,
        model: &Model,
        at: OutputRow,
        sequence: &Sequence,
    ) -> Result<Result<Token, NonFinite>, BackendError> {
        let wants_row = sequence.logprobs.is_some() || sequence.echo_logits;
        if sequence.sampler.is_plain_greedy() && !wants_row {
            let mut id = [0.0];
            backend.read(at.plan, model.greedy, at.row, &mut id)?;
            let id = id[0].to_bits();
            if id != 0 {
                return Ok(Ok(Token { id, logprob: None, top: Vec::new(), logits: None }));
            }
        }
        self.logits(backend, model, at)?;
        Ok(self.token_of_row(sequence))
    }

    fn token_of_row(&mut self, sequence: &Sequence) -> Result<Token, NonFinite> {
        let OutputReader { row, scratch } = self;
        let id = sequence.sampler.choose(row, sequence.n_generated(), scratch)?;
        let (logprob, top) = match sequence.logprobs {
            Some(n) => {
                let distribution = Distribution::new(row)?;
                (Some(distribution.logprob(id)), distribution.top(n as usize))
            }
            None => (None, Vec::new()),
        };
        let logits = sequence.echo_logits.then(|| row.as_slice().into());
        Ok(Token { id, logprob, top, logits })
    }
}
