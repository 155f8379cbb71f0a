//! `delta_net(l2_norm(q), l2_norm(k), v)`, fused, and perhaps `norm_glu` of the result
//!
//! Axes: as in its parts. Queries, keys and values are columns of one row, read where they lie; both norms are of heads, and
//! so is the norm of the result.

use crate::conformance::{Case, CaseBuilder};
use crate::ops::{Activation, DeltaInputs, DeltaNet, Io, L2Norm, NormGlu, Op, Slice};
use crate::shape::Shape;

/// The rule on columns of one row. Inputs: that row, `g`, `beta` and, if a gate follows, the gate; weight: that of the norm
/// that follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormDeltaNet {
    /// The rule.
    pub rule: DeltaNet,
    /// Where the queries lie.
    pub q: Slice,
    /// Where the keys lie.
    pub k: Slice,
    /// Where the values lie.
    pub v: Slice,
    /// Norm of each head of the queries.
    pub q_norm: L2Norm,
    /// Norm of each head of the keys.
    pub k_norm: L2Norm,
    /// Norm of each head of the result, and its product with a gate.
    pub then: Option<NormGlu>,
}

impl NormDeltaNet {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (row, batch, rows) = (&io.inputs[..1], io.batch, io.rows);
        let made = |op: Op, inputs: &[&[f32]], n: usize| -> Vec<f32> {
            let mut y = vec![vec![0.0; n]];
            op.reference(&mut Io { inputs, weights: &[], outputs: &mut y, batch, resource: None, rows });
            y.swap_remove(0)
        };
        let keys = rows * (self.rule.n_k_heads * self.rule.k_dim) as usize;
        let values = rows * (self.rule.n_v_heads * self.rule.v_dim) as usize;
        let q = made(Op::L2Norm(self.q_norm), &[&made(Op::Slice(self.q), row, keys)], keys);
        let k = made(Op::L2Norm(self.k_norm), &[&made(Op::Slice(self.k), row, keys)], keys);
        let v = made(Op::Slice(self.v), row, values);
        let inputs = [&q, &k, &v, io.inputs[1], io.inputs[2]];
        let mut o = vec![vec![0.0; values]];
        let resource = io.resource.as_deref_mut();
        self.rule.reference(&mut Io { inputs: &inputs, weights: &[], outputs: &mut o, batch, resource, rows });
        let Some(then) = self.then else {
            io.outputs[0].copy_from_slice(&o[0]);
            return;
        };
        let (inputs, weights) = ([o[0].as_slice(), io.inputs[3]], io.weights);
        then.reference(&mut Io { inputs: &inputs, weights, outputs: io.outputs, batch, resource: None, rows });
    }
}

/// The parts, which a backend that has the fusion fuses itself.
fn case(case: CaseBuilder, op: DeltaNet, gated: Option<Activation>) -> Case {
    let negative_a = |name: &str, data: &mut [f32]| {
        if name.ends_with("ssm_a") {
            data.iter_mut().for_each(|a| *a = -a.abs() * 8.0);
        }
    };
    case.prepare(negative_a).build(|b| {
        let (keys, values) = (op.n_k_heads * op.k_dim, op.n_v_heads * op.v_dim);
        let qkv = b.input(Shape::tokens(2 * keys + values));
        let gates = Shape::tokens(op.n_v_heads);
        let (alpha, beta) = (b.input(gates), b.input(gates));
        // Values first: nothing says where a model has them.
        let v = b.slice(qkv, 0, values);
        let (q, k) = (b.slice(qkv, values, keys), b.slice(qkv, values + keys, keys));
        let unit = L2Norm { width: op.k_dim, eps: 1e-6, scale: 1.0 };
        let q = b.l2_norm(q, L2Norm { scale: 0.1, eps: 1e-4, ..unit });
        let k = b.l2_norm(k, unit);
        let (a, dt) = (b.vector("ssm_a", op.n_v_heads), b.vector("ssm_dt.bias", op.n_v_heads));
        let (g, beta) = b.delta_gates(alpha, beta, a, dt);
        let state = b.delta_state(op);
        let mut y = b.delta_net(DeltaInputs { q, k, v, g, beta }, state, op);
        if let Some(activation) = gated {
            let z = b.input(Shape::tokens(values));
            let w = b.vector("ssm_norm", op.v_dim);
            let normed = b.rms_norm_groups(y, Some(w), op.v_dim, 1e-6);
            y = b.glu(z, normed, activation);
        }
        b.output(y);
    })
}

pub(super) fn cases() -> Vec<Case> {
    let square = DeltaNet { n_k_heads: 2, n_v_heads: 2, k_dim: 128, v_dim: 128 };
    let kinds = [
        ("square", square, Activation::Silu),
        ("shared_keys", DeltaNet { n_v_heads: 6, k_dim: 32, v_dim: 32, ..square }, Activation::Sigmoid),
        ("wide_values", DeltaNet { n_k_heads: 1, n_v_heads: 1, k_dim: 32, v_dim: 256 }, Activation::Silu),
        ("ragged", DeltaNet { n_k_heads: 3, n_v_heads: 3, k_dim: 20, v_dim: 36 }, Activation::Silu),
    ];
    let mut cases = Vec::new();
    for (name, op, activation) in kinds {
        for (label, gated) in [("", None), ("_gated", Some(activation))] {
            for steps in [&[1][..], &[1, 1, 1, 1], &[3, 2, 4], &[65, 2]] {
                let label = format!("norm_delta_net/{name}{label}/{steps:?}");
                cases.push(case(Case::new(label, 5e-5).steps(steps), op, gated));
            }
            // At most four tokens a step, and more.
            let few: [&[u32]; 4] = [&[2, 1, 0], &[1, 0, 3], &[0, 1, 1], &[1, 1, 1]];
            let many: [&[u32]; 3] = [&[65, 1, 0], &[1, 7, 64], &[0, 33, 1]];
            for (size, crowd) in [("few", &few[..]), ("many", &many)] {
                let label = format!("norm_delta_net/{name}{label}/{size}/crowd");
                cases.push(case(Case::new(label, 5e-5).crowd(crowd), op, gated));
            }
        }
    }
    cases
}
