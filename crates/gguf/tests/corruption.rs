//! A valid file with any byte changed is either refused or still usable: no panic, no read outside the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers included")]

use std::path::Path;
use zinc_gguf::{Gguf, quants};

#[test]
fn every_byte_changed() {
    let original = original();
    let mut n_refused = 0;
    for place in 0..original.len() {
        for change in [|_: u8| 0x00, |_: u8| 0xff, |byte: u8| byte ^ 0x80, |byte: u8| byte.wrapping_add(1)] {
            let mut changed = original.clone();
            changed[place] = change(changed[place]);
            n_refused += u32::from(!is_usable(changed));
        }
    }
    assert!(n_refused > 1000, "only {n_refused} changes were noticed");
}

#[test]
fn every_length_and_count_extreme() {
    let original = original();
    for place in 0..original.len() - 8 {
        for extreme in [u64::MAX, i64::MAX as u64, 1 << 63, 1 << 32, u64::from(u32::MAX), 1 << 31] {
            let mut changed = original.clone();
            changed[place..place + 8].copy_from_slice(&extreme.to_le_bytes());
            is_usable(changed);
        }
    }
}

fn original() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gguf/files/all.gguf")).unwrap()
}

/// Whether the bytes open; if so, every tensor is read and converted.
fn is_usable(bytes: Vec<u8>) -> bool {
    let len = bytes.len() as u64;
    let Ok(file) = Gguf::from_bytes(bytes) else { return false };
    for tensor in file.tensors() {
        assert!(tensor.file_offset() + tensor.n_bytes() <= len);
        let mut weights = vec![0.0; usize::try_from(tensor.n_elements()).unwrap()];
        quants::dequantize(tensor.dtype, file.data(tensor).unwrap(), &mut weights).unwrap();
    }
    true
}
