//! A conversation and its rendering with the model's own template.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use zinc_tokenizer::chat_template::{ChatTemplate, Rendered};

use crate::args::Switch;
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
    thinking: Option<Switch>,
    messages: Vec<(Speaker, String)>,
}

impl Conversation {
    /// An empty conversation with the model of `file`.
    pub(crate) fn new(file: &ModelFile, system: Option<&str>, thinking: Option<Switch>) -> Result<Conversation, Failure> {
        let template = file.template()?.ok_or_else(|| {
            Failure::new(Kind::ModelUnusable, format!("{} has no chat template", file.path.display()))
                .remedy("it is a base model: leave out --chat and let it continue a text")
        })?;
        Ok(Conversation { template, system: system.map(str::to_owned), thinking, messages: Vec::new() })
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

    /// The conversation as the model was trained to read it, ready for its answer.
    pub(crate) fn render(&self) -> Result<Rendered, Failure> {
        let system = self.system.iter().map(|text| Message::text(Role::System, text));
        let said = self.messages.iter().map(|(speaker, text)| {
            let role = if *speaker == Speaker::User { Role::User } else { Role::Assistant };
            Message::text(role, text)
        });
        let messages: Vec<Message> = system.chain(said).collect();
        let kwargs = self.thinking.map(|t| ("enable_thinking".to_owned(), json!(t == Switch::On)));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        self.template
            .render(&RenderInput { messages: &messages, tools: &[], add_generation_prompt: true, now, kwargs: kwargs.into_iter().collect() })
            .map_err(|e| Failure::new(Kind::ModelUnusable, format!("the model's chat template failed: {e}")))
    }
}
