//! The gated delta rule, token by token; for each value head `h`, with key head `h % n_k_heads`:
//!
//! ```text
//! S    = exp(g[t]) * S                          the decay first
//! m[b] = sum_a S[b][a] * k[t][a]                what the decayed state says of the key
//! e[b] = beta[t] * (v[t][b] - m[b])
//! S[b][a] += e[b] * k[t][a]
//! o[t][b] = sum_a S[b][a] * q[t][a]             reads the new state
//! ```
//!
//! Axes: `t` tokens of one sequence, `a < k_dim`, `b < v_dim`. `q` is already scaled and `k` of
//! length 1 (`l2_norm`); `g <= 0` and `beta` come from `delta_gates`. Heads of `q` and `k` are
//! shared in turn, not in groups: value heads 0, `n_k_heads`, 2 `n_k_heads` ... read key head 0.
//!
//! State, per sequence slot: `[n_v_heads][v_dim][k_dim]` f32. A row (`h`, `b`) is contiguous in
//! `a`, so both sums are dot products over one row, no row needs another, and a thread or a group
//! of lanes that owns rows reads and writes them once, in order. A sequence that starts at
//! position 0 starts from zeros whatever its slot holds; one without rows keeps its state.
//!
//! [`chunked`] is the same rule for many tokens at once, in matrix products: what a backend
//! computes for prompts. Source: Yang et al., "Gated Delta Networks", 2024, section 3.3.

use crate::conformance::{Case, CaseBuilder};
use crate::ops::{Io, L2Norm, Op};
use crate::reference::Resource;
use crate::section::{Builder, Operands, ResourceDecl, ResourceId, ResourceKind, ValueId};
use crate::shape::Shape;

/// Widest head, of keys and of values.
pub const DELTA_HEAD_DIM_MAX: u32 = 256;

/// Linear attention whose state is corrected by the delta rule and decays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNet {
    /// Heads of keys and queries; divides `n_v_heads`.
    pub n_k_heads: u32,
    /// Heads of values.
    pub n_v_heads: u32,
    /// Columns of a key, a multiple of 4 up to [`DELTA_HEAD_DIM_MAX`].
    pub k_dim: u32,
    /// Columns of a value, a multiple of 4 up to [`DELTA_HEAD_DIM_MAX`].
    pub v_dim: u32,
}

/// The values that a [`DeltaNet`] reads.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInputs {
    /// Queries `[Tokens, n_k_heads * k_dim]`.
    pub q: ValueId,
    /// Keys `[Tokens, n_k_heads * k_dim]`.
    pub k: ValueId,
    /// Values `[Tokens, n_v_heads * v_dim]`.
    pub v: ValueId,
    /// Logarithms of the decay `[Tokens, n_v_heads]`.
    pub g: ValueId,
    /// Parts of the error to learn `[Tokens, n_v_heads]`.
    pub beta: ValueId,
}

impl Builder {
    /// The state that a delta net keeps of each sequence.
    pub const fn delta_state(&mut self, op: DeltaNet) -> ResourceId {
        let len = op.state_len();
        self.resource(ResourceDecl { kind: ResourceKind::State { len }, borrowed: false })
    }

    /// `[Tokens, n_v_heads * v_dim]`.
    pub const fn delta_net(&mut self, inputs: DeltaInputs, state: ResourceId, op: DeltaNet) -> ValueId {
        let DeltaInputs { q, k, v, g, beta } = inputs;
        let keys = op.n_k_heads.saturating_mul(op.k_dim);
        let shape = self.shape(v);
        self.check("delta_net", "queries must be n_k_heads * k_dim wide", keys, self.shape(q).cols);
        self.check("delta_net", "keys must be n_k_heads * k_dim wide", keys, self.shape(k).cols);
        self.check(
            "delta_net",
            "values must be n_v_heads * v_dim wide",
            op.n_v_heads.saturating_mul(op.v_dim),
            shape.cols,
        );
        self.check("delta_net", "there must be one decay per value head", op.n_v_heads, self.shape(g).cols);
        self.check("delta_net", "there must be one beta per value head", op.n_v_heads, self.shape(beta).cols);
        if op.n_k_heads == 0 || !op.n_v_heads.is_multiple_of(op.n_k_heads) {
            self.fail("delta_net", "n_k_heads must divide n_v_heads", op.n_v_heads, op.n_k_heads);
        }
        self.delta_head_rule(op.k_dim);
        self.delta_head_rule(op.v_dim);
        if let ResourceKind::State { len } = self.resource_kind(state) {
            self.check("delta_net", "the state must hold a matrix per value head", op.state_len(), len);
        } else {
            self.fail("delta_net", "the resource must be a state", 1, 0);
        }
        self.node(Op::DeltaNet(op), Operands::values(&[q, k, v, g, beta]).resource(state), &[shape])
    }

