// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s q;
    F32s k;
    F32s g;
    F32s beta;
    F32s factors;
    Step step;
    uint n_k_heads;
    uint n_v_heads;
    uint key_stride;
    float q_eps;
    float k_eps;
    float q_scale;
    float k_scale;
};
