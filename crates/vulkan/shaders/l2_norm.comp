// y[t][h][i] = scale * x[t][h][i] / sqrt(sum_i(x^2) + eps)
// Axes: t rows, h groups of `width` columns. Launch: (groups, rows), one workgroup a group.
// Bytes: x twice (the second time from cache) and y.
#version 460
#include "common/zinc.glsl"

#include "common/params/l2_norm.glsl"

void main() {
    uint t = gl_WorkGroupID.y, at = t * cols + gl_WorkGroupID.x * width;
    if (t >= n_rows(step, rows)) return;
    float squares = 0;
    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) {
        float v = x.v[at + i];
        squares = fma(v, v, squares);
    }
    float factor = scale * inversesqrt(workgroup_sum(squares) + eps);
    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) y.v[at + i] = x.v[at + i] * factor;
}
