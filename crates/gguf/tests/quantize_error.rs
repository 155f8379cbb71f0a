//! The error of the Q4_K and Q6_K quantisers, held against llama.cpp's on the same weights.
//!
//! `fixtures/gguf/make_errors.py` measured llama.cpp; the weights come from a generator that both sides have.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers included")]

mod splitmix;

use std::path::Path;
use zinc_gguf::quants::{dequantize, quantize};
use zinc_gguf::{DType, Error};

const N_WEIGHTS: usize = 256 * 256;

#[test]
fn error_is_no_larger_than_the_common_implementations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gguf/quantize_errors.txt");
    let reference = std::fs::read_to_string(path).unwrap();
    assert_eq!(reference.lines().count(), 6);
    for line in reference.lines() {
        let [name, dtype, expected] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let dtype = DType::ALL.into_iter().find(|known| known.name() == dtype).unwrap();
        let expected: f64 = expected.parse().unwrap();
        let got = relative_error(dtype, &weights(name));
        println!("{name} {dtype}: {got:.6e}, llama.cpp {expected:.6e}");
        assert!(got <= expected, "{name} {dtype}: error {got:.6e}, llama.cpp has {expected:.6e}");
    }
}

/// What a format can represent must survive quantisation nearly untouched: codes are found again, and the scales lose
/// at most the rounding of their common factor.
#[test]
fn representable_blocks_survive() {
    for dtype in [DType::Q4_K, DType::Q6_K] {
        let once = round_trip(dtype, &weights("bell"));
        let error = distance(&once, &round_trip(dtype, &once));
        assert!(error < relative_error(dtype, &weights("bell")) / 4.0, "{dtype}: {error:e}");
    }
}

#[test]
fn blocks_without_spread() {
    // The largest weight is scale times code, and the common factor of the scales is a half: exact to 2^-11 of itself
    // or to half its smallest unit, 2^-25. The scales and minimums of a block have different factors.
    for (dtype, scale_times_code) in [(DType::Q4_K, 63.0 * 15.0), (DType::Q6_K, 128.0 * 32.0)] {
        for value in [0.0, -0.0, 1.0, -1.0, 0.01, -3e4, 1e-6, 1e-30, f32::MIN_POSITIVE, 4.0e6, -4.0e6] {
            let back = round_trip(dtype, &[value; 256]);
            let tolerance = value.abs() / 1024.0 + scale_times_code / (1 << 25) as f32;
            for weight in back {
                assert!((weight - value).abs() <= tolerance, "{dtype}: {value} became {weight}");
            }
        }
    }
}

/// One weight far larger than the rest, in every place.
#[test]
fn outliers_keep_their_value() {
    for dtype in [DType::Q4_K, DType::Q6_K] {
        for place in 0..256 {
            let mut block: Vec<f32> = weights("bell")[..256].to_vec();
            block[place] = if place % 2 == 0 { 40.0 } else { -40.0 };
            let back = round_trip(dtype, &block);
            assert!((back[place] / block[place] - 1.0).abs() < 0.01, "{dtype} {place}: {}", back[place]);
        }
    }
}

#[test]
fn nothing_becomes_no_blocks() -> Result<(), Error> {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_K, DType::Q6_K] {
        assert!(quantize(dtype, &[])?.is_empty());
        dequantize(dtype, &[], &mut [])?;
    }
    Ok(())
}

fn weights(name: &str) -> Vec<f32> {
    let whole = splitmix::stream(splitmix::SEED + 2000, N_WEIGHTS * 8);
    let exponents = splitmix::stream(splitmix::SEED + 2001, N_WEIGHTS);
    let bell = whole.chunks_exact(8).map(|four| {
        let sum: i32 = four.chunks_exact(2).map(|two| i32::from(i16::from_le_bytes([two[0], two[1]]))).sum();
        sum as f32 / (1 << 20) as f32
    });
    match name {
        "bell" => bell.collect(),
        "heavy-tailed" => {
            let powers = [0, 0, 0, 0, 1, 1, 2, 3].map(|exponent| 2f32.powi(exponent));
            bell.zip(exponents).map(|(weight, byte)| weight * powers[usize::from(byte % 8)]).collect()
        }
        "positive" => bell.map(|weight| weight.abs() + 0.125).collect(),
        _ => panic!("no weights are called {name}"),
    }
}

fn round_trip(dtype: DType, weights: &[f32]) -> Vec<f32> {
    let mut back = vec![0.0; weights.len()];
    dequantize(dtype, &quantize(dtype, weights).unwrap(), &mut back).unwrap();
    back
}

fn relative_error(dtype: DType, weights: &[f32]) -> f64 {
    distance(weights, &round_trip(dtype, weights))
}

/// Root of the squared difference over the squared weights.
fn distance(weights: &[f32], others: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let miss: f64 = weights.iter().zip(others).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    (miss / weights.iter().map(|&weight| square(weight.into())).sum::<f64>()).sqrt()
}
