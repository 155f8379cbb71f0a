// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    Chain chain;
    F32s q;
    F32s k;
    F32s v;
    U8s cache_k;
    U8s cache_v;
    F32s q_norm;
    F32s k_norm;
    F32s frequencies;
    F32s sinks;
    F32s y;
    F32s parts;
    U32s arrived;
    Step step;
    uint window;
    float scale;
    float softcap;
    float magnitude;
};
