//! Answers that are forced into a form: the text that the server writes itself, and the constraint on what follows.
//!
//! A call that must come is begun by the server in the family's own marks, so that the model is asked only for what is
//! open: which function, with which arguments.

use std::fmt::Write;

use serde_json::{Value, json};
use zinc_tokenizer::{TokenKind, Tokenizer};

use super::ask::{Format, ToolChoice};
use crate::engine::Constraint;
use crate::parse::{Dialect, Tool, ToolFormat};

/// A form that an answer must have.
#[derive(Clone, Debug)]
pub(crate) struct Forced {
    /// What stands at the answer's beginning.
    pub(crate) opening: String,
    /// What may follow.
    pub(crate) constraint: Constraint,
}

/// The form that a format asks for; nothing if any text will do.
pub(crate) fn format(dialect: Dialect, format: &Format) -> Option<Forced> {
    let constraint = match format {
        Format::Text => return None,
        Format::JsonObject => json_schema(json!({"type": "object"})),
        Format::Schema(schema) => json_schema(schema.clone()),
        Format::Regex(regex) => Constraint::Regex(regex.clone()),
        Format::Grammar(lark) => Constraint::Lark(lark.clone()),
    };
    let opening = match dialect.tools {
        ToolFormat::Harmony => "<|channel|>final<|message|>",
        _ => "",
    };
    Some(Forced { opening: opening.to_owned(), constraint })
}

/// The form of a call that must come; nothing if the model may choose.
pub(crate) fn call(dialect: Dialect, tools: &[Tool], choice: &ToolChoice, tokenizer: &Tokenizer) -> Option<Forced> {
    let tools: Vec<&Tool> = match choice {
        ToolChoice::None | ToolChoice::Auto => return None,
        ToolChoice::Required => tools.iter().collect(),
        ToolChoice::Named(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
    };
    let forced = |opening: &str, constraint| Some(Forced { opening: opening.to_owned(), constraint });
    match dialect.tools {
        ToolFormat::None => None,
        ToolFormat::TaggedJson => forced("<tool_call>\n", objects(&tools, "arguments")),
        ToolFormat::BareJson => forced("", objects(&tools, "parameters")),
        ToolFormat::JsonList => forced("[TOOL_CALLS][", objects(&tools, "arguments")),
        ToolFormat::Harmony => forced("<|channel|>commentary to=functions.", harmony(&tools, tokenizer)),
        ToolFormat::Xml => forced("<tool_call>\n<function=", xml(&tools)),
        ToolFormat::Gemma => forced("<|tool_call>call:", gemma(&tools, tokenizer)),
    }
}

/// `{"name": …, "arguments": …}` of one of the tools.
fn objects(tools: &[&Tool], key: &str) -> Constraint {
    let one = |tool: &&Tool| {
        json!({
            "type": "object",
            "properties": {"name": {"const": tool.name}, key: parameters(tool)},
            "required": ["name", key],
            "additionalProperties": false,
        })
    };
    let mut all: Vec<Value> = tools.iter().map(one).collect();
    json_schema(if all.len() == 1 { all.remove(0) } else { json!({"anyOf": all}) })
}

fn json_schema(schema: Value) -> Constraint {
    Constraint::JsonSchema(on_one_line(schema).to_string())
}

/// The schema for JSON on one line: a small model that may write white space can go on with that for ever.
fn on_one_line(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        let layout = json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "});
        fields.entry("x-guidance").or_insert(layout);
    }
    schema
}

fn parameters(tool: &Tool) -> Value {
    if tool.parameters.is_object() { tool.parameters.clone() } else { json!({"type": "object"}) }
}

fn harmony(tools: &[&Tool], tokenizer: &Tokenizer) -> Constraint {
    let (constrain, message) = (token(tokenizer, "<|constrain|>"), token(tokenizer, "<|message|>"));
    alternatives(tools, |index, tool, grammar| {
        let name = literal(&format!("{} ", tool.name));
        let _ = writeln!(grammar, "c{index}: {name} {constrain} \"json\" {message} a{index}");
        let _ = writeln!(grammar, "a{index}: %json {}", on_one_line(parameters(tool)));
    })
}

