//! Ops that treat every row by itself: look-ups, norms, cuts and functions of single elements.

use zinc_graph::ops::{Activation, L2Norm, RmsNorm, Slice, SliceGlu};
use zinc_graph::section::Node;

use super::{Launch, Recorder, THREADS, UNIT, activation_words, row_bytes};
use crate::error::Error;
use crate::params;

/// Threads that share a wide row of a norm: for a single row, what counts is how soon it is done.
const NORM_THREADS: u32 = 512;

/// Columns that a workgroup of argmax takes, and workgroups of a row at most.
pub(crate) const ARGMAX_COLUMNS: u32 = 2048;
pub(crate) const ARGMAX_PARTS_MAX: u32 = 128;

/// What the elementwise kernel computes, as its constant FUNCTION.
#[derive(Clone, Copy)]
enum Function {
    Add = 0,
    Glu = 1,
    Softcap = 2,
    Scale = 3,
    GateRows = 4,
}

/// The operands of an elementwise function beside the first input.
struct Operands {
    b: u64,
    activation: u32,
    alpha: f32,
    limit: f32,
}

impl Recorder<'_> {
    pub(super) fn embed(&mut self, node: &Node, scale: f32) -> Result<Launch, Error> {
        let y = node.outputs.as_slice()[0];
        let width = self.cols(y);
        let table = self.weight(node.weights.as_slice()[0]);
        let row_bytes = row_bytes("embed", table.dtype, width)?;
        let (y, step) = (self.value(y), self.at.step);
        let params = params::Embed { table: table.address, y, step, width, row_bytes, scale };
        self.launch(64, &[table.constant()], &params, [(width / UNIT).div_ceil(64), self.at.bucket.tokens, 1])
    }

    /// Plain, or of the sum of two inputs, which is kept.
    pub(super) fn rms_norm(&mut self, node: &Node, op: RmsNorm, add: bool) -> Result<Launch, Error> {
        self.norm(node, op, add, None)
    }

    pub(super) fn norm_glu(&mut self, node: &Node, op: RmsNorm, activation: Activation) -> Result<Launch, Error> {
        self.norm(node, op, false, Some(activation))
    }

    fn norm(&mut self, node: &Node, op: RmsNorm, add: bool, glu: Option<Activation>) -> Result<Launch, Error> {
        let x = node.inputs.as_slice()[0];
        let (cols, rows) = (self.cols(x), self.rows(x));
        let w = self.optional_weight(node, 0);
        let (other, sum, y) = match add {
            true => (self.input(node, 1), self.output(node, 0), self.output(node, 1)),
            false => (0, 0, self.output(node, 0)),
        };
        let other = if glu.is_some() { self.input(node, 1) } else { other };
        let (activation, alpha, limit) = glu.map_or((0, 0.0, 0.0), activation_words);
        let params = params::RmsNorm {
            chain: 0,
            x: self.value(x),
            other,
            w,
            sum,
            y,
            step: self.at.step,
            cols,
            rows: rows.symbol,
            eps: op.eps,
            alpha,
            limit,
        };
        let rounded = self.is_rounded(node.outputs.as_slice()[usize::from(add)]);
        let constants = [u32::from(add), u32::from(w != 0), u32::from(glu.is_some()), activation, rounded, op.width];
        self.launch(self.norm_threads(op.width), &constants, &params, [cols / op.width, rows.most, 1])
    }

    pub(super) fn l2_norm(&mut self, node: &Node, op: L2Norm) -> Result<Launch, Error> {
        let x = node.inputs.as_slice()[0];
        let (cols, rows) = (self.cols(x), self.rows(x));
        let params = params::L2Norm {
            x: self.value(x),
            y: self.output(node, 0),
            step: self.at.step,
            width: op.width,
            cols,
            rows: rows.symbol,
            eps: op.eps,
            scale: op.scale,
        };
        self.launch(self.norm_threads(op.width), &[], &params, [cols / op.width, rows.most, 1])
    }

    /// Threads that share a group of `width` columns.
    fn norm_threads(&self, width: u32) -> u32 {
        match width {
            0..=128 => self.traits.subgroup_size,
            129..2048 => THREADS,
            _ => NORM_THREADS,
        }
    }

    pub(super) fn add(&mut self, node: &Node) -> Result<Launch, Error> {
        let b = self.input(node, 1);
        self.elementwise(node, Function::Add, Operands { b, activation: 0, alpha: 0.0, limit: 0.0 })
    }

    pub(super) fn glu(&mut self, node: &Node, activation: Activation) -> Result<Launch, Error> {
        let (activation, alpha, limit) = activation_words(activation);
        let b = self.input(node, 1);
        self.elementwise(node, Function::Glu, Operands { b, activation, alpha, limit })
    }

    pub(super) fn slice_glu(&mut self, node: &Node, op: SliceGlu) -> Result<Launch, Error> {
        let (activation, alpha, limit) = activation_words(op.glu.activation);
        let b = self.input(node, 1);
        self.elementwise_of(node, Function::Glu, Operands { b, activation, alpha, limit }, Some(op.slice))
    }

    pub(super) fn softcap(&mut self, node: &Node, cap: f32) -> Result<Launch, Error> {
        self.elementwise(node, Function::Softcap, Operands { b: 0, activation: 0, alpha: 0.0, limit: cap })
    }

    pub(super) fn scale(&mut self, node: &Node, factor: f32) -> Result<Launch, Error> {
        let b = self.optional_weight(node, 0);
        self.elementwise(node, Function::Scale, Operands { b, activation: 0, alpha: factor, limit: 0.0 })
    }

    pub(super) fn gate_rows(&mut self, node: &Node) -> Result<Launch, Error> {
        let b = self.input(node, 1);
        self.elementwise(node, Function::GateRows, Operands { b, activation: 0, alpha: 0.0, limit: 0.0 })
    }

    fn elementwise(&mut self, node: &Node, function: Function, operands: Operands) -> Result<Launch, Error> {
        self.elementwise_of(node, function, operands, None)
    }

    /// The same with the first input cut out of a wider row.
    fn elementwise_of(
        &mut self,
        node: &Node,
        function: Function,
        operands: Operands,
        cut: Option<Slice>,
    ) -> Result<Launch, Error> {
        let (a, out) = (node.inputs.as_slice()[0], node.outputs.as_slice()[0]);
        let (cols, rows) = (self.cols(out), self.rows(out));
        let Operands { b, activation, alpha, limit } = operands;
        let (offset, width, width_in) = cut.map_or((0, 1, 1), |cut| (cut.offset, cut.width, cut.width_in));
        let params = params::Elementwise {
            a: self.value(a) + 4 * u64::from(offset),
            b,
            y: self.value(out),
            step: self.at.step,
            cols,
            rows: rows.symbol,
            cols_in: self.cols(a),
            width,
            width_in,
            alpha,
            limit,
        };
        let constants =
            [function as u32, activation, u32::from(b != 0), self.is_rounded(out), u32::from(cut.is_some())];
        self.launch(THREADS, &constants, &params, [cols.div_ceil(THREADS), rows.most, 1])
    }

    pub(super) fn slice(&mut self, node: &Node, op: Slice) -> Result<Launch, Error> {
        let (x, y) = (node.inputs.as_slice()[0], node.outputs.as_slice()[0]);
        let (cols, rows) = (self.cols(y), self.rows(y));
        let params = params::Slice {
            x: self.value(x),
            y: self.value(y),
            step: self.at.step,
            cols,
            cols_in: self.cols(x),
            width: op.width,
            width_in: op.width_in,
            offset: op.offset,
            rows: rows.symbol,
        };
        self.launch(THREADS, &[], &params, [cols.div_ceil(THREADS), rows.most, 1])
    }

    pub(super) fn select_rows(&mut self, node: &Node) -> Result<Launch, Error> {
        let x = node.inputs.as_slice()[0];
        let cols = self.cols(x);
        let params = params::SelectRows { x: self.value(x), y: self.output(node, 0), step: self.at.step, cols };
        self.launch(THREADS, &[], &params, [cols.div_ceil(THREADS), self.at.bucket.outputs, 1])
    }

    pub(super) fn argmax(&mut self, node: &Node) -> Result<Launch, Error> {
        let x = node.inputs.as_slice()[0];
        let (cols, rows) = (self.cols(x), self.rows(x));
        let n_parts = cols.div_ceil(ARGMAX_COLUMNS).clamp(1, ARGMAX_PARTS_MAX);
        let (mut parts, mut arrived) = (0, 0);
        if n_parts > 1 {
            parts = self.scratch.reserve(8 * u64::from(rows.most) * u64::from(n_parts))?;
            arrived = self.scratch.reserve(4 * u64::from(rows.most))?;
        }
        let (y, step) = (self.output(node, 0), self.at.step);
        let params = params::Argmax { x: self.value(x), y, parts, arrived, step, cols, rows: rows.symbol };
        self.launch(THREADS, &[n_parts], &params, [n_parts, rows.most, 1])
    }
}
