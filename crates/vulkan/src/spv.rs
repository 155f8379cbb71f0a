//! The kernels as SPIR-V, built from `shaders/` by `cargo xtask kernels` and committed.
//!
//! A kernel whose parameter block differs from its struct in `params` does not compile.

use crate::params::Kernel;

macro_rules! spirv {
    ($($name:ident $stem:literal),* $(,)?) => {
        impl Kernel {
            /// The compiled code.
            #[must_use]
            pub const fn spirv(self) -> &'static [u8] {
                match self { $(Kernel::$name => include_bytes!(concat!("../spv/", $stem, ".spv"))),* }
            }
        }

        $(const _: () = assert!(
            takes(Kernel::$name.spirv(), Kernel::$name.sizes()),
            concat!("the parameters of ", $stem, ".comp are not those of its struct: run `cargo xtask kernels`"),
        );)*
    };
}

spirv! {
    Argmax "argmax",
    Attention "attention",
    AttentionTiles "attention_tiles",
    Conv1d "conv1d",
    CopyFours "copy",
    DeltaChunks "delta_chunks",
    DeltaFactors "delta_factors",
    DeltaGates "delta_gates",
    DeltaNet "delta_net",
    Elementwise "elementwise",
    Embed "embed",
    ExpertGroups "expert_groups",
    ExpertSum "expert_sum",
    Gemm "gemm",
    GemmDirect "gemm_direct",
    GemmPlain "gemm_plain",
    KvWrite "kv_write",
    L2Norm "l2_norm",
    MatrixPlaces "matrix_places",
    Matvec "matvec",
    RmsNorm "rms_norm",
    Rope "rope",
    Router "router",
    SelectRows "select_rows",
    Slice "slice",
}

// Opcodes, operands and enumerants of SPIR-V 1.6, section 3.
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const OP_VARIABLE: u32 = 59;
const OP_MEMBER_DECORATE: u32 = 72;
const DECORATION_OFFSET: u32 = 35;
const STORAGE_PUSH_CONSTANT: u32 = 9;
const HEADER_WORDS: usize = 5;

/// Whether the module's push constants are members of these sizes, one after another.
const fn takes(spirv: &[u8], sizes: &[u32]) -> bool {
    let Some(block) = push_constant_struct(spirv) else { return false };
    let (mut n_members, mut n_placed, mut at) = (usize::MAX, 0, HEADER_WORDS);
    while at < spirv.len() / 4 {
        let opcode = word(spirv, at) & 0xffff;
        if opcode == OP_TYPE_STRUCT && word(spirv, at + 1) == block {
            n_members = length(spirv, at) - 2;
        }
        if opcode == OP_MEMBER_DECORATE && word(spirv, at + 1) == block && word(spirv, at + 3) == DECORATION_OFFSET {
            let member = word(spirv, at + 2) as usize;
            if member >= sizes.len() || word(spirv, at + 4) != offset(sizes, member) {
                return false;
            }
            n_placed += 1;
        }
        at += length(spirv, at);
    }
    n_members == sizes.len() && n_placed == sizes.len() && offset(sizes, sizes.len()) <= 128
}

/// The struct that the module's push constant variable has.
const fn push_constant_struct(spirv: &[u8]) -> Option<u32> {
    let Some(variable) = find(spirv, OP_VARIABLE, 3, STORAGE_PUSH_CONSTANT) else { return None };
    let Some(pointer) = find(spirv, OP_TYPE_POINTER, 1, word(spirv, variable + 1)) else { return None };
    Some(word(spirv, pointer + 3))
}

/// The first instruction of that opcode whose operand word is `value`.
const fn find(spirv: &[u8], opcode: u32, operand: usize, value: u32) -> Option<usize> {
    let mut at = HEADER_WORDS;
    while at < spirv.len() / 4 {
        if word(spirv, at) & 0xffff == opcode && word(spirv, at + operand) == value {
            return Some(at);
        }
        at += length(spirv, at);
    }
    None
}

/// Bytes before member `n`.
const fn offset(sizes: &[u32], n: usize) -> u32 {
    let (mut sum, mut i) = (0, 0);
    while i < n {
        assert!(sum % sizes[i] == 0, "a parameter is not aligned: addresses come first");
        sum += sizes[i];
        i += 1;
    }
    sum
}

/// Words of the instruction at `at`.
const fn length(spirv: &[u8], at: usize) -> usize {
    let words = (word(spirv, at) >> 16) as usize;
    assert!(words > 0, "an instruction of SPIR-V has at least one word");
    words
}

const fn word(spirv: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([spirv[4 * at], spirv[4 * at + 1], spirv[4 * at + 2], spirv[4 * at + 3]])
}

#[cfg(test)]
mod tests {
    use super::takes;
    use crate::params::Kernel;

    #[test]
    fn another_block_is_noticed() {
        let code = Kernel::SelectRows.spirv();
        assert!(takes(code, &[8, 8, 8, 4]));
        for other in [&[8, 8, 8][..], &[8, 8, 8, 4, 4], &[8, 8, 4, 8], &[]] {
            assert!(!takes(code, other), "{other:?}");
        }
    }

    #[test]
    fn the_included_blocks_are_those_of_the_structs() {
        for kernel in Kernel::ALL {
            let stem = kernel.stem();
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/shaders");
            let block = std::fs::read_to_string(format!("{folder}/common/params/{stem}.glsl")).unwrap();
            assert_eq!(block.replace("\r\n", "\n"), kernel.glsl(), "{stem}: run `cargo xtask kernels`");
            let source = std::fs::read_to_string(format!("{folder}/{stem}.comp")).unwrap();
            assert!(source.contains(&format!("#include \"common/params/{stem}.glsl\"")), "{stem}.comp");
        }
    }
}
