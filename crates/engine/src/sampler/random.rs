//! Random numbers by position: Philox 4x64-10 (Salmon et al., "Parallel random numbers: as easy as
//! 1, 2, 3", 2011).
//!
//! The number at an index is a function of seed and index with no state in between, so a token's
//! draw cannot depend on who else is in the batch, on chunking or on recomputation. A stateful
//! generator would need its place saved and restored with the sequence; a cipher with a seek
//! function would do as well, at the price of a dependency for these thirty lines.

/// One stream of random numbers of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    seed: u64,
    stream: u64,
}

impl Random {
    /// Stream 0 of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Random {
        Random { seed, stream: 0 }
    }

    /// Another stream of the same seed; no number is in two of them.
    #[must_use]
    pub const fn stream(self, stream: u64) -> Random {
        Random { seed: self.seed, stream }
    }

    /// Number `index`, uniform in `[0, 1)` with 53 bits.
    #[must_use]
    pub fn uniform(self, index: u64) -> f64 {
        let bits = philox([index, self.stream, 0, 0], [self.seed, 0])[0];
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn philox(mut counter: [u64; 4], mut key: [u64; 2]) -> [u64; 4] {
    const ROUNDS: u32 = 10;
    for _ in 0..ROUNDS {
        let (high_0, low_0) = wide_product(0xd2e7_470e_e14c_6c93, counter[0]);
        let (high_1, low_1) = wide_product(0xca5a_8263_9512_1157, counter[2]);
        counter = [high_1 ^ counter[1] ^ key[0], low_1, high_0 ^ counter[3] ^ key[1], low_0];
        key[0] = key[0].wrapping_add(0x9e37_79b9_7f4a_7c15);
        key[1] = key[1].wrapping_add(0xbb67_ae85_84ca_a73b);
    }
    counter
}

/// High and low half of a product.
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is left of the bits")]
const fn wide_product(a: u64, b: u64) -> (u64, u64) {
    let product = a as u128 * b as u128;
    ((product >> 64) as u64, product as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the authors' library Random123 (`kat_vectors`).
    #[test]
    fn known_answers() {
        let zeros = philox([0; 4], [0; 2]);
        assert_eq!(zeros, [0x1655_4d9e_ca36_314c, 0xdb20_fe9d_672d_0fdc, 0xd7e7_72ce_e186_176b, 0x7e68_b68a_ec7b_a23b]);
        let ones = philox([u64::MAX; 4], [u64::MAX; 2]);
        assert_eq!(ones, [0x87b0_92c3_013f_e90b, 0x438c_3c67_be8d_0224, 0x9cc7_d7c6_9cd7_77b6, 0xa09c_aebf_594f_0ba0]);
    }
}
