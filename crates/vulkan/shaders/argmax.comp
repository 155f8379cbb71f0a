// y[r] = the lowest i with x[r][i] = max_i x[r][i]; NaN never wins, a row of NaN gives 0.
// Axes: r rows, i columns. Launch: (PARTS, rows). The last of a row's workgroups to finish chooses among what each has left in
// `parts`: value and index; `arrived` counts them and is 0 again at the end. Bytes: x once.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint PARTS = 1;

#include "common/params/argmax.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Parts { uint v[]; };

shared float best_value[WORKGROUP];
shared uint best_index[WORKGROUP];
shared uint last;

bool is_better(float value, uint index, float than, uint than_index) {
    return value > than || (value == than && index < than_index);
}

// The best of all threads' candidates, in place 0.
void reduce(uint thread, float value, uint index) {
    best_value[thread] = value;
    best_index[thread] = index;
    barrier();
    for (uint n = WORKGROUP / 2; n > 0; n /= 2) {
        if (thread < n && is_better(best_value[thread + n], best_index[thread + n], best_value[thread], best_index[thread])) {
            best_value[thread] = best_value[thread + n];
            best_index[thread] = best_index[thread + n];
        }
        barrier();
    }
}

void main() {
    uint r = gl_WorkGroupID.y, thread = gl_LocalInvocationID.x, part = gl_WorkGroupID.x;
    if (r >= n_rows(step, rows)) return;
    uint per_part = (cols + PARTS - 1) / PARTS, end = min(cols, (part + 1) * per_part);
    float value = uintBitsToFloat(0xff800000u);
    uint index = 0xffffffffu;
    for (uint i = part * per_part + thread; i < end; i += WORKGROUP) {
        float v = x.v[r * cols + i];
        if (is_better(v, i, value, index)) {
            value = v;
            index = i;
        }
    }
    reduce(thread, value, index);
    if (PARTS > 1) {
        if (thread == 0) {
            Parts(parts).v[2 * (r * PARTS + part)] = floatBitsToUint(best_value[0]);
            Parts(parts).v[2 * (r * PARTS + part) + 1] = best_index[0];
            memoryBarrierBuffer();
            last = atomicAdd(Parts(arrived).v[r], 1);
        }
        barrier();
        if (last != PARTS - 1) return;
        memoryBarrierBuffer();
        value = uintBitsToFloat(0xff800000u);
        index = 0xffffffffu;
        for (uint p = thread; p < PARTS; p += WORKGROUP) {
            float v = uintBitsToFloat(Parts(parts).v[2 * (r * PARTS + p)]);
            uint i = Parts(parts).v[2 * (r * PARTS + p) + 1];
            if (is_better(v, i, value, index)) {
                value = v;
                index = i;
            }
        }
        reduce(thread, value, index);
        if (thread == 0) Parts(arrived).v[r] = 0;
    }
    if (thread == 0) y.v[r] = best_index[0] == 0xffffffffu ? 0 : best_index[0];
}
