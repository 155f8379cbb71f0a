//! Streams: readers that go away, are slow, or wait; many at once; the end of the server.

use std::io::{BufReader, Write};
use std::time::Duration;

use serde_json::json;
use zinc_server::config::Limits;
use zinc_server::models::Registry;

use crate::client::{self, connect, read_chunk, read_head, request};
use crate::harness::{Served, Shelf, config, registry, scripted, tiny, until};
use crate::scripted::Line;

fn stream_request(n_tokens: u32) -> Vec<u8> {
    let body = json!({"messages": [{"role": "user", "content": "hello"}], "stream": true, "max_tokens": n_tokens,
        "ignore_eos": true, "stream_options": {"include_usage": true}});
    request("POST", "/v1/chat/completions", &[("Content-Type", "application/json")], &body.to_string())
}

#[test]
fn generation_ends_when_the_reader_goes_away() {
    let (served, script) = scripted("smollm2");
    script.will([Line::Drone("again ".to_owned()), Line::Wait]);
    let mut stream = connect(served.address);
    stream.write_all(&stream_request(400)).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).unwrap().0, 200);
    assert!(read_chunk(&mut reader).is_some());
    drop(reader);
    until("the stream was cancelled", || script.cancelled.lock().unwrap().len() == 1);
    until("its line was logged", || served.log.text().contains("\"outcome\":\"client_gone\""));

    // The same without a stream, before a single token has come.
    let body = json!({"messages": [{"role": "user", "content": "hello"}]});
    let mut stream = connect(served.address);
    let bytes = request("POST", "/v1/chat/completions", &[("Content-Type", "application/json")], &body.to_string());
    stream.write_all(&bytes).unwrap();
    until("the request has reached the engine", || script.seen.lock().unwrap().len() == 2);
    drop(stream);
    until("it was cancelled", || script.cancelled.lock().unwrap().len() == 2);
}

#[test]
fn a_stream_that_waits_shows_life() {
    let shelf = Shelf::default();
    let script = shelf.scripted("actor", "smollm2");
    let mut config = config();
    config.limits = Limits { keep_alive: Duration::from_millis(20), ..config.limits };
    let served = Served::start(config, shelf, registry("actor"));
    script.will([Line::Wait]);
    let mut stream = connect(served.address);
    stream.write_all(&stream_request(10)).unwrap();
    let mut reader = BufReader::new(stream);
    read_head(&mut reader).unwrap();
    let mut text = String::new();
    while !text.contains(": still here") {
        text.push_str(std::str::from_utf8(&read_chunk(&mut reader).unwrap()).unwrap());
    }
}

#[test]
fn a_reader_that_reads_nothing_slows_nobody() {
    let served = tiny();
    let mut sleeper = connect(served.address);
    sleeper.write_all(&stream_request(400)).unwrap();
    let answer = client::send(served.address, &stream_request(20)).unwrap();
    assert_eq!(answer.events().last().unwrap()["usage"]["completion_tokens"], 20);
    drop(sleeper);
    until("its pages are free again", || pages_held(&served.registry) == 0);
}

/// Some read to the end, some go away at once, some in between: everyone who stays gets the whole answer, and afterwards
/// the engine holds nothing.
#[test]
fn sixty_four_streams_with_readers_that_come_and_go() {
    let served = tiny();
    std::thread::scope(|scope| {
        for reader in 0..64u32 {
            let served = &served;
            scope.spawn(move || {
                let mut stream = connect(served.address);
                stream.write_all(&stream_request(24)).unwrap();
                let mut stream = BufReader::new(stream);
                if reader % 3 == 1 {
                    return;
                }
                let (status, _) = read_head(&mut stream).unwrap();
                assert_eq!(status, 200);
                let mut text = String::new();
                while let Some(chunk) = read_chunk(&mut stream) {
                    text.push_str(std::str::from_utf8(&chunk).unwrap());
                    if reader % 3 == 2 && text.len() > 600 {
                        return;
                    }
                }
                assert!(text.ends_with("[DONE]\n\n") && text.contains("\"completion_tokens\":24"), "{text}");
            });
        }
    });
    until("all pages are free again", || pages_held(&served.registry) == 0);
    let stats = served.registry.loaded()[0].loaded.generator.stats();
    assert_eq!((stats.n_running, stats.n_waiting, stats.n_failed), (0, 0, 0));
}

fn pages_held(registry: &Registry) -> u32 {
    let stats = registry.loaded()[0].loaded.generator.stats();
    stats.n_pages_held + stats.n_running + stats.n_waiting
}

#[test]
fn what_runs_is_finished_before_the_server_ends() {
    let mut served = tiny();
    let mut stream = connect(served.address);
    stream.write_all(&stream_request(300)).unwrap();
    let mut reader = BufReader::new(stream);
    read_head(&mut reader).unwrap();
    let first = read_chunk(&mut reader).unwrap();
    served.stop();
    let mut text = String::from_utf8(first).unwrap();
    while let Some(chunk) = read_chunk(&mut reader) {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(text.contains("\"completion_tokens\":300"), "{text}");
    served.join();
    assert!(std::net::TcpStream::connect(served.address).is_err(), "nobody listens any more");
}

#[test]
fn progress_is_told_only_to_those_who_ask() {
    let served = tiny();
    let body =
        |asks: bool| json!({"prompt": "hello ".repeat(60), "stream": true, "max_tokens": 2, "return_progress": asks});
    let told = |asks: bool| {
        let answer = client::post(served.address, "/v1/completions", &body(asks));
        answer.events().iter().filter(|event| !event["prompt_progress"].is_null()).count()
    };
    assert_eq!(told(false), 0);
    assert!(told(true) >= 1);
}
