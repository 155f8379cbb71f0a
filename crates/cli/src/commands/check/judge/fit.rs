//! Memory: what the device has left, who else is on it, and whether the model fits.

use super::super::machine::{Gpu, Machine, ModelState, Opened};
use super::super::report::Section;
use super::chosen;
use crate::output::bytes;

/// Share of a card's memory that others may hold without a word.
const OTHERS_MAX: f64 = 0.1;
/// Share of the free memory that a model may take without a word: another window, and it would not fit.
const FULL_MAX: f64 = 0.95;
/// Programs that are named.
const NAMED_MAX: usize = 3;

pub(super) fn section(machine: &Machine) -> Section {
    let mut section = Section::new("memory");
    let model = match &machine.model {
        ModelState::Opened(model) => Some(model.as_ref()),
        _ => None,
    };
    match chosen(machine) {
        Some(gpu) => {
            on_device(&mut section, gpu);
            if let Some(model) = model {
                in_device(&mut section, gpu, model);
            }
        }
        None => {
            if let (Some(model), Some((_, available))) = (model, machine.host.memory) {
                in_host(&mut section, model, available);
            }
        }
    }
    section
}

/// What the device has, and who holds some of it.
fn on_device(section: &mut Section, gpu: &Gpu) {
    let heap = gpu.traits.heap_bytes;
    let free = gpu.free_bytes.map_or("free unknown".to_owned(), |free| format!("{} free", bytes(free)));
    let what = format!("{} of device memory, {free}", bytes(heap));
    let is_shared = gpu.traits.is_integrated || gpu.traits.is_cpu;
    if is_shared || gpu.others_bytes as f64 <= OTHERS_MAX * heap as f64 {
        return section.ok(what);
    }
    let shown: Vec<String> = gpu
        .kernel
        .processes
        .iter()
        .take(NAMED_MAX)
        .map(|process| format!("{} (pid {}) {}", process.name, process.pid, bytes(process.bytes)))
        .collect();
    let named = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
    let pids: Vec<String> =
        gpu.kernel.processes.iter().take(NAMED_MAX).map(|process| process.pid.to_string()).collect();
    let remedy = match pids.is_empty() {
        true => "sudo fuser -v /dev/dri/renderD* /dev/nvidia*  # who uses the card".to_owned(),
        false => format!("ps -o pid,user,args -p {}  # end what is not needed", pids.join(",")),
    };
    section.warn(format!("{what}; other programs and the driver hold {}{named}", bytes(gpu.others_bytes)), remedy);
}

fn needs(model: &Opened) -> (u64, String) {
    let needed = model.weight_bytes.saturating_add(model.state_bytes).saturating_add(model.workspace_bytes);
    let (weights, state, workspace) =
        (bytes(model.weight_bytes), bytes(model.state_bytes), bytes(model.workspace_bytes));
    let parts = format!("weights {weights}, keys, values and state {state}, workspace {workspace}");
    (needed, format!("{} needed ({parts})", bytes(needed)))
}

fn in_device(section: &mut Section, gpu: &Gpu, model: &Opened) {
    let free = gpu.free_bytes.unwrap_or(gpu.traits.heap_bytes);
    let (needed, what) = needs(model);
    let sentence = format!("{what}, {} free", bytes(free));
    // What is left for keys and values.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a positive number of bytes"
    )]
    let room =
        ((free as f64 * FULL_MAX) as u64).saturating_sub(model.weight_bytes.saturating_add(model.workspace_bytes));
    let remedy = match room >> 20 {
        0 => "zinc model list  # a smaller model, or the same in a smaller quantisation".to_owned(),
        mib => format!("zinc --check --kv-memory {mib}MiB  # or a shorter --context, or a smaller model"),
    };
    match needed {
        needed if needed > free => section.fail(format!("the model does not fit: {sentence}"), remedy),
        needed if needed as f64 > FULL_MAX * free as f64 => {
            section.warn(format!("the model hardly fits: {sentence}"), remedy);
        }
        _ => section.ok(format!("the model fits: {sentence}")),
    }
}

/// On the CPU weights are read from the mapped file; what does not fit is read from the disk again and again.
fn in_host(section: &mut Section, model: &Opened, available: u64) {
    let (needed, what) = needs(model);
    let sentence = format!("{what}, {} of memory available", bytes(available));
    let smaller = "zinc model list  # a smaller model, or the same in a smaller quantisation";
    if model.state_bytes.saturating_add(model.workspace_bytes) > available {
        section
            .fail(format!("the model does not fit: {sentence}"), "zinc --check --context 2048  # or a smaller model");
    } else if needed > available {
        section.warn(format!("the model is read from the disk again and again: {sentence}"), smaller);
    } else {
        section.ok(format!("the model fits: {sentence}"));
    }
}
