//! Every case of `fixtures/templates`: the text must be the one that transformers rendered, the refusal its refusal.

use crate::support::{Conversation, FAMILIES, cases, family, parse};
use serde_json::Value as Json;
use zinc_tokenizer::chat_template::{Error, Rendered, Tracing};

/// Conversations that transformers does not render, because the template stumbles over a message without content; from us
/// it gets an empty one.
const HELPED: [(&str, &str); 2] = [("phi3", "call without content"), ("smollm2", "call without content")];

#[test]
fn conversations_render_as_in_transformers() {
    let conversations = cases("conversations");
    let mut problems = Vec::new();
    let mut n_rendered = 0;
    for name in FAMILIES {
        let template = family(name);
        let expected = cases(name);
        for (title, conversation) in conversations.as_object().unwrap() {
            let result = Conversation::from_json(conversation).render(&template);
            n_rendered += usize::from(result.is_ok());
            if HELPED.contains(&(name, title.as_str())) {
                assert!(result.is_ok(), "{name}, {title}: {result:?}");
            } else if let Some(problem) = problem(&result, &expected["cases"][title]) {
                problems.push(format!("{name}, {title}: {problem}"));
            } else if result.is_ok_and(|rendered| rendered.tracing() != Tracing::Strings) {
                problems.push(format!("{name}, {title}: not every string was followed"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(n_rendered > 450, "only {n_rendered} conversations were rendered");
}

#[test]
fn constructs_render_as_in_transformers() {
    let file = cases("snippets");
    let conversation =
        Conversation { variables: file["variables"].as_object().unwrap().clone(), ..Conversation::user("Hello!") };
    let mut problems = Vec::new();
    for case in file["cases"].as_array().unwrap() {
        let source = case["source"].as_str().unwrap();
        let result = parse(source).and_then(|template| conversation.render(&template));
        if let Some(problem) = problem(&result, case) {
            problems.push(format!("{source}\n{problem}\n"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// How a result differs from the case, if it does.
fn problem(result: &Result<Rendered, Error>, case: &Json) -> Option<String> {
    if let Some(expected) = case["expected"].as_str() {
        return match result {
            Ok(rendered) if rendered.text() == expected => None,
            Ok(rendered) => Some(format!("expected {expected:?}\n     got {:?}", rendered.text())),
            Err(error) => Some(format!("expected {expected:?}\n     got error {error}")),
        };
    }
    if let Some(expected) = case["refused"].as_str() {
        return match result {
            Err(Error::Refused { message, .. }) if message == expected => None,
            other => Some(format!("expected the refusal {expected:?}, got {other:?}")),
        };
    }
    let failure = case["fails"].as_str().unwrap();
    match result {
        Err(Error::Render { .. } | Error::Syntax { .. }) => None,
        other => Some(format!("expected a failure such as {failure}, got {other:?}")),
    }
}
