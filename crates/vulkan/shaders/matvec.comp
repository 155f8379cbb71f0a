// y[t][o] = sum_k W[o][k] x[t][k], for few tokens; epilogues: + bias, + residual, act(gate) * up, experts. NORM: x is first
// divided by its root mean square and multiplied by the norm's weight.
// Axes: t up to NT tokens of the group, o outputs, k inputs. Launch: (ceil(n_out / (ROWS * subgroups)), ceil(rows / NT)).
//
// The workgroup brings x to shared memory, UNITS units of 32 columns at a time, in the order in which lanes read it: neighbours
// side by side. A subgroup makes ROWS outputs (of each matrix) of NT tokens; its lanes stride over units, and the next units
// are under way while the last are multiplied. The norm's weight is applied on the way to shared memory, its root to the sums.
//
// INTEGER: sixteen columns of x become integers of 16 bits with one scale, x = scale (256 high + low), each part a signed byte;
// four products with stored bytes are one instruction then, two with both parts, and the error of x is 2^-16 of the largest of
// its sixteen. Otherwise, and for F32, F16 and BF16, all in f32.
// An expert has expert_rows rows of a matrix, which may hold gate and up: up then begins at row up_row of the expert.
// Bytes: the matrix once per group of NT tokens (two matrices for GLU), x once per workgroup from cache.
#version 460
#extension GL_EXT_integer_dot_product : require
#include "common/zinc.glsl"
layout(constant_id = 2) const uint DTYPE = 0;
layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint NT = 1;
layout(constant_id = 5) const uint EPILOGUE = 0; // PLAIN 0, BIAS 1, ADD 2, GLU 3, GLU_BIAS 4
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const uint EXPERTS = 0;  // 1: one input row a token, 2: one a (token, slot)
layout(constant_id = 8) const uint DTYPE2 = 0;   // of the second matrix
layout(constant_id = 9) const uint NORM = 0;
layout(constant_id = 10) const uint UNITS = 64;  // a multiple of the subgroup's size
layout(constant_id = 11) const uint INTEGER = 0;
const uint MATRICES = EPILOGUE >= 3 ? 2 : 1;
#include "common/dequant.glsl"
#include "common/activation.glsl"

#include "common/params/matvec.glsl"

bool is_integer(uint dtype) { return INTEGER == 1 && !is_float(dtype); }

// [token][part][unit]. A part is four columns of x: four of half a, four of half b. As integers: high and low of half a, high and
// low of half b, and then scale and sum of half a and of half b.
const uint PARTS = 8;
shared vec4 xs[NT * PARTS * UNITS];

// [matrix][row][token], and of each token the squares of this thread's x.
float sums[MATRICES * ROWS * NT];
float squares[NT];

Raw raws[MATRICES * ROWS];
vec4 floats[MATRICES * ROWS * 8];
Unit now[MATRICES * ROWS];

// First byte of row r of matrix m, of those of the product that begin at row `base`.
uint row_at(uint m, uint r, uint base, uint first) {
    return (base + m * up_row + min(first + r, n_out - 1)) * (m == 0 ? row_bytes : row_bytes2);
}

// Matrices from..to, all of one type.
void load_weights(uint dtype, uint from, uint to, uint base, uint first, uint u) {
    [[unroll]] for (uint m = from; m < to; m++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint row = row_at(m, r, base, first), at = m * ROWS + r;
            U8s matrix = m == 0 ? w : w2;
            if (is_float(dtype)) {
                [[unroll]] for (uint i = 0; i < 8; i++) floats[at * 8 + i] = load_floats(dtype, matrix, row, 32 * u + 4 * i);
            } else {
                raws[at] = load_raw(dtype, matrix, row, u);
            }
        }
    }
}

uint bytes_of(ivec4 v) { return (v.x & 255) | ((v.y & 255) << 8) | ((v.z & 255) << 16) | (v.w << 24); }

