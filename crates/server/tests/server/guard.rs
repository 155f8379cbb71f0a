//! Who gets in, and what a request must look like to be read.

use serde_json::json;
use zinc_server::auth::Keys;

use crate::client::{get, post, request, send};
use crate::harness::{Served, Shelf, config, registry, tiny};

#[test]
fn a_key_opens_the_api_and_nothing_needs_one_for_the_page() {
    let mut config = config();
    config.keys = Keys::new(["first-key-1", "second-key-2"]).unwrap();
    let shelf = Shelf::default();
    shelf.tiny("tiny", "llama-a.F32.gguf", Some("smollm2"));
    let served = Served::start(config, shelf, registry("tiny"));
    let with = |headers: &[(&str, &str)], path| send(served.address, &request("GET", path, headers, "")).unwrap();
    for (headers, status) in [
        (&[][..], 401),
        (&[("Authorization", "Bearer wrong-key-1")], 401),
        (&[("Authorization", "Basic first-key-1")], 401),
        (&[("Authorization", "Bearer first-key-1")], 200),
        (&[("authorization", "bearer second-key-2")], 200),
        (&[("x-api-key", "second-key-2")], 200),
    ] {
        assert_eq!(with(headers, "/v1/models").status, status, "{headers:?}");
        assert_eq!(with(headers, "/metrics").status, status, "{headers:?}");
    }
    let refused = with(&[], "/v1/models");
    assert_eq!(refused.json()["error"]["code"], "invalid_api_key");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    for path in ["/health", "/ready", "/version"] {
        assert_eq!(with(&[], path).status, 200, "{path}");
    }
    assert_ne!(with(&[], "/").status, 401);
    let refused = send(served.address, &request("POST", "/v1/messages", &[], "{}")).unwrap();
    assert_eq!(refused.json()["type"], "error", "in the shape of its API: {}", refused.body);
}

#[test]
fn only_names_of_this_host_are_answered() {
    let served = tiny();
    for (host, status) in [
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:99", 200),
        ("zinc.test", 200),
        ("ZINC.test:1", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ] {
        let answer = send(served.address, &request("GET", "/health", &[("Host", host)], "")).unwrap();
        assert_eq!(answer.status, status, "{host}");
    }
}

#[test]
fn pages_of_other_origins_may_do_what_the_list_says() {
    let served = tiny();
    let preflight = |origin| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type, authorization"),
        ];
        send(served.address, &request("OPTIONS", "/v1/chat/completions", &headers, "")).unwrap()
    };
    let allowed = preflight("https://page.test");
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://page.test"));
    assert!(allowed.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert!(allowed.header("access-control-allow-credentials").is_none());
    assert!(preflight("https://evil.example").header("access-control-allow-origin").is_none());
    let body = json!({"prompt": "x", "max_tokens": 1}).to_string();
    let call = |origin| {
        let headers = [("Origin", origin), ("Content-Type", "application/json")];
        send(served.address, &request("POST", "/v1/completions", &headers, &body)).unwrap()
    };
    let own = format!("http://{}", "localhost");
    for (origin, status) in
        [("https://page.test", 200), ("https://evil.example", 403), ("null", 403), (own.as_str(), 200)]
    {
        assert_eq!(call(origin).status, status, "{origin}");
    }
    assert_eq!(call("https://page.test").header("access-control-allow-origin"), Some("https://page.test"));
}

#[test]
fn requests_that_are_no_json_are_refused_by_their_status() {
    let served = tiny();
    let send = |bytes: Vec<u8>| send(served.address, &bytes).unwrap();
    let json = [("Content-Type", "application/json")];
    let text = [("Content-Type", "text/plain")];
    assert_eq!(send(request("POST", "/v1/completions", &text, "{\"prompt\": \"x\"}")).status, 415);
    assert_eq!(send(request("POST", "/v1/completions", &json, "{\"prompt\":")).status, 400);
    assert_eq!(send(request("GET", "/v1/completions", &[], "")).status, 405);
    assert_eq!(send(request("POST", "/", &json, "{}")).status, 405);
    assert_eq!(send(request("GET", "/v1/nothing", &[], "")).json()["error"]["code"], "not_found");
    assert_eq!(send(request("GET", "/nothing", &[], "")).status, 404);
    let announced = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                      Content-Length: 99999999999\r\n\r\n";
    assert_eq!(send(announced.to_vec()).status, 413);
    let many: Vec<(String, String)> = (0..200).map(|n| (format!("x-{n}"), "1".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    // The connection is closed, with or without a word.
    let crowded = crate::client::send(served.address, &request("GET", "/health", &many, ""));
    assert!(crowded.is_none_or(|answer| answer.status == 431));
    let unknown = post(served.address, "/v1/completions", &json!({"model": "gpt-9", "prompt": "x"}));
    assert_eq!((unknown.status, unknown.json()["error"]["code"].as_str()), (404, Some("model_not_found")));
}

#[test]
fn every_answer_has_an_id_and_a_line() {
    let served = tiny();
    let answer = get(served.address, "/health");
    let id = answer.header("x-request-id").unwrap();
    crate::harness::until("the line is written", || served.log.text().contains(id));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let secret = post(served.address, "/v1/completions", &json!({"prompt": "a secret text", "max_tokens": 2}));
    let id = secret.header("x-request-id").unwrap();
    crate::harness::until("the line is written", || served.log.text().contains(id));
    let log = served.log.text();
    let line = log.lines().find(|line| line.contains(id)).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (line["status"].as_u64(), line["completion_tokens"].as_u64(), line["model"].as_str()),
        (Some(200), Some(2), Some("tiny"))
    );
    assert!(!log.contains("secret"), "{log}");
}

/// The description lists what the router has, and nothing else.
#[test]
fn the_description_is_that_of_the_router() {
    let served = tiny();
    let description = get(served.address, "/openapi.json").json();
    let paths = description["paths"].as_object().unwrap();
    for (path, methods) in paths {
        let path = path.replace("{id}", "tiny");
        for method in methods.as_object().unwrap().keys().filter(|method| *method != "parameters") {
            let method = method.to_uppercase();
            let headers = [("Content-Type", "application/json")];
            let body = if method == "POST" { "{}" } else { "" };
            let answer = send(served.address, &request(&method, &path, &headers, body)).unwrap();
            assert!(answer.status != 405, "{method} {path} is not served");
            assert!(answer.status != 404 || path.contains("tiny"), "{method} {path} is not served");
            let described = &paths[&path.replace("tiny", "{id}")][method.to_lowercase()]["responses"];
            assert!(
                described[answer.status.to_string()].is_object(),
                "{method} {path}: {} is not described",
                answer.status
            );
        }
    }
    let source = include_str!("../../src/router.rs");
    for line in source.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
        let path = line.split('"').next().unwrap();
        assert!(paths.contains_key(path), "{path} is not described");
    }
}
