//! What can go wrong between us and a Vulkan driver.

use ash::vk;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No `libvulkan.so.1`.
    #[error(
        "the Vulkan loader could not be loaded ({0}); install it (Debian: apt install libvulkan1 mesa-vulkan-drivers)"
    )]
    NoLoader(String),
    /// No device of that id.
    #[error("there is no Vulkan device `{id}`; `zinc devices` lists them")]
    NoDevice {
        /// The id asked for.
        id: String,
    },
    /// A device without something that the kernels need.
    #[error("{device} has no {missing}, which the kernels need; a newer driver may have it")]
    Missing {
        /// Device name.
        device: String,
        /// Feature or limit.
        missing: &'static str,
    },
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

/// For `map_err`: names the call that failed.
pub(crate) fn call(call: &'static str) -> impl Fn(vk::Result) -> Error {
    move |result| Error::Call { call, result }
}
