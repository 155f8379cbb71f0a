//! The runs of the benchmark.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use zinc_engine::Engine;
use zinc_engine::request::{Event, FinishReason, PromptCache, Request, RequestId};
use zinc_gguf::DType;
use zinc_graph::backend::KvFormat;
use zinc_graph::report::{Report, ReportFor};

use crate::failure::Failure;
use crate::session::{ModelFile, engine_error};

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
pub(super) fn prefill(engine: &mut Engine, n_tokens: u32, depth: u32, rep: u32) -> Result<f64, Failure> {
    submit(engine, depth + n_tokens, 1, rep)?;
    let mut start = Instant::now();
    let mut at = 0;
    loop {
        for (_, event) in engine.step().map_err(engine_error)? {
            match event {
                Event::Prefill { computed, .. } => {
                    // A step may pass the depth; what is beyond it counts as a part of the prompt.
                    if at < depth && computed >= depth && depth > 0 {
                        start = Instant::now();
                        at = computed;
                    }
                }
                Event::Done(done) => {
                    failed(&done.reason)?;
                    let counted = depth + n_tokens - if depth > 0 { at } else { 0 };
                    return Ok(rate(u64::from(counted), start.elapsed()));
                }
                Event::Queued { .. } | Event::Token(_) | Event::ChoiceDone { .. } => {}
            }
        }
    }
}

/// Tokens per second of `sequences` that generate `n_tokens` each side by side, all behind `depth` tokens.
pub(super) fn decode(engine: &mut Engine, n_tokens: u32, depth: u32, sequences: u32, rep: u32) -> Result<f64, Failure> {
    let mut waiting: HashSet<RequestId> = HashSet::new();
    for i in 0..sequences {
        waiting.insert(submit(engine, depth.max(1), n_tokens + 1, rep.wrapping_mul(1009).wrapping_add(i))?);
    }
    let (mut start, mut counted) = (Instant::now(), 0u64);
    let mut result = None;
    while !engine.is_idle() {
        for (id, event) in engine.step().map_err(engine_error)? {
            match event {
                Event::Token(_) if waiting.is_empty() => counted += 1,
                Event::Token(_) => {
                    waiting.remove(&id);
                    if waiting.is_empty() {
                        start = Instant::now();
                    }
                }
                Event::Done(done) => {
                    failed(&done.reason)?;
                    // From here on fewer sequences run.
                    if result.is_none() {
                        result = Some((counted, start.elapsed()));
                    }
                }
                Event::Queued { .. } | Event::Prefill { .. } | Event::ChoiceDone { .. } => {}
            }
        }
    }
    let (counted, time) = result.unwrap_or((counted, start.elapsed()));
    Ok(rate(counted, time))
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

/// A request of `n_prompt` varied ids.
fn submit(engine: &mut Engine, n_prompt: u32, n_tokens: u32, seed: u32) -> Result<RequestId, Failure> {
    let n_vocab = engine.model().n_vocab;
    let varied =
        |i: u32| (i.wrapping_add(1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(97_003)) >> 7) % n_vocab;
    let prompt = (0..n_prompt).map(varied).collect();
    let request = Request { cache: PromptCache::Off, ..Request::greedy(prompt, n_tokens) };
    engine.submit(request).map_err(engine_error)
}
