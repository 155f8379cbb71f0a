// o[t][h] = sum_j p[j] V[j][g], p = softmax_j(cap(scale q[t][h] . K[j][g])), keys j <= pos, j > pos - window.
// Axes: t tokens, h query heads, g = h / (n_heads / n_kv_heads), j keys. Launch: (kv heads * blocks of GQ query heads, tokens,
// SPLITS); for few queries of a sequence.
//
// A workgroup takes GQ query heads that share a kv head and one part of the keys. LANES lanes have a key, eight columns a lane,
// and go on to the next without waiting for others: each keeps the largest score it met, the sum of its p and of p V
// (Milakov and Gimelshein 2018). AHEAD keys and their values are under way at a time. At the end the subgroups' sums are joined,
// and with more than one part the last of a token's workgroups to finish joins those: each leaves its maximum, sum and
// columns in `parts` and counts in `arrived`, which is 0 again at the end.
//
// ROTATES: q, k and v are those of the step as their products left them (a query head lies in HEAD_IN columns of q), and the
// cache has the keys before the step. Each workgroup norms and rotates its own query heads, and those keys of its part that
// belong to the step, a subgroup each, while the first keys of the cache are under way. A token's own key and value go into
// the cache from the first block of its kv head.
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
layout(constant_id = 13) const uint ABOVE = 0;    // tokens that see so many keys are left to another launch,
layout(constant_id = 14) const uint UP_TO = ~0u;  // and those that see more than so many
layout(constant_id = 15) const uint ROTATES = 0;  // pairs: 1 of halves, 2 adjacent
layout(constant_id = 16) const uint NORM = 0;     // whether each head is normed before that
layout(constant_id = 17) const uint N_ROT = 64;
layout(constant_id = 18) const uint HEAD_IN = 128;
layout(constant_id = 19) const float EPS = 0;

#include "common/params/attention.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Parts { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters { uint v[]; };

const uint PIECES = (HEAD / 8 + LANES - 1) / LANES; // pieces of eight columns that a lane has
const uint FOURS = PIECES * 2;
const uint AT_ONCE = WORKGROUP / LANES;             // keys
const uint NEW = ROTATES > 0 ? 4 : 0;               // keys of the step that are rotated at a time
const uint AHEAD = PIECES > 2 ? 1 : 4 / PIECES;
const uint SUBGROUPS = WORKGROUP / SUBGROUP;
const uint WORDS = FORMAT == KV_F32 ? 2 : 1;        // of 16 bytes, of a piece
const uint JOINED = SUBGROUPS > SPLITS ? SUBGROUPS : SPLITS;
const float NONE = -1e30;
// Of each subgroup, then of each part: maximum, sum and columns of a head.
shared float columns[SUBGROUPS * GQ * HEAD];
shared float most[JOINED * GQ], total[JOINED * GQ];
shared uint last;
// Bits of rotated queries, then of keys and values of the step: of the f16 that the cache has, if it does. A conversion there and
// back in one thread is none for some compilers.
shared uint heads[ROTATES > 0 ? (GQ + 2 * NEW) * HEAD : 1];

#include "common/rotate.glsl"

uint n_kv_heads = gl_NumWorkGroups.x / BLOCKS, n_heads = gl_NumWorkGroups.x * GQ;

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
vec4 query[GQ * FOURS], acc[GQ * FOURS];
float highest[GQ], sum[GQ];

// Keys under way, and their values.
uvec4 keys[AHEAD * PIECES][WORDS], values[AHEAD * PIECES][WORDS];

void load_keys(uint table, uint g, uint first, uint end, uint slot, uint lane) {
    uint places[AHEAD];
    [[unroll]] for (uint n = 0; n < AHEAD; n++) {
        uint j = min(first + n * AT_ONCE + slot, max(end, 1) - 1);
        uint token = step.v[table + j / PAGE_TOKENS] * PAGE_TOKENS + j % PAGE_TOKENS;
        places[n] = FORMAT == KV_Q8 ? token * q8_row_bytes(n_kv_heads * HEAD) : (token * n_kv_heads + g) * HEAD;
    }
    [[unroll]] for (uint i = 0; i < AHEAD * PIECES; i++)
        load_piece(cache_k, places[i / PIECES], g, min(8 * (i % PIECES * LANES + lane), HEAD - 8), keys[i]);
    [[unroll]] for (uint i = 0; i < AHEAD * PIECES; i++)
        load_piece(cache_v, places[i / PIECES], g, min(8 * (i % PIECES * LANES + lane), HEAD - 8), values[i]);
}

float score_of(vec4 dots) {
    float score = dots.x + dots.y + dots.z + dots.w;
    [[unroll]] for (uint m = 1; m < LANES; m *= 2) score += subgroupShuffleXor(score, m);
    return CAPPED == 1 ? softcap * tanh_of(score / softcap) : score;
}

