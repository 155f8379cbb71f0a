//! The program as people run it: outputs, exit codes, and one clear sentence for each mistake.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::tiny;

/// Runs `zinc` without programs that it could call.
fn zinc(folder: &Path, args: &[&str]) -> Output {
    common::zinc(folder, args).env("PATH", "").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The exit code and the error's text; standard output must be empty.
fn failure(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = zinc(folder, args);
    assert_eq!(text(&output.stdout), "", "{args:?}");
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    (output.status.code().unwrap(), stderr)
}

#[test]
fn text_goes_to_standard_output_and_the_rest_to_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny("llama-a.F32.gguf");
    let output = zinc(folder.path(), &["-m", model.to_str().unwrap(), "--prompt", "hello", "-n", "5", "--ignore-eos"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.ends_with('\n'));
    assert!(
        stderr.contains("generated 5 tokens") && stderr.contains("ms/token") && stderr.contains("first token"),
        "{stderr}"
    );
    assert!(!stderr.contains('\x1b'), "no colours where there is no terminal");
}

#[test]
fn json_is_one_object_and_a_seed_repeats_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny("llama-a.F32.gguf");
    let run = |seed: &str| {
        let model = model.to_str().unwrap();
        let args = [
            "-m",
            model,
            "--prompt",
            "hello",
            "-n",
            "12",
            "--json",
            "--temperature",
            "1.5",
            "--seed",
            seed,
            "--ignore-eos",
        ];
        let output = zinc(folder.path(), &args);
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(object["ids"].as_array().unwrap().len(), 12);
        assert_eq!(object["finish_reason"], "length");
        assert!(object["timings"]["prefill_ms"].as_f64().unwrap() > 0.0);
        object["ids"].clone()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn each_mistake_has_its_sentence_and_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = fs::read(tiny("llama-a.F32.gguf")).unwrap();
    fs::write(at("empty.gguf"), b"").unwrap();
    fs::write(at("cut.gguf"), &whole[..whole.len() - 1000]).unwrap();
    fs::write(at("text.gguf"), b"this is no model").unwrap();
    let good = tiny("llama-a.F32.gguf").to_str().unwrap().to_owned();
    let long = "hello ".repeat(3000);
    let folder_path = folder.path().to_str().unwrap();
    let cases: [(&[&str], i32, &str); 18] = [
        (&["-m", &at("none.gguf"), "--prompt", "x"], 3, "there is no file"),
        (&["-m", folder_path, "--prompt", "x"], 4, "is a folder"),
        (&["-m", &at("empty.gguf"), "--prompt", "x"], 4, "is empty"),
        (&["-m", &at("text.gguf"), "--prompt", "x"], 4, "not a GGUF file"),
        (&["-m", &at("cut.gguf"), "--prompt", "x"], 4, "bytes"),
        (&["--model-id", "qwen35-2b-q4k", "--prompt", "x"], 3, "qwen35-2b-q4k-m"),
        (&["--model-id", "../../etc", "--prompt", "x"], 3, "no model id"),
        (&["-m", &good, "--prompt", &long, "-c", "256"], 2, "leaves no room in a context of 256"),
        (&["-m", &good, "--prompt", "x", "-c", "4294967295"], 2, "context_tokens"),
        (&["-m", &good, "--prompt", "x", "--threads", "0"], 2, "--threads is 0"),
        (&["-m", &good, "--prompt", "x", "--device", "metal"], 2, "no device `metal`"),
        (&["-m", &good, "--prompt", "x", "--temperature", "-1"], 2, "temperature"),
        (&["-m", &good, "--prompt", "x", "--logit-bias", "nonsense"], 2, "--logit-bias"),
        (&["-m", &good, "--prompt", "x", "--kv-memory", "lots"], 2, "as in 512MiB"),
        (&["-m", &good, "--prompt", "x", "--kv-memory", "100"], 2, "less than one page"),
        (&["-m", &good, "--prompt", "x", "--max-seqs", "0"], 2, "sequences_max"),
        (&["-m", &good, "--prompt", "x", "--regex", "("], 2, "the grammar cannot be used"),
        (&[], 2, "nothing to do"),
    ];
    for (args, code, sentence) in cases {
        let (got, stderr) = failure(folder.path(), args);
        assert_eq!(got, code, "{args:?}: {stderr}");
        assert!(stderr.contains(sentence), "{args:?}: {stderr}");
    }
}

#[test]
fn memory_is_printed_as_numbers_and_an_answer_can_be_held_to_a_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny("llama-a.F32.gguf");
    let base = ["-m", model.to_str().unwrap(), "--prompt", "hello", "--regex", "[0-9]{4}x"];
    let limits = ["--ctx", "128", "--max-seqs", "3", "--kv-memory", "300kB", "--queue", "7"];
    let output = zinc(folder.path(), &[base.as_slice(), &limits].concat());
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let answer = stdout.trim_end().as_bytes();
    assert!(answer.len() == 5 && answer[..4].iter().all(u8::is_ascii_digit) && answer[4] == b'x', "{stdout}");
    assert!(stderr.contains("context 128 tokens, 3 at once, KV cache "), "{stderr}");
    assert!(stderr.contains("queue of 7"), "{stderr}");
}

