//! Golden files of tiny models: expected logits, greedy tokens and activations, and the comparison with a backend.
//!
//! `NAME.golden.json` describes prompts; its tensors lie in `NAME.golden.bin` as little-endian f32. `fixtures/tiny`
//! says how they were computed. A model must give the same whatever the steps that a prompt is fed in, so [`check`]
//! runs every prompt in several ways.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zinc_gguf::Gguf;
use zinc_graph::Backend;
use zinc_graph::backend::KvFormat;
use zinc_graph::ops::{Op, Rope};
use zinc_models::Model;

use crate::Error;
use crate::session::{Session, SessionConfig, Step};

/// A golden file, read whole.
#[derive(Clone, Debug)]
pub struct Golden {
    /// `model.TYPE`, for messages.
    pub name: String,
    /// The model file beside it.
    pub model: PathBuf,
    /// Expected logits and tokens.
    pub prompts: Vec<Prompt>,
    /// Expected activations of one prompt.
    pub trace: Option<Trace>,
    /// Expected recurrent states after one prompt, in the order of the file's heads: `blk.N.recurrent`
    /// `[value heads][key columns][value columns]`, `blk.N.conv` `[channels][taps - 1]`.
    pub state: Option<Trace>,
    /// The answers are those of a model whose YaRN limits are rounded, which no key of the file says.
    pub has_rounded_yarn: bool,
}

/// Expectations for one prompt.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// Positions whose logits are kept, rising.
    pub positions: Vec<u32>,
    /// Logits at each of `positions`.
    pub logits: Vec<Vec<f32>>,
    /// Greedy continuation.
    pub greedy: Vec<u32>,
    /// How far ahead the winner was at each step of it.
    pub greedy_margin: Vec<f32>,
    /// At each position of the prompt, how far the last chosen expert was ahead of the next, in router logits, in
    /// the layer where it was closest. Empty for models without experts.
    pub router_gap: Vec<f32>,
}

/// Activations of one prompt.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Index of the prompt.
    pub prompt: usize,
    /// `[n_tokens][width]` by name: `embd`, `blk.N.mixer`, `blk.N.mlp`, `blk.N.out`, `final_norm`.
    pub tensors: BTreeMap<String, Vec<f32>>,
}

/// How far a backend may be from the golden numbers, and how prompts are fed to it.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Format of keys and values.
    pub kv_format: KvFormat,
    /// Largest difference of a logit.
    pub logit_tolerance: f32,
    /// Positions are compared up to the first one whose `router_gap` is below this: from there on another expert may
    /// rightly be chosen.
    pub router_gap_min: f32,
    /// Tokens per step, each of them one way to feed a prompt; `usize::MAX` is the whole prompt at once.
    pub chunks: &'a [usize],
}

/// How close it was.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Largest difference of a logit.
    pub logit_difference_max: f32,
    /// Rows of logits compared.
    pub n_rows: usize,
    /// Greedy tokens compared.
    pub n_greedy: usize,
}

impl Golden {
    /// Reads `NAME.golden.json` and the file of numbers that it names.
    ///
    /// # Errors
    /// A file that is missing or malformed.
    pub fn load(path: &Path) -> Result<Golden, Error> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| Error::Io { path, error }
        };
        let text = fs::read_to_string(path).map_err(io(path))?;
        let parsed: GoldenJson =
            serde_json::from_str(&text).map_err(|e| Error::Fixture { path: path.to_owned(), what: e.to_string() })?;
        let bin = path.with_file_name(&parsed.bin);
        let bytes = fs::read(&bin).map_err(io(&bin))?;
        let numbers = Numbers { path: bin, data: bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect() };
        let prompts = parsed.prompts.into_iter().map(|p| p.with(&numbers)).collect::<Result<_, _>>()?;
        let trace = parsed.trace.map(|t| t.with(&numbers)).transpose()?;
        let state = parsed.state.map(|t| t.with(&numbers)).transpose()?;
        let name = format!("{}.{}", parsed.model, parsed.variant);
        let (model, has_rounded_yarn) = (path.with_file_name(&parsed.gguf), parsed.yarn_truncate);
        Ok(Golden { name, model, prompts, trace, state, has_rounded_yarn })
    }

    fn context_max(&self) -> u32 {
        let longest = self.prompts.iter().map(|p| p.tokens.len() + p.greedy.len()).max();
        u32::try_from(longest.unwrap_or(0)).expect("goldens are short")
    }

    /// The model file and the model that the answers are of.
    ///
    /// # Errors
    /// A file that is no model.
    pub fn open(&self) -> Result<(Gguf, Model), Error> {
        let file = Gguf::open(&self.model)?;
        let mut model = Model::from_gguf(&file)?;
        for node in &mut model.graph.nodes {
            if let Op::Rope(Rope { yarn: Some(yarn), .. }) = &mut node.op {
                yarn.rounded_limits = self.has_rounded_yarn;
            }
        }
        Ok((file, model))
    }

    fn session(&self, backend: Box<dyn Backend>, kv_format: KvFormat, keep_values: bool) -> Result<Session, Error> {
        let (file, model) = self.open()?;
        let config = SessionConfig { context_max: self.context_max(), kv_format, keep_values };
        Session::of_model(backend, model, &file, config)
    }
}

