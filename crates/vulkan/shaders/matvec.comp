// y[t][o] = sum_k W[o][k] x[t][k], for few tokens; epilogues: + bias, + residual, act(gate) * up, experts.
// Axes: t up to NT tokens of the group, o outputs, k inputs. Launch: (ceil(n_out / (ROWS * subgroups)), ceil(rows / NT)).
// A subgroup makes ROWS outputs of NT tokens; its lanes stride over units of 32 weights.
// Bytes: the matrix once per group of NT tokens (two for GLU), x from cache.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint DTYPE = 0;
layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint NT = 1;
layout(constant_id = 5) const uint EPILOGUE = 0; // PLAIN 0, BIAS 1, ADD 2, GLU 3
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const uint EXPERTS = 0;  // 1: one input row a token, 2: one a (token, slot)
layout(constant_id = 8) const uint DTYPE2 = 0;   // of the second matrix
#include "common/dequant.glsl"
#include "common/activation.glsl"

#include "common/params/matvec.glsl"

float sums[ROWS * NT];

// Rows of m have `bytes` bytes; those of the product begin at row `base`.
void product(uint dtype, U8s m, uint bytes, uint base, uint first, uint t0, uint count) {
    [[unroll]] for (uint i = 0; i < ROWS * NT; i++) sums[i] = 0;
    for (uint u = gl_SubgroupInvocationID; u < n_in / 32; u += SUBGROUP) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint o = min(first + r, n_out - 1);
            float q[32];
            uint a, b;
            load_unit(dtype, m, (base + o) * bytes, u, q, a, b);
            [[unroll]] for (uint t = 0; t < NT; t++) {
                if (t >= count) break;
                uint row = t0 + t;
                if (EXPERTS == 1) row /= n_used;
                float sum = 0;
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    vec4 va = Vec4s(x).v[(row * n_in + a) / 4 + i], vb = Vec4s(x).v[(row * n_in + b) / 4 + i];
                    sum += q[4 * i] * va.x + q[4 * i + 1] * va.y + q[4 * i + 2] * va.z + q[4 * i + 3] * va.w;
                    sum += q[16 + 4 * i] * vb.x + q[16 + 4 * i + 1] * vb.y + q[16 + 4 * i + 2] * vb.z + q[16 + 4 * i + 3] * vb.w;
                }
                sums[r * NT + t] += sum;
            }
        }
    }
    [[unroll]] for (uint i = 0; i < ROWS * NT; i++) sums[i] = subgroupAdd(sums[i]);
}

void main() {
    uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * ROWS;
    uint total = n_rows(step, rows) * (EXPERTS == 0 ? 1 : n_used);
    uint t0 = gl_WorkGroupID.y * NT;
    if (first >= n_out || t0 >= total) return;
    uint count = min(NT, total - t0);
    uint expert = EXPERTS == 0 ? 0 : ids.v[t0];
    product(DTYPE, w, row_bytes, expert * n_out, first, t0, count);
    float gates[ROWS * NT];
    if (EPILOGUE == 3) {
        [[unroll]] for (uint i = 0; i < ROWS * NT; i++) gates[i] = sums[i];
        product(DTYPE2, w2, row_bytes2, 0, first, t0, count);
    }
    if (!subgroupElect()) return;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint o = first + r;
        if (o >= n_out) break;
        [[unroll]] for (uint t = 0; t < NT; t++) {
            if (t >= count) break;
            float v = sums[r * NT + t];
            uint at = (t0 + t) * n_out + o;
            if (EPILOGUE == 1) v += other.v[expert * n_out + o];
            if (EPILOGUE == 2) v += other.v[at];
            if (EPILOGUE == 3) v = gated(ACTIVATION, gates[r * NT + t], v, alpha, limit);
            y.v[at] = v;
        }
    }
}
