//! What templates are found to take and to be able to do.

use crate::support::{Conversation, family, parse};
use serde_json::{Value as Json, json};
use zinc_tokenizer::chat_template::{Capabilities, Error, Limit, Message};

fn with_messages(messages: Json) -> Conversation {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    Conversation { messages, ..Conversation::user("") }
}

#[test]
fn abilities_are_found_by_trying() {
    const NONE: Capabilities = Capabilities {
        system_role: true,
        tools: false,
        tool_calls: false,
        parallel_tool_calls: false,
        tool_results: false,
        reasoning_history: false,
        thinking_switch: None,
        reasoning_effort: false,
        content_parts: false,
    };
    const TOOLS: Capabilities =
        Capabilities { tools: true, tool_calls: true, parallel_tool_calls: true, tool_results: true, ..NONE };
    const QWEN3: Capabilities =
        Capabilities { reasoning_history: true, thinking_switch: Some("enable_thinking"), ..TOOLS };
    for (name, expected) in [
        // The template prints the role and content of any message, so answers of tools show.
        ("smollm2", Capabilities { tool_results: true, ..NONE }),
        ("phi3", NONE),
        ("gemma3", Capabilities { content_parts: true, ..NONE }),
        ("llama3", Capabilities { parallel_tool_calls: false, ..TOOLS }),
        ("mistral", TOOLS),
        ("qwen2_5", TOOLS),
        ("qwen3", QWEN3),
        ("qwen3_5", Capabilities { content_parts: true, ..QWEN3 }),
        ("qwen3_5_small", Capabilities { content_parts: true, ..QWEN3 }),
        ("gemma4", Capabilities { content_parts: true, ..QWEN3 }),
        ("gptoss", Capabilities { parallel_tool_calls: false, reasoning_effort: true, thinking_switch: None, ..QWEN3 }),
        ("deepseek_r1", Capabilities { tools: false, ..TOOLS }),
    ] {
        assert_eq!(family(name).capabilities(), expected, "{name}");
    }
}

#[test]
fn parts_become_text_for_a_template_that_knows_no_parts() {
    let template = parse("{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}").unwrap();
    let parts = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]);
    assert_eq!(with_messages(parts).render(&template).unwrap().text(), "user: ab");
    let image = json!([{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]);
    let result = with_messages(image).render(&template);
    assert!(matches!(&result, Err(Error::Content { message: 1, kind }) if kind == "image_url"), "{result:?}");
}

#[test]
fn text_becomes_parts_for_a_template_that_knows_only_parts() {
    let template =
        parse("{% for m in messages %}{% for p in m.content %}{{ p['text'] }}|{% endfor %}{% endfor %}").unwrap();
    assert!(template.capabilities().content_parts);
    assert_eq!(Conversation::user("hi").render(&template).unwrap().text(), "hi|");
}

#[test]
fn absent_content_takes_the_form_that_the_template_can_read() {
    let calls = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
    ]}]);
    let body = "{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}";
    let only_null = format!("{{% if m['content'] is none %}}null{body}{{% endif %}}");
    for (source, expected) in [
        (format!("{{{{ m.content is defined }}}}{body}"), "TrueFalse"),
        (format!("{{{{ m.content + '.' }}}}{body}"), "x.."),
        (format!("{{{{ m.content|tojson }}}}{body}"), "\"x\"\"\""),
        (only_null, "null"),
    ] {
        let template = parse(&format!("{{% for m in messages %}}{source}{{% endfor %}}")).unwrap();
        let rendered = with_messages(calls.clone()).render(&template).unwrap();
        assert_eq!(rendered.text(), format!("{expected}f{{\"a\": 1}}"), "{source}");
    }
}

#[test]
fn arguments_take_the_form_that_the_template_can_read() {
    let call = |arguments: Json| {
        let call = json!({"type": "function", "function": {"name": "f", "arguments": arguments}});
        with_messages(json!([{"role": "assistant", "content": "", "tool_calls": [call]}]))
    };
    let source = |inner: &str| {
        format!("{{% for m in messages %}}{{% for c in m.tool_calls %}}{inner}{{% endfor %}}{{% endfor %}}")
    };
    let objects = parse(&source("{% for k, v in c.function.arguments|items %}{{ k }}={{ v }}{% endfor %}")).unwrap();
    let texts = parse(&source("{{ 'args: ' + c.function.arguments }}")).unwrap();
    for arguments in [json!({"a": 1}), json!("{\"a\":1}")] {
        assert_eq!(call(arguments.clone()).render(&objects).unwrap().text(), "a=1");
        assert_eq!(call(arguments).render(&texts).unwrap().text(), "args: {\"a\":1}");
    }
    // Text that is no object is left to the template.
    let printed = parse(&source("{{ c.function.arguments|tojson }}")).unwrap();
    assert_eq!(call(json!("not JSON")).render(&printed).unwrap().text(), "\"not JSON\"");
}

#[test]
fn further_fields_reach_the_template_and_nulls_do_not() {
    let template =
        parse("{% for m in messages %}{{ m.mood }}{{ 'name' in m }}{{ 'tool_calls' in m }}{{ 'x' in m }}{% endfor %}")
            .unwrap();
    let conversation = with_messages(
        json!([{"role": "user", "content": "", "name": null, "tool_calls": null, "x": null, "mood": "ok"}]),
    );
    assert_eq!(conversation.render(&template).unwrap().text(), "okFalseFalseFalse");
}

#[test]
fn data_nested_too_deep_is_refused() {
    let template = parse("{{ tools|tojson }}").unwrap();
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let conversation = |depth| Conversation { tools: vec![nested(depth)], ..Conversation::user("") };
    assert!(conversation(120).render(&template).is_ok());
    let result = conversation(130).render(&template);
    assert!(matches!(result, Err(Error::Limit { what: Limit::InputNesting, .. })), "{result:?}");
}
