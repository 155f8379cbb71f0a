// y[t][i] = sum_s weights[t][s] * x[t][s][i], plus ADDED more inputs
// Axes: t rows, s the chosen experts of a token, i columns. Launch: (columns / WORKGROUP, rows). Bytes: x once, and y.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint ADDED = 0;

#include "common/params/expert_sum.glsl"

void main() {
    uint t = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (i >= width) return;
    uint n_there = n_rows(step, rows); // asked for together with what is summed
    float sum = 0;
    for (uint s = 0; s < n_used; s++) sum = fma(weights.v[t * n_used + s], x.v[(t * n_used + s) * width + i], sum);
    if (ADDED > 0) sum += a.v[t * width + i];
    if (ADDED > 1) sum += b.v[t * width + i];
    if (t < n_there) y.v[t * width + i] = sum;
}
