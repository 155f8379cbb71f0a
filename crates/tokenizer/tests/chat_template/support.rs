//! The cases in `fixtures/templates`, and shorthands.

use serde_json::{Map, Value as Json};
use std::path::Path;
use zinc_tokenizer::chat_template::{
    ChatTemplate, Error, Limits, LocalTime, Message, RenderInput, Rendered, SpecialTokens,
};

/// The templates with cases.
pub(crate) const FAMILIES: [&str; 12] = [
    "deepseek_r1",
    "gemma3",
    "gemma4",
    "gptoss",
    "llama3",
    "mistral",
    "phi3",
    "qwen2_5",
    "qwen3",
    "qwen3_5",
    "qwen3_5_small",
    "smollm2",
];

/// A file of `fixtures/templates`.
pub(crate) fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/templates").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A JSON file of `fixtures/templates/cases`.
pub(crate) fn cases(name: &str) -> Json {
    serde_json::from_str(&read(&format!("cases/{name}.json"))).unwrap()
}

/// The time at which the cases were rendered.
pub(crate) fn now() -> LocalTime {
    LocalTime::from_unix(1_741_529_106, 0).unwrap()
}

/// A family's template, with its tokens from its cases.
pub(crate) fn family(name: &str) -> ChatTemplate {
    let cases = cases(name);
    let control = cases["control"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    let text = |key: &str| cases[key].as_str().unwrap().to_owned();
    let special = SpecialTokens { bos: text("bos"), eos: text("eos"), control };
    ChatTemplate::parse(&read(&format!("templates/{name}.jinja")), special, Limits::STANDARD).unwrap()
}

/// A template whose control tokens are `<|a|>` and `<|b|>`.
pub(crate) fn parse(source: &str) -> Result<ChatTemplate, Error> {
    let control = vec!["<|a|>".to_owned(), "<|b|>".to_owned()];
    ChatTemplate::parse(
        source,
        SpecialTokens { bos: "<|a|>".to_owned(), eos: "<|b|>".to_owned(), control },
        Limits::STANDARD,
    )
}

/// What a render is called with, owned.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Json>,
    pub(crate) add_generation_prompt: bool,
    pub(crate) variables: Map<String, Json>,
}

impl Conversation {
    /// One of `cases/conversations.json`.
    pub(crate) fn from_json(json: &Json) -> Conversation {
        Conversation {
            messages: serde_json::from_value(json["messages"].clone()).unwrap(),
            tools: json["tools"].as_array().unwrap().clone(),
            add_generation_prompt: json["add_generation_prompt"].as_bool().unwrap(),
            variables: json["variables"].as_object().unwrap().clone(),
        }
    }

    /// One user message.
    pub(crate) fn user(text: &str) -> Conversation {
        Conversation {
            messages: vec![Message::text("user", text)],
            tools: Vec::new(),
            add_generation_prompt: true,
            variables: Map::new(),
        }
    }

    pub(crate) fn render(&self, template: &ChatTemplate) -> Result<Rendered, Error> {
        template.render(&RenderInput {
            messages: &self.messages,
            tools: &self.tools,
            add_generation_prompt: self.add_generation_prompt,
            now: now(),
            variables: &self.variables,
        })
    }
}
