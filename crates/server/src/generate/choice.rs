//! One answer in the making: its tokens become text, the text is read, stop strings are watched.

use std::sync::Arc;

use zinc_tokenizer::stop_strings::StopStrings;
use zinc_tokenizer::{DecodeOptions, DecodeStream, TokenKind, Tokenizer};

use super::prepare::Plan;
use crate::engine::{FinishReason, Logprob, Token};
use crate::error::ApiError;
use crate::parse::{Delta, Parser};

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The model had finished.
    Stop,
    /// This stop string came.
    StopString(String),
    /// Tokens or context are used up.
    Length,
    /// Tools are to be called.
    ToolCalls,
}

impl Finish {
    /// OpenAI's word.
    pub(crate) fn openai(&self) -> &'static str {
        match self {
            Finish::Stop | Finish::StopString(_) => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
        }
    }
}

/// A token's log probability and its rivals.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenLogprob {
    /// Id.
    pub(crate) id: u32,
    /// Natural logarithm of its probability.
    pub(crate) logprob: f32,
    /// The likeliest.
    pub(crate) top: Vec<Logprob>,
}

/// An answer in the making.
pub(crate) struct Choice {
    /// The submission whose tokens it takes.
    pub(crate) submission: usize,
    /// Its number in that submission.
    pub(crate) number: u32,
    /// Tokens since the prompt, those that the server wrote included.
    pub(crate) ids: Vec<u32>,
    /// Tokens that the model chose.
    pub(crate) n_generated: u32,
    /// What comes next in a forced answer.
    pub(crate) stage: Stage,
    /// Why it ended.
    pub(crate) finish: Option<Finish>,
    n_thinking: u32,
    decoder: DecodeStream<Arc<Tokenizer>>,
    parser: Parser,
    stops: StopStrings,
    /// The last text of the answer, to say which stop string came.
    tail: String,
    logprobs: Vec<TokenLogprob>,
}

/// How far a forced answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The model thinks first; what is forced comes after.
    BeforeForced,
    /// Nothing more is to be done.
    Last,
}

/// What a token led to.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// What the client is told.
    pub(crate) deltas: Vec<Delta>,
    /// What has to be done.
    pub(crate) turn: Option<Turn>,
}

/// A change of course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The answer is over: a stop string, or a call too many.
    End,
    /// Thinking is over; what is forced begins.
    Force,
    /// The model answers at once, without thinking, where the form was to be forced.
    ForceInstead,
    /// Thinking has taken all that it may.
    EndThinking,
}

impl Choice {
    pub(crate) fn new(plan: &Plan, submission: usize, number: u32) -> Choice {
        let mut parser = Parser::new(plan.dialect, &plan.tools, plan.beginning);
        parser.push(&plan.opened);
        let tokenizer = Arc::clone(&plan.model.loaded.tokenizer);
        Choice {
            submission,
            number,
            ids: Vec::new(),
            n_generated: 0,
            stage: if plan.forced.is_some() && plan.thinks_first { Stage::BeforeForced } else { Stage::Last },
            finish: None,
            n_thinking: 0,
            decoder: DecodeStream::new(tokenizer, DecodeOptions { render_special: true, continues: true }),
            parser,
            stops: StopStrings::new(&plan.stop),
            tail: String::new(),
            logprobs: Vec::new(),
        }
    }

    /// Takes the model's next token.
    pub(crate) fn take(&mut self, plan: &Plan, token: &Token) -> Step {
        self.ids.push(token.id);
        self.n_generated += 1;
        let model = &plan.model;
        let is_silent =
            model.loaded.tokenizer.kind(token.id) == Some(TokenKind::Control) && !model.marks.contains(&token.id);
        let text = if is_silent { "" } else { self.decoder.push(token.id).unwrap_or_default() };
        let was_thinking = self.parser.is_thinking();
        let was_answering = self.parser.is_answering();
        self.n_thinking += u32::from(was_thinking);
        let deltas = self.parser.push(text);
        if let Some(logprob) = token.logprob.filter(|_| was_answering || self.parser.is_answering()) {
            self.logprobs.push(TokenLogprob { id: token.id, logprob, top: token.top.clone() });
        }
        if self.stage == Stage::BeforeForced {
            let answers = |delta: &Delta| match delta {
                Delta::Content(text) => !text.trim().is_empty(),
                Delta::Call { .. } => true,
                _ => false,
            };
            if deltas.iter().any(answers) {
                return Step { deltas: Vec::new(), turn: Some(Turn::ForceInstead) };
            }
            if was_thinking && !self.parser.is_thinking() {
                return Step { deltas, turn: Some(Turn::Force) };
            }
        }
        if self.parser.is_thinking() && plan.thinking_max.is_some_and(|max| self.n_thinking >= max) {
            return Step { deltas, turn: Some(Turn::EndThinking) };
        }
        self.watch(plan, deltas)
    }

