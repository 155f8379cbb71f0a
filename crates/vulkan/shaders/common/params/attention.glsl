// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    Chain chain;
    F32s q;
    U8s cache_k;
    U8s cache_v;
    F32s sinks;
    F32s y;
    F32s parts;
    U32s arrived;
    Step step;
    uint n_heads;
    uint n_kv_heads;
    uint window;
    float scale;
    float softcap;
};
