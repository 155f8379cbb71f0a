//! `zinc devices`, `--device` and `zinc selftest` on a machine whose Vulkan drivers, if there are any, are hidden.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, standard output and standard error.
fn zinc(args: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.args(args).env("HOME", folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache"));
    // The loader looks for drivers here and nowhere else.
    command.env("VK_DRIVER_FILES", "/nonexistent").env("VK_ICD_FILENAMES", "/nonexistent");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn without_a_driver_the_cpu_is_listed_and_what_to_install() {
    let (code, listed, _) = zinc(&["devices"]);
    assert_eq!(code, 0);
    assert!(listed.starts_with("cpu "), "{listed}");
    assert!(listed.contains("\nno GPU ") && listed.contains("mesa-vulkan-drivers"), "{listed}");
    for args in [&["--device", "list"][..], &["selftest", "--device", "list"], &["bench", "--device", "list"]] {
        assert_eq!(zinc(args), (0, listed.clone(), String::new()), "{args:?}");
    }
    let (code, json, _) = zinc(&["devices", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &object["devices"][0]["device"]), (0, &serde_json::json!("cpu")));
    assert!(object["no_gpu"].as_str().unwrap().contains("Vulkan"), "{json}");
}

#[test]
fn a_gpu_that_is_not_there_is_wrong_usage_with_a_remedy_and_the_cpu_still_works() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny/llama-a.F32.gguf");
    let model = model.to_str().unwrap();
    let generate = ["-m", model, "--prompt", "hello", "-n", "2", "--ignore-eos", "--device"];
    for device in ["vulkan", "vulkan:0", "vulkan:0000:03:00.0", "vulkan:abcd"] {
        let (code, stdout, stderr) = zinc(&[&generate[..], &[device]].concat());
        assert_eq!((code, stdout.as_str()), (2, ""), "{device}: {stderr}");
        assert!(stderr.contains("Vulkan") && stderr.contains("mesa-vulkan-drivers"), "{device}: {stderr}");
        assert!(stderr.contains("--device cpu works everywhere"), "{device}: {stderr}");
    }
    let (code, _, stderr) = zinc(&[&generate[..], &["gpu0"]].concat());
    assert!(code == 2 && stderr.contains("no device `gpu0`") && stderr.contains("there are: auto, cpu"), "{stderr}");
    // A server says so before it serves, though it loads no model yet.
    for device in ["gpu0", "vulkan:0", "vulkan"] {
        let (code, _, stderr) = zinc(&["serve", "-m", model, "-p", "0", "--device", device]);
        assert!(code == 2 && !stderr.contains("serving on"), "{device}: {stderr}");
        assert!(stderr.contains("gpu0") || stderr.contains("mesa-vulkan-drivers"), "{device}: {stderr}");
    }
    for device in ["cpu", "auto"] {
        let (code, stdout, stderr) = zinc(&[&generate[..], &[device]].concat());
        assert!(code == 0 && !stdout.is_empty(), "{device}: {stderr}");
    }
}

#[test]
fn a_selftest_reports_the_device_and_every_op() {
    let (code, text, _) = zinc(&["selftest", "--filter", "rms_norm/", "--threads", "2"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("zinc ") && text.contains("\nthreads                  2\n"), "{text}");
    assert!(text.contains("\nrms_norm ") && text.contains(" cases hold ("), "{text}");
    let (code, json, _) = zinc(&["selftest", "--filter", "rms_norm/", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, 0);
    assert_eq!(report["device"]["device"], "cpu");
    assert_eq!(report["failed"], serde_json::json!([]));
    let op = report["ops"].as_array().unwrap().iter().find(|op| op["op"] == "rms_norm").unwrap();
    assert!(op["cases"].as_u64().unwrap() > 0 && op["failed"] == 0, "{json}");
    let sum: u64 = report["ops"].as_array().unwrap().iter().map(|op| op["cases"].as_u64().unwrap()).sum();
    assert_eq!(report["cases"], sum);
    let (code, _, stderr) = zinc(&["selftest", "--filter", "no-such-case"]);
    assert!(code == 2 && stderr.contains("no case is named like `no-such-case`"), "{stderr}");
}
