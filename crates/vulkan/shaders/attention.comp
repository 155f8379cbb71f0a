// o[t][h] = sum_j p[j] V[j][g], p = softmax_j(cap(scale q[t][h] . K[j][g])), keys j <= pos, j > pos - window.
// Axes: t tokens, h query heads, g = h / (n_heads / n_kv_heads), j keys. Launch: (kv heads * blocks of GQ query heads, tokens,
// SPLITS); for few queries of a sequence.
//
// A workgroup takes GQ query heads that share a kv head and one part of the keys. LANES lanes have a key, eight columns a lane,
// and go on to the next without waiting for others: each keeps the largest score it met, the sum of its p and of p V
// (Milakov and Gimelshein 2018). AHEAD keys and their values are under way at a time. At the end the subgroups' sums are joined,
// and with more than one part the last of a token's workgroups to finish joins those: each leaves its maximum, sum and
// columns in `parts` and counts in `arrived`, which is 0 again at the end.
// Bytes: K and V of the visible keys once per block of query heads.
#version 460
#include "common/zinc.glsl"
#include "common/chain.glsl"
#include "common/activation.glsl"
#include "common/kv.glsl"
layout(constant_id = 2) const uint FORMAT = KV_F16;
layout(constant_id = 3) const uint SINKS = 0;
layout(constant_id = 4) const uint HEAD = 128;  // columns of a head, a multiple of 8
layout(constant_id = 5) const uint GQ = 1;
layout(constant_id = 6) const uint LANES = 8;   // a power of two, within a subgroup
layout(constant_id = 7) const uint SPLITS = 1;
layout(constant_id = 8) const uint KEYS_MIN = 64; // of a part
layout(constant_id = 9) const uint FEW = 0;       // 0, or tokens that a sequence may have in the step to be taken here
layout(constant_id = 10) const uint ROUNDED = 0;
layout(constant_id = 11) const uint BLOCKS = 1;   // of query heads, of a kv head
layout(constant_id = 12) const uint CAPPED = 0;   // whether there is a cap: a branch for each score would part their sums

#include "common/params/attention.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Parts { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters { uint v[]; };

const uint PIECES = (HEAD / 8 + LANES - 1) / LANES; // pieces of eight columns that a lane has
const uint AT_ONCE = WORKGROUP / LANES;             // keys
const uint AHEAD = PIECES > 2 ? 1 : 4 / PIECES;
const uint SUBGROUPS = WORKGROUP / SUBGROUP;
const uint WORDS = FORMAT == KV_F32 ? 2 : 1;        // of 16 bytes, of a piece
const uint JOINED = SUBGROUPS > SPLITS ? SUBGROUPS : SPLITS;
const float NONE = -1e30;
// Of each subgroup, then of each part: maximum, sum and columns of a head.
shared float columns[SUBGROUPS * GQ * HEAD];
shared float most[JOINED * GQ], total[JOINED * GQ];
shared uint last;

// A place is that of the head's first column, or of bytes the row's. Of those the scale is the third word.
void load_piece(U8s cache, uint place, uint g, uint c, out uvec4 words[WORDS]) {
    if (FORMAT == KV_Q8) {
        words[0] = uvec4(q8_load(cache, place, n_kv_heads * HEAD, g * HEAD + c), 0);
    } else if (FORMAT == KV_F16) {
        words[0] = UVec4s(cache).v[(place + c) / 8];
    } else {
        [[unroll]] for (uint i = 0; i < WORDS; i++) words[i] = UVec4s(cache).v[(place + c) / 4 + i];
    }
}
// Four of the eight columns.
vec4 columns_of(uvec4 words[WORDS], uint half_of_it) {
    if (FORMAT == KV_F32) return uintBitsToFloat(words[half_of_it % WORDS]);
    if (FORMAT == KV_Q8) return q8_columns(half_of_it == 0 ? words[0].x : words[0].y, words[0].z);
    uvec2 bits = half_of_it == 0 ? words[0].xy : words[0].zw;
    return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
}

// Scores of the keys from `first` on are added to these.
vec4 query[GQ * PIECES * 2], acc[GQ * PIECES * 2];
float highest[GQ], sum[GQ];

