//! Which instruction sets an x86-64 processor has.

use super::Isa;
use super::avx2::Avx2;
use super::avx512::Avx512;
use super::entry::{self, EntryPoints};

/// The kernels of `isa`, if this processor can run them.
pub(super) fn entry_points(isa: Isa) -> Option<&'static EntryPoints> {
    match isa {
        Isa::Avx512 => Avx512::detect().map(|_| &entry::avx512::ENTRY_POINTS),
        Isa::Avx2 => Avx2::detect().map(|_| &entry::avx2::ENTRY_POINTS),
        Isa::Neon | Isa::Scalar => None,
    }
}
