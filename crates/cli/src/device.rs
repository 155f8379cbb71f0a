//! From `--device` to a backend, and what devices there are.
//!
//! `vulkan` is the best GPU, `auto` the same where there is one and else the CPU (docs/decisions/005).

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_graph::Backend;
use zinc_vulkan::candidate::Candidate;

use crate::args::shared::DeviceArgs;
use crate::failure::{Failure, Kind};
use crate::output::bytes;
use crate::progress::Bar;
use crate::resolve;

/// The word that lists devices in place of naming one.
pub(crate) const LIST: &str = "list";

/// The devices of this machine.
pub(crate) struct Devices {
    /// Of Vulkan, best first.
    pub(crate) gpus: Vec<Candidate>,
    /// Why there are none, if there are none.
    pub(crate) without_gpus: Option<zinc_vulkan::Error>,
}

impl Devices {
    /// Looks for them. A machine without a Vulkan loader has the CPU alone.
    pub(crate) fn find() -> Devices {
        match zinc_vulkan::device::devices() {
            Ok(gpus) if gpus.is_empty() => Devices { gpus, without_gpus: Some(zinc_vulkan::Error::NoDriver) },
            Ok(gpus) => Devices { gpus, without_gpus: None },
            Err(error) => Devices { gpus: Vec::new(), without_gpus: Some(error) },
        }
    }

    /// What `auto` means here: a GPU that can be used, never a CPU driver, or else the CPU.
    pub(crate) fn best(&self) -> String {
        zinc_vulkan::candidate::pick(&self.gpus).map_or("cpu".to_owned(), |gpu| gpu.id.clone())
    }

    /// The id that `--device` with this value stands for. Drivers are asked for `auto` alone.
    pub(crate) fn id_of(named: &str) -> String {
        if named == "auto" { Devices::find().best() } else { named.to_owned() }
    }

    /// The same for who opens the device only later: there is one that it names.
    pub(crate) fn existing(named: &str) -> Result<String, Failure> {
        if is_vulkan(named) {
            let gpus = zinc_vulkan::device::devices().map_err(|e| failure(&e))?;
            zinc_vulkan::candidate::find(&gpus, named).map_err(|e| failure(&e))?;
        } else if !["auto", "cpu"].contains(&named) {
            return Err(Self::unknown(named));
        }
        Ok(Self::id_of(named))
    }

    fn unknown(named: &str) -> Failure {
        Failure::usage(format!("there is no device `{named}`")).remedy(format!("there are: {}", Self::find().ids()))
    }

    /// What `--device` takes here.
    fn ids(&self) -> String {
        let ids = ["auto", "cpu"].into_iter().chain(self.gpus.iter().map(|gpu| gpu.id.as_str()));
        ids.collect::<Vec<_>>().join(", ")
    }
}

fn is_vulkan(id: &str) -> bool {
    id == "vulkan" || id.starts_with("vulkan:")
}

/// A device that was opened; any number of backends can be made on it.
pub(crate) enum Device {
    /// The CPU with so many threads.
    Cpu { threads: usize },
    /// A GPU.
    Vulkan(Box<zinc_vulkan::Device>),
}

impl Device {
    /// Opens the device that the arguments ask for.
    pub(crate) fn open(args: &DeviceArgs) -> Result<Device, Failure> {
        match Devices::id_of(&args.device).as_str() {
            "cpu" => Ok(Device::Cpu { threads: threads(args)? }),
            id if is_vulkan(id) => {
                let opened = match pipeline_folder() {
                    Some(folder) => zinc_vulkan::Device::open_cached(id, &folder),
                    None => zinc_vulkan::Device::open(id, &[]),
                };
                let mut opened = opened.map_err(|e| failure(&e))?;
                opened.set_part_limit(Duration::from_millis(args.part_ms.into()));
                opened.set_marking(args.trace_steps);
                Ok(Device::Vulkan(Box::new(opened)))
            }
            other => Err(Devices::unknown(other)),
        }
    }

    /// Changes entries of a GPU's tuning table, for measurements.
    pub(crate) fn tune(&mut self, entries: &[String]) -> Result<(), Failure> {
        match self {
            Device::Vulkan(device) => entries.iter().try_for_each(|entry| device.tune(entry)).map_err(Failure::usage),
            Device::Cpu { .. } if entries.is_empty() => Ok(()),
            Device::Cpu { .. } => Err(Failure::usage("--tuning is for Vulkan devices")),
        }
    }

    /// A backend for steps of up to so many tokens, which shows on a terminal how far loading has come.
    pub(crate) fn backend(&self, step_tokens: u32) -> Result<Box<dyn Backend>, Failure> {
        match self {
            Device::Cpu { threads } => Ok(Box::new(zinc_cpu::Cpu::new(*threads).map_err(Failure::failed)?)),
            Device::Vulkan(device) => {
                let backend = zinc_vulkan::Vulkan::new(device).map_err(|e| failure(&e))?;
                Ok(Box::new(backend.with_step_tokens(step_tokens).with_progress(loading_bar())))
            }
        }
    }

