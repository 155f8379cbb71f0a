// y[r] = the lowest i with x[r][i] = max_i x[r][i]; NaN never wins, a row of NaN gives 0.
// Axes: r rows, i columns. Launch: (1, rows), one workgroup a row. Bytes: x once.
#version 460
#include "common/zinc.glsl"

#include "common/params/argmax.glsl"

shared float best_value[WORKGROUP];
shared uint best_index[WORKGROUP];

void main() {
    uint r = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x;
    if (r >= n_rows(step, rows)) return;
    float value = uintBitsToFloat(0xff800000u);
    uint index = 0;
    for (uint i = lane; i < cols; i += WORKGROUP) {
        float v = x.v[r * cols + i];
        if (v > value) {
            value = v;
            index = i;
        }
    }
    best_value[lane] = value;
    best_index[lane] = index;
    barrier();
    if (lane != 0) return;
    for (uint k = 1; k < WORKGROUP; k++) {
        bool wins = best_value[k] > value || (best_value[k] == value && best_index[k] < index);
        if (wins) {
            value = best_value[k];
            index = best_index[k];
        }
    }
    y.v[r] = isinf(value) && value < 0 ? 0 : index;
}
