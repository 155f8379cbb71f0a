//! The Vulkan backend: ops as compute kernels written by hand in GLSL.
//!
//! Reads like its sibling `metal`: `device`, `memory`, `pipeline`, `commands` wrap the API (`candidate`
//! and `features` choose a device, `arena` and `upload` bring weights there, `cache` keeps compiled
//! pipelines, `fragments` finds where lanes have matrices, `lost` says how a device stopped, `markers`
//! at which op); `kernels` turns ops into launches, `chain` links those of short steps; `backend` records
//! them. It knows ops, never models or sequences. Kernels lie in `shaders/`, compiled code in `spv/`.

pub mod arena;
pub mod backend;
pub mod cache;
pub mod candidate;
pub mod chain;
pub mod commands;
pub mod device;
pub mod error;
mod features;
mod footprint;
pub mod fragments;
pub mod kernels;
pub mod lost;
mod markers;
pub mod measure;
pub mod memory;
pub mod params;
pub mod pipeline;
mod planes;
pub mod profile;
pub mod recording;
pub mod scratch;
pub mod split;
pub mod spv;
pub mod step;
pub mod tuning;
pub mod upload;
mod waits;
pub mod weights;

pub use backend::{Device, Vulkan};
pub use error::Error;
pub use footprint::footprint;
