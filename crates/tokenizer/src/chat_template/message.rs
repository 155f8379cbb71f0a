//! Messages as an application has them, and as templates expect them.
//!
//! Templates are written for the JSON of the chat completions API, so [`Message`] reads that form. What differs between
//! templates is settled here by what `capabilities` found out: parts of text become one text for a template that knows no
//! parts, and the other way round. As in transformers, absent fields are absent rather than null, reasoning is given under
//! both names that templates use, and arguments of calls are objects; a template that fails at these gets what it asks for.

use super::Error;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// One message of a conversation.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or what else the template knows.
    pub role: String,
    /// What is said; absent where an assistant only calls tools.
    #[serde(default)]
    pub content: Option<Content>,
    /// What an assistant thought before.
    #[serde(default)]
    pub reasoning_content: Option<String>,
    /// The tools that an assistant calls.
    #[serde(default)]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// The name of the speaker, or of the tool that answers.
    #[serde(default)]
    pub name: Option<String>,
    /// Further fields, passed to the template as they are.
    #[serde(flatten)]
    pub more: Map<String, Json>,
}

/// What a message says.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One text.
    Text(String),
    /// Parts, each an object with a `type`, such as `{"type": "text", "text": …}`.
    Parts(Vec<Map<String, Json>>),
}

/// A call of a tool by an assistant.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct ToolCall {
    /// What the answer refers to.
    #[serde(default)]
    pub id: Option<String>,
    /// Which function, with which arguments.
    pub function: FunctionCall,
}

/// A function and its arguments.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct FunctionCall {
    /// The function's name.
    pub name: String,
    /// An object, or the JSON text of one, as the API has it.
    #[serde(default)]
    pub arguments: Json,
}

/// The form of messages that a template takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) content: ContentForm,
    pub(super) absent: AbsentForm,
    pub(super) arguments: ArgumentsForm,
}

/// The form of content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ContentForm {
    Text,
    Parts,
    Both,
}

/// The form of content that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AbsentForm {
    Missing,
    Null,
    Empty,
}

/// The form of the arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArgumentsForm {
    Object,
    Text,
}

impl Message {
    /// A message that is text alone.
    pub fn text(role: &str, text: &str) -> Message {
        Message {
            role: role.to_owned(),
            content: Some(Content::Text(text.to_owned())),
            reasoning_content: None,
            tool_calls: None,
            tool_call_id: None,
            name: None,
            more: Map::new(),
        }
    }

    /// The object that a template of the given shape sees. `place` is the message's, for errors.
    pub(super) fn to_json(&self, place: usize, shape: Shape) -> Result<Json, Error> {
        let mut fields = Map::new();
        fields.insert("role".to_owned(), self.role.clone().into());
        let content = match (&self.content, shape.absent) {
            // A template that tells calls by null must not be misled by an empty text.
            (Some(Content::Text(text)), AbsentForm::Null) if text.is_empty() && self.tool_calls.is_some() => {
                Some(Json::Null)
            }
            (Some(content), _) => Some(content.to_json(place, shape.content)?),
            (None, AbsentForm::Missing) => None,
            (None, AbsentForm::Null) => Some(Json::Null),
            (None, AbsentForm::Empty) => Some("".into()),
        };
        if let Some(content) = content {
            fields.insert("content".to_owned(), content);
        }
        if let Some(reasoning) = &self.reasoning_content {
            fields.insert("reasoning_content".to_owned(), reasoning.clone().into());
            fields.insert("thinking".to_owned(), reasoning.clone().into());
        }
        if let Some(calls) = &self.tool_calls {
            fields.insert("tool_calls".to_owned(), calls.iter().map(|call| call.to_json(shape.arguments)).collect());
        }
        for (key, value) in [("tool_call_id", &self.tool_call_id), ("name", &self.name)] {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value.clone().into());
            }
        }
        for (key, value) in &self.more {
            if !value.is_null() && !fields.contains_key(key) {
                fields.insert(key.clone(), value.clone());
            }
        }
        Ok(fields.into())
    }
}

impl Content {
    fn to_json(&self, place: usize, form: ContentForm) -> Result<Json, Error> {
        Ok(match (self, form) {
            (Content::Text(text), ContentForm::Text | ContentForm::Both) => text.clone().into(),
            (Content::Text(text), ContentForm::Parts) => serde_json::json!([{"type": "text", "text": text}]),
            (Content::Parts(parts), ContentForm::Parts | ContentForm::Both) => {
                parts.iter().cloned().map(Json::from).collect()
            }
            (Content::Parts(parts), ContentForm::Text) => {
                let text = |part: &Map<String, Json>| match part.get("text") {
                    Some(Json::String(text)) => Ok(text.clone()),
                    _ => {
                        let kind = part.get("type").and_then(Json::as_str).unwrap_or("unknown").to_owned();
                        Err(Error::Content { message: place, kind })
                    }
                };
                parts.iter().map(text).collect::<Result<String, _>>()?.into()
            }
        })
    }
}

impl ToolCall {
    fn to_json(&self, form: ArgumentsForm) -> Json {
        let mut fields = Map::new();
        if let Some(id) = &self.id {
            fields.insert("id".to_owned(), id.clone().into());
        }
        fields.insert("type".to_owned(), "function".into());
        let arguments = match (&self.function.arguments, form) {
            // Text that is no object stays text; most templates print it as it is.
            (Json::String(text), ArgumentsForm::Object) => {
                serde_json::from_str::<Map<_, _>>(text).map_or_else(|_| text.clone().into(), Json::from)
            }
            (Json::Object(fields), ArgumentsForm::Text) => Json::Object(fields.clone()).to_string().into(),
            (other, _) => other.clone(),
        };
        let mut function = Map::new();
        function.insert("name".to_owned(), self.function.name.clone().into());
        if !arguments.is_null() {
            function.insert("arguments".to_owned(), arguments);
        }
        fields.insert("function".to_owned(), function.into());
        fields.into()
    }
}