void take_keys(uint table, uint g, uint first, uint end, uint slot, uint lane) {
    uvec4 k[AHEAD * PIECES][WORDS], v[AHEAD * PIECES][WORDS];
    uint places[AHEAD];
    [[unroll]] for (uint n = 0; n < AHEAD; n++) {
        uint j = min(first + n * AT_ONCE + slot, end - 1);
        uint token = step.v[table + j / PAGE_TOKENS] * PAGE_TOKENS + j % PAGE_TOKENS;
        places[n] = FORMAT == KV_Q8 ? token * q8_row_bytes(n_kv_heads * HEAD) : (token * n_kv_heads + g) * HEAD;
    }
    [[unroll]] for (uint i = 0; i < AHEAD * PIECES; i++)
        load_piece(cache_k, places[i / PIECES], g, min(8 * (i % PIECES * LANES + lane), HEAD - 8), k[i]);
    [[unroll]] for (uint i = 0; i < AHEAD * PIECES; i++)
        load_piece(cache_v, places[i / PIECES], g, min(8 * (i % PIECES * LANES + lane), HEAD - 8), v[i]);
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        float scores[AHEAD], before = highest[h];
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            vec4 dots = vec4(0);
            [[unroll]] for (uint i = 0; i < PIECES * 2; i++)
                dots += query[h * PIECES * 2 + i] * columns_of(k[n * PIECES + i / 2], i % 2);
            float score = dots.x + dots.y + dots.z + dots.w;
            [[unroll]] for (uint m = 1; m < LANES; m *= 2) score += subgroupShuffleXor(score, m);
            if (CAPPED == 1) score = softcap * tanh_of(score / softcap);
            scores[n] = first + n * AT_ONCE + slot < end ? score : NONE;
            highest[h] = max(highest[h], scores[n]);
        }
        float less = exp(before - highest[h]);
        sum[h] *= less;
        [[unroll]] for (uint i = 0; i < PIECES * 2; i++) acc[h * PIECES * 2 + i] *= less;
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            float p = exp(scores[n] - highest[h]);
            sum[h] += p;
            [[unroll]] for (uint i = 0; i < PIECES * 2; i++)
                acc[h * PIECES * 2 + i] += p * columns_of(v[n * PIECES + i / 2], i % 2);
        }
    }
}

// Sums of the subgroup's slots, into shared memory.
void join_slots(uint lane) {
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        float own = highest[h];
        [[unroll]] for (uint m = LANES; m < SUBGROUP; m *= 2) highest[h] = max(highest[h], subgroupShuffleXor(highest[h], m));
        float less = exp(own - highest[h]);
        sum[h] *= less;
        [[unroll]] for (uint m = LANES; m < SUBGROUP; m *= 2) sum[h] += subgroupShuffleXor(sum[h], m);
        uint at = gl_SubgroupID * GQ + h;
        [[unroll]] for (uint i = 0; i < PIECES * 2; i++) {
            vec4 v = acc[h * PIECES * 2 + i] * less;
            [[unroll]] for (uint m = LANES; m < SUBGROUP; m *= 2) v += subgroupShuffleXor(v, m);
            uint c = 8 * (i / 2 * LANES + lane) + i % 2 * 4;
            if (gl_SubgroupInvocationID < LANES && c < HEAD) {
                [[unroll]] for (uint e = 0; e < 4; e++) columns[at * HEAD + c + e] = v[e];
            }
        }
        if (subgroupElect()) {
            most[at] = highest[h];
            total[at] = sum[h];
        }
    }
}