fn xml(tools: &[&Tool]) -> Constraint {
    let mut constraint = alternatives(tools, |index, tool, grammar| {
        let mut rule = format!("c{index}: {}", literal(&format!("{}>\n", tool.name)));
        let mut values = String::new();
        for (place, (key, schema, is_required)) in properties(tool).into_iter().enumerate() {
            let _ = write!(rule, " p{index}_{place}{}", if is_required { "" } else { "?" });
            let open = literal(&format!("<parameter={key}>\n"));
            let _ = match (schema["type"].as_str(), words(&schema)) {
                (Some("string"), None) => writeln!(values, "p{index}_{place}: {open} text"),
                (Some("string"), Some(words)) => writeln!(values, "p{index}_{place}: {open} ({words}) CLOSE"),
                _ => writeln!(
                    values,
                    "v{index}_{place}: %json {}\np{index}_{place}: {open} v{index}_{place} CLOSE",
                    on_one_line(schema)
                ),
            };
        }
        let _ = write!(grammar, "{rule} END\n{values}");
    });
    if let Constraint::Lark(grammar) = &mut constraint {
        grammar.push_str("CLOSE: \"\\n</parameter>\\n\"\nEND: \"</function>\\n</tool_call>\"\n");
        grammar.push_str("text[lazy]: /(.|\\n)*\\n<\\/parameter>\\n/\n");
    }
    constraint
}

fn gemma(tools: &[&Tool], tokenizer: &Tokenizer) -> Constraint {
    let quote = token(tokenizer, "<|\"|>");
    let close = token(tokenizer, "<tool_call|>");
    let mut constraint = alternatives(tools, |index, tool, grammar| {
        let mut rule = format!("c{index}: {}", literal(&format!("{}{{", tool.name)));
        for (place, (key, schema, is_required)) in properties(tool).into_iter().enumerate() {
            let key = literal(&format!("{}{key}:", if place == 0 { "" } else { "," }));
            let value = match (schema["type"].as_str(), words(&schema)) {
                (Some("string"), Some(words)) => format!("{quote} ({words}) {quote}"),
                (Some("string"), None) => "string".to_owned(),
                (Some("integer"), _) => "INTEGER".to_owned(),
                (Some("number"), _) => "NUMBER".to_owned(),
                (Some("boolean"), _) => "boolean".to_owned(),
                _ => "value".to_owned(),
            };
            // The first has no comma before it, so what follows it must not come alone.
            let optional = if is_required || place == 0 { "" } else { "?" };
            let _ = write!(rule, " ({key} {value}){optional}");
        }
        let _ = writeln!(grammar, "{rule} \"}}\" {close}");
    });
    if let Constraint::Lark(grammar) = &mut constraint {
        let _ = write!(
            grammar,
            "value: string | NUMBER | boolean | \"null\" | list | object\nstring: {quote} TEXT {quote}\nTEXT: /[^<]*/\n\
             boolean: \"true\" | \"false\"\nlist: \"[\" (value (\",\" value)*)? \"]\"\n\
             object: \"{{\" (string \":\" value (\",\" string \":\" value)*)? \"}}\"\n\
             INTEGER: /-?[0-9]{{1,18}}/\nNUMBER: /-?[0-9]{{1,18}}(\\.[0-9]{{1,18}})?/\n"
        );
    }
    constraint
}

/// A grammar of one rule `c0`, `c1`, … for each tool.
fn alternatives(tools: &[&Tool], mut rule: impl FnMut(usize, &Tool, &mut String)) -> Constraint {
    let names: Vec<String> = (0..tools.len()).map(|index| format!("c{index}")).collect();
    let mut grammar = format!("start: {}\n", names.join(" | "));
    for (index, tool) in tools.iter().enumerate() {
        rule(index, tool, &mut grammar);
    }
    Constraint::Lark(grammar)
}

/// Names, schemas and necessity of a tool's arguments, the necessary ones first.
fn properties(tool: &Tool) -> Vec<(String, Value, bool)> {
    let required =
        |key: &str| tool.parameters["required"].as_array().is_some_and(|keys| keys.iter().any(|name| name == key));
    let fields = tool.parameters["properties"].as_object();
    let mut all: Vec<_> =
        fields.into_iter().flatten().map(|(key, schema)| (key.clone(), schema.clone(), required(key))).collect();
    all.sort_by_key(|(_, _, is_required)| !is_required);
    all
}

/// The texts that a schema allows, if it lists them, in the grammar's notation.
fn words(schema: &Value) -> Option<String> {
    let words: Vec<String> = schema["enum"].as_array()?.iter().filter_map(Value::as_str).map(literal).collect();
    (!words.is_empty()).then(|| words.join(" | "))
}

/// A text in the grammar's notation.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// A mark in the grammar's notation: as a token if it is one that steers.
fn token(tokenizer: &Tokenizer, mark: &str) -> String {
    match tokenizer.token_to_id(mark) {
        Some(id) if tokenizer.kind(id) == Some(TokenKind::Control) => format!("<[{id}]>"),
        _ => literal(mark),
    }
}
