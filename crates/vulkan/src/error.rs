//! What can go wrong between us and a Vulkan driver, and what to do about it.

use std::fmt;

use ash::vk;

use crate::lost::Lost;
use crate::memory::Memory;

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No `libvulkan.so.1`.
    #[error("the Vulkan loader (libvulkan.so.1) could not be loaded: {0}")]
    NoLoader(String),
    /// A loader that finds no driver, or a driver that finds no device.
    #[error("no Vulkan driver has a device here")]
    NoDriver,
    /// No device of that id.
    #[error("there is no Vulkan device `{id}` (there are: {known})")]
    NoDevice {
        /// The id asked for.
        id: String,
        /// Ids that there are.
        known: String,
    },
    /// Several devices of that id.
    #[error("`{id}` fits several devices: {fitting}")]
    Ambiguous {
        /// The id asked for.
        id: String,
        /// Ids of those that fit.
        fitting: String,
    },
    /// GPUs are absent or cannot be used; CPU drivers are taken only by name.
    #[error("no GPU here can be used{because}")]
    NoGpu {
        /// What each device lacks, or nothing.
        because: String,
    },
    /// A driver from before Vulkan 1.3.
    #[error("{device} has a driver for Vulkan {major}.{minor}; the kernels need 1.3")]
    TooOld {
        /// Device name.
        device: String,
        /// Version of the driver.
        major: u32,
        /// Version of the driver.
        minor: u32,
    },
    /// A device without something that the kernels need.
    #[error("{device} has no {missing}, which the kernels need")]
    Missing {
        /// Device name.
        device: String,
        /// Feature or limit.
        missing: &'static str,
    },
    /// Not enough memory of the device.
    #[error(transparent)]
    Memory(Box<Shortage>),
    /// Another program took memory while a model was loaded, or the driver gave more than it has.
    #[error(
        "{device} ran short of memory while the model was loaded: this process holds {} where it may hold {} of {}",
        Size(memory.usage_bytes), Size(memory.budget_bytes), Size(memory.heap_bytes)
    )]
    Spilled {
        /// Device name.
        device: String,
        /// After loading.
        memory: Memory,
    },
    /// One allocation of more bytes than the device takes.
    #[error("{device} takes at most {} in one allocation; {what} needs {}", Size(*most), Size(*needed))]
    TooLarge {
        /// Device name.
        device: String,
        /// What needs it.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes of the largest allocation.
        most: u64,
    },
    /// The device stopped, now or earlier.
    #[error(transparent)]
    Lost(Box<Lost>),
    /// A launch with more workgroups than the device takes.
    #[error("`{kernel}` needs {n} workgroups on axis {axis}, the device takes {most}; use smaller steps")]
    TooManyGroups {
        /// The kernel.
        kernel: &'static str,
        /// Axis 0, 1 or 2.
        axis: usize,
        /// Workgroups needed.
        n: u32,
        /// Workgroups that the device takes.
        most: u32,
    },
    /// A part of an op that is wider than its kernel takes.
    #[error("`{op}`: a {what} of {n} elements; the Vulkan kernel takes at most {most}")]
    TooWide {
        /// The op.
        op: &'static str,
        /// Which part.
        what: &'static str,
        /// Its width.
        n: u32,
        /// The widest.
        most: u32,
    },
    /// A head that is not whole pieces.
    #[error("a head of {n} elements; the Vulkan attention kernel reads {unit} at a time")]
    Head {
        /// Elements of a head.
        n: u32,
        /// Elements read at a time.
        unit: u32,
    },
    /// A weight row that is not whole units.
    #[error("`{op}`: weight rows of {n} elements; the Vulkan kernels read {unit} at a time")]
    RowLength {
        /// The op.
        op: &'static str,
        /// Elements of a row.
        n: u32,
        /// Elements read at a time.
        unit: u32,
    },
    /// A call failed.
    #[error("{call} failed: {result}")]
    Call {
        /// The Vulkan function.
        call: &'static str,
        /// Its result.
        result: vk::Result,
    },
}

impl Error {
    /// What to do about it, if we know.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Error::NoLoader(_) => {
                "install it and a driver (Debian, Ubuntu: apt install libvulkan1 mesa-vulkan-drivers; \
                 Fedora: dnf install vulkan-loader mesa-vulkan-drivers)"
            }
            Error::NoDriver => {
                "install one (AMD and Intel: mesa-vulkan-drivers; NVIDIA: the vendor's driver), and see that this user \
                 may open /dev/dri/renderD* (groups render and video)"
            }
            Error::NoGpu { .. } => "`zinc devices` says what each device lacks",
            Error::NoDevice { .. } => "`zinc devices` lists what there is",
            Error::Ambiguous { .. } => "give more of the PCI address or of the UUID, as `zinc devices` shows them",
            Error::TooOld { .. } | Error::Missing { .. } => {
                "a newer driver may have it (Mesa 23.1 or later for AMD and Intel)"
            }
            Error::Spilled { .. } => {
                "close what else uses the device, or take a smaller quantisation or a shorter context: otherwise the \
                 driver moves weights to slower memory"
            }
            Error::TooLarge { .. } => "lower --context, or choose another device (`zinc devices`)",
            Error::Memory(shortage) => return Some(shortage.remedy()),
            Error::Lost(lost) => return Some(lost.remedy()),
            Error::Call { result: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, .. } => {
                "the device is full: use a smaller quantisation, a shorter context, or another device"
            }
            Error::Call { result: vk::Result::ERROR_OUT_OF_HOST_MEMORY, .. } => {
                "this process may not take more memory: see `free -h`, `ulimit -v` and `ulimit -l`"
            }
            Error::Call { result: vk::Result::ERROR_TOO_MANY_OBJECTS, .. } => {
                "this process has too many files open: see `ulimit -n`"
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }
}

