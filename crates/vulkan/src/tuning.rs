//! Choices per GPU family, in one place, each with the reason or the measurement behind it.

/// PCI vendor ids.
pub const AMD: u32 = 0x1002;
/// NVIDIA.
pub const NVIDIA: u32 = 0x10de;

/// Width that kernels are compiled for. RDNA runs 64 wide: long dot products then issue half the
/// instructions a byte; elsewhere the driver's own width stands.
#[must_use]
pub fn subgroup_size(vendor_id: u32, default: u32, range: (u32, u32)) -> u32 {
    if vendor_id == AMD && range.0 <= 64 && 64 <= range.1 { 64 } else { default }
}
