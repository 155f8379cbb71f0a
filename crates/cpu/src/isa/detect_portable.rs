//! Other processors have the scalar kernels only.

use super::Isa;
use super::entry::EntryPoints;

/// The kernels of `isa`, if this processor can run them.
pub(super) fn entry_points(_: Isa) -> Option<&'static EntryPoints> {
    None
}