void work() {
    uint t = gl_WorkGroupID.y, part = gl_WorkGroupID.z, thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uint g = gl_WorkGroupID.x / BLOCKS, head0 = gl_WorkGroupID.x * GQ, lane = thread % LANES, slot = thread / LANES;
    // What is read here is asked for all at once, before anything is decided.
    uint seq = step_seq(step, t), table = step_table(step, seq), n_tokens = step.n_tokens;
    // Of a token that is not there it may be anything, with which nothing below may overflow.
    uint position = min(step_position(step, t), 0x3fffffffu);
    uint from = window == 0 || position + 1 < window ? 0 : position + 1 - window, length = position + 1 - from;
    uint n_parts = 1, per_part = length;
    if (length > KEYS_MIN) {
        n_parts = min((length + KEYS_MIN - 1) / KEYS_MIN, SPLITS);
        per_part = (length + n_parts - 1) / n_parts;
        n_parts = (length + per_part - 1) / per_part;
    }
    bool is_there = part < n_parts && t < n_tokens;
    if (waits() && !is_there) return; // Those of the first part wait.
    wait(chain, step);
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        [[unroll]] for (uint i = 0; i < PIECES * 2; i++) {
            uint c = 8 * (i / 2 * LANES + lane) + i % 2 * 4;
            query[h * PIECES * 2 + i] = c < HEAD ? scale * passed4(q, ((t * n_heads + head0 + h) * HEAD + c) / 4) : vec4(0);
            acc[h * PIECES * 2 + i] = vec4(0);
        }
        highest[h] = NONE;
        sum[h] = 0;
    }
    if (!is_there) return;
    if (FEW > 0 && step_query_start(step, seq + 1) - step_query_start(step, seq) > FEW) return;
    uint begin = from + part * per_part, end = min(begin + per_part, position + 1);

    for (uint first = begin; first < end; first += AHEAD * AT_ONCE) take_keys(table, g, first, end, slot, lane);
    join_slots(lane);
    barrier();
    uint own = ((t * n_heads + head0) * SPLITS + part) * (HEAD + 2);
    for (uint i = thread; i < GQ * HEAD; i += WORKGROUP) {
        uint h = i / HEAD, c = i % HEAD;
        bool sink = SINKS == 1 && part == 0;
        float top = sink ? sinks.v[head0 + h] : NONE;
        for (uint s = 0; s < SUBGROUPS; s++) top = max(top, most[s * GQ + h]);
        float all = sink ? exp(sinks.v[head0 + h] - top) : 0.0, value = 0;
        for (uint s = 0; s < SUBGROUPS; s++) {
            float less = exp(most[s * GQ + h] - top);
            all += less * total[s * GQ + h];
            value += less * columns[s * GQ * HEAD + i];
        }
        if (n_parts == 1) {
            put1(ROUNDED, y, (t * n_heads + head0) * HEAD + i, value / all);
            continue;
        }
        uint at = own + h * SPLITS * (HEAD + 2);
        Parts(parts).v[at + c] = value;
        if (c == 0) {
            Parts(parts).v[at + HEAD] = top;
            Parts(parts).v[at + HEAD + 1] = all;
        }
    }
    if (n_parts == 1) return;
    memoryBarrierBuffer();
    barrier();
    uint counter = t * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (thread == 0) last = atomicAdd(Counters(arrived).v[counter], 1);
    barrier();
    if (last != n_parts - 1) return;
    memoryBarrierBuffer();
    own -= part * (HEAD + 2);
    for (uint i = thread; i < GQ * n_parts; i += WORKGROUP) {
        uint at = own + (i % GQ * SPLITS + i / GQ) * (HEAD + 2) + HEAD;
        most[i] = Parts(parts).v[at];
        total[i] = Parts(parts).v[at + 1];
    }
    barrier();
    for (uint i = thread; i < GQ * HEAD; i += WORKGROUP) {
        uint h = i / HEAD, at = own + h * SPLITS * (HEAD + 2) + i % HEAD;
        float top = NONE, all = 0, value = 0;
        for (uint s = 0; s < n_parts; s++) top = max(top, most[s * GQ + h]);
        for (uint s0 = 0; s0 < n_parts; s0 += 4) {
            float values[4];
            [[unroll]] for (uint e = 0; e < 4; e++) values[e] = Parts(parts).v[at + min(s0 + e, n_parts - 1) * (HEAD + 2)];
            [[unroll]] for (uint e = 0; e < 4; e++) {
                if (s0 + e >= n_parts) break;
                float less = exp(most[(s0 + e) * GQ + h] - top);
                all += less * total[(s0 + e) * GQ + h];
                value += less * values[e];
            }
        }
        put1(ROUNDED, y, (t * n_heads + head0) * HEAD + i, value / all);
    }
    if (thread == 0) Counters(arrived).v[counter] = 0;
}

void main() {
    work();
    arrive(chain);
}
