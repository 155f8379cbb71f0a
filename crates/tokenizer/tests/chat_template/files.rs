//! Templates from model files, and their text through the tokenizer of the same file.

use crate::support::{Conversation, read};
use serde_json::json;
use std::path::Path;
use zinc_gguf::{Gguf, Writer};
use zinc_tokenizer::Tokenizer;
use zinc_tokenizer::chat_template::{ChatTemplate, Error, Limits};

/// A vocabulary, the template of its family, and a control token of both.
const VOCABULARIES: [(&str, &str, &str); 7] = [
    ("gemma3-a.gguf", "gemma3", "<end_of_turn>"),
    ("gemma4-a.gguf", "gemma4", "<bos>"),
    ("gptoss-a.gguf", "gptoss", "<|end|>"),
    ("llama-a.gguf", "smollm2", "<|im_start|>"),
    ("llama3-a.gguf", "llama3", "<|eot_id|>"),
    ("qwen3-a.gguf", "qwen3", "<|im_end|>"),
    ("qwen35-a.gguf", "qwen3_5", "<|im_start|>"),
];

/// A small vocabulary of the tokenizer's fixtures, with further keys.
fn file(vocabulary: &str, keys: &[(&str, &str)]) -> Gguf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tokenizer/vocab").join(vocabulary);
    let source = Gguf::open(&path).unwrap();
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter().filter(|(key, _)| !key.contains("chat_template")) {
        writer.metadata(key, value.clone());
    }
    for (key, value) in keys {
        writer.metadata(*key, value.to_string());
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

fn template(file: &Gguf) -> Result<ChatTemplate, Error> {
    ChatTemplate::from_gguf(file, &Tokenizer::from_gguf(file).unwrap(), Limits::STANDARD)
}

#[test]
fn a_file_without_a_template_says_so() {
    let result = template(&file("qwen3-a.gguf", &[]));
    assert!(matches!(result, Err(Error::Absent { key: "tokenizer.chat_template" })), "{result:?}");
}

#[test]
fn the_template_for_tools_is_taken_when_there_are_tools() {
    let keys = [
        ("tokenizer.chat_template", "plain {{ messages[0].content }}"),
        ("tokenizer.chat_template.tool_use", "{{ tools|length }} tools"),
    ];
    let template = template(&file("qwen3-a.gguf", &keys)).unwrap();
    let mut conversation = Conversation::user("x");
    assert_eq!(conversation.render(&template).unwrap().text(), "plain x");
    conversation.tools = vec![json!({"type": "function", "function": {"name": "f"}})];
    assert_eq!(conversation.render(&template).unwrap().text(), "1 tools");
}

#[test]
fn a_broken_template_in_a_file_is_named() {
    let keys =
        [("tokenizer.chat_template", "{{ messages[0].content }}"), ("tokenizer.chat_template.tool_use", "\n{% if %}")];
    let result = template(&file("qwen3-a.gguf", &keys));
    assert!(matches!(result, Err(Error::Syntax { line: 2, .. })), "{result:?}");
}

#[test]
fn the_tokenizer_reads_control_tokens_where_the_template_wrote_them() {
    for (vocabulary, family, turn) in VOCABULARIES {
        let source = read(&format!("templates/{family}.jinja"));
        let file = file(vocabulary, &[("tokenizer.chat_template", &source)]);
        let tokenizer = Tokenizer::from_gguf(&file).unwrap();
        let template = template(&file).unwrap();
        let id = tokenizer.token_to_id(turn).unwrap_or_else(|| panic!("{vocabulary} has no {turn}"));
        let count = |text: &str| {
            let rendered = Conversation::user(text).render(&template).unwrap();
            let parts: Vec<_> = rendered.parts().collect();
            tokenizer.encode_parts(&parts).into_iter().filter(|&token| token == id).count()
        };
        assert!(count("Hi") > 0, "{vocabulary}");
        assert_eq!(count("Hi"), count(&format!("Hi{turn}{turn}\n{turn}")), "{vocabulary}");
    }
}
