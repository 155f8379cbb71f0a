//! The machine as the probes found it: plain values, from which the report follows.
//!
//! Tests make up machines of this type; `probe` gathers the real one.

use std::net::SocketAddr;

use zinc_vulkan::candidate::DriverKind;

use crate::profile::Traits;

/// Everything that the report says something about.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) host: Host,
    /// Why Vulkan has no device at all, if it has none.
    pub(super) no_vulkan: Option<NoVulkan>,
    /// Devices of Vulkan, best first, those that cannot be used last.
    pub(super) gpus: Vec<Gpu>,
    pub(super) choice: Choice,
    /// The chosen device put to work; absent if it could not be opened.
    pub(super) kernels: Option<Kernels>,
    pub(super) model: ModelState,
    pub(super) port: Port,
}

/// The computer and its system.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) os: String,
    pub(super) arch: String,
    /// Release of the kernel.
    pub(super) kernel: Option<String>,
    pub(super) distribution: Distribution,
    pub(super) is_container: bool,
    /// What the CPU backend runs on.
    pub(super) cpu: String,
    pub(super) n_cores: usize,
    /// Bytes of memory in all, and what programs can still take.
    pub(super) memory: Option<(u64, u64)>,
    /// Graphics controllers on the PCI bus.
    pub(super) pci_gpus: Vec<PciGpu>,
    /// Render nodes under /dev/dri.
    pub(super) render_nodes: Vec<RenderNode>,
    /// Variables that are set and change which drivers there are or what they do.
    pub(super) variables: Vec<(String, String)>,
    /// The folder of models and compiled kernels, and why it cannot be written, if it cannot.
    pub(super) cache: Cache,
}

/// What /etc/os-release says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Distribution {
    pub(super) name: String,
    /// `debian`, `fedora`, ...
    pub(super) id: String,
    /// Ids of what it is made from.
    pub(super) like: Vec<String>,
    /// `bookworm`.
    pub(super) codename: String,
}

/// A graphics controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PciGpu {
    /// `0000:03:00.0`.
    pub(super) address: String,
    pub(super) vendor_id: u32,
    pub(super) device_id: u32,
    /// The kernel's driver that has it.
    pub(super) driver: Option<String>,
}

/// A node through which programs reach a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RenderNode {
    pub(super) path: String,
    /// This user may open it.
    pub(super) is_open: bool,
}

/// The folder that holds what is fetched and compiled.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) folder: Option<String>,
    /// Why nothing can be written there.
    pub(super) problem: Option<String>,
}

/// Why Vulkan has no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoVulkan {
    /// The loader's library is not there.
    NoLoader,
    /// The loader has no driver with a device.
    NoDriver,
    /// A driver fails.
    Failed(String),
}

/// A device of Vulkan.
#[derive(Clone, Debug)]
pub(super) struct Gpu {
    /// `vulkan:0`.
    pub(super) id: String,
    pub(super) name: String,
    /// `discrete GPU`.
    pub(super) kind: String,
    pub(super) driver: String,
    pub(super) driver_kind: DriverKind,
    /// Version of Vulkan: major, minor, patch.
    pub(super) api: (u32, u32, u32),
    pub(super) pci: Option<String>,
    pub(super) traits: Traits,
    /// Bytes that this process can still take, if the driver tells, and bytes that others hold.
    pub(super) free_bytes: Option<u64>,
    pub(super) others_bytes: u64,
    /// Why it cannot be used, if it cannot.
    pub(super) problem: Option<Problem>,
    /// What it can do, known once it is open.
    pub(super) open: Option<Open>,
    pub(super) kernel: KernelSide,
}

/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) sentence: String,
    /// A newer driver may help.
    pub(super) is_old_driver: bool,
}

/// What an open device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) subgroup_width: u32,
    /// Side of the tile of its matrix cores.
    pub(super) matrix_tile: Option<u32>,
    pub(super) has_integer_dot: bool,
    /// The CPU writes all of its memory directly.
    pub(super) is_host_writable: bool,
}

/// What the kernel's files say of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelSide {
    /// How long a step may take before the watchdog ends it.
    pub(super) compute_timeout_ms: Option<u64>,
    /// `auto`, `low`, ...
    pub(super) performance_level: Option<String>,
    /// Other programs that hold memory of the card, largest first, as far as this user may see them.
    pub(super) processes: Vec<Process>,
}

/// Another program on the card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Which device would run a model now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The CPU, because it was asked for.
    CpuAsked,
    /// The CPU, because no GPU can be used.
    CpuLeft,
    /// The GPU of that index.
    Gpu(usize),
    /// None: what was asked for is not there or cannot be opened.
    Nothing { sentence: String },
}

/// The chosen device at work.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    pub(super) n_ops: usize,
    pub(super) n_cases: usize,
    pub(super) seconds: f64,
    pub(super) failures: Vec<String>,
    /// Why it works no more, if it does not.
    pub(super) lost: Option<String>,
    /// Bytes per second of a copy on the device.
    pub(super) copy_bytes_per_s: Option<f64>,
}

/// The model that would run.
#[derive(Clone, Debug)]
pub(super) enum ModelState {
    /// None was named and the default one is not here.
    NotNamed { default_id: String, default_bytes: u64 },
    /// It cannot be opened.
    Broken { sentence: String, remedy: Option<String> },
    /// It is here and can be read.
    Opened(Box<Opened>),
}

/// A model that can be read.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) file: String,
    pub(super) name: String,
    pub(super) architecture: String,
    pub(super) context_tokens: u32,
    pub(super) weight_bytes: u64,
    /// Keys and values, recurrent state.
    pub(super) state_bytes: u64,
    /// Bytes of the steps' values and what goes with them.
    pub(super) workspace_bytes: u64,
    /// Why there is no chat, if there is none.
    pub(super) no_chat: Option<String>,
}

/// Where the server would listen.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) address: SocketAddr,
    /// The user named it.
    pub(super) is_asked: bool,
    /// Why it cannot, if it cannot.
    pub(super) problem: Option<String>,
    /// A port close by that is free.
    pub(super) free: Option<u16>,
}
