//! Parameters of every kernel, declared once: a struct for the recorder and the GLSL block that
//! the kernel includes.
//!
//! `cargo xtask kernels` prints the blocks into `shaders/common/params/`, which is why this file
//! needs nothing but the standard library; `spv.rs` compares the compiled code's member offsets with
//! the structs. Addresses come first, so that scalar layout has no gaps.

#![allow(clippy::cast_possible_truncation, reason = "sizes of parameter structs, below 128 bytes")]

/// A member of a parameter block.
trait Member: Copy {
    const SIZE: u32;
    fn push(self, bytes: &mut Vec<u8>);
}

macro_rules! member {
    ($($type:ty),*) => {$(
        impl Member for $type {
            const SIZE: u32 = size_of::<$type>() as u32;
            fn push(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )*};
}
member!(u64, u32, f32);

/// Device address of f32.
pub type F32s = u64;
/// Device address of u32.
pub type U32s = u64;
/// Device address of bytes that the kernel reads as its format says.
pub type U8s = u64;
/// Device address of the step buffer.
pub type Step = u64;
/// Device address of a link of the chain.
pub type Chain = u64;

/// What a kernel is launched with.
pub trait Params {
    /// The kernel.
    const KERNEL: Kernel;
    /// The push constants.
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! glsl {
    (u32) => {
        "uint"
    };
    (f32) => {
        "float"
    };
    ($reference:ident) => {
        stringify!($reference)
    };
}

macro_rules! params {
    ($($name:ident $stem:literal $(, $twin:ident $twin_stem:literal)* { $($field:ident: $type:ident),* $(,)? })*) => {
        /// A kernel; its stem is that of its `.comp`. Twins take the same parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each kernel's own file begins with its documentation")]
        pub enum Kernel { $($name, $($twin,)*)* }

        impl Kernel {
            /// Every kernel.
            pub const ALL: &[Kernel] = &[$(Kernel::$name, $(Kernel::$twin,)*)*];

            /// The stem of its files.
            #[must_use]
            pub const fn stem(self) -> &'static str {
                match self { $(Kernel::$name => $stem, $(Kernel::$twin => $twin_stem,)*)* }
            }

            /// Its parameter block in GLSL.
            #[must_use]
            pub const fn glsl(self) -> &'static str {
                match self {
                    $(Kernel::$name $(| Kernel::$twin)* => concat!(
                        "// Made from src/params.rs by `cargo xtask kernels`.\n",
                        "layout(push_constant, scalar) uniform Params {\n",
                        $("    ", glsl!($type), " ", stringify!($field), ";\n",)*
                        "};\n",
                    )),*
                }
            }

            /// Bytes of each parameter, in order; they follow each other without gaps.
            #[must_use]
            pub const fn sizes(self) -> &'static [u32] {
                match self { $(Kernel::$name $(| Kernel::$twin)* => &[$(<$type as Member>::SIZE),*]),* }
            }
        }

        $(
            #[doc = concat!("Parameters of `", $stem, ".comp`.")]
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs, reason = "each kernel's own file begins with its documentation")]
            pub struct $name { $(pub $field: $type),* }

            impl Params for $name {
                const KERNEL: Kernel = Kernel::$name;
                fn bytes(&self) -> Vec<u8> {
                    let mut bytes = Vec::with_capacity(128);
                    $(self.$field.push(&mut bytes);)*
                    bytes
                }
            }
        )*
    };
}

