//! What the APIs answer, with a tiny model whose greedy tokens `transformers` has computed (`fixtures/tiny`).

use serde_json::{Value, json};
use zinc_tokenizer::DecodeOptions;

use crate::client::{get, post};
use crate::harness::{fixture, tiny, tokenizer, until};

/// The second prompt of the golden file, and its greedy continuation.
fn golden() -> (Vec<u32>, Vec<u32>) {
    let text = std::fs::read_to_string(fixture("tiny/llama-a.F32.golden.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let ids = |value: &Value| value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    (ids(&golden["prompts"][1]["tokens"]), ids(&golden["prompts"][1]["greedy"]))
}

#[test]
fn completions_are_the_reference_implementations_tokens() {
    let served = tiny();
    let (prompt, greedy) = golden();
    let body =
        json!({"prompt": prompt, "max_tokens": greedy.len(), "temperature": 0, "ignore_eos": true, "logprobs": 2});
    let answer = post(served.address, "/v1/completions", &body).json();
    let tokenizer = tokenizer("llama-a.F32.gguf");
    let piece = |id: &u32| String::from_utf8_lossy(tokenizer.piece(*id)).into_owned();
    let tokens: Vec<String> = greedy.iter().map(piece).collect();
    let choice = &answer["choices"][0];
    assert_eq!(choice["logprobs"]["tokens"], json!(tokens));
    let text = tokenizer.decode(&greedy, DecodeOptions { render_special: false, continues: true });
    assert_eq!(choice["text"], text.as_str());
    assert_eq!((&choice["finish_reason"], &answer["object"]), (&json!("length"), &json!("text_completion")));
    let usage = &answer["usage"];
    let counts = ["prompt_tokens", "completion_tokens", "total_tokens"].map(|name| usage[name].as_u64().unwrap());
    assert_eq!(counts, [7, 24, 31]);
    assert!(answer["timings"]["predicted_per_second"].as_f64().unwrap() > 0.0);
    let logprob = |at: usize| choice["logprobs"]["token_logprobs"][at].as_f64().unwrap();
    assert!((0..24).all(|at| logprob(at) < 0.0 && logprob(at) >= -9.0), "{choice}");
}

#[test]
fn a_stream_is_the_same_answer_in_pieces() {
    let served = tiny();
    for (path, prompt) in [
        ("/v1/completions", json!({"prompt": "hello"})),
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": "hello"}]})),
    ] {
        let mut body = prompt;
        for (key, value) in
            [("max_tokens", json!(40)), ("temperature", json!(1.2)), ("seed", json!(7)), ("ignore_eos", json!(true))]
        {
            body[key] = value;
        }
        let whole = post(served.address, path, &body).json();
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        let answer = post(served.address, path, &body);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert!(answer.body.ends_with("data: [DONE]\n\n"));
        let events = answer.events();
        let piece = |event: &Value| {
            let choice = &event["choices"][0];
            choice["text"].as_str().or(choice["delta"]["content"].as_str()).unwrap_or_default().to_owned()
        };
        let text: String = events.iter().map(piece).collect();
        let choice = &whole["choices"][0];
        let expected = choice["text"].as_str().or(choice["message"]["content"].as_str()).unwrap();
        assert_eq!(text, expected, "{path}");
        let last = events.last().unwrap();
        assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(40)));
        let finish: Vec<&Value> =
            events.iter().map(|e| &e["choices"][0]["finish_reason"]).filter(|f| !f.is_null()).collect();
        assert_eq!(finish, [&json!("length")]);
        assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
    }
}

#[test]
fn several_choices_differ_and_repeat_with_their_seed() {
    let served = tiny();
    let body = json!({"messages": [{"role": "user", "content": "hello"}], "n": 3, "max_tokens": 12, "temperature": 1.5,
        "seed": -5, "ignore_eos": true, "logprobs": true, "top_logprobs": 3});
    let texts = || -> Vec<String> {
        let answer = post(served.address, "/v1/chat/completions", &body).json();
        assert_eq!(answer["usage"]["completion_tokens"], 36);
        let choices = answer["choices"].as_array().unwrap().clone();
        for (index, choice) in choices.iter().enumerate() {
            assert_eq!(choice["index"], index);
            let entries = choice["logprobs"]["content"].as_array().unwrap();
            assert_eq!(entries.len(), 12);
            assert!(entries.iter().all(|entry| entry["top_logprobs"].as_array().unwrap().len() == 3));
        }
        choices.iter().map(|choice| choice["message"]["content"].as_str().unwrap().to_owned()).collect()
    };
    let first = texts();
    assert_eq!(first, texts());
    assert!(first[0] != first[1] && first[1] != first[2], "{first:?}");
}

