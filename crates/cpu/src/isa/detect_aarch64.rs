//! Which instruction sets an aarch64 processor has.

use super::Isa;
use super::entry::{self, EntryPoints};
use super::neon::Neon;

/// The kernels of `isa`, if this processor can run them.
pub(super) fn entry_points(isa: Isa) -> Option<&'static EntryPoints> {
    match isa {
        Isa::Neon => Neon::detect().map(|_| &entry::neon::ENTRY_POINTS),
        Isa::Avx512 | Isa::Avx2 | Isa::Scalar => None,
    }
}
