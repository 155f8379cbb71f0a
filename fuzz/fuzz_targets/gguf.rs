//! Parses arbitrary bytes as a GGUF file; what is accepted must be usable without a panic, and survive the writer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zinc_gguf::{Gguf, Writer, quants};

/// Weights converted per input at most, to keep runs fast.
const N_WEIGHTS_MAX: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Gguf::from_bytes(bytes.to_vec()) else { return };
    let mut n_left = N_WEIGHTS_MAX;
    let mut writer = Writer::new();
    writer.version(file.version());
    for (key, value) in file.metadata().iter() {
        read_every_way(&file, key);
        writer.metadata(key, value.clone());
    }
    for tensor in file.tensors() {
        let data = file.data(tensor).expect("a file that opens holds its tensors");
        assert_eq!(data.len() as u64, tensor.n_bytes());
        assert!(file.tensor(&tensor.name).is_some());
        let block_len = tensor.dtype.block_len();
        let n_blocks = (n_left / block_len).min(data.len() / tensor.dtype.block_bytes());
        let mut weights = vec![0.0; n_blocks * block_len];
        quants::dequantize(tensor.dtype, &data[..n_blocks * tensor.dtype.block_bytes()], &mut weights)
            .expect("whole blocks convert");
        n_left -= weights.len();
        // May refuse weights that are not finite; must not panic.
        let _ = quants::quantize(tensor.dtype, &weights);
        writer.tensor(&tensor.name, &tensor.shape, tensor.dtype, file.data_shared(tensor).expect("as above"));
    }
    let again = Gguf::from_bytes(writer.to_bytes().expect("what was read can be written")).expect("and read again");
    assert_eq!(again.metadata().len(), file.metadata().len());
    assert_eq!(again.tensors().len(), file.tensors().len());
    for (tensor, copy) in file.tensors().iter().zip(again.tensors()) {
        assert_eq!((&tensor.name, &tensor.shape, tensor.dtype), (&copy.name, &copy.shape, copy.dtype));
        assert!(file.data(tensor).is_ok_and(|data| again.data(copy).is_ok_and(|copied| data == copied)));
    }
});

/// Every typed look-up of `key`; most are of the wrong type.
fn read_every_way(file: &Gguf, key: &str) {
    let metadata = file.metadata();
    let _ = (metadata.u32(key), metadata.u64(key), metadata.i32(key), metadata.f32(key), metadata.bool(key));
    let _ = (metadata.str(key), metadata.bytes(key), metadata.array_len(key), metadata.bools(key));
    let _ = (metadata.u32s(key), metadata.u64s(key), metadata.i32s(key), metadata.f32s(key));
    let _ = (metadata.strings(key), metadata.byte_strings(key));
}
