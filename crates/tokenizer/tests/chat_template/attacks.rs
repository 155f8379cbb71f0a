//! Conversations that spell out control tokens: none of theirs may be trusted, and all of the template's must be.

use crate::support::{Conversation, FAMILIES, cases, family, parse};
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value as Json, json};
use zinc_tokenizer::chat_template::{Error, Rendered, Tracing};

/// Conversations whose meaning lies in the brackets of their text.
const ABOUT_BRACKETS: [&str; 2] = ["reasoning within content", "arguments as text"];

/// The control tokens in a text.
fn tokens(control: &AhoCorasick, text: &str) -> Vec<String> {
    control.find_iter(text).map(|found| text[found.range()].to_owned()).collect()
}

/// The control tokens that a tokenizer would read.
fn trusted_tokens(control: &AhoCorasick, rendered: &Rendered) -> Vec<String> {
    rendered.parts().filter(|part| part.trusted).flat_map(|part| tokens(control, part.text)).collect()
}

fn outside(rendered: &Rendered) -> Vec<&str> {
    rendered.parts().filter(|part| !part.trusted).map(|part| part.text).collect()
}

/// The same with other brackets in every text but the role, so that it spells no control token.
fn harmless(json: &Json) -> Json {
    let text = |text: &str| text.replace(['<', '[', '｜'], "(").replace(['>', ']'], ")").replace('|', "!");
    match json {
        Json::String(value) => text(value).into(),
        Json::Array(items) => items.iter().map(harmless).collect(),
        Json::Object(fields) => fields
            .iter()
            .map(|(key, value)| (text(key), if key == "role" { value.clone() } else { harmless(value) }))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn control_of(name: &str) -> (Vec<String>, AhoCorasick) {
    let texts: Vec<String> = serde_json::from_value(cases(name)["control"].clone()).unwrap();
    let control = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&texts).unwrap();
    (texts, control)
}

#[test]
fn control_tokens_are_the_templates_alone() {
    let conversations = cases("conversations");
    for name in FAMILIES {
        let template = family(name);
        let (_, control) = control_of(name);
        for (title, json) in conversations.as_object().unwrap() {
            if ABOUT_BRACKETS.contains(&title.as_str()) {
                continue;
            }
            let Ok(rendered) = Conversation::from_json(json).render(&template) else { continue };
            let twin = Conversation::from_json(&harmless(json)).render(&template).unwrap();
            // In the twin every control token is the template's, and must be readable as such.
            assert_eq!(trusted_tokens(&control, &twin), tokens(&control, twin.text()), "{name}, {title}");
            assert_eq!(trusted_tokens(&control, &rendered), trusted_tokens(&control, &twin), "{name}, {title}");
            let whole: String = rendered.parts().map(|part| part.text).collect();
            assert_eq!(whole, rendered.text(), "{name}, {title}");
        }
    }
}

#[test]
fn every_control_token_of_the_family_stays_text() {
    for name in FAMILIES {
        let template = family(name);
        let (texts, control) = control_of(name);
        let attack = texts.concat();
        let spoken = Conversation::user(&format!("Say {attack} please"));
        let rendered = spoken.render(&template).unwrap();
        assert_eq!(rendered.tracing(), Tracing::Strings, "{name}");
        assert!(outside(&rendered).iter().any(|part| part.contains(&attack)), "{name}: {:?}", rendered.text());
        let twin = Conversation::user("Say nothing please").render(&template).unwrap();
        assert_eq!(trusted_tokens(&control, &rendered), trusted_tokens(&control, &twin), "{name}");
    }
}

#[test]
fn a_control_token_in_pieces_stays_in_pieces() {
    let template = family("qwen3_5");
    let (_, control) = control_of("qwen3_5");
    let conversation = |first: &str, second: &str| {
        let message =
            json!({"role": "user", "content": [{"type": "text", "text": first}, {"type": "text", "text": second}]});
        Conversation { messages: vec![serde_json::from_value(message).unwrap()], ..Conversation::user("") }
    };
    let rendered = conversation("a<|im_", "start|>b").render(&template).unwrap();
    assert!(rendered.text().contains("a<|im_start|>b"));
    let twin = conversation("a", "b").render(&template).unwrap();
    assert_eq!(trusted_tokens(&control, &rendered), trusted_tokens(&control, &twin));
}

#[test]
fn marks_survive_what_templates_do_with_strings() {
    for (source, text, expected) in [
        ("[{{ c|trim }}]", "  <|a|> x\n", "[{<|a|> x}]"),
        ("{{ c.split('-')[-1].lstrip('\\n') }}!", "p-\n\n<|a|>", "{<|a|>}!"),
        ("{{ c.split('-')|join('<|b|>') }}", "x-<|a|>-y", "{x}<|b|>{<|a|>}<|b|>{y}"),
        ("{{ c|upper }}{{ c.title() }}", "ab <|a|>", "{AB <|A|>Ab <|A|>}"),
        ("{{ c|tojson }}", "a\"<|a|>\n", "\"{a\\\"<|a|>\\n}\""),
        ("{{ {'k': c}|tojson(indent=1) }}", "<|a|>", "{\n \"k\": \"{<|a|>}\"\n}"),
        ("{{ [c, 'x'] }}", "<|a|>'", "[\"{<|a|>'}\", 'x']"),
        ("{{ c|replace('x', '<|b|>') }}", "1x<|a|>", "{1}<|b|>{<|a|>}"),
        ("{{ 'x'|replace('x', c) }}{{ c.removeprefix('q') }}", "q<|a|>", "{q<|a|><|a|>}"),
        (
            "{% if c.startswith('<|a|>') and '<|b|>' in c and c|length == 10 %}{{ c }}{% endif %}",
            "<|a|><|b|>",
            "{<|a|><|b|>}",
        ),
        ("{% for line in c.splitlines() %}{{ line }};{% endfor %}", "<|a|>\nx", "{<|a|>};{x};"),
        (
            "{% macro m(t) %}<|b|>{{ t }}{% endmacro %}{{ m(c)|trim }}{% set s %} {{ c }} {% endset %}{{ s|trim }}",
            "<|a|>",
            "<|b|>{<|a|><|a|>}",
        ),
        ("{{ '%s=%s'|format('k', c) }}{{ ('<|a|>' ~ c)[:5] }}", "<|b|>", "k={<|b|>}<|a|>"),
        ("{{ c.partition('=')[2] }}{{ c.rsplit('=', 1)[0] }}", "k=<|a|>", "{<|a|>k}"),
        ("{{ c }}{{ c }}", "", ""),
        ("{{ c }}", "user", "{user}"),
        ("{{ c[0] }}-{{ c[1:] }}-{{ c[-1] }}{{ c[9] }}", "<|a|>", "{<}-{|a|>}-{>}"),
        ("{{ c[::-1] }}{{ c[1:4] }}{{ c[:-1] }}", "<|a|>", "{>|a|<|a|<|a|}"),
        ("{% for x in c|list %}{{ x }}.{% endfor %}{{ c|first }}{{ c|last }}", "<a", "{<}.{a}.{<a}"),
        ("{% for x in c %}{{ x }}.{% endfor %}", "<a", "{<}.{a}."),
        ("{{ c|reverse }}{{ c|int + 1 }}", "12", "{21}13"),
        ("{% if c == 'open <|a|>' and c in ['x', 'open <|a|>'] and c != 'open' %}yes{% endif %}", "open <|a|>", "yes"),
        (
            "{% if c is eq('<|a|>') and [c] == ['<|a|>'] and {'k': c} == {'k': '<|a|>'} and c < 'a' %}yes{% endif %}",
            "<|a|>",
            "yes",
        ),
        ("{{ {c: 1}['<|a|>'] }}{{ {'<|a|>': 2}[c] }}{{ c in {'<|a|>': 1} }}", "<|a|>", "12True"),
        ("{{ messages|selectattr('content', 'equalto', '<|a|>')|list|length }}", "<|a|>", "1"),
        ("{{ c * 2 }}{{ [c, c]|join(c) }}{{ c + '<|b|>' ~ c }}", "x", "{xxxxxx}<|b|>{x}"),
        ("{{ [c]|string }}{{ (c,) }}", "x", "['{x}']('{x}',)"),
    ] {
        let template = parse(&format!("{{% set c = messages[0].content %}}{source}")).unwrap();
        let rendered = Conversation::user(text).render(&template).unwrap();
        let shown: String = rendered
            .parts()
            .map(|part| if part.trusted { part.text.to_owned() } else { format!("{{{}}}", part.text) })
            .collect();
        assert_eq!(shown, expected, "{source}");
        assert_eq!(rendered.tracing(), Tracing::Strings, "{source}");
    }
}

#[test]
fn what_hides_the_origin_of_text_falls_back_to_control_tokens() {
    const PADDED: &str = "{{ '%-7s'|format(c) }}";
    const CUT: &str = "{{ '%.5s'|format(c) }}";
    for (source, text, expected) in [
        (PADDED, "hi", Some(("hi     ", vec![]))),
        (PADDED, "hi <|a|>", Some(("hi <|a|>", vec!["hi <|a|>"]))),
        (PADDED, "<|a|>", None),
        (CUT, "hello", Some(("hello", vec![]))),
        (CUT, "hi <|a|>", None),
    ] {
        let template = parse(&format!("{{% set c = messages[0].content %}}{source}")).unwrap();
        match (Conversation::user(text).render(&template), expected) {
            (Ok(rendered), Some((whole, apart))) => {
                assert_eq!((rendered.text(), outside(&rendered)), (whole, apart), "{source}");
                let tracing = if text.len() > 7 { Tracing::Strings } else { Tracing::ControlTokens };
                assert_eq!(rendered.tracing(), tracing, "{source}");
            }
            (Err(Error::Untraceable), None) => {}
            (other, expected) => panic!("{source}: {other:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn marks_cannot_be_brought_along() {
    let template = parse("<|a|>{{ messages[0].content }}<|b|>").unwrap();
    let rendered = Conversation::user("x\u{FDD1}<|a|>\u{FDD0}y").render(&template).unwrap();
    assert_eq!(outside(&rendered), ["x\u{FFFD}<|a|>\u{FFFD}y"]);
    let own = parse("\u{FDD0}<|a|>{{ messages[0].content }}").unwrap();
    assert!(matches!(Conversation::user("x").render(&own), Err(Error::Untraceable)));
}

#[test]
fn names_and_variables_are_text_from_outside_too() {
    let source = "{% for t in tools %}{% for k, v in t.function.parameters.properties.items() %}<{{ k }}>{{ v.type }}{% endfor %}\
                  {{ t.function.name }}{% endfor %}{{ extra }}{{ messages[0].role }}{{ messages[0].name }}";
    let template = parse(source).unwrap();
    let mut conversation = Conversation::user("");
    conversation.messages[0].role = "<|a|>".to_owned();
    conversation.messages[0].name = Some("<|b|>".to_owned());
    conversation.variables.insert("extra".to_owned(), "<|a|>".into());
    conversation.tools = vec![json!({"type": "function", "function": {
        "name": "<|a|>", "parameters": {"properties": {"|a|": {"type": "<|b|>"}}},
    }})];
    let rendered = conversation.render(&template).unwrap();
    assert_eq!(rendered.text(), "<|a|><|b|><|a|><|a|><|a|><|b|>");
    let control = AhoCorasick::new(["<|a|>", "<|b|>"]).unwrap();
    assert_eq!(trusted_tokens(&control, &rendered), [""; 0]);
}
