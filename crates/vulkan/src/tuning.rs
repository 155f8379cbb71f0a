//! Choices per GPU family, in one place, each with the reason or the measurement behind it.

use crate::device::Traits;
use crate::fragments::Fragment;

/// PCI vendor ids.
pub const AMD: u32 = 0x1002;
/// NVIDIA.
pub const NVIDIA: u32 = 0x10de;
/// Intel.
pub const INTEL: u32 = 0x8086;

/// Width that kernels are compiled for. RDNA runs 64 wide: long dot products then issue half the
/// instructions a byte; elsewhere the driver's own width stands.
#[must_use]
pub fn subgroup_size(vendor_id: u32, default: u32, range: (u32, u32)) -> u32 {
    if vendor_id == AMD && range.0 <= 64 && 64 <= range.1 { 64 } else { default }
}

/// A tile of the matrix-matrix kernels, and who makes what of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of the matrix.
    pub rows: u32,
    /// Tokens, at most.
    pub tokens: u32,
    /// Columns of a step.
    pub columns: u32,
    /// Rows that a subgroup makes; a gated product needs two matrices of the device's size.
    pub part_rows: u32,
    /// Tokens that it makes, at most.
    pub part_tokens: u32,
    /// Subgroups that share the columns of a step.
    pub split: u32,
    /// Workgroups that a product of few rows is to have at most by cutting its columns into slices.
    pub workgroups: u32,
}

/// How a workgroup of the kernel that takes weights straight to matrix cores is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Subgroups.
    pub subgroups: u32,
    /// How many of them share the columns of the same rows.
    pub split: u32,
}

/// The same for a product with one matrix, and for a gated one.
pub type DirectPair = [Direct; 2];

const fn direct([subgroups, split]: [u32; 2], [gated, gated_split]: [u32; 2]) -> DirectPair {
    [Direct { subgroups, split }, Direct { subgroups: gated, split: gated_split }]
}

/// Workgroups that any family's tiles ask for, at most: `footprint` counts the sums of so many.
pub(crate) const TILE_WORKGROUPS_MAX: u32 = 400;

impl Tile {
    const fn new(
        [rows, tokens, columns]: [u32; 3],
        [part_rows, part_tokens]: [u32; 2],
        split: u32,
        workgroups: u32,
    ) -> Tile {
        Tile { rows, tokens, columns, part_rows, part_tokens, split, workgroups }
    }
}

/// The tiles of a family, within what `footprint` counts.
const fn tiles(tiles: [Tile; 4]) -> [Tile; 4] {
    let [of_16, of_32, of_64, of_many] = tiles;
    assert!(of_16.workgroups <= TILE_WORKGROUPS_MAX && of_32.workgroups <= TILE_WORKGROUPS_MAX);
    assert!(of_64.workgroups <= TILE_WORKGROUPS_MAX && of_many.workgroups == 1);
    tiles
}

/// How the delta net goes through the tokens of long sequences. All are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaChunk {
    /// Tokens of a chunk: 4, 8 or 16.
    pub tokens: u32,
    /// Lanes that share a row of the state, at most.
    pub lanes: u32,
    /// Rows of the state that those lanes hold, at most.
    pub rows: u32,
    /// Threads of a workgroup, at most.
    pub threads: u32,
}

/// Most tokens that a chunk of the delta net has.
pub(crate) const DELTA_CHUNK_TOKENS_MAX: u32 = 16;
/// Tokens that a sequence may have in a step to be taken token by token, in every family.
pub(crate) const DELTA_CHUNK_ABOVE: u32 = 32;

/// Workgroups that any family's attention asks for: `footprint` counts the parts of so many.
pub(crate) const ATTENTION_WORKGROUPS_MAX: u32 = 512;

