//! AVX2 with FMA and F16C: two registers are the sixteen lanes, codes are bytes that `pshufb`
//! looks up in the integer codebook before they become f32.

#![allow(
    clippy::cast_possible_truncation,
    reason = "shifts are below 8, and lanes are narrowed as the trait's methods say"
)]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_LT_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_add_ps,
    _mm_add_ss, _mm_and_si128, _mm_castps_si128, _mm_cmpeq_epi8, _mm_cvtph_ps, _mm_cvtsi32_si128, _mm_cvtss_f32,
    _mm_loadl_epi64, _mm_loadu_si128, _mm_max_ps, _mm_max_ss, _mm_movehl_ps, _mm_or_si128, _mm_prefetch, _mm_set1_epi8,
    _mm_set1_epi16, _mm_setr_epi8, _mm_shuffle_epi8, _mm_shuffle_ps, _mm_sll_epi16, _mm_srl_epi16, _mm_srli_si128,
    _mm_storel_epi64, _mm_storeu_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_blendv_ps, _mm256_castps256_ps128,
    _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_cvtps_epi32, _mm256_cvtps_ph, _mm256_div_ps, _mm256_extractf128_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_slli_epi32, _mm256_storeu_ps, _mm256_sub_ps,
};

use super::simd::{Codebook, Simd, intrinsics, memory_intrinsics};

/// Proof that the processor has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The proof, if the processor gives it.
    pub(crate) fn detect() -> Option<Avx2> {
        let has =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    /// # Safety
    /// [`Avx2::detect`] has given the proof before.
    #[inline(always)]
    pub(crate) const unsafe fn assume() -> Avx2 {
        Avx2(())
    }
}

/// Sixteen lanes in two registers.
type V = [__m256; 2];

/// Codes as integers, and what maps them to weights.
#[derive(Clone, Copy)]
pub(crate) struct Affine {
    codebook: __m128i,
    d: __m256,
    m: Option<__m256>,
}

impl Simd for Avx2 {
    type V = V;
    type Codes = __m128i;
    /// Bytes of 0 or 255.
    type Mask = __m128i;
    type Table = Affine;
    type Table5 = [__m256; 2];

