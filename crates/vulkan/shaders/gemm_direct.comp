// y[t][o] = sum_k W[o][k] x[t][k], for few tokens, on matrix cores; epilogues: + bias, + residual, act(gate) * up. Weights go from
// memory to the registers in which a lane has its elements of a matrix, with no tile in shared memory between: what every weight
// costs there, to be written once and read once, is more than all else.
// Axes: t tokens, o outputs, k inputs. Launch: (ceil(n_out / OUTPUTS), ceil(rows / BN)); SPLIT subgroups make the same TILE outputs,
// each of its part of the columns.
//
// A lane has COLUMNS elements of a row of the matrix A and as many of a column of B, of DEEP rows and DEEP_X columns, and SHARES lanes
// share a row (src/fragments.rs). Which columns of the product these are is free, as long as A and B agree: a lane takes WIDE units
// of each of its rows, and of x what those units meet. An item is what the lanes of a row take at a time; a stage is SPLIT items,
// whose x is in shared memory, in the order in which lanes read it.
// Weights and x are rounded to f16 (x bounded to its range), products summed in f32.
// Bytes: the matrix once per token tile, x once per workgroup from cache.
#version 460
#extension GL_KHR_cooperative_matrix : require
#include "common/zinc.glsl"
#include "common/chain.glsl"
layout(constant_id = 2) const uint DTYPE = 0;    // of both matrices; no float
layout(constant_id = 3) const uint BN = 16;      // tokens of a workgroup
layout(constant_id = 4) const uint SPLIT = 1;
layout(constant_id = 5) const uint EPILOGUE = 0; // PLAIN 0, BIAS 1, ADD 2, GLU 3
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const uint TILE = 16;    // rows of A, and columns
layout(constant_id = 8) const uint TN = 16;      // columns of B: tokens
layout(constant_id = 9) const uint COLUMNS = 4;  // at most 8
layout(constant_id = 10) const uint ROW_STEP = 4;   // lanes from one row to the next
layout(constant_id = 11) const uint SHARE_STEP = 1; // and between those that share it
layout(constant_id = 12) const uint WIDE = 1;    // 2 for types with blocks of 256 weights
layout(constant_id = 13) const uint EXACT = 0;   // all stages are whole
layout(constant_id = 14) const uint X_ROUNDED = 0;
layout(constant_id = 15) const uint Y_ROUNDED = 0;
const uint EXPERTS = 0; // it makes none
#define LOOSE 1
#include "common/dequant.glsl"
#include "common/activation.glsl"
#include "common/params/gemm_direct.glsl"
#include "common/gemm_tokens.glsl"
#include "common/halves.glsl"

const uint SHARES = TILE / COLUMNS;
const uint DEEP = TILE * TILE / SUBGROUP / COLUMNS, APART = TILE / DEEP;
const uint DEEP_X = TILE * TN / SUBGROUP / COLUMNS, APART_X = TN / DEEP_X;
const uint NI = (BN + TN - 1) / TN;
const uint TOKENS = BN < TN ? (BN + APART_X - 1) / APART_X : DEEP_X; // of those of a lane in B, how many there are
const uint SUBGROUPS = WORKGROUP / SUBGROUP, OUTPUTS = SUBGROUPS / SPLIT * TILE;
const uint ITEM = SHARES * WIDE;              // units
const uint EIGHTS = SPLIT * ITEM * 4;         // of columns of a stage
const uint LINE = BN * SHARES + 1;            // lines begin in different banks
const uint XS = SPLIT * WIDE * 4 * LINE, SUMS = SUBGROUPS * MATRICES * NI * TILE * TN / 4;

// [item][unit of it and eight of that][token][share], and at the end the sums of each subgroup.
shared uvec4 xs[XS > SUMS ? XS : SUMS];

// [matrix][row][unit], and where the lane's rows begin, in bytes.
Raw raws[MATRICES * DEEP * WIDE];
Unit now[MATRICES * DEEP * WIDE];
uint begins[MATRICES * DEEP];
coopmat<float, gl_ScopeSubgroup, TILE, TN, gl_MatrixUseAccumulator> sums[MATRICES * NI];