/// What a family of GPUs runs best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Rows of the matrix that a subgroup of the matrix-vector kernel takes; half of them where a lane takes 64 weights.
    pub matvec_rows: u32,
    /// The same where a row has no more units than the subgroup has lanes.
    pub matvec_rows_short: u32,
    /// The same for the gated product, which has two matrices.
    pub matvec_rows_gated: u32,
    /// Whether it multiplies bytes, with x as integers of 16 bits.
    pub integer_dot: bool,
    /// Whether it takes the norm before it along.
    pub matvec_norm: bool,
    /// Threads of its workgroup.
    pub matvec_threads: u32,
    /// The same, at least, of products of so few rows that they would leave a part of the device idle.
    pub matvec_threads_least: u32,
    /// Bytes of x that a workgroup holds, at most; a longer x is brought in stages.
    pub matvec_shared: u32,
    /// Workgroups of a product whose x is held, at most: each then makes several groups of rows.
    pub matvec_workgroups: u32,
    /// Items of a row that a lane has under way at a time, for one or two tokens.
    pub matvec_ahead: u32,
    /// Whether a barrier of the subgroup keeps its loads before the products that they are to come behind.
    pub matvec_hold: bool,
    /// Tokens that it takes at a time, at most: a power of two.
    pub matvec_tokens: u32,
    /// Steps of more tokens than this use a matrix-matrix kernel.
    pub gemm_above: u32,
    /// Where the fragments are known, steps of more tokens than this and of up to `direct_most` take weights straight to matrix cores.
    pub direct_above: u32,
    /// The same for models with experts, most of whose weights go to the matrix-vector kernel, which can take norms along.
    pub direct_above_experts: u32,
    /// 0 for never, 16 at most.
    pub direct_most: u32,
    /// How, for up to 4 tokens, up to 8, and up to 16.
    pub direct: [DirectPair; 3],
    /// Which elements of a matrix a lane has, if that is known: found by [`crate::Device::open`], no choice.
    pub fragment: Option<Fragment>,
    /// As `gemm_above`, for products with experts, counted in tokens.
    pub expert_gemm_above: u32,
    /// Steps of up to this many tokens have phases that follow each other without a barrier; 0 where it is not known that workgroups
    /// begin in the order of their commands.
    pub chain_most: u32,
    /// Whether matrix cores are used where there are any.
    pub matrix_cores: bool,
    /// Tiles of the matrix-matrix kernel: for up to 16 tokens, up to 32, up to 64, and for more.
    pub tiles: [Tile; 4],
    /// Tokens that a sequence may have in a step to be left to the kernel for few queries.
    pub attention_few: u32,
    /// Steps of up to so many tokens rotate queries and keys in that kernel; 16 at most.
    pub attention_rope_most: u32,
    /// A query head of a token that sees up to so many keys, times the tokens of the step, has a workgroup of its own; 0 for never.
    pub attention_short: u32,
    /// Threads of that.
    pub attention_threads_short: u32,
    /// Its workgroups in a step, about: the keys of few tokens are cut into parts for as many.
    pub attention_workgroups: u32,
    /// Threads of a workgroup of that kernel, and in steps of so few tokens that they leave the device idle.
    pub attention_threads: u32,
    /// In steps of few tokens.
    pub attention_threads_few: u32,
    /// Least keys of a part, where the keys of a token are cut into parts.
    pub attention_keys: u32,
    /// In steps of few tokens.
    pub attention_keys_few: u32,
    /// Tokens that a sequence may have in a step to be left to the delta net's kernel for single tokens.
    pub delta_chunk_above: u32,
    /// How longer ones are taken.
    pub delta_chunk: DeltaChunk,
}

