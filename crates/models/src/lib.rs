//! What a model computes: one file per architecture, from a file's metadata to a validated graph.
//!
//! An architecture reads its hyperparameters ([`hparams`]), declares short sections with `const fn`s (its own file,
//! with the parts of `blocks`), and names the tensors that it leaves unread. The same declaration runs at compile time
//! for every published model ([`published`], `check`) and at load for the user's file ([`Model`]). No data is
//! touched here beyond handing out the tensors' bytes; running a graph is a backend's work.

mod blocks;
pub mod check;
pub mod declaration;
mod error;
pub mod hparams;
mod keys;
mod model;
pub mod published;
pub mod rules;
mod weights;

pub mod gemma3;
pub mod gemma4;
pub mod gpt_oss;
pub mod llama;
pub mod qwen2;
pub mod qwen3;
pub mod qwen35;
pub mod qwen35moe;
pub mod qwen3moe;

use zinc_gguf::Gguf;
use zinc_graph::Blueprint;

pub use crate::error::Error;
pub use crate::model::Model;

/// An architecture that this crate can run.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// The value of `general.architecture`.
    pub name: &'static str,
    /// Reads the hyperparameters of a file and declares its model.
    pub blueprint: fn(&Gguf) -> Result<Blueprint, Error>,
    /// Whether the forward pass knowingly leaves a tensor unread. Any other tensor without a use is an error.
    pub leaves_unread: fn(&Gguf, &str) -> bool,
}

/// Every architecture, each in its own file.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { name: llama::NAME, blueprint: llama::blueprint, leaves_unread: llama::leaves_unread },
    Architecture { name: qwen2::NAME, blueprint: qwen2::blueprint, leaves_unread: qwen2::leaves_unread },
    Architecture { name: qwen3::NAME, blueprint: qwen3::blueprint, leaves_unread: qwen3::leaves_unread },
    Architecture { name: gemma3::NAME, blueprint: gemma3::blueprint, leaves_unread: gemma3::leaves_unread },
    Architecture { name: qwen3moe::NAME, blueprint: qwen3moe::blueprint, leaves_unread: qwen3moe::leaves_unread },
    Architecture { name: qwen35::NAME, blueprint: qwen35::blueprint, leaves_unread: qwen35::leaves_unread },
    Architecture { name: qwen35moe::NAME, blueprint: qwen35moe::blueprint, leaves_unread: qwen35moe::leaves_unread },
    Architecture { name: gpt_oss::NAME, blueprint: gpt_oss::blueprint, leaves_unread: gpt_oss::leaves_unread },
    Architecture { name: gemma4::NAME, blueprint: gemma4::blueprint, leaves_unread: gemma4::leaves_unread },
];
