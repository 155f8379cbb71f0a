//! gpt-oss's format: messages with a header each, in the channels analysis, commentary and final.
//!
//! The prompt ends after `<|start|>assistant`; what follows is `<|channel|>analysis<|message|>…<|end|>`, then
//! `<|start|>assistant` and the next header. A recipient `to=functions.NAME` in a header makes the message a call.

use super::Delta;
use super::text::{first_mark, undecided};

const MESSAGE: &str = "<|message|>";
/// What ends a message.
const ENDS: [&str; 4] = ["<|end|>", "<|call|>", "<|return|>", "<|start|>"];
/// Bytes of a header; longer ones are no headers.
const HEADER_BYTES_MAX: usize = 256;

/// Reads one answer.
#[derive(Debug, Default)]
pub(super) struct Harmony {
    buffer: String,
    state: State,
    n_calls: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    Analysis,
    Final,
    Call,
}

impl Harmony {
    pub(super) fn push(&mut self, text: &str) -> Vec<Delta> {
        self.buffer.push_str(text);
        let mut deltas = Vec::new();
        while self.step(&mut deltas) {}
        deltas
    }

    pub(super) fn finish(&mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let rest = std::mem::take(&mut self.buffer);
        // A header that never became a message says nothing.
        if self.state != State::Header {
            self.give(rest, &mut deltas);
        }
        deltas
    }

    pub(super) fn is_thinking(&self) -> bool {
        self.state == State::Analysis
    }

    pub(super) fn is_answering(&self) -> bool {
        self.state == State::Final
    }

    pub(super) fn n_calls(&self) -> usize {
        self.n_calls
    }

    fn step(&mut self, deltas: &mut Vec<Delta>) -> bool {
        if self.state == State::Header {
            let Some(at) = self.buffer.find(MESSAGE) else {
                if self.buffer.len() > HEADER_BYTES_MAX {
                    self.state = State::Final;
                    return true;
                }
                return false;
            };
            let header: String = self.buffer.drain(..at + MESSAGE.len()).collect();
            self.begin_message(&header, deltas);
            return true;
        }
        match first_mark(&self.buffer, &ENDS) {
            Some((at, mark)) => {
                let text: String = self.buffer.drain(..at).collect();
                self.buffer.drain(..mark.len());
                self.give(text, deltas);
                self.state = State::Header;
                true
            }
            None => {
                let keep = undecided(&self.buffer, &ENDS);
                let text: String = self.buffer.drain(..self.buffer.len() - keep).collect();
                self.give(text, deltas);
                false
            }
        }
    }

    fn begin_message(&mut self, header: &str, deltas: &mut Vec<Delta>) {
        let recipient = header
            .split_once("to=")
            .map(|(_, after)| after.split(|c: char| c.is_whitespace() || c == '<').next().unwrap_or_default());
        if let Some(name) = recipient.and_then(|to| to.strip_prefix("functions.")).filter(|name| !name.is_empty()) {
            deltas.push(Delta::Call { index: self.n_calls, name: name.to_owned() });
            self.n_calls += 1;
            self.state = State::Call;
            return;
        }
        self.state = if header.contains("analysis") { State::Analysis } else { State::Final };
    }

    fn give(&self, text: String, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        deltas.push(match self.state {
            State::Analysis => Delta::Reasoning(text),
            State::Call => Delta::Arguments { index: self.n_calls.saturating_sub(1), text },
            State::Header | State::Final => Delta::Content(text),
        });
    }
}
