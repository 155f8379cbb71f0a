//! A conversation and its rendering with the model's own template.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use zinc_tokenizer::Tokenizer;
use zinc_tokenizer::chat_template::{ChatTemplate, Error, LocalTime, Message, RenderInput};

use crate::args::shared::Switch;
use crate::failure::{Failure, Kind};
use crate::session::ModelFile;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Messages so far.
pub(crate) struct Conversation {
    template: ChatTemplate,
    system: Option<String>,
    variables: Map<String, Value>,
    messages: Vec<(Speaker, String)>,
}

impl Conversation {
    /// An empty conversation with the model of `file`.
    pub(crate) fn new(
        file: &ModelFile,
        tokenizer: &Tokenizer,
        system: Option<&str>,
        thinking: Option<Switch>,
    ) -> Result<Conversation, Failure> {
        let template = file.template(tokenizer)?;
        let mut variables = Map::new();
        if let Some(thinking) = thinking {
            let switch = template.capabilities().thinking_switch.ok_or_else(|| {
                Failure::usage("this model's chat template has no switch for thinking").remedy("leave out --thinking")
            })?;
            variables.insert(switch.to_owned(), json!(thinking == Switch::On));
        }
        Ok(Conversation { template, system: system.map(str::to_owned), variables, messages: Vec::new() })
    }

    /// Adds a message.
    pub(crate) fn say(&mut self, speaker: Speaker, text: &str) {
        self.messages.push((speaker, text.to_owned()));
    }

    /// Takes the last message back.
    pub(crate) fn unsay(&mut self) {
        self.messages.pop();
    }

    /// Forgets all messages.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
    }

    /// The conversation's ids as the model was trained to read it, ready for its answer. Control
    /// tokens count only where the template wrote them, not in what people said.
    pub(crate) fn ids(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, Failure> {
        let system = self.system.iter().map(|text| Message::text("system", text));
        let said = self.messages.iter().map(|(speaker, text)| {
            let role = if *speaker == Speaker::User { "user" } else { "assistant" };
            Message::text(role, text)
        });
        let messages: Vec<Message> = system.chain(said).collect();
        let input = RenderInput {
            messages: &messages,
            tools: &[],
            add_generation_prompt: true,
            now: now(),
            variables: &self.variables,
        };
        let rendered = self.template.render(&input).map_err(|error| template_failure(&error))?;
        let parts: Vec<_> = rendered.parts().collect();
        Ok(tokenizer.encode_parts(&parts))
    }
}

/// A template's error as a failure of its kind.
pub(crate) fn template_failure(error: &Error) -> Failure {
    match error {
        Error::Absent { .. } => Failure::new(Kind::ModelUnusable, error)
            .remedy("it is a base model: leave out --chat and let it continue a text"),
        Error::Refused { .. } | Error::Content { .. } | Error::Untraceable => Failure::usage(error),
        _ => Failure::new(Kind::ModelUnusable, error),
    }
}

/// The time in UTC; a clock before 1970 counts as 1970.
fn now() -> LocalTime {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let time = LocalTime::from_unix(i64::try_from(seconds).unwrap_or(0), 0).or_else(|| LocalTime::from_unix(0, 0));
    time.expect("1970 is a year that a clock can show")
}
