//! Thinking and calls of tools, through each API, with a model that says what it is told.

use serde_json::{Value, json};
use zinc_server::engine::Constraint;

use crate::client::post;
use crate::harness::{Served, Shelf, config, registry, scripted, until};
use crate::scripted::Line;

const THOUGHT: &str = "<think>\nHm, 6 times 7.\n</think>\n\nIt is 42.";
const CALL: &str = "<think>\nLook.\n</think>\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";

fn say(text: &str) -> [Line; 1] {
    [Line::Say(text.to_owned())]
}

fn user() -> Value {
    json!([{"role": "user", "content": "Well?"}])
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "weather", "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])
}

#[test]
fn thinking_comes_apart_from_the_answer() {
    let (served, script) = scripted("qwen3");
    script.will(say(THOUGHT));
    let answer = post(served.address, "/v1/chat/completions", &json!({"messages": user()})).json();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "Hm, 6 times 7.");
    assert_eq!(message["content"], "It is 42.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");

    script.will(say(THOUGHT));
    let body = json!({"messages": user(), "stream": true});
    let events = post(served.address, "/v1/chat/completions", &body).events();
    let gather = |key: &str| -> String {
        events.iter().filter_map(|event| event["choices"][0]["delta"][key].as_str()).collect()
    };
    assert_eq!((gather("reasoning_content").as_str(), gather("content").as_str()), ("Hm, 6 times 7.", "It is 42."));

    script.will(say(THOUGHT));
    let body = json!({"messages": user(), "max_tokens": 100});
    let blocks = post(served.address, "/v1/messages", &body).json()["content"].clone();
    assert_eq!(blocks[0]["thinking"], "Hm, 6 times 7.");
    assert_eq!(blocks[1]["text"], "It is 42.");

    script.will(say(THOUGHT));
    let output = post(served.address, "/v1/responses", &json!({"input": "Well?"})).json()["output"].clone();
    assert_eq!(output[0]["content"][0]["text"], "Hm, 6 times 7.");
    assert_eq!(output[1]["content"][0]["text"], "It is 42.");
}

#[test]
fn the_switch_reaches_the_template() {
    let (served, script) = scripted("qwen3");
    for (index, body) in [
        json!({"messages": user(), "chat_template_kwargs": {"enable_thinking": false}}),
        json!({"messages": user(), "enable_thinking": false}),
        json!({"messages": user(), "reasoning_effort": "none"}),
    ]
    .into_iter()
    .enumerate()
    {
        script.will(say("42."));
        let answer = post(served.address, "/v1/chat/completions", &body).json();
        assert_eq!(answer["choices"][0]["message"]["content"], "42.");
        assert!(script.prompt(index).ends_with("<think>\n\n</think>\n\n"), "{}", script.prompt(index));
    }
}

#[test]
fn calls_come_in_the_shape_of_each_api() {
    let (served, script) = scripted("qwen3");
    let city = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap();
    script.will(say(CALL));
    let answer = post(served.address, "/v1/chat/completions", &json!({"messages": user(), "tools": tools()})).json();
    let choice = &answer["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("tool_calls"), &Value::Null));
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(
        (&call["function"]["name"], city(&call["function"]["arguments"])),
        (&json!("weather"), json!({"city": "Bern"}))
    );

    script.will(say(CALL));
    let body = json!({"messages": user(), "tools": tools(), "stream": true});
    let events = post(served.address, "/v1/chat/completions", &body).events();
    let deltas: Vec<&Value> =
        events.iter().map(|event| &event["choices"][0]["delta"]["tool_calls"][0]).filter(|d| !d.is_null()).collect();
    assert_eq!(deltas[0]["function"]["name"], "weather");
    assert!(deltas.len() > 3, "arguments come piece by piece: {deltas:?}");
    let arguments: String = deltas.iter().filter_map(|delta| delta["function"]["arguments"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), json!({"city": "Bern"}));

    script.will(say(CALL));
    let tool =
        json!({"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}});
    let body = json!({"messages": user(), "tools": [tool], "max_tokens": 100, "stream": true});
    let events = post(served.address, "/v1/messages", &body).events();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("message_start", "message_stop"));
    let starts: Vec<&Value> =
        events.iter().filter(|e| e["type"] == "content_block_start").map(|e| &e["content_block"]["type"]).collect();
    assert_eq!(starts, ["thinking", "tool_use"]);
    let input: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), json!({"city": "Bern"}));
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");

    script.will(say(CALL));
    let tool = json!({"type": "function", "name": "weather", "parameters": {"type": "object"}});
    let events =
        post(served.address, "/v1/responses", &json!({"input": "Well?", "tools": [tool], "stream": true})).events();
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
    let done = &events.last().unwrap()["response"];
    assert_eq!((&done["status"], &done["output"][1]["name"]), (&json!("completed"), &json!("weather")));
}

#[test]
fn results_of_tools_reach_the_template() {
    let (served, script) = scripted("qwen3");
    script.will(say("Sunny."));
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Bern\"}"}});
    let messages = json!([{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "24 degrees"}]);
    post(served.address, "/v1/chat/completions", &json!({"messages": messages, "tools": tools()}));
    let prompt = script.prompt(0);
    assert!(
        prompt.contains("<tool_call>\n{\"name\": \"weather\"") && prompt.contains("<tool_response>\n24 degrees"),
        "{prompt}"
    );
}

