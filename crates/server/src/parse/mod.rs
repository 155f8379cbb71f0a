//! From the text that a model writes to what a client is told: thinking, answer, calls of tools.
//!
//! Every family marks these in its own way ([`Dialect`]). A [`Parser`] takes the text in pieces that may be cut anywhere
//! and gives out [`Delta`]s as soon as they are certain. What looks like a call and is none comes out as text: nothing
//! that a model wrote is lost in silence.

mod dialect;
mod gemma;
mod harmony;
mod json_call;
mod tagged;
mod text;
mod xml_call;

use std::sync::Arc;

use serde_json::Value;

pub use dialect::{Dialect, ThinkingMarks, ToolFormat};

use harmony::Harmony;
use tagged::Tagged;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Thinking.
    Reasoning(String),
    /// The answer.
    Content(String),
    /// A call of a tool begins.
    Call {
        /// Its place among the calls of this answer.
        index: usize,
        /// The function.
        name: String,
    },
    /// More of a call's arguments, which together are JSON.
    Arguments {
        /// Which call.
        index: usize,
        /// The text.
        text: String,
    },
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON schema of its arguments.
    pub parameters: Value,
    /// Whether calls were asked to fit the schema exactly.
    pub strict: bool,
}

/// Whether an answer begins or goes on from text that the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// White space before it means nothing.
    Fresh,
    /// White space before it belongs to it.
    Continued,
}

/// Reads one answer.
#[derive(Debug)]
pub struct Parser(Reader);

#[derive(Debug)]
enum Reader {
    /// All of it is the answer.
    Plain,
    Tagged(Box<Tagged>),
    Harmony(Box<Harmony>),
}

impl Parser {
    /// Takes everything as the answer.
    pub fn plain() -> Parser {
        Parser(Reader::Plain)
    }

    /// Reads the dialect. Without tools, nothing is taken for a call. What the prompt has opened already, such as thinking,
    /// is pushed first.
    pub fn new(dialect: Dialect, tools: &Arc<[Tool]>, beginning: Beginning) -> Parser {
        Parser(match (dialect.tools, dialect.thinking) {
            (ToolFormat::Harmony, _) => Reader::Harmony(Box::default()),
            (_, None) if tools.is_empty() => Reader::Plain,
            _ => Reader::Tagged(Box::new(Tagged::new(dialect, Arc::clone(tools), beginning))),
        })
    }

    /// Takes a piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        match &mut self.0 {
            Reader::Plain if text.is_empty() => Vec::new(),
            Reader::Plain => vec![Delta::Content(text.to_owned())],
            Reader::Tagged(tagged) => tagged.push(text),
            Reader::Harmony(harmony) => harmony.push(text),
        }
    }

    /// The text has ended.
    pub fn finish(&mut self) -> Vec<Delta> {
        match &mut self.0 {
            Reader::Plain => Vec::new(),
            Reader::Tagged(tagged) => tagged.finish(),
            Reader::Harmony(harmony) => harmony.finish(),
        }
    }

    /// Whether what comes next is thinking.
    pub fn is_thinking(&self) -> bool {
        match &self.0 {
            Reader::Plain => false,
            Reader::Tagged(tagged) => tagged.is_thinking(),
            Reader::Harmony(harmony) => harmony.is_thinking(),
        }
    }

    /// Whether what comes next is the answer.
    pub fn is_answering(&self) -> bool {
        match &self.0 {
            Reader::Plain => true,
            Reader::Tagged(tagged) => tagged.is_answering(),
            Reader::Harmony(harmony) => harmony.is_answering(),
        }
    }

    /// Calls so far.
    pub fn n_calls(&self) -> usize {
        match &self.0 {
            Reader::Plain => 0,
            Reader::Tagged(tagged) => tagged.n_calls(),
            Reader::Harmony(harmony) => harmony.n_calls(),
        }
    }
}

#[cfg(test)]
mod tests;
