//! `zinc devices`, and `--device list`: what can run models here, and what cannot and why.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::commands::check::profile_of;
use crate::device::{self, Devices};
use crate::failure::Outcome;
use crate::output::print;

/// Width of the second column.
const COLUMN_CHARS: usize = 100;

pub(crate) fn run(is_json: bool) -> Outcome {
    let devices = Devices::find();
    print(&if is_json { as_json(&devices) } else { as_text(&devices) })
}

fn as_text(devices: &Devices) -> String {
    let mut text = format!("{:<10} {}\n", "cpu", zinc_cpu::description());
    let mut line = |first: &str, rest: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{first:<10} {rest}");
    };
    for gpu in &devices.gpus {
        let (major, minor, patch) = gpu.api;
        let (kind, profile) = (gpu.kind_name(), profile_of(gpu));
        line(&gpu.id, &format!("{}: {kind}, {}, profile {profile}", gpu.name, device::memory_text(&gpu.memory)));
        let pci = gpu.pci.as_ref().map(|pci| format!(", PCI {pci}")).unwrap_or_default();
        line("", &format!("{}, Vulkan {major}.{minor}.{patch}{pci}, UUID {}", gpu.driver, gpu.uuid));
        match &gpu.problem {
            Some(problem) => line("", &wrapped(&format!("cannot be used: {problem}{}", remedy(problem)))),
            None if gpu.is_cpu() => line("", "taken only when named"),
            None => {}
        }
    }
    if let Some(error) = &devices.without_gpus {
        line("no GPU", &wrapped(&format!("{error}{}", remedy(error))));
    }
    text
}

/// A long text in lines of the list's second column.
fn wrapped(text: &str) -> String {
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        let n = word.chars().count();
        if length > 0 && length + 1 + n > COLUMN_CHARS {
            lines.push_str("\n           ");
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += n;
    }
    lines
}

fn remedy(error: &zinc_vulkan::Error) -> String {
    error.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default()
}

fn as_json(devices: &Devices) -> String {
    let mut listed = vec![json!({ "device": "cpu", "name": zinc_cpu::description() })];
    for gpu in &devices.gpus {
        let mut described = device::describe(gpu);
        described["profile"] = json!(profile_of(gpu));
        described["problem"] = json!(gpu.problem.as_ref().map(ToString::to_string));
        listed.push(described);
    }
    let problem = devices.without_gpus.as_ref().map_or(Value::Null, |error| json!(error.to_string()));
    format!("{:#}\n", json!({ "devices": listed, "no_gpu": problem }))
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn a_long_problem_is_told_in_several_lines() {
        let words = ["word"; 50].join(" ");
        let text = wrapped(&words);
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), words, "no word is lost");
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= 111), "{text}");
        assert_eq!(wrapped("a few words"), "a few words");
        let path = "x".repeat(300);
        assert_eq!(wrapped(&path), path, "a word stays whole");
    }
}
