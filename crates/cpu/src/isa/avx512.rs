//! AVX-512 (F, BW, VL, DQ): one register is the sixteen lanes, a table look-up is one `vpermps`.

#![allow(
    clippy::cast_possible_truncation,
    reason = "shifts are below 8, and lanes are narrowed as the trait's methods say"
)]

use std::arch::x86_64::{
    __m128i, __m512, __m512i, __mmask16, _CMP_LT_OQ, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_add_ps, _mm_add_ss,
    _mm_castps_si128, _mm_cvtph_ps, _mm_cvtsi32_si128, _mm_cvtss_f32, _mm_loadl_epi64, _mm_loadu_si128, _mm_max_ps,
    _mm_max_ss, _mm_movehl_ps, _mm_prefetch, _mm_set1_epi8, _mm_shuffle_ps, _mm_storel_epi64, _mm_storeu_ps,
    _mm_test_epi8_mask, _mm256_add_ps, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_loadu_si256,
    _mm256_max_ps, _mm256_storeu_si256, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps512_ps128,
    _mm512_castps512_ps256, _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps,
    _mm512_cvtepu8_epi32, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvtps_epi32, _mm512_cvtps_ph, _mm512_div_ps,
    _mm512_extractf32x8_ps, _mm512_fmadd_ps, _mm512_load_ps, _mm512_loadu_ps, _mm512_mask_add_ps, _mm512_mask_blend_ps,
    _mm512_mask_permutexvar_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_permute_ps, _mm512_permutexvar_ps,
    _mm512_roundscale_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setr_epi32, _mm512_shuffle_f32x4,
    _mm512_slli_epi32, _mm512_sllv_epi32, _mm512_srlv_epi32, _mm512_storeu_ps, _mm512_sub_ps,
    _mm512_ternarylogic_epi32,
};

use super::simd::{COUNT, Codebook, Simd, intrinsics, memory_intrinsics};

/// Proof that the processor has AVX-512.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The proof, if the processor gives it.
    pub(crate) fn detect() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Avx512(()))
    }

    /// # Safety
    /// [`Avx512::detect`] has given the proof before.
    #[inline(always)]
    pub(crate) const unsafe fn assume() -> Avx512 {
        Avx512(())
    }
}

/// `-16, -15 ... -1`: 5-bit codes whose high bit is clear.
static BELOW_ZERO: Codebook = Codebook::new([-16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1]);

/// `(a & b) | (!a & c)`.
const SELECT: i32 = 0xCA;

impl Simd for Avx512 {
    type V = __m512;
    type Codes = __m512i;
    type Mask = __mmask16;
    type Table = __m512;
    type Table5 = [__m512; 2];