    /// Takes text that the server wrote, and its ids.
    pub(crate) fn write(&mut self, plan: &Plan, text: &str, ids: &[u32]) -> Step {
        self.ids.extend_from_slice(ids);
        let deltas = self.parser.push(text);
        self.watch(plan, deltas)
    }

    /// Takes everything back, to begin again with what is forced.
    pub(crate) fn take_back(&mut self, plan: &Plan) {
        let fresh = Choice::new(plan, self.submission, self.number);
        *self = Choice { n_generated: self.n_generated, ..fresh };
    }

    /// The model has ended; gives out what was held back.
    pub(crate) fn end(&mut self, plan: &Plan, reason: &FinishReason) -> Result<Vec<Delta>, ApiError> {
        if self.finish.is_some() {
            return Ok(Vec::new());
        }
        let finish = match reason {
            FinishReason::Error(error) => return Err(crate::engine::api_error(error)),
            FinishReason::Stop { .. } | FinishReason::Grammar => Finish::Stop,
            FinishReason::Length | FinishReason::Cancelled | FinishReason::Deadline => Finish::Length,
        };
        let decoder = DecodeStream::new(
            Arc::clone(&plan.model.loaded.tokenizer),
            DecodeOptions { render_special: true, continues: true },
        );
        let rest = std::mem::replace(&mut self.decoder, decoder).finish().unwrap_or_default();
        let mut deltas = self.parser.push(rest);
        deltas.extend(self.parser.finish());
        let mut step = self.watch(plan, deltas);
        if self.finish.is_none() {
            let held = self.stops.finish();
            if !held.is_empty() {
                step.deltas.push(Delta::Content(held));
            }
            let calls = self.parser.n_calls() > 0 && finish == Finish::Stop;
            self.finish = Some(if calls { Finish::ToolCalls } else { finish });
        }
        Ok(step.deltas)
    }

    /// Whether it is in the midst of thinking.
    pub(crate) fn is_thinking(&self) -> bool {
        self.parser.is_thinking()
    }

    /// The log probabilities that were not yet given out.
    pub(crate) fn take_logprobs(&mut self) -> Vec<TokenLogprob> {
        std::mem::take(&mut self.logprobs)
    }

    /// Watches the answer's text for stop strings, and the calls for one too many.
    fn watch(&mut self, plan: &Plan, deltas: Vec<Delta>) -> Step {
        let mut step = Step::default();
        for delta in deltas {
            match delta {
                Delta::Content(text) if !plan.stop.is_empty() => {
                    let certain = self.stops.push(&text);
                    if self.stops.matched() {
                        self.finish = Some(Finish::StopString(self.which_stop(plan, &text)));
                        step.turn = Some(Turn::End);
                    }
                    self.remember(plan, &text);
                    if !certain.is_empty() {
                        step.deltas.push(Delta::Content(certain));
                    }
                }
                Delta::Call { index, .. } if index > 0 && !plan.parallel_calls => {
                    self.finish = Some(Finish::ToolCalls);
                    step.turn = Some(Turn::End);
                }
                delta => step.deltas.push(delta),
            }
            if step.turn.is_some() {
                break;
            }
        }
        step
    }

    /// The stop string that comes first in the text so far and `text`.
    fn which_stop(&self, plan: &Plan, text: &str) -> String {
        let all = format!("{}{text}", self.tail);
        let found = plan.stop.iter().filter_map(|stop| all.find(stop.as_str()).map(|at| (at, stop)));
        found.min_by_key(|(at, _)| *at).map(|(_, stop)| stop.clone()).unwrap_or_default()
    }

    /// Keeps as much text as a stop string may still begin in.
    fn remember(&mut self, plan: &Plan, text: &str) {
        let keep = plan.stop.iter().map(String::len).max().unwrap_or(0);
        self.tail.push_str(text);
        let mut cut = self.tail.len().saturating_sub(keep);
        while !self.tail.is_char_boundary(cut) {
            cut += 1;
        }
        self.tail.drain(..cut);
    }
}
