//! The device at work, the model's file, the server's port.

use super::super::machine::{Kernels, Machine, ModelState};
use super::super::report::Section;
use super::chosen;
use crate::cards::nominal_gb_s;
use crate::output::bytes;
use crate::profile::memory_gb;

/// Share of the stated bandwidth below which a copy says that something is wrong.
const SHARE_MIN: f64 = 0.6;
/// Share above which no copy was made. A large cache may lift a copy above the memory's bandwidth, but not that far.
const SHARE_MAX: f64 = 3.0;

pub(super) fn kernels(machine: &Machine) -> Section {
    let mut section = Section::new("kernels");
    let Some(Kernels { n_ops, n_cases, seconds, failures, lost, copy_bytes_per_s }) = &machine.kernels else {
        return section;
    };
    let device = chosen(machine).map_or("cpu", |gpu| gpu.id.as_str());
    let selftest = format!("zinc selftest --device {device}");
    match (lost, failures.first()) {
        (Some(lost), _) => section.fail(lost, selftest),
        (None, Some(first)) => {
            let n = failures.len();
            section.fail(format!("{n} of {n_cases} cases are not as they are defined; the first: {first}"), selftest);
        }
        (None, None) => section.ok(format!("{n_cases} cases of {n_ops} ops hold ({seconds:.1} s; all: zinc selftest)")),
    }
    if let Some(rate) = *copy_bytes_per_s {
        bandwidth(&mut section, machine, rate / 1e9);
    }
    section
}

fn bandwidth(section: &mut Section, machine: &Machine, gb_s: f64) {
    let copy = format!("a copy moves {gb_s:.0} GB/s");
    let Some(gpu) = chosen(machine) else { return section.ok(copy) };
    let (vendor, card) = (gpu.traits.vendor_id, gpu.traits.device_id);
    let Some(nominal) = nominal_gb_s(vendor, card, memory_gb(gpu.traits.heap_bytes)) else {
        return section.ok(format!("{copy}; what the maker states for {vendor:04x}:{card:04x} is not known here"));
    };
    let share = gb_s / f64::from(nominal);
    let what = format!("{copy}, {:.0} % of the {nominal} GB/s that the maker states", 100.0 * share);
    let clock = match &gpu.pci {
        Some(pci) if gpu.kernel.performance_level.is_some() => {
            format!(
                "cat /sys/bus/pci/devices/{pci}/pp_dpm_mclk  # the memory's clock; and close what else uses the card"
            )
        }
        _ => "zinc bench --profile  # and close what else uses the card".to_owned(),
    };
    match share {
        share if share > SHARE_MAX => {
            section
                .fail(format!("{what}: the device did not do the work"), format!("zinc selftest --device {}", gpu.id));
        }
        share if share < SHARE_MIN => section.warn(what, clock),
        _ => section.ok(what),
    }
}

pub(super) fn model(machine: &Machine) -> Section {
    let mut section = Section::new("model");
    match &machine.model {
        ModelState::NotNamed { default_id, default_bytes } => section.ok(format!(
            "none named: the first prompt fetches {default_id} ({}); zinc model list shows others",
            bytes(*default_bytes)
        )),
        ModelState::Broken { sentence, remedy } => {
            let remedy = match remedy.as_deref() {
                Some(command) if command.starts_with("zinc ") && !command.contains(';') => command.to_owned(),
                Some(prose) if !prose.contains("zinc model list") => format!("# {prose}"),
                _ => "zinc model list  # another file, or one of these with --model-id".to_owned(),
            };
            section.fail(sentence, remedy);
        }
        ModelState::Opened(model) => {
            let context = model.context_tokens;
            section.ok(format!("{} ({}, {}), context {context} tokens", model.name, model.architecture, model.file));
            if let Some(reason) = &model.no_chat {
                section.ok(format!("plain prompts only, no chat: {reason}"));
            }
        }
    }
    section
}

pub(super) fn port(machine: &Machine) -> Section {
    let mut section = Section::new("server");
    let port = &machine.port;
    match &port.problem {
        None => section.ok(format!("{} is free", port.address)),
        Some(problem) => {
            let sentence = format!("{} cannot be served on: {problem}", port.address);
            let remedy = match port.free {
                Some(free) => format!("zinc -p {free}"),
                None => format!("ss -ltnp 'sport = :{}'", port.address.port()),
            };
            if port.is_asked { section.fail(sentence, remedy) } else { section.warn(sentence, remedy) }
        }
    }
    section
}
