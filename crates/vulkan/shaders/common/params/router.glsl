// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s logits;
    F32s scale;
    U32s ids;
    F32s weights;
    Step step;
    uint n_used;
    uint rows;
};
