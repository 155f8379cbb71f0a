//! Products with a matrix: plain, with bias or residual, gated, and of chosen experts.
//!
//! One token goes to the matrix-vector kernel, many to a matrix-matrix kernel: that of the matrix
//! cores where there are any, else its plain twin; few to either, or to a third kernel (`direct`).
//! `tuning` says where they cross.

use zinc_gguf::DType;
use zinc_graph::ops::{Activation, ExpertMatmul, ExpertMatmulGlu, RmsNorm};
use zinc_graph::section::{Node, ValueId, WeightId};

use super::{Recorder, UNIT, activation_words, row_bytes};
use crate::commands::Dispatch;
use crate::error::Error;
use crate::params::{self, Kernel};
use crate::tuning::{TILE_WORKGROUPS_MAX, Tile};
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

/// A matrix-matrix kernel and its tile, as they fit the device and the product.
#[derive(Clone, Copy)]
struct Tiled {
    kernel: Kernel,
    tile: Tile,
    threads: u32,
    /// Side of the device's matrices.
    matrix: u32,
    /// Slices of the columns, each with workgroups of its own.
    slices: u32,
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

/// How a launch of the matrix-vector kernel is cut, under the names of its constants.
struct MatvecShape {
    rows: u32,
    tokens: u32,
    lanes: u32,
    wide: u32,
    exact: bool,
    parts: u32,
    resident: bool,
    ahead: u32,
    units: u32,
    threads: u32,
    workgroups: u32,
    launch_rows: u32,
}

/// Bytes of four columns of x in shared memory.
const PART_BYTES: u32 = 16;
/// Bytes of shared memory that the matrix-vector kernel needs for other things.
const XS_LEAVE: u32 = 2048;
/// Turns of a row that the kernel unrolls, at most; `shaders/matvec.comp` has the same number.
const TURNS_UNROLLED: u32 = 6;
/// Groups of rows of a subgroup, at least, for more than one item under way.
const AHEAD_GROUPS_MIN: u32 = 4;
/// Stages of x are whole multiples of this many units: those of the largest blocks of weights.
const UNITS_STAGE: u32 = 8;

/// Lanes that share a row of `n_items`: as many as there are, unless more than an eighth of their turns would be idle.
fn lanes_of(n_items: u32, width: u32) -> u32 {
    let mut lanes = width;
    while lanes > 1 && 8 * n_items.next_multiple_of(lanes) > 9 * n_items {
        lanes /= 2;
    }
    lanes
}

/// Whether blocks are of 256 weights, of which neighbouring units share what describes them.
pub(super) fn has_super_blocks(dtype: DType) -> bool {
    matches!(dtype, DType::Q2_K | DType::Q3_K | DType::Q4_K | DType::Q5_K | DType::Q6_K | DType::IQ4_XS)
}

pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Rows and tokens of a thread of the plain kernel.
const PLAIN_PART: [u32; 2] = [4, 4];
/// Slices of the columns, at most, and steps of each, at least.
const SLICES_MAX: u32 = 8;
const SLICE_STEPS_MIN: u32 = 4;
/// Bytes of shared memory that the matrix-matrix kernels need for other things.
pub(super) const SHARED_LEAVE: u32 = 1024;

/// Most bytes that a product with so many rows, of both matrices if there are two, keeps for the sums of its slices, and
/// for their counters, in steps of up to `tokens` tokens.
pub(crate) fn slices_bytes_max(n_rows: u32, tokens: u32) -> (u64, u64) {
    // In every family's table fewer tokens go to kernels that cut nothing, and tiles for more are not cut.
    if !(4..=64).contains(&tokens) {
        return (0, 0);
    }
    let n_tiles = n_rows.div_ceil(64).max(1);
    let slices = (TILE_WORKGROUPS_MAX / n_tiles).min(SLICES_MAX);
    if slices < 2 {
        return (0, 0);
    }
    let tile_bytes = 4 * 64 * u64::from(tokens.next_power_of_two().max(16));
    (u64::from(n_tiles * slices) * tile_bytes, 4 * u64::from(n_tiles))
}

impl Recorder<'_> {
    pub(super) fn matmul(&mut self, node: &Node) -> Result<Dispatch, Error> {
        match self.optional_weight(node, 1) {
            0 => self.product_of(node, Epilogue::Plain, 0, None, None),
            bias => self.product_of(node, Epilogue::Bias, bias, None, None),
        }
    }

    pub(super) fn matmul_add(&mut self, node: &Node) -> Result<Dispatch, Error> {
        let residual = self.input(node, 1);
        self.product_of(node, Epilogue::Add, residual, None, None)
    }

