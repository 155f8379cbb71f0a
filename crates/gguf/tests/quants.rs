//! The conversions against the Python package `gguf`, bit for bit; `fixtures/gguf/make_quants.py` made the truth.
//!
//! What that package does not make (Q4_K and Q6_K blocks) is judged by its error, in `tests/quantize_error.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers included")]

mod splitmix;

use sha2::{Digest, Sha256};
use splitmix::{SEED, stream};
use std::path::Path;
use zinc_gguf::quants::float::{f16_to_f32, f32_to_bf16, f32_to_f16};
use zinc_gguf::quants::{dequantize, quantize};
use zinc_gguf::{DType, Error};

#[test]
fn stored_blocks_dequantize_exactly() {
    for dtype in DType::ALL {
        let blocks = fixture(&format!("{dtype}.blocks"));
        let expected = fixture_f32(&format!("{dtype}.f32"));
        let mut got = vec![0.0; expected.len()];
        dequantize(dtype, &blocks, &mut got).unwrap();
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let place = format!("{dtype} block {} weight {}", i / dtype.block_len(), i % dtype.block_len());
            assert_eq!(got.to_bits(), expected.to_bits(), "{place}: got {got}, expected {expected}");
        }
    }
}

#[test]
fn many_blocks_dequantize_exactly() {
    for dtype in DType::ALL {
        let (n_blocks, expected) = digest(&format!("dequantize {dtype}"));
        let mut blocks = stream(SEED + u64::from(dtype.id()), n_blocks * dtype.block_bytes());
        for block in blocks.chunks_exact_mut(dtype.block_bytes()) {
            for &end in float_ends(dtype) {
                block[end] &= 0xbf;
            }
        }
        let mut weights = vec![0.0; n_blocks * dtype.block_len()];
        dequantize(dtype, &blocks, &mut weights).unwrap();
        assert_eq!(sha256_f32(&weights), expected, "{dtype}");
    }
}

#[test]
fn stored_weights_quantize_to_q8_0_exactly() {
    let weights = fixture_f32("Q8_0.quantize.f32");
    let expected = fixture("Q8_0.quantize.blocks");
    let got = quantize(DType::Q8_0, &weights).unwrap();
    for (i, (got, expected)) in got.chunks(34).zip(expected.chunks(34)).enumerate() {
        assert_eq!(got, expected, "block {i}");
    }
    assert_eq!(got.len(), expected.len());
}

#[test]
fn many_weights_quantize_to_q8_0_exactly() {
    let (n_blocks, expected) = digest("quantize Q8_0");
    let whole = stream(SEED + 1000, n_blocks * 32 * 4);
    let exponents = stream(SEED + 1001, n_blocks);
    let weights: Vec<f32> = whole
        .chunks_exact(4)
        .enumerate()
        .map(|(i, bytes)| {
            let whole = i32::from_le_bytes(bytes.try_into().unwrap()) as f32;
            whole * 2f32.powi(i32::from(exponents[i / 32]) % 32 - 52)
        })
        .collect();
    assert_eq!(sha256(&quantize(DType::Q8_0, &weights).unwrap()), expected);
}

#[test]
fn every_half_widens_exactly() {
    let (n, expected) = digest("widen F16");
    let table: Vec<f32> = (0..n)
        .map(|half| f16_to_f32(u16::try_from(half).unwrap()))
        .map(|single| if single.is_nan() { f32::from_bits(0x7fc0_0000) } else { single })
        .collect();
    assert_eq!(sha256_f32(&table), expected);
}

#[test]
fn singles_narrow_exactly() {
    let singles = halves_and_neighbours();
    let (n, expected) = digest("narrow F16");
    assert_eq!(singles.len(), n);
    let halves: Vec<u8> = singles.iter().flat_map(|&single| f32_to_f16(single).to_le_bytes()).collect();
    let halves: Vec<u8> = halves
        .chunks_exact(2)
        .zip(&singles)
        .flat_map(|(half, single)| if single.is_nan() { [0x00, 0x7e] } else { [half[0], half[1]] })
        .collect();
    assert_eq!(sha256(&halves), expected);
    let (_, expected) = digest("narrow BF16");
    let brains: Vec<u8> = singles.iter().flat_map(|&single| f32_to_bf16(single).to_le_bytes()).collect();
    assert_eq!(sha256(&brains), expected);
    assert!(f16_to_f32(f32_to_f16(f32::NAN)).is_nan() && f16_to_f32(f32_to_f16(-f32::NAN)).is_nan());
}

