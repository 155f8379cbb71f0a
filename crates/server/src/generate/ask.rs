//! What a client asks for, whichever API it speaks.

use std::sync::Arc;

use serde_json::{Map, Value};
use zinc_tokenizer::chat_template::Message;

use crate::parse::Tool;

/// A request, read and checked as far as that goes without a model.
#[derive(Debug)]
pub(crate) struct Ask {
    /// What is to be continued.
    pub(crate) prompt: Prompt,
    /// Functions that may be called.
    pub(crate) tools: Arc<[Tool]>,
    /// Whether they must be.
    pub(crate) tool_choice: ToolChoice,
    /// Whether several calls may stand in one answer.
    pub(crate) parallel_calls: bool,
    /// The form of the answer.
    pub(crate) format: Format,
    /// How tokens are chosen.
    pub(crate) sampling: SamplingChoice,
    /// Tokens at most; what the context leaves if absent.
    pub(crate) max_tokens: Option<u32>,
    /// Texts that end an answer.
    pub(crate) stop: Vec<String>,
    /// Answers.
    pub(crate) n_choices: u32,
    /// Seed; from the system if absent.
    pub(crate) seed: Option<u64>,
    /// Log probabilities: of the tokens and of so many others at each.
    pub(crate) logprobs: Option<u32>,
    /// What the client says on thinking.
    pub(crate) thinking: Thinking,
    /// Go on after the model's end of an answer.
    pub(crate) ignore_eos: bool,
    /// Report the prompt's progress.
    pub(crate) reports_progress: bool,
}

/// What is to be continued.
#[derive(Debug)]
pub(crate) enum Prompt {
    /// A conversation, through the model's template.
    Chat {
        /// The messages.
        messages: Vec<Message>,
        /// Further variables of the template.
        variables: Map<String, Value>,
        /// The last message, an assistant's, is to be continued rather than answered.
        continues: bool,
    },
    /// A text.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

/// Whether tools must be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    /// No tool is called.
    None,
    /// As the model likes.
    Auto,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Format {
    /// Any.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that fits a schema.
    Schema(Value),
    /// Text that fits a regular expression.
    Regex(String),
    /// Text that fits a grammar in Lark's notation.
    Grammar(String),
}

/// Parameters of sampling; what is absent is as the model's authors recommend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SamplingChoice {
    pub(crate) temperature: Option<f32>,
    pub(crate) top_k: Option<u32>,
    pub(crate) top_p: Option<f32>,
    pub(crate) min_p: Option<f32>,
    pub(crate) repetition_penalty: Option<f32>,
    pub(crate) presence_penalty: Option<f32>,
    pub(crate) frequency_penalty: Option<f32>,
    pub(crate) logit_bias: Vec<(u32, f32)>,
}

/// What a client says on thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thinking {
    /// On or off.
    pub(crate) switch: Option<bool>,
    /// How much, in the template's words.
    pub(crate) effort: Option<String>,
    /// Tokens of thinking at most.
    pub(crate) budget: Option<u32>,
}
