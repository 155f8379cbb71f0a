// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    Chain chain;
    F32s x;
    F32s y;
    F32s v;
    U8s cache_k;
    U8s cache_v;
    F32s norm;
    F32s frequencies;
    Step step;
    uint cols;
    uint cols_in;
    uint head_in;
    uint n_rot;
    float magnitude;
    float eps;
};
