//! The CPU backend's kernels: quantised matrix products, attention over the paged cache, and the
//! small ops between them, on a pool of threads.
//!
//! Activations are f32, and weights are multiplied as the f32 that their blocks stand for, so the
//! numbers are those of the dequantised model. **A row's result is the same bits** whatever other
//! rows are in the call, however many threads there are, and on every instruction set: each kernel
//! has one order of operations, written once over sixteen lanes ([`Isa`] lists what it is compiled
//! for). What is not here: graphs, plans and buffers.

mod activation;
mod arena;
mod attention;
mod backend;
mod context;
mod elementwise;
mod error;
mod experts;
mod footprint;
mod formats;
mod isa;
mod kernels;
mod math;
mod matmul;
pub mod memory;
mod norm;
mod pool;
mod recurrent;
mod rope;
mod rotation;
mod rows;

pub use activation::Activation;
pub use attention::{Attention, HEAD_DIM_MAX, KvPages, KvPagesMut, PAGE_TOKENS, Queries, attention, kv_write};
pub use backend::{Cpu, description};
pub use context::Context;
pub use elementwise::{add, argmax, embed, glu, mul, scale, softcap};
pub use error::Error;
pub use footprint::footprint;
pub use isa::Isa;
pub use matmul::{Experts, Matrix, Product, Residual, expert_matmul, matmul, matmul_glu, products};
pub use norm::{add_rms_norm, rms_norm};
pub use pool::{Pool, THREADS_MAX};
pub use rope::{Pairs, rope};