/// Runs every prompt in every way of feeding it, and the greedy continuation after each.
///
/// # Errors
/// The first number that is off, or why the model does not run.
pub fn check(golden: &Golden, backend: Box<dyn Backend>, demand: &Demand<'_>) -> Result<Outcome, Error> {
    let mut session = golden.session(backend, demand.kv_format, false)?;
    let mut outcome = Outcome { logit_difference_max: 0.0, n_rows: 0, n_greedy: 0 };
    for prompt in &golden.prompts {
        for &chunk in demand.chunks {
            let place = format!("{}, prompt of {}, chunks of {chunk}", golden.name, prompt.tokens.len());
            session.restart();
            let first = check_prompt(&mut session, prompt, 0..chunk, demand, &place, &mut outcome)?;
            check_greedy(&mut session, prompt, first, demand, &place, &mut outcome)?;
        }
    }
    Ok(outcome)
}

/// Runs every prompt up to several points, copies the recurrent states there, lets them be overwritten, and goes on from
/// the copy.
///
/// # Errors
/// As [`check`].
pub fn check_resumed(golden: &Golden, backend: Box<dyn Backend>, demand: &Demand<'_>) -> Result<Outcome, Error> {
    let mut session = golden.session(backend, demand.kv_format, false)?;
    let mut outcome = Outcome { logit_difference_max: 0.0, n_rows: 0, n_greedy: 0 };
    for prompt in golden.prompts.iter().filter(|prompt| prompt.tokens.len() > 1) {
        let n_tokens = prompt.tokens.len();
        for cut in [1, n_tokens / 2, n_tokens - 1] {
            let place = format!("{}, prompt of {n_tokens}, resumed at {cut}", golden.name);
            session.restart();
            session.feed(&prompt.tokens[..cut], &[])?;
            let snapshot = session.snapshot()?;
            // Other tokens, so that the states that were copied go another way.
            session.feed(&prompt.tokens[..1], &[])?;
            session.resume(snapshot);
            let first = check_prompt(&mut session, prompt, cut..usize::MAX, demand, &place, &mut outcome)?;
            check_greedy(&mut session, prompt, first, demand, &place, &mut outcome)?;
        }
    }
    Ok(outcome)
}

/// Compares the activations of the traced prompt, fed whole, and returns the largest difference.
///
/// # Errors
/// The first tensor with an element farther off than `tolerance`, or why the model does not run.
pub fn check_trace(golden: &Golden, backend: Box<dyn Backend>, tolerance: f32) -> Result<f32, Error> {
    let missing = || Error::Fixture { path: golden.model.clone(), what: "its golden has no trace".to_owned() };
    let trace = golden.trace.as_ref().ok_or_else(missing)?;
    let tokens = &golden.prompts[trace.prompt].tokens;
    let mut session = golden.session(backend, KvFormat::F32, true)?;
    let rows: Vec<u32> = (0..).take(tokens.len()).collect();
    session.feed(tokens, &rows)?;
    let mut worst = 0.0f32;
    for (name, expected) in &trace.tensors {
        let section = match name.as_str() {
            "embd" => "prologue.",
            "final_norm" => "epilogue.",
            _ => "",
        };
        let got = session.value(&format!("{section}{name}"), tokens.len())?;
        worst = worst.max(compare(&format!("{}, {name}", golden.name), expected, &got, tolerance)?);
    }
    Ok(worst)
}

/// Feeds a prompt from `steps.start`, in chunks as long as `steps`, and compares its logits; returns the greedy token
/// after it.
fn check_prompt(
    session: &mut Session,
    prompt: &Prompt,
    steps: Range<usize>,
    demand: &Demand<'_>,
    place: &str,
    outcome: &mut Outcome,
) -> Result<u32, Error> {
    let n_trusted = prompt.router_gap.iter().position(|&gap| gap < demand.router_gap_min).unwrap_or(usize::MAX);
    let (mut start, mut last) = (steps.start, 0);
    for tokens in prompt.tokens[start..].chunks(steps.len().min(prompt.tokens.len())) {
        let in_step = |p: &&u32| (start..start + tokens.len()).contains(&(**p as usize));
        let (first, n_before) = (start, prompt.positions.iter().filter(|p| (**p as usize) < start).count());
        let wanted: Vec<u32> =
            prompt.positions.iter().filter(in_step).map(|p| p - u32::try_from(first).unwrap_or(0)).collect();
        let Step { logits, greedy } = session.feed(tokens, &wanted)?;
        for (i, got) in logits.iter().enumerate() {
            let position = prompt.positions[n_before + i];
            if position as usize >= n_trusted {
                continue;
            }
            let what = format!("{place}, position {position}");
            let difference = compare(&what, &prompt.logits[n_before + i], got, demand.logit_tolerance)?;
            outcome.logit_difference_max = outcome.logit_difference_max.max(difference);
            outcome.n_rows += 1;
        }
        start += tokens.len();
        last = greedy.last().copied().unwrap_or(last);
    }
    Ok(last)
}

