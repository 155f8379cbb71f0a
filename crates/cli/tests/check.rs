//! `zinc --check`, the settings, and what shells and `man` read, as people run them; Vulkan's drivers are hidden.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn tiny() -> PathBuf {
    common::tiny("llama-a.F32.gguf")
}

/// Without any Vulkan driver.
fn zinc(folder: &Path, args: &[&str]) -> Command {
    let mut command = common::zinc(folder, args);
    command.env("VK_DRIVER_FILES", "/nonexistent").env("VK_ICD_FILENAMES", "/nonexistent");
    command
}

/// Exit code, standard output, standard error.
fn output(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_machine_that_runs_the_model_on_its_cpu_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny();
    let args = ["--check", "--device", "cpu", "-p", "0", "-m", model.to_str().unwrap()];
    let (code, text, stderr) = output(&mut zinc(folder.path(), &args));
    assert_eq!((code, text.lines().last()), (0, Some("READY [OK]")), "{text}{stderr}");
    for part in ["host\n", "driver\n", "device\n", "kernels\n", "model\n", "memory\n", "server\n"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(text.contains(" ops hold (") && text.contains("the model fits: "), "{text}");
    assert!(!text.contains('\x1b'), "no colours where there is no terminal");
}

#[test]
fn what_is_wrong_is_said_with_its_remedy_and_the_exit_code_tells_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(tiny()).unwrap();
    let cut = folder.path().join("cut.gguf");
    fs::write(&cut, &whole[..whole.len() - 1000]).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let args = ["--check", "--json", "--device", "vulkan:7", "-p", &port, "-m", cut.to_str().unwrap()];
    let (code, text, stderr) = output(&mut zinc(folder.path(), &args));
    assert_eq!(code, 1, "{text}{stderr}");
    assert!(stderr.contains("not ready"), "{stderr}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["verdict"], &report["profile"]), (&Value::from("not_ready"), &Value::from("cpu")));
    let failed = |name: &str| {
        let section = report["sections"].as_array().unwrap().iter().find(|section| section["name"] == name).unwrap();
        let lines = section["lines"].as_array().unwrap().clone();
        lines.into_iter().find(|line| line["level"] == "FAIL").unwrap()
    };
    assert!(failed("device")["what"].as_str().unwrap().contains("Vulkan"), "{text}");
    assert!(failed("model")["what"].as_str().unwrap().contains("bytes"), "{text}");
    assert!(failed("server")["remedy"].as_str().unwrap().starts_with("zinc -p "), "{text}");
}

#[test]
fn a_model_that_is_not_here_is_not_fetched_by_looking() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--check", "--device", "vulkan:7", "--model-id", "qwen35-2b-q4k-m"];
    let (code, text, _) = output(&mut zinc(folder.path(), &args));
    assert_eq!(code, 1);
    assert!(text.contains("qwen35-2b-q4k-m is not here\n         zinc model pull qwen35-2b-q4k-m\n"), "{text}");
}

#[test]
fn settings_come_from_flag_environment_and_file_in_that_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config/zinc/config.toml");
    let (code, text, _) = output(&mut zinc(folder.path(), &["config"]));
    assert!(code == 0 && text.contains("config.toml (not there)"), "{text}");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "context = 128\nthreads = 2\nport = 7\nkv-type = \"f32\"\napi-key = \"secret\"\n").unwrap();
    let args = ["config", "--json", "--threads", "1"];
    let (code, text, stderr) = output(zinc(folder.path(), &args).env("ZINC_CONTEXT", "256"));
    assert_eq!(code, 0, "{stderr}");
    assert!(!text.contains("secret"), "{text}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    let setting = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        let row = all.iter().find(|row| row["setting"] == name).unwrap();
        (row["value"].as_str().map(str::to_owned), row["from"].as_str().unwrap().to_owned())
    };
    let is = |value: &str, from: &str| (Some(value.to_owned()), from.to_owned());
    assert_eq!(setting("threads"), is("1", "flag"));
    assert_eq!(setting("context"), is("256", "ZINC_CONTEXT"));
    assert_eq!(setting("kv-type"), is("f32", "file"));
    assert_eq!(setting("device"), is("auto", "default"));
    assert_eq!(setting("kv-memory"), (None, "default".to_owned()));
    // They are what a command runs with, and a port in the file makes no server of a prompt.
    let model = tiny();
    let args = ["-m", model.to_str().unwrap(), "--prompt", "hello", "-n", "2", "--ignore-eos"];
    let (code, text, stderr) = output(&mut zinc(folder.path(), &args));
    assert!(code == 0 && !text.is_empty() && stderr.contains("context 128 tokens"), "{stderr}");
    fs::write(&file, "contxt = 128\n").unwrap();
    let (code, _, stderr) = output(&mut zinc(folder.path(), &args));
    assert!(code == 2 && stderr.contains("`contxt` is no setting"), "{stderr}");
    assert_eq!(output(&mut zinc(folder.path(), &["--help"])).0, 0, "help comes before everything");
}

