//! The op contract: one file per op.
//!
//! Each file holds, in this order: the formula and its axes; the parameters; the shape rule, as a
//! builder method; the scalar reference (f32 in, f64 sums); the test cases. A backend implements
//! an op by giving it an arm in its own `kernels.rs`; the `match` there is exhaustive.

mod add;
mod argmax;
mod attention;
mod embed;
mod glu;
mod kv_write;
mod matmul;
mod rms_norm;
mod rope;
mod select_rows;
mod softcap;

pub use attention::Attention;
pub use embed::Embed;
pub use glu::{Activation, Glu};
pub use kv_write::KvWrite;
pub use matmul::Matmul;
pub use rms_norm::RmsNorm;
pub use rope::{Rope, RopeMode, Yarn};
pub use softcap::Softcap;

use crate::batch::Batch;
use crate::conformance::Case;
use crate::reference::Resource;

/// Every op of the contract, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// `y = W[id] * scale`.
    Embed(Embed),
    /// `y = x / rms(x) * w`.
    RmsNorm(RmsNorm),
    /// `y = W x (+ b)`.
    Matmul(Matmul),
    /// Rotary position embedding.
    Rope(Rope),
    /// Stores keys and values into the pages of the cache.
    KvWrite(KvWrite),
    /// Attention over the paged cache.
    Attention(Attention),
    /// `y = a + b`.
    Add,
    /// `y = act(gate) * up`.
    Glu(Glu),
    /// `y = cap * tanh(x / cap)`.
    Softcap(Softcap),
    /// Keeps the rows whose logits are wanted.
    SelectRows,
    /// Index of the largest element of a row.
    Argmax,
    /// `s = a + b; y = rms_norm(s)`, fused.
    AddRmsNorm(RmsNorm),
    /// `y = r + W x (+ b)`, fused.
    MatmulAdd(Matmul),
    /// `y = act(G x) * (U x)`, fused.
    MatmulGlu(Glu),
}

/// What a reference reads and writes.
#[derive(Debug)]
pub struct Io<'a> {
    /// Inputs in the op's order, `[rows][cols]`. Integers travel as the bits of an f32.
    pub inputs: &'a [&'a [f32]],
    /// Weights in the op's order, dequantised.
    pub weights: &'a [&'a [f32]],
    /// Outputs in the op's order, zeroed, `[rows][cols]`.
    pub outputs: &'a mut [Vec<f32>],
    /// The step's batch.
    pub batch: &'a Batch,
    /// The resource that the node names.
    pub resource: Option<&'a mut Resource>,
    /// Rows of the first output.
    pub rows: usize,
}

impl Io<'_> {
    /// Columns of input `i`, given that it has as many rows as the output.
    #[must_use]
    pub fn cols(&self, i: usize) -> usize {
        self.inputs[i].len() / self.rows
    }
}

impl Op {
    /// The op's name: the stem of its file, of its kernels and of its documentation.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Op::Embed(_) => "embed",
            Op::RmsNorm(_) => "rms_norm",
            Op::Matmul(_) => "matmul",
            Op::Rope(_) => "rope",
            Op::KvWrite(_) => "kv_write",
            Op::Attention(_) => "attention",
            Op::Add => "add",
            Op::Glu(_) => "glu",
            Op::Softcap(_) => "softcap",
            Op::SelectRows => "select_rows",
            Op::Argmax => "argmax",
            Op::AddRmsNorm(_) => "add_rms_norm",
            Op::MatmulAdd(_) => "matmul_add",
            Op::MatmulGlu(_) => "matmul_glu",
        }
    }

    /// The definition: computes the op in scalar code.
    pub fn reference(&self, io: &mut Io<'_>) {
        match self {
            Op::Embed(p) => p.reference(io),
            Op::RmsNorm(p) => p.reference(io),
            Op::Matmul(p) => p.reference(io),
            Op::Rope(p) => p.reference(io),
            Op::KvWrite(p) => p.reference(io),
            Op::Attention(p) => p.reference(io),
            Op::Add => add::reference(io),
            Op::Glu(p) => p.reference(io),
            Op::Softcap(p) => p.reference(io),
            Op::SelectRows => select_rows::reference(io),
            Op::Argmax => argmax::reference(io),
            Op::AddRmsNorm(p) => p.reference_after_add(io),
            Op::MatmulAdd(p) => p.reference_then_add(io),
            Op::MatmulGlu(p) => p.reference_of_matmuls(io),
        }
    }
}

/// The test cases of every op, in the order of [`Op`].
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        embed::cases(),
        rms_norm::cases(),
        matmul::cases(),
        rope::cases(),
        kv_write::cases(),
        attention::cases(),
        add::cases(),
        glu::cases(),
        softcap::cases(),
        select_rows::cases(),
        argmax::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
