// o[t][h] = sum_j p[j] V[j][g], p = softmax_j(cap(scale q[t][h] . K[j][g])), keys j <= pos, j > pos - window.
// Axes: t tokens, h query heads, g = h / (n_heads / n_kv_heads), j keys. Launch: (kv heads * blocks of GQ query heads, tokens,
// SPLITS); for few queries of a sequence.
//
// A workgroup takes GQ query heads that share a kv head and one part of the keys, CHUNK at a time: LANES lanes score a key,
// then sum its value, eight columns a lane. With more than one part, the last of a token's workgroups to finish joins them:
// each leaves its maximum, sum and columns in `parts` and counts in `arrived`, which is 0 again at the end.
// Bytes: K and V of the visible keys once per block of query heads.
#version 460
#include "common/zinc.glsl"
#include "common/activation.glsl"
layout(constant_id = 2) const uint HALF = 1;
layout(constant_id = 3) const uint SINKS = 0;
layout(constant_id = 4) const uint HEAD = 128;  // columns of a head, a multiple of 8
layout(constant_id = 5) const uint GQ = 1;
layout(constant_id = 6) const uint LANES = 8;   // a power of two, within a subgroup
layout(constant_id = 7) const uint SPLITS = 1;
layout(constant_id = 8) const uint KEYS_MIN = 64; // of a part
layout(constant_id = 9) const uint FEW = 0;       // 0, or tokens that a sequence may have in the step to be taken here

#include "common/params/attention.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Parts { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters { uint v[]; };

const uint CHUNK = 128;
const uint PIECES = (HEAD / 8 + LANES - 1) / LANES; // pieces of eight columns that a lane has
const uint AT_ONCE = WORKGROUP / LANES;             // keys
const uint SUBGROUPS = WORKGROUP / SUBGROUP;
shared float weights[GQ * CHUNK];
shared uint places[CHUNK];
shared float most[GQ], total[GQ], shrink[GQ];
shared float columns[SUBGROUPS * HEAD];
shared uint last;

void load_piece(U8s cache, uint at, out vec4 low, out vec4 high) {
    if (HALF == 1) {
        uvec4 bits = UVec4s(cache).v[at / 8];
        low = vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
        high = vec4(unpackHalf2x16(bits.z), unpackHalf2x16(bits.w));
    } else {
        low = Vec4s(cache).v[at / 4];
        high = Vec4s(cache).v[at / 4 + 1];
    }
}

