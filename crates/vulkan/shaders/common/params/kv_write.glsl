// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s k;
    F32s v;
    U8s cache_k;
    U8s cache_v;
    Step step;
    uint width;
};
