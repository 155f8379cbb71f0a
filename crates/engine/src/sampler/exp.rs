//! `e^x` for many `x <= 0`, and sums of the results.
//!
//! Our own, for two reasons: written without branches the compiler turns it into vector code,
//! which a quarter of a million entries need; and it gives the same bits on every machine, which
//! the promise "same seed, same tokens" needs and the C library's does not.

/// Entries whose weights are summed in f32 lanes before f64 takes over.
pub(super) const BLOCK: usize = 1024;

const LANES: usize = 16;

/// `e^x` for `x <= 0`, within 2 units in the last place; 0 below -87, where f32 ends, and for -inf.
///
/// `x = n ln 2 + r`, `e^x = 2^n e^r`, `e^r` by the polynomial of Cephes' `expf` (Moshier, 1989).
#[inline(always)]
pub(super) fn exp_nonpositive(x: f32) -> f32 {
    /// 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
    const SHIFT: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut tail = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        tail = tail * r + coefficient;
    }
    let e_r = tail * (r * r) + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) << 23;
    let y = f32::from_bits(e_r.to_bits().wrapping_add(exponent));
    if x < -87.0 { 0.0 } else { y }
}

/// Sum of up to [`BLOCK`] weights.
pub(super) fn block_total(weights: &[f32]) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let (whole, rest) = weights.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, weight) in lanes.iter_mut().zip(chunk) {
            *lane += weight;
        }
    }
    lanes.iter().chain(rest).map(|&x| f64::from(x)).sum()
}

/// Sum of any number of weights.
pub(super) fn total(weights: &[f32]) -> f64 {
    weights.chunks(BLOCK).map(block_total).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_exponential_function() {
        let mut worst = 0.0f64;
        for i in 0u16..=60_000 {
            let x = f32::from(i) * -1.45e-3;
            let expected = f64::from(x).exp();
            worst = worst.max((f64::from(exp_nonpositive(x)) - expected).abs() / expected);
        }
        assert!(worst < 1.6e-7, "largest relative error {worst:e}");
    }

    #[test]
    fn ends_are_exact() {
        assert_eq!(exp_nonpositive(0.0), 1.0);
        for x in [-87.1, -1e9, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp_nonpositive(x), 0.0, "{x}");
        }
    }

    #[test]
    fn totals_count_every_weight_once() {
        for n in [0, 1, 15, 16, 17, 1023, 1024, 1025, 5000] {
            assert_eq!(total(&vec![0.5; n]), n as f64 * 0.5);
        }
    }
}
