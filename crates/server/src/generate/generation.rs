//! A plan being carried out: requests to the engine, their events, and the pieces that come of them.
//!
//! Usually one request to the engine answers one of a client. Where thinking has to end, or ends and a forced form
//! begins, the answer goes on in a further request whose prompt is everything so far; the pages of the first are reused.
//! Dropping a generation ends what runs.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use zinc_tokenizer::Part;

use super::choice::{Choice, Finish, Stage, TokenLogprob, Turn};
use super::forced::Forced;
use super::prepare::Plan;
use crate::engine::{self, Done, Event, Events, FinishReason, PromptCache, Request, RequestId};
use crate::error::ApiError;
use crate::parse::{Delta, ToolFormat};

/// What a client is told.
#[derive(Debug)]
pub(crate) enum Piece {
    /// How far the prompt is.
    Progress(PromptProgress),
    /// More of an answer.
    Delta {
        /// Which answer.
        choice: u32,
        /// What.
        delta: Delta,
        /// Log probabilities of the tokens up to here.
        logprobs: Vec<TokenLogprob>,
    },
    /// An answer has ended.
    End {
        /// Which.
        choice: u32,
        /// Why.
        finish: Finish,
        /// Log probabilities of the last tokens.
        logprobs: Vec<TokenLogprob>,
    },
    /// All answers have ended.
    Done(Summary),
    /// It could not go on.
    Failed(ApiError),
}

/// How far a prompt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptProgress {
    /// Requests ahead.
    pub(crate) queue_position: u32,
    /// Tokens of the prompt.
    pub(crate) total: u32,
    /// Tokens that were there from earlier requests.
    pub(crate) cached: u32,
    /// Tokens computed, those from earlier requests included.
    pub(crate) processed: u32,
}

/// What a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Tokens of the prompt.
    pub(crate) prompt_tokens: u32,
    /// Tokens of the prompt that were there from earlier requests.
    pub(crate) cached_tokens: u32,
    /// Tokens chosen, in all answers.
    pub(crate) completion_tokens: u32,
    /// Tokens of thinking among them.
    pub(crate) reasoning_tokens: u32,
    /// Time in the queue.
    pub(crate) queued: Duration,
    /// Time for the prompt.
    pub(crate) prefill: Duration,
    /// Time for the answers.
    pub(crate) decode: Duration,
    /// Time to the first token.
    pub(crate) first_token: Option<Duration>,
}

/// A plan being carried out.
pub(crate) struct Generation {
    plan: Plan,
    submissions: Vec<Submission>,
    choices: Vec<Choice>,
    pieces: VecDeque<Piece>,
    summary: Summary,
    is_over: bool,
}

struct Submission {
    id: RequestId,
    events: mpsc::Receiver<Event>,
    is_open: bool,
}

/// Tokens that a client may fall behind before its answer is ended.
const BACKLOG_MAX: usize = 16_384;
/// Events beside tokens.
const BACKLOG_SPARE: usize = 64;

impl Generation {
    /// Sends the request to the engine. With a constraint this may take milliseconds.
    pub(crate) fn start(plan: Plan) -> Result<Generation, ApiError> {
        let n_choices = plan.n_choices;
        let prompt_tokens = u32::try_from(plan.ids.len()).unwrap_or(u32::MAX);
        let summary = Summary { prompt_tokens, ..Summary::default() };
        let choices = (0..n_choices).map(|number| Choice::new(&plan, 0, number)).collect();
        let mut generation =
            Generation { plan, submissions: Vec::new(), choices, pieces: VecDeque::new(), summary, is_over: false };
        let mut opening = Vec::new();
        let mut forced = None;
        if let Some(form) = generation.plan.forced.clone().filter(|_| !generation.plan.thinks_first) {
            opening = generation.encode(&form.opening);
            for index in 0..generation.choices.len() {
                let step = generation.choices[index].write(&generation.plan, &form.opening, &opening);
                generation.tell(index, step.deltas);
            }
            forced = Some(form);
        }
        let mut prompt = generation.plan.ids.clone();
        prompt.extend(opening);
        let max_tokens = generation.plan.max_tokens;
        generation.submit(prompt, max_tokens, n_choices, forced.as_ref())?;
        Ok(generation)
    }

