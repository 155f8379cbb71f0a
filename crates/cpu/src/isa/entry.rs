//! Every kernel, compiled for every instruction set, as a table of function pointers.
//!
//! The macro gives each kernel a function with the instruction set's features enabled, into which
//! the generic code is inlined. That is the only place where features are named.

use zinc_gguf::DType;

use crate::activation::Activation;
use crate::attention::block::{self, BlockJob};
use crate::attention::softmax::{self, FinishJob};
use crate::formats::{Format, with_format};
use crate::matmul::few::{self, FewJob};
use crate::matmul::tile::{self, ExpandJob, TileJob};
use crate::{activation, math, norm};

/// A row's norm: eps, x, w, y.
pub(crate) type RmsNorm = unsafe fn(f32, &[f32], Option<&[f32]>, &mut [f32]);

/// The kernels of one instruction set. All are unsafe: the processor must have it, and jobs carry
/// pointers.
pub(crate) struct EntryPoints {
    /// Dot products with at most [`few::TOKENS_MAX`] inputs, weights unpacked in registers.
    pub(crate) few: fn(DType, usize) -> unsafe fn(&FewJob),
    /// Weights to f32.
    pub(crate) expand: fn(DType) -> unsafe fn(&ExpandJob),
    /// f32 panel times many inputs.
    pub(crate) tile: unsafe fn(&TileJob),
    /// One block of queries against one span of keys.
    pub(crate) attend: unsafe fn(&BlockJob),
    /// Merges spans and writes results.
    pub(crate) finish: unsafe fn(&FinishJob),
    /// Rounds f32 to halves: source, destination, count.
    pub(crate) store_halves: unsafe fn(&[f32], &mut [u16]),
    /// `y = act(gate) * up`.
    pub(crate) glu: unsafe fn(Activation, &[f32], &[f32], &mut [f32]),
    /// `y = cap * tanh(x / cap)`.
    pub(crate) softcap: unsafe fn(f32, &[f32], &mut [f32]),
    /// `y = x / rms(x) * w`.
    pub(crate) rms_norm: RmsNorm,
    /// `y = e^x`.
    #[cfg_attr(not(test), expect(dead_code, reason = "other kernels inline it; its error is tested by itself"))]
    pub(crate) exp: unsafe fn(&[f32], &mut [f32]),
}

macro_rules! entry_points {
    ($(#[$cfg:meta])? $module:ident, $simd:ty, [$(#[$features:meta])?], $rows:literal x $tokens:literal) => {
        $(#[$cfg])?
        pub(super) mod $module {
            use super::{Activation, BlockJob, DType, EntryPoints, ExpandJob, FewJob, FinishJob, Format, TileJob, activation, block, few, math, norm, softmax, tile, with_format};

            /// # Safety
            /// The processor has the instruction set; the job's pointers are as it says.
            $(#[$features])?
            unsafe fn few<F: Format, const C: usize>(job: &FewJob) {
                // SAFETY: as the caller vouches.
                unsafe { few::run::<$simd, F, C>(<$simd>::assume(), job) }
            }

            /// # Safety
            /// As [`few`].
            $(#[$features])?
            unsafe fn expand<F: Format>(job: &ExpandJob) {
                // SAFETY: as the caller vouches.
                unsafe { tile::expand::<$simd, F>(<$simd>::assume(), job) }
            }

            /// # Safety
            /// As [`few`].
            $(#[$features])?
            unsafe fn tile(job: &TileJob) {
                // SAFETY: as the caller vouches.
                unsafe { tile::run::<$simd, $rows, $tokens>(<$simd>::assume(), job) }
            }

            /// # Safety
            /// As [`few`].
            $(#[$features])?
            unsafe fn attend(job: &BlockJob) {
                // SAFETY: as the caller vouches.
                unsafe { block::run::<$simd, $rows, $tokens>(<$simd>::assume(), job) }
            }

            /// # Safety
            /// As [`few`].
            $(#[$features])?
            unsafe fn finish(job: &FinishJob) {
                // SAFETY: as the caller vouches.
                unsafe { softmax::finish::<$simd>(<$simd>::assume(), job) }
            }

            /// # Safety
            /// The processor has the instruction set.
            $(#[$features])?
            unsafe fn store_halves(src: &[f32], dst: &mut [u16]) {
                // SAFETY: as the caller vouches.
                math::store_halves::<$simd>(unsafe { <$simd>::assume() }, src, dst)
            }

            /// # Safety
            /// The processor has the instruction set.
            $(#[$features])?
            unsafe fn glu(activation: Activation, gate: &[f32], up: &[f32], y: &mut [f32]) {
                // SAFETY: as the caller vouches.
                activation::glu::<$simd>(unsafe { <$simd>::assume() }, activation, gate, up, y)
            }

            /// # Safety
            /// The processor has the instruction set.
            $(#[$features])?
            unsafe fn softcap(cap: f32, x: &[f32], y: &mut [f32]) {
                // SAFETY: as the caller vouches.
                math::softcap_slice::<$simd>(unsafe { <$simd>::assume() }, cap, x, y)
            }

            /// # Safety
            /// The processor has the instruction set.
            $(#[$features])?
            unsafe fn rms_norm(eps: f32, x: &[f32], w: Option<&[f32]>, y: &mut [f32]) {
                // SAFETY: as the caller vouches.
                norm::rms_norm_row::<$simd>(unsafe { <$simd>::assume() }, eps, x, w, y)
            }

            /// # Safety
            /// The processor has the instruction set.
            $(#[$features])?
            unsafe fn exp(x: &[f32], y: &mut [f32]) {
                // SAFETY: as the caller vouches.
                math::exp_slice::<$simd>(unsafe { <$simd>::assume() }, x, y)
            }

            fn few_of(dtype: DType, n_tokens: usize) -> unsafe fn(&FewJob) {
                match n_tokens {
                    1 => with_format!(dtype, F => few::<F, 1>),
                    _ => with_format!(dtype, F => few::<F, { few::TOKENS_MAX }>),
                }
            }

            fn expand_of(dtype: DType) -> unsafe fn(&ExpandJob) {
                with_format!(dtype, F => expand::<F>)
            }

            pub(crate) static ENTRY_POINTS: EntryPoints = EntryPoints {
                few: few_of,
                expand: expand_of,
                tile,
                attend,
                finish,
                store_halves,
                glu,
                softcap,
                rms_norm,
                exp,
            };
        }
    };
}

entry_points!(scalar, crate::isa::scalar::Scalar, [], 4 x 2);
entry_points!(
    #[cfg(target_arch = "x86_64")]
    avx2, crate::isa::avx2::Avx2,
    [#[target_feature(enable = "avx2,fma,f16c")]], 2 x 3
);
entry_points!(
    #[cfg(target_arch = "x86_64")]
    avx512, crate::isa::avx512::Avx512,
    [#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]], 4 x 6
);
entry_points!(
    #[cfg(target_arch = "aarch64")]
    neon, crate::isa::neon::Neon,
    [#[target_feature(enable = "neon")]], 2 x 3
);
