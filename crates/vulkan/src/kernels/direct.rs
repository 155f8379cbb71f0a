//! Products of few tokens whose weights go straight to matrix cores.

use zinc_graph::section::ValueId;

use super::matmul::{Product, has_super_blocks, is_float};
use super::tiles::SHARED_LEAVE;
use super::{Launch, Recorder, UNIT};
use crate::error::Error;
use crate::fragments::Fragment;
use crate::params::Kernel;
use crate::tuning::Direct;
use crate::weights::Placed;

/// Bytes of eight columns of x in shared memory.
const EIGHT_BYTES: u32 = 16;

/// A way to make a product that the device has room for.
#[derive(Clone, Copy)]
pub(super) struct DirectWay {
    fragment: Fragment,
    workgroup: Direct,
    /// Tokens of a workgroup: all.
    tokens: u32,
    /// Units that a lane takes of a row at a time.
    wide: u32,
}

impl Recorder<'_> {
    /// How a product of x with `w`, and with `w2` if it is gated, takes the weights straight to matrix cores, if it does: where the
    /// fragments are known, for few tokens, both matrices of one type that is not a float.
    pub(super) fn direct_way(&self, x: ValueId, w: Placed, w2: Option<Placed>) -> Option<DirectWay> {
        let n_rows = self.rows(x).most;
        let (fragment, [plain, gated]) = self.tuning.direct_for(self.traits, n_rows, self.has_experts)?;
        if is_float(w.dtype) || w2.is_some_and(|w2| w2.constant() != w.constant()) {
            return None;
        }
        let (n_matrices, mut workgroup) = if w2.is_some() { (2, gated) } else { (1, plain) };
        let (tokens, wide) = (n_rows.next_power_of_two(), if has_super_blocks(w.dtype) { 2 } else { 1 });
        // x of a stage, or at the end the sums of all subgroups.
        let line_bytes = (tokens * fragment.side / fragment.columns + 1) * EIGHT_BYTES;
        let x_bytes = |split: u32| split * wide * (UNIT / 8) * line_bytes;
        let sums_bytes =
            workgroup.subgroups * n_matrices * tokens.next_multiple_of(fragment.tokens) * fragment.side * 4;
        let room = self.traits.shared_bytes - SHARED_LEAVE;
        while workgroup.split > 1 && x_bytes(workgroup.split) > room {
            workgroup.split /= 2;
        }
        let fits = x_bytes(workgroup.split).max(sums_bytes) <= room
            && workgroup.subgroups * self.traits.subgroup_size <= self.traits.threads_max;
        fits.then_some(DirectWay { fragment, workgroup, tokens, wide })
    }

    /// The launch of `gemm_direct.comp` for a product without experts and norm.
    pub(super) fn gemm_direct(&mut self, p: &Product, way: DirectWay) -> Result<Launch, Error> {
        let DirectWay { fragment, workgroup: Direct { subgroups, split }, tokens, wide } = way;
        let (activation, ..) = p.activation_words();
        let Fragment { side, columns, .. } = fragment;
        let params = self.gemm_params(p)?;
        let is_exact = p.n_in.is_multiple_of(split * (side / columns) * wide * UNIT);
        let mut constants = vec![p.w.constant(), tokens, split, p.epilogue as u32, activation];
        constants.extend([side, fragment.tokens, columns, fragment.row_step, fragment.share_step]);
        constants.extend([wide, u32::from(is_exact), self.is_rounded(p.x), self.is_rounded(p.y)]);
        let launch = [p.n_out.div_ceil(subgroups / split * side), 1, 1];
        self.launch_as(Kernel::GemmDirect, subgroups * self.traits.subgroup_size, &constants, &params, launch)
    }
}
