// Made from src/params.rs by `cargo xtask kernels`.
layout(push_constant, scalar) uniform Params {
    U32s ids;
    U32s groups;
    Step step;
    uint n_experts;
    uint n_used;
    uint rows;
    uint list_at;
};
