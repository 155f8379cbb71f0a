// o[t][h] = sum_j p[j] V[j][g], p = softmax_j(cap(scale q[t][h] . K[j][g])), keys j <= pos, j > pos - window: for many queries of
// a sequence, on matrix cores, over a cache in f16 or in bytes.
// Axes: t tokens, h query heads, g = h / (n_heads / n_kv_heads), j keys. Launch: (n_heads, tiles of ROWS tokens of one sequence).
// Sequences with at most FEW tokens in the step are left to attention.comp.
//
// A subgroup takes TILE tokens of a head. KEYS keys at a time come to shared memory; scores go through shared memory, where
// SUBGROUP / TILE lanes share a row, to the weights p in f16, while the running maximum and sum of each row stay in registers
// of its lanes; the sums over values are rescaled only when a maximum has grown. Source: Dao, "FlashAttention-2", 2023.
// Rounded to f16: q, p, and what bytes stand for. Bytes: K and V of the visible keys once per tile and head, mostly from cache.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_vote : require
#include "common/zinc.glsl"
#include "common/activation.glsl"
#include "common/kv.glsl"
layout(constant_id = 2) const uint TILE = 16;  // side of the matrices
layout(constant_id = 3) const uint SINKS = 0;
layout(constant_id = 4) const uint HEAD = 128; // columns of a head, a multiple of TILE
layout(constant_id = 5) const uint KEYS = 32;  // a multiple of TILE
layout(constant_id = 6) const uint FEW = 0;
layout(constant_id = 7) const uint ROUNDED = 0;
layout(constant_id = 8) const uint FORMAT = KV_F16;

#include "common/params/attention_tiles.glsl"

const uint SUBGROUPS = WORKGROUP / SUBGROUP, ROWS = SUBGROUPS * TILE;
const uint STRIDE = HEAD / 4 + 2;      // of keys and values in shared memory, in f16vec4
const uint LANES = SUBGROUP / TILE;    // that share a row
const uint COLUMNS = KEYS / LANES;     // keys of a row that a lane has
const uint DEPTH = HEAD / TILE, ACROSS = KEYS / TILE, ELEMENTS = TILE * TILE / SUBGROUP;
shared f16vec4 keys[KEYS * STRIDE], values[KEYS * STRIDE];
shared float scores[SUBGROUPS * TILE * KEYS];
shared float16_t shares[SUBGROUPS * TILE * KEYS];
shared float factors[SUBGROUPS * TILE * TILE];

// The tile's sequence, its first token in the step, and how many there are.
uint seq, first, count;
bool find_tile() {
    uint tile = gl_WorkGroupID.y;
    for (seq = 0; seq < step.n_seqs; seq++) {
        uint start = step_query_start(step, seq), n = step_query_start(step, seq + 1) - start;
        if (n <= FEW) continue;
        uint tiles = (n + ROWS - 1) / ROWS;
        if (tile < tiles) {
            first = start + tile * ROWS;
            count = min(ROWS, n - tile * ROWS);
            return true;
        }
        tile -= tiles;
    }
    return false;
}

f16vec4 rounded(uint bytes, uint scale) { return f16vec4(clamp(q8_columns(bytes, scale), -65504.0, 65504.0)); }

// Every lane's factor for its row, as a matrix.
coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator> by_row(float factor) {
    uint lane = gl_SubgroupInvocationID, own = gl_SubgroupID * TILE * TILE, row = lane / LANES;
    subgroupBarrier();
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) factors[own + row * TILE + lane % LANES * ELEMENTS + i] = factor;
    subgroupBarrier();
    coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator> m;
    coopMatLoad(m, factors, own, TILE, gl_CooperativeMatrixLayoutRowMajor);
    return m;
}

