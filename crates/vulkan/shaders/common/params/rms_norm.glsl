// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    Chain chain;
    F32s x;
    F32s other;
    F32s w;
    F32s sum;
    F32s y;
    Step step;
    uint cols;
    uint rows;
    float eps;
    float alpha;
    float limit;
};
