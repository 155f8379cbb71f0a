//! Products with a matrix: plain, with bias or residual, gated, and of chosen experts.
//!
//! One token goes to the matrix-vector kernel, many to a matrix-matrix kernel: that of the matrix
//! cores where there are any, else its plain twin; few to either, or to a third kernel (`direct`).
//! `tuning` says where they cross.

use zinc_gguf::DType;
use zinc_graph::ops::{Activation, ExpertMatmul, ExpertMatmulGlu, RmsNorm};
use zinc_graph::section::{Node, ValueId, WeightId};

use super::{Launch, Recorder, activation_words, row_bytes};
use crate::error::Error;
use crate::params;
use crate::weights::Placed;

/// What follows the product, as the kernels' constant EPILOGUE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Epilogue {
    Plain = 0,
    Bias = 1,
    Add = 2,
    Glu = 3,
    /// Both halves with a bias; the matrix-vector kernel alone has it.
    GluBias = 4,
}

/// Whose matrix it is, as the kernels' constant EXPERTS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Experts {
    None = 0,
    /// All slots of a token read one input row.
    OfToken = 1,
    /// Each slot has its own.
    OfSlot = 2,
}

/// The slots of a step sorted by expert, as `expert_groups.comp` writes them.
#[derive(Clone, Copy)]
pub(super) struct Groups {
    /// Device address.
    pub address: u64,
    /// Word at which the list begins.
    pub list_at: u32,
    /// Most tiles.
    pub tiles_max: u32,
    /// Entries of a tile, at most.
    pub tokens: u32,
}

/// A product, whichever kernel makes it.
pub(super) struct Product {
    pub(super) op: &'static str,
    pub(super) x: ValueId,
    pub(super) y: ValueId,
    pub(super) n_in: u32,
    pub(super) n_out: u32,
    /// The matrices; one that is not gated has no use for the second.
    pub(super) w: Placed,
    pub(super) w2: Placed,
    /// Bias or residual, and the second matrix's bias.
    pub(super) other: u64,
    pub(super) other2: u64,
    pub(super) epilogue: Epilogue,
    pub(super) activation: Option<Activation>,
    pub(super) experts: Experts,
    /// Weight and epsilon of a norm that x goes through first.
    pub(super) norm: Option<(u64, f32)>,
    /// The chosen experts of each token, and how many there are.
    pub(super) ids: Option<ValueId>,
    pub(super) n_used: u32,
    /// Rows that an expert has in a matrix, and the first of the second matrix among them.
    pub(super) expert_rows: u32,
    pub(super) up_row: u32,
}

impl Product {
    /// Its activation as the kernels' constant, with the parameters `alpha` and `limit`.
    pub(super) fn activation_words(&self) -> (u32, f32, f32) {
        self.activation.map_or((0, 0.0, 0.0), activation_words)
    }

    /// The second matrix of a product that has two.
    pub(super) fn second_matrix(&self) -> Option<Placed> {
        (self.epilogue >= Epilogue::Glu).then_some(self.w2)
    }

    /// How many it has: a gated product has two.
    pub(super) fn n_matrices(&self) -> u32 {
        1 + u32::from(self.second_matrix().is_some())
    }
}

/// Whether blocks are of 256 weights, of which neighbouring units share what describes them.
pub(super) fn has_super_blocks(dtype: DType) -> bool {
    matches!(dtype, DType::Q2_K | DType::Q3_K | DType::Q4_K | DType::Q5_K | DType::Q6_K | DType::IQ4_XS)
}

pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

