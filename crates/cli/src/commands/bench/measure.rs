//! The runs of the benchmark.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use zinc_engine::Engine;
use zinc_engine::request::{Event, FinishReason, PromptCache, Request, RequestId};
use zinc_gguf::DType;
use zinc_graph::backend::KvFormat;
use zinc_graph::report::{Report, ReportFor};

use crate::failure::Failure;
use crate::session::{ModelFile, SNAPSHOT_TOKENS, engine_error};

/// Tokens of one sequence that are not among the `n_tokens` of [`decode`]: its first; and where the engine lets sequences take
/// turns, one by which it may be ahead of the others then, one by which it may be at the end, and one of the last step.
pub(super) const UNCOUNTED_TOKENS: u32 = 4;
/// Steps with few tokens of prompts, since the engine does not know yet how long they take.
const UNMEASURED_STEPS: u32 = 16;

/// Tokens per second, one figure a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(Vec<f64>);

impl Rates {
    pub(super) fn push(&mut self, rate: f64) {
        self.0.push(rate);
    }

    pub(super) fn runs(&self) -> &[f64] {
        &self.0
    }

    /// Median, least and most.
    pub(super) fn spread(&self) -> (f64, f64, f64) {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        (f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]), sorted[0], sorted[n - 1])
    }
}

/// Bytes of weights that a step of one token reads.
pub(super) fn weight_bytes(file: &ModelFile, engine: &Engine) -> Result<u64, Failure> {
    let model = engine.model();
    let weights = model.weights(&file.gguf).map_err(Failure::failed)?;
    let dtypes: Vec<DType> = weights.iter().map(|w| w.dtype).collect();
    let of = ReportFor { dtypes: &dtypes, n_tokens: 1, context: 0, kv_format: KvFormat::F16 };
    Ok(Report::new(&model.graph, &of).bytes)
}

/// Tokens per second of a prompt of `n_tokens` behind `depth` others.
///
/// The others are a request before, whose pages this one takes over. What it did not get from there, since pages and
/// snapshots end where they end, counts as a part of the prompt.
pub(super) fn prefill(engine: &mut Engine, n_tokens: u32, depth: u32, rep: u32) -> Result<f64, Failure> {
    // Shared with nothing else: other runs have the same ids.
    let cache = PromptCache::Salted(fastrand::u64(..));
    if depth > 0 {
        let before = request(engine, depth, 1, rep);
        let id = engine.submit(Request { cache, boundaries: vec![depth], ..before }).map_err(engine_error)?;
        computed_of(engine, id)?;
    }
    let prompt = request(engine, depth + n_tokens, 1, rep);
    let start = Instant::now();
    let id = engine.submit(Request { cache, ..prompt }).map_err(engine_error)?;
    let computed = computed_of(engine, id)?;
    Ok(rate(computed, start.elapsed()))
}

/// Runs a request to its end: the tokens of its prompt that were computed for it.
fn computed_of(engine: &mut Engine, request: RequestId) -> Result<u64, Failure> {
    let mut computed = 0;
    loop {
        for (id, event) in engine.step().map_err(engine_error)? {
            match event {
                Event::Prefill { cached, total, .. } => computed = u64::from(total - cached),
                Event::Done(done) if id == request => return failed(&done.reason).map(|()| computed),
                _ => {}
            }
        }
    }
}

