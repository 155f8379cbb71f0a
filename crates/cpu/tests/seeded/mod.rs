//! Seeded inputs: floats, and blocks of every storage type with scales as real files have them.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::cast_possible_truncation, reason = "bits are cut to size on purpose")]

use zinc_gguf::DType;
use zinc_gguf::quants::float::{f32_to_bf16, f32_to_f16};

/// A small generator (xorshift64*); the seed says it all.
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Seeded {
        Seeded(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Uniform in -1 to 1.
    pub(crate) fn float(&mut self) -> f32 {
        (self.bits() & 0xFF_FFFF) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }

    /// `n` weights of a type.
    pub(crate) fn weights(&mut self, dtype: DType, n: usize) -> Vec<u8> {
        let bytes = |x: f32| match dtype {
            DType::F32 => x.to_le_bytes().to_vec(),
            DType::F16 => f32_to_f16(x).to_le_bytes().to_vec(),
            _ => f32_to_bf16(x).to_le_bytes().to_vec(),
        };
        if dtype.block_len() == 1 {
            return (0..n).flat_map(|_| bytes(self.float())).collect();
        }
        assert!(n.is_multiple_of(dtype.block_len()));
        (0..n / dtype.block_len()).flat_map(|_| self.block(dtype)).collect()
    }

    fn block(&mut self, dtype: DType) -> Vec<u8> {
        let mut block: Vec<u8> = (0..dtype.block_bytes()).map(|_| self.bits() as u8).collect();
        // Where the halves are, and how large the weights of a unit scale get.
        let (halves, size): (&[usize], f32) = match dtype {
            DType::Q4_0 | DType::Q5_0 => (&[0], 16.0),
            DType::Q4_1 | DType::Q5_1 => (&[0, 2], 16.0),
            DType::Q8_0 | DType::IQ4_NL => (&[0], 128.0),
            DType::Q2_K => (&[80, 82], 45.0),
            DType::Q3_K => (&[108], 128.0),
            DType::Q4_K | DType::Q5_K => (&[0, 2], 1000.0),
            DType::Q6_K => (&[208], 4000.0),
            DType::IQ4_XS => (&[0], 4000.0),
            _ => (&[], 1.0),
        };
        for &at in halves {
            block[at..at + 2].copy_from_slice(&f32_to_f16(self.float() / size).to_le_bytes());
        }
        if dtype == DType::MXFP4 {
            block[0] = 120 + self.below(6) as u8;
        }
        block
    }
}

/// The instruction sets that this processor has.
pub(crate) fn available() -> Vec<zinc_cpu::Isa> {
    zinc_cpu::Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
}

/// The bits, to compare exactly.
pub(crate) fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}
