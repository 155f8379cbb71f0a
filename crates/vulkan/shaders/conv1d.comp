// y[t][c] = act(sum_j w[c][j] u[c][t - TAPS + 1 + j]), u being the rows of the step and the state before them.
// Axes: t tokens, c channels, j taps, oldest first. Launch: (channels / WORKGROUP, tokens); a thread is one (token, channel).
//
// The state is read by the first TAPS - 1 rows of a sequence and written with its last ones. One thread does all of that
// for its channel, the one at the sequence's first row: it makes the rows that need the state, then writes the new one.
// The other rows see the step's own rows only, so no other thread ever touches the state.
// Bytes: x TAPS times (from cache), y, and the state of each sequence twice.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint TAPS = 4;
layout(constant_id = 3) const uint SILU = 1;
const uint PAST = TAPS - 1;

#include "common/params/conv1d.glsl"

void put(uint row, uint c, float sum) { y.v[row * n_channels + c] = SILU == 1 ? sum * sigmoid(sum) : sum; }

void main() {
    uint t = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    uint n_tokens = step.n_tokens, seq = step_seq(step, t); // asked for together
    if (t >= n_tokens || c >= n_channels) return;
    uint first = step_query_start(step, seq), last = step_query_start(step, seq + 1), slot = step_state_slot(step, seq);
    bool fresh = step_past(step, seq) == 0;
    if (t - first >= PAST) {
        float sum = 0;
        [[unroll]] for (uint j = 0; j < TAPS; j++) sum = fma(taps.v[c * TAPS + j], x.v[(t - PAST + j) * n_channels + c], sum);
        put(t, c, sum);
    }
    if (t != first) return;

    uint count = last - first, own = (slot * n_channels + c) * PAST;
    for (uint i = 0; i < min(count, PAST); i++) {
        float sum = 0;
        [[unroll]] for (uint j = 0; j < TAPS; j++) {
            uint at = i + j;
            float u = at >= PAST ? x.v[(first + at - PAST) * n_channels + c] : fresh ? 0.0 : state.v[own + at];
            sum = fma(taps.v[c * TAPS + j], u, sum);
        }
        put(first + i, c, sum);
    }
    // Oldest first: what is still needed of the old state lies behind the place that is written.
    for (uint j = 0; j < PAST; j++) {
        uint at = count + j;
        state.v[own + j] = at >= PAST ? x.v[(first + at - PAST) * n_channels + c] : fresh ? 0.0 : state.v[own + at];
    }
}
