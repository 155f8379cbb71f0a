//! The chat template that a model brings: a conversation in, the text that the model was trained on out.
//!
//! A template is a program in Jinja, written for Python's transformers and stored in the model's file. [`ChatTemplate`] runs it
//! as transformers does, on `minijinja`, with nothing to reach and with limits on everything ([`Limits`]), since a file from
//! anywhere may hold anything.
//!
//! # Whose text is whose
//!
//! The text that comes out mixes the template's own words, among them the control tokens that separate turns, with text from
//! outside: messages, tools, arguments. A user who writes `<|im_end|>` must not end a turn, so [`Rendered::parts`] says for
//! every stretch of text where it came from, and the tokenizer reads control tokens only in what is the template's.
//!
//! Templates trim, split, compare and join what they are given, and the engine has only plain strings. So text from outside
//! goes in between two private marks (`marks`), and where the marks come out, there the text is. For this to hold, everything
//! that a template can do with a string must know marks: the functions are ours (`strings`, `json`, `python`), and so are the
//! operators (`operators`), because the template is written anew with a call of ours in the place of each (`source`,
//! `expression`). The same calls keep lists and maps from growing beyond what has been paid for (`values`).
//!
//! A few filters remain that see the marks, such as `'%9s'|format(text)`. That must not go unnoticed, so every conversation is
//! rendered twice, with and without marks:
//! 1. The render without marks is the text. An error of it is the error.
//! 2. The render with marks must be the same text, and every mark must have its partner. Then it says which text is whose
//!    ([`Tracing::Strings`]).
//! 3. If not, only whole control tokens that stand in text from outside are marked, and the same is asked. For a conversation
//!    without such text, which is nearly every one, that is the first render again ([`Tracing::ControlTokens`]).
//! 4. If that fails too, nothing is rendered ([`Error::Untraceable`]).
//!
//! Not marked are numbers, and the roles of the protocol (`user`, `assistant` …): templates make control tokens of those.
//!
//! Not done here: text to tokens, the parsing of what a model answers, pictures and sound.

mod capabilities;
mod clock;
mod environment;
mod error;
mod expression;
mod json;
mod marks;
mod message;
mod operators;
mod python;
mod render;
mod source;
mod strings;
mod tokens;
mod values;

pub use capabilities::Capabilities;
pub use clock::LocalTime;
pub use error::{Error, Limit};
pub use message::{Content, FunctionCall, Message, ToolCall};

use crate::{Part, TokenKind, Tokenizer};
use render::Program;
use serde_json::{Map, Value as Json};
use std::ops::Range;
use zinc_gguf::Gguf;

/// The key of a file's template. Further ones follow it with a dot and their name.
const KEY: &str = "tokenizer.chat_template";
/// The key of the template for conversations with tools, where a file has one.
const TOOL_USE_KEY: &str = "tokenizer.chat_template.tool_use";

/// What one render may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a template.
    pub template_bytes_max: usize,
    /// Steps of a render, where 64 bytes made count as one; a step for each byte of the conversation is added.
    pub work_max: u64,
    /// Bytes of the rendered text; eight times the bytes of the conversation are added.
    pub output_bytes_max: u64,
    /// Calls within calls, in the engine's measure: a macro counts several times.
    pub call_depth_max: usize,
}

impl Limits {
    /// Far above what published templates take.
    pub const STANDARD: Limits =
        Limits { template_bytes_max: 1 << 20, work_max: 2_000_000, output_bytes_max: 8 << 20, call_depth_max: 300 };
}

/// The tokens that a template and its user need to know by their text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecialTokens {
    /// The token that begins a text; empty if the model has none.
    pub bos: String,
    /// The token that ends one; empty if the model has none.
    pub eos: String,
    /// Every text that the tokenizer reads as one token where it is allowed to.
    pub control: Vec<String>,
}

/// A model's chat template, ready to render.
#[derive(Debug)]
pub struct ChatTemplate {
    program: Program,
    /// The template for conversations with tools, if it is another.
    tool_use: Option<Program>,
    capabilities: Capabilities,
}

/// What a template is rendered with.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// The conversation.
    pub messages: &'a [Message],
    /// Tools as the API describes them: `{"type": "function", "function": {"name", "description", "parameters"}}`.
    pub tools: &'a [Json],
    /// Whether the text ends where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// The time that the template may ask for.
    pub now: LocalTime,
    /// Further variables, such as `enable_thinking` or `reasoning_effort`.
    pub variables: &'a Map<String, Json>,
}

/// How it was found out which text came from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracing {
    /// Every string was followed.
    Strings,
    /// Only control tokens inside of strings were, and other text from outside counts as the template's.
    ControlTokens,
}

/// A rendered conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    text: String,
    outside: Vec<Range<usize>>,
    tracing: Tracing,
}

impl Rendered {
    /// The whole text. To be encoded without the tokens that the model expects around a text: those are in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text in parts, trusted where it is the template's and not trusted where it came from outside. The cuts between
    /// them mean nothing but that: words may run across.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        marks::parts(&self.text, &self.outside)
    }

    /// How the parts were found.
    pub fn tracing(&self) -> Tracing {
        self.tracing
    }
}

impl ChatTemplate {
    /// Reads a template. `special` are the tokens of the model that it belongs to.
    pub fn parse(source: &str, special: SpecialTokens, limits: Limits) -> Result<ChatTemplate, Error> {
        let program = Program::compile(source, special, limits)?;
        let capabilities = capabilities::capabilities(&program);
        Ok(ChatTemplate { program, tool_use: None, capabilities })
    }

    /// Reads the template, or templates, of a model's file, to which `tokenizer` belongs.
    pub fn from_gguf(file: &Gguf, tokenizer: &Tokenizer, limits: Limits) -> Result<ChatTemplate, Error> {
        let metadata = file.metadata();
        let source = metadata.str(KEY)?.ok_or(Error::Absent { key: KEY })?;
        let special = SpecialTokens::of(tokenizer);
        let mut template = Self::parse(source, special.clone(), limits)?;
        if let Some(source) = metadata.str(TOOL_USE_KEY)? {
            let program = Program::compile(source, special, limits)?;
            template.capabilities = template.capabilities.with_tools(&capabilities::capabilities(&program));
            template.tool_use = Some(program);
        }
        Ok(template)
    }

    /// What the template can do.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Renders a conversation, with the template for tools if tools are given.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<Rendered, Error> {
        match &self.tool_use {
            Some(program) if !input.tools.is_empty() => program.render(input),
            _ => self.program.render(input),
        }
    }
}

impl SpecialTokens {
    /// The tokens of a tokenizer.
    pub fn of(tokenizer: &Tokenizer) -> SpecialTokens {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default().to_owned();
        let steers = |&id: &u32| {
            matches!(tokenizer.kind(id), Some(TokenKind::Control | TokenKind::Unknown))
                || tokenizer.token_text(id) == Some("</s>")
        };
        let control =
            (0..tokenizer.n_vocab()).filter(steers).map(|id| text(Some(id))).filter(|text| !text.is_empty()).collect();
        SpecialTokens { bos: text(tokenizer.bos()), eos: text(tokenizer.eos()), control }
    }
}
