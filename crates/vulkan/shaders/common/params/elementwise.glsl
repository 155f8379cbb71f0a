// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s a;
    F32s b;
    F32s y;
    Step step;
    uint cols;
    uint rows;
    uint cols_in;
    uint width;
    uint width_in;
    float alpha;
    float limit;
};
