//! Matrix products of every storage type: against sums in f64 over the dequantised weights, and
//! the same bits on every instruction set, in any batch and on any number of threads.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its inputs are small"
)]

mod seeded;

use seeded::{Seeded, available, bits};
use zinc_cpu::{Context, Isa, Matrix, Product, Residual, matmul, products};
use zinc_gguf::{DType, quants};

/// `sum_k w[o][k] x[t][k]` in f64, and the sum of magnitudes that its error is measured by.
fn truth(dtype: DType, bytes: &[u8], x: &[f32], n_in: usize, n_out: usize) -> Vec<(f64, f64)> {
    let mut w = vec![0.0; n_in * n_out];
    quants::dequantize(dtype, bytes, &mut w).unwrap();
    let row = |x: &[f32], w: &[f32]| {
        x.iter().zip(w).fold((0.0, 0.0), |(sum, size), (x, w)| {
            let product = f64::from(*x) * f64::from(*w);
            (sum + product, size + product.abs())
        })
    };
    x.chunks_exact(n_in).flat_map(|x| w.chunks_exact(n_in).map(move |w| row(x, w))).collect()
}

/// A sum of `n` products in sixteen lanes has at most `n / 16 + 5` roundings in a chain, most of
/// which are much smaller than the last; 1e-6 of the magnitudes is far above what they make.
fn check(y: &[f32], truth: &[(f64, f64)], what: &str) {
    assert_eq!(y.len(), truth.len());
    for (i, (y, (sum, size))) in y.iter().zip(truth).enumerate() {
        let error = (f64::from(*y) - sum).abs();
        assert!(error <= 1e-6 * size + 1e-30, "{what}: element {i} is {y}, not {sum}");
    }
}

/// Row length, where a type allows it, and number of rows.
const SHAPES: [(usize, usize); 4] = [(256, 1), (512, 70), (1280, 37), (2304, 9)];

#[test]
fn products_are_those_of_the_dequantised_weights() {
    for dtype in DType::ALL {
        for (n_in, n_out) in SHAPES {
            let mut seeded = Seeded::new(7);
            let bytes = seeded.weights(dtype, n_in * n_out);
            let weights = Matrix::new(dtype, &bytes, n_in, n_out).unwrap();
            for n_tokens in [1, 2, 3, 5, 7, 9, 17, 33, 64, 70] {
                let x = seeded.floats(n_tokens * n_in);
                let truth = truth(dtype, &bytes, &x, n_in, n_out);
                for isa in available() {
                    if isa == Isa::Scalar && n_tokens > 9 {
                        continue;
                    }
                    let mut ctx = Context::with_isa(2, isa).unwrap();
                    let mut y = vec![f32::NAN; n_tokens * n_out];
                    matmul(&mut ctx, &weights, &x, None, &mut y);
                    check(&y, &truth, &format!("{dtype} {n_tokens}x{n_in}x{n_out} {isa}"));
                }
            }
        }
    }
}

#[test]
fn float_rows_of_any_length() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for n_in in [1, 3, 16, 31, 33, 100, 1023, 1025, 1056] {
            let mut seeded = Seeded::new(n_in as u64);
            let (n_out, n_tokens) = (7, 9);
            let bytes = seeded.weights(dtype, n_in * n_out);
            let weights = Matrix::new(dtype, &bytes, n_in, n_out).unwrap();
            let x = seeded.floats(n_tokens * n_in);
            let truth = truth(dtype, &bytes, &x, n_in, n_out);
            for isa in available() {
                let mut ctx = Context::with_isa(2, isa).unwrap();
                let mut y = vec![f32::NAN; n_tokens * n_out];
                matmul(&mut ctx, &weights, &x, None, &mut y);
                check(&y, &truth, &format!("{dtype} {n_in} {isa}"));
                for (x, y) in x.chunks_exact(n_in).zip(y.chunks_exact(n_out)) {
                    let mut alone = vec![f32::NAN; n_out];
                    matmul(&mut ctx, &weights, x, None, &mut alone);
                    assert_eq!(bits(&alone), bits(y), "{dtype} {n_in} {isa}");
                }
            }
        }
    }
}

/// More than there are cores for, so that some are displaced in the midst of their work.
const THREADS: [usize; 4] = [1, 2, 3, 7];

