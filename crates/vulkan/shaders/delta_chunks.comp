// The gated delta rule, CHUNK tokens at a time, for sequences with more than FEW tokens in the step, and each value head:
//   X = beta V - (beta a K) S^T,  O = (a Q) S^T + F X,  S = a[last] S + (E X)^T K
// where delta_factors.comp has computed everything that the state S has no part in: E, F and the factors in brackets.
// Axes: c, s tokens of a chunk, b value columns, i key columns; S[b] is a row of K_DIM. Launch: (slices of the value columns,
// value heads, sequences). Value head h reads key head h % n_k_heads. Rows of k and q are key_stride apart, those of v value_stride.
//
// LANES lanes own ROWS rows of S and keep them in registers over all chunks. K and Q of a chunk lie in shared memory; those of the
// next are on their way. A lane multiplies its part of its rows by all of them; then the lanes halve the sums among themselves,
// so that each has VALUES of them: even lanes of K S^T, from which they make X and E X, odd lanes of Q S^T, which become O.
// Bytes: k and q once for every slice, mostly from cache; the states of the sequences twice. Operations: 3 K_DIM V_DIM for each
// token and head, as many as token by token. Predicted, 512 tokens of 16 heads of 128 on an H200, CHUNK 8, LANES 16, ROWS 2, 128
// threads, one subgroup on each scheduler: of a token 48 cycles are the three products, 15 halving, 9 reads of shared memory, and
// 44 waiting and the rest: 33 us. At the rate of the arithmetic it would be 13.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint LANES = 16; // at least 2 ROWS, at most 2 ROWS CHUNK
layout(constant_id = 3) const uint ROWS = 2;
layout(constant_id = 4) const uint CHUNK = 8; // a multiple of 4
layout(constant_id = 5) const uint BUFFERS = 2;
layout(constant_id = 6) const uint FEW = 0;
layout(constant_id = 7) const uint K_DIM = 128;
layout(constant_id = 8) const uint V_DIM = 128;

#include "common/params/delta_chunks.glsl"

const uint FOURS = K_DIM / 4, PIECES = (FOURS + LANES - 1) / LANES; // vec4 of a row, and of a lane's part of it
const uint FACTORS = CHUNK / 2 + 1;                                 // vec4 that a token has from delta_factors
const uint SUMS = 2 * ROWS * CHUNK, VALUES = SUMS / LANES;
const uint FETCHED = (CHUNK * FOURS + WORKGROUP - 1) / WORKGROUP;
const uint FETCHED_FACTORS = (CHUNK * FACTORS + WORKGROUP - 1) / WORKGROUP;
// Whether a lane keeps its part of the keys between the two products.
const bool KEEP = CHUNK * PIECES <= 16;
shared vec4 keys[BUFFERS * CHUNK * FOURS], queries[BUFFERS * CHUNK * FOURS], chunk_factors[BUFFERS * CHUNK * FACTORS];
shared float wanted[WORKGROUP / LANES * ROWS * CHUNK], learnt[WORKGROUP / LANES * ROWS * CHUNK];

uint thread, lane, head;
// What has come of the next chunk.
vec4 next_keys[FETCHED], next_queries[FETCHED], next_factors[FETCHED_FACTORS];
float next_values[VALUES];
// Of the sums that a lane ends with: the first token, and the value column.
uint own_token, column;

void fetch(uint t0, uint count) {
    [[unroll]] for (uint n = 0; n < FETCHED; n++) {
        uint i = min(n * WORKGROUP + thread, CHUNK * FOURS - 1);
        uint at = ((t0 + min(i / FOURS, count - 1)) * key_stride + head % n_k_heads * K_DIM) / 4 + i % FOURS;
        next_keys[n] = Vec4s(k).v[at];
        next_queries[n] = Vec4s(q).v[at];
    }
    [[unroll]] for (uint n = 0; n < FETCHED_FACTORS; n++) {
        uint i = min(n * WORKGROUP + thread, CHUNK * FACTORS - 1);
        uint row = (t0 + min(i / FACTORS, count - 1)) * n_v_heads + head;
        next_factors[n] = Vec4s(factors).v[row * FACTORS + i % FACTORS];
    }
    [[unroll]] for (uint j = 0; j < VALUES; j++)
        next_values[j] = v.v[(t0 + min(own_token + j, count - 1)) * value_stride + head * V_DIM + min(column, V_DIM - 1)];
}

