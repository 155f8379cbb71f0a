//! The search for scales that Q4_K and Q6_K quantisation share: alternating least squares from several starts.
//!
//! Given codes, the best scale (and minimum) is a least-squares fit; given a scale, the best codes are the nearest
//! ones. Alternating the two finds a local optimum, and starting from several scales around the obvious one finds a
//! good one. The error is weighted by `rms + |w|`, because large weights do more for a matrix product than small ones.

#![forbid(unsafe_code)]

/// Values and their importance.
pub(super) struct Group<const N: usize> {
    pub(super) values: [f32; N],
    pub(super) importance: [f32; N],
}

/// `value = scale * code - min`, with neither negative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Affine {
    pub(super) scale: f32,
    pub(super) min: f32,
}

/// Starts tried on each side of the obvious scale, each a tenth of a code step further.
const N_STARTS: i16 = 9;
/// Fits after each start; the third changes little.
const N_FITS: usize = 2;

impl<const N: usize> Group<N> {
    pub(super) fn new(values: [f32; N]) -> Self {
        let mean_square = values.iter().map(|value| value * value).sum::<f32>() / N as f32;
        let rms = mean_square.sqrt();
        Self { values, importance: values.map(|value| rms + value.abs()) }
    }

    /// The best scale and minimum for codes from 0 to `code_max`.
    pub(super) fn fit_affine(&self, code_max: f32) -> Affine {
        let lowest = self.values.iter().fold(0.0f32, |lowest, &value| lowest.min(value));
        let highest = self.values.iter().fold(f32::MIN, |highest, &value| highest.max(value));
        let mut best = Affine { scale: (highest - lowest) / code_max, min: -lowest };
        if best.scale <= 0.0 {
            return Affine { scale: 0.0, min: -lowest };
        }
        let mut best_error = self.affine_error(best, code_max);
        for start in -N_STARTS..=N_STARTS {
            let n_steps = code_max + f32::from(start) / 10.0;
            let mut affine = Affine { scale: (highest - lowest) / n_steps, min: -lowest };
            for _ in 0..N_FITS {
                let Some(fit) = self.refit_affine(affine, code_max) else { break };
                affine = fit;
                let error = self.affine_error(affine, code_max);
                if error < best_error {
                    (best, best_error) = (affine, error);
                }
            }
        }
        best
    }

    /// The best scale for codes from `-code_max - 1` to `code_max`; it may be negative.
    pub(super) fn fit_scale(&self, code_max: f32) -> f32 {
        let extreme = self.values.iter().fold(0.0f32, |max, &value| if value.abs() > max.abs() { value } else { max });
        if extreme == 0.0 {
            return 0.0;
        }
        // The codes reach one further on the negative side, so that is where the extreme value belongs.
        let mut best = -extreme / (code_max + 1.0);
        let mut best_error = self.scale_error(best, code_max);
        for start in -N_STARTS..=N_STARTS {
            let mut scale = -extreme / (code_max + 1.0 + f32::from(start) / 10.0);
            for _ in 0..N_FITS {
                let Some(fit) = self.refit_scale(scale, code_max) else { break };
                scale = fit;
                let error = self.scale_error(scale, code_max);
                if error < best_error {
                    (best, best_error) = (scale, error);
                }
            }
        }
        best
    }

    /// The weighted squared error with the best codes for `affine`.
    pub(super) fn affine_error(&self, affine: Affine, code_max: f32) -> f32 {
        let inverse = inverse(affine.scale);
        let mut error = 0.0;
        for (&value, &importance) in self.values.iter().zip(&self.importance) {
            let code = nearest((value + affine.min) * inverse, 0.0, code_max);
            let miss = affine.scale * code - affine.min - value;
            error += importance * miss * miss;
        }
        error
    }

    /// The weighted squared error with the best codes for `scale`.
    pub(super) fn scale_error(&self, scale: f32, code_max: f32) -> f32 {
        let inverse = inverse(scale);
        let mut error = 0.0;
        for (&value, &importance) in self.values.iter().zip(&self.importance) {
            let code = nearest(value * inverse, -code_max - 1.0, code_max);
            let miss = scale * code - value;
            error += importance * miss * miss;
        }
        error
    }

    /// The least-squares scale and minimum for the codes that `affine` gives.
    fn refit_affine(&self, affine: Affine, code_max: f32) -> Option<Affine> {
        let inverse = inverse(affine.scale);
        let (mut w, mut wq, mut wqq, mut wx, mut wxq) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (&value, &importance) in self.values.iter().zip(&self.importance) {
            let code = nearest((value + affine.min) * inverse, 0.0, code_max);
            w += importance;
            wq += importance * code;
            wqq += importance * code * code;
            wx += importance * value;
            wxq += importance * value * code;
        }
        let determinant = w * wqq - wq * wq;
        let fit = Affine { scale: (w * wxq - wx * wq) / determinant, min: (wq * wxq - wqq * wx) / determinant };
        // Without a minimum the fit is that of a line through the origin.
        let fit = if fit.min < 0.0 { Affine { scale: wxq / wqq, min: 0.0 } } else { fit };
        (determinant > 0.0 && fit.scale > 0.0 && fit.scale.is_finite() && fit.min.is_finite()).then_some(fit)
    }

    /// The least-squares scale for the codes that `scale` gives.
    fn refit_scale(&self, scale: f32, code_max: f32) -> Option<f32> {
        let inverse = inverse(scale);
        let (mut wqq, mut wxq) = (0.0, 0.0);
        for (&value, &importance) in self.values.iter().zip(&self.importance) {
            let code = nearest(value * inverse, -code_max - 1.0, code_max);
            wqq += importance * code * code;
            wxq += importance * value * code;
        }
        let fit = wxq / wqq;
        (wqq > 0.0 && fit != 0.0 && fit.is_finite()).then_some(fit)
    }
}

/// 1/scale, 0 where there is none: every code is then 0.
pub(super) fn inverse(scale: f32) -> f32 {
    let inverse = 1.0 / scale;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// The whole number from `low` to `high` nearest to `x`. The bounds must be whole and far below 2^22.
pub(super) fn nearest(x: f32, low: f32, high: f32) -> f32 {
    // At this size an f32 has no fraction bits, so adding it rounds. Plain arithmetic becomes SIMD on every machine,
    // which a call to a rounding function does not.
    const ROUNDER: f32 = 12_582_912.0;
    x.max(low).min(high) + ROUNDER - ROUNDER
}