#[test]
fn shells_and_man_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (code, text, _) = output(&mut zinc(folder.path(), &["completions", shell]));
        assert!(code == 0 && text.contains("selftest") && text.contains("kv-memory"), "{shell}");
    }
    let (code, text, _) = output(&mut zinc(folder.path(), &["man"]));
    assert!(code == 0 && text.contains(".TH zinc 1") && text.contains("Exit codes"), "{text}");
    let pages = folder.path().join("man1");
    assert_eq!(output(&mut zinc(folder.path(), &["man", "--folder", pages.to_str().unwrap()])).0, 0);
    for page in ["zinc.1", "zinc-bench.1", "zinc-model-pull.1"] {
        assert!(fs::read_to_string(pages.join(page)).unwrap().contains(".TH"), "{page}");
    }
}

#[test]
fn a_benchmark_is_compared_with_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny();
    let kept = folder.path().join("before.json");
    let args = ["bench", "-m", model.to_str().unwrap(), "--device", "cpu", "--pp", "8", "--tg", "4", "--reps", "1"];
    let (code, text, stderr) = output(&mut zinc(folder.path(), &[&args[..], &["--json"]].concat()));
    assert_eq!(code, 0, "{stderr}");
    fs::write(&kept, text).unwrap();
    let (code, text, stderr) =
        output(&mut zinc(folder.path(), &[&args[..], &["--compare", kept.to_str().unwrap()]].concat()));
    assert!(
        code == 0 && text.contains("\ncompared ") && text.contains("\npp 8 ") && text.contains("\ntg 4 "),
        "{text}{stderr}"
    );
    let (code, _, stderr) =
        output(&mut zinc(folder.path(), &[&args[..], &["--compare", model.to_str().unwrap()]].concat()));
    assert!(code == 2 && stderr.contains("zinc bench --json > FILE"), "{stderr}");
}

/// Prompts of many sequences take several steps, in which the first generate already: more than the tokens that are to be
/// counted. A prompt behind others would be computed in one step with them.
#[test]
fn every_figure_of_a_benchmark_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny();
    let args = ["bench", "-m", model.to_str().unwrap(), "--device", "cpu", "--pp", "8", "--tg", "2", "--reps", "1"];
    let args = [&args[..], &["-b", "1,16", "-d", "0,96", "--json"]].concat();
    let (code, text, stderr) = output(&mut zinc(folder.path(), &args));
    assert_eq!(code, 0, "{stderr}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    let figures = shown["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 6);
    for figure in figures {
        assert!(figure["min_tok_s"].as_f64().unwrap() > 0.0, "{text}");
    }
}

#[test]
fn every_command_teaches_by_example() {
    let folder = tempfile::tempdir().unwrap();
    let (_, help, _) = output(&mut zinc(folder.path(), &["--help"]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut n = 0;
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        let (code, text, _) = output(&mut zinc(folder.path(), &[command, "--help"]));
        assert!(
            code == 0 && text.contains("Example") && text.contains(&format!("  zinc {command}")),
            "{command}: {text}"
        );
        let widest =
            text.lines().skip_while(|line| !line.starts_with("Example")).map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= 80, "{command}: an example is wider than a terminal: {text}");
        n += 1;
    }
    let server = help.find("\nServer:").unwrap();
    assert!(help.find("--prompt").unwrap() < server && help.find("--device").unwrap() < server, "{help}");
    assert!(n >= 14, "{help}");
}
