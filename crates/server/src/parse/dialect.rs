//! How a model marks thinking and calls of tools, found out by rendering small conversations with its template.
//!
//! A model writes in the form in which its template shows it what it wrote before, so the form is read off a rendered
//! call. Nothing is concluded from names of models.

use serde_json::{Map, json};
use zinc_tokenizer::chat_template::{ChatTemplate, FunctionCall, LocalTime, Message, RenderInput, ToolCall};

/// How a family writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// What stands around thinking, if it thinks.
    pub thinking: Option<ThinkingMarks>,
    /// How it calls tools.
    pub tools: ToolFormat,
}

/// What stands around thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinkingMarks {
    /// Before.
    pub open: &'static str,
    /// After.
    pub close: &'static str,
}

/// How tools are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// The template knows no tools.
    None,
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen.
    TaggedJson,
    /// `<tool_call><function=…><parameter=…>…`: Qwen3-Coder, Qwen3.5.
    Xml,
    /// The answer is `{"name": …, "parameters": …}`: Llama 3.
    BareJson,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`: Mistral.
    JsonList,
    /// `<|tool_call>call:name{…}<tool_call|>`: Gemma 4.
    Gemma,
    /// Channels and recipients: gpt-oss.
    Harmony,
}

/// Marks of thinking that families use.
const MARKS: [ThinkingMarks; 4] = [
    ThinkingMarks { open: "<think>", close: "</think>" },
    ThinkingMarks { open: "<|channel>thought", close: "<channel|>" },
    ThinkingMarks { open: "[THINK]", close: "[/THINK]" },
    ThinkingMarks { open: "<seed:think>", close: "</seed:think>" },
];
/// The channel in which gpt-oss thinks.
const HARMONY: ThinkingMarks = ThinkingMarks { open: "<|channel|>analysis<|message|>", close: "<|end|>" };

impl ToolFormat {
    /// What stands before a call.
    pub(crate) const fn open(self) -> Option<&'static str> {
        match self {
            ToolFormat::TaggedJson | ToolFormat::Xml => Some("<tool_call>"),
            ToolFormat::JsonList => Some("[TOOL_CALLS]"),
            ToolFormat::Gemma => Some("<|tool_call>"),
            ToolFormat::None | ToolFormat::BareJson | ToolFormat::Harmony => None,
        }
    }

    /// What stands after one.
    pub(crate) const fn close(self) -> Option<&'static str> {
        match self {
            ToolFormat::TaggedJson | ToolFormat::Xml => Some("</tool_call>"),
            ToolFormat::Gemma => Some("<tool_call|>"),
            _ => None,
        }
    }
}

impl Dialect {
    /// A model without a template.
    pub const NONE: Dialect = Dialect { thinking: None, tools: ToolFormat::None };

    /// The dialect of a template.
    pub fn of(template: &ChatTemplate) -> Dialect {
        let called = rendered(template, &[Message::text("user", "Hi"), calling(), answering()]);
        let tools = tool_format(&called);
        if tools == ToolFormat::Harmony {
            return Dialect { thinking: Some(HARMONY), tools };
        }
        let thinking = Message { reasoning_content: Some(PROBE.to_owned()), ..calling() };
        let last = Message { reasoning_content: Some(PROBE.to_owned()), ..Message::text("assistant", "Yes.") };
        let texts = [
            called,
            rendered(template, &[Message::text("user", "Hi"), thinking, answering()]),
            rendered(template, &[Message::text("user", "Hi"), last]),
            rendered(template, &[Message::text("user", "Hi")]),
            switched_off(template),
        ];
        let shown = |marks: &&ThinkingMarks| texts.iter().any(|text| text.contains(marks.open));
        Dialect { thinking: MARKS.iter().find(shown).copied(), tools }
    }

    /// Control tokens that the parser needs to see as text.
    pub fn control_marks(&self) -> &'static [&'static str] {
        &[
            "<think>",
            "</think>",
            "[THINK]",
            "[/THINK]",
            "<seed:think>",
            "</seed:think>",
            "<tool_call>",
            "</tool_call>",
            "[TOOL_CALLS]",
            "<|channel>",
            "<channel|>",
            "<|tool_call>",
            "<tool_call|>",
            "<|\"|>",
            "<|channel|>",
            "<|message|>",
            "<|start|>",
            "<|end|>",
            "<|constrain|>",
            "<|call|>",
            "<|return|>",
        ]
    }
}

/// A text that no template contains.
const PROBE: &str = "zinc-probe";

fn tool_format(called: &str) -> ToolFormat {
    let compact: String = called.split_whitespace().collect();
    if called.contains("to=functions.look_up") {
        ToolFormat::Harmony
    } else if called.contains("<|tool_call>call:look_up") {
        ToolFormat::Gemma
    } else if called.contains("<function=look_up>") {
        ToolFormat::Xml
    } else if called.contains("<tool_call>") && compact.contains("\"name\":\"look_up\"") {
        ToolFormat::TaggedJson
    } else if called.contains("[TOOL_CALLS]") {
        ToolFormat::JsonList
    } else if compact.contains("{\"name\":\"look_up\",\"parameters\":{\"argument0\"") {
        ToolFormat::BareJson
    } else {
        ToolFormat::None
    }
}

fn rendered(template: &ChatTemplate, messages: &[Message]) -> String {
    render(template, messages, Map::new())
}

fn switched_off(template: &ChatTemplate) -> String {
    let Some(switch) = template.capabilities().thinking_switch else { return String::new() };
    render(template, &[Message::text("user", "Hi")], Map::from_iter([(switch.to_owned(), false.into())]))
}

/// The text of a conversation with a tool; empty if the template refuses it.
fn render(template: &ChatTemplate, messages: &[Message], variables: Map<String, serde_json::Value>) -> String {
    let tools = [json!({"type": "function", "function": {
        "name": "look_up", "description": "Looks it up.",
        "parameters": {"type": "object", "properties": {"argument0": {"type": "string", "description": "What."}}, "required": ["argument0"]},
    }})];
    let now = LocalTime::from_unix(0, 0).expect("1970 is a time that a clock can show");
    let tools = if messages.len() > 2 { &tools[..] } else { &[] };
    let is_open = messages.last().is_some_and(|message| message.role != "assistant");
    let input = RenderInput { messages, tools, add_generation_prompt: is_open, now, variables: &variables };
    template.render(&input).map(|rendered| rendered.text().to_owned()).unwrap_or_default()
}

fn calling() -> Message {
    let function = FunctionCall { name: "look_up".to_owned(), arguments: json!({"argument0": "x"}) };
    let call = ToolCall { id: Some("call00000".to_owned()), function };
    Message { content: None, tool_calls: Some(vec![call]), ..Message::text("assistant", "") }
}

fn answering() -> Message {
    Message {
        tool_call_id: Some("call00000".to_owned()),
        name: Some("look_up".to_owned()),
        ..Message::text("tool", "5")
    }
}
