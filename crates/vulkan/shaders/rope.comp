// (x, y) -> m (x cos a - y sin a, x sin a + y cos a), a = pos * frequency[i], on n_rot columns of each head; the others are
// copied. NORM: each head is first divided by its root mean square and multiplied by the norm's weight. WRITE: the heads are
// keys and go into the cache at the token's slot, and the values of the same head with them. A head of x may lie in a wider group
// of columns, head_in of them.
// Axes: t tokens, h heads, i pairs. Launch: (heads, tokens), one workgroup a head. Bytes: x and y once (and v, if WRITE).
#version 460
#include "common/zinc.glsl"
#include "common/chain.glsl"
#include "common/trig.glsl"
#include "common/kv.glsl"
layout(constant_id = 2) const uint ADJACENT = 0;
layout(constant_id = 3) const uint NORM = 0;
layout(constant_id = 4) const uint WRITE = 0;
layout(constant_id = 5) const uint FORMAT = KV_F16;
layout(constant_id = 6) const uint HEAD = 64; // columns of a head

#include "common/params/rope.glsl"

const uint EACH = (HEAD + WORKGROUP - 1) / WORKGROUP, PAIRS = (HEAD / 2 + WORKGROUP - 1) / WORKGROUP; // of a thread, at most
shared float head[HEAD];

// Column i of the head, which begins at `to`. Bytes wait until their whole group is there.
void put(uint to, uint i, float value) {
    if (WRITE == 0) y.v[to + i] = value;
    else if (FORMAT == KV_Q8) head[i] = value;
    else if (FORMAT == KV_F16) F16s(cache_k).v[to + i] = float16_t(value);
    else F32s(cache_k).v[to + i] = value;
}

void write_bytes(uint t, uint first) {
    barrier();
    uint row = step_kv_slot(step, t) * q8_row_bytes(cols), c = 8 * (gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID);
    if (c >= HEAD) return;
    vec4 k[2], v8[2];
    [[unroll]] for (uint i = 0; i < 8; i++) {
        k[i / 4][i % 4] = head[c + i];
        v8[i / 4][i % 4] = v.v[t * cols + first + c + i];
    }
    q8_store(cache_k, row, cols, first + c, q8_of(k[0], k[1]));
    q8_store(cache_v, row, cols, first + c, q8_of(v8[0], v8[1]));
}

void work() {
    uint t = gl_WorkGroupID.y, thread = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * HEAD;
    uint from = t * cols_in + gl_WorkGroupID.x * head_in, to = t * cols + first;
    const bool with_v = WRITE == 1 && FORMAT != KV_Q8;
    // What is read here is asked for all at once, before anything is decided.
    uint n_tokens = step.n_tokens, slot = step_kv_slot(step, t), position = step_position(step, t);
    float of_x[EACH], weights[EACH], of_v[EACH], frequency[PAIRS];
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = min(thread + n * WORKGROUP, HEAD - 1);
        weights[n] = NORM == 1 ? norm.v[i] : 1.0;
    }
    [[unroll]] for (uint n = 0; n < PAIRS; n++)
        frequency[n] = n_rot > 0 ? frequencies.v[min(thread + n * WORKGROUP, n_rot / 2 - 1)] : 0.0;
    wait(chain, step);
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = min(thread + n * WORKGROUP, HEAD - 1);
        of_x[n] = passed(x, from + i);
        of_v[n] = with_v ? passed(v, to + i) : 0.0;
    }
    if (t >= n_tokens) return;
    if (with_v) to = slot * cols + first;
    float squares = 0;
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = thread + n * WORKGROUP;
        if (i >= HEAD) break;
        squares += of_x[n] * of_x[n];
        head[i] = of_x[n] * weights[n];
        if (with_v && FORMAT == KV_F16) F16s(cache_v).v[to + i] = float16_t(of_v[n]);
        else if (with_v) F32s(cache_v).v[to + i] = of_v[n];
    }
    float inverse = 1.0;
    if (NORM == 1) inverse = inversesqrt(workgroup_sum(squares) / float(HEAD) + eps);
    else barrier();
    [[unroll]] for (uint n = 0; n < PAIRS; n++) {
        uint pair = thread + n * WORKGROUP;
        if (pair >= n_rot / 2) break;
        uint p = ADJACENT == 1 ? 2 * pair : pair, q = ADJACENT == 1 ? p + 1 : pair + n_rot / 2;
        float sine, cosine;
        sin_cos(float(position) * frequency[n], sine, cosine);
        float m = magnitude * inverse, vx = head[p] * m, vy = head[q] * m;
        put(to, p, vx * cosine - vy * sine);
        put(to, q, vx * sine + vy * cosine);
    }
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = n_rot + thread + n * WORKGROUP;
        if (i >= HEAD) break;
        put(to, i, head[i] * inverse);
    }
    if (WRITE == 1 && FORMAT == KV_Q8) write_bytes(t, first);
}

void main() {
    work();
    arrive(chain);
}
