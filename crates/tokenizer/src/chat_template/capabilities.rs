//! What a template can do, found by rendering small conversations and looking at what comes out.
//!
//! A probe asks whether a text that stands nowhere else shows up in the result, or whether a switch changes it. A template
//! that refuses a probe, or fails at it, does not have the ability. Nothing is concluded from the template's source.

use super::message::{AbsentForm, ArgumentsForm, Content, ContentForm, FunctionCall, Message, Shape, ToolCall};
use super::render::Program;
use super::{LocalTime, RenderInput};
use serde_json::{Map, Value as Json, json};

/// A text that no template contains.
const PROBE: &str = "zinc-probe";
/// The names of switches for thinking that templates have.
const THINKING_SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];

/// What a template can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Takes a system message, as its own turn or within the user's.
    pub system_role: bool,
    /// Tells the model about tools.
    pub tools: bool,
    /// Shows calls of tools that an assistant made.
    pub tool_calls: bool,
    /// Shows several calls in one message.
    pub parallel_tool_calls: bool,
    /// Shows what tools answered.
    pub tool_results: bool,
    /// Shows reasoning that is kept in the history, at least between calls of tools.
    pub reasoning_history: bool,
    /// Has a variable, this one, that switches thinking on and off.
    pub thinking_switch: Option<&'static str>,
    /// Has a variable `reasoning_effort`.
    pub reasoning_effort: bool,
    /// Takes content as a list of parts.
    pub content_parts: bool,
}

impl Capabilities {
    /// With what another template can do about tools.
    pub(super) fn with_tools(self, other: &Capabilities) -> Capabilities {
        Capabilities {
            tools: other.tools,
            tool_calls: other.tool_calls,
            parallel_tool_calls: other.parallel_tool_calls,
            tool_results: other.tool_results,
            ..self
        }
    }
}

impl Shape {
    /// What transformers assumes of every template.
    pub(super) const STANDARD: Shape =
        Shape { content: ContentForm::Both, absent: AbsentForm::Missing, arguments: ArgumentsForm::Object };
}

/// The form of messages that `program` takes.
pub(super) fn shape(program: &Program) -> Shape {
    let shown = |content| {
        let message = Message { content: Some(content), ..Message::text("user", "") };
        let text = probe(program, Shape::STANDARD, Probe { messages: &[message], ..Probe::default() })?;
        // A part that is printed rather than read shows its type.
        text.contains(PROBE).then(|| !text.contains("'type'"))
    };
    let text = shown(Content::Text(PROBE.to_owned())).is_some();
    let parts = shown(Content::Parts(vec![text_part(PROBE)])) == Some(true);
    let content = match (text, parts) {
        (true, true) => ContentForm::Both,
        (false, true) => ContentForm::Parts,
        (_, false) => ContentForm::Text,
    };
    let forms = [AbsentForm::Missing, AbsentForm::Empty, AbsentForm::Null].into_iter().flat_map(|absent| {
        [ArgumentsForm::Object, ArgumentsForm::Text].map(|arguments| Shape { content, absent, arguments })
    });
    let calls = [Message::text("user", "Hi"), Message { content: None, ..calling(1) }];
    let mut rendered = forms.filter_map(|shape| {
        let text = probe(program, shape, Probe { messages: &calls, ..Probe::default() })?;
        (!text.contains("None")).then_some((shape, text.contains("argument0")))
    });
    // The first that shows the call, or else the first that passes.
    let first = rendered.next();
    match first {
        Some((shape, false)) => rendered.find(|(_, shows)| *shows).map_or(shape, |(shape, _)| shape),
        Some((shape, true)) => shape,
        None => Shape { content, ..Shape::STANDARD },
    }
}

/// What `program`, whose shape is known, can do.
pub(super) fn capabilities(program: &Program) -> Capabilities {
    let user = || Message::text("user", "Hi");
    let shows = |messages: &[Message], tools: &[Json], wanted: &str| {
        probe(program, program.shape(), Probe { messages, tools, ..Probe::default() })
            .is_some_and(|text| text.contains(wanted))
    };
    let switches = |name: &str, values: [Json; 2]| {
        let [a, b] = values.map(|value| {
            let variables = Map::from_iter([(name.to_owned(), value)]);
            probe(program, program.shape(), Probe { messages: &[user()], variables, ..Probe::default() })
        });
        a.is_some() && b.is_some() && a != b
    };
    let tools = [tool(PROBE)];
    let known = [tool("look_up")];
    let system = Message::text("system", PROBE);
    let reasoning = |calls| Message { reasoning_content: Some(PROBE.to_owned()), ..calls };
    Capabilities {
        system_role: shows(&[system, user()], &[], PROBE),
        tools: shows(&[user()], &tools, PROBE),
        tool_calls: shows(&[user(), calling(1), answer(0, "5")], &known, "argument0"),
        parallel_tool_calls: shows(&[user(), calling(2), answer(0, "5"), answer(1, "6")], &known, "argument1"),
        tool_results: shows(&[user(), calling(1), answer(0, PROBE)], &known, PROBE),
        reasoning_history: shows(&[user(), reasoning(calling(1)), answer(0, "5")], &known, PROBE)
            || shows(&[user(), reasoning(Message::text("assistant", "Yes.")), user()], &[], PROBE),
        thinking_switch: THINKING_SWITCHES.into_iter().find(|name| switches(name, [true.into(), false.into()])),
        reasoning_effort: switches("reasoning_effort", ["low".into(), "high".into()]),
        content_parts: program.shape().content != ContentForm::Text,
    }
}

#[derive(Default)]
struct Probe<'a> {
    messages: &'a [Message],
    tools: &'a [Json],
    variables: Map<String, Json>,
}

/// The text that comes out, if any.
fn probe(program: &Program, shape: Shape, probe: Probe<'_>) -> Option<String> {
    let input = RenderInput {
        messages: probe.messages,
        tools: probe.tools,
        add_generation_prompt: true,
        now: LocalTime::from_unix(0, 0)?,
        variables: &probe.variables,
    };
    program.probe(&input, shape).ok()
}

fn text_part(text: &str) -> Map<String, Json> {
    Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), text.into())])
}

fn tool(name: &str) -> Json {
    json!({"type": "function", "function": {
        "name": name, "description": "Looks it up.",
        "parameters": {"type": "object", "properties": {"argument0": {"type": "string", "description": "What."}}, "required": ["argument0"]},
    }})
}

/// An identifier of nine letters and digits, which is what the strictest template asks for.
fn call_id(place: usize) -> String {
    format!("call0000{place}")
}

/// An assistant that calls a tool `n_calls` times.
fn calling(n_calls: usize) -> Message {
    let call = |place: usize| ToolCall {
        id: Some(call_id(place)),
        function: FunctionCall { name: "look_up".to_owned(), arguments: json!({format!("argument{place}"): "x"}) },
    };
    Message { tool_calls: Some((0..n_calls).map(call).collect()), ..Message::text("assistant", "") }
}

/// What a tool answers to the call at `place`.
fn answer(place: usize, text: &str) -> Message {
    Message { tool_call_id: Some(call_id(place)), name: Some("look_up".to_owned()), ..Message::text("tool", text) }
}