#[test]
fn outputs_have_the_same_bits_whoever_computes_them() {
    // Work items of both sizes on every number of threads, and a last one that is shorter.
    let (n_in, n_out) = (256, 1111);
    let mut contexts = THREADS.map(|n| Context::new(n).unwrap());
    for dtype in [DType::F16, DType::Q4_1, DType::Q6_K] {
        let mut seeded = Seeded::new(17);
        let bytes = seeded.weights(dtype, n_in * n_out);
        let weights = Matrix::new(dtype, &bytes, n_in, n_out).unwrap();
        for n_tokens in [1, 4, 5] {
            let x = seeded.floats(n_tokens * n_in);
            let truth = truth(dtype, &bytes, &x, n_in, n_out);
            let mut alone = vec![f32::NAN; n_tokens * n_out];
            matmul(&mut contexts[0], &weights, &x, None, &mut alone);
            check(&alone, &truth, &format!("{dtype}, {n_tokens} tokens"));
            for ctx in &mut contexts {
                for _ in 0..20 {
                    let mut y = vec![f32::NAN; n_tokens * n_out];
                    matmul(ctx, &weights, &x, None, &mut y);
                    assert_eq!(bits(&y), bits(&alone), "{dtype}, {n_tokens} tokens, {} threads", ctx.n_threads());
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_batch_on_every_number_of_threads() {
    let (n_in, n_out, n_most) = (1280, 22, 70);
    let mut contexts = THREADS.map(|n| Context::new(n).unwrap());
    for dtype in DType::ALL {
        let mut seeded = Seeded::new(11);
        let bytes = seeded.weights(dtype, n_in * n_out);
        let weights = Matrix::new(dtype, &bytes, n_in, n_out).unwrap();
        let x = seeded.floats(n_most * n_in);
        let mut alone = vec![0.0; n_most * n_out];
        for (x, y) in x.chunks_exact(n_in).zip(alone.chunks_exact_mut(n_out)) {
            matmul(&mut contexts[0], &weights, x, None, y);
        }
        for n_tokens in 1..=n_most {
            // The rows of the batch are taken from the end, so that their places differ.
            let first = n_most - n_tokens;
            for ctx in &mut contexts {
                let mut y = vec![f32::NAN; n_tokens * n_out];
                matmul(ctx, &weights, &x[first * n_in..], None, &mut y);
                assert_eq!(
                    bits(&y),
                    bits(&alone[first * n_out..]),
                    "{dtype}, {n_tokens} tokens, {} threads",
                    ctx.n_threads()
                );
            }
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let (n_in, n_out) = (1280, 13);
    let mut contexts: Vec<Context> = available().into_iter().map(|isa| Context::with_isa(1, isa).unwrap()).collect();
    for dtype in DType::ALL {
        let mut seeded = Seeded::new(13);
        let bytes = seeded.weights(dtype, n_in * n_out);
        let weights = Matrix::new(dtype, &bytes, n_in, n_out).unwrap();
        for n_tokens in [1, 2, 4, 11] {
            let x = seeded.floats(n_tokens * n_in);
            let results: Vec<Vec<f32>> = contexts
                .iter_mut()
                .map(|ctx| {
                    let mut y = vec![f32::NAN; n_tokens * n_out];
                    matmul(ctx, &weights, &x, None, &mut y);
                    y
                })
                .collect();
            for (ctx, y) in contexts.iter().zip(&results) {
                assert_eq!(bits(y), bits(results.last().unwrap()), "{dtype}, {n_tokens} tokens, {}", ctx.isa());
            }
        }
    }
}

#[test]
fn bias_and_residual_are_added_to_each_product_of_a_phase() {
    let n_in = 256;
    for n_tokens in [1, 3, 6, 40] {
        let mut seeded = Seeded::new(17);
        let x = seeded.floats(n_tokens * n_in);
        let shapes = [(DType::Q4_K, 48), (DType::Q8_0, 9), (DType::F16, 1)];
        let all: Vec<_> = shapes.map(|(dtype, n_out)| (dtype, n_out, seeded.weights(dtype, n_in * n_out))).into();
        let bias = seeded.floats(48);
        let residual = seeded.floats(n_tokens * 48);
        let mut ys: Vec<Vec<f32>> = all.iter().map(|(_, n_out, _)| seeded.floats(n_tokens * n_out)).collect();
        let own = ys[1].clone();
        let mut ctx = Context::new(2).unwrap();
        let [y0, y1, y2] = ys.get_disjoint_mut([0, 1, 2]).unwrap();
        let weights = |i: usize| Matrix::new(all[i].0, &all[i].2, n_in, all[i].1).unwrap();
        products(
            &mut ctx,
            &x,
            &mut [
                Product { weights: weights(0), bias: Some(&bias), residual: Residual::Of(&residual), y: y0 },
                Product { weights: weights(1), bias: None, residual: Residual::Own, y: y1 },
                Product { weights: weights(2), bias: None, residual: Residual::None, y: y2 },
            ],
        );
        for (i, (dtype, n_out, bytes)) in all.iter().enumerate() {
            let mut truth = truth(*dtype, bytes, &x, n_in, *n_out);
            for (at, truth) in truth.iter_mut().enumerate() {
                let added = match i {
                    0 => f64::from(bias[at % 48]) + f64::from(residual[at]),
                    1 => f64::from(own[at]),
                    _ => 0.0,
                };
                *truth = (truth.0 + added, truth.1 + added.abs());
            }
            check(&ys[i], &truth, &format!("product {i}, {n_tokens} tokens"));
        }
    }
}

#[test]
fn matrices_of_the_wrong_size_are_refused() {
    let bytes = vec![0; 144 * 3];
    let say = |dtype, n_in, n_out| Matrix::new(dtype, &bytes, n_in, n_out).unwrap_err().to_string();
    assert_eq!(say(DType::Q4_K, 100, 3), "a row of 100 weights is no whole number of Q4_K blocks, which have 256");
    assert_eq!(say(DType::Q4_K, 0, 3), "a row of 0 weights is no whole number of Q4_K blocks, which have 256");
    assert_eq!(say(DType::Q4_K, 256, 4), "a Q4_K matrix of 4 rows of 256 weights has 576 bytes, not 432");
    assert!(Matrix::new(DType::Q4_K, &bytes, 256, usize::MAX).is_err());
    assert!(Matrix::new(DType::Q4_K, &bytes, 256, 3).is_ok());
}