void take_keys(uint first, uint end, uint slot) {
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        float scores[AHEAD], before = highest[h];
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            vec4 dots = vec4(0);
            [[unroll]] for (uint i = 0; i < FOURS; i++)
                dots += query[h * FOURS + i] * columns_of(keys[n * PIECES + i / 2], i % 2);
            float score = score_of(dots);
            scores[n] = first + n * AT_ONCE + slot < end ? score : NONE;
            highest[h] = max(highest[h], scores[n]);
        }
        float less = exp(before - highest[h]);
        sum[h] *= less;
        [[unroll]] for (uint i = 0; i < FOURS; i++) acc[h * FOURS + i] *= less;
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            float p = exp(scores[n] - highest[h]);
            sum[h] += p;
            [[unroll]] for (uint i = 0; i < FOURS; i++)
                acc[h * FOURS + i] += p * columns_of(values[n * PIECES + i / 2], i % 2);
        }
    }
}

// Columns of the lane in a head of shared memory.
uvec4 head_bits(uint head, uint i, uint lane) {
    uint c = 8 * (i / 2 * LANES + lane) + i % 2 * 4, at = head * HEAD + min(c, HEAD - 4);
    return c < HEAD ? uvec4(heads[at], heads[at + 1], heads[at + 2], heads[at + 3]) : uvec4(0);
}
vec4 query_columns(uint head, uint i, uint lane) { return uintBitsToFloat(head_bits(head, i, lane)); }
// Of a key of the step, or its values.
vec4 new_columns(uint head, uint i, uint lane) {
    uvec4 bits = head_bits(head, i, lane);
    if (FORMAT != KV_F16) return uintBitsToFloat(bits);
    vec4 x;
    [[unroll]] for (uint e = 0; e < 4; e++) x[e] = float(uint16BitsToFloat16(uint16_t(bits[e])));
    return x;
}

// One key of the step, and its value.
void take_new_key(uint n, uint lane) {
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        vec4 dots = vec4(0);
        [[unroll]] for (uint i = 0; i < FOURS; i++) dots += query[h * FOURS + i] * new_columns(GQ + n, i, lane);
        float score = score_of(dots), before = highest[h];
        highest[h] = max(before, score);
        float less = exp(before - highest[h]), p = exp(score - highest[h]);
        sum[h] = sum[h] * less + p;
        [[unroll]] for (uint i = 0; i < FOURS; i++)
            acc[h * FOURS + i] = acc[h * FOURS + i] * less + p * new_columns(GQ + NEW + n, i, lane);
    }
}

// What task i rotates: a query head of the workgroup, or the key of the token i - GQ + back before this one.
void load_turns_of(uint i, uint position, uint back) {
    load_turns(i < GQ ? q_norm : k_norm, i < GQ ? position : position - min(position, back + i - GQ));
}

// Two columns of a head of shared memory, and, if they are a token's own, of the cache.
void put_columns(uint head, U8s cache, uint place, uvec2 c, vec2 x, bool is_new, bool is_own) {
    uvec2 bits = floatBitsToUint(x);
    if (is_new && FORMAT == KV_F16) {
        f16vec2 y = f16vec2(x);
        if (is_own) F16s(cache).v[place + c.x] = y.x;
        if (is_own) F16s(cache).v[place + c.y] = y.y;
        bits = uvec2(float16BitsToUint16(y.x), float16BitsToUint16(y.y));
    } else if (is_own && FORMAT == KV_F32) {
        F32s(cache).v[place + c.x] = x.x;
        F32s(cache).v[place + c.y] = x.y;
    }
    heads[head * HEAD + c.x] = bits.x;
    heads[head * HEAD + c.y] = bits.y;
}

// That head, rotated, with the values of a key: heads GQ to GQ + NEW - 1 are keys. Bytes are made of them later.
void rotate_task(uint i, uint t, uint before, uint g, uint head0, uint own_slot, bool is_own) {
    uint place = (own_slot * n_kv_heads + g) * HEAD, at = ((t - min(t, before)) * n_kv_heads + g) * HEAD;
    vec2 of_v[PAIRS];
    if (i < GQ) load_turned(q, (t * n_heads + head0 + i) * HEAD_IN);
    else load_turned(k, at);
    [[unroll]] for (uint n = 0; n < PAIRS; n++) {
        uvec2 c = own_columns(n);
        of_v[n] = i < GQ ? vec2(0) : vec2(passed(v, at + c.x), passed(v, at + c.y));
    }
    [[unroll]] for (uint n = 0; n < PAIRS; n++) {
        if (n * SUBGROUP + gl_SubgroupInvocationID >= HEAD / 2) break;
        uvec2 c = own_columns(n);
        put_columns(i, cache_k, place, c, pairs[n].x, i >= GQ, is_own);
        if (i >= GQ) put_columns(i + NEW, cache_v, place, c, of_v[n], true, is_own);
    }
}

