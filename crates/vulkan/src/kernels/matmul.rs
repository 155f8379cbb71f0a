//! Products with a matrix: plain, with bias or residual, gated, and of chosen experts.

use zinc_graph::ops::{Activation, ExpertMatmul};
use zinc_graph::section::Node;

use super::{Recorder, activation_words, row_bytes};
use crate::commands::Dispatch;
use crate::error::Error;
use crate::params;

/// What follows the product, as the kernel's constant EPILOGUE.
#[derive(Clone, Copy)]
enum Epilogue {
    Plain = 0,
    Bias = 1,
    Add = 2,
    Glu = 3,
}

/// Whose matrix it is, as the kernel's constant EXPERTS.
#[derive(Clone, Copy)]
enum Experts {
    None = 0,
    /// All slots of a token read one input row.
    OfToken = 1,
    /// Each slot has its own.
    OfSlot = 2,
}

/// Weight rows that a subgroup takes at a time.
const ROWS: u32 = 2;
/// Tokens that a subgroup takes at a time, at most.
const TOKENS_MAX: u32 = 8;

impl Recorder<'_> {
    pub(super) fn matmul(&mut self, node: &Node) -> Result<Dispatch, Error> {
        match self.optional_weight(node, 1) {
            0 => self.product(node, Epilogue::Plain, 0, None),
            bias => self.product(node, Epilogue::Bias, bias, None),
        }
    }

    pub(super) fn matmul_add(&mut self, node: &Node) -> Result<Dispatch, Error> {
        let residual = self.input(node, 1);
        self.product(node, Epilogue::Add, residual, None)
    }

    pub(super) fn matmul_glu(&mut self, node: &Node, activation: Activation) -> Result<Dispatch, Error> {
        self.product(node, Epilogue::Glu, 0, Some(activation))
    }

    fn product(
        &mut self,
        node: &Node,
        epilogue: Epilogue,
        other: u64,
        activation: Option<Activation>,
    ) -> Result<Dispatch, Error> {
        let (x, y) = (node.inputs.as_slice()[0], node.outputs.as_slice()[0]);
        let (n_in, n_out) = (self.cols(x), self.cols(y));
        let (dtype, w) = self.weight(node.weights.as_slice()[0]);
        // Only a gated product has a second matrix; it may be stored in another type.
        let second = match epilogue {
            Epilogue::Glu => self.weight(node.weights.as_slice()[1]),
            _ => (dtype, 0),
        };
        let (activation, alpha, limit) = activation.map_or((0, 0.0, 0.0), activation_words);
        let rows = self.rows(x);
        let params = params::Matvec {
            w,
            w2: second.1,
            x: self.value(x),
            other,
            y: self.value(y),
            ids: 0,
            step: self.at.step,
            n_in,
            n_out,
            row_bytes: row_bytes(node.op.name(), dtype, n_in)?,
            row_bytes2: row_bytes(node.op.name(), second.0, n_in)?,
            rows: rows.symbol,
            n_used: 1,
            alpha,
            limit,
        };
        let n_tokens = rows.most.next_power_of_two().min(TOKENS_MAX);
        let constants = [dtype.id(), ROWS, n_tokens, epilogue as u32, activation, Experts::None as u32, second.0.id()];
        self.launch_rows(&params, constants, n_out, rows.most.div_ceil(n_tokens))
    }

    /// A launch row is one (token, slot): its expert is known only on the device.
    pub(super) fn expert_matmul(&mut self, node: &Node, op: ExpertMatmul) -> Result<Dispatch, Error> {
        let (x, y) = (node.inputs.as_slice()[0], node.outputs.as_slice()[0]);
        let (dtype, w) = self.weight(node.weights.as_slice()[0]);
        let other = self.optional_weight(node, 1);
        let rows = self.rows(x);
        let params = params::Matvec {
            w,
            w2: 0,
            x: self.value(x),
            other,
            y: self.value(y),
            ids: self.input(node, 1),
            step: self.at.step,
            n_in: op.n_in,
            n_out: op.n_out,
            row_bytes: row_bytes(node.op.name(), dtype, op.n_in)?,
            row_bytes2: 0,
            rows: rows.symbol,
            n_used: op.n_used,
            alpha: 0.0,
            limit: 0.0,
        };
        let epilogue = if other == 0 { Epilogue::Plain } else { Epilogue::Bias };
        let experts = if op.n_parts == 1 { Experts::OfToken } else { Experts::OfSlot };
        let constants = [dtype.id(), ROWS, 1, epilogue as u32, 0, experts as u32, dtype.id()];
        self.launch_rows(&params, constants, op.n_out, rows.most.saturating_mul(op.n_used))
    }

    fn launch_rows(
        &mut self,
        params: &params::Matvec,
        constants: [u32; 7],
        n_out: u32,
        y: u32,
    ) -> Result<Dispatch, Error> {
        let width = self.traits.subgroup_size;
        let threads = 128.max(width);
        self.launch(threads, &constants, params, [n_out.div_ceil(ROWS * threads / width), y, 1])
    }
}
