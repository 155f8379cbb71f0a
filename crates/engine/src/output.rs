//! From the outputs of a finished step to tokens.
//!
//! Where the largest logit of the model wins and nothing more is wanted, the device has chosen and
//! four bytes are read; otherwise rows of logits come to the host, some at a time, and several
//! threads choose from them. A row's token depends on nothing but the row and its sequence, so it
//! does not matter which thread has it. An `argmax` does not see NaN and answers 0 for a row of
//! nothing else, so a 0 is believed only after a look.

use llguidance::toktrie::SimpleVob;
use zinc_graph::backend::{Backend, BackendError, PlanId};
use zinc_models::Model;

use crate::request::Token;
use crate::sampler::{Distribution, NonFinite, Scratch};
use crate::sequence::Sequence;

/// Rows that are on the host at once.
const ROWS_MAX: usize = 16;
/// Logits that are worth a thread: fewer are chosen from before one has started.
const LOGITS_PER_THREAD: usize = 1 << 18;

/// Reads outputs and chooses tokens; owns the memory for both.
#[derive(Debug)]
pub(crate) struct OutputReader {
    n_vocab: usize,
    n_threads: usize,
    /// As many as were needed so far, one at least.
    places: Vec<Place>,
}

/// Memory for one row.
#[derive(Debug, Default)]
struct Place {
    row: Vec<f32>,
    /// The row without the tokens that a constraint forbids.
    allowed: Vec<f32>,
    scratch: Scratch,
}

/// A token that is to be chosen.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// Which row of the step's outputs.
    pub(crate) row: usize,
    /// For whom.
    pub(crate) sequence: &'a Sequence,
    /// The tokens that it may be, if not all.
    pub(crate) allowed: Option<&'a SimpleVob>,
}

/// A token, or what is wrong with its row.
type Chosen = Result<Token, NonFinite>;

impl OutputReader {
    pub(crate) fn new(n_vocab: u32) -> OutputReader {
        let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(ROWS_MAX);
        OutputReader { n_vocab: n_vocab as usize, n_threads, places: vec![Place::default()] }
    }

    /// A row of logits.
    pub(crate) fn logits(
        &mut self,
        backend: &mut dyn Backend,
        model: &Model,
        plan: PlanId,
        row: usize,
    ) -> Result<&[f32], BackendError> {
        let place = &mut self.places[0];
        place.read(backend, model, plan, row, self.n_vocab)?;
        Ok(&place.row)
    }

