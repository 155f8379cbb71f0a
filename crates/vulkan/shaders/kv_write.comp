// K[slot] = k[t], V[slot] = v[t], with slot from the step.
// Axes: t tokens, i all heads' columns. Launch: (width / WORKGROUP, tokens), or for bytes eight columns a lane. Bytes: k and v read,
// K and V written.
#version 460
#include "common/zinc.glsl"
#include "common/kv.glsl"
layout(constant_id = 2) const uint FORMAT = KV_F16;

#include "common/params/kv_write.glsl"

void main() {
    uint t = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (FORMAT == KV_Q8) {
        uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID, c = 8 * (gl_WorkGroupID.x * WORKGROUP + thread);
        if (t >= step.n_tokens || c >= width) return;
        uint row = step_kv_slot(step, t) * q8_row_bytes(width), from = (t * width + c) / 4;
        q8_store(cache_k, row, width, c, q8_of(Vec4s(k).v[from], Vec4s(k).v[from + 1]));
        q8_store(cache_v, row, width, c, q8_of(Vec4s(v).v[from], Vec4s(v).v[from + 1]));
        return;
    }
    if (t >= step.n_tokens || i >= width) return;
    uint to = step_kv_slot(step, t) * width + i;
    if (FORMAT == KV_F16) {
        F16s(cache_k).v[to] = float16_t(k.v[t * width + i]);
        F16s(cache_v).v[to] = float16_t(v.v[t * width + i]);
    } else {
        F32s(cache_k).v[to] = k.v[t * width + i];
        F32s(cache_v).v[to] = v.v[t * width + i];
    }
}