impl Tuning {
    /// The table.
    #[must_use]
    pub fn of(traits: &Traits) -> Tuning {
        let base = Tuning {
            matvec_rows: 2,
            matvec_rows_short: 2,
            matvec_rows_gated: 2,
            integer_dot: traits.has_integer_dot,
            matvec_norm: true,
            matvec_threads: 256,
            matvec_threads_least: 256,
            matvec_shared: 16 << 10,
            matvec_workgroups: 1 << 12,
            matvec_ahead: 1,
            matvec_hold: false,
            matvec_tokens: 4,
            gemm_above: 4,
            direct_above: 1,
            direct_above_experts: 1,
            // Measured on no such card.
            direct_most: 0,
            direct: [direct([4, 4], [4, 4]); 3],
            fragment: None,
            expert_gemm_above: 32,
            // Known of no such card.
            chain_most: 0,
            matrix_cores: true,
            tiles: const {
                tiles([
                    // Two workgroups for each of the 96 compute units of an RX 7900 XTX, and taken over for Intel. Measured on
                    // no such card.
                    Tile::new([64, 16, 128], [32, 16], 2, 192),
                    Tile::new([64, 32, 128], [32, 32], 2, 192),
                    Tile::new([64, 64, 128], [32, 32], 1, 192),
                    Tile::new([64, 128, 64], [32, 64], 1, 1),
                ])
            },
            attention_few: 8,
            // H200, barriers between all phases, Qwen3-8B, 1, 2, 4, 8 sequences: 400, 654, 1,267, 2,331 with this and the next, 390,
            // 630, 1,230, 2,160 without either. Measured on no other card.
            attention_rope_most: 8,
            attention_short: 512,
            attention_threads_short: 256,
            attention_workgroups: ATTENTION_WORKGROUPS_MAX,
            attention_threads: 128,
            attention_threads_few: 512,
            attention_keys: 128,
            attention_keys_few: 128,
            delta_chunk_above: DELTA_CHUNK_ABOVE,
            delta_chunk: DeltaChunk { tokens: 8, lanes: 16, rows: 2, threads: 128 },
        };
        match traits.vendor_id {
            NVIDIA => Self::of_nvidia(base),
            AMD | INTEL => base,
            // CPU drivers: small tiles, since a workgroup runs on one core.
            _ => Tuning {
                tiles: const {
                    tiles([
                        Tile::new([32, 16, 128], [16, 16], 2, 8),
                        Tile::new([32, 32, 32], [16, 16], 1, 8),
                        Tile::new([32, 32, 32], [16, 16], 1, 8),
                        Tile::new([32, 32, 32], [16, 16], 1, 1),
                    ])
                },
                // Two pairs of subgroups that share columns, so that tests see several of both.
                direct: [direct([4, 2], [4, 2]); 3],
                // They run one launch after the other.
                chain_most: 8,
                integer_dot: false,
                attention_short: 40,
                attention_threads_short: 64,
                attention_threads_few: 64,
                attention_threads: 64,
                ..base
            },
        }
    }

