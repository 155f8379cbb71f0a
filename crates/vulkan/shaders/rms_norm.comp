// y[t][h][i] = x[t][h][i] / sqrt(mean_i(x^2) + eps) * w[i]; ADD: x = a + b first, and x is kept. GLU: times
// act(other[t][h][i]).
// Axes: t rows, h groups of WIDTH columns, a multiple of four. Launch: (groups, rows), one workgroup a group.
// A thread holds its columns from one pass to the next. Bytes: x, w, y.
#version 460
#include "common/zinc.glsl"
#include "common/chain.glsl"
layout(constant_id = 2) const uint ADD = 0;
layout(constant_id = 3) const uint WEIGHTED = 1;
layout(constant_id = 4) const uint GLU = 0;
layout(constant_id = 5) const uint ACTIVATION = 0;
layout(constant_id = 6) const uint ROUNDED = 0;
layout(constant_id = 7) const uint WIDTH = 128;
#include "common/activation.glsl"

#include "common/params/rms_norm.glsl"

const uint FOURS = WIDTH / 4, EACH = (FOURS + WORKGROUP - 1) / WORKGROUP; // fours of columns, and those of a thread

void work() {
    uint t = gl_WorkGroupID.y, at = t * (cols / 4) + gl_WorkGroupID.x * FOURS;
    // What is read here is asked for all at once, before anything is decided.
    uint n_there = n_rows(step, rows);
    vec4 held[EACH], factors[EACH];
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = min(gl_LocalInvocationID.x + n * WORKGROUP, FOURS - 1);
        factors[n] = WEIGHTED == 1 ? Vec4s(w).v[i] : vec4(1);
    }
    wait(chain, step);
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = min(gl_LocalInvocationID.x + n * WORKGROUP, FOURS - 1);
        held[n] = passed4(x, at + i);
        if (ADD == 1) held[n] += passed4(other, at + i);
    }
    if (t >= n_there) return;
    float squares = 0;
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = gl_LocalInvocationID.x + n * WORKGROUP;
        if (i >= FOURS) break;
        if (ADD == 1) Vec4s(sum).v[at + i] = held[n];
        squares += dot(held[n], held[n]);
    }
    float inverse = inversesqrt(workgroup_sum(squares) / float(WIDTH) + eps);
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint i = gl_LocalInvocationID.x + n * WORKGROUP;
        if (i >= FOURS) break;
        vec4 v = held[n] * (inverse * factors[n]);
        if (GLU == 1) {
            vec4 gate = passed4(other, at + i);
            [[unroll]] for (uint e = 0; e < 4; e++) v[e] = gated(ACTIVATION, gate[e], v[e], alpha, limit);
        }
        put4(ROUNDED, y, at + i, v);
    }
}

void main() {
    work();
    arrive(chain);
}
