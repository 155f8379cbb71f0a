// y[t][h][i] = x[t][h][i] / sqrt(mean_i(x^2) + eps) * w[i]; ADD: x = a + b first, and x is kept.
// Axes: t rows, h groups of `width` columns. Launch: (groups, rows), one workgroup a group.
// Bytes: x twice (the second time from cache), w, y.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint ADD = 0;
layout(constant_id = 3) const uint WEIGHTED = 1;

#include "common/params/rms_norm.glsl"

void main() {
    uint t = gl_WorkGroupID.y, at = t * cols + gl_WorkGroupID.x * width;
    if (t >= n_rows(step, rows)) return;
    float squares = 0;
    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) {
        float v = x.v[at + i];
        if (ADD == 1) {
            v += other.v[at + i];
            sum.v[at + i] = v;
        }
        squares += v * v;
    }
    float inverse = inversesqrt(workgroup_sum(squares) / float(width) + eps);
    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) {
        float v = ADD == 1 ? sum.v[at + i] : x.v[at + i];
        y.v[at + i] = v * inverse * (WEIGHTED == 1 ? w.v[i] : 1.0);
    }
}
