//! The hyperparameters of published models, each checked when this crate is compiled.

pub mod gemma3;
pub mod gemma4;
pub mod gpt_oss;
pub mod llama;
pub mod qwen2;
pub mod qwen3;
pub mod qwen35;
pub mod qwen3moe;
