//! Q6_K: 256 weights of 6 bits in 16 groups of 16, each group with a signed 8-bit scale. `w = (d * scale) * (q - 32)`.
//!
//! Each half of the block (128 weights, four runs of 32) has 64 bytes of low nibbles and 32 bytes of high bits: weight
//! `i` of run `k` has its nibble in byte `(k % 2) * 32 + i` (runs 0 and 1 in the low half of the byte, 2 and 3 in the
//! high half) and its high two bits at bit `2k` of byte `i`. See [`place`].

#![forbid(unsafe_code)]

use super::float::{f16_at, f16_to_f32, f32_to_f16};
use super::search::{Group, inverse, nearest};

/// Weights in a block.
pub const BLOCK_LEN: usize = 256;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = D + 2;
/// Weights that share a scale.
pub const GROUP_LEN: usize = 16;
/// Groups in a block.
pub const N_GROUPS: usize = BLOCK_LEN / GROUP_LEN;
/// Byte offset of the low nibbles.
pub const QL: usize = 0;
/// Byte offset of the high bits.
pub const QH: usize = 128;
/// Byte offset of the groups' scales, a signed byte each.
pub const SCALES: usize = 192;
/// Byte offset of the scales' scale, a half.
pub const D: usize = 208;
/// What the six-bit numbers are offset by.
pub const ZERO_POINT: i8 = 32;
/// The largest weight that [`quantize_block`] takes, in magnitude.
pub const WEIGHT_MAX: f32 = 65504.0 * 127.0 * 31.0;

const CODE_MAX: f32 = 31.0;
const SCALE_MAX: f32 = 127.0;
const HALF_MAX: f32 = 65504.0;
/// Rounds of refining whole-number scales and their common factor in turn; the error settles in two.
const N_ROUNDS: usize = 2;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    for (group, weights) in weights.as_chunks_mut::<GROUP_LEN>().0.iter_mut().enumerate() {
        let scale = d * f32::from(block[SCALES + group].cast_signed());
        let Place { low, low_shift, high, high_shift } = place(group);
        for ((weight, &low), &high) in weights.iter_mut().zip(&block[low..]).zip(&block[high..]) {
            let q = low >> low_shift & 0xf | (high >> high_shift & 3) << 4;
            *weight = scale * f32::from(q.cast_signed() - ZERO_POINT);
        }
    }
}

/// Where the bits of one group's 16 weights lie: a byte each, in order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    /// Byte offset in the block of the low four bits.
    pub low: usize,
    /// Right shift for the low four bits, 0 or 4.
    pub low_shift: u32,
    /// Byte offset in the block of the high two bits.
    pub high: usize,
    /// Right shift for the high two bits.
    pub high_shift: u32,
}

/// Where the bits of group `group` (0 to 15) lie.
pub const fn place(group: usize) -> Place {
    let half = group / 8;
    let run = group % 8 / 2;
    let start = group % 2 * GROUP_LEN;
    Place {
        low: QL + half * 64 + run % 2 * 32 + start,
        low_shift: if run < 2 { 0 } else { 4 },
        high: QH + half * 32 + start,
        high_shift: 2 * run as u32,
    }
}

/// Makes one block that approximates `weights` with a small squared error: alternating least squares
/// from several starts, weighted towards large weights.
///
/// Weights must be finite and at most [`WEIGHT_MAX`] in magnitude.
pub fn quantize_block(weights: &[f32; BLOCK_LEN]) -> [u8; BLOCK_BYTES] {
    let groups: [Group<GROUP_LEN>; N_GROUPS] = std::array::from_fn(|group| Group::new(weights.as_chunks().0[group]));
    let ideal = groups.each_ref().map(|group| group.fit_scale(CODE_MAX));
    let mut best = Scales::rounded(&ideal);
    let mut best_error = best.error(&groups);
    let mut scales = best.clone();
    for _ in 0..N_ROUNDS {
        scales.step_to_neighbours(&groups);
        for candidate in [Some(scales.clone()), scales.with_refitted_factor(&groups)].into_iter().flatten() {
            let error = candidate.error(&groups);
            if error < best_error {
                (best, best_error) = (candidate, error);
            }
        }
        scales = best.clone();
    }
    best.encode(&groups)
}

/// Everything of a block but its codes, which follow from it. `d` is a half.
#[derive(Clone)]
struct Scales {
    d: f32,
    scales: [i8; N_GROUPS],
}

impl Scales {
    /// Rounds ideal scales so that the one furthest from zero becomes -128.
    fn rounded(ideal: &[f32; N_GROUPS]) -> Self {
        let extreme = ideal.iter().fold(0.0f32, |max, &scale| if scale.abs() > max.abs() { scale } else { max });
        let d = to_half(-extreme / (SCALE_MAX + 1.0));
        Self { d, scales: ideal.map(|scale| nearest(scale * inverse(d), -SCALE_MAX - 1.0, SCALE_MAX) as i8) }
    }

    fn scale(&self, group: usize) -> f32 {
        self.d * f32::from(self.scales[group])
    }

    fn error(&self, groups: &[Group<GROUP_LEN>; N_GROUPS]) -> f32 {
        groups.iter().enumerate().map(|(i, group)| group.scale_error(self.scale(i), CODE_MAX)).sum()
    }

    /// Moves each group's scale by at most one where that lowers the error.
    fn step_to_neighbours(&mut self, groups: &[Group<GROUP_LEN>; N_GROUPS]) {
        for (i, group) in groups.iter().enumerate() {
            let mut best = (group.scale_error(self.scale(i), CODE_MAX), self.scales[i]);
            for scale in [self.scales[i].saturating_sub(1), self.scales[i].saturating_add(1)] {
                let error = group.scale_error(self.d * f32::from(scale), CODE_MAX);
                if error < best.0 {
                    best = (error, scale);
                }
            }
            self.scales[i] = best.1;
        }
    }

    /// The same whole numbers with the least-squares `d` for the codes that they give now.
    fn with_refitted_factor(&self, groups: &[Group<GROUP_LEN>; N_GROUPS]) -> Option<Self> {
        let (mut aa, mut ax) = (0.0, 0.0);
        for (i, group) in groups.iter().enumerate() {
            let inverse = inverse(self.scale(i));
            let scale = f32::from(self.scales[i]);
            for (&value, &importance) in group.values.iter().zip(&group.importance) {
                let a = scale * nearest(value * inverse, -CODE_MAX - 1.0, CODE_MAX);
                aa += importance * a * a;
                ax += importance * a * value;
            }
        }
        let d = ax / aa;
        (d.abs() <= HALF_MAX).then(|| Self { d: to_half(d), ..self.clone() })
    }

    fn encode(&self, groups: &[Group<GROUP_LEN>; N_GROUPS]) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[D..].copy_from_slice(&f32_to_f16(self.d).to_le_bytes());
        for (i, group) in groups.iter().enumerate() {
            let inverse = inverse(self.scale(i));
            block[SCALES + i] = self.scales[i].cast_unsigned();
            let Place { low, low_shift, high, high_shift } = place(i);
            for (j, value) in group.values.iter().enumerate() {
                let code = nearest(value * inverse, -CODE_MAX - 1.0, CODE_MAX) as i8;
                let code = (code + ZERO_POINT).cast_unsigned();
                block[low + j] |= (code & 0xf) << low_shift;
                block[high + j] |= code >> 4 << high_shift;
            }
        }
        block
    }
}

/// The number as a half holds it.
fn to_half(x: f32) -> f32 {
    f16_to_f32(f32_to_f16(x.clamp(-HALF_MAX, HALF_MAX)))
}
