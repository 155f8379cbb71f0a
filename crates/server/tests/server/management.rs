//! Loading, unloading, fetching models; which go when there is no room.

use serde_json::{Value, json};

use crate::client::{get, post, request, send};
use crate::harness::{MODEL_BYTES, Served, Shelf, config, registry, until};
use crate::scripted::Line;

fn ask(served: &Served, model: &str) -> (u16, Value) {
    let answer = post(served.address, "/v1/completions", &json!({"model": model, "prompt": "x", "max_tokens": 1}));
    (answer.status, answer.json())
}

fn states(served: &Served) -> Vec<(String, String)> {
    let list = get(served.address, "/v1/models").json();
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    list["data"].as_array().unwrap().iter().map(|entry| (word(entry, "id"), word(entry, "state"))).collect()
}

fn three() -> Served {
    let shelf = Shelf::default();
    for id in ["a", "b", "c"] {
        shelf.tiny(id, "llama-a.F32.gguf", None);
    }
    shelf.remote("far");
    Served::start(config(), shelf, registry("a"))
}

#[test]
fn a_request_loads_its_model_and_the_least_recently_used_goes() {
    let served = three();
    assert_eq!(ask(&served, "b").0, 200);
    assert_eq!(ask(&served, "a").0, 200);
    // Two fit in 250 bytes: `b` was used before `a`.
    assert_eq!(ask(&served, "c").0, 200);
    let expected = [("a", "loaded"), ("b", "downloaded"), ("c", "loaded"), ("far", "available")];
    assert_eq!(states(&served), expected.map(|(id, state)| (id.to_owned(), state.to_owned())));
    assert_eq!(*served.shelf.loads.lock().unwrap(), ["a", "b", "c"]);
    assert_eq!(get(served.address, "/v1/models").json()["memory"]["used_bytes"], 2 * MODEL_BYTES);
    let (status, error) = ask(&served, "far");
    assert_eq!((status, error["error"]["code"].as_str()), (404, Some("model_not_found")));
    assert!(error["error"]["message"].as_str().unwrap().contains("/pull"));
}

#[test]
fn a_model_that_answers_is_not_taken_away() {
    let shelf = Shelf::default();
    let script = shelf.scripted("actor", "smollm2");
    shelf.tiny("b", "llama-a.F32.gguf", None);
    shelf.tiny("c", "llama-a.F32.gguf", None);
    let mut models = registry("actor");
    models.memory_bytes_max = Some(MODEL_BYTES);
    let served = Served::start(config(), shelf, models);
    script.will([Line::Drone("la ".to_owned())]);
    let body = json!({"messages": [{"role": "user", "content": "x"}], "stop": ["never"]});
    std::thread::scope(|scope| {
        let talk = scope.spawn(|| post(served.address, "/v1/chat/completions", &body));
        until("it talks", || script.seen.lock().unwrap().len() == 1);
        let answer = post(served.address, "/v1/completions", &json!({"model": "b", "prompt": "x"}));
        assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (503, Some("no_memory")));
        assert!(answer.header("retry-after").is_some());
        let unloaded = send(served.address, &request("POST", "/v1/models/actor/unload", &[], "")).unwrap().json();
        assert_eq!((&unloaded["was_loaded"], &unloaded["running_streams"]), (&json!(true), &json!(1)));
        assert!(!talk.is_finished());
        let id = zinc_server::engine::RequestId(0);
        zinc_server::engine::Generator::cancel(&crate::scripted::Shared(script.clone()), id);
        assert_eq!(talk.join().unwrap().status, 200);
    });
    until("its memory is free", || ask(&served, "b").0 == 200);
}

#[test]
fn progress_is_an_event_stream() {
    let served = three();
    let follow =
        |path: &str| send(served.address, &request("POST", path, &[("Accept", "text/event-stream")], "")).unwrap();
    let stages = |path: &str| -> Vec<String> {
        follow(path).events().iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    };
    let pulled = stages("/v1/models/far/pull");
    // A step that is over before anybody looks is not told.
    let (last, before) = pulled.split_last().unwrap();
    assert!(last == "ready" && before.iter().all(|stage| stage == "download"), "{pulled:?}");
    let loaded = stages("/v1/models/far/load");
    assert_eq!(loaded.last().unwrap(), "ready");
    assert_eq!(ask(&served, "far").0, 200);
    let plain = send(served.address, &request("POST", "/v1/models/b/load", &[], "")).unwrap();
    assert_eq!((plain.status, plain.json()["stage"].as_str()), (200, Some("ready")));
    let unknown = send(served.address, &request("POST", "/v1/models/nope/load", &[], "")).unwrap();
    assert_eq!(unknown.status, 404);
}

#[test]
fn a_model_that_cannot_be_loaded_says_why() {
    let shelf = Shelf::default();
    shelf.tiny("broken", "", None);
    let served = Served::start_unready(config(), shelf, registry("broken"));
    until("the load has failed", || get(served.address, "/ready").json()["status"] == "failed");
    let ready = get(served.address, "/ready");
    assert_eq!((ready.status, ready.json()["message"].as_str()), (503, Some("broken is broken")));
    assert_eq!(get(served.address, "/health").status, 200);
    let (status, error) = ask(&served, "broken");
    assert_eq!((status, error["error"]["code"].as_str()), (422, Some("model_unusable")));
}

#[test]
fn an_entry_tells_what_is_known() {
    let served = three();
    let entry = get(served.address, "/v1/models/a").json();
    assert_eq!(
        (&entry["owned_by"], &entry["context_length"], &entry["fits"]),
        (&json!("zinc"), &json!(2048), &json!(true))
    );
    assert_eq!(entry["chat"], false);
    assert_eq!(entry["default_sampling"]["top_p"], 1.0);
    let chat = post(served.address, "/v1/chat/completions", &json!({"messages": [{"role": "user", "content": "x"}]}));
    assert_eq!((chat.status, chat.json()["error"]["code"].as_str()), (400, Some("no_chat_template")));
    assert_eq!(get(served.address, "/v1/models/none").status, 404);
}
