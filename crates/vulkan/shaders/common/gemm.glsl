// What the matrix-matrix kernels with tiles share: which rows a workgroup has, and its two tiles in shared memory. The includer defines
// VALUE, what a tile consists of; PER_EIGHT, how many of them eight elements are; PUT, which puts eight at a place that counts eights;
// PUT_WEIGHTS, which does so with weights s.x q + s.y; IN_ORDER, which puts eight halves into the order that they have there. It has
// included dequant.glsl and the parameters. LEAST_W is what else the tile of weights must hold.
//
// A workgroup makes BM rows of the matrix (or, for GLU, BM / 2 outputs: groups of GROUP rows of gate and up take turns)
// times BN tokens. Each step of BK columns is fetched into registers while the last one is being multiplied.

#include "common/gemm_tokens.glsl"
const uint STRIDE = BK / 8 + 1; // in eights: rows begin in different banks
const uint TILE_W = BM * STRIDE * PER_EIGHT;
shared VALUE tile_w[TILE_W > LEAST_W ? TILE_W : LEAST_W];
shared VALUE tile_x[BN * STRIDE * PER_EIGHT];

// Units of weights, where they lie within a step, or else halves of them, and eights of x that a thread fetches.
// Halves of a unit are spread over SPAN columns, at most.
const uint SPAN1 = DTYPE % IN_PLANES == Q6_K ? 128 : 64, SPAN2 = DTYPE2 % IN_PLANES == Q6_K ? 128 : 64;
const uint SPAN = SPAN1 > SPAN2 ? SPAN1 : SPAN2;
const uint W_COLUMNS = BK % SPAN == 0 ? 32 : 16, W_FOURS = W_COLUMNS / 4;       // of a task
const bool WHOLE = W_COLUMNS == 32;
const uint W_PER_ROW = BK / W_COLUMNS;
const uint W_TASKS = (BM * W_PER_ROW + WORKGROUP - 1) / WORKGROUP;
const uint X_TASKS = (BN * BK / 8 + WORKGROUP - 1) / WORKGROUP;

uint first_output() { return gl_WorkGroupID.x * (BM / MATRICES); }
// The output that row i of the tile belongs to, before it is bounded, and its matrix.
uint output_of(uint i) { return first_output() + (MATRICES == 2 ? i / (2 * GROUP) * GROUP + i % GROUP : i); }
uint matrix_of(uint i) { return MATRICES == 2 ? (i / GROUP) & 1 : 0; }

// What was fetched and is not in the tiles yet.
Raw raws[W_TASKS];
vec4 floats[W_TASKS * 8];
vec4 fetched_x[X_TASKS * 2];
uvec4 rounded_x[X_TASKS];

bool has_w(uint i) { return W_TASKS * WORKGROUP == BM * W_PER_ROW || i < BM * W_PER_ROW; }
bool has_x(uint i) { return X_TASKS * WORKGROUP == BN * BK / 8 || i < BN * BK / 8; }

// First byte of the matrix row that task i is in.
uint row_at(uint i) {
    uint row = i / W_PER_ROW, o = min(output_of(row), n_out - 1);
    if (EXPERTS > 0) o += expert * n_out;
    return o * (matrix_of(row) == 1 ? row_bytes2 : row_bytes);
}

// The unit of task i of the columns from k on; of half a unit, the one it is in.
uint unit_at(uint dtype, uint k, uint i) {
    return WHOLE ? k / 32 + i % W_PER_ROW : unit_of(dtype, k / 16 + i % W_PER_ROW).x;
}

void fetch_w(uint dtype, uint task, U8s m, uint k, uint i) {
    if (is_float(dtype)) {
        uint column = k + i % W_PER_ROW * W_COLUMNS;
        [[unroll]] for (uint n = 0; n < W_FOURS; n++)
            floats[8 * task + n] = load_floats(dtype, m, row_at(i), column + 4 * n);
    } else {
        raws[task] = load_raw(dtype, m, row_at(i), unit_at(dtype, k, i));
    }
}

void put_half(uint dtype, uint half_of_it, uint at, uvec4 q, vec2 s) {
    PUT_WEIGHTS(dtype, half_of_it, at, q.xy, s)
    PUT_WEIGHTS(dtype, half_of_it, at + 1, q.zw, s)
}

void put_w(uint dtype, uint task, U8s m, uint k, uint i) {
    uint at = i / W_PER_ROW * STRIDE, c = i % W_PER_ROW, u = unit_at(dtype, k, i);
    if (is_float(dtype)) {
        [[unroll]] for (uint n = 0; n < W_FOURS / 2; n++)
            PUT(tile_w, at + c * (W_FOURS / 2) + n, floats[8 * task + 2 * n], floats[8 * task + 2 * n + 1])
        return;
    }
    Unit unit = make_bytes(dtype, m, row_at(i), u, raws[task]);
    if (WHOLE) {
        uvec2 places = 2 * (halves(dtype, u) - k / 16);
        put_half(dtype, 0, at + places.x, unit.a, unit.sa);
        put_half(dtype, 1, at + places.y, unit.b, unit.sb);
    } else {
        bool is_a = unit_of(dtype, k / 16 + c).y == 0;
        if (is_a) put_half(dtype, 0, at + 2 * c, unit.a, unit.sa);
        else put_half(dtype, 1, at + 2 * c, unit.b, unit.sb);
    }
}

// Fetches columns k.. of the workgroup's rows and tokens.
void fetch(uint k) {
    uint thread = gl_LocalInvocationID.x;
    [[unroll]] for (uint task = 0; task < W_TASKS; task++) {
        uint i = thread + task * WORKGROUP;
        if (!has_w(i)) break;
        bool second = matrix_of(i / W_PER_ROW) == 1;
        if (DTYPE2 != DTYPE && second) fetch_w(DTYPE2, task, w2, k, i);
        else fetch_w(DTYPE, task, second ? w2 : w, k, i);
    }
    [[unroll]] for (uint task = 0; task < X_TASKS; task++) {
        uint i = thread + task * WORKGROUP;
        if (!has_x(i)) break;
        uint row = row_of(i / (BK / 8));
        if (EXPERTS == 1) row /= n_used;
        uint at = (row * n_in + k) / 8 + i % (BK / 8);
        if (X_ROUNDED == 1) {
            rounded_x[task] = UVec4s(U8s(x)).v[at];
        } else {
            fetched_x[2 * task] = Vec4s(x).v[2 * at];
            fetched_x[2 * task + 1] = Vec4s(x).v[2 * at + 1];
        }
    }
}

// Puts what was fetched of columns k.. into the tiles: x last, since it was asked for last.
void put(uint k) {
    uint thread = gl_LocalInvocationID.x;
    [[unroll]] for (uint task = 0; task < W_TASKS; task++) {
        uint i = thread + task * WORKGROUP;
        if (!has_w(i)) break;
        bool second = matrix_of(i / W_PER_ROW) == 1;
        if (DTYPE2 != DTYPE && second) put_w(DTYPE2, task, w2, k, i);
        else put_w(DTYPE, task, second ? w2 : w, k, i);
    }
    [[unroll]] for (uint task = 0; task < X_TASKS; task++) {
        uint i = thread + task * WORKGROUP;
        if (!has_x(i)) break;
        uint at = i / (BK / 8) * STRIDE + i % (BK / 8);
        if (X_ROUNDED == 1) tile_x[at] = VALUE(IN_ORDER(rounded_x[task]));
        else PUT(tile_x, at, BOUNDED(fetched_x[2 * task]), BOUNDED(fetched_x[2 * task + 1]))
    }
}