    /// Everything that a report about it should say.
    pub(crate) fn description(&self) -> Value {
        match self {
            Device::Cpu { threads } => json!({ "device": "cpu", "name": zinc_cpu::description(), "threads": threads }),
            Device::Vulkan(device) => {
                let (gpu, traits) = (&device.gpu().candidate, &device.gpu().traits);
                let mut description = describe(gpu);
                let tile = traits.matrix_tile;
                description["memory"] = memory(&device.gpu().memory_now());
                description["subgroup_width"] = json!(traits.subgroup_size);
                description["subgroup_widths"] = json!([traits.subgroup_range.0, traits.subgroup_range.1]);
                description["matrix_tile"] = json!(tile.map(|side| format!("{side}x{side}x{side} f16 to f32")));
                description["integer_dot_product"] = json!(traits.has_integer_dot);
                description["shared_memory_bytes"] = json!(traits.shared_bytes);
                description["workgroup_threads_max"] = json!(traits.threads_max);
                description["workgroups_max"] = json!(traits.groups_max);
                description["allocation_bytes_max"] = json!(traits.allocation_bytes_max);
                description["unified_memory"] = json!(traits.is_unified);
                description["host_writable_memory"] = json!(traits.is_host_writable);
                description["timestamp_ns"] = json!(traits.timestamp_ns);
                description
            }
        }
    }

    /// Why it works no more, if it does not.
    pub(crate) fn lost(&self) -> Option<Failure> {
        match self {
            Device::Cpu { .. } => None,
            Device::Vulkan(device) => device.gpu().check_alive().err().map(|e| failure(&e)),
        }
    }
}

/// What is known of a GPU without opening it.
pub(crate) fn describe(gpu: &Candidate) -> Value {
    let (major, minor, patch) = gpu.api;
    json!({
        "device": gpu.id, "name": gpu.name, "kind": gpu.kind_name(), "driver": gpu.driver,
        "vulkan": format!("{major}.{minor}.{patch}"),
        "pci_id": format!("{:04x}:{:04x}", gpu.vendor_id, gpu.device_id), "pci_address": gpu.pci, "uuid": gpu.uuid,
        "memory": memory(&gpu.memory),
    })
}

fn memory(memory: &zinc_vulkan::memory::Memory) -> Value {
    json!({
        "heap_bytes": memory.heap_bytes, "budget_bytes": memory.budget_bytes, "used_here_bytes": memory.usage_bytes,
        "free_bytes": memory.is_reported.then_some(memory.free_bytes()),
    })
}

/// `17.2 GB, 16.1 GB free`.
pub(crate) fn memory_text(memory: &zinc_vulkan::memory::Memory) -> String {
    let free = if memory.is_reported { format!("{} free", bytes(memory.free_bytes())) } else { "free unknown".into() };
    format!("{}, {free}", bytes(memory.heap_bytes))
}

/// An error of the Vulkan crate as a failure with its remedy.
pub(crate) fn failure(error: &zinc_vulkan::Error) -> Failure {
    use zinc_vulkan::Error;
    let kind = match error {
        Error::NoLoader(_)
        | Error::NoDriver
        | Error::NoGpu { .. }
        | Error::NoDevice { .. }
        | Error::Ambiguous { .. }
        | Error::TooOld { .. }
        | Error::Missing { .. } => Kind::Usage,
        _ => Kind::Failed,
    };
    let remedy = error.remedy().map(|remedy| format!("{remedy}; ")).unwrap_or_default();
    Failure::new(kind, error).remedy(format!("{remedy}--device cpu works everywhere"))
}

/// Where compiled pipelines are kept: beside the models.
fn pipeline_folder() -> Option<PathBuf> {
    Some(resolve::cache_folder()?.join("pipelines"))
}

/// A bar that is there while weights are on their way.
fn loading_bar() -> Box<dyn FnMut(u64, u64) + Send> {
    let mut bar: Option<Bar> = None;
    Box::new(move |done, total| {
        let shown = bar.get_or_insert_with(|| Bar::bytes("loading", total));
        shown.set(done);
        if done >= total {
            shown.finish();
            bar = None;
        }
    })
}

/// The threads asked for, or one for each core that this process may use.
pub(crate) fn threads(args: &DeviceArgs) -> Result<usize, Failure> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    match args.threads {
        None => Ok(available),
        Some(n) if (1..=1024).contains(&n) => Ok(n),
        Some(n) => {
            Err(Failure::usage(format!("--threads is {n}; it must be 1 to 1024 (this machine has {available} cores)")))
        }
    }
}
