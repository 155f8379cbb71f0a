//! Answers whose thinking and calls stand between marks in the text.

use std::sync::Arc;

use super::gemma;
use super::json_call::{Found, JsonCall, Status};
use super::text::{Trimmed, first_mark, undecided};
use super::xml_call::XmlCall;
use super::{Beginning, Delta, Dialect, Tool, ToolFormat};

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Tagged {
    dialect: Dialect,
    tools: Arc<[Tool]>,
    buffer: String,
    state: State,
    reasoning: Trimmed,
    content: Trimmed,
    /// Nothing but white space was given out as the answer.
    at_start: bool,
    n_calls: usize,
}

#[derive(Debug)]
enum State {
    Content,
    Thinking,
    /// Between calls of a list.
    List,
    Json(JsonCall),
    Xml(XmlCall),
    /// Until the closing mark.
    Gemma,
    /// Between the end of a call and its closing mark.
    CallEnd,
}

impl Tagged {
    pub(super) fn new(dialect: Dialect, tools: Arc<[Tool]>, beginning: Beginning) -> Tagged {
        let (reasoning, content) = match beginning {
            Beginning::Fresh if dialect.thinking.is_some() => (Trimmed::from_start(), Trimmed::from_start()),
            Beginning::Fresh | Beginning::Continued => (Trimmed::default(), Trimmed::default()),
        };
        Tagged {
            dialect,
            tools,
            buffer: String::new(),
            state: State::Content,
            reasoning,
            content,
            at_start: true,
            n_calls: 0,
        }
    }

    pub(super) fn push(&mut self, text: &str) -> Vec<Delta> {
        self.buffer.push_str(text);
        let mut deltas = Vec::new();
        while self.step(false, &mut deltas) {}
        deltas
    }

    pub(super) fn finish(&mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        while self.step(true, &mut deltas) {}
        if self.n_calls == 0 {
            let rest = self.content.finish();
            give(&mut deltas, Delta::Content, rest);
        }
        deltas
    }

    pub(super) fn is_thinking(&self) -> bool {
        matches!(self.state, State::Thinking)
    }

    pub(super) fn is_answering(&self) -> bool {
        matches!(self.state, State::Content)
    }

    pub(super) fn n_calls(&self) -> usize {
        self.n_calls
    }

    /// Goes on as far as one state leads; false if more text is needed.
    fn step(&mut self, is_last: bool, deltas: &mut Vec<Delta>) -> bool {
        match &self.state {
            State::Content => self.content(is_last, deltas),
            State::Thinking => self.thinking(is_last, deltas),
            State::List => self.list(is_last, deltas),
            State::Json(_) | State::Xml(_) => self.call(is_last, deltas),
            State::Gemma => self.gemma(is_last, deltas),
            State::CallEnd => self.call_end(is_last),
        }
    }

    fn content(&mut self, is_last: bool, deltas: &mut Vec<Delta>) -> bool {
        let calls = if self.tools.is_empty() { None } else { self.dialect.tools.open() };
        let thinks = self.dialect.thinking.filter(|_| self.at_start).map(|marks| marks.open);
        let bare = !self.tools.is_empty() && self.dialect.tools == ToolFormat::BareJson && self.at_start;
        if bare && self.buffer.trim_start().starts_with('{') {
            self.buffer.drain(..self.buffer.len() - self.buffer.trim_start().len());
            self.state = State::Json(JsonCall::default());
            return true;
        }
        let marks: Vec<&str> = calls.into_iter().chain(thinks).collect();
        if let Some((at, mark)) = first_mark(&self.buffer, &marks) {
            let before: String = self.buffer.drain(..at).collect();
            self.say(&before, deltas);
            let is_call = calls == Some(mark);
            // A mark of thinking in the midst of an answer is part of the answer.
            if !is_call && !self.at_start {
                let mark: String = self.buffer.drain(..mark.len()).collect();
                self.say(&mark, deltas);
                return true;
            }
            self.buffer.drain(..mark.len());
            self.state = if is_call { opened(self.dialect.tools) } else { State::Thinking };
            return true;
        }
        let keep = if is_last { 0 } else { undecided(&self.buffer, &marks) };
        let text: String = self.buffer.drain(..self.buffer.len() - keep).collect();
        self.say(&text, deltas);
        false
    }

    fn thinking(&mut self, is_last: bool, deltas: &mut Vec<Delta>) -> bool {
        let marks = self.dialect.thinking.expect("only a dialect with marks of thinking comes here");
        if let Some(at) = self.buffer.find(marks.close) {
            let text: String = self.buffer.drain(..at).collect();
            self.buffer.drain(..marks.close.len());
            give(deltas, Delta::Reasoning, self.reasoning.push(&text));
            self.reasoning = Trimmed::from_start();
            self.content = Trimmed::from_start();
            self.state = State::Content;
            return true;
        }
        let keep = if is_last { 0 } else { undecided(&self.buffer, &[marks.close]) };
        let text: String = self.buffer.drain(..self.buffer.len() - keep).collect();
        give(deltas, Delta::Reasoning, self.reasoning.push(&text));
        false
    }

