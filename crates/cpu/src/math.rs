//! Exponential, logistic function and hyperbolic tangent on sixteen lanes, and rounding to halves.
//!
//! Only IEEE operations and fused multiply-adds in a fixed order: the same bits on every
//! instruction set. Errors are stated per function and tested against f64. NaN is not passed on.

use crate::isa::{LANES, Simd};

/// `ln 2` in two parts: the first has few bits, so that a small integer times it is exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Below it the result is no normal number.
const EXP_MIN: f32 = -87.336_54;
/// Above it the result is infinite.
const EXP_MAX: f32 = 89.0;
/// `1/7!, 1/6! ... 1/0!`: the first term left out is below 6e-9 of the sum for `|r| <= ln(2)/2`.
const EXP_TERMS: [f32; 8] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];

/// `e^x`: relative error below 1.5e-7; 0 below -87.3, where the result is no normal number, and
/// infinite from 88.73 on.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    let clamped = s.min(s.max(x, s.splat(EXP_MIN)), s.splat(EXP_MAX));
    let n = s.round(s.mul(clamped, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fma(n, s.splat(-LN2_HIGH), clamped);
    let r = s.fma(n, s.splat(-LN2_LOW), r);
    let mut sum = s.splat(EXP_TERMS[0]);
    for term in &EXP_TERMS[1..] {
        sum = s.fma(sum, r, s.splat(*term));
    }
    // 2^128 is no f32: the largest results take their last factor of two from the sum.
    let largest = s.splat(127.0);
    let sum = s.mul(sum, s.select_lt(largest, n, s.splat(2.0), s.splat(1.0)));
    let y = s.mul(sum, s.pow2(s.min(n, largest)));
    s.select_lt(x, s.splat(EXP_MIN), s.splat(0.0), y)
}

/// `x / (1 + e^-z)`: with `z = x`, SiLU.
#[inline(always)]
pub(crate) fn times_sigmoid<S: Simd>(s: S, x: S::V, z: S::V) -> S::V {
    let one = s.splat(1.0);
    s.div(x, s.add(one, exp(s, s.sub(s.splat(0.0), z))))
}

/// `tanh x`: relative error below 6e-7.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let (zero, one, two) = (s.splat(0.0), s.splat(1.0), s.splat(2.0));
    let magnitude = s.max(x, s.sub(zero, x));
    let large = s.sub(one, s.div(two, s.add(exp(s, s.mul(two, magnitude)), one)));
    // Near zero the difference above cancels; the series to x^9 is exact to 5e-8 there.
    let z = s.mul(magnitude, magnitude);
    let mut series = s.splat(62.0 / 2835.0);
    for term in [-17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0] {
        series = s.fma(series, z, s.splat(term));
    }
    let small = s.mul(series, magnitude);
    let y = s.select_lt(magnitude, s.splat(0.3), small, large);
    s.select_lt(x, zero, s.sub(zero, y), y)
}

/// `cap * tanh(x / cap)`.
#[inline(always)]
pub(crate) fn softcap<S: Simd>(s: S, cap: f32, x: S::V) -> S::V {
    let cap = s.splat(cap);
    s.mul(cap, tanh(s, s.div(x, cap)))
}

/// [`exp`] of every element.
#[inline(always)]
pub(crate) fn exp_slice<S: Simd>(s: S, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks(LANES).zip(y.chunks_mut(LANES)) {
        let v = exp(s, load_part(s, x));
        store_part(s, v, y);
    }
}

/// [`softcap`] of every element.
#[inline(always)]
pub(crate) fn softcap_slice<S: Simd>(s: S, cap: f32, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks(LANES).zip(y.chunks_mut(LANES)) {
        let v = softcap(s, cap, load_part(s, x));
        store_part(s, v, y);
    }
}

/// Every element rounded to half precision, to nearest even.
#[inline(always)]
pub(crate) fn store_halves<S: Simd>(s: S, src: &[f32], dst: &mut [u16]) {
    for (x, y) in src.chunks(LANES).zip(dst.chunks_mut(LANES)) {
        let mut halves = [0u16; LANES];
        // SAFETY: the array has room for sixteen halves.
        unsafe { s.store_halves(halves.as_mut_ptr().cast(), load_part(s, x)) };
        y.copy_from_slice(&halves[..y.len()]);
    }
}

/// Up to sixteen elements; zeros fill the rest.
#[inline(always)]
pub(crate) fn load_part<S: Simd>(s: S, x: &[f32]) -> S::V {
    let mut part = [0.0f32; LANES];
    let whole = if x.len() >= LANES {
        x.as_ptr()
    } else {
        part[..x.len()].copy_from_slice(x);
        part.as_ptr()
    };
    // SAFETY: sixteen elements are there in either case.
    unsafe { s.load(whole) }
}

/// The first `y.len()` lanes, sixteen at most.
#[inline(always)]
pub(crate) fn store_part<S: Simd>(s: S, v: S::V, y: &mut [f32]) {
    if y.len() >= LANES {
        // SAFETY: sixteen elements are there.
        unsafe { s.store(y.as_mut_ptr(), v) };
        return;
    }
    let mut part = [0.0f32; LANES];
    // SAFETY: the array has sixteen elements.
    unsafe { s.store(part.as_mut_ptr(), v) };
    y.copy_from_slice(&part[..y.len()]);
}

#[cfg(test)]
mod tests {
    use crate::isa::Isa;

    #[test]
    fn the_exponential_is_within_its_stated_error() {
        let mut x: Vec<f32> = (-87_336..88_722).map(|i| i as f32 * 1e-3).collect();
        x.extend([0.0, -0.0, 1e-30, -1e-7, -1e4, -87.4, f32::NEG_INFINITY, 88.8, 1e30, f32::INFINITY]);
        let mut results: Vec<Vec<u32>> = Vec::new();
        for kernels in Isa::ALL.into_iter().filter_map(Isa::entry_points) {
            let mut y = vec![f32::NAN; x.len()];
            // SAFETY: the processor has the kernels.
            unsafe { (kernels.exp)(&x, &mut y) };
            for (&x, &y) in x.iter().zip(&y) {
                let truth = f64::from(x).exp();
                match x {
                    ..-87.34 => assert_eq!(y, 0.0, "{x}"),
                    88.73.. => assert_eq!(y, f32::INFINITY, "{x}"),
                    _ => assert!((f64::from(y) - truth).abs() <= 1.5e-7 * truth, "{x}: {y:e}, not {truth:e}"),
                }
            }
            results.push(y.iter().map(|y| y.to_bits()).collect());
        }
        assert!(results.iter().all(|r| *r == results[0]));
    }
}
