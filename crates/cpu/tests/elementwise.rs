//! Norms, gated units, rotations and look-ups against f64, and the same bits on every instruction
//! set and number of threads.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its inputs are small"
)]

mod seeded;

use seeded::{Seeded, available, bits};
use zinc_cpu::{
    Activation, Context, Matrix, Pairs, add, add_rms_norm, argmax, embed, glu, matmul, matmul_glu, mul, rms_norm, rope,
    scale, softcap,
};
use zinc_gguf::{DType, quants};

/// Runs `f` on every instruction set with one and three threads; all must give the same bits.
fn everywhere(f: impl Fn(&mut Context) -> Vec<f32>) -> Vec<f32> {
    let mut results: Vec<Vec<f32>> = Vec::new();
    for isa in available() {
        for n_threads in [1, 3] {
            let y = f(&mut Context::with_isa(n_threads, isa).unwrap());
            if let Some(first) = results.first() {
                assert_eq!(bits(&y), bits(first), "{isa}, {n_threads} threads");
            }
            results.push(y);
        }
    }
    results.swap_remove(0)
}

fn assert_near(y: f32, truth: f64, tolerance: f64, what: &str) {
    let error = (f64::from(y) - truth).abs();
    assert!(error <= tolerance, "{what}: {y}, not {truth} (off by {error:e})");
}

#[test]
fn norms_divide_by_the_root_of_the_mean_square() {
    for (n_rows, width) in [(1, 1), (1, 64), (3, 576), (9, 20), (40, 128), (2, 4097)] {
        for weighted in [true, false] {
            let mut seeded = Seeded::new(43);
            let (x, w) = (seeded.floats(n_rows * width), seeded.floats(width));
            let w = weighted.then_some(&w[..]);
            let y = everywhere(|ctx| {
                let mut y = vec![f32::NAN; x.len()];
                rms_norm(ctx, &x, w, width, 1e-5, &mut y);
                y
            });
            for (x, y) in x.chunks_exact(width).zip(y.chunks_exact(width)) {
                let mean: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / width as f64;
                for (i, (x, y)) in x.iter().zip(y).enumerate() {
                    let truth = f64::from(*x) / (mean + 1e-5).sqrt() * w.map_or(1.0, |w| f64::from(w[i]));
                    assert_near(*y, truth, 5e-7 * truth.abs(), &format!("norm of {width}"));
                }
            }
        }
    }
}

#[test]
fn the_fused_norm_is_the_sum_and_the_norm() {
    let (n_rows, width) = (9, 100);
    let mut seeded = Seeded::new(47);
    let (a, b, w) = (seeded.floats(n_rows * width), seeded.floats(n_rows * width), seeded.floats(width));
    everywhere(|ctx| {
        let mut expected = [vec![0.0; a.len()], vec![0.0; a.len()]];
        add(&a, &b, &mut expected[0]);
        let [sum, y] = &mut expected;
        rms_norm(ctx, sum, Some(&w), width, 1e-6, y);
        let mut fused = [vec![0.0; a.len()], vec![0.0; a.len()]];
        let [sum, y] = &mut fused;
        add_rms_norm(ctx, &a, &b, &w, 1e-6, sum, y);
        assert_eq!(fused, expected);
        fused.concat()
    });
}