#[test]
fn the_best_are_the_likeliest_of_all() {
    let served = tiny();
    let body = |more: Value| {
        let mut body = json!({"prompt": "hello", "max_tokens": 9, "temperature": 1.5, "seed": 3, "ignore_eos": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let choices = |more: Value| {
        let answer = post(served.address, "/v1/completions", &body(more)).json();
        assert_eq!(answer["usage"]["completion_tokens"], 45, "every candidate is paid for: {answer}");
        answer["choices"].as_array().unwrap().clone()
    };
    let mut all = choices(json!({"n": 5, "logprobs": 1}));
    let sum = |choice: &Value| -> f64 {
        choice["logprobs"]["token_logprobs"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).sum()
    };
    all.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    let texts = |choices: &[Value]| choices.iter().map(|c| c["text"].clone()).collect::<Vec<_>>();
    let best = choices(json!({"n": 2, "best_of": 5}));
    assert_eq!(texts(&best), texts(&all[..2]));
    assert_eq!((&best[0]["index"], &best[1]["index"], &best[0]["logprobs"]), (&json!(0), &json!(1), &Value::Null));
    for more in [json!({"n": 3, "best_of": 2}), json!({"best_of": 2, "stream": true}), json!({"best_of": 17})] {
        let answer = post(served.address, "/v1/completions", &body(more));
        assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (400, Some("best_of")));
    }
}

#[test]
fn an_answer_ends_before_its_stop_string() {
    let served = tiny();
    let body =
        |stop: Value| json!({"prompt": "hello", "max_tokens": 30, "temperature": 0, "ignore_eos": true, "stop": stop});
    let whole = post(served.address, "/v1/completions", &body(json!([]))).json();
    let whole = whole["choices"][0]["text"].as_str().unwrap();
    let middle: String = whole.chars().skip(10).take(4).collect();
    let answer = post(served.address, "/v1/completions", &body(json!(middle))).json();
    let before = whole.split(middle.as_str()).next().unwrap();
    assert_eq!(
        (&answer["choices"][0]["text"], &answer["choices"][0]["finish_reason"]),
        (&json!(before), &json!("stop"))
    );
}

#[test]
fn a_biased_token_is_all_that_comes() {
    let served = tiny();
    let body = json!({"prompt": "hello", "max_tokens": 3, "temperature": 0, "logit_bias": {"100": 100}});
    let answer = post(served.address, "/v1/completions", &body).json();
    let piece = tokenizer("llama-a.F32.gguf")
        .decode(&[100, 100, 100], DecodeOptions { render_special: false, continues: true });
    assert_eq!(answer["choices"][0]["text"], piece.as_str());
}

#[test]
fn json_that_was_asked_for_is_json() {
    let served = tiny();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["n"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "one", "schema": schema, "strict": true}});
    let body = json!({"messages": [{"role": "user", "content": "hello"}], "temperature": 1.5, "seed": 3, "max_tokens": 60,
        "response_format": format});
    let answer = post(served.address, "/v1/chat/completions", &body).json();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {answer}"));
    assert!(value["n"].as_u64().is_some_and(|n| n <= 9), "{value}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let bad = json!({"messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "no such type"}}}});
    let refused = post(served.address, "/v1/chat/completions", &bad);
    assert_eq!((refused.status, refused.json()["error"]["param"].as_str()), (422, Some("response_format")));
    let choice = json!({"prompt": "hello", "max_tokens": 20, "structured_outputs": {"choice": ["left", "right"]}});
    let text = post(served.address, "/v1/completions", &choice).json()["choices"][0]["text"].clone();
    assert!(text == "left" || text == "right", "{text}");
}

#[test]
fn a_second_turn_reuses_the_first() {
    let served = tiny();
    let long = "a word and another ".repeat(12);
    let body = json!({"prompt": long, "max_tokens": 4, "temperature": 0, "ignore_eos": true});
    let cached = |answer: Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert_eq!(cached(post(served.address, "/v1/completions", &body).json()), 0);
    assert!(cached(post(served.address, "/v1/completions", &body).json()) >= 16);
}

#[test]
fn tokens_go_there_and_back() {
    let served = tiny();
    let ids = post(served.address, "/tokenize", &json!({"prompt": "hello world", "add_special_tokens": false})).json();
    let expected = tokenizer("llama-a.F32.gguf")
        .encode("hello world", zinc_tokenizer::Encode { add_special: false, parse_special: false });
    assert_eq!((&ids["tokens"], &ids["count"]), (&json!(expected), &json!(expected.len())));
    let text = post(served.address, "/detokenize", &json!({"tokens": ids["tokens"]})).json();
    assert_eq!(text["prompt"].as_str().unwrap().trim_start(), "hello world");
    let refused = post(served.address, "/detokenize", &json!({"tokens": [1, 99_999]}));
    assert_eq!(refused.status, 400);
    let chat = post(served.address, "/tokenize", &json!({"messages": [{"role": "user", "content": "hi"}]})).json();
    assert!(chat["count"].as_u64().unwrap() > 10);
}

