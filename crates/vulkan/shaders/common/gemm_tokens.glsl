// What all matrix-matrix kernels share: which tokens a workgroup has, and where its outputs go. The includer has the constants BN,
// EPILOGUE and EXPERTS and the parameters.

const uint MATRICES = EPILOGUE == 3 ? 2 : 1;

// What the workgroup's tokens are: rows of y (and of x) from `start`, or entries of the list of an expert. There may be none.
uint expert, start, count;
void find_tokens() {
    if (EXPERTS == 0) {
        uint total = n_rows(step, rows);
        start = gl_WorkGroupID.y * BN;
        count = start < total ? min(BN, total - start) : 0;
        return;
    }
    count = 0;
    if (gl_WorkGroupID.y >= groups.v[0]) return;
    uint tile = 1 + 3 * gl_WorkGroupID.y;
    expert = groups.v[tile];
    start = groups.v[tile + 1];
    count = groups.v[tile + 2];
}
// Row of y of token n of the tile. Those that are not there are made and not written, since to leave them out costs more: without
// experts from rows that hold anything, so that the first fetch need not wait for the number of tokens.
uint row_of(uint n) {
    return EXPERTS == 0 ? min(start + n, rows_max - 1) : groups.v[list_at + start + min(n, count - 1)];
}

// Writes output o of token n of the tile.
void write(uint o, uint n, float v, uint rounded) {
    if (o >= n_out || n >= count) return;
    uint at = row_of(n) * n_out + o;
    if (EPILOGUE == 1) v += other.v[(EXPERTS == 0 ? 0 : expert * n_out) + o];
    if (EPILOGUE == 2) v += passed(other, at);
    put1(rounded, y, at, v);
}