void put_fetched(uint buffer_idx) {
    [[unroll]] for (uint n = 0; n < FETCHED; n++) {
        uint i = n * WORKGROUP + thread;
        if (i < CHUNK * FOURS) {
            keys[buffer_idx * CHUNK * FOURS + i] = next_keys[n];
            queries[buffer_idx * CHUNK * FOURS + i] = next_queries[n];
        }
    }
    [[unroll]] for (uint n = 0; n < FETCHED_FACTORS; n++) {
        uint i = n * WORKGROUP + thread;
        if (i < CHUNK * FACTORS) chunk_factors[buffer_idx * CHUNK * FACTORS + i] = next_factors[n];
    }
}

// The sequence with more than FEW tokens that this workgroup takes.
uint seq;
bool find_sequence() {
    uint before = gl_WorkGroupID.z;
    for (seq = 0; seq < step.n_seqs; seq++) {
        if (step_query_start(step, seq + 1) - step_query_start(step, seq) <= FEW) continue;
        if (before == 0) return true;
        before--;
    }
    return false;
}

// Piece i of a lane's part of a row in shared memory that begins at `at`.
uint piece_at(uint at, uint i) { return at + min(i * LANES + lane, FOURS - 1); }
// A lane beyond the row's end keeps zeros in its part of S.
vec4 key_piece(uint at, uint i) {
    return FOURS % LANES == 0 || i * LANES + lane < FOURS ? keys[piece_at(at, i)] : vec4(0);
}

float plus_dot(float sum, vec4 a, vec4 b) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum)))); }

// Lanes whose numbers differ in bit M have sums of the same things: each gives the other half of them.
#define HALVE(M)                                                                        \
    if (M < LANES) {                                                                    \
        bool upper = (lane & M) != 0;                                                   \
        [[unroll]] for (uint n = 0; n < SUMS / (2 * M); n++) {                          \
            float low = sums[n], high = sums[n + SUMS / (2 * M)];                       \
            sums[n] = (upper ? high : low) + subgroupShuffleXor(upper ? low : high, M); \
        }                                                                               \
    }

