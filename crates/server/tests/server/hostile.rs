//! Ten thousand requests that are broken in every way: never an answer that blames the server, and the next good request is
//! answered.

use std::io::{BufReader, Write};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::client::{connect, post, read, request};
use crate::harness::{Served, tiny};

/// One of a list.
fn of<'a, T>(random: &mut Rng, list: &'a [T]) -> &'a T {
    &list[random.usize(..list.len())]
}

const PATHS: [&str; 8] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/tokenize",
    "/detokenize",
];

const FIELDS: [&str; 40] = [
    "model",
    "messages",
    "prompt",
    "input",
    "tokens",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "seed",
    "stop",
    "stop_sequences",
    "n",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "stream",
    "stream_options",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "thinking",
    "system",
    "instructions",
    "text",
    "chat_template_kwargs",
    "echo",
    "suffix",
    "user",
    "metadata",
    "ignore_eos",
    "structured_outputs",
    "content",
    "\u{0}",
];

/// A value of any type and any size.
fn value(random: &mut Rng, depth: usize) -> Value {
    match random.usize(..if depth == 0 { 11 } else { 13 }) {
        0 => Value::Null,
        1 => json!(random.usize(..2) == 1),
        2 => json!(random.u64(..)),
        3 => json!(-(random.usize(..1000) as i64)),
        4 => json!(f64::from_bits(random.u64(..) | 1 << 52)),
        5 => json!(1e308),
        6 => json!(""),
        7 => json!("word \u{1F600} <|im_end|> </s>"),
        8 => json!("x".repeat(random.usize(..3000))),
        9 => json!([{"role": "user", "content": "hi"}]),
        10 => json!({"type": *of(random, &["function", "json_schema", "text", "enabled", "tool"])}),
        11 => (0..random.usize(..4)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let n = random.usize(..4);
            let fields = (0..n).map(|_| ((*of(random, &FIELDS)).to_owned(), value(random, depth - 1)));
            Value::Object(fields.collect())
        }
    }
}

/// A body that was good before one field or byte of it was changed.
fn body(random: &mut Rng, path: &str) -> Vec<u8> {
    let mut good = match path {
        "/v1/completions" => json!({"prompt": "hi", "max_tokens": 1}),
        "/v1/responses" => json!({"input": "hi", "max_output_tokens": 1}),
        "/tokenize" => json!({"prompt": "hi"}),
        "/detokenize" => json!({"tokens": [1, 2, 3]}),
        "/v1/embeddings" => json!({"input": "hi"}),
        _ => json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}),
    };
    for _ in 0..=random.usize(..3) {
        good[*of(random, &FIELDS)] = value(random, 3);
    }
    // Whatever got through must end soon.
    for key in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
        if good[key].as_u64().is_some_and(|n| n > 2) {
            good[key] = json!(2);
        }
        if good[key].is_null() {
            good.as_object_mut().unwrap().shift_remove(key);
        }
    }
    if matches!(path, "/v1/chat/completions")
        && good.get("max_tokens").is_none()
        && good.get("max_completion_tokens").is_none()
    {
        good["max_tokens"] = json!(1);
    }
    if path == "/v1/responses" && good.get("max_output_tokens").is_none() {
        good["max_output_tokens"] = json!(1);
    }
    let mut bytes = good.to_string().into_bytes();
    match random.usize(..6) {
        0 => {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u64(..) as u8;
        }
        1 => bytes.truncate(random.usize(..bytes.len())),
        2 => bytes = "[".repeat(1 + random.usize(..20_000)).into_bytes(),
        3 => bytes = format!("{}1{}", "{\"a\":".repeat(500), "}".repeat(500)).into_bytes(),
        _ => {}
    }
    bytes
}

/// Bytes of a request, its head broken now and then.
fn message(random: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let path = *of(random, &PATHS);
    let body = body(random, path);
    let mut head = request("POST", path, &[("Content-Type", "application/json")], "");
    let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
    let announced = match random.usize(..30) {
        0 => body.len() + 1 + random.usize(..50),
        1 => body.len() / 2,
        _ => body.len(),
    };
    let mut text = text.replace("Content-Length: 0", &format!("Content-Length: {announced}"));
    match random.usize(..40) {
        0 => text = text.replace("HTTP/1.1", "HTTP/9.9"),
        1 => text = text.replace("POST", "PO\u{0}ST"),
        2 => text = text.replace("Host: localhost", "Host:"),
        3 => text = text.replace("Content-Length", "Content-Length: 1\r\nContent-Length"),
        4 => text = text.replace("\r\n", "\n"),
        5 => text = text.replace(path, &format!("/{}", "a/../%00%ff".repeat(20))),
        _ => {}
    }
    (text.into_bytes(), body)
}

fn attack(served: &Served, seed: u64, n: usize) {
    let mut random = Rng::with_seed(seed);
    for _ in 0..n {
        let (head, body) = message(&mut random);
        let mut stream = connect(served.address);
        // A server that has refused already may close before it has read everything.
        let _ = stream.write_all(&head).and_then(|()| stream.write_all(&body));
        // What was announced and never comes ends here.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let Some(answer) = read(&mut BufReader::new(stream)) else { continue };
        let shown = || format!("seed {seed}: {} to {}", answer.body, String::from_utf8_lossy(&body));
        assert!(answer.status < 500, "{}", shown());
        if answer.status >= 400 && !answer.body.is_empty() {
            assert!(answer.json()["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{}", shown());
        }
    }
}

#[test]
fn ten_thousand_broken_requests_are_answered_or_refused() {
    let served = tiny();
    std::thread::scope(|scope| {
        for part in 0..4u64 {
            let served = &served;
            scope.spawn(move || attack(served, 0x9E37_79B9_7F4A_7C15 ^ (part << 32), 2500));
        }
    });
    let good =
        post(served.address, "/v1/completions", &json!({"prompt": "hello", "max_tokens": 3, "ignore_eos": true}));
    assert_eq!((good.status, good.json()["usage"]["completion_tokens"].as_u64()), (200, Some(3)));
}
