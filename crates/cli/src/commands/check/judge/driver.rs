//! The loader and the drivers: whether Vulkan reaches the GPUs that are plugged in.

use zinc_vulkan::candidate::DriverKind;

use super::super::machine::{Choice, Gpu, Host, Machine, NoVulkan, PciGpu};
use super::super::remedy;
use super::super::report::Section;
use super::chosen;
use crate::cards::{AMD, INTEL, NVIDIA};

/// The oldest Mesa that is advised: what Debian and Ubuntu of 2025 have, and the first that knows RDNA 4.
const MESA_MIN: (u32, u32) = (25, 0);

pub(super) fn section(machine: &Machine) -> Section {
    let mut section = Section::new("driver");
    if machine.choice == Choice::CpuAsked {
        section.ok("not needed: the CPU was asked for");
        return section;
    }
    match &machine.no_vulkan {
        Some(NoVulkan::NoLoader) => unreachable(&mut section, machine, "there is no Vulkan loader (libvulkan.so.1)"),
        Some(NoVulkan::NoDriver) => unreachable(&mut section, machine, "no Vulkan driver has a device here"),
        Some(NoVulkan::Failed(error)) => {
            section.fail(format!("Vulkan fails: {error}"), "VK_LOADER_DEBUG=error,warn zinc devices");
        }
        None if machine.gpus.iter().all(|gpu| gpu.traits.is_cpu) && chosen(machine).is_none() => {
            unreachable(&mut section, machine, "only Mesa's driver for the CPU (lavapipe) has a device here");
        }
        None => drivers(&mut section, machine),
    }
    section
}

/// The drivers of the devices that count: the chosen one, or all where none was chosen.
fn drivers(section: &mut Section, machine: &Machine) {
    let all = || machine.gpus.iter().filter(|gpu| !gpu.traits.is_cpu).collect();
    for gpu in chosen(machine).map_or_else(all, |gpu| vec![gpu]) {
        let (major, minor, patch) = gpu.api;
        let driver = format!("{}, Vulkan {major}.{minor}.{patch}", gpu.driver);
        let distribution = &machine.host.distribution;
        match (gpu.driver_kind, mesa_version(gpu)) {
            (DriverKind::Amdvlk, _) => section.warn(
                format!("{driver}: AMD's own driver, with which ZINC was never tried"),
                format!(
                    "{} && export AMD_VULKAN_ICD=RADV",
                    remedy::install_driver(distribution, Some(AMD)).split("  #").next().unwrap_or_default()
                ),
            ),
            (_, Some(version)) if version < MESA_MIN && !gpu.traits.is_cpu => section.warn(
                format!("{driver}: Mesa before {}.{} is slower or lacks the newer cards", MESA_MIN.0, MESA_MIN.1),
                remedy::newer_driver(distribution, gpu.traits.vendor_id),
            ),
            _ => section.ok(driver),
        }
    }
}

/// Mesa's version, from what the driver says of itself: `radv Mesa 26.1.6-1`.
fn mesa_version(gpu: &Gpu) -> Option<(u32, u32)> {
    let version = gpu.driver.split_once("Mesa ")?.1;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// No GPU can be reached: a failure where one is plugged in, else a warning, since the CPU runs every model.
fn unreachable(section: &mut Section, machine: &Machine, what: &str) {
    let host = &machine.host;
    let card = host.pci_gpus.iter().find(|gpu| is_card(gpu));
    let line = why(host, card.or(host.pci_gpus.first()));
    match (card, line) {
        (Some(card), (reason, remedy)) => {
            section.fail(format!("{what}, and {} is out of reach{reason}", shown(card)), remedy)
        }
        (None, (reason, remedy)) => section.warn(format!("{what}: models run on the CPU{reason}"), remedy),
    }
}

/// The likeliest reason, and what to do.
fn why(host: &Host, card: Option<&PciGpu>) -> (String, String) {
    let hides = |name: &&(String, String)| ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].contains(&name.0.as_str());
    if let Some((name, value)) = host.variables.iter().find(hides) {
        let unset = "unset VK_DRIVER_FILES VK_ICD_FILENAMES".to_owned();
        return (format!(" ({name} is {value}, and the loader looks nowhere else)"), unset);
    }
    let Some(card) = card else {
        if host.render_nodes.is_empty() {
            let meant = "zinc --check --device cpu  # if that is what you want".to_owned();
            return (" (no GPU is plugged in)".to_owned(), meant);
        }
        return (String::new(), remedy::install_driver(&host.distribution, None));
    };
    let closed = host.render_nodes.iter().find(|node| !node.is_open);
    match (card.vendor_id, closed) {
        (AMD | INTEL, Some(node)) if host.render_nodes.iter().all(|node| !node.is_open) => {
            (format!(" (this user may not open {})", node.path), remedy::join_groups())
        }
        (AMD, None) if host.render_nodes.is_empty() && card.driver.is_none() => (
            " (the kernel has no driver for it)".to_owned(),
            "sudo modprobe amdgpu && sudo dmesg | grep -i amdgpu".to_owned(),
        ),
        (AMD | INTEL, None) if host.render_nodes.is_empty() && host.is_container => {
            (" (the container has no /dev/dri)".to_owned(), remedy::pass_to_container(card.vendor_id))
        }
        (NVIDIA, _) if host.is_container && card.driver.as_deref() == Some("nvidia") => {
            (" (the container does not have the host's driver)".to_owned(), remedy::pass_to_container(NVIDIA))
        }
        (vendor, _) => (String::new(), remedy::install_driver(&host.distribution, Some(vendor))),
    }
}

/// A card for which it is worth to do something. Intel's graphics in the processor sit on bus 0 and are as slow as the CPU.
fn is_card(gpu: &PciGpu) -> bool {
    gpu.vendor_id == AMD || gpu.vendor_id == NVIDIA || !gpu.address.starts_with("0000:00:")
}

fn shown(card: &PciGpu) -> String {
    let maker = match card.vendor_id {
        AMD => "AMD",
        NVIDIA => "NVIDIA",
        _ => "Intel",
    };
    format!("the {maker} GPU at {} ({:04x}:{:04x})", card.address, card.vendor_id, card.device_id)
}
