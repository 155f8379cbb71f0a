// y[t][h][i] = x[t][h][i] / sqrt(mean_i(x^2) + eps) * w[i]; ADD: x = a + b first, and x is kept. GLU: times
// act(other[t][h][i]).
// Axes: t rows, h groups of `width` columns, a multiple of four. Launch: (groups, rows), one workgroup a group.
// Bytes: x twice (the second time from cache), w, y.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint ADD = 0;
layout(constant_id = 3) const uint WEIGHTED = 1;
layout(constant_id = 4) const uint GLU = 0;
layout(constant_id = 5) const uint ACTIVATION = 0;
layout(constant_id = 6) const uint ROUNDED = 0;
#include "common/activation.glsl"

#include "common/params/rms_norm.glsl"

void main() {
    uint t = gl_WorkGroupID.y, at = (t * cols + gl_WorkGroupID.x * width) / 4;
    if (t >= n_rows(step, rows)) return;
    float squares = 0;
    for (uint i = gl_LocalInvocationID.x; i < width / 4; i += WORKGROUP) {
        vec4 v = Vec4s(x).v[at + i];
        if (ADD == 1) {
            v += Vec4s(other).v[at + i];
            Vec4s(sum).v[at + i] = v;
        }
        squares += dot(v, v);
    }
    float inverse = inversesqrt(workgroup_sum(squares) / float(width) + eps);
    for (uint i = gl_LocalInvocationID.x; i < width / 4; i += WORKGROUP) {
        vec4 v = ADD == 1 ? Vec4s(sum).v[at + i] : Vec4s(x).v[at + i];
        v *= inverse * (WEIGHTED == 1 ? Vec4s(w).v[i] : vec4(1));
        if (GLU == 1) {
            vec4 gate = Vec4s(other).v[at + i];
            [[unroll]] for (uint e = 0; e < 4; e++) v[e] = gated(ACTIVATION, gate[e], v[e], alpha, limit);
        }
        put4(ROUNDED, y, at + i, v);
    }
}