#[test]
fn a_prompt_beyond_the_context_is_refused_as_such() {
    let served = tiny();
    let body = json!({"prompt": "word ".repeat(2000), "max_tokens": 4});
    let answer = post(served.address, "/v1/completions", &body);
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (400, Some("context_length_exceeded")));
}

#[test]
fn responses_and_messages_say_the_same() {
    let served = tiny();
    let body = json!({"input": "hello", "max_output_tokens": 8, "temperature": 0});
    let response = post(served.address, "/v1/responses", &body).json();
    let body = json!({"max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": "hello"}]});
    let message = post(served.address, "/v1/messages", &body).json();
    let chat = json!({"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 8});
    let chat = post(served.address, "/v1/chat/completions", &chat).json();
    let text = chat["choices"][0]["message"]["content"].as_str().unwrap();
    let content = |part: &Value| part["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert_eq!(content(&response["output"][0]), text);
    assert_eq!(content(&message), text);
    assert_eq!(response["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
    let counted = post(served.address, "/v1/messages/count_tokens", &body).json();
    assert_eq!(counted["input_tokens"], chat["usage"]["prompt_tokens"]);
    let is_cut = chat["choices"][0]["finish_reason"] == "length";
    assert_eq!(response["status"], if is_cut { "incomplete" } else { "completed" });
    assert_eq!(message["stop_reason"], if is_cut { "max_tokens" } else { "end_turn" });
}

#[test]
fn metrics_move() {
    let served = tiny();
    post(served.address, "/v1/completions", &json!({"prompt": "hello", "max_tokens": 5, "ignore_eos": true}));
    // The engine counts at the end of each step, which may be after the answer.
    let page = || get(served.address, "/metrics").body;
    until("the tokens are counted", || page().contains("vllm:generation_tokens_total{model_name=\"tiny\"} 5\n"));
    until("nothing runs", || page().contains("vllm:num_requests_running{model_name=\"tiny\"} 0\n"));
    let page = page();
    let value = |line: &str| {
        let found = page.lines().find(|l| l.strip_prefix(line).is_some_and(|rest| rest.starts_with([' ', '{'])));
        found
            .unwrap_or_else(|| panic!("{line} is missing:\n{page}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    assert_eq!(value("vllm:time_to_first_token_seconds_count"), 1.0);
    assert_eq!(value("zinc_generations_total"), 1.0);
    for name in [
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:cache_config_info",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:e2e_request_latency_seconds_count",
        "vllm:prompt_tokens_total",
        "vllm:num_preemptions_total",
    ] {
        value(name);
    }
    assert!(page.contains("block_size=\"16\""));
}

#[test]
fn what_is_wrong_is_named() {
    let served = tiny();
    let user = json!([{"role": "user", "content": "x"}]);
    let cases = [
        (json!({"messages": user, "temperature": 3}), "temperature"),
        (json!({"messages": user, "max_tokens": 0}), "max_tokens"),
        (json!({"messages": user, "top_logprobs": 2}), "top_logprobs"),
        (json!({"messages": user, "functions": []}), "functions"),
        (json!({"messages": user, "store": true}), "store"),
        (json!({"messages": user, "no_such_field": 1}), "no_such_field"),
        (json!({"messages": user, "tools": [{"type": "function", "function": {"name": "f"}}]}), "tools"),
        (json!({"messages": user, "reasoning_effort": "high"}), "reasoning_effort"),
        (json!({"messages": user, "stream_options": {}}), "stream_options"),
        (json!({"messages": user, "tool_choice": "required"}), "tool_choice"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
            "messages[0].content[0].type",
        ),
        (json!({"messages": [{"role": "robot", "content": "x"}]}), "messages[0].role"),
        (json!({"messages": []}), "messages"),
        (json!({}), "messages"),
        (json!({"messages": user, "n": 1000}), "n"),
        (json!({"messages": user, "logit_bias": {"x": 1}}), "logit_bias"),
        (json!({"messages": user, "seed": 1.5}), "seed"),
    ];
    for (body, param) in cases {
        let answer = post(served.address, "/v1/chat/completions", &body);
        let error = &answer.json()["error"];
        assert_eq!((answer.status, error["param"].as_str()), (400, Some(param)), "{body}: {error}");
        assert!(error["message"].as_str().unwrap().contains(param.split('.').next().unwrap()), "{error}");
    }
    let answer = post(served.address, "/v1/embeddings", &json!({"input": "x"}));
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (400, Some("model_cannot_embed")));
}