    fn list(&mut self, is_last: bool, deltas: &mut Vec<Delta>) -> bool {
        let rest = self.buffer.trim_start_matches(|c: char| c.is_whitespace() || c == '[' || c == ',');
        self.buffer.drain(..self.buffer.len() - rest.len());
        match self.buffer.chars().next() {
            Some('{') => self.state = State::Json(JsonCall::default()),
            Some(']') => {
                self.buffer.drain(..1);
                self.state = State::Content;
            }
            Some(_) => {
                self.say(self.dialect.tools.open().unwrap_or_default(), deltas);
                self.state = State::Content;
            }
            None => return false,
        }
        !(is_last && self.buffer.is_empty())
    }

    fn call(&mut self, is_last: bool, deltas: &mut Vec<Delta>) -> bool {
        let mut found = Vec::new();
        let n_before = self.buffer.len();
        let bare = self.dialect.tools == ToolFormat::BareJson;
        let status = match &mut self.state {
            State::Json(json) => {
                let begins = json.text().is_empty() && !bare;
                if begins {
                    self.buffer.drain(..self.buffer.len() - self.buffer.trim_start().len());
                }
                if self.buffer.is_empty() { Status::Open } else { json.take(&mut self.buffer, &mut found) }
            }
            State::Xml(xml) => xml.take(&mut self.buffer, &self.tools, &mut found),
            _ => Status::NotACall,
        };
        for found in found {
            deltas.push(match found {
                Found::Name(name) => {
                    self.n_calls += 1;
                    Delta::Call { index: self.n_calls - 1, name }
                }
                Found::Arguments(text) => Delta::Arguments { index: self.n_calls - 1, text },
            });
        }
        match status {
            Status::Closed => {
                self.state = match self.dialect.tools {
                    ToolFormat::JsonList => State::List,
                    ToolFormat::BareJson => State::Content,
                    _ => State::CallEnd,
                };
                true
            }
            Status::NotACall => self.not_a_call(deltas),
            Status::Open if is_last => self.cut_off(deltas),
            Status::Open => n_before > 0 && self.buffer.len() < n_before && !self.buffer.is_empty(),
        }
    }

    /// The text ends within a call. What was given out as one stays; the rest comes as text.
    fn cut_off(&mut self, deltas: &mut Vec<Delta>) -> bool {
        let has_begun = matches!(deltas.last(), Some(Delta::Call { .. } | Delta::Arguments { .. })) || self.n_calls > 0;
        if has_begun {
            self.buffer.clear();
            self.state = State::CallEnd;
            return false;
        }
        self.not_a_call(deltas)
    }

    /// Gives back as text what began like a call.
    fn not_a_call(&mut self, deltas: &mut Vec<Delta>) -> bool {
        let taken = match &self.state {
            State::Json(json) => json.text().to_owned(),
            State::Xml(xml) => xml.text().to_owned(),
            _ => String::new(),
        };
        let open = self.dialect.tools.open().unwrap_or_default();
        self.say(&format!("{open}{taken}"), deltas);
        self.at_start = false;
        self.state = State::Content;
        true
    }

    fn gemma(&mut self, is_last: bool, deltas: &mut Vec<Delta>) -> bool {
        let close = self.dialect.tools.close().unwrap_or_default();
        let (text, n_taken) = match self.buffer.find(close) {
            Some(at) => (self.buffer[..at].to_owned(), at + close.len()),
            None if is_last => (self.buffer.clone(), self.buffer.len()),
            None => return false,
        };
        let taken: String = self.buffer.drain(..n_taken).collect();
        match gemma::call(&text) {
            Some((name, arguments)) => {
                let index = self.n_calls;
                self.n_calls += 1;
                deltas.push(Delta::Call { index, name });
                deltas.push(Delta::Arguments { index, text: arguments.to_string() });
                self.state = State::Content;
            }
            None => {
                let open = self.dialect.tools.open().unwrap_or_default();
                self.say(&format!("{open}{taken}"), deltas);
                self.state = State::Content;
            }
        }
        true
    }

    fn call_end(&mut self, is_last: bool) -> bool {
        let close = self.dialect.tools.close().unwrap_or_default();
        let rest = self.buffer.trim_start();
        if let Some(after) = rest.strip_prefix(close) {
            self.buffer.drain(..self.buffer.len() - after.len());
            self.state = State::Content;
            return true;
        }
        if close.starts_with(rest) && !is_last {
            return false;
        }
        // The mark is missing; what follows is read as if it had been there.
        self.state = State::Content;
        !self.buffer.is_empty()
    }

    fn say(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        self.at_start &= text.trim().is_empty();
        if self.tools.is_empty() && self.dialect.thinking.is_none() {
            give(deltas, Delta::Content, text.to_owned());
            return;
        }
        let certain = self.content.push(text);
        give(deltas, Delta::Content, certain);
    }
}

/// The state after the opening mark of a call.
fn opened(format: ToolFormat) -> State {
    match format {
        ToolFormat::Xml => State::Xml(XmlCall::default()),
        ToolFormat::Gemma => State::Gemma,
        ToolFormat::JsonList => State::List,
        _ => State::Json(JsonCall::default()),
    }
}

fn give(deltas: &mut Vec<Delta>, form: fn(String) -> Delta, text: String) {
    if !text.is_empty() {
        deltas.push(form(text));
    }
}
