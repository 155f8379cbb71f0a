// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    F32s a;
    F32s b;
    F32s y;
    Step step;
    uint cols;
    uint rows;
    float alpha;
    float limit;
};
