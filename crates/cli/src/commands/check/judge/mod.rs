//! From a machine to the lines of the report. Pure: it looks at nothing but its argument.

mod device;
mod driver;
mod fit;
mod work;

use super::machine::{Choice, Gpu, Host, Machine};
use super::remedy;
use super::report::{Report, Section};
use crate::output::bytes;

/// Everything that is to be said.
pub(super) fn report(machine: &Machine) -> Report {
    let sections = [
        host(&machine.host),
        driver::section(machine),
        device::section(machine),
        work::kernels(machine),
        work::model(machine),
        fit::section(machine),
        work::port(machine),
    ];
    let profile = chosen(machine).map_or("cpu".to_owned(), |gpu| gpu.traits.profile());
    Report { profile, sections: sections.into_iter().filter(|section| !section.lines.is_empty()).collect() }
}

/// The GPU that would run a model, if one would.
fn chosen(machine: &Machine) -> Option<&Gpu> {
    match machine.choice {
        Choice::Gpu(index) => machine.gpus.get(index),
        _ => None,
    }
}

fn host(host: &Host) -> Section {
    let mut section = Section::new("host");
    let name = if host.distribution.name.is_empty() { &host.os } else { &host.distribution.name };
    let kernel = host.kernel.as_ref().map(|release| format!(", Linux {release}")).unwrap_or_default();
    let container = if host.is_container { ", in a container" } else { "" };
    section.ok(format!("zinc {}, {name}{kernel}, {}{container}", env!("CARGO_PKG_VERSION"), host.arch));
    let memory =
        host.memory.map(|(all, available)| format!(", {} of memory, {} available", bytes(all), bytes(available)));
    let cores = if host.n_cores == 1 { "core" } else { "cores" };
    section.ok(format!("{}, {} {cores}{}", host.cpu, host.n_cores, memory.unwrap_or_default()));
    match (&host.cache.folder, &host.cache.problem) {
        (Some(folder), None) => section.ok(format!("models are kept in {folder}")),
        (Some(folder), Some(problem)) => section
            .warn(format!("models and compiled kernels cannot be kept in {folder}: {problem}"), remedy::other_cache()),
        (None, problem) => section.warn(
            format!("there is no place for models: {}", problem.as_deref().unwrap_or("no folder is known")),
            remedy::other_cache(),
        ),
    }
    section
}
