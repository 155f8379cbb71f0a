// y[t][i] = f(a[t][i], b): add 0 and glu 1 with b[t][i], softcap 2 to `limit`, scale 3 by `alpha` and, if there is a
// weight, b[0], gate_rows 4 with sigmoid(b[t]).
// CUT: the columns of a are `width` of every group of `width_in`.
// Axes: t rows, i columns. Launch: (columns / WORKGROUP, rows). Bytes: a, b and y once.
#version 460
#include "common/zinc.glsl"
#include "common/activation.glsl"
layout(constant_id = 2) const uint FUNCTION = 0;
layout(constant_id = 3) const uint ACTIVATION = 0;
layout(constant_id = 4) const uint WEIGHTED = 0;
layout(constant_id = 5) const uint ROUNDED = 0;
layout(constant_id = 6) const uint CUT = 0;

#include "common/params/elementwise.glsl"

void main() {
    uint t = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (t >= n_rows(step, rows) || i >= cols) return;
    uint at = t * cols + i;
    float x = a.v[CUT == 1 ? t * cols_in + i / width * width_in + i % width : at];
    switch (FUNCTION) {
        case 0: y.v[at] = x + b.v[at]; return;
        case 1: put1(ROUNDED, y, at, gated(ACTIVATION, x, b.v[at], alpha, limit)); return;
        case 2: y.v[at] = limit * tanh_of(x / limit); return;
        case 3: y.v[at] = x * (WEIGHTED == 1 ? alpha * b.v[0] : alpha); return;
        default: y.v[at] = x * sigmoid(b.v[t]); return;
    }
}