// Makes of a subgroup's head what a cache of bytes gives back of it, and puts it there if it is the token's own.
void round_head(uint head, U8s cache, uint g, uint own_slot, bool is_own) {
    uint width = n_kv_heads * HEAD, row = own_slot * q8_row_bytes(width);
    [[unroll]] for (uint c0 = 0; c0 < HEAD; c0 += 8 * SUBGROUP) {
        uint c = c0 + 8 * gl_SubgroupInvocationID, at = head * HEAD + c;
        if (c >= HEAD) break;
        vec4 x[2];
        [[unroll]] for (uint i = 0; i < 8; i++) x[i / 4][i % 4] = uintBitsToFloat(heads[at + i]);
        uvec3 bytes = q8_of(x[0], x[1]);
        x[0] = q8_columns(bytes.x, bytes.z);
        x[1] = q8_columns(bytes.y, bytes.z);
        [[unroll]] for (uint i = 0; i < 8; i++) heads[at + i] = floatBitsToUint(x[i / 4][i % 4]);
        if (is_own) q8_store(cache, row, width, g * HEAD + c, bytes);
    }
}

// Rotated queries, if `from` is 0, and the keys of the step that end `back` tokens before this one. The turns of a subgroup's first
// task are there.
void rotate_all(uint from, uint t, uint position, uint back, uint n_new, uint g, uint head0, uint own_slot, bool is_first_block) {
    for (uint i = from + gl_SubgroupID; i < GQ + n_new; i += SUBGROUPS) {
        if (i != gl_SubgroupID) load_turns_of(i, position, back);
        uint before = i < GQ ? 0 : back + i - GQ;
        rotate_task(i, t, before, g, head0, own_slot, i >= GQ && before == 0 && is_first_block);
    }
    barrier();
    if (FORMAT != KV_Q8) return;
    for (uint i = gl_SubgroupID; i < 2 * n_new; i += SUBGROUPS) {
        bool is_value = i >= n_new, is_own = back + i % n_new == 0 && is_first_block;
        round_head(GQ + (is_value ? NEW + i - n_new : i), is_value ? cache_v : cache_k, g, own_slot, is_own);
    }
    barrier();
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
        [[unroll]] for (uint i = 0; i < FOURS; i++) {
            vec4 v = acc[h * FOURS + i] * less;
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
    uint past = ROTATES > 0 ? step_past(step, seq) : position + 1, own_slot = ROTATES > 0 ? step_kv_slot(step, t) : 0;
    uint from = window == 0 || position + 1 < window ? 0 : position + 1 - window, length = position + 1 - from;
    uint n_parts = 1, per_part = length;
    if (length > KEYS_MIN) {
        n_parts = min((length + KEYS_MIN - 1) / KEYS_MIN, SPLITS);
        per_part = (length + n_parts - 1) / n_parts;
        n_parts = (length + per_part - 1) / per_part;
    }
    bool is_there = part < n_parts && t < n_tokens && length > ABOVE && length <= UP_TO;
    if ((waits() || ROTATES > 0) && !is_there) return; // Some workgroup of the phase is there, and waits.
    uint begin = from + part * per_part, end = min(begin + per_part, position + 1);
    // Those in the cache before the step, of those of the step the number, and the number of later ones.
    uint stored = min(end, past), n_new = end - min(max(begin, past), end), back = position + 1 - end;
    if (ROTATES > 0) {
        load_keys(table, g, begin, stored, slot, lane);
        load_turns_of(gl_SubgroupID, position, back);
    }
    wait(chain, step);
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        [[unroll]] for (uint i = 0; i < FOURS; i++) {
            uint c = 8 * (i / 2 * LANES + lane) + i % 2 * 4;
            if (ROTATES == 0) query[h * FOURS + i] = c < HEAD ? scale * passed4(q, ((t * n_heads + head0 + h) * HEAD + c) / 4) : vec4(0);
            acc[h * FOURS + i] = vec4(0);
        }
        highest[h] = NONE;
        sum[h] = 0;
    }
    if (!is_there) return;
    if (FEW > 0 && step_query_start(step, seq + 1) - step_query_start(step, seq) > FEW) return;
    bool is_first_block = gl_WorkGroupID.x % BLOCKS == 0;
    if (ROTATES > 0) {
        rotate_all(0, t, position, back, min(NEW, n_new), g, head0, own_slot, is_first_block);
        [[unroll]] for (uint i = 0; i < GQ * FOURS; i++) query[i] = scale * query_columns(i / FOURS, i % FOURS, lane);
    } else {
        load_keys(table, g, begin, stored, slot, lane);
    }
    for (uint first = begin; first < stored;) {
        take_keys(first, stored, slot);
        first += AHEAD * AT_ONCE;
        if (first < stored) load_keys(table, g, first, stored, slot, lane);
    }
    for (uint n0 = 0; n0 < n_new; n0 += NEW) {
        uint n_now = min(NEW, n_new - n0);
        if (n0 > 0) {
            barrier();
            rotate_all(GQ, t, position, back + n0, n_now, g, head0, own_slot, is_first_block);
        }
        for (uint n = slot; n < n_now; n += AT_ONCE) take_new_key(n, lane);
    }
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
