//! Products of few tokens whose weights go straight to matrix cores.

use zinc_graph::section::ValueId;

use super::matmul::{Epilogue, Product, has_super_blocks, is_float};
use super::{Recorder, UNIT, activation_words};
use crate::commands::Dispatch;
use crate::error::Error;
use crate::fragments::Fragment;
use crate::params::{self, Kernel};
use crate::tuning::Direct;
use crate::weights::Placed;

/// Bytes of eight columns of x in shared memory, and of that which the kernel needs for other things.
const EIGHT_BYTES: u32 = 16;
const SHARED_LEAVE: u32 = 1024;

impl Recorder<'_> {
    /// How a product of x with `w`, and `w2` if it is gated, takes the weights straight to matrix cores, if it does: where
    /// the fragments are known, for few tokens, both matrices of one type that is not a float.
    pub(super) fn direct_way(&self, x: ValueId, w: Placed, w2: Placed) -> Option<(Fragment, Direct)> {
        let way = self.tuning.direct_for(self.traits, self.rows(x).most)?;
        (!is_float(w.dtype) && w.constant() == w2.constant()).then_some(way)
    }

    pub(super) fn gemm_direct(&mut self, p: &Product, (of, how): (Fragment, Direct)) -> Result<Dispatch, Error> {
        let (activation, alpha, limit) = p.activation.map_or((0, 0.0, 0.0), activation_words);
        let n_rows = self.rows(p.x).most;
        let (n_matrices, [subgroups, mut split]) =
            if p.epilogue == Epilogue::Glu { (2, how.gated) } else { (1, how.plain) };
        let wide = if has_super_blocks(p.w.dtype) { 2 } else { 1 };
        let tokens = n_rows.next_power_of_two();
        let shares = of.side / of.columns;
        // x of a stage, or at the end the sums of all subgroups.
        let x_bytes = |split: u32| split * wide * (UNIT / 8) * (tokens * shares + 1) * EIGHT_BYTES;
        let sums_bytes = subgroups * n_matrices * tokens.next_multiple_of(of.tokens) * of.side * 4;
        while split > 1 && x_bytes(split).max(sums_bytes) + SHARED_LEAVE > self.traits.shared_bytes {
            split /= 2;
        }
        let params = params::Gemm { alpha, limit, ..self.gemm_params(p)? };
        let is_exact = p.n_in.is_multiple_of(split * shares * wide * UNIT);
        let mut constants = vec![p.w.constant(), tokens, split, p.epilogue as u32, activation];
        constants.extend([of.side, of.tokens, of.columns, of.row_step, of.share_step, wide, u32::from(is_exact)]);
        constants.extend([self.is_rounded(p.x), self.is_rounded(p.y)]);
        let launch = [p.n_out.div_ceil(subgroups / split * of.side), 1, 1];
        self.launch_as(Kernel::GemmDirect, subgroups * self.traits.subgroup_size, &constants, &params, launch)
    }
}
