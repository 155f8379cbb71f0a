// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    U8s table;
    F32s y;
    Step step;
    uint width;
    uint row_bytes;
    float scale;
};
