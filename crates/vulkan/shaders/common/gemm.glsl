// What both matrix-matrix kernels share: constants, which rows and tokens a workgroup has, and its two tiles in shared
// memory. The includer defines VALUE4, four elements of a tile, and has included dequant.glsl and the parameters.
//
// A workgroup makes BM rows of the matrix (or, for GLU, BM / 2 outputs: groups of GROUP rows of gate and up take turns)
// times BN tokens. Each step of BK columns is fetched into registers while the last one is being multiplied.

const uint MATRICES = EPILOGUE == 3 ? 2 : 1;
const uint STRIDE = BK / 4 + 2; // in VALUE4: rows begin in different banks
shared VALUE4 tile_w[BM * STRIDE];
shared VALUE4 tile_x[BN * STRIDE];

// Sixteens of weights and eights of x that a thread fetches.
const uint W_TASKS = (BM * BK / 16 + WORKGROUP - 1) / WORKGROUP;
const uint X_TASKS = (BN * BK / 8 + WORKGROUP - 1) / WORKGROUP;

uint first_output() { return gl_WorkGroupID.x * (BM / MATRICES); }
// The output that row i of the tile belongs to, before it is bounded, and its matrix.
uint output_of(uint i) { return first_output() + (MATRICES == 2 ? i / (2 * GROUP) * GROUP + i % GROUP : i); }
uint matrix_of(uint i) { return MATRICES == 2 ? (i / GROUP) & 1 : 0; }

// What the workgroup's tokens are: rows of y (and of x) from `start`, or entries of the list of an expert.
uint expert, start, count;
bool find_tokens() {
    if (EXPERTS == 0) {
        uint total = n_rows(step, rows);
        start = gl_WorkGroupID.y * BN;
        count = start < total ? min(BN, total - start) : 0;
        return count > 0;
    }
    if (gl_WorkGroupID.y >= groups.v[0]) return false;
    uint tile = 1 + 3 * gl_WorkGroupID.y;
    expert = groups.v[tile];
    start = groups.v[tile + 1];
    count = groups.v[tile + 2];
    return true;
}
// Row of y of token n of the tile; tokens that are not there count as the last.
uint row_of(uint n) {
    n = start + min(n, count - 1);
    return EXPERTS == 0 ? n : groups.v[list_at + n];
}

// What was fetched and is not in the tiles yet.
Raw raws[W_TASKS];
vec4 floats[W_TASKS * 4];
vec4 fetched_x[X_TASKS * 2];

bool has_w(uint i) { return W_TASKS * WORKGROUP == BM * BK / 16 || i < BM * BK / 16; }
bool has_x(uint i) { return X_TASKS * WORKGROUP == BN * BK / 8 || i < BN * BK / 8; }

// First byte of the matrix row that task i is in.
uint row_at(uint i) {
    uint row = i / (BK / 16), o = min(output_of(row), n_out - 1);
    if (EXPERTS > 0) o += expert * n_out;
    return o * (matrix_of(row) == 1 ? row_bytes2 : row_bytes);
}

void fetch_w(uint dtype, uint task, U8s m, uint row, uint k) {
    if (is_float(dtype)) {
        [[unroll]] for (uint i = 0; i < 4; i++) floats[4 * task + i] = load_floats(dtype, m, row, k + 4 * i);
    } else {
        raws[task] = load_raw(dtype, m, row, unit_of(dtype, k / 16).x);
    }
}

void put_w(uint dtype, uint task, U8s m, uint row, uint k, uint at) {
    if (is_float(dtype)) {
        [[unroll]] for (uint i = 0; i < 4; i++) tile_w[at + i] = VALUE4(floats[4 * task + i]);
        return;
    }
    uvec2 half_at = unit_of(dtype, k / 16);
    Unit unit = make_unit(dtype, m, row, half_at.x, raws[task]);
    uvec4 q = half_at.y == 0 ? unit.a : unit.b;
    vec2 s = half_at.y == 0 ? unit.sa : unit.sb;
    [[unroll]] for (uint i = 0; i < 4; i++) tile_w[at + i] = VALUE4(s.x * raised(q[i]) + s.y);
}

// Columns k.. of the workgroup's rows and tokens.
void fetch(uint k) {
    uint thread = gl_LocalInvocationID.x;
    [[unroll]] for (uint task = 0; task < W_TASKS; task++) {
        uint i = thread + task * WORKGROUP, column = k + i % (BK / 16) * 16;
        if (!has_w(i)) break;
        bool second = matrix_of(i / (BK / 16)) == 1;
        if (DTYPE2 != DTYPE && second) fetch_w(DTYPE2, task, w2, row_at(i), column);
        else fetch_w(DTYPE, task, second ? w2 : w, row_at(i), column);
    }
    [[unroll]] for (uint task = 0; task < X_TASKS; task++) {
        uint i = thread + task * WORKGROUP;
        if (!has_x(i)) break;
        uint row = row_of(i / (BK / 8));
        if (EXPERTS == 1) row /= n_used;
        uint at = (row * n_in + k) / 4 + i % (BK / 8) * 2;
        fetched_x[2 * task] = Vec4s(x).v[at];
        fetched_x[2 * task + 1] = Vec4s(x).v[at + 1];
    }
}

// Puts what was fetched of columns k.. into the tiles.
void put(uint k) {
    uint thread = gl_LocalInvocationID.x;
    [[unroll]] for (uint task = 0; task < W_TASKS; task++) {
        uint i = thread + task * WORKGROUP, part = i % (BK / 16), at = i / (BK / 16) * STRIDE + part * 4;
        if (!has_w(i)) break;
        bool second = matrix_of(i / (BK / 16)) == 1;
        if (DTYPE2 != DTYPE && second) put_w(DTYPE2, task, w2, row_at(i), k + part * 16, at);
        else put_w(DTYPE, task, second ? w2 : w, row_at(i), k + part * 16, at);
    }
    [[unroll]] for (uint task = 0; task < X_TASKS; task++) {
        uint i = thread + task * WORKGROUP;
        if (!has_x(i)) break;
        uint at = i / (BK / 8) * STRIDE + i % (BK / 8) * 2;
        [[unroll]] for (uint j = 0; j < 2; j++) tile_x[at + j] = VALUE4(BOUNDED(fetched_x[2 * task + j]));
    }
}

// Writes output o of token n of the tile.
void write(uint o, uint n, float v) {
    if (o >= n_out || n >= count) return;
    uint at = row_of(n) * n_out + o;
    if (EPILOGUE == 1) v += other.v[(EXPERTS == 0 ? 0 : expert * n_out) + o];
    if (EPILOGUE == 2) v += other.v[at];
    y.v[at] = v;
}
