//! What a kernel needs of an instruction set: sixteen f32 lanes and the unpacking of weights.
//!
//! Every kernel is written once over [`Simd`] and compiled once per instruction set. All
//! implementations have sixteen lanes, fused multiply-add and the same order inside
//! [`Simd::sum`], so a kernel gives the same bits on each of them.
//!
//! A value of an implementing type is the proof that the processor has the instructions; that is
//! why arithmetic is safe here and only memory access is not.

/// Lanes of [`Simd::V`].
pub(crate) const LANES: usize = 16;

/// Sixteen lanes of f32 and integer codes of weights.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Sixteen f32.
    type V: Copy;
    /// Sixteen 4-bit codes.
    type Codes: Copy;
    /// One bit for each of sixteen weights.
    type Mask: Copy;
    /// The sixteen values that 4-bit codes stand for.
    type Table: Copy;
    /// The thirty-two values `d * code + m` of 5-bit codes.
    type Table5: Copy;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::V;
    /// # Safety
    /// `p` points at sixteen readable f32.
    unsafe fn load(self, p: *const f32) -> Self::V;
    /// # Safety
    /// `p` points at sixteen writable f32.
    unsafe fn store(self, p: *mut f32, v: Self::V);

    /// Asks for the cache line at `p`, which need not be there; nothing where there is no such
    /// instruction.
    #[inline(always)]
    fn prefetch(self, _p: *const u8) {}

    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller, lane by lane; which one for NaN is not defined.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger, lane by lane; which one for NaN is not defined.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// To the nearest integer, ties to even.
    fn round(self, v: Self::V) -> Self::V;
    /// `2^n` for integers `n` in -126 to 127.
    fn pow2(self, n: Self::V) -> Self::V;
    /// `a < b ? yes : no`, lane by lane.
    fn select_lt(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V;

    /// Sum of the lanes: lane `i` with `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
    fn sum(self, v: Self::V) -> f32;
    /// [`Simd::sum`] of four vectors.
    #[inline(always)]
    fn sum4(self, v: [Self::V; 4]) -> [f32; 4] {
        [self.sum(v[0]), self.sum(v[1]), self.sum(v[2]), self.sum(v[3])]
    }
    /// Largest lane.
    fn max_lane(self, v: Self::V) -> f32;

    /// One half-precision number.
    /// # Safety
    /// `p` points at 2 readable bytes.
    unsafe fn half(self, p: *const u8) -> f32;
    /// The same where more bytes follow, which some processors load faster.
    /// # Safety
    /// `p` points at 8 readable bytes.
    #[inline(always)]
    unsafe fn leading_half(self, p: *const u8) -> f32 {
        // SAFETY: as the caller vouches.
        unsafe { self.half(p) }
    }
    /// Two half-precision numbers that stand side by side.
    /// # Safety
    /// `p` points at 8 readable bytes (so many are loaded at once).
    unsafe fn two_halves(self, p: *const u8) -> [f32; 2];
    /// Sixteen half-precision numbers.
    /// # Safety
    /// `p` points at 32 readable bytes.
    unsafe fn halves(self, p: *const u8) -> Self::V;
    /// Sixteen bfloat16 numbers.
    /// # Safety
    /// `p` points at 32 readable bytes.
    unsafe fn bfloats(self, p: *const u8) -> Self::V;
    /// Rounds to half precision, to nearest even.
    /// # Safety
    /// `p` points at 32 writable bytes.
    unsafe fn store_halves(self, p: *mut u8, v: Self::V);
    /// Sixteen signed bytes.
    /// # Safety
    /// `p` points at 16 readable bytes.
    unsafe fn signed_bytes(self, p: *const u8) -> Self::V;

    /// The table of `d * codebook[i]`.
    fn scaled_table(self, codebook: &'static Codebook, d: f32) -> Self::Table;
    /// The table of `d * codebook[i] + m`, rounded once.
    fn affine_table(self, codebook: &'static Codebook, d: f32, m: f32) -> Self::Table;
    /// The table of `d * i + m` for `i` below 32, rounded once.
    fn affine_table5(self, d: f32, m: f32) -> Self::Table5;
    /// Bits `shift..shift + 4` of sixteen bytes; above bit 7 come zeros.
    /// # Safety
    /// `p` points at 16 readable bytes; `shift` is below 8.
    unsafe fn codes(self, p: *const u8, shift: usize) -> Self::Codes;
    /// Looks sixteen codes up.
    fn lookup(self, table: Self::Table, codes: Self::Codes) -> Self::V;
    /// Looks sixteen codes up whose fifth bits are `high`.
    fn lookup5(self, table: Self::Table5, codes: Self::Codes, high: Self::Mask) -> Self::V;
    /// `d * (code + 16 * high - 16)`, exact for a `d` of half precision; `scales` are `d`, `16 d`.
    #[inline(always)]
    fn five_bits(self, scales: [f32; 2], codes: Self::Codes, high: Self::Mask) -> Self::V {
        self.lookup5(self.affine_table5(scales[0], -scales[1]), codes, high)
    }
    /// Lane `i` is bit `i`.
    fn mask_of_bits(self, bits: u16) -> Self::Mask;
    /// Lane `i` is bit `bit` of byte `i`.
    /// # Safety
    /// `p` points at 16 readable bytes; `bit` is below 8.
    unsafe fn mask_of_bytes(self, p: *const u8, bit: usize) -> Self::Mask;
    /// `v + x` where the mask is set, `v` elsewhere.
    fn add_where(self, mask: Self::Mask, v: Self::V, x: Self::V) -> Self::V;
    /// Codes of 6 bits as numbers: the low four are bits `low..low + 4` of `ql`, the high two bits
    /// `high..high + 2` of `qh`.
    /// # Safety
    /// Both point at 16 readable bytes; `low` is 0 or 4, `high` 0, 2, 4 or 6.
    unsafe fn six_bits(self, ql: *const u8, low: usize, qh: *const u8, high: usize) -> Self::V;
}

/// The integers that 4-bit codes stand for, twice: as tables of bytes and of f32 want them.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Codebook {
    /// As f32.
    pub(crate) floats: [f32; LANES],
    /// As bytes.
    pub(crate) bytes: [i8; LANES],
}

impl Codebook {
    /// A codebook of those integers.
    pub(crate) const fn new(bytes: [i8; LANES]) -> Codebook {
        let mut floats = [0.0; LANES];
        let mut i = 0;
        while i < LANES {
            floats[i] = bytes[i] as f32;
            i += 1;
        }
        Codebook { floats, bytes }
    }
}

/// `0, 1, 2 ... 15`.
pub(crate) static COUNT: Codebook = Codebook::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// Writes trait methods whose bodies are intrinsics of the implementing instruction set. `unsafe`
/// methods pass the duty of their pointers on to the caller.
macro_rules! intrinsics {
    ($(fn $name:ident($self:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? $body:block)*) => {
        $(
            #[inline(always)]
            fn $name($self $(, $arg: $ty)*) $(-> $ret)? {
                // SAFETY: `self` exists only where detection has found the instruction set.
                unsafe { $body }
            }
        )*
    };
}

/// Like [`intrinsics`], for methods that take pointers.
macro_rules! memory_intrinsics {
    ($(fn $name:ident($self:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? $body:block)*) => {
        $(
            #[inline(always)]
            unsafe fn $name($self $(, $arg: $ty)*) $(-> $ret)? {
                // SAFETY: `self` exists only where detection has found the instruction set, and the
                // caller vouches for the pointers as the trait asks.
                unsafe { $body }
            }
        )*
    };
}

pub(crate) use {intrinsics, memory_intrinsics};
