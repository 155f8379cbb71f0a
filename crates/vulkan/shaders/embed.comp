// y[t][i] = scale * W[ids[t]][i]
// Axes: t tokens, i the model width. Launch: (units / WORKGROUP, tokens); a thread takes a unit of 32.
// Bytes: one row of the table per token, and y.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint DTYPE = 0;
#include "common/dequant.glsl"

#include "common/params/embed.glsl"

void main() {
    uint t = gl_WorkGroupID.y, u = gl_GlobalInvocationID.x;
    if (t >= step.n_tokens || u >= width / 32) return;
    float w[32];
    uint a, b;
    load_unit(DTYPE, table, step_id(step, t) * row_bytes, u, w, a, b);
    for (uint i = 0; i < 16; i++) {
        y.v[t * width + a + i] = scale * w[i];
        y.v[t * width + b + i] = scale * w[16 + i];
    }
}
