// ids[t] = the n_used experts with the largest logits, in that order; weights[t] = softmax over them, times scale[e].
// Axes: t rows, e experts. Launch: (1, rows), one subgroup a row. A lane holds every SUBGROUP-th expert, and the largest of all is
// found and taken out n_used times: of equal ones the first expert. Bytes: the logits once.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint SCALED = 0;
layout(constant_id = 3) const uint N_EXPERTS = 1;

#include "common/params/router.glsl"

const uint EACH = (N_EXPERTS + SUBGROUP - 1) / SUBGROUP, USED_MAX = 32;
const uint TAKEN = 0; // smaller than the key of any logit
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
    uint t = gl_WorkGroupID.y, lane = gl_SubgroupInvocationID;
    // What is read here is asked for all at once, before anything is decided.
    uint n_there = n_rows(step, rows), keys[EACH];
    [[unroll]] for (uint n = 0; n < EACH; n++) {
        uint e = n * SUBGROUP + lane;
        keys[n] = e < N_EXPERTS ? key_of(logits.v[t * N_EXPERTS + e]) : TAKEN;
    }
    if (t >= n_there) return;
    float largest = 0;
    for (uint s = 0; s < n_used; s++) {
        uint own = TAKEN, first = 0xffffffffu;
        [[unroll]] for (uint n = 0; n < EACH; n++) own = max(own, keys[n]);
        uint top = subgroupMax(own);
        [[unroll]] for (uint n = EACH; n > 0; n--) {
            if (keys[n - 1] == top) first = (n - 1) * SUBGROUP + lane;
        }
        first = subgroupMin(first);
        [[unroll]] for (uint n = 0; n < EACH; n++) {
            if (first == n * SUBGROUP + lane) keys[n] = TAKEN;
        }
        if (s == 0) largest = logit_of(top);
        if (lane == 0) {
            chosen[s] = first;
            shares[s] = exp(logit_of(top) - largest);
        }
    }
    barrier();
    float sum = 0;
    for (uint s = 0; s < n_used; s++) sum += shares[s];
    for (uint s = lane; s < n_used; s += SUBGROUP) {
        ids.v[t * n_used + s] = chosen[s];
        weights.v[t * n_used + s] = shares[s] / sum * (SCALED == 1 ? scale.v[chosen[s]] : 1.0);
    }
}
