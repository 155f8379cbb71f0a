//! `zinc model …` as people use it, with a hub that the test makes up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::thread;

use common::tiny;

/// A hub with one repository that has one model; it serves until the test ends.
fn hub(model: Vec<u8>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            answer(connection, &model);
        }
    });
    url
}

fn answer(mut connection: TcpStream, model: &[u8]) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut request = String::new();
    reader.read_line(&mut request).unwrap();
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        line.clear();
    }
    let size = model.len();
    let listing = format!(r#"{{"sha":null,"siblings":[{{"rfilename":"tiny-F32.gguf","size":{size}}}]}}"#);
    let body = match request.split(' ').nth(1).unwrap() {
        "/api/models/Ada/Tiny-GGUF/revision/main?blobs=true" => listing.as_bytes(),
        "/Ada/Tiny-GGUF/resolve/main/tiny-F32.gguf" => model,
        _ => {
            let _ = connection.write_all(b"HTTP/1.1 404 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            return;
        }
    };
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
}

struct User {
    home: tempfile::TempDir,
    hub: String,
}

impl User {
    fn new() -> User {
        User { home: tempfile::tempdir().unwrap(), hub: hub(fs::read(tiny("llama-a.F32.gguf")).unwrap()) }
    }

    fn zinc(&self, args: &[&str]) -> Output {
        common::zinc(self.home.path(), args).env("HF_ENDPOINT", &self.hub).env("PATH", "").output().unwrap()
    }

    /// Standard output of a command that works.
    fn says(&self, args: &[&str]) -> String {
        let output = self.zinc(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit code and error of one that does not.
    fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.zinc(args);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.says(args)).unwrap()
    }
}

#[test]
fn a_model_of_the_hub_is_pulled_chosen_run_checked_and_removed() {
    let user = User::new();
    let (name, id) = ("Ada/Tiny-GGUF:F32", "ada--tiny-gguf--f32");
    let (code, error) = user.fails(&["model", "path", name]);
    assert!(code == 3 && error.contains("zinc model pull Ada/Tiny-GGUF:F32"), "{error}");
    let path = user.says(&["model", "pull", name]);
    assert_eq!(user.says(&["model", "path", id]), path);
    assert_eq!(fs::read(path.trim_end()).unwrap(), fs::read(tiny("llama-a.F32.gguf")).unwrap());

    assert_eq!(user.json(&["model", "active", "--json"])["chosen"], false);
    user.says(&["model", "use", name]);
    assert_eq!(user.says(&["model", "active"]), format!("{id}\n"));
    // Nothing names a model here.
    user.says(&["--prompt", "hello", "-n", "2", "--ignore-eos", "--device", "cpu"]);
    let list = user.json(&["model", "list", "--all", "--json", "--device", "cpu"]);
    let row = list.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
    assert_eq!((&row["installed"], &row["name"]), (&true.into(), &"Ada/Tiny-GGUF".into()));
    assert!(user.says(&["model", "list", "--device", "cpu"]).contains("active"));

    user.says(&["model", "verify", id]);
    let mut bytes = fs::read(path.trim_end()).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path.trim_end(), bytes).unwrap();
    let (code, error) = user.fails(&["model", "verify", id]);
    assert!(code == 4 && error.contains("is damaged") && error.contains("zinc model rm"), "{error}");

    user.says(&["model", "rm", name]);
    let (code, error) = user.fails(&["model", "rm", name]);
    assert!(code == 3 && error.contains("not in the cache"), "{error}");
    assert_eq!(user.says(&["model", "active"]), "smollm2-135m-instruct-q4_1\n");
}

#[test]
fn a_model_that_runs_is_not_removed() {
    let user = User::new();
    let path = user.says(&["model", "pull", "Ada/Tiny-GGUF"]);
    // As a process that runs it would.
    let file = fs::File::open(path.trim_end()).unwrap();
    file.lock_shared().unwrap();
    let (code, error) = user.fails(&["model", "rm", "Ada/Tiny-GGUF:F32"]);
    assert!(code == 1 && error.contains("is loaded") && error.contains("--force"), "{error}");
    user.says(&["model", "rm", "--force", "Ada/Tiny-GGUF:F32"]);
    assert!(!Path::new(path.trim_end()).exists());
}

#[test]
fn fit_adds_up_without_fetching_anything() {
    let user = User::new();
    let model = tiny("llama-a.F32.gguf");
    let fit = ["model", "fit", "--json", "--device", "cpu", "-m", model.to_str().unwrap()];
    let small = user.json(&[&fit[..], &["-c", "256"]].concat());
    assert_eq!(small["fits"], true);
    let parts = small["parts"].as_object().unwrap();
    let sum: u64 = parts.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(small["total_bytes"].as_u64(), Some(sum));
    let wide = user.json(&[&fit[..], &["-c", "256", "--kv-type", "f32"]].concat());
    let kv = |value: &serde_json::Value| value["parts"]["keys_and_values_bytes"].as_u64().unwrap();
    assert_eq!(kv(&wide), 2 * kv(&small), "twice the bytes an element");

    // By the catalog's word, without fetching it.
    let output = user.zinc(&["model", "fit", "--json", "--device", "cpu", "--model-id", "qwen35-35b-a3b-q4k-xl"]);
    let known: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(known["total_bytes"].as_u64().unwrap() > 22_241_950_336, "{known}");
}