// Puts four columns where they belong; `at` is their unit and half, i their place among the four fours of the half. The fours of a
// half are those of neighbouring lanes.
void put_x(uint dtype, uint t, uvec2 at, uint i, vec4 v) {
    if (!is_integer(dtype)) {
        xs[(t * PARTS + at.y * 4 + i) * UNITS + at.x] = v;
        return;
    }
    vec4 size = abs(v);
    float most = max(max(size.x, size.y), max(size.z, size.w)), sum = v.x + v.y + v.z + v.w;
    [[unroll]] for (uint m = 1; m < 4; m *= 2) {
        most = max(most, subgroupShuffleXor(most, m));
        sum += subgroupShuffleXor(sum, m);
    }
    // 32,512 is 127 times 256, so that the high part fits with the low one rounded to nearest.
    float scale = most / 32512.0;
    ivec4 n = ivec4(round(v * (most > 0 ? 32512.0 / most : 0.0))), high = (n + 128) >> 8, low = n - high * 256;
    xs[(t * PARTS + 2 * at.y) * UNITS + at.x][i] = uintBitsToFloat(bytes_of(high));
    xs[(t * PARTS + 2 * at.y + 1) * UNITS + at.x][i] = uintBitsToFloat(bytes_of(low));
    if (i < 2) xs[(t * PARTS + 4) * UNITS + at.x][2 * at.y + i] = i == 0 ? scale : sum;
}

// Columns of units u0.. of all tokens.
void bring_x(uint dtype, uint u0, uint t0, uint count, bool with_squares) {
    uint n = min(UNITS, n_in / 32 - u0) * 8, thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    [[unroll]] for (uint t = 0; t < NT; t++) {
        if (t >= count) break;
        uint x0 = (EXPERTS == 1 ? (t0 + t) / n_used : t0 + t) * (n_in / 4);
        for (uint i = thread; i < n; i += WORKGROUP) {
            vec4 v = Vec4s(x).v[x0 + 8 * u0 + i];
            if (NORM == 1) {
                if (with_squares) squares[t] += dot(v, v);
                v *= Vec4s(norm).v[8 * u0 + i];
            }
            uvec2 at = unit_of(dtype, 2 * u0 + i / 4);
            put_x(dtype, t, uvec2(at.x - u0, at.y), i % 4, v);
        }
    }
}

// Adds unit number `place` of shared memory, times the weights `now` of matrices from..to.
void multiply(uint dtype, uint from, uint to, uint place, float live, uint count) {
    [[unroll]] for (uint t = 0; t < NT; t++) {
        if (NT > 1 && t >= count) break;
        vec4 part[PARTS];
        [[unroll]] for (uint i = 0; i < PARTS; i++) part[i] = xs[(t * PARTS + i) * UNITS + place];
        if (is_integer(dtype)) {
            ivec4 ah = floatBitsToInt(part[0]), al = floatBitsToInt(part[1]), bh = floatBitsToInt(part[2]), bl = floatBitsToInt(part[3]);
            [[unroll]] for (uint mr = from * ROWS; mr < to * ROWS; mr++) {
                ivec4 n = ivec4(0);
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    n.x += dotPacked4x8EXT(ah[i], now[mr].a[i]);
                    n.y += dotPacked4x8EXT(al[i], now[mr].a[i]);
                    n.z += dotPacked4x8EXT(bh[i], now[mr].b[i]);
                    n.w += dotPacked4x8EXT(bl[i], now[mr].b[i]);
                }
                vec2 sa = now[mr].sa, sb = now[mr].sb;
                float a = part[4].x * float(256 * n.x + n.y), b = part[4].z * float(256 * n.z + n.w);
                sums[mr * NT + t] += live * (sa.x * a + sa.y * part[4].y + (sb.x * b + sb.y * part[4].w));
            }
            continue;
        }
        vec4 one = vec4(1);
        float all_a = dot(part[0] + part[1] + part[2] + part[3], one), all_b = dot(part[4] + part[5] + part[6] + part[7], one);
        [[unroll]] for (uint mr = from * ROWS; mr < to * ROWS; mr++) {
            float a = 0, b = 0;
            [[unroll]] for (uint i = 0; i < 4; i++) {
                a += dot(raised(now[mr].a[i]) - 1024.0, part[i]);
                b += dot(raised(now[mr].b[i]) - 1024.0, part[4 + i]);
            }
            vec2 sa = now[mr].sa, sb = now[mr].sb;
            sums[mr * NT + t] += live * (sa.x * a + sa.y * all_a + (sb.x * b + sb.y * all_b));
        }
    }
}

