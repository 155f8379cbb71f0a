// (x, y) -> m (x cos a - y sin a, x sin a + y cos a), a = pos * frequency[i], on n_rot columns of each head; the others are
// copied. NORM: each head is first divided by its root mean square and multiplied by the norm's weight. WRITE: the heads are
// keys and go into the cache at the token's slot, and the values of the same head with them. A head of x may lie in a wider group
// of columns, head_in of them.
// Axes: t tokens, h heads, i pairs. Launch: (heads, tokens), one workgroup a head. Bytes: x and y once (and v, if WRITE).
#version 460
#include "common/zinc.glsl"
#include "common/trig.glsl"
layout(constant_id = 2) const uint ADJACENT = 0;
layout(constant_id = 3) const uint NORM = 0;
layout(constant_id = 4) const uint WRITE = 0;
layout(constant_id = 5) const uint HALF = 1;

#include "common/params/rope.glsl"

const uint HEAD_MAX = 512;
shared float head[HEAD_MAX];

void put(uint at, float value) {
    if (WRITE == 0) y.v[at] = value;
    else if (HALF == 1) F16s(cache_k).v[at] = float16_t(value);
    else F32s(cache_k).v[at] = value;
}

void main() {
    uint t = gl_WorkGroupID.y, thread = gl_LocalInvocationID.x;
    if (t >= step.n_tokens) return;
    uint first = gl_WorkGroupID.x * head_dim, from = t * cols_in + gl_WorkGroupID.x * head_in, to = t * cols + first;
    if (WRITE == 1) {
        uint of_v = to;
        to = step_kv_slot(step, t) * cols + first;
        for (uint i = thread; i < head_dim; i += WORKGROUP) {
            if (HALF == 1) F16s(cache_v).v[to + i] = float16_t(v.v[of_v + i]);
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
        put(to + p, vx * cosine - vy * sine);
        put(to + q, vx * sine + vy * cosine);
    }
    for (uint i = n_rot + thread; i < head_dim; i += WORKGROUP) put(to + i, head[i] * inverse);
}
