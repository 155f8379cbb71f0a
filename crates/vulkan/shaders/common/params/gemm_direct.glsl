// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    Chain chain;
    U8s w;
    U8s w2;
    F32s x;
    F32s other;
    F32s y;
    U32s groups;
    F32s slice_sums;
    U32s arrived;
    Step step;
    uint n_in;
    uint n_out;
    uint row_bytes;
    uint row_bytes2;
    uint rows;
    uint rows_max;
    uint n_used;
    uint list_at;
    float alpha;
    float limit;
};
