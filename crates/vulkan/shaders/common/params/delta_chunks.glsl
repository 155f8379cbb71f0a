// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s q;
    F32s k;
    F32s v;
    F32s factors;
    F32s state;
    F32s y;
    Step step;
    uint n_k_heads;
    uint n_v_heads;
    uint key_stride;
    uint value_stride;
};