/// Tokens per second of `sequences` that generate `n_tokens` each side by side, all behind `depth` tokens.
///
/// What is counted begins when all generate. Those that begin first go on while the prompts of the others are computed, so
/// they are a little further: [`steps_before_all`]. Where the engine lets sequences take turns, not all are in every step:
/// the figure is all tokens that came over all the time until there were `n_tokens` for each.
pub(super) fn decode(engine: &mut Engine, n_tokens: u32, depth: u32, sequences: u32, rep: u32) -> Result<f64, Failure> {
    let mut ids = Vec::new();
    for i in 0..sequences {
        // As many as the context has room for: they are cancelled once enough were counted.
        let request = request(engine, depth.max(1), u32::MAX, rep.wrapping_mul(1009).wrapping_add(i));
        ids.push(engine.submit(request).map_err(engine_error)?);
    }
    let mut waiting: HashSet<RequestId> = ids.iter().copied().collect();
    let (mut start, mut counted) = (None, 0u64);
    let time = loop {
        for (id, event) in engine.step().map_err(engine_error)? {
            match event {
                Event::Token(_) if start.is_some() => counted += 1,
                Event::Token(_) => {
                    waiting.remove(&id);
                }
                Event::Done(done) => {
                    failed(&done.reason)?;
                    return Err(no_room(engine, n_tokens, sequences));
                }
                Event::Queued { .. } | Event::Prefill { .. } | Event::ChoiceDone { .. } => {}
            }
        }
        match start {
            None if waiting.is_empty() => start = Some(Instant::now()),
            Some(start) if counted >= u64::from(n_tokens) * u64::from(sequences) => break start.elapsed(),
            _ => {}
        }
    };
    for id in ids {
        engine.cancel(id);
    }
    Ok(rate(counted, time))
}

/// A sequence came to the end of the context before enough was counted: nothing was measured.
fn no_room(engine: &Engine, n_tokens: u32, sequences: u32) -> Failure {
    let context = engine.limits().config.context_tokens;
    Failure::failed(format!(
        "{sequences} sequences did not generate {n_tokens} tokens each side by side: the first came to the end of its \
         context of {context} tokens before that; try --context {}",
        context.saturating_mul(2)
    ))
}

/// Steps from the first token of the first of `sequences` until the last has one too, at most: as long as all prompts of
/// `depth` tokens are computed in what the others leave of steps of `step_tokens`.
pub(super) fn steps_before_all(sequences: u32, depth: u32, step_tokens: u32) -> u32 {
    if depth <= 1 || sequences <= 1 {
        return 0;
    }
    // Beside `n` that generate, a step has room for so many tokens of prompts.
    let beside = |n: u32| f64::from(depth) / f64::from(step_tokens.saturating_sub(n).max(1));
    let steps: f64 = (1..sequences).map(beside).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before it is cut")]
    let steps = steps.ceil().min(f64::from(u32::MAX)) as u32;
    // Snapshots cut steps.
    steps.saturating_add(depth / SNAPSHOT_TOKENS).saturating_add(UNMEASURED_STEPS)
}

fn rate(n: u64, time: Duration) -> f64 {
    n as f64 / time.as_secs_f64().max(1e-9)
}

fn failed(reason: &FinishReason) -> Result<(), Failure> {
    match reason {
        FinishReason::Error(error) => Err(Failure::failed(error)),
        _ => Ok(()),
    }
}

/// A request of `n_prompt` varied ids, which shares nothing.
fn request(engine: &Engine, n_prompt: u32, n_tokens: u32, seed: u32) -> Request {
    let n_vocab = engine.model().n_vocab;
    let varied =
        |i: u32| (i.wrapping_add(1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(97_003)) >> 7) % n_vocab;
    let prompt = (0..n_prompt).map(varied).collect();
    Request { cache: PromptCache::Off, ..Request::greedy(prompt, n_tokens) }
}

#[cfg(test)]
mod tests {
    use super::steps_before_all;

    #[test]
    fn sequences_that_begin_first_wait_for_the_prompts_of_the_others() {
        // Sequences, depth, tokens of a step; steps.
        for (sequences, depth, step_tokens, least, most) in [
            (1, 4096, 512, 0, 0),
            (64, 0, 512, 0, 0),
            (64, 1, 512, 0, 0),
            // 63 prompts of 128 tokens in steps with room for 511 to 449 of them.
            (64, 128, 512, 16, 40),
            (64, 4096, 512, 63 * 8, 700),
            // The last prompts are computed in a few tokens a step.
            (512, 128, 512, 128, 2000),
        ] {
            let steps = steps_before_all(sequences, depth, step_tokens);
            assert!((least..=most).contains(&steps), "{sequences} x {depth}: {steps}");
        }
    }
}