void main() {
    uint t = gl_WorkGroupID.y, part = gl_WorkGroupID.z, thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    if (t >= step.n_tokens) return;
    uint per_kv = n_heads / n_kv_heads, blocks = per_kv / GQ, g = gl_WorkGroupID.x / blocks;
    uint head0 = g * per_kv + gl_WorkGroupID.x % blocks * GQ;
    uint seq = step_seq(step, t);
    if (FEW > 0 && step_query_start(step, seq + 1) - step_query_start(step, seq) > FEW) return;
    uint position = step_position(step, t);
    uint from = window == 0 || position + 1 < window ? 0 : position + 1 - window, length = position + 1 - from;
    uint n_parts = clamp((length + KEYS_MIN - 1) / KEYS_MIN, 1, SPLITS), per_part = (length + n_parts - 1) / n_parts;
    n_parts = (length + per_part - 1) / per_part;
    if (part >= n_parts) return;
    uint begin = from + part * per_part, end = min(begin + per_part, position + 1);

    uint lane = thread % LANES, slot = thread / LANES;
    vec4 query[GQ * PIECES * 2], acc[GQ * PIECES * 2];
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint c = 8 * (i * LANES + lane), at = ((t * n_heads + head0 + h) * HEAD + c) / 4;
            query[(h * PIECES + i) * 2] = c < HEAD ? scale * Vec4s(q).v[at] : vec4(0);
            query[(h * PIECES + i) * 2 + 1] = c < HEAD ? scale * Vec4s(q).v[at + 1] : vec4(0);
            acc[(h * PIECES + i) * 2] = acc[(h * PIECES + i) * 2 + 1] = vec4(0);
        }
    }
    if (thread < GQ) {
        bool sink = SINKS == 1 && part == 0;
        most[thread] = sink ? sinks.v[head0 + thread] : -1e30;
        total[thread] = sink ? 1.0 : 0.0;
    }
    for (uint first = begin; first < end; first += CHUNK) {
        uint count = min(CHUNK, end - first);
        barrier();
        for (uint i = thread; i < count; i += WORKGROUP) {
            uint j = first + i;
            places[i] = ((step_page(step, seq, j / PAGE_TOKENS) * PAGE_TOKENS + j % PAGE_TOKENS) * n_kv_heads + g) * HEAD;
        }
        barrier();
        for (uint i = slot; i < (count + AT_ONCE - 1) / AT_ONCE * AT_ONCE; i += AT_ONCE) {
            uint place = places[min(i, count - 1)];
            float dots[GQ];
            [[unroll]] for (uint h = 0; h < GQ; h++) dots[h] = 0;
            [[unroll]] for (uint p = 0; p < PIECES; p++) {
                uint c = 8 * (p * LANES + lane);
                vec4 low = vec4(0), high = vec4(0);
                if (c < HEAD) load_piece(cache_k, place + c, low, high);
                [[unroll]] for (uint h = 0; h < GQ; h++)
                    dots[h] += dot(query[(h * PIECES + p) * 2], low) + dot(query[(h * PIECES + p) * 2 + 1], high);
            }
            [[unroll]] for (uint h = 0; h < GQ; h++) {
                [[unroll]] for (uint m = 1; m < LANES; m *= 2) dots[h] += subgroupShuffleXor(dots[h], m);
                float score = softcap > 0 ? softcap * tanh_of(dots[h] / softcap) : dots[h];
                if (lane == h % LANES && i < count) weights[h * CHUNK + i] = score;
            }
        }
        barrier();
        for (uint h = gl_SubgroupID; h < GQ; h += SUBGROUPS) {
            float before = most[h], highest = before;
            for (uint i = gl_SubgroupInvocationID; i < count; i += SUBGROUP) highest = max(highest, weights[h * CHUNK + i]);
            highest = subgroupMax(highest);
            float sum = 0;
            for (uint i = gl_SubgroupInvocationID; i < count; i += SUBGROUP) {
                float p = exp(weights[h * CHUNK + i] - highest);
                weights[h * CHUNK + i] = p;
                sum += p;
            }
            sum = subgroupAdd(sum);
            float less = exp(before - highest);
            if (subgroupElect()) {
                shrink[h] = less;
                total[h] = total[h] * less + sum;
                most[h] = highest;
            }
        }
        barrier();
        [[unroll]] for (uint h = 0; h < GQ; h++) {
            [[unroll]] for (uint p = 0; p < PIECES * 2; p++) acc[h * PIECES * 2 + p] *= shrink[h];
        }
        for (uint i = slot; i < count; i += AT_ONCE) {
            uint place = places[i];
            [[unroll]] for (uint p = 0; p < PIECES; p++) {
                uint c = 8 * (p * LANES + lane);
                vec4 low = vec4(0), high = vec4(0);
                if (c < HEAD) load_piece(cache_v, place + c, low, high);
                [[unroll]] for (uint h = 0; h < GQ; h++) {
                    acc[(h * PIECES + p) * 2] += weights[h * CHUNK + i] * low;
                    acc[(h * PIECES + p) * 2 + 1] += weights[h * CHUNK + i] * high;
                }
            }
        }
    }
    barrier();
    // Columns of all keys of the part, head by head.
    uint own = ((t * n_heads + head0) * SPLITS + part) * (HEAD + 2);
    [[unroll]] for (uint h = 0; h < GQ; h++) {
        [[unroll]] for (uint p = 0; p < PIECES * 2; p++) {
            vec4 v = acc[h * PIECES * 2 + p];
            [[unroll]] for (uint m = LANES; m < SUBGROUP; m *= 2) v += subgroupShuffleXor(v, m);
            uint c = 8 * (p / 2 * LANES + lane) + p % 2 * 4;
            if (gl_SubgroupInvocationID < LANES && c < HEAD) {
                [[unroll]] for (uint e = 0; e < 4; e++) columns[gl_SubgroupID * HEAD + c + e] = v[e];
            }
        }
        barrier();
        for (uint c = thread; c < HEAD; c += WORKGROUP) {
            float sum = 0;
            [[unroll]] for (uint s = 0; s < SUBGROUPS; s++) sum += columns[s * HEAD + c];
            if (n_parts == 1) y.v[(t * n_heads + head0 + h) * HEAD + c] = sum / total[h];
            else Parts(parts).v[own + h * SPLITS * (HEAD + 2) + c] = sum;
        }
        if (n_parts > 1 && thread < 2) Parts(parts).v[own + h * SPLITS * (HEAD + 2) + HEAD + thread] = thread == 0 ? most[h] : total[h];
        barrier();
    }
    if (n_parts == 1) return;
    memoryBarrierBuffer();
    barrier();
    uint counter = t * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (thread == 0) last = atomicAdd(Counters(arrived).v[counter], 1);
    barrier();
    if (last != n_parts - 1) return;
    memoryBarrierBuffer();
    for (uint i = thread; i < GQ * HEAD; i += WORKGROUP) {
        uint h = i / HEAD, c = i % HEAD, at = ((t * n_heads + head0 + h) * SPLITS) * (HEAD + 2);
        float highest = -1e30, sum = 0, value = 0;
        for (uint s = 0; s < n_parts; s++) highest = max(highest, Parts(parts).v[at + s * (HEAD + 2) + HEAD]);
        for (uint s = 0; s < n_parts; s++) {
            float less = exp(Parts(parts).v[at + s * (HEAD + 2) + HEAD] - highest);
            sum += less * Parts(parts).v[at + s * (HEAD + 2) + HEAD + 1];
            value += less * Parts(parts).v[at + s * (HEAD + 2) + c];
        }
        y.v[(t * n_heads + head0 + h) * HEAD + c] = value / sum;
    }
    if (thread == 0) Counters(arrived).v[counter] = 0;
}