/// Continues with the backend's own choice, up to the first step where two tokens are too close to call.
fn check_greedy(
    session: &mut Session,
    prompt: &Prompt,
    first: u32,
    demand: &Demand<'_>,
    place: &str,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let mut got = first;
    if prompt.router_gap.iter().any(|&gap| gap < demand.router_gap_min) {
        return Ok(());
    }
    for (i, (&expected, &margin)) in prompt.greedy.iter().zip(&prompt.greedy_margin).enumerate() {
        if margin < 2.0 * demand.logit_tolerance {
            break;
        }
        if got != expected {
            let difference = format!("token {got}, expected {expected} (ahead by {margin})");
            return Err(Error::Differs { what: format!("{place}, greedy step {i}"), difference });
        }
        outcome.n_greedy += 1;
        if i + 1 < prompt.greedy.len() {
            got = session.feed(&[got], &[0])?.greedy[0];
        }
    }
    Ok(())
}

/// The largest difference, if it is within `tolerance`.
pub(crate) fn compare(what: &str, expected: &[f32], got: &[f32], tolerance: f32) -> Result<f32, Error> {
    let differs = |difference: String| Err(Error::Differs { what: what.to_owned(), difference });
    if expected.len() != got.len() {
        return differs(format!("{} numbers, expected {}", got.len(), expected.len()));
    }
    let mut worst = 0.0f32;
    for (i, (expected, got)) in expected.iter().zip(got).enumerate() {
        let difference = (expected - got).abs();
        if difference.is_nan() || difference > tolerance {
            return differs(format!("element {i} is {got}, expected {expected} (allowed difference {tolerance})"));
        }
        worst = worst.max(difference);
    }
    Ok(worst)
}

/// The numbers beside a golden.
struct Numbers {
    path: PathBuf,
    data: Vec<f32>,
}

/// A tensor's place in the numbers.
#[derive(Clone, Debug, Deserialize)]
struct Place {
    offset: usize,
    shape: Vec<usize>,
}

#[derive(Deserialize)]
struct GoldenJson {
    model: String,
    variant: String,
    gguf: String,
    bin: String,
    prompts: Vec<PromptJson>,
    trace: Option<TraceJson>,
    state: Option<TraceJson>,
    #[serde(default)]
    yarn_truncate: bool,
}

#[derive(Deserialize)]
struct PromptJson {
    tokens: Vec<u32>,
    positions: Vec<u32>,
    logits: Place,
    greedy: Vec<u32>,
    greedy_margin: Vec<f32>,
    #[serde(default)]
    router_gap: Vec<f32>,
}

#[derive(Deserialize)]
struct TraceJson {
    prompt: usize,
    tensors: BTreeMap<String, Place>,
}

impl Numbers {
    fn tensor(&self, place: &Place) -> Result<&[f32], Error> {
        let n: usize = place.shape.iter().product();
        let outside = || Error::Fixture { path: self.path.clone(), what: format!("ends before {place:?}") };
        self.data.get(place.offset..place.offset + n).ok_or_else(outside)
    }
}

impl PromptJson {
    fn with(self, numbers: &Numbers) -> Result<Prompt, Error> {
        let width = self.logits.shape.last().copied().unwrap_or(1).max(1);
        let logits: Vec<Vec<f32>> = numbers.tensor(&self.logits)?.chunks_exact(width).map(<[f32]>::to_vec).collect();
        let ends = self.positions.last().map(|&p| p as usize + 1) == Some(self.tokens.len());
        if logits.len() != self.positions.len() || !ends || self.greedy.len() != self.greedy_margin.len() {
            let what = format!("the prompt of {} tokens is not whole", self.tokens.len());
            return Err(Error::Fixture { path: numbers.path.clone(), what });
        }
        let PromptJson { tokens, positions, greedy, greedy_margin, router_gap, .. } = self;
        Ok(Prompt { tokens, positions, logits, greedy, greedy_margin, router_gap })
    }
}

impl TraceJson {
    fn with(self, numbers: &Numbers) -> Result<Trace, Error> {
        let tensors = self.tensors.iter().map(|(name, place)| Ok((name.clone(), numbers.tensor(place)?.to_vec())));
        Ok(Trace { prompt: self.prompt, tensors: tensors.collect::<Result<_, Error>>()? })
    }
}
