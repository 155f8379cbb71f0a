//! Products of few tokens by the matrix-vector kernel.

use zinc_gguf::DType;

use super::matmul::{Experts, Product, has_super_blocks, is_float};
use super::{Launch, Recorder, UNIT, row_bytes};
use crate::error::Error;
use crate::params;

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

impl Recorder<'_> {
    /// The launch of `matvec.comp`.
    pub(super) fn matvec(&mut self, p: &Product) -> Result<Launch, Error> {
        let (activation, alpha, limit) = p.activation_words();
        let rows = self.rows(p.x);
        let params = params::Matvec {
            chain: 0,
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
        let launch = self.launch(shape.threads, &constants, &params, [shape.workgroups, shape.launch_rows, 1])?;
        Ok(Launch { is_dense: p.experts == Experts::None, ..launch })
    }

    /// How the matrix-vector kernel makes `p` for at most `n_rows` rows of x.
    fn matvec_shape(&self, p: &Product, n_rows: u32) -> MatvecShape {
        let (tuning, width) = (self.tuning, self.traits.subgroup_size);
        let (n_units, n_matrices) = (p.n_in / UNIT, p.n_matrices());
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
}
