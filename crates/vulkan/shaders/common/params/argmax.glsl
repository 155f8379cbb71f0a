// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s x;
    U32s y;
    U32s parts;
    U32s arrived;
    Step step;
    uint cols;
    uint rows;
};
