// ids[t] = the n_used experts with the largest logits, in that order; weights[t] = softmax over them, times scale[e].
// Axes: t rows, e experts. Launch: (1, rows), one workgroup a row, of at least 32 threads.
// An expert's place in the order is the number of experts that come before it, so every thread finds the places of its
// own experts alone. Bytes: the logits once.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint SCALED = 0;

#include "common/params/router.glsl"

const uint EXPERTS_MAX = 1024, USED_MAX = 32;
shared uint keys[EXPERTS_MAX];
shared uint chosen[USED_MAX];
shared float shares[USED_MAX];

// Integers in the order of the logits: infinities count as the largest finite values, NaN as the smallest, and both
// zeros are one. Bits are compared, because a compiler may take it that there is no NaN.
uint key_of(float logit) {
    uint bits = floatBitsToUint(logit), size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) bits = 0xff7fffffu;
    if (size == 0x7f800000u) bits -= 1;
    if (size == 0) bits = 0;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float logit_of(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key); }

void main() {
    uint t = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x;
    if (t >= n_rows(step, rows)) return;
    for (uint e = lane; e < n_experts; e += WORKGROUP) keys[e] = key_of(logits.v[t * n_experts + e]);
    barrier();
    for (uint e = lane; e < n_experts; e += WORKGROUP) {
        uint key = keys[e], place = 0;
        for (uint j = 0; j < n_experts; j++) place += uint(keys[j] > key || (keys[j] == key && j < e));
        if (place < n_used) chosen[place] = e;
    }
    barrier();
    if (lane < n_used) shares[lane] = exp(logit_of(keys[chosen[lane]]) - logit_of(keys[chosen[0]]));
    barrier();
    if (lane >= n_used) return;
    float sum = 0;
    for (uint s = 0; s < n_used; s++) sum += shares[s];
    ids.v[t * n_used + lane] = chosen[lane];
    weights.v[t * n_used + lane] = shares[lane] / sum * (SCALED == 1 ? scale.v[chosen[lane]] : 1.0);
}