    intrinsics! {
        fn prefetch(self, p: *const u8) { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
        fn splat(self, x: f32) -> __m512 { _mm512_set1_ps(x) }
        fn add(self, a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
        fn sub(self, a: __m512, b: __m512) -> __m512 { _mm512_sub_ps(a, b) }
        fn mul(self, a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
        fn div(self, a: __m512, b: __m512) -> __m512 { _mm512_div_ps(a, b) }
        fn min(self, a: __m512, b: __m512) -> __m512 { _mm512_min_ps(a, b) }
        fn max(self, a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
        fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
        fn round(self, v: __m512) -> __m512 { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(v) }
        fn pow2(self, n: __m512) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127))))
        }
        fn select_lt(self, a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes)
        }
        fn sum(self, v: __m512) -> f32 {
            let v = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
            let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
        fn sum4(self, v: [__m512; 4]) -> [f32; 4] {
            let halves = |a, b| _mm512_add_ps(_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b));
            let (low, high) = (halves(v[0], v[1]), halves(v[2], v[3]));
            let quarters = _mm512_add_ps(_mm512_shuffle_f32x4::<0b10_00_10_00>(low, high), _mm512_shuffle_f32x4::<0b11_01_11_01>(low, high));
            let pairs = _mm512_add_ps(quarters, _mm512_permute_ps::<0b11_10_11_10>(quarters));
            let sums = _mm512_add_ps(pairs, _mm512_permute_ps::<0b01_01_01_01>(pairs));
            let first = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), _mm512_castps512_ps128(_mm512_permutexvar_ps(first, sums)));
            out
        }
        fn max_lane(self, v: __m512) -> f32 {
            let v = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
            let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
        fn scaled_table(self, codebook: &'static Codebook, d: f32) -> __m512 {
            _mm512_mul_ps(_mm512_load_ps(codebook.floats.as_ptr()), _mm512_set1_ps(d))
        }
        fn affine_table(self, codebook: &'static Codebook, d: f32, m: f32) -> __m512 {
            _mm512_fmadd_ps(_mm512_load_ps(codebook.floats.as_ptr()), _mm512_set1_ps(d), _mm512_set1_ps(m))
        }
        fn affine_table5(self, d: f32, m: f32) -> [__m512; 2] {
            let low = _mm512_load_ps(COUNT.floats.as_ptr());
            let high = _mm512_add_ps(low, _mm512_set1_ps(16.0));
            let (d, m) = (_mm512_set1_ps(d), _mm512_set1_ps(m));
            [_mm512_fmadd_ps(low, d, m), _mm512_fmadd_ps(high, d, m)]
        }
        fn lookup(self, table: __m512, codes: __m512i) -> __m512 { _mm512_permutexvar_ps(codes, table) }
        fn lookup5(self, table: [__m512; 2], codes: __m512i, high: __mmask16) -> __m512 {
            let low = _mm512_permutexvar_ps(codes, table[0]);
            _mm512_mask_permutexvar_ps(low, high, codes, table[1])
        }
        fn five_bits(self, scales: [f32; 2], codes: __m512i, high: __mmask16) -> __m512 {
            // One addition under the mask takes either port; a second look-up only the one that
            // the first has used.
            let table = _mm512_mul_ps(_mm512_load_ps(BELOW_ZERO.floats.as_ptr()), _mm512_set1_ps(scales[0]));
            let low = _mm512_permutexvar_ps(codes, table);
            _mm512_mask_add_ps(low, high, low, _mm512_set1_ps(scales[1]))
        }
        fn add_where(self, mask: __mmask16, v: __m512, x: __m512) -> __m512 { _mm512_mask_add_ps(v, mask, v, x) }
    }

    #[inline(always)]
    fn mask_of_bits(self, bits: u16) -> __mmask16 {
        bits
    }

    memory_intrinsics! {
        fn load(self, p: *const f32) -> __m512 { _mm512_loadu_ps(p) }
        fn store(self, p: *mut f32, v: __m512) { _mm512_storeu_ps(p, v) }
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
        fn halves(self, p: *const u8) -> __m512 { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
        fn bfloats(self, p: *const u8) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
        }
        fn store_halves(self, p: *mut u8, v: __m512) {
            _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(v));
        }
        fn signed_bytes(self, p: *const u8) -> __m512 { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(p))) }
        fn codes(self, p: *const u8, shift: usize) -> __m512i {
            // `vpermps` reads the low four bits only, so the others may stay.
            _mm512_srlv_epi32(_mm512_cvtepu8_epi32(load16(p)), _mm512_set1_epi32(shift as i32))
        }
        fn mask_of_bytes(self, p: *const u8, bit: usize) -> __mmask16 {
            _mm_test_epi8_mask(load16(p), _mm_set1_epi8((1u8 << bit).cast_signed()))
        }
        fn six_bits(self, ql: *const u8, low: usize, qh: *const u8, high: usize) -> __m512 {
            let low = _mm512_srlv_epi32(_mm512_cvtepu8_epi32(load16(ql)), _mm512_set1_epi32(low as i32));
            // The two bits go to bit 4: a shift by `4 - high`, in the direction of its sign.
            let up = _mm512_sllv_epi32(_mm512_cvtepu8_epi32(load16(qh)), _mm512_set1_epi32(4));
            let high = _mm512_srlv_epi32(up, _mm512_set1_epi32(high as i32));
            let codes = _mm512_ternarylogic_epi32::<SELECT>(_mm512_set1_epi32(0xF), low, high);
            _mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32(0x3F)))
        }
    }
}

/// # Safety
/// `p` points at 16 readable bytes, on a processor with SSE2 (all of x86-64).
#[inline(always)]
unsafe fn load16(p: *const u8) -> __m128i {
    // SAFETY: as the caller vouches.
    unsafe { _mm_loadu_si128(p.cast()) }
}
