//! The Vulkan backend: ops as compute kernels written by hand in GLSL.
//!
//! Reads like its sibling `metal`: `device`, `memory`, `pipeline`, `commands` wrap the API;
//! `kernels` turns ops into launches; `backend` records them. It knows ops, never models or
//! sequences. Kernels lie in `shaders/`, compiled code in `spv/`.

pub mod backend;
pub mod commands;
pub mod device;
pub mod error;
pub mod kernels;
pub mod measure;
pub mod memory;
pub mod params;
pub mod pipeline;
pub mod profile;
pub mod recording;
pub mod scratch;
pub mod spv;
pub mod step;
pub mod tuning;
pub mod weights;

pub use backend::{Device, Vulkan};
pub use error::Error;
