//! `y[t][c] = act(sum_{j<K} w[c][j] * u[c][t - K + 1 + j])`, a causal convolution of each channel
//!
//! Axes: `t` tokens of one sequence, `c` channels, `j` taps, oldest first (`w` is `[K, C]` in
//! GGUF order, so a channel's taps lie together). `u[c][t]` is `x[t][c]` for the rows of the step
//! and the channel's state before them. State, per sequence slot: `[C][K - 1]` f32, the last raw
//! inputs of each channel, oldest first; it holds `x`, never `y`. A sequence that starts at
//! position 0 starts from zeros whatever its slot holds, and a sequence without rows keeps its
//! state. `act` is SiLU or nothing.
//! Source: the short convolution of Gu and Dao, "Mamba", 2023.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::reference::Resource;
use crate::section::{
    Builder, Operands, ResourceDecl, ResourceId, ResourceKind, Scope, ValueId, WeightClass, WeightDecl, WeightId,
};
use crate::shape::Shape;

/// Most taps of a channel.
pub const CONV_TAPS_MAX: u32 = 8;

/// Causal convolution over time, channel by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1d {
    /// Channels: columns of the row.
    pub n_channels: u32,
    /// Taps of a channel, 2 to [`CONV_TAPS_MAX`].
    pub n_taps: u32,
    /// Whether SiLU follows.
    pub silu: bool,
}

impl Builder {
    /// Taps `[n_taps, n_channels]` of the current layer, plain f32.
    pub const fn conv_taps(&mut self, name: &'static str, n_taps: u32, n_channels: u32) -> WeightId {
        let shape = [n_taps, n_channels, 1];
        self.weight(WeightDecl { name, scope: Scope::Layer, shape, class: WeightClass::Plain })
    }

    /// The raw inputs that a convolution keeps of each sequence.
    pub const fn conv_state(&mut self, n_taps: u32, n_channels: u32) -> ResourceId {
        let len = n_taps.saturating_sub(1).saturating_mul(n_channels);
        self.resource(ResourceDecl { kind: ResourceKind::State { len }, borrowed: false })
    }

    /// Convolves each column of `x` over time; `silu` says whether SiLU follows.
    pub const fn conv1d(&mut self, x: ValueId, taps: WeightId, state: ResourceId, silu: bool) -> ValueId {
        let shape = self.shape(x);
        let [n_taps, n_channels, _] = self.weight_shape(taps);
        self.check("conv1d", "there must be taps for every column", shape.cols, n_channels);
        if n_taps < 2 || n_taps > CONV_TAPS_MAX {
            self.fail("conv1d", "a channel must have 2 to 8 taps", CONV_TAPS_MAX, n_taps);
        }
        if let ResourceKind::State { len } = self.resource_kind(state) {
            self.check(
                "conv1d",
                "the state must hold the last inputs",
                n_taps.saturating_sub(1).saturating_mul(n_channels),
                len,
            );
        } else {
            self.fail("conv1d", "the resource must be a state", 1, 0);
        }
        let op = Op::Conv1d(Conv1d { n_channels, n_taps, silu });
        self.node(op, Operands::values(&[x]).weights(&[taps]).resource(state), &[shape])
    }
}

impl Conv1d {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (n_channels, n_taps) = (self.n_channels as usize, self.n_taps as usize);
        let Some(Resource::State { len, data }) = io.resource.as_deref_mut() else {
            unreachable!("the builder gives conv1d a state")
        };
        for run in io.batch.runs() {
            let state = &mut data[run.state_slot as usize * *len..][..*len];
            if run.fresh {
                state.fill(0.0);
            }
            for row in run.rows {
                for c in 0..n_channels {
                    let (past, taps) =
                        (&mut state[c * (n_taps - 1)..][..n_taps - 1], &io.weights[0][c * n_taps..][..n_taps]);
                    let u = io.inputs[0][row * n_channels + c];
                    let seen = past.iter().chain(std::iter::once(&u));
                    let sum: f64 = seen.zip(taps).map(|(u, w)| f64::from(*u) * f64::from(*w)).sum();
                    let y = if self.silu { sum / (1.0 + (-sum).exp()) } else { sum };
                    io.outputs[0][row * n_channels + c] = y as f32;
                    past.copy_within(1.., 0);
                    past[n_taps - 2] = u;
                }
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let kinds = [("4_taps", 4, 96, true), ("plain", 4, 33, false), ("2_taps", 2, 64, true), ("8_taps", 8, 20, true)];
    for (name, n_taps, n_channels, silu) in kinds {
        let cases_of = |case: crate::conformance::CaseBuilder| {
            case.build(|b| {
                let x = b.input(Shape::tokens(n_channels));
                let taps = b.conv_taps("ssm_conv1d.weight", n_taps, n_channels);
                let state = b.conv_state(n_taps, n_channels);
                let y = b.conv1d(x, taps, state, silu);
                b.output(y);
            })
        };
        for steps in [&[1][..], &[1, 1, 1, 1, 1, 1], &[2, 1, 3], &[33, 2, 64], &[64, 65, 1]] {
            cases.push(cases_of(Case::new(format!("conv1d/{name}/{steps:?}"), 2e-6).steps(steps)));
        }
        let crowd: [&[u32]; 4] = [&[3, 1, 0], &[1, 7, 2], &[0, 1, 70], &[1, 1, 1]];
        cases.push(cases_of(Case::new(format!("conv1d/{name}/crowd"), 2e-6).crowd(&crowd)));
    }
    cases
}
