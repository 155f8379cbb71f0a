//! Products with chosen experts: against sums in f64, and the same bits as each expert alone.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its inputs are small"
)]

mod seeded;

use seeded::{Seeded, available, bits};
use zinc_cpu::{Context, Experts, Matrix, expert_matmul, matmul};
use zinc_gguf::{DType, quants};

const N_IN: usize = 256;
const N_OUT: usize = 70;
const N_EXPERTS: usize = 6;

struct Case {
    dtype: DType,
    n_choices: usize,
    ids: Vec<u32>,
    one_input_per_choice: bool,
    with_bias: bool,
}

fn check(case: &Case) {
    let mut seeded = Seeded::new(37);
    let bytes = seeded.weights(case.dtype, N_IN * N_OUT * N_EXPERTS);
    let n_inputs = if case.one_input_per_choice { case.ids.len() } else { case.ids.len() / case.n_choices };
    let x = seeded.floats(n_inputs * N_IN);
    let bias = case.with_bias.then(|| seeded.floats(N_EXPERTS * N_OUT));
    let mut w = vec![0.0; N_IN * N_OUT * N_EXPERTS];
    quants::dequantize(case.dtype, &bytes, &mut w).unwrap();
    let experts = Experts::new(case.dtype, &bytes, N_IN, N_OUT, N_EXPERTS).unwrap();
    assert_eq!(experts.n_experts(), N_EXPERTS);
    for isa in available() {
        for n_threads in [1, 3] {
            let mut ctx = Context::with_isa(n_threads, isa).unwrap();
            let mut y = vec![f32::NAN; case.ids.len() * N_OUT];
            expert_matmul(&mut ctx, &experts, &case.ids, case.n_choices, &x, bias.as_deref(), &mut y);
            for (choice, (&id, y)) in case.ids.iter().zip(y.chunks_exact(N_OUT)).enumerate() {
                let id = id as usize;
                let input = if case.one_input_per_choice { choice } else { choice / case.n_choices };
                let x = &x[input * N_IN..][..N_IN];
                let bias = bias.as_ref().map(|b| &b[id * N_OUT..][..N_OUT]);
                for (o, y) in y.iter().enumerate() {
                    let row = &w[(id * N_OUT + o) * N_IN..][..N_IN];
                    let sum: f64 = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let sum = sum + bias.map_or(0.0, |b| f64::from(b[o]));
                    assert!(
                        (f64::from(*y) - sum).abs() < 1e-4,
                        "{}: choice {choice}, output {o}: {y}, not {sum}",
                        case.dtype
                    );
                }
                let row_bytes = bytes.len() / N_EXPERTS;
                let alone = Matrix::new(case.dtype, &bytes[id * row_bytes..][..row_bytes], N_IN, N_OUT).unwrap();
                let mut expected = vec![0.0; N_OUT];
                matmul(&mut ctx, &alone, x, bias, &mut expected);
                assert_eq!(bits(y), bits(&expected), "{}: choice {choice}", case.dtype);
            }
        }
    }
}

#[test]
fn each_choice_gets_its_expert() {
    for dtype in [DType::Q4_K, DType::MXFP4, DType::Q8_0, DType::F16] {
        for (one_input_per_choice, with_bias) in [(false, false), (true, true)] {
            for n_tokens in [1, 3, 30] {
                let mut seeded = Seeded::new(41);
                // Expert 3 is never chosen.
                let ids = (0..2 * n_tokens).map(|_| [0, 1, 2, 4, 5][seeded.below(5)]).collect();
                check(&Case { dtype, n_choices: 2, ids, one_input_per_choice, with_bias });
            }
        }
    }
}

#[test]
fn all_tokens_may_choose_one_expert() {
    for n_tokens in [1, 5, 21] {
        check(&Case {
            dtype: DType::Q6_K,
            n_choices: 1,
            ids: vec![5; n_tokens],
            one_input_per_choice: false,
            with_bias: true,
        });
    }
}

#[test]
fn no_tokens_are_no_work() {
    check(&Case { dtype: DType::Q4_K, n_choices: 2, ids: Vec::new(), one_input_per_choice: false, with_bias: false });
}

#[test]
#[should_panic(expected = "expert 6 of 6")]
fn an_expert_that_is_not_there_is_refused() {
    check(&Case { dtype: DType::Q4_K, n_choices: 1, ids: vec![6], one_input_per_choice: false, with_bias: false });
}