params! {
    Argmax "argmax" { x: F32s, y: U32s, parts: U32s, arrived: U32s, step: Step, cols: u32, rows: u32 }
    Attention "attention" {
        chain: Chain,
        q: F32s,
        k: F32s,
        v: F32s,
        cache_k: U8s,
        cache_v: U8s,
        q_norm: F32s,
        k_norm: F32s,
        frequencies: F32s,
        sinks: F32s,
        y: F32s,
        parts: F32s,
        arrived: U32s,
        step: Step,
        window: u32,
        scale: f32,
        softcap: f32,
        magnitude: f32,
    }
    AttentionTiles "attention_tiles" {
        q: F32s,
        cache_k: U8s,
        cache_v: U8s,
        sinks: F32s,
        y: F32s,
        step: Step,
        n_heads: u32,
        n_kv_heads: u32,
        window: u32,
        scale: f32,
        softcap: f32,
    }
    Conv1d "conv1d" { x: F32s, taps: F32s, state: F32s, y: F32s, step: Step, n_channels: u32 }
    CopyFours "copy" { x: F32s, y: F32s }
    DeltaChunks "delta_chunks" {
        q: F32s,
        k: F32s,
        v: F32s,
        factors: F32s,
        state: F32s,
        y: F32s,
        step: Step,
        n_k_heads: u32,
        n_v_heads: u32,
        key_stride: u32,
        value_stride: u32,
    }
    DeltaFactors "delta_factors" {
        q: F32s,
        k: F32s,
        g: F32s,
        beta: F32s,
        factors: F32s,
        step: Step,
        n_k_heads: u32,
        n_v_heads: u32,
        key_stride: u32,
        q_eps: f32,
        k_eps: f32,
        q_scale: f32,
        k_scale: f32,
    }
    DeltaGates "delta_gates" {
        alpha: F32s,
        b: F32s,
        a: F32s,
        dt: F32s,
        g: F32s,
        beta: F32s,
        step: Step,
        n_heads: u32,
        rows: u32,
    }
    DeltaNet "delta_net" {
        q: F32s,
        k: F32s,
        v: F32s,
        g: F32s,
        beta: F32s,
        state: F32s,
        y: F32s,
        norm: F32s,
        gate: F32s,
        step: Step,
        n_k_heads: u32,
        n_v_heads: u32,
        key_stride: u32,
        value_stride: u32,
        q_eps: f32,
        k_eps: f32,
        q_scale: f32,
        k_scale: f32,
        eps: f32,
        alpha: f32,
        limit: f32,
    }
    Elementwise "elementwise" {
        a: F32s,
        b: F32s,
        y: F32s,
        step: Step,
        cols: u32,
        rows: u32,
        cols_in: u32,
        width: u32,
        width_in: u32,
        alpha: f32,
        limit: f32,
    }
    Embed "embed" { table: U8s, y: F32s, step: Step, width: u32, row_bytes: u32, scale: f32 }
    ExpertGroups "expert_groups" {
        ids: U32s,
        groups: U32s,
        step: Step,
        n_experts: u32,
        n_used: u32,
        rows: u32,
        list_at: u32,
    }
    ExpertSum "expert_sum" { x: F32s, weights: F32s, a: F32s, b: F32s, y: F32s, step: Step, width: u32, n_used: u32, rows: u32 }
    Gemm "gemm", GemmDirect "gemm_direct", GemmPlain "gemm_plain" {
        chain: Chain,
        w: U8s,
        w2: U8s,
        x: F32s,
        other: F32s,
        y: F32s,
        groups: U32s,
        slice_sums: F32s,
        arrived: U32s,
        step: Step,
        n_in: u32,
        n_out: u32,
        row_bytes: u32,
        row_bytes2: u32,
        rows: u32,
        rows_max: u32,
        n_used: u32,
        list_at: u32,
        alpha: f32,
        limit: f32,
    }
    KvWrite "kv_write" { k: F32s, v: F32s, cache_k: U8s, cache_v: U8s, step: Step, width: u32 }
    L2Norm "l2_norm" { x: F32s, y: F32s, step: Step, width: u32, cols: u32, rows: u32, eps: f32, scale: f32 }
    MatrixPlaces "matrix_places" { y: U32s }
    Matvec "matvec" {
        chain: Chain,
        w: U8s,
        w2: U8s,
        x: F32s,
        other: F32s,
        other2: F32s,
        y: F32s,
        ids: U32s,
        norm: F32s,
        step: Step,
        n_in: u32,
        n_out: u32,
        row_bytes: u32,
        row_bytes2: u32,
        rows: u32,
        rows_max: u32,
        n_used: u32,
        expert_rows: u32,
        up_row: u32,
        alpha: f32,
        limit: f32,
        eps: f32,
    }
    RmsNorm "rms_norm" {
        chain: Chain,
        x: F32s,
        other: F32s,
        w: F32s,
        sum: F32s,
        y: F32s,
        step: Step,
        cols: u32,
        rows: u32,
        eps: f32,
        alpha: f32,
        limit: f32,
    }
    Rope "rope" {
        chain: Chain,
        x: F32s,
        y: F32s,
        v: F32s,
        cache_k: U8s,
        cache_v: U8s,
        norm: F32s,
        frequencies: F32s,
        step: Step,
        cols: u32,
        cols_in: u32,
        head_in: u32,
        n_rot: u32,
        magnitude: f32,
        eps: f32,
    }
    Router "router" {
        logits: F32s,
        scale: F32s,
        ids: U32s,
        weights: F32s,
        step: Step,
        n_used: u32,
        rows: u32,
    }
    SelectRows "select_rows" { x: F32s, y: F32s, step: Step, cols: u32 }
    Slice "slice" { x: F32s, y: F32s, step: Step, cols: u32, cols_in: u32, width: u32, width_in: u32, offset: u32, rows: u32 }
}
