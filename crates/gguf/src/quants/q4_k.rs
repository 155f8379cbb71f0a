//! Q4_K: 256 weights of 4 bits in 8 groups of 32, each group with a 6-bit scale and a 6-bit minimum.
//! `w = (d * scale) * q - (dmin * min)`.
//!
//! The nibbles of groups `2k` and `2k + 1` share 32 bytes: byte `i` holds weight `i` of the even group in its low half
//! and of the odd group in its high half.

#![forbid(unsafe_code)]

use super::float::{f16_at, f16_to_f32, f32_to_f16};
use super::search::{Affine, Group, inverse, nearest};

/// Weights in a block.
pub const BLOCK_LEN: usize = 256;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN / 2;
/// Weights that share a scale and a minimum.
pub const GROUP_LEN: usize = 32;
/// Groups in a block.
pub const N_GROUPS: usize = BLOCK_LEN / GROUP_LEN;
/// Byte offset of the scales' scale, a half.
pub const D: usize = 0;
/// Byte offset of the minimums' scale, a half.
pub const DMIN: usize = 2;
/// Byte offset of the packed scales and minimums, see [`unpack_scales`].
pub const SCALES: usize = 4;
/// Bytes of the packed scales and minimums.
pub const SCALES_BYTES: usize = 12;
/// Byte offset of the nibbles.
pub const QS: usize = 16;
/// The largest weight that [`quantize_block`] takes, in magnitude.
pub const WEIGHT_MAX: f32 = 65504.0 * 63.0;

const CODE_MAX: f32 = 15.0;
const SCALE_MAX: f32 = 63.0;
const HALF_MAX: f32 = 65504.0;
/// Rounds of refining whole-number scales and their common factors in turn; the error settles in two.
const N_ROUNDS: usize = 2;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let dmin = f16_at(block, DMIN);
    let packed: &[u8; SCALES_BYTES] = block[SCALES..].first_chunk().expect("the scales lie within the block");
    let (scales, mins) = unpack_scales(packed);
    for (group, weights) in weights.as_chunks_mut::<GROUP_LEN>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group]);
        let min = dmin * f32::from(mins[group]);
        let shift = group % 2 * 4;
        for (weight, &byte) in weights.iter_mut().zip(&block[QS + group / 2 * GROUP_LEN..]) {
            *weight = scale * f32::from(byte >> shift & 0xf) - min;
        }
    }
}

/// The groups' scales and minimums, each from 0 to 63.
///
/// The first four scales are the low six bits of bytes 0 to 3, the first four minimums those of bytes 4 to 7. Of the
/// other four, bytes 8 to 11 hold the low four bits (scale in the low half, minimum in the high half), and the high two
/// bits stand above the first four's six.
pub fn unpack_scales(packed: &[u8; SCALES_BYTES]) -> ([u8; N_GROUPS], [u8; N_GROUPS]) {
    let mut scales = [0; N_GROUPS];
    let mut mins = [0; N_GROUPS];
    for i in 0..4 {
        let (scale, min, low) = (packed[i], packed[i + 4], packed[i + 8]);
        scales[i] = scale & 0x3f;
        mins[i] = min & 0x3f;
        scales[i + 4] = low & 0xf | scale >> 6 << 4;
        mins[i + 4] = low >> 4 | min >> 6 << 4;
    }
    (scales, mins)
}

/// The inverse of [`unpack_scales`]; the upper two bits of each number must be zero.
pub fn pack_scales(scales: &[u8; N_GROUPS], mins: &[u8; N_GROUPS]) -> [u8; SCALES_BYTES] {
    let mut packed = [0; SCALES_BYTES];
    for i in 0..4 {
        packed[i] = scales[i] | scales[i + 4] >> 4 << 6;
        packed[i + 4] = mins[i] | mins[i + 4] >> 4 << 6;
        packed[i + 8] = scales[i + 4] & 0xf | mins[i + 4] << 4;
    }
    packed
}

/// Makes one block that approximates `weights` with a small squared error: alternating least squares
/// from several starts, weighted towards large weights.
///
/// Weights must be finite and at most [`WEIGHT_MAX`] in magnitude.
pub fn quantize_block(weights: &[f32; BLOCK_LEN]) -> [u8; BLOCK_BYTES] {
    let groups: [Group<GROUP_LEN>; N_GROUPS] = std::array::from_fn(|group| Group::new(weights.as_chunks().0[group]));
    let ideal = groups.each_ref().map(|group| group.fit_affine(CODE_MAX));
    let mut best = Scales::rounded(&ideal);
    let mut best_error = best.error(&groups);
    let mut scales = best.clone();
    for _ in 0..N_ROUNDS {
        scales.step_to_neighbours(&groups);
        for candidate in [Some(scales.clone()), scales.with_refitted_factors(&groups)].into_iter().flatten() {
            let error = candidate.error(&groups);
            if error < best_error {
                (best, best_error) = (candidate, error);
            }
        }
        scales = best.clone();
    }
    best.encode(&groups)
}

