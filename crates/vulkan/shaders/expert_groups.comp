// Sorts the (token, slot)s of a step by expert, for the matrix-matrix kernels:
//   groups = number of tiles, then (expert, first, count) of each tile of at most BN entries, then at word list_at the list.
// Axes: s all slots of all tokens, e experts. Launch: 1 workgroup. Which of an expert's slots comes first may differ from run to
// run; no sum depends on it. Bytes: the ids twice, the list once.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint BN = 32;

#include "common/params/expert_groups.glsl"

const uint EXPERTS_MAX = 1024;
shared uint counts[EXPERTS_MAX];
shared uint places[EXPERTS_MAX];

void main() {
    uint thread = gl_LocalInvocationID.x, total = n_rows(step, rows) * n_used;
    for (uint e = thread; e < n_experts; e += WORKGROUP) counts[e] = 0;
    barrier();
    for (uint s = thread; s < total; s += WORKGROUP) atomicAdd(counts[ids.v[s]], 1);
    barrier();
    if (thread == 0) {
        uint first = 0, tiles = 0;
        for (uint e = 0; e < n_experts; e++) {
            places[e] = first;
            for (uint i = 0; i < counts[e]; i += BN) {
                groups.v[1 + 3 * tiles] = e;
                groups.v[2 + 3 * tiles] = first + i;
                groups.v[3 + 3 * tiles] = min(BN, counts[e] - i);
                tiles++;
            }
            first += counts[e];
        }
        groups.v[0] = tiles;
    }
    barrier();
    for (uint s = thread; s < total; s += WORKGROUP) groups.v[list_at + atomicAdd(places[ids.v[s]], 1)] = s;
}
