//! The pages of keys and values: `[n_pages][16][n_kv_heads][head_dim]`, f32 or halves.

use crate::context::Context;

/// Tokens of a page.
pub const PAGE_TOKENS: usize = 16;

/// Pages of keys, or of values.
#[derive(Clone, Copy, Debug)]
pub enum KvPages<'a> {
    /// Halves, as their bits.
    F16(&'a [u16]),
    /// Single precision.
    F32(&'a [f32]),
}

/// Pages to write.
#[derive(Debug)]
pub enum KvPagesMut<'a> {
    /// Halves, as their bits.
    F16(&'a mut [u16]),
    /// Single precision.
    F32(&'a mut [f32]),
}

impl KvPages<'_> {
    /// Elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            KvPages::F16(pages) => pages.len(),
            KvPages::F32(pages) => pages.len(),
        }
    }

    /// Whether there is no page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes rows `x` `[n_tokens][n_kv_heads * head_dim]` (keys, or values) to their slots
/// (`page * 16 + place`), rounded to nearest even where the pages are halves.
///
/// # Panics
/// The lengths do not agree, or a slot is outside the pages.
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
    }
}