void product(uint dtype, uint from, uint to, uint base, uint first, uint t0, uint count) {
    uint n_units = n_in / 32, lane = gl_SubgroupInvocationID;
    load_weights(dtype, from, to, base, first, min(lane, n_units - 1));
    for (uint u0 = 0; u0 < n_units; u0 += SUBGROUP) {
        if (u0 % UNITS == 0) {
            barrier();
            bring_x(dtype, u0, t0, count, from == 0);
            barrier();
        }
        // No branch from here on, so that the loads are under way while the last are worked on: past the end, the last unit
        // stands in and counts nothing.
        Raw raws_now[MATRICES * ROWS];
        vec4 floats_now[MATRICES * ROWS * 8];
        [[unroll]] for (uint mr = from * ROWS; mr < to * ROWS; mr++) {
            raws_now[mr] = raws[mr];
            if (is_float(dtype)) {
                [[unroll]] for (uint i = 0; i < 8; i++) floats_now[mr * 8 + i] = floats[mr * 8 + i];
            }
        }
        load_weights(dtype, from, to, base, first, min(u0 + SUBGROUP + lane, n_units - 1));
        uint u = min(u0 + lane, n_units - 1);
        float live = u0 + lane < n_units ? 1.0 : 0.0;
        if (is_float(dtype)) {
            [[unroll]] for (uint t = 0; t < NT; t++) {
                if (NT > 1 && t >= count) break;
                [[unroll]] for (uint mr = from * ROWS; mr < to * ROWS; mr++) {
                    float sum = 0;
                    [[unroll]] for (uint i = 0; i < 8; i++) sum += dot(floats_now[mr * 8 + i], xs[(t * PARTS + i) * UNITS + u % UNITS]);
                    sums[mr * NT + t] += live * sum;
                }
            }
            continue;
        }
        [[unroll]] for (uint m = from; m < to; m++) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint mr = m * ROWS + r, row = row_at(m, r, base, first);
                U8s matrix = m == 0 ? w : w2;
                now[mr] = make_bytes(dtype, matrix, row, u, raws_now[mr]);
            }
        }
        multiply(dtype, from, to, u % UNITS, live, count);
    }
}

void main() {
    uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * ROWS;
    uint total = n_rows(step, rows) * (EXPERTS == 0 ? 1 : n_used);
    uint t0 = gl_WorkGroupID.y * NT;
    if (t0 >= total) return;
    uint count = min(NT, total - t0);
    uint expert = EXPERTS == 0 ? 0 : ids.v[t0];
    [[unroll]] for (uint i = 0; i < MATRICES * ROWS * NT; i++) sums[i] = 0;
    [[unroll]] for (uint t = 0; t < NT; t++) squares[t] = 0;
    if (MATRICES == 2 && DTYPE != DTYPE2) {
        product(DTYPE, 0, 1, expert * expert_rows, first, t0, count);
        product(DTYPE2, 1, 2, expert * expert_rows, first, t0, count);
    } else {
        product(DTYPE, 0, MATRICES, expert * expert_rows, first, t0, count);
    }
    [[unroll]] for (uint i = 0; i < MATRICES * ROWS * NT; i++) sums[i] = subgroupAdd(sums[i]);
    if (NORM == 1) {
        [[unroll]] for (uint t = 0; t < NT; t++) {
            float inverse = inversesqrt(workgroup_sum(squares[t]) / float(n_in) + eps);
            [[unroll]] for (uint mr = 0; mr < MATRICES * ROWS; mr++) sums[mr * NT + t] *= inverse;
        }
    }
    if (!subgroupElect()) return;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint o = first + r;
        if (o >= n_out) break;
        [[unroll]] for (uint t = 0; t < NT; t++) {
            if (t >= count) break;
            float v = sums[r * NT + t];
            uint at = (t0 + t) * n_out + o;
            if (EPILOGUE == 1 || EPILOGUE == 4) v += other.v[expert * expert_rows + o];
            if (EPILOGUE == 2) v += other.v[at];
            if (EPILOGUE >= 3) {
                float up = sums[(ROWS + r) * NT + t];
                if (EPILOGUE == 4) up += other2.v[expert * expert_rows + o];
                v = gated(ACTIVATION, v, up, alpha, limit);
            }
            y.v[at] = v;
        }
    }
}
