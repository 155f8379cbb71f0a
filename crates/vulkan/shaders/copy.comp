// y[i] = x[i]: what the device's memory can do, as a kernel sees it.
// Axes: i fours of f32. Launch: (n / (EACH * WORKGROUP)). Bytes: x and y once.
#version 460
#include "common/zinc.glsl"

#include "common/params/copy.glsl"

const uint EACH = 8;

void main() {
    uint first = gl_WorkGroupID.x * WORKGROUP * EACH + gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0; i < EACH; i++) Vec4s(y).v[first + i * WORKGROUP] = Vec4s(x).v[first + i * WORKGROUP];
}
