// The gated delta rule, token by token, for each sequence and value head:
//   m[b] = decay S[b] . k,  e[b] = beta (v[b] - m[b]),  S[b] = decay S[b] + e[b] k,  o[b] = S[b] . q
// Axes: t tokens of a sequence, b value columns, a key columns; S[b] is a row of K_DIM. Value head h reads key head
// h % n_k_heads. Launch: (slices of the value columns, value heads, sequences). Rows of k and q are key_stride apart, those of v
// value_stride. NORM: k and q are first scaled to one length, which is done to the sums. GLU: the head's output is divided by its
// root mean square and multiplied by the norm's weight and by act(gate); one workgroup then has all value columns. Sequences with
// more than MOST tokens in the step are left to delta_chunks.comp.
//
// LANES lanes own ROWS rows of S and keep them in registers over all tokens of the step; rows need nothing of each other.
// Both products of a token are taken with the old state, S q = decay (S_old q) + e (k . q), so that one round of
// shuffles sums them. A row is read and written by its owner alone. Bytes: the states of the step's sequences twice.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint LANES = 16;
layout(constant_id = 3) const uint ROWS = 4;
layout(constant_id = 4) const uint K_DIM = 128;
layout(constant_id = 5) const uint V_DIM = 128;
layout(constant_id = 6) const uint NORM = 0;
layout(constant_id = 7) const uint GLU = 0;
layout(constant_id = 8) const uint ACTIVATION = 0;
layout(constant_id = 9) const uint MOST = 0xffffffff;
// Pieces of four columns that a lane has of each row.
const uint PIECES = (K_DIM / 4 + LANES - 1) / LANES;

#include "common/activation.glsl"
#include "common/params/delta_net.glsl"

// Outputs of a few tokens, until the workgroup has a row of each.
const uint KEPT = 8;
shared float kept[GLU == 1 ? KEPT * V_DIM : 1];

float over_lanes(float x) {
    [[unroll]] for (uint m = 1; m < LANES; m *= 2) x += subgroupShuffleXor(x, m);
    return x;
}

// Norm and gate of the `count` tokens from t0 on that are kept.
void put_kept(uint head, uint t0, uint count) {
    barrier();
    for (uint i = gl_SubgroupID; i < count; i += gl_NumSubgroups) {
        float squares = 0;
        for (uint b = gl_SubgroupInvocationID; b < V_DIM; b += SUBGROUP) squares += kept[i * V_DIM + b] * kept[i * V_DIM + b];
        float inverse = inversesqrt(subgroupAdd(squares) / float(V_DIM) + eps);
        uint at = ((t0 + i) * n_v_heads + head) * V_DIM;
        for (uint b = gl_SubgroupInvocationID; b < V_DIM; b += SUBGROUP) {
            y.v[at + b] = gated(ACTIVATION, gate.v[at + b], kept[i * V_DIM + b] * inverse * norm.v[b], alpha, limit);
        }
    }
    barrier();
}

void main() {
    uint head = gl_WorkGroupID.y, seq = gl_WorkGroupID.z;
    // What is read here is asked for all at once, before anything is decided.
    uint n_seqs = step.n_seqs, first = step_query_start(step, seq), end = step_query_start(step, seq + 1);
    uint state_slot = step_state_slot(step, seq), past = step_past(step, seq);
    if (seq >= n_seqs || first == end || end - first > MOST) return;
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID, lane = thread % LANES;
    uint row = (gl_WorkGroupID.x * (WORKGROUP / LANES) + thread / LANES) * ROWS;
    uint own = ((state_slot * n_v_heads + head) * V_DIM + row) * K_DIM;
    bool fresh = past == 0;

    vec4 s[ROWS * PIECES];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = 4 * (i * LANES + lane);
            bool mine = a < K_DIM && row + r < V_DIM;
            s[r * PIECES + i] = fresh || !mine ? vec4(0) : Vec4s(state).v[(own + r * K_DIM + a) / 4];
        }
    }
    for (uint t = first; t < end; t++) {
        uint key = t * key_stride + head % n_k_heads * K_DIM, value = t * value_stride + head * V_DIM;
        // lavapipe goes through the loop once more with every lane off, and loads nevertheless what all lanes share.
        uint of_head = min(t, end - 1) * n_v_heads + head;
        vec4 kt[PIECES], qt[PIECES];
        float kq = 0, kk = 0, qq = 0;
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = 4 * (i * LANES + lane);
            kt[i] = a < K_DIM ? Vec4s(k).v[(key + a) / 4] : vec4(0);
            qt[i] = a < K_DIM ? Vec4s(q).v[(key + a) / 4] : vec4(0);
            kq += dot(kt[i], qt[i]);
            kk += dot(kt[i], kt[i]);
            qq += dot(qt[i], qt[i]);
        }
        kq = over_lanes(kq);
        float decay = exp(g.v[of_head]), rate = beta.v[of_head], k_factor = 1.0, q_factor = 1.0;
        if (NORM == 1) {
            k_factor = k_scale * inversesqrt(over_lanes(kk) + k_eps);
            q_factor = q_scale * inversesqrt(over_lanes(qq) + q_eps);
            kq *= k_factor * q_factor;
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float m = 0, o = 0;
            [[unroll]] for (uint i = 0; i < PIECES; i++) {
                m += dot(s[r * PIECES + i], kt[i]);
                o += dot(s[r * PIECES + i], qt[i]);
            }
            m = k_factor * over_lanes(m);
            o = q_factor * over_lanes(o);
            uint b = min(row + r, V_DIM - 1);
            float e = rate * (v.v[value + b] - decay * m), learnt = e * k_factor;
            [[unroll]] for (uint i = 0; i < PIECES; i++) s[r * PIECES + i] = decay * s[r * PIECES + i] + learnt * kt[i];
            if (lane == r % LANES && row + r < V_DIM) {
                float result = fma(decay, o, e * kq);
                if (GLU == 1) kept[(t - first) % KEPT * V_DIM + b] = result;
                else y.v[of_head * V_DIM + b] = result;
            }
        }
        uint n_kept = (t - first) % KEPT + 1;
        if (GLU == 1 && (n_kept == KEPT || t + 1 == end)) put_kept(head, t + 1 - n_kept, n_kept);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = 4 * (i * LANES + lane);
            if (a < K_DIM && row + r < V_DIM) Vec4s(state).v[(own + r * K_DIM + a) / 4] = s[r * PIECES + i];
        }
    }
}