    /// The next tokens of sequences, in their order; the rows rise.
    pub(crate) fn tokens(
        &mut self,
        backend: &mut dyn Backend,
        model: &Model,
        plan: PlanId,
        wanted: &[Wanted<'_>],
    ) -> Result<Vec<Chosen>, BackendError> {
        let n_rows = wanted.last().map_or(0, |last| last.row + 1);
        let mut ids = Vec::new();
        if wanted.iter().any(Wanted::is_plain) {
            ids.resize(n_rows, 0.0);
            backend.read(plan, model.greedy, 0, &mut ids)?;
        }
        let of_device = |w: &Wanted<'_>| w.is_plain().then(|| ids[w.row].to_bits()).filter(|&id| id != 0);
        let mut tokens: Vec<Option<Chosen>> =
            wanted.iter().map(|w| of_device(w).map(|id| Ok(w.plain_token(id)))).collect();
        let missing: Vec<usize> = (0..wanted.len()).filter(|&i| tokens[i].is_none()).collect();
        for group in missing.chunks(ROWS_MAX) {
            let chosen = self.choose(backend, model, plan, group.iter().map(|&i| &wanted[i]).collect())?;
            for (&i, token) in group.iter().zip(chosen) {
                tokens[i] = Some(token);
            }
        }
        Ok(tokens.into_iter().flatten().collect())
    }

    /// Reads some rows and chooses from each.
    fn choose(
        &mut self,
        backend: &mut dyn Backend,
        model: &Model,
        plan: PlanId,
        wanted: Vec<&Wanted<'_>>,
    ) -> Result<Vec<Chosen>, BackendError> {
        let n = wanted.len();
        self.places.resize_with(self.places.len().max(n), Place::default);
        let places = &mut self.places[..n];
        for (place, w) in places.iter_mut().zip(&wanted) {
            place.read(backend, model, plan, w.row, self.n_vocab)?;
        }
        let n_threads = (n * self.n_vocab / LOGITS_PER_THREAD).clamp(1, self.n_threads);
        Ok(choose_in(places, &wanted, n_threads))
    }
}

/// Chooses from each row, with as many threads.
fn choose_in(places: &mut [Place], wanted: &[&Wanted<'_>], n_threads: usize) -> Vec<Chosen> {
    fn part(places: &mut [Place], wanted: &[&Wanted<'_>]) -> Vec<Chosen> {
        places.iter_mut().zip(wanted).map(|(place, w)| place.token(w)).collect()
    }
    let share = places.len().div_ceil(n_threads);
    if n_threads == 1 || share == 0 {
        return part(places, wanted);
    }
    std::thread::scope(|scope| {
        let pairs = places.chunks_mut(share).zip(wanted.chunks(share));
        let threads: Vec<_> = pairs.map(|(places, wanted)| scope.spawn(|| part(places, wanted))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<Chosen>>| match thread.join() {
            Ok(chosen) => chosen,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().flat_map(join).collect()
    })
}

impl Wanted<'_> {
    /// The device's choice will do.
    fn is_plain(&self) -> bool {
        let sequence = self.sequence;
        let wants_row = sequence.logprobs.is_some() || sequence.echo_logits || self.allowed.is_some();
        sequence.sampler.is_plain_greedy() && !wants_row
    }

    fn plain_token(&self, id: u32) -> Token {
        Token { choice: self.sequence.id.choice, id, logprob: None, top: Vec::new(), logits: None }
    }
}

impl Place {
    fn read(
        &mut self,
        backend: &mut dyn Backend,
        model: &Model,
        plan: PlanId,
        row: usize,
        n_vocab: usize,
    ) -> Result<(), BackendError> {
        self.row.resize(n_vocab, 0.0);
        backend.read(plan, model.logits, row, &mut self.row)
    }

    fn token(&mut self, wanted: &Wanted<'_>) -> Chosen {
        let Place { row, allowed: allowed_row, scratch } = self;
        let sequence = wanted.sequence;
        let index = sequence.n_generated();
        let id = match wanted.allowed {
            None => sequence.sampler.choose(row, index, scratch)?,
            Some(allowed) => {
                allowed_row.clone_from(row);
                allowed.iter_unset_entries(|id| allowed_row[id] = f32::NEG_INFINITY);
                sequence.sampler.choose(allowed_row, index, scratch)?
            }
        };
        let (logprob, top) = match sequence.logprobs {
            Some(n) => {
                let distribution = Distribution::new(row)?;
                (Some(distribution.logprob(id)), distribution.top(n as usize))
            }
            None => (None, Vec::new()),
        };
        let logits = sequence.echo_logits.then(|| row.as_slice().into());
        Ok(Token { choice: sequence.id.choice, id, logprob, top, logits })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::request::{Request, RequestId};
    use crate::sampler::{Random, Sampling};
    use crate::sequence::Bounds;

    /// Rows of noise and sequences that each draw their own numbers.
    #[test]
    fn a_row_gives_the_same_token_on_any_thread() {
        const N_VOCAB: u32 = 300;
        let sequence = |which: u64| {
            let sampling = Sampling { temperature: 0.5 + which as f32 / 10.0, top_p: 0.9, ..Sampling::greedy() };
            let request = Request { sampling, seed: which, logprobs: Some(2), ..Request::greedy(vec![1], 5) };
            let bounds = Bounds { context_tokens: 100, n_vocab: N_VOCAB };
            Sequence::new(RequestId(which), request, bounds, Instant::now()).unwrap()
        };
        let sequences: Vec<Sequence> = (0..16).map(sequence).collect();
        let wanted: Vec<Wanted<'_>> =
            sequences.iter().map(|sequence| Wanted { row: 0, sequence, allowed: None }).collect();
        let wanted: Vec<&Wanted<'_>> = wanted.iter().collect();
        let place = |which: u64| {
            let random = Random::new(1000 + which);
            #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest f32")]
            let row = (0..u64::from(N_VOCAB)).map(|i| 4.0 * random.uniform(i) as f32).collect();
            Place { row, ..Place::default() }
        };
        let mut places: Vec<Place> = (0..16).map(place).collect();
        let expected = choose_in(&mut places, &wanted, 1);
        assert!(expected.windows(2).any(|pair| pair[0] != pair[1]));
        for n_threads in [2, 3, 5, 16] {
            assert_eq!(choose_in(&mut places, &wanted, n_threads), expected, "{n_threads} threads");
        }
        assert!(choose_in(&mut [], &[], 4).is_empty());
    }
}