/// Everything of a block but its codes, which follow from it. `d` and `dmin` are halves.
#[derive(Clone)]
struct Scales {
    d: f32,
    dmin: f32,
    scales: [u8; N_GROUPS],
    mins: [u8; N_GROUPS],
}

impl Scales {
    /// Rounds ideal scales so that the largest becomes 63.
    fn rounded(ideal: &[Affine; N_GROUPS]) -> Self {
        let largest = |of: fn(&Affine) -> f32| ideal.iter().map(of).fold(0.0f32, f32::max);
        let d = to_half(largest(|affine| affine.scale) / SCALE_MAX);
        let dmin = to_half(largest(|affine| affine.min) / SCALE_MAX);
        Self {
            d,
            dmin,
            scales: ideal.map(|affine| whole(affine.scale * inverse(d))),
            mins: ideal.map(|affine| whole(affine.min * inverse(dmin))),
        }
    }

    fn affine(&self, group: usize) -> Affine {
        Affine { scale: self.d * f32::from(self.scales[group]), min: self.dmin * f32::from(self.mins[group]) }
    }

    fn error(&self, groups: &[Group<GROUP_LEN>; N_GROUPS]) -> f32 {
        groups.iter().enumerate().map(|(i, group)| group.affine_error(self.affine(i), CODE_MAX)).sum()
    }

    /// Moves each group's scale and minimum by at most one where that lowers the error.
    fn step_to_neighbours(&mut self, groups: &[Group<GROUP_LEN>; N_GROUPS]) {
        for (i, group) in groups.iter().enumerate() {
            let (scale, min) = (self.scales[i], self.mins[i]);
            let mut best = (group.affine_error(self.affine(i), CODE_MAX), scale, min);
            for scale in scale.saturating_sub(1)..=(scale + 1).min(63) {
                for min in min.saturating_sub(1)..=(min + 1).min(63) {
                    let affine = Affine { scale: self.d * f32::from(scale), min: self.dmin * f32::from(min) };
                    let error = group.affine_error(affine, CODE_MAX);
                    if error < best.0 {
                        best = (error, scale, min);
                    }
                }
            }
            (_, self.scales[i], self.mins[i]) = best;
        }
    }

    /// The same whole numbers with the least-squares `d` and `dmin` for the codes that they give now.
    fn with_refitted_factors(&self, groups: &[Group<GROUP_LEN>; N_GROUPS]) -> Option<Self> {
        // value = d * a - dmin * b, where a = scale * code and b = min.
        let (mut aa, mut ab, mut bb, mut ax, mut bx) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (i, group) in groups.iter().enumerate() {
            let affine = self.affine(i);
            let inverse = inverse(affine.scale);
            let (scale, b) = (f32::from(self.scales[i]), f32::from(self.mins[i]));
            for (&value, &importance) in group.values.iter().zip(&group.importance) {
                let a = scale * nearest((value + affine.min) * inverse, 0.0, CODE_MAX);
                aa += importance * a * a;
                ab += importance * a * b;
                bb += importance * b * b;
                ax += importance * a * value;
                bx += importance * b * value;
            }
        }
        let determinant = aa * bb - ab * ab;
        let (d, dmin) = if determinant > 0.0 {
            ((ax * bb - bx * ab) / determinant, (ax * ab - bx * aa) / determinant)
        } else {
            (ax / aa, 0.0)
        };
        let is_valid = |factor: f32| (0.0..=HALF_MAX).contains(&factor);
        (is_valid(d) && is_valid(dmin)).then(|| Self { d: to_half(d), dmin: to_half(dmin), ..self.clone() })
    }

    fn encode(&self, groups: &[Group<GROUP_LEN>; N_GROUPS]) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[D..DMIN].copy_from_slice(&f32_to_f16(self.d).to_le_bytes());
        block[DMIN..SCALES].copy_from_slice(&f32_to_f16(self.dmin).to_le_bytes());
        block[SCALES..QS].copy_from_slice(&pack_scales(&self.scales, &self.mins));
        for (i, group) in groups.iter().enumerate() {
            let affine = self.affine(i);
            let inverse = inverse(affine.scale);
            for (byte, value) in block[QS + i / 2 * GROUP_LEN..].iter_mut().zip(&group.values) {
                let code = nearest((value + affine.min) * inverse, 0.0, CODE_MAX) as u8;
                *byte |= code << (i % 2 * 4);
            }
        }
        block
    }
}

/// The number as a half holds it.
fn to_half(x: f32) -> f32 {
    f16_to_f32(f32_to_f16(x.min(HALF_MAX)))
}

fn whole(x: f32) -> u8 {
    nearest(x, 0.0, SCALE_MAX) as u8
}

#[cfg(test)]
mod tests {
    use super::{pack_scales, unpack_scales};

    #[test]
    fn scales_survive_packing() {
        let scales = [0, 63, 1, 32, 15, 16, 48, 63];
        let mins = [63, 0, 17, 31, 33, 63, 2, 0];
        assert_eq!(unpack_scales(&pack_scales(&scales, &mins)), (scales, mins));
    }
}
