// y[t][g][i] = x[t][g][offset + i]
// Axes: t rows, g groups of `width_in` columns of which `width` are kept. Launch: (columns kept / WORKGROUP, rows).
// Bytes: the columns kept twice.
#version 460
#include "common/zinc.glsl"

#include "common/params/slice.glsl"

void main() {
    uint t = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    if (t >= n_rows(step, rows) || c >= cols) return;
    y.v[t * cols + c] = x.v[t * cols_in + c / width * width_in + offset + c % width];
}
