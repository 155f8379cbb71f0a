// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s x;
    F32s taps;
    F32s state;
    F32s y;
    Step step;
    uint n_channels;
};
