// y[r][i] = x[output_rows[r]][i]
// Axes: r outputs, i columns. Launch: (columns / WORKGROUP, outputs). Bytes: the selected rows twice.
#version 460
#include "common/zinc.glsl"

#include "common/params/select_rows.glsl"

void main() {
    uint r = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    uint n_outputs = step.n_outputs, row = step_output_row(step, r); // asked for together
    if (r >= n_outputs || i >= cols) return;
    y.v[r * cols + i] = x.v[row * cols + i];
}