// Each eight of x that a thread brings in a stage: its index in x in the first stage, its place in `xs`, what was fetched.
const uint X_TASKS = (BN * EIGHTS + WORKGROUP - 1) / WORKGROUP;
uint from[X_TASKS], place[X_TASKS];
vec4 fetched_x[X_TASKS * 2];
uvec4 rounded_x[X_TASKS];

uint lane_row(uint apart) { return gl_SubgroupInvocationID / ROW_STEP % apart; }
uint lane_share() { return gl_SubgroupInvocationID / SHARE_STEP % SHARES; }

void find_x() {
    [[unroll]] for (uint task = 0; task < X_TASKS; task++) {
        uint i = gl_LocalInvocationID.x + task * WORKGROUP, c = i % EIGHTS, token = i / EIGHTS;
        uvec2 unit = unit_of(DTYPE, c / 2);
        uint line = (unit.x / ITEM * WIDE + unit.x % WIDE) * 4 + 2 * unit.y + c % 2;
        from[task] = row_of(min(token, BN - 1)) * (n_in / 8) + c;
        place[task] = line * LINE + token * SHARES + unit.x / WIDE % SHARES;
    }
}

bool is_column(uint stage, uint task) {
    return EXACT == 1 || stage * EIGHTS + (gl_LocalInvocationID.x + task * WORKGROUP) % EIGHTS < n_in / 8;
}

void fetch_x(uint stage) {
    [[unroll]] for (uint task = 0; task < X_TASKS; task++) {
        uint at = is_column(stage, task) ? from[task] + stage * EIGHTS : 0;
        if (X_ROUNDED == 1) {
            rounded_x[task] = passed_words(x, at);
        } else {
            fetched_x[2 * task] = passed4(x, 2 * at);
            fetched_x[2 * task + 1] = passed4(x, 2 * at + 1);
        }
    }
}

// Columns past the end are zeros, so that it does not matter which weights meet them.
void put_x(uint stage) {
    [[unroll]] for (uint task = 0; task < X_TASKS; task++) {
        uvec4 v;
        if (X_ROUNDED == 1) v = IN_ORDER(rounded_x[task]);
        else v = uvec4(halves_of(BOUNDED(fetched_x[2 * task])), halves_of(BOUNDED(fetched_x[2 * task + 1])));
        if (!is_column(stage, task)) v = uvec4(0);
        bool is_there = BN * EIGHTS % WORKGROUP == 0 || gl_LocalInvocationID.x + task * WORKGROUP < BN * EIGHTS;
        if (is_there) xs[place[task]] = v;
    }
}

// First of this lane's units of the item that subgroup z takes of a stage: a multiple of WIDE, which the compiler is to see.
uint unit_at(uint stage, uint z) {
    uint item = (stage * SPLIT + z) * SHARES + lane_share();
    return WIDE * (EXACT == 1 ? item : min(item, n_in / (32 * WIDE) - 1));
}

void fetch_w(uint u) {
    [[unroll]] for (uint i = 0; i < MATRICES * DEEP; i++) {
        U8s matrix = i < DEEP ? w : w2;
        if (WIDE == 1) raws[i] = load_raw(DTYPE, matrix, begins[i], u);
        else load_raws(DTYPE, matrix, begins[i], u, raws[2 * i], raws[2 * i + 1]);
    }
}

void make_units(uint u) {
    [[unroll]] for (uint i = 0; i < MATRICES * DEEP * WIDE; i++)
        now[i] = make_bytes(DTYPE, i < DEEP * WIDE ? w : w2, begins[i / WIDE], u + i % WIDE, raws[i]);
}

float16_t half_at(uvec4 v, uint i) { return unpackFloat2x16(v[i / 2])[i % 2]; }