/// Memory that is needed and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Device name.
    pub device: String,
    /// What it is needed for, with bytes.
    pub parts: Vec<(&'static str, u64)>,
    /// What the device had left.
    pub memory: Memory,
}

impl Shortage {
    /// Bytes needed in all.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn remedy(&self) -> String {
        let Memory { heap_bytes, .. } = self.memory;
        let mut ways = Vec::new();
        // What others hold is worth closing only where the rest would then fit.
        if self.memory.others_bytes() > 0 && self.needed_bytes() <= heap_bytes {
            ways.push("close what else uses the device");
        }
        let has = |what: &str| self.parts.iter().any(|(part, bytes)| part.contains(what) && *bytes > 0);
        if has("weights") {
            ways.push("take a smaller quantisation of the model");
        }
        if has("keys") || has("state") {
            ways.push("lower --context");
        }
        if has("buffer") {
            ways.push("take a smaller model or a shorter context");
        }
        ways.push("choose another device (`zinc devices`; --device cpu uses the computer's own memory)");
        ways.join(", or ")
    }
}

impl std::error::Error for Shortage {}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts.iter().filter(|(_, bytes)| *bytes > 0);
        let parts: Vec<String> = parts.map(|(what, bytes)| format!("{what} {}", Size(*bytes))).collect();
        let Memory { heap_bytes, usage_bytes, .. } = self.memory;
        let needed = Size(self.needed_bytes());
        let (free, heap) = (Size(self.memory.free_bytes()), Size(heap_bytes));
        write!(
            f,
            "{} has too little memory: {needed} needed ({}), {free} of {heap} free",
            self.device,
            parts.join(", ")
        )?;
        if usage_bytes > 0 {
            write!(f, "; this process holds {}", Size(usage_bytes))?;
        }
        match self.memory.others_bytes() {
            0 => Ok(()),
            others => write!(f, "; other programs and the driver hold {}", Size(others)),
        }
    }
}

/// Bytes for people, in powers of ten, with as many digits as tell two sums apart.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        match self.0 {
            0..1_000_000 => write!(f, "{} B", self.0),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", n / 1e6),
            _ => write!(f, "{:.2} GB", n / 1e9),
        }
    }
}

/// For `map_err`: names the call that failed.
pub(crate) fn call(call: &'static str) -> impl Fn(vk::Result) -> Error {
    move |result| Error::Call { call, result }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortage(heap: u64, budget: u64, usage: u64) -> Shortage {
        let memory = Memory { heap_bytes: heap, budget_bytes: budget, usage_bytes: usage, is_reported: true };
        let parts = vec![("weights", 22_241_950_336), ("keys and values", 671_088_640), ("recurrent state", 0)];
        Shortage { device: "AMD Radeon RX 7900 XTX".into(), parts, memory }
    }

    #[test]
    fn too_little_memory_is_said_with_its_numbers() {
        let error = Error::Memory(Box::new(shortage(17_163_091_968, 16_000_000_000, 0)));
        assert_eq!(
            error.to_string(),
            "AMD Radeon RX 7900 XTX has too little memory: 22.91 GB needed (weights 22.24 GB, keys and values \
             671.1 MB), 16.00 GB of 17.16 GB free; other programs and the driver hold 1.16 GB"
        );
        let remedy = error.remedy().unwrap();
        assert!(!remedy.contains("close what else"), "it would not fit an empty card either: {remedy}");
        assert!(remedy.contains("smaller quantisation") && remedy.contains("--context"), "{remedy}");
    }

    #[test]
    fn another_program_on_the_card_is_named_where_closing_it_helps() {
        let error = Error::Memory(Box::new(shortage(25_757_220_864, 10_000_000_000, 1_000_000_000)));
        let sentence = error.to_string();
        assert!(
            sentence.contains("this process holds 1.00 GB; other programs and the driver hold 15.76 GB"),
            "{sentence}"
        );
        assert!(error.remedy().unwrap().starts_with("close what else uses the device, or take a smaller"));
    }

    #[test]
    fn every_way_to_be_without_a_device_has_its_remedy() {
        let name = || "card".to_owned();
        let cases = [
            (Error::NoLoader("no such file".into()), "libvulkan1"),
            (Error::NoDriver, "mesa-vulkan-drivers"),
            (Error::TooOld { device: name(), major: 1, minor: 2 }, "newer driver"),
            (Error::Missing { device: name(), missing: "timeline semaphores" }, "newer driver"),
            (Error::Call { call: "vkAllocateMemory", result: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY }, "smaller"),
            (Error::Call { call: "vkMapMemory", result: vk::Result::ERROR_OUT_OF_HOST_MEMORY }, "ulimit -l"),
        ];
        for (error, word) in cases {
            let remedy = error.remedy().unwrap();
            assert!(remedy.contains(word), "{error}: {remedy}");
        }
    }
}
