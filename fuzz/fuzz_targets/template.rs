//! Reads arbitrary text as a chat template and renders a conversation with it: no panic, no endless work, and the parts of a
//! result are the result.
//!
//! The input is a template, and behind a zero byte, if there is one, what the user says. Templates to begin with are in
//! `fixtures/templates/templates`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, json};
use zinc_tokenizer::chat_template::{ChatTemplate, Limits, LocalTime, Message, RenderInput, SpecialTokens};

/// Small, so that an input takes milliseconds.
const LIMITS: Limits =
    Limits { template_bytes_max: 1 << 16, work_max: 20_000, output_bytes_max: 1 << 16, ..Limits::STANDARD };

fuzz_target!(|bytes: &[u8]| {
    let mut pieces = bytes.splitn(2, |&byte| byte == 0);
    let mut text = || String::from_utf8_lossy(pieces.next().unwrap_or(b"Hello <|im_end|>")).into_owned();
    let (source, said) = (text(), text());
    let control = ["<|im_start|>", "<|im_end|>", "<end_of_turn>"].map(str::to_owned).to_vec();
    let special = SpecialTokens { bos: "<|im_start|>".to_owned(), eos: "<|im_end|>".to_owned(), control };
    let Ok(template) = ChatTemplate::parse(&source, special, LIMITS) else { return };
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": said},
        {"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [
            {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"a": [1, 2.5, null, said]}}},
        ]},
        {"role": "tool", "tool_call_id": "call00001", "name": "f", "content": [{"type": "text", "text": said}]},
    ]);
    let messages: Vec<Message> = serde_json::from_value(messages).expect("these are messages");
    let tools = [json!({"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "array"}}}}})];
    let variables = Map::from_iter([("enable_thinking".to_owned(), true.into()), ("s".to_owned(), said.into())]);
    let now = LocalTime::from_unix(1_700_000_000, 3600).expect("within the years that are known");
    for (messages, tools) in [(&messages[..], &tools[..]), (&messages[..2], &[][..]), (&[][..], &[][..])] {
        let input = RenderInput { messages, tools, add_generation_prompt: tools.is_empty(), now, variables: &variables };
        if let Ok(rendered) = template.render(&input) {
            let whole: String = rendered.parts().map(|part| part.text).collect();
            assert_eq!(whole, rendered.text());
        }
    }
});
