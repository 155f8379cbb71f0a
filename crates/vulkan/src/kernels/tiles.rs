//! Products of many tokens by the matrix-matrix kernels that put tiles into shared memory.

use super::matmul::{Groups, Product};
use super::{Launch, Recorder, UNIT};
use crate::error::Error;
use crate::params::{self, Kernel};
use crate::tuning::{TILE_WORKGROUPS_MAX, Tile};

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
    /// The launch of `gemm.comp` or `gemm_plain.comp`; `groups` if it is of experts.
    pub(super) fn gemm(&mut self, p: &Product, groups: Option<Groups>) -> Result<Launch, Error> {
        let (activation, ..) = p.activation_words();
        let rows = self.rows(p.x);
        let matrices = p.n_matrices();
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
