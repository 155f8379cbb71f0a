// (x, y) -> m (x cos a - y sin a, x sin a + y cos a), a = pos * frequency[i], on n_rot columns of each head; the others are
// copied. NORM: each head is first divided by its root mean square and multiplied by the norm's weight. WRITE: the heads are
// keys and go into the cache at the token's slot, and the values of the same head with them. A head of x may lie in a wider group
// of columns, head_in of them.
// Axes: t tokens, h heads, i pairs. Launch: (heads, tokens), one workgroup a head. Bytes: x and y once (and v, if WRITE).
#version 460
#include "common/zinc.glsl"
#include "common/trig.glsl"
#include "common/kv.glsl"
layout(constant_id = 2) const uint ADJACENT = 0;
layout(constant_id = 3) const uint NORM = 0;
layout(constant_id = 4) const uint WRITE = 0;
layout(constant_id = 5) const uint FORMAT = KV_F16;

#include "common/params/rope.glsl"

const uint HEAD_MAX = 512;
shared float head[HEAD_MAX];

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
    if (c >= head_dim) return;
    vec4 k[2], v8[2];
    [[unroll]] for (uint i = 0; i < 8; i++) {
        k[i / 4][i % 4] = head[c + i];
        v8[i / 4][i % 4] = v.v[t * cols + first + c + i];
    }
    q8_store(cache_k, row, cols, first + c, k[0], k[1]);
    q8_store(cache_v, row, cols, first + c, v8[0], v8[1]);
}

void main() {
    uint t = gl_WorkGroupID.y, thread = gl_LocalInvocationID.x;
    if (t >= step.n_tokens) return;
    uint first = gl_WorkGroupID.x * head_dim, from = t * cols_in + gl_WorkGroupID.x * head_in, to = t * cols + first;
    if (WRITE == 1 && FORMAT != KV_Q8) {
        uint of_v = to;
        to = step_kv_slot(step, t) * cols + first;
        for (uint i = thread; i < head_dim; i += WORKGROUP) {
            if (FORMAT == KV_F16) F16s(cache_v).v[to + i] = float16_t(v.v[of_v + i]);
            else F32s(cache_v).v[to + i] = v.v[of_v + i];
        }
    }
    float squares = 0;
    for (uint i = thread; i < head_dim; i += WORKGROUP) {
        float value = x.v[from + i];
        squares += value * value;
        head[i] = NORM == 1 ? value * norm.v[i] : value;
    }
    float inverse = 1.0;
    if (NORM == 1) inverse = inversesqrt(workgroup_sum(squares) / float(head_dim) + eps);
    else barrier();
    float position = float(step_position(step, t));
    for (uint pair = thread; pair < n_rot / 2; pair += WORKGROUP) {
        uint p = ADJACENT == 1 ? 2 * pair : pair, q = ADJACENT == 1 ? p + 1 : pair + n_rot / 2;
        float sine, cosine;
        sin_cos(position * frequencies.v[pair], sine, cosine);
        float m = magnitude * inverse, vx = head[p] * m, vy = head[q] * m;
        put(to, p, vx * cosine - vy * sine);
        put(to, q, vx * sine + vy * cosine);
    }
    for (uint i = n_rot + thread; i < head_dim; i += WORKGROUP) put(to, i, head[i] * inverse);
    if (WRITE == 1 && FORMAT == KV_Q8) write_bytes(t, first);
}