    intrinsics! {
        fn prefetch(self, p: *const u8) { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
        fn splat(self, x: f32) -> V { [_mm256_set1_ps(x); 2] }
        fn add(self, a: V, b: V) -> V { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        fn sub(self, a: V, b: V) -> V { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
        fn mul(self, a: V, b: V) -> V { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        fn div(self, a: V, b: V) -> V { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
        fn min(self, a: V, b: V) -> V { [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])] }
        fn max(self, a: V, b: V) -> V { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
        fn fma(self, a: V, b: V, c: V) -> V { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        fn round(self, v: V) -> V {
            [
                _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v[0]),
                _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v[1]),
            ]
        }
        fn pow2(self, n: V) -> V {
            let power = |n| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127))));
            [power(n[0]), power(n[1])]
        }
        fn select_lt(self, a: V, b: V, yes: V, no: V) -> V {
            [
                _mm256_blendv_ps(no[0], yes[0], _mm256_cmp_ps::<_CMP_LT_OQ>(a[0], b[0])),
                _mm256_blendv_ps(no[1], yes[1], _mm256_cmp_ps::<_CMP_LT_OQ>(a[1], b[1])),
            ]
        }
        fn sum(self, v: V) -> f32 {
            let v = _mm256_add_ps(v[0], v[1]);
            let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
        fn max_lane(self, v: V) -> f32 {
            let v = _mm256_max_ps(v[0], v[1]);
            let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
        fn scaled_table(self, codebook: &'static Codebook, d: f32) -> Affine {
            Affine { codebook: _mm_loadu_si128(codebook.bytes.as_ptr().cast()), d: _mm256_set1_ps(d), m: None }
        }
        fn affine_table(self, codebook: &'static Codebook, d: f32, m: f32) -> Affine {
            Affine { codebook: _mm_loadu_si128(codebook.bytes.as_ptr().cast()), d: _mm256_set1_ps(d), m: Some(_mm256_set1_ps(m)) }
        }
        fn affine_table5(self, d: f32, m: f32) -> [__m256; 2] { [_mm256_set1_ps(d), _mm256_set1_ps(m)] }
        fn lookup(self, table: Affine, codes: __m128i) -> V {
            let values = signed(_mm_shuffle_epi8(table.codebook, codes));
            match table.m {
                Some(m) => [_mm256_fmadd_ps(values[0], table.d, m), _mm256_fmadd_ps(values[1], table.d, m)],
                None => [_mm256_mul_ps(values[0], table.d), _mm256_mul_ps(values[1], table.d)],
            }
        }
        fn lookup5(self, table: [__m256; 2], codes: __m128i, high: __m128i) -> V {
            let values = signed(_mm_or_si128(codes, _mm_and_si128(high, _mm_set1_epi8(16))));
            [_mm256_fmadd_ps(values[0], table[0], table[1]), _mm256_fmadd_ps(values[1], table[0], table[1])]
        }
        fn mask_of_bits(self, bits: u16) -> __m128i {
            let spread = _mm_shuffle_epi8(_mm_set1_epi16(bits.cast_signed()), _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
            let one = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
            _mm_cmpeq_epi8(_mm_and_si128(spread, one), one)
        }
        fn add_where(self, mask: __m128i, v: V, x: V) -> V {
            let [low, high] = signed_integers(mask);
            let sums = [_mm256_add_ps(v[0], x[0]), _mm256_add_ps(v[1], x[1])];
            [_mm256_blendv_ps(v[0], sums[0], _mm256_castsi256_ps(low)), _mm256_blendv_ps(v[1], sums[1], _mm256_castsi256_ps(high))]
        }
    }

    memory_intrinsics! {
        fn load(self, p: *const f32) -> V { [_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))] }
        fn store(self, p: *mut f32, v: V) {
            _mm256_storeu_ps(p, v[0]);
            _mm256_storeu_ps(p.add(8), v[1]);
        }
        fn half(self, p: *const u8) -> f32 {
            let bits = i32::from(p.cast::<u16>().read_unaligned());
            _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)))
        }
        fn leading_half(self, p: *const u8) -> f32 { _mm_cvtss_f32(_mm_cvtph_ps(_mm_loadl_epi64(p.cast()))) }
        fn two_halves(self, p: *const u8) -> [f32; 2] {
            let mut out = [0.0; 2];
            _mm_storel_epi64(out.as_mut_ptr().cast(), _mm_castps_si128(_mm_cvtph_ps(_mm_loadl_epi64(p.cast()))));
            out
        }
        fn halves(self, p: *const u8) -> V { [_mm256_cvtph_ps(load16(p)), _mm256_cvtph_ps(load16(p.add(16)))] }
        fn bfloats(self, p: *const u8) -> V {
            let widen = |p| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load16(p))));
            [widen(p), widen(p.add(16))]
        }
        fn store_halves(self, p: *mut u8, v: V) {
            _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(v[0]));
            _mm_storeu_si128(p.add(16).cast(), _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(v[1]));
        }
        fn signed_bytes(self, p: *const u8) -> V { signed(load16(p)) }
        fn codes(self, p: *const u8, shift: usize) -> __m128i {
            _mm_and_si128(_mm_srl_epi16(load16(p), _mm_cvtsi32_si128(shift as i32)), _mm_set1_epi8(0xF))
        }
        fn mask_of_bytes(self, p: *const u8, bit: usize) -> __m128i {
            let bit = _mm_set1_epi8((1u8 << bit).cast_signed());
            _mm_cmpeq_epi8(_mm_and_si128(load16(p), bit), bit)
        }
        fn six_bits(self, ql: *const u8, low: usize, qh: *const u8, high: usize) -> V {
            let low = _mm_and_si128(_mm_srl_epi16(load16(ql), _mm_cvtsi32_si128(low as i32)), _mm_set1_epi8(0xF));
            let two = _mm_and_si128(_mm_srl_epi16(load16(qh), _mm_cvtsi32_si128(high as i32)), _mm_set1_epi8(3));
            signed(_mm_or_si128(low, _mm_sll_epi16(two, _mm_cvtsi32_si128(4))))
        }
    }
}

/// # Safety
/// `p` points at 16 readable bytes.
#[inline(always)]
unsafe fn load16(p: *const u8) -> __m128i {
    // SAFETY: as the caller vouches.
    unsafe { _mm_loadu_si128(p.cast()) }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn signed_integers(bytes: __m128i) -> [__m256i; 2] {
    // SAFETY: as the caller vouches.
    unsafe { [_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes))] }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn signed(bytes: __m128i) -> V {
    // SAFETY: as the caller vouches.
    unsafe { signed_integers(bytes).map(|v| _mm256_cvtepi32_ps(v)) }
}