    pub(super) fn matmul_glu(&mut self, node: &Node, activation: Activation) -> Result<Dispatch, Error> {
        self.product_of(node, Epilogue::Glu, 0, Some(activation), None)
    }

    pub(super) fn norm_matmul(&mut self, node: &Node, norm: RmsNorm) -> Result<Dispatch, Error> {
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
    ) -> Result<Dispatch, Error> {
        self.product_of(node, Epilogue::Glu, 0, Some(activation), Some(norm))
    }

    fn product_of(
        &mut self,
        node: &Node,
        epilogue: Epilogue,
        other: u64,
        activation: Option<Activation>,
        norm: Option<RmsNorm>,
    ) -> Result<Dispatch, Error> {
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

    pub(super) fn expert_matmul(&mut self, node: &Node, op: ExpertMatmul) -> Result<Dispatch, Error> {
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
    pub(super) fn expert_matmul_glu(&mut self, node: &Node, p: ExpertMatmulGlu) -> Result<Dispatch, Error> {
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

    fn product(&mut self, p: &Product) -> Result<Dispatch, Error> {
        let groups = p.ids.and_then(|ids| self.groups.get(&ids).copied());
        if groups.is_some() {
            return self.gemm(p, groups);
        }
        // Experts that are not sorted, and products that take a norm along, which `Vulkan` fuses only where this kernel is meant.
        if p.experts != Experts::None || p.norm.is_some() {
            return self.matvec(p);
        }
        if let Some(way) = self.direct_way(p.x, p.w, Self::second_matrix(p)) {
            return self.gemm_direct(p, way);
        }
        if self.rows(p.x).most > self.tuning.gemm_above { self.gemm(p, None) } else { self.matvec(p) }
    }

    /// Whether a product of x with these matrices, one or two, without experts, goes to a matrix-matrix kernel.
    pub(super) fn is_many(&self, x: ValueId, matrices: &[WeightId]) -> bool {
        let second = matrices.get(1).map(|&id| self.weight(id));
        self.rows(x).most > self.tuning.gemm_above || self.direct_way(x, self.weight(matrices[0]), second).is_some()
    }

    fn matvec(&mut self, p: &Product) -> Result<Dispatch, Error> {
        let (activation, alpha, limit) = p.activation.map_or((0, 0.0, 0.0), activation_words);
        let rows = self.rows(p.x);
        let params = params::Matvec {
            w: p.w.address,
            w2: p.w2.address,
            x: self.value(p.x),
            other: p.other,
            other2: p.other2,
            y: self.value(p.y),
            ids: p.ids.map_or(0, |ids| self.value(ids)),
            norm: p.norm.map_or(0, |(w, _)| w),
            step: self.at.step,
            n_in: p.n_in,
            n_out: p.n_out,
            row_bytes: row_bytes(p.op, p.w.dtype, p.n_in)?,
            row_bytes2: row_bytes(p.op, p.w2.dtype, p.n_in)?,
            rows: rows.symbol,
            rows_max: rows.most * p.n_used,
            n_used: p.n_used,
            expert_rows: p.expert_rows,
            up_row: p.up_row,
            alpha,
            limit,
            eps: p.norm.map_or(0.0, |(_, eps)| eps),
        };
        let shape = self.matvec_shape(p, rows.most);
        let mut constants =
            vec![p.w.constant(), shape.rows, shape.tokens, p.epilogue as u32, activation, p.experts as u32];
        constants.extend([p.w2.constant(), u32::from(p.norm.is_some()), shape.units, u32::from(self.is_integer(p))]);
        constants.extend([u32::from(shape.resident), shape.lanes, shape.wide, shape.parts]);
        constants.extend([u32::from(shape.exact), shape.ahead, u32::from(self.tuning.matvec_hold)]);
        self.launch(shape.threads, &constants, &params, [shape.workgroups, shape.launch_rows, 1])
    }

    /// How the matrix-vector kernel makes `p` for at most `n_rows` rows of x.
    fn matvec_shape(&self, p: &Product, n_rows: u32) -> MatvecShape {
        let (tuning, width) = (self.tuning, self.traits.subgroup_size);
        let (n_units, n_matrices) = (p.n_in / UNIT, if p.epilogue >= Epilogue::Glu { 2 } else { 1 });
        let wide = if has_super_blocks(p.w.dtype) || has_super_blocks(p.w2.dtype) { 2 } else { 1 };
        let lanes = lanes_of(n_units / wide, width);
        // As the kernel lays out x: of Q2_K alone it needs the sums of sixteens.
        let parts = match (self.is_integer(p), is_float(p.w.dtype) || is_float(p.w2.dtype)) {
            (true, false) => 4 * wide + 1 + u32::from(p.w.dtype == DType::Q2_K || p.w2.dtype == DType::Q2_K),
            _ => 8 * wide,
        };
        // At least a turn of one token: the driver gives 16 KiB at the least.
        let shared_bytes = tuning.matvec_shared.min(self.traits.shared_bytes - XS_LEAVE);
        let units_in = |n_tokens: u32| shared_bytes / (PART_BYTES * parts * n_tokens) * wide;
        // A launch row of experts is one (token, slot): its expert is known only on the device.
        let is_plain = p.experts == Experts::None;
        let mut tokens = if is_plain { n_rows.next_power_of_two().min(tuning.matvec_tokens) } else { 1 };
        let turn = (lanes * wide).max(UNITS_STAGE);
        while tokens > 1 && units_in(tokens) < turn {
            tokens /= 2;
        }
        let rows = match n_matrices {
            2 => tuning.matvec_rows_gated,
            // One item a lane: more rows keep more loads in flight.
            _ if n_units <= lanes * wide => tuning.matvec_rows_short,
            _ => tuning.matvec_rows,
        };
        // Two units a lane are as much under way as two rows. Rows share what is read of x, which is much for four tokens.
        let rows = (rows / wide).max(if n_matrices == 1 && tokens >= 4 { 2 } else { 1 });
        let resident = (n_matrices == 1 || p.w.constant() == p.w2.constant()) && n_units <= units_in(tokens);
        let units = if resident { n_units } else { (units_in(tokens) / turn).max(1) * turn };
        let exact = n_units.is_multiple_of(lanes * wide);
        let launch_rows = if is_plain { n_rows.div_ceil(tokens) } else { n_rows.saturating_mul(p.n_used) };
        let workgroups_of = |threads: u32| p.n_out.div_ceil(rows * threads / lanes);
        let (most, least) = (tuning.matvec_workgroups, tuning.matvec_threads_least.max(width));
        let mut threads = tuning.matvec_threads.max(width);
        while launch_rows == 1 && threads / 2 >= least && workgroups_of(threads / 2) <= most {
            threads /= 2;
        }
        let mut workgroups = workgroups_of(threads);
        // What each workgroup does to x counts: where there is one row of x, and where it goes through a norm first.
        if resident && (launch_rows == 1 || p.norm.is_some()) {
            let most = (most / p.n_used).max(1);
            workgroups = workgroups.div_ceil(workgroups.div_ceil(most));
        }
        // More items under way pay where a subgroup makes many groups of rows: behind the last it asks for what it does not need.
        let turns = n_units.div_ceil(lanes * wide);
        let is_long = p.n_out >= AHEAD_GROUPS_MIN * workgroups * (threads / lanes) * rows;
        let is_ahead = resident && is_long && turns <= TURNS_UNROLLED && tokens <= 2 && !is_float(p.w.dtype);
        let ahead = if is_ahead && turns.is_multiple_of(tuning.matvec_ahead) { tuning.matvec_ahead } else { 1 };
        MatvecShape {
            rows,
            tokens,
            lanes,
            wide,
            exact,
            parts,
            resident,
            ahead,
            units,
            threads,
            workgroups,
            launch_rows,
        }
    }

    /// Whether a product multiplies stored bytes with integers: with floats it cannot.
    fn is_integer(&self, p: &Product) -> bool {
        self.tuning.integer_dot && !(is_float(p.w.dtype) && is_float(p.w2.dtype))
    }

    /// What all matrix-matrix kernels are told of a product.
    pub(super) fn gemm_params(&self, p: &Product) -> Result<params::Gemm, Error> {
        let rows = self.rows(p.x);
        Ok(params::Gemm {
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
            alpha: 0.0,
            limit: 0.0,
        })
    }

    fn gemm(&mut self, p: &Product, groups: Option<Groups>) -> Result<Dispatch, Error> {
        let (activation, alpha, limit) = p.activation.map_or((0, 0.0, 0.0), activation_words);
        let rows = self.rows(p.x);
        let matrices = if p.epilogue == Epilogue::Glu { 2 } else { 1 };
        let tokens = groups.map_or(rows.most, |g| g.tokens);
        // Many experts make many workgroups.
        let outputs = if groups.is_some() { u32::MAX } else { p.n_out };
        let Tiled { kernel, tile, threads, matrix, slices } = self.tile(tokens, p.n_in, outputs, matrices);
        let tiles = groups.map_or(rows.most.div_ceil(tile.tokens), |g| g.tiles_max);
        let launch = [p.n_out.div_ceil(tile.rows / matrices), tiles, slices];
        let (mut slice_sums, mut arrived) = (0, 0);
        if slices > 1 {
            let n_tiles = u64::from(launch[0]) * u64::from(tiles);
            let sums = u64::from(slices) * u64::from(tile.rows) * u64::from(tile.tokens);
            slice_sums = self.scratch.reserve_for_phase(4 * n_tiles * sums)?;
            arrived = self.scratch.reserve(4 * n_tiles)?;
        }
        let params = params::Gemm {
            groups: groups.map_or(0, |g| g.address),
            slice_sums,
            arrived,
            list_at: groups.map_or(0, |g| g.list_at),
            alpha,
            limit,
            ..self.gemm_params(p)?
        };
        let mut constants =
            vec![p.w.constant(), tile.rows, tile.tokens, tile.columns, tile.part_rows, tile.part_tokens];
        constants.extend([p.epilogue as u32, activation, p.experts as u32, p.w2.constant()]);
        if kernel == Kernel::Gemm {
            constants.extend([matrix, tile.split, self.is_rounded(p.x), self.is_rounded(p.y), u32::from(slices > 1)]);
        }
        self.launch_as(kernel, threads, &constants, &params, launch)
    }

    /// The kernel and tile for products of `tokens` tokens with `matrices` matrices, `n_out` rows of `n_in` weights
    /// each.
    fn tile(&self, tokens: u32, n_in: u32, n_out: u32, matrices: u32) -> Tiled {
        let matrix = self.tuning.matrix_side(self.traits);
        let [of_16, of_32, of_64, of_many] = self.tuning.tiles;
        let mut tile = match tokens {
            0..=16 => of_16,
            17..=32 => of_32,
            33..=64 => of_64,
            _ => of_many,
        };
        let least = matrix.unwrap_or(16);
        tile.tokens = tokens.next_power_of_two().clamp(least, tile.tokens.max(least));
        let width = self.traits.subgroup_size;
        let Some(matrix) = matrix else {
            tile.rows = tile.rows.max(64);
            tile.columns = tile.columns.min(64);
            if !n_in.is_multiple_of(tile.columns) {
                tile.columns = UNIT;
            }
            [tile.part_rows, tile.part_tokens] = PLAIN_PART;
            let threads = (tile.rows / PLAIN_PART[0]) * (tile.tokens / PLAIN_PART[1]);
            return Tiled { kernel: Kernel::GemmPlain, tile, threads, matrix: 1, slices: 1 };
        };
        let n_tiles = n_out.div_ceil(tile.rows / matrices) * tokens.div_ceil(tile.tokens);
        tile.part_rows = tile.part_rows.clamp((matrix * matrices).min(tile.rows), tile.rows);
        tile.part_tokens = tile.part_tokens.min(tile.tokens);
        let parts = (tile.rows / tile.part_rows) * (tile.tokens / tile.part_tokens);
        // Half as many columns until they fit the row and shared memory.
        let fits = |tile: &Tile| {
            let of_row = 2 * (tile.columns + 8);
            // The sums of its subgroups pass through the tile of weights.
            let sums = 4 * parts * tile.split * matrix * matrix;
            let bytes = (tile.rows * of_row).max(sums) + tile.tokens * of_row + SHARED_LEAVE;
            n_in.is_multiple_of(tile.columns) && bytes <= self.traits.shared_bytes
        };
        while tile.columns > UNIT && !fits(&tile) {
            tile.columns /= 2;
        }
        tile.split = tile.split.min(tile.columns / matrix).min(matrix * matrix / width).max(1);
        let slices_max = (n_in / tile.columns / SLICE_STEPS_MIN).clamp(1, SLICES_MAX);
        let slices = (tile.workgroups / n_tiles).clamp(1, slices_max);
        let threads = parts * tile.split * width;
        Tiled { kernel: Kernel::Gemm, tile, threads, matrix, slices }
    }

    /// Tokens of a tile of the matrix-matrix kernel when `n_slots` slots fall on `n_experts` experts.
    pub(super) fn expert_tile_tokens(&self, n_slots: u32, n_experts: u32) -> u32 {
        let tokens = n_slots.div_ceil(n_experts).next_power_of_two().clamp(16, 64);
        self.tile(tokens, UNIT, u32::MAX, 1).tile.tokens
    }
}
