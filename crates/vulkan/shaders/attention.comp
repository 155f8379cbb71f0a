// o[t][h] = sum_j p[j] V[j][g], p = softmax_j(cap(scale q[t][h] . K[j][g])), keys j <= pos, j > pos - window.
// Axes: t tokens, h query heads, g = h / (n_heads / n_kv_heads), j keys. Launch: (n_heads, tokens), one workgroup each.
// Keys are taken WORKGROUP at a time: a thread scores one key, then the threads share the columns of V.
// Bytes: K and V of the visible keys once per query head.
#version 460
#include "common/zinc.glsl"
#include "common/activation.glsl"
layout(constant_id = 2) const uint HALF = 1;
layout(constant_id = 3) const uint SINKS = 0;

#include "common/params/attention.glsl"

const uint HEAD_MAX = 512;
shared float query[HEAD_MAX];
shared float weights[WORKGROUP];
shared uint slots[WORKGROUP];

float key_at(uint i) { return HALF == 1 ? float(F16s(cache_k).v[i]) : F32s(cache_k).v[i]; }
float value_at(uint i) { return HALF == 1 ? float(F16s(cache_v).v[i]) : F32s(cache_v).v[i]; }

void main() {
    uint t = gl_WorkGroupID.y, h = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    if (t >= step.n_tokens) return;
    uint g = h / (n_heads / n_kv_heads), seq = step_seq(step, t), position = step_position(step, t);
    uint from = window == 0 || position + 1 < window ? 0 : position + 1 - window;
    for (uint i = lane; i < head_dim; i += WORKGROUP) query[i] = q.v[(t * n_heads + h) * head_dim + i] * scale;
    float most = SINKS == 1 ? sinks.v[h] : -1e30, total = SINKS == 1 ? 1.0 : 0.0;
    float acc[HEAD_MAX / 64];
    [[unroll]] for (uint c = 0; c < HEAD_MAX / 64; c++) acc[c] = 0;
    for (uint first = from; first <= position; first += WORKGROUP) {
        barrier();
        uint j = first + lane;
        float score = -1e30;
        if (j <= position) {
            uint slot = step_page(step, seq, j / PAGE_TOKENS) * PAGE_TOKENS + j % PAGE_TOKENS;
            uint at = (slot * n_kv_heads + g) * head_dim;
            float dot = 0;
            for (uint i = 0; i < head_dim; i++) dot = fma(query[i], key_at(at + i), dot);
            score = softcap > 0 ? softcap * tanh_of(dot / softcap) : dot;
            slots[lane] = at;
        }
        float next = max(most, workgroup_max(score));
        float p = j <= position ? exp(score - next) : 0.0;
        weights[lane] = p;
        float shrink = exp(most - next);
        total = total * shrink + workgroup_sum(p);
        most = next;
        barrier();
        uint count = min(WORKGROUP, position + 1 - first);
        [[unroll]] for (uint c = 0; c < HEAD_MAX / 64; c++) {
            uint i = c * WORKGROUP + lane;
            if (i < head_dim) {
                float sum = acc[c] * shrink;
                for (uint k = 0; k < count; k++) sum = fma(weights[k], value_at(slots[k] + i), sum);
                acc[c] = sum;
            }
        }
    }
    [[unroll]] for (uint c = 0; c < HEAD_MAX / 64; c++) {
        uint i = c * WORKGROUP + lane;
        if (i < head_dim) y.v[(t * n_heads + h) * head_dim + i] = acc[c] / total;
    }
}
