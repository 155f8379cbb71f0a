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
    uint n_tokens = step.n_tokens, id = step_id(step, t); // asked for together
    if (t >= n_tokens || u >= width / 32) return;
    uint row = id * row_bytes, to = t * (width / 4);
    if (is_float(DTYPE)) {
        [[unroll]] for (uint i = 0; i < 8; i++) Vec4s(y).v[to + 8 * u + i] = scale * load_floats(DTYPE, table, row, 32 * u + 4 * i);
        return;
    }
    // Differences of whole numbers are exact, and so is a weight without a minimum up to its last rounding.
    Unit w = make_bytes(DTYPE, table, row, u, load_raw(DTYPE, table, row, u));
    uvec2 at = 4 * halves(DTYPE, u);
    vec2 low = centre(DTYPE) > 0 ? vec2(0) : vec2(w.sa.y, w.sb.y);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        Vec4s(y).v[to + at.x + i] = scale * (w.sa.x * (raised(w.a[i]) - (1024.0 + centre(DTYPE))) + low.x);
        Vec4s(y).v[to + at.y + i] = scale * (w.sb.x * (raised(w.b[i]) - (1024.0 + centre(DTYPE))) + low.y);
    }
}