impl Recorder<'_> {
    pub(super) fn matmul(&mut self, node: &Node) -> Result<Launch, Error> {
        match self.optional_weight(node, 1) {
            0 => self.product_of(node, Epilogue::Plain, 0, None, None),
            bias => self.product_of(node, Epilogue::Bias, bias, None, None),
        }
    }

    pub(super) fn matmul_add(&mut self, node: &Node) -> Result<Launch, Error> {
        let residual = self.input(node, 1);
        self.product_of(node, Epilogue::Add, residual, None, None)
    }

    pub(super) fn matmul_glu(&mut self, node: &Node, activation: Activation) -> Result<Launch, Error> {
        self.product_of(node, Epilogue::Glu, 0, Some(activation), None)
    }

    pub(super) fn norm_matmul(&mut self, node: &Node, norm: RmsNorm) -> Result<Launch, Error> {
        match self.optional_weight(node, 2) {
            0 => self.product_of(node, Epilogue::Plain, 0, None, Some(norm)),
            bias => self.product_of(node, Epilogue::Bias, bias, None, Some(norm)),
        }
    }

    pub(super) fn norm_matmul_glu(
        &mut self,
        node: &Node,
        norm: RmsNorm,
        activation: Activation,
    ) -> Result<Launch, Error> {
        self.product_of(node, Epilogue::Glu, 0, Some(activation), Some(norm))
    }

    fn product_of(
        &mut self,
        node: &Node,
        epilogue: Epilogue,
        other: u64,
        activation: Option<Activation>,
        norm: Option<RmsNorm>,
    ) -> Result<Launch, Error> {
        let (x, y) = (node.inputs.as_slice()[0], node.outputs.as_slice()[0]);
        let matrices = &node.weights.as_slice()[usize::from(norm.is_some())..];
        let w = self.weight(matrices[0]);
        let w2 = match epilogue {
            Epilogue::Glu => self.weight(matrices[1]),
            _ => w,
        };
        self.product(&Product {
            op: node.op.name(),
            x,
            y,
            n_in: self.cols(x),
            n_out: self.cols(y),
            w,
            w2,
            other,
            other2: 0,
            epilogue,
            activation,
            experts: Experts::None,
            norm: norm.map(|norm| (self.optional_weight(node, 0), norm.eps)),
            ids: None,
            n_used: 1,
            expert_rows: 0,
            up_row: 0,
        })
    }

    pub(super) fn expert_matmul(&mut self, node: &Node, op: ExpertMatmul) -> Result<Launch, Error> {
        let product = self.product_of_experts(node, op, node.weights.as_slice());
        self.product(&product)
    }

    /// One matrix for each expert, with a bias if there is one among the weights.
    fn product_of_experts(&self, node: &Node, op: ExpertMatmul, weights: &[WeightId]) -> Product {
        let w = self.weight(weights[0]);
        let other = weights.get(1).map_or(0, |bias| self.weight(*bias).address);
        Product {
            op: node.op.name(),
            x: node.inputs.as_slice()[0],
            y: node.outputs.as_slice()[0],
            n_in: op.n_in,
            n_out: op.n_out,
            w,
            w2: w,
            other,
            other2: 0,
            epilogue: if other == 0 { Epilogue::Plain } else { Epilogue::Bias },
            activation: None,
            experts: if op.n_parts == 1 { Experts::OfToken } else { Experts::OfSlot },
            norm: None,
            ids: Some(node.inputs.as_slice()[1]),
            n_used: op.n_used,
            expert_rows: op.n_out,
            up_row: 0,
        }
    }

    /// For steps of few tokens: `Vulkan` does not fuse it where the slots are sorted by expert.
    pub(super) fn expert_matmul_glu(&mut self, node: &Node, p: ExpertMatmulGlu) -> Result<Launch, Error> {
        let (op, weights) = (p.product, p.product_weights(node.weights.as_slice()));
        let w = self.weight(weights[0]);
        let address = |i: usize| weights.get(i).map_or(0, |bias: &WeightId| self.weight(*bias).address);
        let (w2, other, other2, up_row) = if p.stacked {
            (w, address(1), address(1) + 4 * u64::from(op.n_out), op.n_out)
        } else {
            (self.weight(weights[1]), address(2), address(3), 0)
        };
        let product = Product {
            w2,
            other,
            other2,
            epilogue: if other == 0 { Epilogue::Glu } else { Epilogue::GluBias },
            activation: Some(p.glu.activation),
            norm: p.norm.map(|norm| (self.optional_weight(node, 0), norm.eps)),
            expert_rows: op.n_out + up_row,
            up_row,
            ..self.product_of_experts(node, op, weights)
        };
        self.product(&product)
    }

    fn product(&mut self, p: &Product) -> Result<Launch, Error> {
        let groups = p.ids.and_then(|ids| self.groups.get(&ids).copied());
        if groups.is_some() {
            return self.gemm(p, groups);
        }
        // Experts that are not sorted, and products that take a norm along, which `Vulkan` fuses only where this kernel is meant.
        if p.experts != Experts::None || p.norm.is_some() {
            return self.matvec(p);
        }
        if let Some(way) = self.direct_way(p.x, p.w, p.second_matrix()) {
            return self.gemm_direct(p, way);
        }
        if self.rows(p.x).most > self.tuning.gemm_above { self.gemm(p, None) } else { self.matvec(p) }
    }

    /// Whether a product of x with these matrices, one or two, without experts, goes to a matrix-matrix kernel.
    pub(super) fn is_many(&self, x: ValueId, matrices: &[WeightId]) -> bool {
        let second = matrices.get(1).map(|&id| self.weight(id));
        self.rows(x).most > self.tuning.gemm_above || self.direct_way(x, self.weight(matrices[0]), second).is_some()
    }

    /// What all matrix-matrix kernels are told of a product.
    pub(super) fn gemm_params(&self, p: &Product) -> Result<params::Gemm, Error> {
        let (rows, (_, alpha, limit)) = (self.rows(p.x), p.activation_words());
        Ok(params::Gemm {
            chain: 0,
            w: p.w.address,
            w2: p.w2.address,
            x: self.value(p.x),
            other: p.other,
            y: self.value(p.y),
            groups: 0,
            slice_sums: 0,
            arrived: 0,
            step: self.at.step,
            n_in: p.n_in,
            n_out: p.n_out,
            row_bytes: row_bytes(p.op, p.w.dtype, p.n_in)?,
            row_bytes2: row_bytes(p.op, p.w2.dtype, p.n_in)?,
            rows: rows.symbol,
            rows_max: rows.most,
            n_used: p.n_used,
            list_at: 0,
            alpha,
            limit,
        })
    }
}
