// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s alpha;
    F32s b;
    F32s a;
    F32s dt;
    F32s g;
    F32s beta;
    Step step;
    uint n_heads;
    uint rows;
};
