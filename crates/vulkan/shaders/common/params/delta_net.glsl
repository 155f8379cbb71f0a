// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s q;
    F32s k;
    F32s v;
    F32s g;
    F32s beta;
    F32s state;
    F32s y;
    F32s norm;
    F32s gate;
    Step step;
    uint n_k_heads;
    uint n_v_heads;
    uint key_stride;
    uint value_stride;
    float q_eps;
    float k_eps;
    float q_scale;
    float k_scale;
    float eps;
    float alpha;
    float limit;
};