    /// What it has cost so far.
    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    /// The next piece; nothing after [`Piece::Done`] or [`Piece::Failed`]. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some(piece);
            }
            if self.is_over {
                return None;
            }
            let (submission, event) = poll_fn(|context| self.poll_event(context)).await;
            self.handle(submission, event);
        }
    }

    /// The next event of any open submission; `None` if its channel closed without an end.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<(usize, Option<Event>)> {
        for (index, submission) in self.submissions.iter_mut().enumerate().filter(|(_, s)| s.is_open) {
            if let Poll::Ready(event) = submission.events.poll_recv(context) {
                return Poll::Ready((index, event));
            }
        }
        Poll::Pending
    }

    fn submit(
        &mut self,
        prompt: Vec<u32>,
        max_tokens: u32,
        n_choices: u32,
        forced: Option<&Forced>,
    ) -> Result<usize, ApiError> {
        let plan = &self.plan;
        let ends = plan.model.loaded.tokenizer.end_of_generation();
        let request = Request {
            sampling: plan.sampling.clone(),
            seed: plan.seed,
            stop_ids: if plan.ignore_eos { Vec::new() } else { ends.to_vec() },
            logprobs: plan.logprobs,
            n_choices,
            constraint: forced.map(|forced| forced.constraint.clone()),
            cache: PromptCache::Shared,
            ..Request::greedy(prompt, max_tokens)
        };
        let wanted = (max_tokens as usize).saturating_mul(n_choices as usize).min(BACKLOG_MAX);
        let (sender, events) = mpsc::channel(wanted + BACKLOG_SPARE);
        let generator = &plan.model.loaded.generator;
        let id = generator.submit(request, Events(sender)).map_err(|error| engine::api_error(&error))?;
        self.submissions.push(Submission { id, events, is_open: true });
        Ok(self.submissions.len() - 1)
    }

    fn handle(&mut self, submission: usize, event: Option<Event>) {
        match event {
            Some(Event::Queued { ahead }) => {
                self.report(PromptProgress {
                    queue_position: ahead,
                    total: self.summary.prompt_tokens,
                    ..PromptProgress::default()
                });
            }
            Some(Event::Prefill { computed, cached, total }) if submission == 0 => {
                self.summary.cached_tokens = self.summary.cached_tokens.max(cached);
                self.report(PromptProgress { queue_position: 0, total, cached, processed: computed });
            }
            Some(Event::Prefill { .. }) => {}
            Some(Event::Token(token)) => {
                if let Some(index) = self.choice_of(submission, token.choice) {
                    self.token(index, &token);
                }
            }
            Some(Event::ChoiceDone { choice, reason }) => {
                if let Some(index) = self.choice_of(submission, choice) {
                    self.choice_done(index, &reason);
                }
            }
            Some(Event::Done(done)) => self.done(submission, &done),
            None => {
                self.submissions[submission].is_open = false;
                self.fail(ApiError::new(
                    axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                    "reader_too_slow",
                    "the answer was ended: its reader fell too far behind, or the engine has stopped",
                ));
            }
        }
    }

    /// The answer that takes the tokens of a submission's choice, if it goes on.
    fn choice_of(&self, submission: usize, number: u32) -> Option<usize> {
        self.choices.iter().position(|c| c.submission == submission && c.number == number && c.finish.is_none())
    }

    fn report(&mut self, progress: PromptProgress) {
        let has_begun = self.choices.iter().any(|choice| choice.n_generated > 0);
        if self.plan.reports_progress && !has_begun {
            self.pieces.push_back(Piece::Progress(progress));
        }
    }

    fn token(&mut self, index: usize, token: &engine::Token) {
        self.summary.completion_tokens += 1;
        let step = self.choices[index].take(&self.plan, token);
        let is_reasoning = step.deltas.iter().any(|delta| matches!(delta, Delta::Reasoning(_)));
        self.summary.reasoning_tokens += u32::from(is_reasoning);
        self.tell(index, step.deltas);
        match step.turn {
            None => {}
            Some(Turn::End) => {
                self.cancel(index);
                self.say_end(index);
            }
            Some(Turn::Force) => self.turn(index, after_thinking(self.plan.dialect.tools, "")),
            Some(Turn::ForceInstead) => {
                self.choices[index].take_back(&self.plan);
                self.turn(index, String::new());
            }
            Some(Turn::EndThinking) => self.end_thinking(index),
        }
    }

    fn end_thinking(&mut self, index: usize) {
        let close = self.plan.dialect.thinking.map_or("", |marks| marks.close);
        self.turn(index, after_thinking(self.plan.dialect.tools, &format!("\n{close}")));
    }

    /// The model has ended an answer. What it still owes is asked for.
    fn choice_done(&mut self, index: usize, reason: &FinishReason) {
        let choice = &mut self.choices[index];
        match (choice.stage, reason) {
            (Stage::BeforeForced, FinishReason::Stop { .. }) if choice.is_thinking() => self.end_thinking(index),
            (Stage::BeforeForced, FinishReason::Stop { .. }) => {
                choice.take_back(&self.plan);
                self.turn(index, String::new());
            }
            _ => self.end(index, reason),
        }
    }

    /// Lets an answer go on in a further request, after text of the server's own.
    fn turn(&mut self, index: usize, text: String) {
        let forced = self.plan.forced.clone().filter(|_| self.choices[index].stage == Stage::BeforeForced);
        let is_harmony = self.plan.dialect.tools == ToolFormat::Harmony;
        let opening = match &forced {
            Some(forced) => forced.opening.as_str(),
            None if is_harmony => "<|channel|>final<|message|>",
            None => "",
        };
        let text = format!("{text}{opening}");
        self.cancel(index);
        let ids = self.encode(&text);
        self.choices[index].stage = Stage::Last;
        let step = self.choices[index].write(&self.plan, &text, &ids);
        self.tell(index, step.deltas);
        let choice = &self.choices[index];
        let prompt: Vec<u32> = self.plan.ids.iter().chain(&choice.ids).copied().collect();
        let context = (self.plan.model.loaded.context_tokens as usize).saturating_sub(prompt.len());
        let wanted = self.plan.max_tokens.saturating_sub(choice.n_generated);
        let left = u32::try_from(context).unwrap_or(u32::MAX).min(wanted);
        if left == 0 {
            self.end(index, &FinishReason::Length);
            return;
        }
        // Compiling a grammar takes milliseconds; other work moves to other threads meanwhile.
        match tokio::task::block_in_place(|| self.submit(prompt, left, 1, forced.as_ref())) {
            Ok(submission) => {
                self.choices[index].submission = submission;
                self.choices[index].number = 0;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Ends what the engine still does for an answer.
    fn cancel(&self, index: usize) {
        let choice = &self.choices[index];
        let id = self.submissions[choice.submission].id;
        let others = self.choices.iter().enumerate();
        let is_shared = others.filter(|(other, c)| *other != index && c.submission == choice.submission).count() > 0;
        let generator = &self.plan.model.loaded.generator;
        if is_shared { generator.cancel_choice(id, choice.number) } else { generator.cancel(id) }
    }

    fn end(&mut self, index: usize, reason: &FinishReason) {
        match self.choices[index].end(&self.plan, reason) {
            Ok(deltas) => {
                self.tell(index, deltas);
                self.say_end(index);
            }
            Err(error) => self.fail(error),
        }
    }

    fn done(&mut self, submission: usize, done: &Done) {
        self.submissions[submission].is_open = false;
        let (usage, timings) = (done.usage, done.timings);
        if submission == 0 {
            self.summary.cached_tokens = usage.cached_prompt_tokens;
            self.summary.first_token = timings.time_to_first_token;
        }
        self.summary.queued += timings.queued;
        self.summary.prefill += timings.prefill;
        self.summary.decode += timings.decode;
        while let Some(index) =
            self.choices.iter().position(|choice| choice.submission == submission && choice.finish.is_none())
        {
            self.end(index, &done.reason);
            if self.is_over {
                return;
            }
        }
        if self.submissions.iter().all(|submission| !submission.is_open) && !self.is_over {
            self.is_over = true;
            self.pieces.push_back(Piece::Done(self.summary));
        }
    }

    fn fail(&mut self, error: ApiError) {
        self.is_over = true;
        self.cancel_all();
        self.pieces.push_back(Piece::Failed(error));
    }

    fn cancel_all(&mut self) {
        for submission in self.submissions.iter_mut().filter(|submission| submission.is_open) {
            submission.is_open = false;
            self.plan.model.loaded.generator.cancel(submission.id);
        }
    }

    fn tell(&mut self, index: usize, deltas: Vec<Delta>) {
        for delta in deltas {
            let logprobs = match delta {
                Delta::Content(_) => self.choices[index].take_logprobs(),
                _ => Vec::new(),
            };
            let choice = u32::try_from(index).unwrap_or(u32::MAX);
            self.pieces.push_back(Piece::Delta { choice, delta, logprobs });
        }
    }

    fn say_end(&mut self, index: usize) {
        let logprobs = self.choices[index].take_logprobs();
        let finish = self.choices[index].finish.clone().unwrap_or(Finish::Stop);
        self.pieces.push_back(Piece::End { choice: u32::try_from(index).unwrap_or(u32::MAX), finish, logprobs });
    }

    /// Ids of text of the server's own, in which control tokens are meant.
    fn encode(&self, text: &str) -> Vec<u32> {
        if text.is_empty() {
            return Vec::new();
        }
        self.plan.model.loaded.tokenizer.encode_parts(&[Part { text, trusted: true }])
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.cancel_all();
    }
}

/// What stands between thinking and the answer, after `close`.
fn after_thinking(format: ToolFormat, close: &str) -> String {
    match format {
        ToolFormat::Harmony => format!("{}<|start|>assistant", close.trim_start()),
        ToolFormat::Gemma => close.to_owned(),
        _ => format!("{close}\n\n"),
    }
}
