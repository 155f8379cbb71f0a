//! SplitMix64 over a counter, the generator of `fixtures/gguf/make_quants.py`, so that both sides test the same bytes.

/// As in `make_quants.py`.
pub(crate) const SEED: u64 = 20_261_129;

/// The first `n_bytes` of the generator's output.
pub(crate) fn stream(seed: u64, n_bytes: usize) -> Vec<u8> {
    let words = (1..=n_bytes.div_ceil(8) as u64).flat_map(|i| {
        let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    });
    words.take(n_bytes).collect()
}
