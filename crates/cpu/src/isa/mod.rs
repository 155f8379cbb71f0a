//! Instruction sets: what each is, which ones this processor has, and the kernels compiled for it.
//!
//! Kernels are written over [`Simd`]; [`entry`] compiles them once per instruction set and lists
//! them as function pointers. The choice is made once, when a [`crate::Context`] is made.

pub(crate) mod entry;
mod scalar;
mod simd;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
#[path = "detect_x86_64.rs"]
mod detect;
#[cfg(target_arch = "aarch64")]
#[path = "detect_aarch64.rs"]
mod detect;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "detect_portable.rs"]
mod detect;

pub(crate) use simd::{COUNT, Codebook, LANES, Simd};

use entry::EntryPoints;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 F, BW, VL and DQ.
    Avx512,
    /// AVX2, FMA and F16C.
    Avx2,
    /// NEON.
    Neon,
    /// Plain code for any processor.
    Scalar,
}

impl Isa {
    /// All of them, best first.
    pub const ALL: [Isa; 4] = [Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Scalar];

    /// The best that this processor has.
    #[must_use]
    pub fn best() -> Isa {
        Isa::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Scalar)
    }

    /// Whether this processor has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.entry_points().is_some()
    }

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "AVX-512",
            Isa::Avx2 => "AVX2",
            Isa::Neon => "NEON",
            Isa::Scalar => "scalar",
        }
    }

    /// Its kernels, if the processor can run them.
    pub(crate) fn entry_points(self) -> Option<&'static EntryPoints> {
        match self {
            Isa::Scalar => Some(&entry::scalar::ENTRY_POINTS),
            other => detect::entry_points(other),
        }
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
