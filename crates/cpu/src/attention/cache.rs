//! The pages of keys and values: `[n_pages][16][n_kv_heads][head_dim]`, f32, halves, or signed bytes with scales.

use zinc_gguf::quants::float::{f16_to_f32, f32_to_f16};

use crate::context::Context;

/// Tokens of a page.
pub const PAGE_TOKENS: usize = 16;

/// Elements that share a scale where they are bytes.
pub(crate) const Q8_GROUP: usize = 32;
/// Largest scale: with it 127 steps stay within f16.
const SCALE_MAX: f32 = 515.5;

/// Bytes of a token's row where elements are signed bytes: those of all heads, then a scale in f16 for every 32 of them, up
/// to a multiple of 16.
#[must_use]
pub(crate) const fn q8_row_bytes(width: usize) -> usize {
    (width + 2 * width.div_ceil(Q8_GROUP)).next_multiple_of(16)
}

/// Pages of keys, or of values.
#[derive(Clone, Copy, Debug)]
pub enum KvPages<'a> {
    /// Halves, as their bits.
    F16(&'a [u16]),
    /// Single precision.
    F32(&'a [f32]),
    /// Rows of `q8_row_bytes`.
    Q8(&'a [u8]),
}

/// Pages to write.
#[derive(Debug)]
pub enum KvPagesMut<'a> {
    /// Halves, as their bits.
    F16(&'a mut [u16]),
    /// Single precision.
    F32(&'a mut [f32]),
    /// Rows of `q8_row_bytes`.
    Q8(&'a mut [u8]),
}

impl KvPages<'_> {
    /// Pages whose rows have `width` elements; none if the last is not whole.
    #[must_use]
    pub const fn n_pages(&self, width: usize) -> Option<usize> {
        let (n, of_row) = match self {
            KvPages::F16(pages) => (pages.len(), width),
            KvPages::F32(pages) => (pages.len(), width),
            KvPages::Q8(pages) => (pages.len(), q8_row_bytes(width)),
        };
        if n.is_multiple_of(PAGE_TOKENS * of_row) { Some(n / (PAGE_TOKENS * of_row)) } else { None }
    }
}

/// Writes rows `x` `[n_tokens][n_kv_heads * head_dim]` (keys, or values) to their slots
/// (`page * 16 + place`), rounded to nearest even where the pages are halves or bytes.
///
/// # Panics
/// The lengths do not agree, a slot is outside the pages, or a row of bytes has no whole groups.
pub fn kv_write(ctx: &mut Context, x: &[f32], slots: &[u32], pages: KvPagesMut<'_>) {
    if slots.is_empty() {
        return;
    }
    let width = x.len() / slots.len();
    assert_eq!(x.len(), slots.len() * width, "x is [n_tokens][n_kv_heads * head_dim]");
    let rows = x.chunks_exact(width).zip(slots);
    match pages {
        KvPagesMut::F32(pages) => {
            for (row, &slot) in rows {
                pages[slot as usize * width..][..width].copy_from_slice(row);
            }
        }
        KvPagesMut::F16(pages) => {
            let store_halves = ctx.kernels().store_halves;
            for (row, &slot) in rows {
                // SAFETY: the processor has the kernel.
                unsafe { store_halves(row, &mut pages[slot as usize * width..][..width]) };
            }
        }
        KvPagesMut::Q8(pages) => {
            assert!(width.is_multiple_of(Q8_GROUP), "a row of {width} has no whole groups of bytes");
            let row_bytes = q8_row_bytes(width);
            for (row, &slot) in rows {
                let (bytes, scales) = pages[slot as usize * row_bytes..][..row_bytes].split_at_mut(width);
                let groups = row.chunks_exact(Q8_GROUP).zip(bytes.chunks_exact_mut(Q8_GROUP));
                for ((x, bytes), scale) in groups.zip(scales.chunks_exact_mut(2)) {
                    scale.copy_from_slice(&store_group(x, bytes).to_le_bytes());
                }
            }
        }
    }
}

/// Rounds a group to multiples of one scale, whose bits are returned.
fn store_group(x: &[f32], bytes: &mut [u8]) -> u16 {
    let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let bits = f32_to_f16((most * (1.0 / 127.0)).min(SCALE_MAX));
    let scale = f64::from(f16_to_f32(bits));
    if scale == 0.0 {
        bytes.fill(0);
        return bits;
    }
    // Added to a small number it leaves the nearest integer, of two the even one, in the lowest bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    for (byte, &x) in bytes.iter_mut().zip(x) {
        *byte = ((f64::from(x) / scale).clamp(-127.0, 127.0) + ROUND).to_bits().to_le_bytes()[0];
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_nearest_multiples_of_their_scale() {
        let mut x: Vec<f32> = (0..32).map(|i| (i as f32 - 15.5) * 0.37).collect();
        x[7] = 0.0;
        let mut bytes = [0u8; 32];
        let scale = f16_to_f32(store_group(&x, &mut bytes));
        assert!((scale - 15.5 * 0.37 / 127.0).abs() < 1e-4 * scale * 10.0);
        for (x, byte) in x.iter().zip(bytes) {
            let back = scale * f32::from(byte as i8);
            assert!((x - back).abs() <= scale * 0.51, "{x} came back as {back}");
        }
        assert_eq!(bytes[7], 0);
        assert_eq!(store_group(&[0.0; 32], &mut bytes), 0);
        assert_eq!(bytes, [0; 32]);
        // Halves go to the even neighbour.
        let mut ties = [0.0f32; 32];
        ties[..5].copy_from_slice(&[127.0, 0.5, 1.5, -2.5, -3.5]);
        assert_eq!(f16_to_f32(store_group(&ties, &mut bytes)), 1.0);
        assert_eq!(bytes[..5].iter().map(|&b| b as i8).collect::<Vec<_>>(), [127, 0, 2, -2, -4]);
        assert_eq!(f16_to_f32(store_group(&[f32::MAX; 32], &mut bytes)), SCALE_MAX, "no scale is infinite");
        assert_eq!(bytes, [127; 32]);
    }
}