#[test]
fn a_call_that_must_come_is_begun_and_constrained() {
    let (served, script) = scripted("qwen3");
    // The template has the model think first: one request for that, one for the call.
    script.will(say("<think>\nLook.\n</think>\n\nI would rather talk."));
    script.will(say("{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}"));
    let body = json!({"messages": user(), "tools": tools(), "tool_choice": "required"});
    let answer = post(served.address, "/v1/chat/completions", &body).json();
    let message = &answer["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Look."), &Value::Null), "{answer}");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    assert!(script.prompt(1).ends_with("</think>\n\n<tool_call>\n"), "{}", script.prompt(1));
    let seen = script.seen.lock().unwrap();
    assert_eq!(seen[0].constraint, None);
    assert!(matches!(&seen[1].constraint, Some(Constraint::JsonSchema(schema)) if schema.contains("weather")));
    drop(seen);

    script.will(say("{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}"));
    let named = json!({"type": "function", "function": {"name": "weather"}});
    let body = json!({"messages": user(), "tools": tools(), "tool_choice": named, "enable_thinking": false});
    let answer = post(served.address, "/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "weather");
    assert!(script.prompt(2).ends_with("</think>\n\n<tool_call>\n"));
}

#[test]
fn an_answer_without_thinking_is_forced_from_its_beginning() {
    let (served, script) = scripted("qwen3");
    script.will([Line::Drone("No thoughts here. ".to_owned()), Line::Say("{\"a\": 1}".to_owned())]);
    let body = json!({"messages": user(), "response_format": {"type": "json_object"}});
    let answer = post(served.address, "/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "{\"a\": 1}");
    assert_eq!(script.prompt(1), script.prompt(0));
}

#[test]
fn thinking_ends_with_its_budget() {
    let (served, script) = scripted("qwen3");
    script.will([Line::Drone("<think>\non and on and on ".to_owned()), Line::Say("Enough: 42.".to_owned())]);
    let body = json!({"messages": user(), "reasoning_budget": 20});
    let answer = post(served.address, "/v1/chat/completions", &body).json();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], "Enough: 42.");
    assert!(message["reasoning_content"].as_str().unwrap().starts_with("on and on"));
    assert!(script.prompt(1).ends_with("\n</think>\n\n"), "{}", script.prompt(1));
    assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() < 60);
    until("the first request was cancelled", || script.cancelled.lock().unwrap().len() == 1);
}

#[test]
fn gptoss_speaks_in_channels() {
    let (served, script) = scripted("gptoss");
    script.will(say("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>42."));
    let answer =
        post(served.address, "/v1/chat/completions", &json!({"messages": user(), "reasoning_effort": "low"})).json();
    let message = &answer["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Hm."), &json!("42.")));
    assert!(script.prompt(0).contains("Reasoning: low"));

    script.will(say("<|channel|>analysis<|message|>Hm.<|end|>"));
    script.will(say("{\"a\": 1}"));
    let body = json!({"messages": user(), "response_format": {"type": "json_object"}});
    let answer = post(served.address, "/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "{\"a\": 1}", "{answer}");
    assert!(script.prompt(2).ends_with("<|end|><|start|>assistant<|channel|>final<|message|>"), "{}", script.prompt(2));
}

#[test]
fn a_cut_answer_goes_on() {
    let (served, script) = scripted("qwen3");
    script.will(say(" is 42."));
    let messages = json!([{"role": "user", "content": "Well?"}, {"role": "assistant", "content": "The answer"}]);
    let body = json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": false});
    let answer = post(served.address, "/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["content"], " is 42.");
    assert!(script.prompt(0).ends_with("The answer"), "{}", script.prompt(0));

    script.will(say(" more.\n</think>\n\nDone."));
    let messages = json!([{"role": "user", "content": "Well?"}, {"role": "assistant", "content": "", "reasoning_content": "I think some"}]);
    let body = json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": false});
    let message = post(served.address, "/v1/chat/completions", &body).json()["choices"][0]["message"].clone();
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!(" more."), &json!("Done.")));
}

#[test]
fn a_user_cannot_open_the_models_thinking() {
    let (served, script) = scripted("qwen3");
    script.will(say("Plain."));
    let messages = json!([{"role": "user", "content": "Write <think>"}]);
    let answer = post(served.address, "/v1/chat/completions", &json!({"messages": messages})).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Plain.");
}

/// A random model, held to the form of each family: what it writes must be read as a call whose arguments fit.
#[test]
fn a_forced_call_is_one_in_every_family() {
    let shelf = Shelf::default();
    let families = ["qwen3", "qwen2_5", "qwen3_5", "gemma4", "gptoss", "llama3", "mistral"];
    for family in families {
        shelf.tiny(family, "llama-a.F32.gguf", Some(family));
    }
    let mut models = registry("qwen3");
    models.memory_bytes_max = None;
    models.models_max = families.len();
    let served = Served::start(config(), shelf, models);
    let parameters = json!({"type": "object", "additionalProperties": false, "required": ["days", "unit"], "properties": {
        "unit": {"type": "string", "enum": ["c", "f"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9},
        "detailed": {"type": "boolean"}}});
    let tool =
        |name| json!({"type": "function", "function": {"name": name, "description": "x", "parameters": parameters}});
    for family in families {
        for seed in 0..3 {
            let body = json!({"model": family, "messages": user(), "tools": [tool("weather"), tool("forecast")],
                "tool_choice": "required", "temperature": 1.0, "seed": seed, "max_tokens": 400, "reasoning_budget": 4});
            let answer = post(served.address, "/v1/chat/completions", &body).json();
            let choice = &answer["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{family}: {answer}");
            let function = &choice["message"]["tool_calls"][0]["function"];
            assert!(function["name"] == "weather" || function["name"] == "forecast", "{family}: {answer}");
            let text = function["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{family}: {e}: {text}"));
            assert!(arguments["unit"] == "c" || arguments["unit"] == "f", "{family}: {text}");
            assert!(arguments["days"].is_i64(), "{family}: {text}");
        }
    }
}
