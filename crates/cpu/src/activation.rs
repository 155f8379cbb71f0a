//! Gated linear units: `y[i] = act(gate[i]) * up[i]`.

use crate::isa::{LANES, Simd};
use crate::math::{load_part, store_part, times_sigmoid};

/// The function applied to the gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `sigmoid(x)`.
    Sigmoid,
    /// `g = min(x, limit); u = clamp(up, -limit, limit); g * sigmoid(alpha g) * (u + 1)`.
    Clamped {
        /// Steepness of the sigmoid.
        alpha: f32,
        /// Bound of both sides.
        limit: f32,
    },
}

/// `act(gate) * up`, element by element; the slices are of one length.
#[inline(always)]
pub(crate) fn glu<S: Simd>(s: S, activation: Activation, gate: &[f32], up: &[f32], y: &mut [f32]) {
    for ((gate, up), y) in gate.chunks(LANES).zip(up.chunks(LANES)).zip(y.chunks_mut(LANES)) {
        let v = gated(s, activation, load_part(s, gate), load_part(s, up));
        store_part(s, v, y);
    }
}

#[inline(always)]
fn gated<S: Simd>(s: S, activation: Activation, gate: S::V, up: S::V) -> S::V {
    match activation {
        Activation::Silu => s.mul(times_sigmoid(s, gate, gate), up),
        Activation::GeluTanh => {
            // `(1 + tanh z) / 2` is `sigmoid(2 z)`; so written nothing cancels below zero.
            const TWICE: f32 = 2.0 * 0.797_884_6;
            let square = s.mul(gate, gate);
            let inner = s.mul(gate, s.fma(square, s.splat(TWICE * 0.044_715), s.splat(TWICE)));
            s.mul(times_sigmoid(s, gate, inner), up)
        }
        Activation::Sigmoid => s.mul(times_sigmoid(s, s.splat(1.0), gate), up),
        Activation::Clamped { alpha, limit } => {
            let limit = s.splat(limit);
            let gate = s.min(gate, limit);
            let up = s.max(s.min(up, limit), s.sub(s.splat(0.0), limit));
            s.mul(times_sigmoid(s, gate, s.mul(gate, s.splat(alpha))), s.add(up, s.splat(1.0)))
        }
    }
}
