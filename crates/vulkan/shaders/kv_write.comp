// K[slot] = k[t], V[slot] = v[t], with slot from the step.
// Axes: t tokens, i all heads' columns. Launch: (width / WORKGROUP, tokens). Bytes: k and v read, K and V written.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint HALF = 1;

#include "common/params/kv_write.glsl"

void main() {
    uint t = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (t >= step.n_tokens || i >= width) return;
    uint to = step_kv_slot(step, t) * width + i;
    if (HALF == 1) {
        F16s(cache_k).v[to] = float16_t(k.v[t * width + i]);
        F16s(cache_v).v[to] = float16_t(v.v[t * width + i]);
    } else {
        F32s(cache_k).v[to] = k.v[t * width + i];
        F32s(cache_v).v[to] = v.v[t * width + i];
    }
}
