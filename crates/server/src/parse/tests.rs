//! Answers in each family's form, as its own template writes them, cut in every way.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use zinc_tokenizer::chat_template::{ChatTemplate, Limits, SpecialTokens};

use super::{Beginning, Delta, Dialect, Parser, Tool, ToolFormat};

/// What an answer amounts to: thinking, text, calls.
type Answer = (String, String, Vec<(String, Value)>);

fn tools() -> Arc<[Tool]> {
    let parameters = json!({"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "zip": {"type": "string"}}});
    let tool =
        |name: &str| Tool { name: name.into(), description: None, parameters: parameters.clone(), strict: false };
    [tool("weather"), tool("look_up")].into()
}

fn template(name: &str) -> ChatTemplate {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/templates/templates");
    let source = fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
    let special = SpecialTokens { bos: "<s>".into(), eos: "</s>".into(), control: Vec::new() };
    ChatTemplate::parse(&source, special, Limits::STANDARD).unwrap()
}

fn read(dialect: Dialect, tools: &Arc<[Tool]>, begin: &str, text: &str, n: usize) -> Answer {
    let mut parser = Parser::new(dialect, tools, Beginning::Fresh);
    let chars: Vec<char> = text.chars().collect();
    let mut deltas = parser.push(begin);
    for piece in chars.chunks(n) {
        deltas.extend(parser.push(&piece.iter().collect::<String>()));
    }
    deltas.extend(parser.finish());
    let (mut thinking, mut content) = (String::new(), String::new());
    let mut calls: Vec<(String, String)> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Reasoning(text) => thinking.push_str(&text),
            Delta::Content(text) => content.push_str(&text),
            Delta::Call { index, name } => {
                assert_eq!(index, calls.len());
                calls.push((name, String::new()));
            }
            Delta::Arguments { index, text } => calls[index].1.push_str(&text),
        }
    }
    let parse = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(format!("cut: {text}")));
    (thinking, content, calls.into_iter().map(|(name, text)| (name, parse(&text))).collect())
}

#[track_caller]
fn check(dialect: Dialect, begin: &str, text: &str, thinking: &str, content: &str, calls: &[(&str, Value)]) {
    let calls: Vec<(String, Value)> = calls.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    for n in [1, 2, 3, 5, 7, 1000] {
        let answer = read(dialect, &tools(), begin, text, n);
        assert_eq!(answer, (thinking.to_owned(), content.to_owned(), calls.clone()), "in pieces of {n}: {text}");
    }
}

#[test]
fn the_dialect_is_read_off_the_template() {
    let cases = [
        ("qwen3", Some("<think>"), ToolFormat::TaggedJson),
        ("qwen2_5", None, ToolFormat::TaggedJson),
        ("qwen3_5", Some("<think>"), ToolFormat::Xml),
        ("gemma4", Some("<|channel>thought"), ToolFormat::Gemma),
        ("gemma3", None, ToolFormat::None),
        ("gptoss", Some("<|channel|>analysis<|message|>"), ToolFormat::Harmony),
        ("llama3", None, ToolFormat::BareJson),
        ("mistral", None, ToolFormat::JsonList),
        ("deepseek_r1", Some("<think>"), ToolFormat::None),
        ("smollm2", None, ToolFormat::None),
        ("phi3", None, ToolFormat::None),
    ];
    for (name, open, tools) in cases {
        let dialect = Dialect::of(&template(name));
        assert_eq!((dialect.thinking.map(|marks| marks.open), dialect.tools), (open, tools), "{name}");
    }
}

#[test]
fn qwen3_thinks_and_calls_in_json() {
    let dialect = Dialect::of(&template("qwen3"));
    let bern = json!({"city": "Bern \"CH\" {x}", "days": 3});
    let text = concat!(
        "<think>\nHm, a < b.\n\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"weather\", \"ar",
        "guments\": {\"city\": \"Bern \\\"CH\\\" {x}\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{",
        "\"name\": \"look_up\", \"arguments\": {}}\n</tool_call>",
    );
    check(dialect, "", text, "Hm, a < b.", "Let me look.", &[("weather", bern.clone()), ("look_up", json!({}))]);
    let whole = "{\"arguments\": {\"days\": 3}, \"name\": \"weather\"}\n</tool_call> done";
    check(dialect, "<tool_call>\n", whole, "", "done", &[("weather", json!({"days": 3}))]);
    check(dialect, "<think>\n", "why\n</think>\n\nso", "why", "so", &[]);
    check(dialect, "", "a <think> b", "", "a <think> b", &[]);
    check(dialect, "", "plain\n", "", "plain\n", &[]);
    check(dialect, "<think>\n", "never closed", "never closed", "", &[]);
}