void main() {
    if (!find_sequence()) return;
    uint first = step_query_start(step, seq), end = step_query_start(step, seq + 1);
    thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    lane = thread % LANES;
    head = gl_WorkGroupID.y;
    uint row0 = thread / LANES * ROWS, row = gl_WorkGroupID.x * (WORKGROUP / LANES) * ROWS + row0;
    // Bit by bit from the lowest, a lane's number says which half of the sums it keeps.
    uint own = 0;
    [[unroll]] for (uint m = 1; m < LANES; m *= 2) own += (lane & m) != 0 ? SUMS / (2 * m) : 0;
    bool learns = lane % 2 == 0;
    uint own_row = own / CHUNK % ROWS;
    own_token = own % CHUNK;
    column = row + own_row;
    uint own_room = (row0 + own_row) * CHUNK;

    uint of_state = ((step_state_slot(step, seq) * n_v_heads + head) * V_DIM + row) * K_DIM;
    bool fresh = step_past(step, seq) == 0;
    vec4 s[ROWS * PIECES];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = i * LANES + lane;
            bool mine = a < FOURS && row + r < V_DIM;
            s[r * PIECES + i] = fresh || !mine ? vec4(0) : Vec4s(state).v[(of_state + r * K_DIM) / 4 + a];
        }
    }
    fetch(first, min(CHUNK, end - first));
    uint chunks = (end - first + CHUNK - 1) / CHUNK;
    for (uint chunk = 0; chunk < chunks; chunk++) {
        // lavapipe goes through the loop once more with every lane off, and loads nevertheless what all lanes share.
        uint t0 = first + min(chunk, chunks - 1) * CHUNK, count = min(CHUNK, end - t0);
        uint buffer_idx = chunk % BUFFERS, key_at = buffer_idx * CHUNK * FOURS, factor_at = buffer_idx * CHUNK * FACTORS;
        if (BUFFERS == 1) barrier();
        put_fetched(buffer_idx);
        float value[VALUES];
        [[unroll]] for (uint j = 0; j < VALUES; j++) value[j] = next_values[j];
        barrier();
        uint t1 = min(t0 + CHUNK, first + (chunks - 1) * CHUNK);
        fetch(t1, min(CHUNK, end - t1));

        float sums[SUMS];
        [[unroll]] for (uint n = 0; n < SUMS; n++) sums[n] = 0;
        vec4 kept[KEEP ? CHUNK * PIECES : 1];
        [[unroll]] for (uint c = 0; c < CHUNK; c++) {
            [[unroll]] for (uint i = 0; i < PIECES; i++) {
                uint at = key_at + c * FOURS;
                vec4 kc = key_piece(at, i), qc = queries[piece_at(at, i)];
                if (KEEP) kept[c * PIECES + i] = kc;
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    vec4 of_row = s[r * PIECES + i];
                    sums[r * CHUNK + c] = plus_dot(sums[r * CHUNK + c], of_row, kc);
                    sums[(ROWS + r) * CHUNK + c] = plus_dot(sums[(ROWS + r) * CHUNK + c], of_row, qc);
                }
            }
        }
        HALVE(1)
        HALVE(2)
        HALVE(4)
        HALVE(8)
        HALVE(16)
        HALVE(32)
        if (learns) {
            [[unroll]] for (uint j = 0; j < VALUES; j++) {
                vec4 of_token = chunk_factors[factor_at + (own_token + j) * FACTORS + CHUNK / 2];
                wanted[own_room + own_token + j] = of_token.x * value[j] - of_token.y * sums[j];
            }
        }
        subgroupBarrier();
        vec4 x[CHUNK / 4];
        [[unroll]] for (uint n = 0; n < CHUNK / 4; n++) {
            uint at = own_room + 4 * n;
            x[n] = vec4(wanted[at], wanted[at + 1], wanted[at + 2], wanted[at + 3]);
        }
        [[unroll]] for (uint j = 0; j < VALUES; j++) {
            uint c = own_token + j, at = factor_at + c * FACTORS;
            float sum = learns ? 0.0 : chunk_factors[at + CHUNK / 2].z * sums[j];
            [[unroll]] for (uint n = 0; n < CHUNK / 4; n++) sum += dot(chunk_factors[at + (learns ? 0 : CHUNK / 4) + n], x[n]);
            if (learns) learnt[own_room + c] = c < count ? sum : 0.0;
            else if (c < count && column < V_DIM) y.v[((t0 + c) * n_v_heads + head) * V_DIM + column] = sum;
        }
        subgroupBarrier();
        float decay = chunk_factors[factor_at + CHUNK / 2].w;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            [[unroll]] for (uint i = 0; i < PIECES; i++) s[r * PIECES + i] *= decay;
        }
        [[unroll]] for (uint c = 0; c < CHUNK; c++) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                float part = learnt[(row0 + r) * CHUNK + c];
                [[unroll]] for (uint i = 0; i < PIECES; i++) {
                    vec4 kc = KEEP ? kept[c * PIECES + i] : key_piece(key_at + c * FOURS, i);
                    s[r * PIECES + i] = fma(vec4(part), kc, s[r * PIECES + i]);
                }
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            uint a = i * LANES + lane;
            if (a < FOURS && row + r < V_DIM) Vec4s(state).v[(of_state + r * K_DIM) / 4 + a] = s[r * PIECES + i];
        }
    }
}