#[test]
fn wrong_lengths_are_refused() {
    let error = dequantize(DType::Q4_K, &[0; 143], &mut [0.0; 256]).unwrap_err();
    assert_eq!(error.to_string(), "143 bytes given for 256 weights of type Q4_K, expected 144");
    let error = dequantize(DType::Q4_K, &[0; 144], &mut [0.0; 255]).unwrap_err();
    assert_eq!(error.to_string(), "144 bytes given for 255 weights of type Q4_K, expected whole blocks of 256");
    assert!(matches!(quantize(DType::Q8_0, &[0.0; 31]), Err(Error::PartialBlock { dtype: DType::Q8_0, got: 31 })));
}

#[test]
fn weights_out_of_range_are_refused() {
    for dtype in [DType::Q8_0, DType::Q4_K, DType::Q6_K] {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            let mut weights = vec![1.0; 256];
            weights[77] = bad;
            let got = quantize(dtype, &weights);
            assert!(matches!(got, Err(Error::Unrepresentable { index: 77, .. })), "{dtype} {bad}: {got:?}");
        }
    }
    for dtype in [DType::F16, DType::BF16] {
        assert!(matches!(quantize(dtype, &[0.0, f32::MAX]), Err(Error::Unrepresentable { index: 1, .. })), "{dtype}");
        let mut back = [0.0; 1];
        dequantize(dtype, &quantize(dtype, &[f32::NEG_INFINITY]).unwrap(), &mut back).unwrap();
        assert_eq!(back, [f32::NEG_INFINITY]);
    }
}

#[test]
fn types_that_are_only_read_cannot_be_made() {
    let made = [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_K, DType::Q6_K];
    for dtype in DType::ALL {
        let got = quantize(dtype, &[0.5; 256]);
        assert_eq!(got.is_ok(), made.contains(&dtype), "{dtype}");
        assert!(got.is_ok() || matches!(got, Err(Error::NoQuantizer { .. })));
    }
}

/// Byte offsets, within a block, of the last byte of each floating-point field: written down apart from the constants
/// of `quants`, as the Python side does.
fn float_ends(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::F32 => &[3],
        DType::Q4_1 | DType::Q5_1 | DType::Q4_K | DType::Q5_K => &[1, 3],
        DType::Q2_K => &[81, 83],
        DType::Q3_K => &[109],
        DType::Q6_K => &[209],
        DType::MXFP4 => &[],
        _ => &[1],
    }
}

/// Every finite positive half, the midpoints between them, the singles beside those, their negatives, and random bits.
fn halves_and_neighbours() -> Vec<f32> {
    let halves: Vec<f32> = (0..0x7c00).map(f16_to_f32).collect();
    let upper = halves[1..].iter().copied().chain([65536.0]);
    #[allow(clippy::cast_possible_truncation, reason = "a midpoint of two halves is a single")]
    let middles: Vec<f32> =
        halves.iter().zip(upper).map(|(&low, high)| f64::midpoint(low.into(), high.into()) as f32).collect();
    let beside = |by: i32| middles.iter().map(move |middle| middle.to_bits().wrapping_add_signed(by));
    let mut bits: Vec<u32> = halves.iter().chain(&middles).map(|single| single.to_bits()).collect();
    bits.extend(beside(-1).chain(beside(1)));
    let negative: Vec<u32> = bits.iter().map(|bits| bits | 0x8000_0000).collect();
    bits.extend(negative);
    bits.extend(
        stream(SEED + 1002, 4 * 65536).chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())),
    );
    bits.into_iter().map(f32::from_bits).collect()
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gguf/quants").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixture_f32(name: &str) -> Vec<f32> {
    fixture(name).chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Number of items and SHA-256 of an entry of `digests.txt`.
fn digest(name: &str) -> (usize, String) {
    let all = String::from_utf8(fixture("digests.txt")).unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let (n, sum) = line.unwrap_or_else(|| panic!("no digest for {name}")).split_once(' ').unwrap();
    (n.parse().unwrap(), sum.to_owned())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256_f32(weights: &[f32]) -> String {
    sha256(&weights.iter().flat_map(|weight| weight.to_le_bytes()).collect::<Vec<_>>())
}
