// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s q;
    U8s cache_k;
    U8s cache_v;
    F32s sinks;
    F32s y;
    Step step;
    uint n_heads;
    uint n_kv_heads;
    uint window;
    float scale;
    float softcap;
};