#[test]
fn what_only_looks_like_a_call_stays_text() {
    let dialect = Dialect::of(&template("qwen3"));
    check(dialect, "", "<tool_call>\nnot json", "", "<tool_call>not json", &[]);
    check(dialect, "", "<tool_call>{\"a\": 1} more", "", "<tool_call>{\"a\": 1} more", &[]);
    check(dialect, "", "<tool_cal", "", "<tool_cal", &[]);
    let none: Arc<[Tool]> = Arc::new([]);
    let text = "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>";
    let answer = read(dialect, &none, "", text, 3);
    assert_eq!((answer.1.as_str(), answer.2.len()), (text, 0), "without tools nothing is a call");
}

#[test]
fn a_call_that_is_cut_off_keeps_what_came() {
    let dialect = Dialect::of(&template("qwen3"));
    let text = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Be";
    check(dialect, "", text, "", "", &[("weather", json!("cut: {\"city\": \"Be"))]);
}

#[test]
fn qwen35_calls_in_tags() {
    let dialect = Dialect::of(&template("qwen3_5"));
    let text = concat!(
        "I see.\n</think>\n\n<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</parameter>",
        "\n<parameter=days>\n3\n</parameter>\n<parameter=zip>\n3011\n</parameter>\n</function>\n</t",
        "ool_call>",
    );
    let weather = json!({"city": "Bern", "days": 3, "zip": "3011"});
    check(dialect, "<think>\n", text, "I see.", "", &[("weather", weather)]);
    let none = "<tool_call>\n<function=look_up>\n</function>\n</tool_call>";
    check(dialect, "", none, "", "", &[("look_up", json!({}))]);
}

#[test]
fn gemma4_has_its_own_values() {
    let dialect = Dialect::of(&template("gemma4"));
    let text =
        "<|channel>thought\nHm.\n<channel|>Well.<|tool_call>call:weather{city:<|\"|>Bern<|\"|>,days:3}<tool_call|>";
    check(dialect, "", text, "Hm.", "Well.", &[("weather", json!({"city": "Bern", "days": 3}))]);
}

#[test]
fn gptoss_has_channels() {
    let dialect = Dialect::of(&template("gptoss"));
    let text = concat!(
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functio",
        "ns.weather <|constrain|>json<|message|>{\"city\": \"Bern\"}<|call|>",
    );
    check(dialect, "", text, "Hm.", "", &[("weather", json!({"city": "Bern"}))]);
    let text = " to=functions.weather<|channel|>commentary json<|message|>{}";
    check(dialect, "", text, "", "", &[("weather", json!({}))]);
    let text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>42.<|return|>";
    check(dialect, "", text, "Hm.", "42.", &[]);
    let text = "<|channel|>commentary<|message|>First this.<|end|><|start|>assistant<|channel|>final<|message|>42.";
    check(dialect, "", text, "", "First this.42.", &[]);
}

#[test]
fn llama3_answers_with_the_call_alone() {
    let dialect = Dialect::of(&template("llama3"));
    let text = "{\"name\": \"weather\", \"parameters\": {\"city\": \"Bern\"}}";
    check(dialect, "", text, "", "", &[("weather", json!({"city": "Bern"}))]);
    check(dialect, "", "{\"a\": 1} is JSON", "", "{\"a\": 1} is JSON", &[]);
    check(dialect, "", "Use {\"name\": 1}", "", "Use {\"name\": 1}", &[]);
}

#[test]
fn mistral_lists_its_calls() {
    let dialect = Dialect::of(&template("mistral"));
    let text = concat!(
        "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}, \"id\": \"abcdef",
        "ghi\"}, {\"name\": \"look_up\", \"arguments\": {}}]",
    );
    check(dialect, "", text, "", "", &[("weather", json!({"city": "Bern"})), ("look_up", json!({}))]);
}
