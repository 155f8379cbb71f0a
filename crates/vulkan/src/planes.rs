//! Weights whose blocks are no multiple of 16 bytes, taken apart on their way to the device.
//!
//! Eight blocks become planes: all first parts of the blocks, then all second parts, and so on. What a lane reads then begins at
//! multiples of 16 bytes, which is one load instead of five and a shift. No byte is added or left out, so that rows lie where
//! they would lie otherwise. `shaders/common/dequant.glsl` reads both forms.

use zinc_gguf::DType;

/// Blocks that are taken apart together: what makes a multiple of 16 bytes of them.
const BLOCKS: usize = 8;
/// Added to the id of a type that is taken apart, in the kernels' constants; `shaders/common/dequant.glsl` has the same name.
pub(crate) const IN_PLANES: u32 = 64;

/// The parts of a type's blocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Planes {
    block_bytes: usize,
    /// First byte in the block, and bytes, in the order of the planes; all bytes of a block.
    parts: &'static [(usize, usize)],
}

/// 32 bytes of weights behind their scale.
static Q8_0: Planes = Planes { block_bytes: 34, parts: &[(2, 32), (0, 2)] };
/// Low bits, high bits, scales of sixteens, scale of all.
static Q6_K: Planes = Planes { block_bytes: 210, parts: &[(0, 128), (128, 64), (192, 16), (208, 2)] };

impl Planes {
    /// How matrices of this type and shape are taken apart, if they are: whole rows of eight blocks. One row alone is left, since
    /// a vector is read by other kernels too.
    #[must_use]
    pub(crate) fn of(dtype: DType, shape: [u32; 3]) -> Option<&'static Planes> {
        let planes = match dtype {
            DType::Q8_0 => &Q8_0,
            DType::Q6_K => &Q6_K,
            _ => return None,
        };
        let is_whole = (shape[0] as usize).is_multiple_of(BLOCKS * dtype.block_len());
        (is_whole && shape[1] > 1).then_some(planes)
    }

    /// Bytes of eight blocks.
    #[must_use]
    pub(crate) fn group_bytes(&self) -> usize {
        BLOCKS * self.block_bytes
    }

    /// Takes whole groups of blocks apart. `to` is written from its first byte to its last.
    ///
    /// # Panics
    /// Slices of different lengths, or of no whole number of groups.
    pub(crate) fn take_apart(&self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "planes have the bytes of their blocks");
        let group_bytes = self.group_bytes();
        assert!(from.len().is_multiple_of(group_bytes), "groups are taken apart whole");
        for (from, to) in from.chunks_exact(group_bytes).zip(to.chunks_exact_mut(group_bytes)) {
            let mut at = 0;
            for &(first, bytes) in self.parts {
                let plane = &mut to[at..at + BLOCKS * bytes];
                match bytes {
                    2 => self.copy_part::<2>(first, from, plane),
                    16 => self.copy_part::<16>(first, from, plane),
                    32 => self.copy_part::<32>(first, from, plane),
                    64 => self.copy_part::<64>(first, from, plane),
                    128 => self.copy_part::<128>(first, from, plane),
                    _ => unreachable!("no type has a part of {bytes} bytes"),
                }
                at += BLOCKS * bytes;
            }
        }
    }

    /// The part of N bytes that begins at byte `first` of each block. N is a constant, since copies of a known length are moves:
    /// one core takes Q8_0 apart at 11 GB/s then instead of 3.6, Q6_K at 11 instead of 6.9 (AMD EPYC, release build).
    fn copy_part<const N: usize>(&self, first: usize, blocks: &[u8], plane: &mut [u8]) {
        for (block, to) in blocks.chunks_exact(self.block_bytes).zip(plane.chunks_exact_mut(N)) {
            to.copy_from_slice(&block[first..first + N]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_block_once_and_groups_are_whole_sixteens() {
        for (dtype, planes) in [(DType::Q8_0, &Q8_0), (DType::Q6_K, &Q6_K)] {
            assert_eq!(planes.block_bytes, dtype.block_bytes());
            let mut parts = planes.parts.to_vec();
            parts.sort_unstable();
            let end = parts.iter().fold(0, |end, &(first, bytes)| if first == end { end + bytes } else { usize::MAX });
            assert_eq!(end, planes.block_bytes);
            assert!(planes.group_bytes().is_multiple_of(16));
            // Planes of parts of sixteen bytes or more come first, and so begin at multiples of 16.
            assert!(planes.parts.iter().all(|&(_, bytes)| (BLOCKS * bytes).is_multiple_of(16)));
        }
    }

    /// Where `dequant.glsl` looks for a part of block b of a group: first byte in the block, bytes, first byte in the group.
    #[test]
    fn parts_lie_where_the_kernels_look_for_them() {
        let q8_0 = [(2, 32, 0), (0, 2, 256)];
        let q6_k = [(0, 128, 0), (128, 64, 1024), (192, 16, 1536), (208, 2, 1664)];
        for (planes, parts) in [(&Q8_0, &q8_0[..]), (&Q6_K, &q6_k[..])] {
            let n = planes.block_bytes;
            let byte = |g: usize, b: usize, i: usize| (g * 101 + b * 37 + i * 3).to_le_bytes()[0];
            let from: Vec<u8> = (0..2 * BLOCKS * n).map(|k| byte(k / (BLOCKS * n), k / n % BLOCKS, k % n)).collect();
            let mut to = vec![0; from.len()];
            planes.take_apart(&from, &mut to);
            for (g, b) in [(0, 0), (0, 7), (1, 0), (1, 3)] {
                let group = &to[g * planes.group_bytes()..][..planes.group_bytes()];
                for &(first, bytes, at) in parts {
                    assert!((0..bytes).all(|i| group[at + bytes * b + i] == byte(g, b, first + i)), "{n}: {g}, {b}");
                }
            }
        }
    }

    #[test]
    fn the_kernels_tell_both_forms_apart_by_the_same_number() {
        let shader = include_str!("../shaders/common/dequant.glsl");
        assert!(shader.contains(&format!("const uint IN_PLANES = {IN_PLANES},")));
        assert!([DType::Q8_0, DType::Q6_K, DType::MXFP4].iter().all(|dtype| dtype.id() < IN_PLANES));
    }

    #[test]
    fn only_matrices_with_rows_of_whole_groups_are_taken_apart() {
        assert_eq!(Planes::of(DType::Q8_0, [256, 8, 1]), Some(&Q8_0));
        assert_eq!(Planes::of(DType::Q6_K, [4096, 8, 128]), Some(&Q6_K));
        for (dtype, shape) in [
            (DType::Q8_0, [224, 8, 1]),
            (DType::Q8_0, [256, 1, 1]),
            (DType::Q6_K, [1024, 8, 1]),
            (DType::Q4_K, [4096, 8, 1]),
        ] {
            assert_eq!(Planes::of(dtype, shape), None, "{dtype} {shape:?}");
        }
    }
}
