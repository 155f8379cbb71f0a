//! `zinc serve` as people start it: the address on standard error, answers over HTTP, an orderly end.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::zinc;

fn tiny() -> PathBuf {
    common::tiny("llama-a.F32.gguf")
}

/// Starts a server and reads its standard error up to the line with the address.
#[allow(clippy::zombie_processes, reason = "the caller waits; a test that panics takes its children with it")]
fn serve(folder: &Path, args: &[&str]) -> (Child, String, String) {
    let mut child = zinc(folder, args).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut before = String::new();
    loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended: {before}");
        if let Some((_, rest)) = line.split_once("serving on http://") {
            let address = rest.split(' ').next().unwrap().to_owned();
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
            return (child, address, before);
        }
        before.push_str(&line);
    }
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_answers_and_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny();
    let (mut child, address, before) = serve(folder.path(), &["-p", "0", "-c", "128", "-m", model.to_str().unwrap()]);
    assert_eq!(before, "", "no warning on loopback");
    let body = r#"{"prompt": "hello", "max_tokens": 3, "ignore_eos": true}"#;
    let head =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
    // The first request waits for the model.
    let answer = ask(&address, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"completion_tokens\":3"), "{answer}");
    assert!(answer.contains("\"model\":\"llama-a.F32\""), "{answer}");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_public_server_without_a_key_warns() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny();
    let public = ["serve", "-p", "0", "--host", "0.0.0.0", "-m", model.to_str().unwrap()];
    let (mut child, _, before) = serve(folder.path(), &public);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(before.contains("warning: this server answers everybody"), "{before}");
    let (mut child, _, before) = serve(folder.path(), &[&public[..], &["--api-key", "long-enough"]].concat());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(before, "");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "# none yet\n").unwrap();
    let model = tiny();
    let model = model.to_str().unwrap();
    for (args, text) in [
        (vec!["-p", "0", "--prompt", "x", "-m", model], "--prompt answers once"),
        (vec!["serve", "-p", "0", "--api-key", "short", "-m", model], "key 1 must be"),
        (vec!["serve", "-p", "0", "--api-key-file", keys.to_str().unwrap(), "-m", model], "has no key in it"),
        (vec!["chat", "--system", "x", "-m", model], "belong to --cli"),
    ] {
        let output = zinc(folder.path(), &args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(text), "{args:?}: {stderr}");
    }
}
