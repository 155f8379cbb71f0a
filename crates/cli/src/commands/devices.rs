//! `zinc devices`, and `--device list`: what can run models here, and what cannot and why.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::commands::check::profile_of;
use crate::device::{self, Devices};
use crate::failure::Outcome;
use crate::output::print;

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
            Some(problem) => line("", &format!("cannot be used: {problem}{}", remedy(problem))),
            None if gpu.is_cpu() => line("", "taken only when named"),
            None => {}
        }
    }
    if let Some(error) = &devices.without_gpus {
        line("no GPU", &format!("{error}{}", remedy(error)));
    }
    text
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