// Adds the products of item z of the stage: for each eight of columns of the units, as many matrices as lanes have it in pieces of
// COLUMNS.
void multiply(uint z) {
    [[unroll]] for (uint n = 0; n < WIDE * 4; n++) {
        uvec4 of_x[NI * TOKENS], of_w[MATRICES * DEEP];
        [[unroll]] for (uint i = 0; i < NI * TOKENS; i++) {
            uint token = i / TOKENS * TN + i % TOKENS * APART_X + lane_row(APART_X);
            of_x[i] = xs[(z * WIDE * 4 + n) * LINE + min(token, BN - 1) * SHARES + lane_share()];
        }
        [[unroll]] for (uint i = 0; i < MATRICES * DEEP; i++) {
            Unit unit = now[i * WIDE + n / 4];
            uint half_of_it = n / 2 % 2;
            uvec4 q = half_of_it == 0 ? unit.a : unit.b;
            of_w[i] = weights_of(DTYPE, half_of_it, n % 2 == 0 ? q.xy : q.zw, half_of_it == 0 ? unit.sa : unit.sb);
        }
        [[unroll]] for (uint j = 0; j < 8; j += COLUMNS) {
            coopmat<float16_t, gl_ScopeSubgroup, TILE, TN, gl_MatrixUseB> b[NI];
            [[unroll]] for (uint i = 0; i < NI * DEEP_X * COLUMNS; i++) {
                uint t = i / COLUMNS % DEEP_X, m = i / (DEEP_X * COLUMNS), at = m * TOKENS + min(t, TOKENS - 1);
                b[m][i % (DEEP_X * COLUMNS)] = t < TOKENS ? half_at(of_x[at], j + i % COLUMNS) : float16_t(0.0);
            }
            [[unroll]] for (uint m = 0; m < MATRICES; m++) {
                coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseA> a;
                [[unroll]] for (uint i = 0; i < DEEP * COLUMNS; i++) a[i] = half_at(of_w[m * DEEP + i / COLUMNS], j + i % COLUMNS);
                [[unroll]] for (uint i = 0; i < NI; i++) sums[m * NI + i] = coopMatMulAdd(a, b[i], sums[m * NI + i]);
            }
        }
    }
}

// Adds the sums of the subgroups that share outputs, and writes these.
void finish() {
    [[unroll]] for (uint i = 0; i < MATRICES * NI; i++)
        coopMatStore(sums[i], xs, (gl_SubgroupID * MATRICES * NI + i) * (TILE * TN / 4), TILE / 4, gl_CooperativeMatrixLayoutColumnMajor);
    barrier();
    [[unroll]] for (uint n = 0; n < (OUTPUTS * BN + WORKGROUP - 1) / WORKGROUP; n++) {
        uint i = gl_LocalInvocationID.x + n * WORKGROUP, o = i % OUTPUTS, token = i / OUTPUTS;
        if (i >= OUTPUTS * BN) break;
        float v[MATRICES];
        [[unroll]] for (uint m = 0; m < MATRICES; m++) {
            v[m] = 0;
            [[unroll]] for (uint z = 0; z < SPLIT; z++) {
                uint matrix = ((o / TILE * SPLIT + z) * MATRICES + m) * NI + token / TN;
                uint e = (matrix * TN + token % TN) * TILE + o % TILE;
                v[m] += uintBitsToFloat(xs[e / 4][e % 4]);
            }
        }
        if (MATRICES == 2) v[0] = gated(ACTIVATION, v[0], v[MATRICES - 1], alpha, limit);
        write(gl_WorkGroupID.x * OUTPUTS + o, token, v[0], Y_ROUNDED);
    }
}

void work() {
    find_tokens();
    uint z = gl_SubgroupID % SPLIT, first = gl_WorkGroupID.x * OUTPUTS + gl_SubgroupID / SPLIT * TILE;
    [[unroll]] for (uint i = 0; i < MATRICES * DEEP; i++) {
        uint o = min(first + i % DEEP * APART + lane_row(APART), n_out - 1);
        begins[i] = o * (i < DEEP ? row_bytes : row_bytes2);
    }
    [[unroll]] for (uint i = 0; i < MATRICES * NI; i++)
        sums[i] = coopmat<float, gl_ScopeSubgroup, TILE, TN, gl_MatrixUseAccumulator>(0.0);
    find_x();
    if (!waits()) fetch_x(0);
    fetch_w(unit_at(0, z));
    wait(chain, step);
    if (waits()) fetch_x(0);
    if (count == 0) return;
    uint n_stages = (n_in / 32 + SPLIT * ITEM - 1) / (SPLIT * ITEM);
    for (uint stage = 0; stage < n_stages; stage++) {
        put_x(stage);
        barrier();
        make_units(unit_at(stage, z));
        // The next are under way while these are multiplied; behind the last it is the last again.
        uint next = min(stage + 1, n_stages - 1);
        fetch_w(unit_at(next, z));
        fetch_x(next);
        multiply(z);
        barrier();
    }
    finish();
}

void main() {
    work();
    arrive(chain);
}