    fn of_nvidia(base: Tuning) -> Tuning {
        // H200, Qwen3-8B Q4_K_M, tok/s. One token: 351 with these, 312 with 264 workgroups, 319 with 528 of 256 threads;
        // with a later form of the kernel 395, with two rows 301. 2 sequences: 501, on matrix cores 288 to 347; 3: 526, on
        // matrix cores 518; 4: 631 to 676, on matrix cores 699. 16 sequences: 2,663 with this tile, 2,630 with up to 264
        // workgroups. 32: 3,991, with subgroups of 32 x 16 3,879, of 64 x 32 3,432. 64: 6,263, with up to 400 workgroups
        // 5,975, with tiles of 16 rows instead 5,322. Prompt: 12,112, with subgroups of 32 x 64 12,024, with 128x64x64 and
        // 64 x 32 9,775.
        Tuning {
            tiles: const {
                tiles([
                    Tile::new([64, 16, 128], [32, 16], 4, 400),
                    Tile::new([64, 32, 128], [32, 32], 4, 264),
                    Tile::new([64, 64, 128], [32, 32], 2, 264),
                    Tile::new([64, 128, 64], [64, 32], 1, 1),
                ])
            },
            gemm_above: 3,
            // Qwen3-8B, 2, 4, 8, 16 sequences: 627, 1,231, 2,158, 3,042 with these; by the matrix-vector kernel or in tiles 558, 794,
            // 1,524, 2,949. 8 with four subgroups for gated products 2,027; 4 with four for all 1,144. 32 with a variant for as
            // many: 4,260, in tiles 4,372.
            direct_most: 16,
            // 35B-A3B, 2 sequences: 578 with the matrix-vector kernel, 543 without it. 4: 732 and 837.
            direct_above_experts: 3,
            direct: [direct([8, 8], [4, 4]), direct([4, 4], [2, 2]), direct([8, 4], [4, 4])],
            // 16 sequences: 2,672 with these, 2,626 with 128, of which one sequence had 343 where 64 gave 324.
            attention_keys: 64,
            // 1, 2, 4 sequences: 333, 536, 711 with these, 330, 523, 695 with 128.
            attention_keys_few: 256,
            // Qwen3-8B, 1, 2, 4, 8, 16 sequences: 375, 661, 1,339, 2,223, 2,793 with all linked, 387, 636, 1,217, 2,149, 3,047 with
            // barriers; one sequence without links between its products and with fewer workgroups of attention 393 and 391.
            chain_most: 8,
            // 1, 2, 4, 8 sequences: 408, 714, 1,383, 2,536 with these, 406, 701, 1,358, 2,543 with 256, whose idle ones take longer.
            attention_workgroups: 128,
            matvec_rows: 1,
            matvec_rows_gated: 1,
            matvec_threads: 512,
            // 35B-A3B, one token: 309 with these, 304 with 256, 293 with 512.
            matvec_threads_least: 128,
            matvec_shared: 40 << 10,
            matvec_workgroups: 132,
            // Qwen3-8B, one token, us: head 126 with these, 141 with one; gate and up 20.5 and 21.0.
            matvec_ahead: 2,
            // 1, 2 sequences: 377 and 545 with it, 371 and 536 without.
            matvec_hold: true,
            // 35B-A3B: 32 sequences 1,738, and 1,599 with 32; 16 sequences 1,326, and 1,227 with 8.
            expert_gemm_above: 16,
            ..base
        }
    }

    /// Side of the device's matrices, where there are any and they are used.
    #[must_use]
    pub fn matrix_side(&self, traits: &Traits) -> Option<u32> {
        traits.matrix_tile.filter(|_| self.matrix_cores)
    }

    /// How weights are taken straight to matrix cores in steps of so many tokens, if they are.
    #[must_use]
    pub fn direct_for(&self, traits: &Traits, tokens: u32, has_experts: bool) -> Option<(Fragment, DirectPair)> {
        let fragment = self.fragment.filter(|_| self.matrix_side(traits).is_some())?;
        let above = if has_experts { self.direct_above_experts } else { self.direct_above };
        let [of_4, of_8, of_16] = self.direct;
        let pair = match tokens {
            0..=4 => of_4,
            5..=8 => of_8,
            _ => of_16,
        };
        (above < tokens && tokens <= self.direct_most).then_some((fragment, pair))
    }

