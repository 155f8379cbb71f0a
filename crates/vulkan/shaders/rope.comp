// (x, y) -> m (x cos a - y sin a, x sin a + y cos a), a = pos * frequency[i], on n_rot columns of each head.
// Axes: t tokens, h heads, i pairs; other columns are copied. Launch: (columns / WORKGROUP, tokens).
// Bytes: x and y once.
#version 460
#include "common/zinc.glsl"
#include "common/trig.glsl"
layout(constant_id = 2) const uint ADJACENT = 0;

#include "common/params/rope.glsl"

void main() {
    uint t = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    if (t >= step.n_tokens || c >= cols) return;
    uint i = c % head_dim, at = t * cols + c - i;
    if (i >= n_rot) {
        y.v[at + i] = x.v[at + i];
        return;
    }
    uint pair = ADJACENT == 1 ? i / 2 : i % (n_rot / 2);
    if (ADJACENT == 1 ? (i & 1) == 1 : i >= n_rot / 2) return;
    uint p = ADJACENT == 1 ? 2 * pair : pair, q = ADJACENT == 1 ? p + 1 : pair + n_rot / 2;
    float sine, cosine;
    sin_cos(float(step_position(step, t)) * frequencies.v[pair], sine, cosine);
    sine *= magnitude;
    cosine *= magnitude;
    float vx = x.v[at + p], vy = x.v[at + q];
    y.v[at + p] = vx * cosine - vy * sine;
    y.v[at + q] = vx * sine + vy * cosine;
}
