//! The device that would run a model: what it can do, and what holds it back.

use zinc_vulkan::candidate::DriverKind;

use super::super::machine::{Choice, Gpu, Machine, Open};
use super::super::remedy;
use super::super::report::Section;
use super::chosen;
use crate::cards::{AMD, Generation, INTEL};
use crate::output::bytes;

/// A compute step that may take less than this is ended by the watchdog sooner than the kernel ends graphics by default.
const TIMEOUT_MS_MIN: u64 = 10_000;

pub(super) fn section(machine: &Machine) -> Section {
    let mut section = Section::new("device");
    match &machine.choice {
        Choice::CpuAsked | Choice::CpuLeft => {
            section.ok(format!("{}, profile cpu", machine.host.cpu));
        }
        Choice::Nothing { sentence } => section.fail(sentence, "zinc devices  # lists what there is"),
        Choice::Gpu(_) => {}
    }
    if let Some(gpu) = chosen(machine) {
        identity(&mut section, gpu);
        if let Some(open) = &gpu.open {
            abilities(&mut section, machine, gpu, open);
        }
        limits(&mut section, gpu);
    }
    others(&mut section, machine);
    section
}

fn identity(section: &mut Section, gpu: &Gpu) {
    let pci = gpu.pci.as_ref().map(|pci| format!(", PCI {pci}")).unwrap_or_default();
    let ids = format!("{:04x}:{:04x}", gpu.traits.vendor_id, gpu.traits.device_id);
    let what = format!("{} {}: {}, profile {} ({ids}{pci})", gpu.id, gpu.name, gpu.kind, gpu.traits.profile());
    if gpu.traits.is_cpu {
        section
            .warn(format!("{what}: a driver for tests"), "zinc --check --device cpu  # ZINC's own kernels for the CPU");
    } else {
        section.ok(what);
    }
}

fn abilities(section: &mut Section, machine: &Machine, gpu: &Gpu, open: &Open) {
    let matrices = match open.matrix_tile {
        Some(side) => format!("matrix cores {side}x{side}x{side}"),
        None => "no matrix cores".to_owned(),
    };
    let dot = if open.has_integer_dot { "integer dot products" } else { "no integer dot products" };
    let what = format!("subgroups of {}, {matrices}, {dot}", open.subgroup_width);
    let generation = gpu.traits.generation();
    let should_have = generation.is_some_and(Generation::has_matrix_cores);
    if should_have && open.matrix_tile.is_none() {
        section.warn(
            format!("{what}: this card has them, but its driver does not offer them, and prompts take longer"),
            matrix_remedy(machine, gpu, generation),
        );
    } else {
        section.ok(what);
    }
    let is_discrete = !gpu.traits.is_integrated && !gpu.traits.is_cpu;
    if is_discrete && [AMD, INTEL].contains(&gpu.traits.vendor_id) {
        if open.is_host_writable {
            section.ok("Resizable BAR is on: the CPU writes all of the card's memory");
        } else {
            section.warn(
                "Resizable BAR is off: the CPU reaches only a part of the card's memory, and models may load slower",
                remedy::resizable_bar(),
            );
        }
    }
}

/// RADV before Mesa 25 kept matrices on RDNA 3 behind a switch; a switch may also have put them away.
fn matrix_remedy(machine: &Machine, gpu: &Gpu, generation: Option<Generation>) -> String {
    let switches = machine.host.variables.iter().any(|(name, _)| name == "RADV_DEBUG");
    match gpu.driver_kind {
        DriverKind::Radv if switches => "unset RADV_DEBUG".to_owned(),
        DriverKind::Radv if generation == Some(Generation::Rdna3) => {
            "export RADV_PERFTEST=coop_matrix  # or, better, a newer Mesa".to_owned()
        }
        _ => remedy::newer_driver(&machine.host.distribution, gpu.traits.vendor_id),
    }
}

/// What the kernel allows the card.
fn limits(section: &mut Section, gpu: &Gpu) {
    match gpu.kernel.compute_timeout_ms {
        Some(ms) if ms < TIMEOUT_MS_MIN => section.warn(
            format!(
                "the kernel's watchdog ends compute steps after {ms} ms; a long prompt on a large model may take longer"
            ),
            remedy::longer_timeout(),
        ),
        Some(ms) => section.ok(format!("the kernel's watchdog allows compute steps of {ms} ms")),
        None => {}
    }
    match (gpu.kernel.performance_level.as_deref(), &gpu.pci) {
        (Some(level), Some(pci)) if level == "low" || level.starts_with("profile_min") => {
            section.warn(
                format!("the card is held at low clocks (performance level `{level}`)"),
                remedy::clocks_auto(pci),
            );
        }
        (Some(level), _) => section.ok(format!("clocks as the performance level `{level}` has them")),
        _ => {}
    }
}

/// Devices that cannot be used: a failure where nothing better was found, a warning where something worse was taken.
fn others(section: &mut Section, machine: &Machine) {
    if machine.choice == Choice::CpuAsked {
        return;
    }
    let taken = chosen(machine);
    for gpu in machine.gpus.iter().filter(|gpu| !gpu.traits.is_cpu) {
        let Some(problem) = &gpu.problem else { continue };
        let sentence = format!("{} cannot be used: {}", gpu.id, problem.sentence);
        let remedy = if problem.is_old_driver {
            remedy::newer_driver(&machine.host.distribution, gpu.traits.vendor_id)
        } else {
            "zinc devices".to_owned()
        };
        let is_loss = taken.is_none_or(|taken| taken.traits.is_integrated || taken.traits.is_cpu);
        match (gpu.traits.is_integrated, is_loss, taken.is_some()) {
            (false, true, false) => section.fail(sentence, remedy),
            (false, true, true) => section.warn(sentence, remedy),
            (true, true, false) => section.warn(format!("{sentence}; models run on the CPU"), remedy),
            _ => section.ok(format!("{sentence} ({} of memory)", bytes(gpu.traits.heap_bytes))),
        }
    }
}