    /// Changes one entry, for measurements: `matvec_rows=4`, `tile_16=32x16x256x32x16x8x200`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        let numbers: Option<Vec<u32>> = value.split('x').map(|n| n.parse().ok().filter(|&n| n <= 1 << 16)).collect();
        let numbers =
            numbers.ok_or_else(|| format!("`{value}` is not a number up to 65536, or several with x between"))?;
        if let Some(at) = ["tile_16", "tile_32", "tile_64", "tile_many"].iter().position(|tile| *tile == name) {
            let [rows, tokens, columns, part_rows, part_tokens, split, workgroups] = numbers[..] else {
                return Err(format!("`{name}` takes ROWSxTOKENSxCOLUMNSxROWSxTOKENSxSPLITxWORKGROUPS"));
            };
            let workgroups_max = if name == "tile_many" { 1 } else { TILE_WORKGROUPS_MAX };
            if numbers.contains(&0) || workgroups > workgroups_max {
                return Err(format!("`{name}` takes numbers above 0, and at most {workgroups_max} workgroups"));
            }
            self.tiles[at] = Tile { rows, tokens, columns, part_rows, part_tokens, split, workgroups };
            return Ok(());
        }
        if name.starts_with("direct_") || name == "attention_rope_most" {
            return self.set_few(name, &numbers);
        }
        if name == "delta_chunk" {
            let [tokens, lanes, rows, threads] = numbers[..] else {
                return Err(format!("`{name}` takes TOKENSxLANESxROWSxTHREADS"));
            };
            let tokens_fit = (4..=DELTA_CHUNK_TOKENS_MAX).contains(&tokens);
            if !tokens_fit || threads > 1024 || !numbers.iter().all(|n| n.is_power_of_two()) {
                return Err(format!("`{name}` takes powers of two: 4 to 16 tokens, and at most 1024 threads"));
            }
            self.delta_chunk = DeltaChunk { tokens, lanes, rows, threads };
            return Ok(());
        }
        let place: &mut [u32] = match name {
            "matvec_rows" => std::slice::from_mut(&mut self.matvec_rows),
            "matvec_rows_short" => std::slice::from_mut(&mut self.matvec_rows_short),
            "matvec_rows_gated" => std::slice::from_mut(&mut self.matvec_rows_gated),
            "matvec_threads" => std::slice::from_mut(&mut self.matvec_threads),
            "matvec_threads_least" => std::slice::from_mut(&mut self.matvec_threads_least),
            "matvec_shared" => std::slice::from_mut(&mut self.matvec_shared),
            "matvec_workgroups" => std::slice::from_mut(&mut self.matvec_workgroups),
            "matvec_ahead" => std::slice::from_mut(&mut self.matvec_ahead),
            "matvec_tokens" => std::slice::from_mut(&mut self.matvec_tokens),
            "gemm_above" => std::slice::from_mut(&mut self.gemm_above),
            "expert_gemm_above" => std::slice::from_mut(&mut self.expert_gemm_above),
            "chain_most" => std::slice::from_mut(&mut self.chain_most),
            "attention_workgroups" => std::slice::from_mut(&mut self.attention_workgroups),
            "attention_short" => std::slice::from_mut(&mut self.attention_short),
            "attention_threads_short" => std::slice::from_mut(&mut self.attention_threads_short),
            "attention_few" => std::slice::from_mut(&mut self.attention_few),
            "attention_threads" => std::slice::from_mut(&mut self.attention_threads),
            "attention_threads_few" => std::slice::from_mut(&mut self.attention_threads_few),
            "attention_keys_few" => std::slice::from_mut(&mut self.attention_keys_few),
            "attention_keys" => std::slice::from_mut(&mut self.attention_keys),
            "delta_chunk_above" => std::slice::from_mut(&mut self.delta_chunk_above),
            "matrix_cores" | "matvec_norm" | "matvec_hold" | "integer_dot" => {
                let place = match name {
                    "matrix_cores" => &mut self.matrix_cores,
                    "matvec_norm" => &mut self.matvec_norm,
                    "matvec_hold" => &mut self.matvec_hold,
                    _ => &mut self.integer_dot,
                };
                *place = value != "0";
                return Ok(());
            }
            _ => return Err(format!("there is no tuning entry `{name}`")),
        };
        // Of these 0 means never.
        let least = if matches!(name, "chain_most" | "attention_short") { 0 } else { 1 };
        if place.len() != numbers.len() || numbers.iter().any(|n| *n < least) {
            return Err(format!("`{name}` takes {} numbers from {least} on", place.len()));
        }
        place.copy_from_slice(&numbers);
        Ok(())
    }

    /// Entries of few tokens.
    fn set_few(&mut self, name: &str, numbers: &[u32]) -> Result<(), String> {
        if let Some(at) = ["direct_4", "direct_8", "direct_16"].iter().position(|entry| *entry == name) {
            let pair = match *numbers {
                [subgroups, split, gated, gated_split] => direct([subgroups, split], [gated, gated_split]),
                _ => direct([0; 2], [0; 2]),
            };
            let is_fit =
                |of: &Direct| of.subgroups.is_power_of_two() && of.split.is_power_of_two() && of.split <= of.subgroups;
            if !pair.iter().all(is_fit) {
                return Err(format!(
                    "`{name}` takes SUBGROUPSxSPLITxSUBGROUPSxSPLIT, the second pair for gated products: powers of two, and no larger \
                     split than there are subgroups"
                ));
            }
            self.direct[at] = pair;
            return Ok(());
        }
        let place = match name {
            "direct_above" => &mut self.direct_above,
            "direct_above_experts" => &mut self.direct_above_experts,
            "direct_most" => &mut self.direct_most,
            "attention_rope_most" => &mut self.attention_rope_most,
            _ => return Err(format!("there is no tuning entry `{name}`")),
        };
        *place = match *numbers {
            [n] if n <= 16 => n,
            _ => return Err(format!("`{name}` takes a number up to 16")),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(vendor_id: u32) -> Traits {
        Traits {
            vendor_id,
            device_id: 0,
            driver_id: ash::vk::DriverId::default(),
            subgroup_size: 32,
            subgroup_range: (32, 32),
            shared_bytes: 48 << 10,
            groups_max: [65_535; 3],
            threads_max: 1024,
            matrix_tile: Some(16),
            matrix_tokens: Some(8),
            has_integer_dot: true,
            allocation_bytes_max: 1 << 32,
            timestamp_ns: 1.0,
            is_unified: false,
            is_host_writable: false,
            has_memory_budget: true,
        }
    }

    #[test]
    fn weights_go_straight_to_matrix_cores_only_where_that_was_measured() {
        let fragment = Some(Fragment { side: 16, tokens: 8, columns: 4, row_step: 4, share_step: 1 });
        let steps = |tuning: &Tuning, traits: &Traits, has_experts| -> Vec<u32> {
            (1..=20).filter(|&tokens| tuning.direct_for(traits, tokens, has_experts).is_some()).collect()
        };
        let nvidia = traits(NVIDIA);
        let unknown = Tuning::of(&nvidia);
        assert!(steps(&unknown, &nvidia, false).is_empty(), "without fragments");
        let mut known = Tuning { fragment, ..unknown };
        assert_eq!(steps(&known, &nvidia, false), (2..=16).collect::<Vec<_>>());
        assert_eq!(steps(&known, &nvidia, true), (4..=16).collect::<Vec<_>>());
        known.set("matrix_cores=0").unwrap();
        assert!(steps(&known, &nvidia, false).is_empty(), "without matrix cores");
        let amd = traits(AMD);
        let mut known = Tuning { fragment, ..Tuning::of(&amd) };
        assert!(steps(&known, &amd, false).is_empty(), "measured on no such card");
        known.set("direct_most=8").unwrap();
        assert_eq!(steps(&known, &amd, false), (2..=8).collect::<Vec<_>>());
    }

    #[test]
    fn entries_for_measurements_are_checked() {
        let mut tuning = Tuning::of(&traits(NVIDIA));
        tuning.set("direct_8=8x2x4x1").unwrap();
        assert_eq!(tuning.direct[1], direct([8, 2], [4, 1]));
        tuning.set("chain_most=0").unwrap();
        assert_eq!(tuning.chain_most, 0);
        let before = tuning;
        for wrong in [
            "direct_8=8x16x4x4",
            "direct_8=6x2x4x4",
            "direct_8=8x2",
            "direct_8=0x0x0x0",
            "direct_most=17",
            "chain_most=1x2",
            "direct_9=1",
            "tile_16=1",
        ] {
            assert!(tuning.set(wrong).is_err(), "{wrong}");
        }
        assert_eq!(tuning, before);
    }
}