/// The unit in f64, and the exponent of its `1 / (1 + e^-z)`.
fn gated(activation: Activation, gate: f64, up: f64) -> (f64, f64) {
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    match activation {
        Activation::Silu => (gate * sigmoid(gate) * up, gate),
        Activation::GeluTanh => {
            // `(1 + tanh z) / 2` is `sigmoid(2 z)`, which f64 can say where the former is 0.
            let z = 2.0 * (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
            (gate * sigmoid(z) * up, z)
        }
        Activation::Sigmoid => (sigmoid(gate) * up, gate),
        Activation::Clamped { alpha, limit } => {
            let (alpha, limit) = (f64::from(alpha), f64::from(limit));
            let (gate, up) = (gate.min(limit), up.clamp(-limit, limit));
            (gate * sigmoid(alpha * gate) * (up + 1.0), alpha * gate)
        }
    }
}

const ACTIVATIONS: [Activation; 4] =
    [Activation::Silu, Activation::GeluTanh, Activation::Sigmoid, Activation::Clamped { alpha: 1.702, limit: 7.0 }];

#[test]
fn gated_units_follow_their_formulas_from_tiny_to_large_inputs() {
    for activation in ACTIVATIONS {
        for spread in [1e-3f32, 1.0, 10.0, 90.0, 3e4] {
            let mut seeded = Seeded::new(53);
            let gate: Vec<f32> = seeded.floats(40_007).iter().map(|x| x * spread).collect();
            let up: Vec<f32> = seeded.floats(gate.len()).iter().map(|x| x * spread).collect();
            let y = everywhere(|ctx| {
                let mut y = vec![f32::NAN; gate.len()];
                glu(ctx, activation, &gate, &up, &mut y);
                y
            });
            for ((gate, up), y) in gate.iter().zip(&up).zip(y) {
                let (gate, up) = (f64::from(*gate), f64::from(*up));
                let (truth, exponent) = gated(activation, gate, up);
                // Where the gate is nearly shut the exponent's own rounding shows, a few 1e-8 of
                // it. What is no normal number before it is multiplied may be zero.
                let shut = (-exponent).clamp(0.0, 90.0);
                let size = truth.abs() * (5e-7 + 2e-7 * shut) + 1.2e-38 * (gate * up).abs().max(1.0);
                assert_near(y, truth, size, &format!("{activation:?} of {gate} and {up}"));
            }
        }
    }
}

#[test]
fn the_soft_cap_is_smooth_through_zero() {
    let x: Vec<f32> =
        (-4000..4000).map(|i| i as f32 * 0.031).chain([0.0, 1e-30, -1e-30, 1e-4, 1e30, -1e30, f32::INFINITY]).collect();
    let y = everywhere(|ctx| {
        let mut y = vec![f32::NAN; x.len()];
        softcap(ctx, 30.0, &x, &mut y);
        y
    });
    for (x, y) in x.iter().zip(y) {
        let truth = 30.0 * (f64::from(*x) / 30.0).tanh();
        assert_near(y, truth, 8e-7 * truth.abs(), &format!("cap of {x}"));
    }
}

#[test]
fn a_fused_gated_product_has_the_bits_of_its_parts() {
    let (n_in, n_out) = (512, 70);
    for dtype in [DType::Q4_1, DType::Q5_0, DType::Q6_K] {
        for n_tokens in [1, 3, 5, 34] {
            let mut seeded = Seeded::new(59);
            let bytes = [seeded.weights(dtype, n_in * n_out), seeded.weights(dtype, n_in * n_out)];
            let [gate, up] = bytes.each_ref().map(|b| Matrix::new(dtype, b, n_in, n_out).unwrap());
            let x = seeded.floats(n_tokens * n_in);
            for activation in ACTIVATIONS {
                everywhere(|ctx| {
                    let mut parts = [vec![0.0; n_tokens * n_out], vec![0.0; n_tokens * n_out]];
                    matmul(ctx, &gate, &x, None, &mut parts[0]);
                    matmul(ctx, &up, &x, None, &mut parts[1]);
                    let mut expected = vec![0.0; n_tokens * n_out];
                    glu(ctx, activation, &parts[0], &parts[1], &mut expected);
                    let mut fused = vec![f32::NAN; n_tokens * n_out];
                    matmul_glu(ctx, &gate, &up, activation, &x, &mut fused);
                    assert_eq!(bits(&fused), bits(&expected), "{dtype}, {n_tokens} tokens");
                    fused
                });
            }
        }
    }
}

#[test]
fn rotations_turn_pairs_of_columns() {
    for (pairs, head_dim, n_rot) in
        [(Pairs::HalfSplit, 64, 64), (Pairs::Adjacent, 64, 64), (Pairs::HalfSplit, 24, 8), (Pairs::Adjacent, 20, 12)]
    {
        let (n_tokens, n_heads) = (19, 3);
        let mut seeded = Seeded::new(61);
        let x = seeded.floats(n_tokens * n_heads * head_dim);
        let angles = seeded.floats(n_tokens * n_rot / 2);
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
        let y = everywhere(|ctx| {
            let mut y = x.clone();
            rope(ctx, &mut y, n_tokens, head_dim, pairs, &cos, &sin);
            y
        });
        for (at, y) in y.iter().enumerate() {
            let (t, column) = (at / (n_heads * head_dim), at % head_dim);
            let head = &x[at - column..][..head_dim];
            let (i, second) = match pairs {
                Pairs::HalfSplit => (column % (n_rot / 2), column >= n_rot / 2),
                Pairs::Adjacent => (column / 2, column % 2 == 1),
            };
            if column >= n_rot {
                assert_eq!(*y, head[column]);
                continue;
            }
            let [a, b] = match pairs {
                Pairs::HalfSplit => [i, i + n_rot / 2],
                Pairs::Adjacent => [2 * i, 2 * i + 1],
            };
            let [a, b] = [f64::from(head[a]), f64::from(head[b])];
            let (cos, sin) = (f64::from(cos[t * n_rot / 2 + i]), f64::from(sin[t * n_rot / 2 + i]));
            let truth = if second { a * sin + b * cos } else { a * cos - b * sin };
            assert_near(*y, truth, 2e-7, &format!("{pairs:?}, token {t}, column {column}"));
        }
    }
}

#[test]
fn table_rows_are_the_dequantised_weights() {
    for dtype in DType::ALL {
        for n_in in [256, 1280] {
            let mut seeded = Seeded::new(67);
            let bytes = seeded.weights(dtype, n_in * 11);
            let table = Matrix::new(dtype, &bytes, n_in, 11).unwrap();
            let mut w = vec![0.0; n_in * 11];
            quants::dequantize(dtype, &bytes, &mut w).unwrap();
            let ids = [10, 0, 7, 7];
            let y = everywhere(|ctx| {
                let mut y = vec![f32::NAN; ids.len() * n_in];
                embed(ctx, &table, &ids, 2.0, &mut y);
                y.iter().map(|y| y + 0.0).collect() // -0 and 0 are one weight
            });
            for (id, y) in ids.iter().zip(y.chunks_exact(n_in)) {
                let expected: Vec<f32> = w[*id as usize * n_in..][..n_in].iter().map(|w| 2.0 * w).collect();
                assert_eq!(y, expected, "{dtype}, row {id}");
            }
        }
    }
    let bytes = Seeded::new(71).weights(DType::F16, 100 * 3);
    let table = Matrix::new(DType::F16, &bytes, 100, 3).unwrap();
    let mut w = vec![0.0; 300];
    quants::dequantize(DType::F16, &bytes, &mut w).unwrap();
    let y = everywhere(|ctx| {
        let mut y = vec![f32::NAN; 200];
        embed(ctx, &table, &[2, 1], 1.0, &mut y);
        y
    });
    assert_eq!(y, [&w[200..300], &w[100..200]].concat());
}

#[test]
fn sums_products_and_scales() {
    let (a, b) = ([1.0, -2.0, 3.5], [0.5, 4.0, -1.0]);
    let mut y = [0.0; 3];
    add(&a, &b, &mut y);
    assert_eq!(y, [1.5, 2.0, 2.5]);
    mul(&a, &b, &mut y);
    assert_eq!(y, [0.5, -8.0, -3.5]);
    scale(-2.0, &a, &mut y);
    assert_eq!(y, [-2.0, 4.0, -7.0]);
}

#[test]
fn argmax_is_the_first_of_the_largest() {
    let check = |x: &[f32], expected: &[u32]| {
        let mut y = vec![9; expected.len()];
        argmax(x, &mut y);
        assert_eq!(y, expected);
    };
    check(&[], &[]);
    check(&[7.0], &[0]);
    check(&[1.0, 3.0, 3.0, f32::NAN, 2.0, -1.0, -3.0, -1.0, -2.0, -5.0], &[1, 0]);
    check(&[f32::NAN, f32::NAN, f32::NEG_INFINITY, f32::NAN], &[0, 0]);
    let mut long = vec![0.0; 1001];
    (long[999], long[1000]) = (4.0, 4.0);
    check(&long, &[999]);
}