    const fn delta_head_rule(&mut self, dim: u32) {
        if dim == 0 || dim > DELTA_HEAD_DIM_MAX || !dim.is_multiple_of(4) {
            self.fail("delta_net", "a head must be a multiple of 4 and at most 256 wide", DELTA_HEAD_DIM_MAX, dim);
        }
    }
}

/// What one value head reads of a run of tokens.
#[derive(Clone, Copy, Debug)]
pub struct HeadRun<'a> {
    /// Queries, `[n_tokens][k_dim]`.
    pub q: &'a [f32],
    /// Keys, `[n_tokens][k_dim]`.
    pub k: &'a [f32],
    /// Values, `[n_tokens][v_dim]`.
    pub v: &'a [f32],
    /// Logarithms of the decay, `[n_tokens]`.
    pub g: &'a [f32],
    /// Parts of the error to learn, `[n_tokens]`.
    pub beta: &'a [f32],
}

impl DeltaNet {
    /// f32 in the state of a sequence.
    #[must_use]
    pub const fn state_len(&self) -> u32 {
        self.n_v_heads.saturating_mul(self.k_dim).saturating_mul(self.v_dim)
    }

    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (k_dim, v_dim) = (self.k_dim as usize, self.v_dim as usize);
        let (n_k_heads, n_v_heads) = (self.n_k_heads as usize, self.n_v_heads as usize);
        let Some(Resource::State { len, data }) = io.resource.as_deref_mut() else {
            unreachable!("the builder gives delta_net a state")
        };
        for run in io.batch.runs() {
            let state = &mut data[run.state_slot as usize * *len..][..*len];
            if run.fresh {
                state.fill(0.0);
            }
            let columns = |input: usize, n_heads: usize, head: usize, width: usize| -> Vec<f32> {
                let rows = run.rows.clone().map(|row| (row * n_heads + head) * width);
                rows.flat_map(|at| io.inputs[input][at..at + width].iter().copied()).collect()
            };
            for (head, state) in state.chunks_exact_mut(v_dim * k_dim).enumerate() {
                let q = columns(0, n_k_heads, head % n_k_heads, k_dim);
                let k = columns(1, n_k_heads, head % n_k_heads, k_dim);
                let v = columns(2, n_v_heads, head, v_dim);
                let g = columns(3, n_v_heads, head, 1);
                let beta = columns(4, n_v_heads, head, 1);
                let mut o = vec![0.0; v.len()];
                recurrent(HeadRun { q: &q, k: &k, v: &v, g: &g, beta: &beta }, state, &mut o);
                for (row, o) in run.rows.clone().zip(o.chunks_exact(v_dim)) {
                    let at = (row * n_v_heads + head) * v_dim;
                    io.outputs[0][at..at + v_dim].copy_from_slice(o);
                }
            }
        }
    }
}

/// The rule for one value head: `state` is `[v_dim][k_dim]`, `o` is `[n_tokens][v_dim]`.
pub fn recurrent(run: HeadRun<'_>, state: &mut [f32], o: &mut [f32]) {
    let n_tokens = run.g.len();
    let (k_dim, v_dim) = (run.k.len() / n_tokens, run.v.len() / n_tokens);
    for (b, row) in state.chunks_exact_mut(k_dim).enumerate() {
        let mut s: Vec<f64> = row.iter().copied().map(f64::from).collect();
        for t in 0..n_tokens {
            let (q, k) = (&run.q[t * k_dim..][..k_dim], &run.k[t * k_dim..][..k_dim]);
            let decay = f64::from(run.g[t]).exp();
            s.iter_mut().for_each(|s| *s *= decay);
            let e = f64::from(run.beta[t]) * (f64::from(run.v[t * v_dim + b]) - dot(&s, k));
            for (s, k) in s.iter_mut().zip(k) {
                *s += e * f64::from(*k);
            }
            o[t * v_dim + b] = dot(&s, q) as f32;
        }
        for (row, s) in row.iter_mut().zip(s) {
            *row = s as f32;
        }
    }
}