void main() {
    if (!find_tile()) return;
    uint head = gl_WorkGroupID.x, g = head / (n_heads / n_kv_heads);
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID, lane = gl_SubgroupInvocationID;
    uint row0 = gl_SubgroupID * TILE, row = lane / LANES;
    uint position = step_position(step, first + min(row0 + row, count - 1));
    uint low = step_position(step, first), high = low + count;
    uint from = window == 0 || low + 1 < window ? 0 : low + 1 - window;

    // Queries pass through the room for scores, a piece of KEYS columns at a time.
    coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseA> query[DEPTH];
    uint own = gl_SubgroupID * TILE * KEYS;
    [[unroll]] for (uint d = 0; d < DEPTH; d++) {
        subgroupBarrier();
        [[unroll]] for (uint n = 0; n < ELEMENTS; n++) {
            uint e = n * SUBGROUP + lane, t = first + min(row0 + e / TILE, count - 1);
            shares[own + e] = float16_t(clamp(q.v[(t * n_heads + head) * HEAD + d * TILE + e % TILE], -65504.0, 65504.0));
        }
        subgroupBarrier();
        coopMatLoad(query[d], shares, own, TILE, gl_CooperativeMatrixLayoutRowMajor);
    }
    coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator> sums[DEPTH];
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        sums[d] = coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator>(0.0);
    float most = SINKS == 1 ? sinks.v[head] : -1e30, total = SINKS == 1 ? 1.0 : 0.0;

    for (uint k0 = from / KEYS * KEYS; k0 < high; k0 += KEYS) {
        barrier();
        for (uint i = thread; i < KEYS * HEAD / 8; i += WORKGROUP) {
            uint key = i / (HEAD / 8), c = i % (HEAD / 8), j = clamp(k0 + key, from, high - 1);
            uint place = step_page(step, seq, j / PAGE_TOKENS) * PAGE_TOKENS + j % PAGE_TOKENS;
            uint at = (place * n_kv_heads + g) * (HEAD / 8) + c, to = key * STRIDE + 2 * c;
            if (FORMAT == KV_Q8) {
                uint width = n_kv_heads * HEAD, row = place * q8_row_bytes(width), column = g * HEAD + 8 * c;
                uvec3 k = q8_load(cache_k, row, width, column), v = q8_load(cache_v, row, width, column);
                keys[to] = rounded(k.x, k.z);
                keys[to + 1] = rounded(k.y, k.z);
                values[to] = rounded(v.x, v.z);
                values[to + 1] = rounded(v.y, v.z);
                continue;
            }
            uvec4 k = UVec4s(cache_k).v[at], v = UVec4s(cache_v).v[at];
            keys[to] = f16vec4(unpackFloat2x16(k.x), unpackFloat2x16(k.y));
            keys[to + 1] = f16vec4(unpackFloat2x16(k.z), unpackFloat2x16(k.w));
            values[to] = f16vec4(unpackFloat2x16(v.x), unpackFloat2x16(v.y));
            values[to + 1] = f16vec4(unpackFloat2x16(v.z), unpackFloat2x16(v.w));
        }
        barrier();
        [[unroll]] for (uint n = 0; n < ACROSS; n++) {
            coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator> s =
                coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint d = 0; d < DEPTH; d++) {
                coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseB> k;
                coopMatLoad(k, keys, n * TILE * STRIDE + d * TILE / 4, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                s = coopMatMulAdd(query[d], k, s);
            }
            coopMatStore(s, scores, own + n * TILE, KEYS, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        float score[COLUMNS], highest = most;
        [[unroll]] for (uint i = 0; i < COLUMNS; i++) {
            uint c = i * LANES + lane % LANES, j = k0 + c;
            bool seen = j <= position && (window == 0 || j + window > position);
            float s = scale * scores[own + row * KEYS + c];
            if (softcap > 0) s = softcap * tanh_of(s / softcap);
            score[i] = seen ? s : -1e30;
            highest = max(highest, score[i]);
        }
        [[unroll]] for (uint m = 1; m < LANES; m *= 2) highest = max(highest, subgroupShuffleXor(highest, m));
        float less = exp(most - highest), sum = 0;
        [[unroll]] for (uint i = 0; i < COLUMNS; i++) {
            // A row may see nothing of these keys, and of those before.
            float p = score[i] > -1e29 ? exp(score[i] - highest) : 0.0;
            sum += p;
            shares[own + row * KEYS + i * LANES + lane % LANES] = float16_t(p);
        }
        [[unroll]] for (uint m = 1; m < LANES; m *= 2) sum += subgroupShuffleXor(sum, m);
        total = total * less + sum;
        // Mesa's CPU driver, the one with tiles of 8, takes a barrier of a subgroup for one of the workgroup.
        if (TILE == 8 || subgroupAny(highest > most)) {
            coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator> f = by_row(less);
            [[unroll]] for (uint d = 0; d < DEPTH; d++) sums[d] = sums[d] * f;
        }
        most = highest;
        subgroupBarrier();
        [[unroll]] for (uint n = 0; n < ACROSS; n++) {
            coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseA> p;
            coopMatLoad(p, shares, own + n * TILE, KEYS, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint d = 0; d < DEPTH; d++) {
                coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseB> v;
                coopMatLoad(v, values, n * TILE * STRIDE + d * TILE / 4, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                sums[d] = coopMatMulAdd(p, v, sums[d]);
            }
        }
    }
    coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator> f = by_row(1.0 / total);
    uint room = gl_SubgroupID * TILE * TILE;
    [[unroll]] for (uint d = 0; d < DEPTH; d++) {
        subgroupBarrier();
        sums[d] = sums[d] * f;
        coopMatStore(sums[d], factors, room, TILE, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        [[unroll]] for (uint n = 0; n < ELEMENTS; n++) {
            uint e = n * SUBGROUP + lane, t = row0 + e / TILE;
            if (t < count) put1(ROUNDED, y, ((first + t) * n_heads + head) * HEAD + d * TILE + e % TILE, factors[room + e]);
        }
    }
}