#[test]
fn a_model_that_cannot_be_fetched_names_every_source_that_was_tried() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stderr) = failure(folder.path(), &["--prompt", "The capital of France is"]);
    assert_eq!(code, 5, "{stderr}");
    assert!(stderr.contains("No model was named") && stderr.contains("98.") && stderr.contains("python3"), "{stderr}");
}

#[test]
fn inspect_shows_a_header_without_data() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("header.gguf");
    let whole = fs::read(tiny("qwen35-a.F32.gguf")).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let output = zinc(folder.path(), &["inspect", cut.to_str().unwrap()]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(shown.contains("general.architecture = qwen35") && shown.contains("F32"), "{shown}");
    let output = zinc(folder.path(), &["inspect", "--json", cut.to_str().unwrap()]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["metadata"]["general.architecture"], "qwen35");
    assert!(object["tensors"].as_array().unwrap().iter().any(|t| t["name"] == "token_embd.weight"));
}

#[test]
fn the_graph_is_written_as_json_and_dot() {
    let folder = tempfile::tempdir().unwrap();
    let (json, dot) = (folder.path().join("graph.json"), folder.path().join("graph.dot"));
    let model = tiny("qwen35moe-a.F32.gguf");
    let paths = [json.to_str().unwrap(), dot.to_str().unwrap()];
    let output =
        zinc(folder.path(), &["-m", model.to_str().unwrap(), "--graph-report", paths[0], "--graph-dot", paths[1]]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(report["n_nodes"], nodes.len());
    assert!(nodes.iter().any(|n| n["op"] == "delta_net") && nodes.iter().any(|n| n["op"] == "expert_matmul"));
    assert!(nodes.iter().all(|n| n["bytes"].as_u64().is_some() && n["flops"].as_u64().is_some()));
    let drawn = fs::read_to_string(&dot).unwrap();
    assert!(
        drawn.starts_with("digraph") && drawn.matches(" -> ").count() as u64 == report["n_edges"].as_u64().unwrap()
    );
}

#[test]
fn tokens_go_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny("llama-a.F32.gguf");
    let model = model.to_str().unwrap();
    let ids = text(&zinc(folder.path(), &["tokenize", "-m", model, "--no-bos", "hello world"]).stdout);
    let back = text(&zinc(folder.path(), &["detokenize", "-m", model, ids.trim()]).stdout);
    assert_eq!(back, "hello world\n");
    let (code, stderr) = failure(folder.path(), &["detokenize", "-m", model, "99999"]);
    assert_eq!((code, stderr.contains("token 99999 does not exist")), (2, true), "{stderr}");
}

#[test]
fn logits_can_be_kept_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("text.txt"), "the quick brown fox jumps over the lazy dog. ".repeat(20)).unwrap();
    let model = tiny("llama-a.F32.gguf");
    let model = model.to_str().unwrap();
    let (words, kept) = (at("text.txt"), at("base.logits"));
    let base = ["perplexity", "-m", model, "-f", &words, "-c", "32", "--windows", "3", "--json"];
    let run = |more: &[&str]| {
        let output = zinc(folder.path(), &[&base, more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let first = run(&["--save-logits", &kept]);
    assert_eq!(first["n_scored"], 3 * 16);
    assert!(first["perplexity"].as_f64().unwrap() > 1.0);
    let same = run(&["--kl-base", &kept]);
    assert!(same["kl"]["mean"].as_f64().unwrap() < 1e-4 && same["kl"]["top_agreement"] == 1.0, "{same}");
    let other = run(&["--kl-base", &kept, "--kv-type", "f32"]);
    assert!(other["kl"]["mean"].as_f64().unwrap() < 1e-2);
}
