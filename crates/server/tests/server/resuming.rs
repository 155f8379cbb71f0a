//! Streams that outlive their connection: read again from any event, stopped by name, ended when nobody comes back.

use std::io::{BufReader, Write};
use std::time::Duration;

use serde_json::{Value, json};
use zinc_server::config::Limits;

use crate::client::{Answer, connect, get, read_chunk, read_head, request, send};
use crate::harness::{Served, Shelf, config, registry, scripted, tiny, until};
use crate::scripted::Line;

fn resumable(n_tokens: u32) -> Vec<u8> {
    let body = json!({"messages": [{"role": "user", "content": "hello"}], "stream": true, "max_tokens": n_tokens,
        "ignore_eos": true, "stream_options": {"include_usage": true, "resumable": true}});
    request("POST", "/v1/chat/completions", &[("Content-Type", "application/json")], &body.to_string())
}

fn follow(served: &Served, id: &str, last: Option<&str>) -> Answer {
    let headers: Vec<(&str, &str)> = last.iter().map(|last| ("Last-Event-ID", *last)).collect();
    send(served.address, &request("GET", &format!("/v1/streams/{id}"), &headers, "")).unwrap()
}

fn stop(served: &Served, id: &str) -> u16 {
    send(served.address, &request("DELETE", &format!("/v1/streams/{id}"), &[], "")).unwrap().status
}

/// Begins a stream and goes away after its first piece; the stream's id.
fn begin_and_leave(served: &Served, n_tokens: u32) -> String {
    let mut stream = connect(served.address);
    stream.write_all(&resumable(n_tokens)).unwrap();
    let mut reader = BufReader::new(stream);
    let (status, headers) = read_head(&mut reader).unwrap();
    assert_eq!(status, 200);
    let first = String::from_utf8(read_chunk(&mut reader).unwrap()).unwrap();
    assert!(first.starts_with("id: 1\ndata: {"), "{first}");
    headers.into_iter().find(|(key, _)| key == "x-request-id").unwrap().1
}

/// Numbers and data of the events of a body.
fn numbered(body: &str) -> Vec<(u64, String)> {
    let event = |text: &str| {
        let (id, data) = text.strip_prefix("id: ")?.split_once("\ndata: ")?;
        Some((id.parse().unwrap(), data.to_owned()))
    };
    body.split_terminator("\n\n").filter_map(event).collect()
}

#[test]
fn a_stream_goes_on_without_its_reader_and_is_read_again() {
    let served = tiny();
    let id = begin_and_leave(&served, 40);
    let whole = follow(&served, &id, None);
    assert_eq!((whole.status, whole.header("content-type")), (200, Some("text/event-stream")));
    let events = numbered(&whole.body);
    assert!(events.iter().enumerate().all(|(index, (number, _))| *number == index as u64 + 1), "{}", whole.body);
    assert_eq!(events.last().unwrap().1, "[DONE]");
    let usage: Value = serde_json::from_str(&events[events.len() - 2].1).unwrap();
    assert_eq!(usage["usage"]["completion_tokens"], 40);

    // From the middle, twice: every reader gets the same rest.
    for _ in 0..2 {
        assert_eq!(numbered(&follow(&served, &id, Some("7")).body), events[7..]);
    }
    assert_eq!(stop(&served, &id), 200);
    assert_eq!(follow(&served, &id, None).status, 404);
}

#[test]
fn a_reader_who_comes_back_follows_to_the_end() {
    let (served, script) = scripted("smollm2");
    script.will([Line::Drone("again ".to_owned())]);
    let id = begin_and_leave(&served, 400);
    let mut stream = connect(served.address);
    stream.write_all(&request("GET", &format!("/v1/streams/{id}"), &[("Last-Event-ID", "1")], "")).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).unwrap().0, 200);
    let mut text = String::new();
    while text.matches("id: ").count() < 20 {
        text.push_str(std::str::from_utf8(&read_chunk(&mut reader).unwrap()).unwrap());
    }
    assert!(text.starts_with("id: 2\n"), "{text}");
    assert_eq!(script.cancelled.lock().unwrap().len(), 0);
    // Stopped from elsewhere, it ends for its reader too.
    assert_eq!(stop(&served, &id), 200);
    while read_chunk(&mut reader).is_some() {}
    until("the generation was cancelled", || script.cancelled.lock().unwrap().len() == 1);
    assert_eq!(stop(&served, &id), 404);
}

#[test]
fn a_stream_that_nobody_comes_back_for_ends() {
    let shelf = Shelf::default();
    let script = shelf.scripted("actor", "smollm2");
    let mut config = config();
    config.limits = Limits { resume_idle_max: Duration::from_millis(30), ..config.limits };
    let served = Served::start(config, shelf, registry("actor"));
    script.will([Line::Drone("again ".to_owned())]);
    let id = begin_and_leave(&served, 400);
    until("the generation was cancelled", || script.cancelled.lock().unwrap().len() == 1);
    until("its events are forgotten", || follow(&served, &id, None).status == 404);
}

#[test]
fn what_is_asked_of_a_stream_is_checked() {
    let served = tiny();
    let id = begin_and_leave(&served, 3);
    for last in ["-1", "x", "1000000", "99999999999999999999999"] {
        let answer = follow(&served, &id, Some(last));
        assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (400, Some("Last-Event-ID")), "{last}");
    }
    assert_eq!(get(served.address, "/v1/streams/req-0").json()["error"]["code"], "stream_not_found");
    let body =
        json!({"messages": [{"role": "user", "content": "x"}], "stream": true, "stream_options": {"resumable": 1}});
    let answer = crate::client::post(served.address, "/v1/chat/completions", &body);
    assert_eq!(answer.json()["error"]["param"], "stream_options.resumable");
}
