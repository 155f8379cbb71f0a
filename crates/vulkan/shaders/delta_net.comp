// The gated delta rule, token by token, for each sequence and value head:
//   m[b] = decay S[b] . k,  e[b] = beta (v[b] - m[b]),  S[b] = decay S[b] + e[b] k,  o[b] = S[b] . q
// Axes: t tokens of a sequence, b value columns, a key columns; S[b] is a row of K_DIM. Value head h reads key head
// h % n_k_heads. Launch: (slices of the value columns, value heads, sequences).
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
// Pieces of four columns that a lane has of each row.
const uint PIECES = (K_DIM / 4 + LANES - 1) / LANES;

#include "common/params/delta_net.glsl"

float over_lanes(float x) {
    [[unroll]] for (uint m = 1; m < LANES; m *= 2) x += subgroupShuffleXor(x, m);
    return x;
}

void main() {
    uint head = gl_WorkGroupID.y, seq = gl_WorkGroupID.z;
    if (seq >= step.n_seqs) return;
    uint first = step_query_start(step, seq), end = step_query_start(step, seq + 1);
    if (first == end) return;
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID, lane = thread % LANES;
    uint row = (gl_WorkGroupID.x * (WORKGROUP / LANES) + thread / LANES) * ROWS;
    uint own = ((step_state_slot(step, seq) * n_v_heads + head) * V_DIM + row) * K_DIM;
    bool fresh = step_position(step, first) == 0;

    vec4 s[ROWS * PIECES];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = 4 * (i * LANES + lane);
            bool mine = a < K_DIM && row + r < V_DIM;
            s[r * PIECES + i] = fresh || !mine ? vec4(0) : Vec4s(state).v[(own + r * K_DIM + a) / 4];
        }
    }
    for (uint t = first; t < end; t++) {
        uint key = (t * n_k_heads + head % n_k_heads) * K_DIM, gate = t * n_v_heads + head;
        vec4 kt[PIECES], qt[PIECES];
        float kq = 0;
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = 4 * (i * LANES + lane);
            kt[i] = a < K_DIM ? Vec4s(k).v[(key + a) / 4] : vec4(0);
            qt[i] = a < K_DIM ? Vec4s(q).v[(key + a) / 4] : vec4(0);
            kq += dot(kt[i], qt[i]);
        }
        kq = over_lanes(kq);
        float decay = exp(g.v[gate]), rate = beta.v[gate];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float m = 0, o = 0;
            [[unroll]] for (uint i = 0; i < PIECES; i++) {
                m += dot(s[r * PIECES + i], kt[i]);
                o += dot(s[r * PIECES + i], qt[i]);
            }
            m = over_lanes(m);
            o = over_lanes(o);
            uint b = gate * V_DIM + min(row + r, V_DIM - 1);
            float e = rate * (v.v[b] - decay * m);
            [[unroll]] for (uint i = 0; i < PIECES; i++) s[r * PIECES + i] = decay * s[r * PIECES + i] + e * kt[i];
            if (lane == r % LANES && row + r < V_DIM) y.v[b] = fma(decay, o, e * kq);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = 4 * (i * LANES + lane);
            if (a < K_DIM && row + r < V_DIM) Vec4s(state).v[(own + r * K_DIM + a) / 4] = s[r * PIECES + i];
        }
    }
}