fn dot(a: &[f64], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum()
}

/// The same as [`recurrent`], in chunks of `chunk` tokens that cost matrix products.
///
/// With `G` the running sum of `g` inside the chunk and `D[t][s] = exp(G[t] - G[s])` for `s <= t`:
///
/// ```text
/// A[t][s] = beta[t] (k[t] . k[s]) D[t][s]  for s < t
/// (I + A) U = beta V;  (I + A) P = beta exp(G) K      by forward substitution
/// E = U - P S^T                                       the e of every token
/// O = exp(G) Q S^T + B E,  B[t][s] = (q[t] . k[s]) D[t][s]  for s <= t
/// S = exp(G[last]) S + sum_s exp(G[last] - G[s]) E[s] (x) k[s]
/// ```
///
/// Differences of `G` are formed before `exp`, because `exp(G)` alone underflows (harmlessly) and
/// must never be divided by. Only `E`, `O` and `S` need the state, so the rest of all chunks can
/// be computed at once.
///
/// # Panics
/// If `chunk` is 0.
pub fn chunked(run: HeadRun<'_>, chunk: usize, state: &mut [f32], o: &mut [f32]) {
    let n_tokens = run.g.len();
    let (k_dim, v_dim) = (run.k.len() / n_tokens, run.v.len() / n_tokens);
    for start in (0..n_tokens).step_by(chunk) {
        let end = (start + chunk).min(n_tokens);
        let part = HeadRun {
            q: &run.q[start * k_dim..end * k_dim],
            k: &run.k[start * k_dim..end * k_dim],
            v: &run.v[start * v_dim..end * v_dim],
            g: &run.g[start..end],
            beta: &run.beta[start..end],
        };
        one_chunk(part, state, &mut o[start * v_dim..end * v_dim]);
    }
}

fn one_chunk(run: HeadRun<'_>, state: &mut [f32], o: &mut [f32]) {
    let n_tokens = run.g.len();
    let (k_dim, v_dim) = (run.k.len() / n_tokens, run.v.len() / n_tokens);
    let row = |x: &[f32], t: usize| -> Vec<f64> { x[t * k_dim..][..k_dim].iter().copied().map(f64::from).collect() };
    let beta = |t: usize| f64::from(run.beta[t]);
    let decay_sums: Vec<f64> = run
        .g
        .iter()
        .scan(0.0, |sum, g| {
            *sum += f64::from(*g);
            Some(*sum)
        })
        .collect();
    let decay = |t: usize, s: usize| (decay_sums[t] - decay_sums[s]).exp();
    let mut u: Vec<Vec<f64>> =
        (0..n_tokens).map(|t| run.v[t * v_dim..][..v_dim].iter().map(|v| beta(t) * f64::from(*v)).collect()).collect();
    let mut p: Vec<Vec<f64>> =
        (0..n_tokens).map(|t| row(run.k, t).iter().map(|k| beta(t) * decay_sums[t].exp() * k).collect()).collect();
    for t in 0..n_tokens {
        let k = row(run.k, t);
        for s in 0..t {
            let a = beta(t) * dot(&k, &run.k[s * k_dim..][..k_dim]) * decay(t, s);
            let (before, rest) = u.split_at_mut(t);
            add_scaled(&mut rest[0], -a, &before[s]);
            let (before, rest) = p.split_at_mut(t);
            add_scaled(&mut rest[0], -a, &before[s]);
        }
    }
    let mut e = u;
    for (e, p) in e.iter_mut().zip(&p) {
        for (b, e) in e.iter_mut().enumerate() {
            *e -= dot(p, &state[b * k_dim..][..k_dim]);
        }
    }
    for (t, o) in o.chunks_exact_mut(v_dim).enumerate() {
        let q = row(run.q, t);
        let mut sums: Vec<f64> = state.chunks_exact(k_dim).map(|s| decay_sums[t].exp() * dot(&q, s)).collect();
        for (s, e) in e.iter().enumerate().take(t + 1) {
            add_scaled(&mut sums, dot(&q, &run.k[s * k_dim..][..k_dim]) * decay(t, s), e);
        }
        o.iter_mut().zip(sums).for_each(|(o, sum)| *o = sum as f32);
    }
    let last = n_tokens - 1;
    for (b, state) in state.chunks_exact_mut(k_dim).enumerate() {
        for (a, state) in state.iter_mut().enumerate() {
            let new: f64 = (0..n_tokens).map(|s| decay(last, s) * e[s][b] * f64::from(run.k[s * k_dim + a])).sum();
            *state = (decay_sums[last].exp() * f64::from(*state) + new) as f32;
        }
    }
}

fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// How inputs and weights are changed after they are drawn.
type Prepare = fn(&str, &mut [f32]);

/// Decays of all sizes.
fn usual(name: &str, data: &mut [f32]) {
    if name.ends_with("ssm_a") {
        data.iter_mut().for_each(|a| *a = -a.abs() * 8.0);
    }
}

/// Decays so strong that exp of a few logarithms' sum is 0.
fn strong_decay(name: &str, data: &mut [f32]) {
    if name.ends_with("ssm_a") {
        data.iter_mut().for_each(|a| *a = -a.abs() * 300.0);
    }
}

/// Nothing is forgotten, keys (value 1 of the case) are much alike, and nearly all of each error is learnt (value 5).
fn alike_keys(name: &str, data: &mut [f32]) {
    match name {
        "input.1" => data.iter_mut().for_each(|k| *k = 1.0 + 0.2 * *k),
        "input.5" => data.iter_mut().for_each(|b| *b += 5.0),
        _ if name.ends_with("ssm_a") => data.iter_mut().for_each(|a| *a = -a.abs() * 1e-3),
        _ => {}
    }
}

/// Keys and gates come through the ops that a model has before the rule: it is only stable for
/// keys of length 1 and decays below 1.
fn case(case: CaseBuilder, prepare: Prepare, op: DeltaNet) -> Case {
    case.prepare(prepare).build(|b| {
        let (keys, values) = (op.n_k_heads * op.k_dim, op.n_v_heads * op.v_dim);
        // Keys apart from the others: `norm_delta_net` has the cases of one row.
        let (qv, k) = (b.input(Shape::tokens(keys + values)), b.input(Shape::tokens(keys)));
        let (q, v) = (b.slice(qv, 0, keys), b.slice(qv, keys, values));
        let gates = Shape::tokens(op.n_v_heads);
        let (alpha, beta) = (b.input(gates), b.input(gates));
        let unit = L2Norm { width: op.k_dim, eps: 1e-6, scale: 1.0 };
        let q = b.l2_norm(q, L2Norm { scale: 0.1, ..unit });
        let k = b.l2_norm(k, unit);
        let (a, dt) = (b.vector("ssm_a", op.n_v_heads), b.vector("ssm_dt.bias", op.n_v_heads));
        let (g, beta) = b.delta_gates(alpha, beta, a, dt);
        let state = b.delta_state(op);
        let y = b.delta_net(DeltaInputs { q, k, v, g, beta }, state, op);
        b.output(y);
    })
}

