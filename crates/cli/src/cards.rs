//! What is known of cards by their PCI ids: AMD's generation, and the bandwidth that the maker states.
//!
//! Names are never read. A card that is not here is not compared with anything.

pub(crate) use zinc_vulkan::tuning::{AMD, INTEL, NVIDIA};

/// Apple's PCI vendor id, through MoltenVK.
pub(crate) const APPLE: u32 = 0x106b;

/// A generation of AMD's graphics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    Rdna1,
    Rdna2,
    Rdna3,
    Rdna4,
}

impl Generation {
    /// `rdna3`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Generation::Rdna1 => "rdna1",
            Generation::Rdna2 => "rdna2",
            Generation::Rdna3 => "rdna3",
            Generation::Rdna4 => "rdna4",
        }
    }

    /// Whether it has matrix cores.
    pub(crate) fn has_matrix_cores(self) -> bool {
        matches!(self, Generation::Rdna3 | Generation::Rdna4)
    }

    /// From the version of the graphics block, as the card itself tells the kernel: 11.0 is RDNA 3.
    pub(crate) fn of_block(major: u32, minor: u32) -> Option<Generation> {
        match (major, minor) {
            (10, 0..=2) => Some(Generation::Rdna1),
            (10, _) => Some(Generation::Rdna2),
            (11, _) => Some(Generation::Rdna3),
            (12, _) => Some(Generation::Rdna4),
            _ => None,
        }
    }

    /// From AMD's PCI device ids, which come in ranges by chip.
    pub(crate) fn of_device(device_id: u32) -> Option<Generation> {
        match device_id {
            // Navi 10, 14, 12.
            0x7310..=0x731f | 0x7340..=0x734f | 0x7360..=0x7362 => Some(Generation::Rdna1),
            // Navi 21, 22, 23, 24; Van Gogh, Rembrandt, Raphael, Mendocino.
            0x73a0..=0x73ff | 0x7420..=0x743f | 0x163f | 0x1435 | 0x1681 | 0x164e | 0x1506 => Some(Generation::Rdna2),
            // Navi 31, 32, 33; Phoenix, Hawk Point, Strix Point, Strix Halo, Krackan.
            0x7440..=0x749f | 0x15bf | 0x15c8 | 0x1900 | 0x1901 | 0x150e | 0x1586 | 0x1114 => Some(Generation::Rdna3),
            // Navi 48, 44.
            0x7550..=0x755f | 0x7590..=0x759f => Some(Generation::Rdna4),
            _ => None,
        }
    }
}

/// Cards: vendor, device, gigabytes (0: any), and gigabytes per second as the maker states them. Several cards share a
/// device id; their memory tells them apart.
const BANDWIDTHS: [(u32, u32, u32, u32); 17] = [
    // RDNA 4: RX 9070 and 9070 XT, RX 9070 GRE, AI PRO R9700, RX 9060 XT.
    (AMD, 0x7550, 16, 640),
    (AMD, 0x7550, 12, 432),
    (AMD, 0x7551, 32, 640),
    (AMD, 0x7590, 0, 320),
    // RDNA 3: RX 7900 XTX, XT, GRE; PRO W7900, W7800; RX 7800 XT, 7700 XT; PRO W7700; RX 7600 and 7600 XT.
    (AMD, 0x744c, 24, 960),
    (AMD, 0x744c, 20, 800),
    (AMD, 0x744c, 16, 576),
    (AMD, 0x7448, 48, 864),
    (AMD, 0x744a, 48, 864),
    (AMD, 0x745e, 32, 576),
    (AMD, 0x747e, 16, 624),
    (AMD, 0x747e, 12, 432),
    (AMD, 0x7470, 16, 576),
    (AMD, 0x7480, 0, 288),
    // Radeon 8060S.
    (AMD, 0x1586, 0, 256),
    // RTX 4090, H200.
    (NVIDIA, 0x2684, 24, 1008),
    (NVIDIA, 0x2335, 0, 4800),
];

/// Gigabytes (10^9 bytes) per second that the maker states for a card.
pub(crate) fn nominal_gb_s(vendor_id: u32, device_id: u32, memory_gb: u32) -> Option<u32> {
    let fits = |&&(vendor, device, gb, _): &&(u32, u32, u32, u32)| {
        (vendor, device) == (vendor_id, device_id) && (gb == 0 || gb == memory_gb)
    };
    BANDWIDTHS.iter().find(fits).map(|&(.., rate)| rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_that_share_an_id_are_told_apart_by_their_memory() {
        assert_eq!(nominal_gb_s(AMD, 0x744c, 24), Some(960));
        assert_eq!(nominal_gb_s(AMD, 0x744c, 20), Some(800));
        assert_eq!(nominal_gb_s(AMD, 0x744c, 8), None);
        assert_eq!(nominal_gb_s(NVIDIA, 0x744c, 24), None);
    }

    #[test]
    fn both_ways_to_a_generation_agree() {
        // Chips whose graphics block Mesa's tables give: Navi 10, 21, 31, Phoenix, Strix Halo, Navi 48.
        let chips = [
            (0x731f, (10, 1)),
            (0x73bf, (10, 3)),
            (0x744c, (11, 0)),
            (0x15bf, (11, 0)),
            (0x1586, (11, 5)),
            (0x7550, (12, 0)),
        ];
        for (device, (major, minor)) in chips {
            let generation = Generation::of_device(device);
            assert!(generation.is_some());
            assert_eq!(generation, Generation::of_block(major, minor), "{device:#x}");
        }
        for compute_card in [0x740f, 0x74a1] {
            assert_eq!(Generation::of_device(compute_card), None);
        }
        assert_eq!(Generation::of_block(9, 0), None);
    }
}
