//! The state of an online softmax, and how states of consecutive spans become one.
//!
//! A row's state is the largest score `m`, the sum `l` of `e^(s - m)`, and the values weighted by
//! the same. A row that sees no key of a span has `l = 0` there, and the span changes nothing.

use super::block::{QueryRow, StatePtr};
use crate::isa::{LANES, Simd};
use crate::math::exp;

/// Merges the states of consecutive spans, divides by the sum and writes the rows' results.
pub(crate) struct FinishJob<'a> {
    pub(crate) rows: &'a [QueryRow],
    /// `n_states` states of these rows, `state_len` apart; the first one is overwritten.
    pub(crate) states: *mut f32,
    pub(crate) state_len: usize,
    pub(crate) n_states: usize,
    pub(crate) head_dim: usize,
    /// Columns of a row in a state.
    pub(crate) padded: usize,
    /// One more logit per head.
    pub(crate) sinks: Option<&'a [f32]>,
    /// Head of row 0; rows `i` and `i + heads` are the same head of consecutive tokens.
    pub(crate) first_head: usize,
    pub(crate) heads: usize,
}

/// The kernel.
///
/// # Safety
/// The job's pointers are as it says; the rows' outputs have `head_dim` writable f32.
#[inline(always)]
pub(crate) unsafe fn finish<S: Simd>(s: S, job: &FinishJob<'_>) {
    // SAFETY: the states lie `state_len` apart.
    let state = |i: usize| unsafe { StatePtr::new(job.states.add(i * job.state_len), job.rows.len(), job.padded) };
    let total = state(0);
    for i in 1..job.n_states {
        // SAFETY: both states hold the job's rows.
        unsafe { merge(s, total, state(i), job.rows.len(), job.padded) };
    }
    for (i, row) in job.rows.iter().enumerate() {
        let sink = job.sinks.map(|sinks| sinks[job.first_head + i % job.heads]);
        // SAFETY: row `i` is in the state; the output has `head_dim` f32.
        unsafe {
            let (m, l) = (*total.m.add(i), *total.l.add(i));
            let factor = match sink {
                None => 1.0 / l,
                Some(sink) => {
                    let most = if m < sink { sink } else { m };
                    let shrink = exp_one(s, m - most);
                    shrink / (l * shrink + exp_one(s, sink - most))
                }
            };
            let acc = std::slice::from_raw_parts(total.acc.add(i * job.padded), job.head_dim);
            let out = std::slice::from_raw_parts_mut(row.out.0, job.head_dim);
            out.iter_mut().zip(acc).for_each(|(y, a)| *y = a * factor);
        }
    }
}

/// Adds the state of a later span to `total`.
///
/// # Safety
/// Both hold `n_rows` rows of `padded` columns.
#[inline(always)]
pub(super) unsafe fn merge<S: Simd>(s: S, total: StatePtr, later: StatePtr, n_rows: usize, padded: usize) {
    for i in 0..n_rows {
        // SAFETY: row `i` is in both states.
        unsafe {
            let (m, l) = (*later.m.add(i), *later.l.add(i));
            if l == 0.0 {
                continue;
            }
            let (m_total, l_total) = (*total.m.add(i), *total.l.add(i));
            let (from, to) = (later.acc.add(i * padded), total.acc.add(i * padded));
            if l_total == 0.0 {
                (*total.m.add(i), *total.l.add(i)) = (m, l);
                to.copy_from_nonoverlapping(from, padded);
                continue;
            }
            let most = if m < m_total { m_total } else { m };
            let (keep, join) = (exp_one(s, m_total - most), exp_one(s, m - most));
            (*total.m.add(i), *total.l.add(i)) = (most, l_total * keep + l * join);
            let (keep, join) = (s.splat(keep), s.splat(join));
            for d in (0..padded).step_by(LANES) {
                let sum = s.fma(s.load(from.add(d)), join, s.mul(s.load(to.add(d)), keep));
                s.store(to.add(d), sum);
            }
        }
    }
}

/// `e^x` of one number.
#[inline(always)]
pub(super) fn exp_one<S: Simd>(s: S, x: f32) -> f32 {
    s.max_lane(exp(s, s.splat(x)))
}