pub(super) fn cases() -> Vec<Case> {
    let square = DeltaNet { n_k_heads: 2, n_v_heads: 2, k_dim: 128, v_dim: 128 };
    let kinds = [
        ("square", square),
        ("shared_keys", DeltaNet { n_v_heads: 6, k_dim: 32, v_dim: 32, ..square }),
        ("one_key_head", DeltaNet { n_k_heads: 1, n_v_heads: 4, k_dim: 64, v_dim: 64 }),
        ("wide_values", DeltaNet { n_k_heads: 1, n_v_heads: 1, k_dim: 32, v_dim: 256 }),
        ("ragged", DeltaNet { n_k_heads: 3, n_v_heads: 3, k_dim: 20, v_dim: 36 }),
    ];
    let mut cases = Vec::new();
    for (name, op) in kinds {
        for steps in
            [&[1][..], &[1, 1, 1, 1, 1], &[3, 2, 7], &[63, 1], &[64, 1], &[65, 2], &[130, 1], &[16, 16, 33], &[128, 64]]
        {
            cases.push(case(Case::new(format!("delta_net/{name}/{steps:?}"), 5e-5).steps(steps), usual, op));
        }
        let crowd: [&[u32]; 4] = [&[65, 1, 0], &[1, 7, 64], &[0, 33, 1], &[1, 1, 1]];
        cases.push(case(Case::new(format!("delta_net/{name}/crowd"), 5e-5).crowd(&crowd), usual, op));
    }
    // Sequences of very different lengths in one step, short and long in turn.
    let lengths: [&[u32]; 4] = [&[70, 1, 0, 33], &[2, 40, 100, 1], &[129, 0, 8, 31], &[0, 63, 0, 200]];
    let prepared: [(&str, Prepare); 3] = [("mixed", usual), ("strong_decay", strong_decay), ("alike_keys", alike_keys)];
    let kinds = [square, DeltaNet { n_k_heads: 3, n_v_heads: 3, k_dim: 20, v_dim: 36 }];
    for (name, prepare) in prepared {
        for op in kinds {
            let label = format!("delta_net/{name}/{}x{}/crowd", op.k_dim, op.v_dim);
            cases.push(case(Case::new(label, 5e-5).crowd(&lengths), prepare, op));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::{HeadRun, chunked, recurrent};
    use crate::conformance::Seeded;

    struct Random {
        q: Vec<f32>,
        k: Vec<f32>,
        v: Vec<f32>,
        g: Vec<f32>,
        beta: Vec<f32>,
        state: Vec<f32>,
    }

    /// Keys of length 1, decays from none to near total, a state that is not zero.
    fn random(seed: u64, n_tokens: usize, k_dim: usize, v_dim: usize) -> Random {
        let mut r = Seeded(seed);
        let mut normal = |n: usize| -> Vec<f32> { (0..n).map(|_| r.normal()).collect() };
        let (q, v, state) = (normal(n_tokens * k_dim), normal(n_tokens * v_dim), normal(v_dim * k_dim));
        let mut k = normal(n_tokens * k_dim);
        for k in k.chunks_exact_mut(k_dim) {
            let length = k.iter().map(|k| k * k).sum::<f32>().sqrt();
            k.iter_mut().for_each(|k| *k /= length);
        }
        let g = (0..n_tokens).map(|t| if t % 17 == 5 { -40.0 } else { -r.uniform() }).collect();
        let beta = (0..n_tokens).map(|_| r.uniform()).collect();
        Random { q, k, v, g, beta, state }
    }

    /// Largest difference over the root mean square of `expected`.
    fn difference(expected: &[f32], got: &[f32]) -> f32 {
        let rms = (expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32).sqrt();
        expected.iter().zip(got).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / rms
    }

    #[test]
    fn chunks_of_every_size_agree_with_single_tokens() {
        let (n_tokens, k_dim, v_dim) = (130, 16, 8);
        let data = random(7, n_tokens, k_dim, v_dim);
        let run = HeadRun { q: &data.q, k: &data.k, v: &data.v, g: &data.g, beta: &data.beta };
        let (mut expected, mut expected_state) = (vec![0.0; n_tokens * v_dim], data.state.clone());
        recurrent(run, &mut expected_state, &mut expected);
        for chunk in 1..=n_tokens {
            let (mut o, mut state) = (vec![0.0; n_tokens * v_dim], data.state.clone());
            chunked(run, chunk, &mut state, &mut o);
            assert!(difference(&expected, &o) < 1e-5, "outputs, chunk {chunk}: {:e}", difference(&expected, &o));
            assert!(difference(&expected_state, &state) < 1e-5, "state, chunk {chunk}");
        }
    }

    #[test]
    fn one_token_follows_the_formula() {
        // S = [1 2], g = ln(1/2), k = [0.6 0.8], beta = 0.5, v = 3, q = [1 -1]:
        // S' = [0.5 1]; m = 1.1; e = 0.95; S'' = [1.07 1.76]; o = -0.69.
        let (mut state, mut o) = ([1.0, 2.0], [0.0]);
        let run = HeadRun { q: &[1.0, -1.0], k: &[0.6, 0.8], v: &[3.0], g: &[0.5f32.ln()], beta: &[0.5] };
        recurrent(run, &mut state, &mut o);
        assert!(difference(&[1.07, 1.76], &state) < 1e-6 && (o[0] + 0.69).abs() < 1e-6, "{state:?} {o:?}");
    }
}
