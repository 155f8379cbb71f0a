//! From a prompt in ids to streamed text: one request on the engine, its tokens decoded, stop
//! strings watched, Ctrl-C heeded.

use std::time::Duration;

use zinc_engine::constraint::Constraint;
use zinc_engine::engine::Engine;
use zinc_engine::request::{Done, Event, FinishReason, Request};
use zinc_engine::sampler::Sampling;
use zinc_tokenizer::stop_strings::StopStrings;
use zinc_tokenizer::{DecodeOptions, Tokenizer};

use crate::args::shared::SamplingArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::session::engine_error;

/// What to say and when to stop.
pub(crate) struct Speech<'a> {
    /// The prompt.
    pub(crate) prompt: Vec<u32>,
    /// Tokens at most.
    pub(crate) max_tokens: u32,
    /// How tokens are chosen.
    pub(crate) sampling: Sampling,
    /// Seed of the choice.
    pub(crate) seed: u64,
    /// Go on after the end-of-generation tokens.
    pub(crate) ignore_eos: bool,
    /// Texts that end the answer.
    pub(crate) stop: &'a [String],
    /// What the answer has to match.
    pub(crate) constraint: Option<Constraint>,
}

/// Why an answer ended, in the words of the OpenAI API and a little more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// An end-of-generation token or a stop text.
    Stop,
    /// `max_tokens` or the context.
    Length,
    /// Ctrl-C.
    Interrupted,
}

impl Finish {
    /// As JSON has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Interrupted => "interrupted",
        }
    }
}

/// An answer.
pub(crate) struct Spoken {
    /// Its text.
    pub(crate) text: String,
    /// Its tokens.
    pub(crate) ids: Vec<u32>,
    /// Why it ended.
    pub(crate) finish: Finish,
    /// What it cost.
    pub(crate) done: Done,
}

/// Runs one request to its end; `emit` gets the text piece by piece.
pub(crate) fn speak(
    engine: &mut Engine,
    tokenizer: &Tokenizer,
    speech: Speech<'_>,
    interrupt: &Interrupt,
    mut emit: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<Spoken, Failure> {
    let stop_ids = if speech.ignore_eos { Vec::new() } else { tokenizer.end_of_generation().to_vec() };
    let id = engine
        .submit(Request {
            sampling: speech.sampling,
            seed: speech.seed,
            stop_ids,
            constraint: speech.constraint,
            ..Request::greedy(speech.prompt, speech.max_tokens)
        })
        .map_err(engine_error)?;
    let mut stream = tokenizer.decode_stream(DecodeOptions { render_special: false, continues: true });
    let mut stops = StopStrings::new(speech.stop);
    let (mut text, mut ids) = (String::new(), Vec::new());
    let mut ended = None;
    let done = loop {
        let mut events = engine.step().map_err(engine_error)?;
        if ended.is_none() && interrupt.pressed() {
            ended = Some(Finish::Interrupted);
            events.extend(engine.cancel(id).map(|event| (id, event)));
        }
        let mut finished = None;
        for (_, event) in events {
            match event {
                Event::Token(token) if ended.is_none() => {
                    ids.push(token.id);
                    let piece = stops.push(stream.push(token.id).unwrap_or_default());
                    text.push_str(&piece);
                    emit(&piece)?;
                    if stops.matched() {
                        ended = Some(Finish::Stop);
                    }
                }
                Event::Done(done) => finished = Some(done),
                Event::Token(_) | Event::Queued { .. } | Event::Prefill { .. } | Event::ChoiceDone { .. } => {}
            }
        }
        if let (Some(Finish::Stop), None) = (ended, &finished) {
            finished = engine.cancel(id).and_then(|event| match event {
                Event::Done(done) => Some(done),
                _ => None,
            });
        }
        if let Some(done) = finished {
            break done;
        }
    };
    let finish = match (&done.reason, ended) {
        (FinishReason::Error(error), _) => return Err(Failure::failed(error)),
        (_, Some(finish)) => finish,
        (FinishReason::Stop { .. } | FinishReason::Grammar, None) => Finish::Stop,
        (FinishReason::Length | FinishReason::Cancelled | FinishReason::Deadline, None) => Finish::Length,
    };
    if finish != Finish::Stop || !stops.matched() {
        let tail = stops.push(stream.finish().unwrap_or_default());
        let rest = if stops.matched() { String::new() } else { stops.finish() };
        for piece in [tail, rest] {
            text.push_str(&piece);
            emit(&piece)?;
        }
    }
    Ok(Spoken { text, ids, finish, done })
}

/// One line of figures on an answer.
pub(crate) fn summary(done: &Done) -> String {
    let (usage, timings) = (done.usage, done.timings);
    let cached = match usage.cached_prompt_tokens {
        0 => String::new(),
        n => format!(" ({n} of them known)"),
    };
    let computed = rate(usage.computed_prompt_tokens, timings.prefill);
    let prompt = format!("prompt {} tokens{cached}, {computed}", usage.prompt_tokens);
    // The first token comes out of the prompt's last step; the others take a step each.
    let steps = usage.generated_tokens.saturating_sub(1);
    let each =
        if steps == 0 { String::new() } else { format!(", {:.2} ms/token", ms(timings.decode) / f64::from(steps)) };
    let answer = format!("generated {} tokens, {}{each}", usage.generated_tokens, rate(steps, timings.decode));
    let first =
        timings.time_to_first_token.map_or(String::new(), |t| format!(" | first token {:.2} s", t.as_secs_f64()));
    format!("{prompt} | {answer}{first}")
}

/// `123.4 tok/s`.
pub(crate) fn rate(n: u32, time: Duration) -> String {
    if n == 0 || time.is_zero() {
        return "- tok/s".to_owned();
    }
    format!("{:.1} tok/s", f64::from(n) / time.as_secs_f64())
}

/// Milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Tokens that repetition penalties look back on.
const PENALTY_WINDOW: u32 = 256;

/// The sampling that the flags ask for; `default` stands where they are silent.
pub(crate) fn sampling(args: &SamplingArgs, default: Sampling) -> Result<Sampling, Failure> {
    let mut bias = default.logit_bias.clone();
    for text in &args.logit_bias {
        let parsed = text.split_once('=').and_then(|(id, x)| Some((id.trim().parse().ok()?, x.trim().parse().ok()?)));
        bias.push(
            parsed.ok_or_else(|| Failure::usage(format!("--logit-bias is `{text}`; it must be ID=X, as in 198=-5")))?,
        );
    }
    Ok(Sampling {
        temperature: args.temperature.unwrap_or(default.temperature),
        top_k: args.top_k.unwrap_or(default.top_k),
        top_p: args.top_p.unwrap_or(default.top_p),
        min_p: args.min_p.unwrap_or(default.min_p),
        repetition_penalty: args.repetition_penalty.unwrap_or(default.repetition_penalty),
        presence_penalty: args.presence_penalty.unwrap_or(default.presence_penalty),
        frequency_penalty: args.frequency_penalty.unwrap_or(default.frequency_penalty),
        penalty_window: PENALTY_WINDOW,
        logit_bias: bias,
    })
}

/// The seed asked for, or one from the clock.
pub(crate) fn seed(args: &SamplingArgs) -> u64 {
    args.seed.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |t| t.as_secs().wrapping_mul(1_000_000_007) ^ u64::from(t.subsec_nanos()))
    })
}
