//! The op contract: one file per op.
//!
//! Each file holds, in this order: the formula and its axes; the parameters; the shape rule, as a
//! builder method; the scalar reference (f32 in, f64 sums); the test cases. A backend implements
//! an op by giving it an arm in its own `kernels.rs`; the `match` there is exhaustive.

#![allow(
    clippy::cast_possible_truncation,
    reason = "references sum in f64 and round once; counts are bounded by shape rules"
)]

mod add;
mod argmax;
mod attention;
mod conv1d;
mod delta_gates;
mod delta_net;
mod embed;
mod expert_matmul;
mod expert_matmul_glu;
mod expert_sum;
mod gate_rows;
mod glu;
mod kv_write;
mod l2_norm;
mod matmul;
mod norm_delta_net;
mod norm_glu;
mod norm_matmul;
mod norm_rope;
mod rms_norm;
mod rope;
mod rope_attention;
mod rope_kv_write;
mod router;
mod scale;
mod select_rows;
mod slice;
mod slice_glu;
mod softcap;

pub use attention::Attention;
pub use conv1d::{CONV_TAPS_MAX, Conv1d};
pub use delta_net::{DELTA_HEAD_DIM_MAX, DeltaInputs, DeltaNet, HeadRun, chunked, recurrent};
pub use embed::Embed;
pub use expert_matmul::ExpertMatmul;
pub use expert_matmul_glu::ExpertMatmulGlu;
pub use expert_sum::ExpertSum;
pub use glu::{Activation, Glu};
pub use kv_write::KvWrite;
pub use l2_norm::L2Norm;
pub use matmul::Matmul;
pub use norm_delta_net::NormDeltaNet;
pub use norm_glu::NormGlu;
pub use norm_matmul::{NormMatmul, NormMatmulGlu};
pub use norm_rope::NormRope;
pub use rms_norm::RmsNorm;
pub use rope::{Rope, RopeMode, Yarn};
pub use rope_attention::RopeAttention;
pub use rope_kv_write::RopeKvWrite;
pub use router::{EXPERTS_MAX, EXPERTS_USED_MAX, Router};
pub use scale::Scale;
pub use slice::Slice;
pub use slice_glu::SliceGlu;
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
    /// The same columns of every group of a row.
    Slice(Slice),
    /// `y = factor * w * x`.
    Scale(Scale),
    /// Causal convolution over time, with state.
    Conv1d(Conv1d),
    /// `y = scale * x / |x|`.
    L2Norm(L2Norm),
    /// Decay and learning rate of a delta net.
    DeltaGates,
    /// The gated delta rule, with state.
    DeltaNet(DeltaNet),
    /// Chooses experts and weighs them.
    Router(Router),
    /// Matrix product with the chosen experts.
    ExpertMatmul(ExpertMatmul),
    /// Weighted sum over the chosen experts.
    ExpertSum(ExpertSum),
    /// `y = x * sigmoid(s)`, one `s` per row.
    GateRows,
    /// `s = a + b; y = rms_norm(s)`, fused.
    AddRmsNorm(RmsNorm),
    /// `y = r + W x (+ b)`, fused.
    MatmulAdd(Matmul),
    /// `y = act(G x) * (U x)`, fused.
    MatmulGlu(Glu),
    /// `y = W rms_norm(x) (+ b)`, fused.
    NormMatmul(NormMatmul),
    /// `y = act(G rms_norm(x)) * (U rms_norm(x))`, fused.
    NormMatmulGlu(NormMatmulGlu),
    /// `y = rope(rms_norm(x))`, fused, perhaps with `slice` of each head before.
    NormRope(NormRope),
    /// `y = act(gate) * rms_norm(x)`, fused.
    NormGlu(NormGlu),
    /// `expert_sum`, then one or two `add`s, fused.
    ExpertSumAdd(ExpertSum),
    /// `kv_write(rope(k), v)`, fused, perhaps with `rms_norm` of `k` before.
    RopeKvWrite(RopeKvWrite),
    /// `slice`s and `l2_norm`s, then `delta_net`, fused, perhaps with `norm_glu` after.
    NormDeltaNet(NormDeltaNet),
    /// `y = act(G[e] x) * (U[e] x)`, fused.
    ExpertMatmulGlu(ExpertMatmulGlu),
    /// `y = act(slice(x)) * up`, fused.
    SliceGlu(SliceGlu),
    /// `rope` of queries and keys, `kv_write`, then `attention`, fused, perhaps with `rms_norm` and `slice` before.
    RopeAttention(RopeAttention),
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
            Op::Slice(_) => "slice",
            Op::Scale(_) => "scale",
            Op::Conv1d(_) => "conv1d",
            Op::L2Norm(_) => "l2_norm",
            Op::DeltaGates => "delta_gates",
            Op::DeltaNet(_) => "delta_net",
            Op::Router(_) => "router",
            Op::ExpertMatmul(_) => "expert_matmul",
            Op::ExpertSum(_) => "expert_sum",
            Op::GateRows => "gate_rows",
            Op::AddRmsNorm(_) => "add_rms_norm",
            Op::MatmulAdd(_) => "matmul_add",
            Op::MatmulGlu(_) => "matmul_glu",
            Op::NormMatmul(_) => "norm_matmul",
            Op::NormMatmulGlu(_) => "norm_matmul_glu",
            Op::NormRope(_) => "norm_rope",
            Op::NormGlu(_) => "norm_glu",
            Op::ExpertSumAdd(_) => "expert_sum_add",
            Op::RopeKvWrite(_) => "rope_kv_write",
            Op::NormDeltaNet(_) => "norm_delta_net",
            Op::ExpertMatmulGlu(_) => "expert_matmul_glu",
            Op::SliceGlu(_) => "slice_glu",
            Op::RopeAttention(_) => "rope_attention",
        }
    }

    /// A product of matrices, which a device may make with rounded operands.
    #[must_use]
    pub const fn is_product(&self) -> bool {
        matches!(
            self,
            Op::Matmul(_)
                | Op::MatmulAdd(_)
                | Op::MatmulGlu(_)
                | Op::ExpertMatmul(_)
                | Op::ExpertMatmulGlu(_)
                | Op::NormMatmul(_)
                | Op::NormMatmulGlu(_)
                | Op::Attention(_)
                | Op::RopeAttention(_)
        )
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
            Op::Slice(p) => p.reference(io),
            Op::Scale(p) => p.reference(io),
            Op::Conv1d(p) => p.reference(io),
            Op::L2Norm(p) => p.reference(io),
            Op::DeltaGates => delta_gates::reference(io),
            Op::DeltaNet(p) => p.reference(io),
            Op::Router(p) => p.reference(io),
            Op::ExpertMatmul(p) => p.reference(io),
            Op::ExpertSum(p) => p.reference(io),
            Op::GateRows => gate_rows::reference(io),
            Op::AddRmsNorm(p) => p.reference_after_add(io),
            Op::MatmulAdd(p) => p.reference_then_add(io),
            Op::MatmulGlu(p) => p.reference_of_matmuls(io),
            Op::NormMatmul(p) => p.reference(io),
            Op::NormMatmulGlu(p) => p.reference(io),
            Op::NormRope(p) => p.reference(io),
            Op::NormGlu(p) => p.reference(io),
            Op::ExpertSumAdd(p) => p.reference_then_add(io),
            Op::RopeKvWrite(p) => p.reference(io),
            Op::NormDeltaNet(p) => p.reference(io),
            Op::ExpertMatmulGlu(p) => p.reference(io),
            Op::SliceGlu(p) => p.reference(io),
            Op::RopeAttention(p) => p.reference(io),
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
        slice::cases(),
        scale::cases(),
        conv1d::cases(),
        l2_norm::cases(),
        delta_gates::cases(),
        delta_net::cases(),
        router::cases(),
        expert_matmul::cases(),
        expert_sum::cases(),
        gate_rows::cases(),
        norm_glu::cases(),
        norm_matmul::cases(),
        norm_rope::cases(),
        rope_kv_write::cases(),
        norm_delta_net::cases(),
        expert_matmul_glu::cases(),
        slice_glu::cases(),
        rope_attention::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
