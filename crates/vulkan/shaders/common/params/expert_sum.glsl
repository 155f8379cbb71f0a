// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s x;
    F32s weights;
    F32s a;
    F32s b;
    F32s y;
    Step step;
    uint width;
    uint n_used;
    uint rows;
};
