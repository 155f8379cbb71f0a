// What delta_chunks.comp needs to know of each chunk of CHUNK tokens of a sequence and value head, and no state is in it. With
// a[c] the decay since the chunk began, D[c][s] = exp(g[s + 1] + ... + g[c]), and lengths' factors fk, fq (1 without NORM):
//   A[c][s] = beta[c] fk[c] fk[s] (k[c] . k[s]) D[c][s], s < c     T = (I + A)^-1, by forward substitution
//   B[c][s] = fq[c] fk[s] (q[c] . k[s]) D[c][s], s <= c
//   to learn E[c][s] = D[last][c] fk[c] T[c][s], to answer F = B T; then beta[c], beta[c] a[c] fk[c], a[c] fq[c], a[last].
// T is what products of I - beta k k^T do to one key, so no entry is above 1. No decay is divided by.
// Axes: c, s tokens of a chunk. Launch: (chunks, value heads). Value head h reads key head h % n_k_heads. Sequences with at most
// FEW tokens in the step are left to delta_net.comp. Rows of k and q are key_stride apart.
// Written: 2 CHUNK + 4 floats for each token and value head. Operations: CHUNK (2 K_DIM + CHUNK) for each; one of delta_chunks
// is 3 K_DIM V_DIM. Predicted, 512 tokens of 16 heads of 128 on an H200: 4 us, of which 2.4 are reads of shared memory.
#version 460
#include "common/zinc.glsl"
layout(constant_id = 2) const uint CHUNK = 8; // a multiple of 4
layout(constant_id = 3) const uint FEW = 0;
layout(constant_id = 4) const uint K_DIM = 128;
layout(constant_id = 5) const uint NORM = 0;

#include "common/params/delta_factors.glsl"

const uint FOURS = K_DIM / 4, STRIDE = FOURS | 1; // of keys in shared memory, in vec4
const uint FETCHED = (CHUNK * FOURS + WORKGROUP - 1) / WORKGROUP;
const uint PAIRS = CHUNK / 2 * (CHUNK + 1);
const uint FACTORS = 2 * CHUNK + 4;
// Keys, then queries.
shared vec4 rows[2 * CHUNK * STRIDE];
shared float of_keys[CHUNK * CHUNK], of_queries[CHUNK * CHUNK];
shared float lengths[CHUNK], logs[CHUNK], rates[CHUNK], key_factors[CHUNK], query_factors[CHUNK], to_last[CHUNK];

// The chunk's first token in the step, and how many there are.
uint first, count;
bool find_chunk() {
    uint chunk = gl_WorkGroupID.x;
    for (uint seq = 0; seq < step.n_seqs; seq++) {
        uint start = step_query_start(step, seq), n = step_query_start(step, seq + 1) - start;
        if (n <= FEW) continue;
        uint chunks = (n + CHUNK - 1) / CHUNK;
        if (chunk < chunks) {
            first = start + chunk * CHUNK;
            count = min(CHUNK, n - chunk * CHUNK);
            return true;
        }
        chunk -= chunks;
    }
    return false;
}

// Sum of the logarithms after token s, up to token c >= s.
float log_between(uint s, uint c) {
    float sum = 0;
    [[unroll]] for (uint j = 0; j < CHUNK; j++) {
        float log_decay = logs[j];
        sum += j - s - 1 < c - s ? log_decay : 0.0;
    }
    return sum;
}

// Pair i of tokens, s <= c: rows r and CHUNK - 1 - r of the triangle lie side by side.
uvec2 pair(uint i) {
    uint r = i / (CHUNK + 1), x = i % (CHUNK + 1);
    return x <= r ? uvec2(r, x) : uvec2(CHUNK - 1 - r, x - r - 1);
}

void main() {
    if (!find_chunk()) return;
    uint head = gl_WorkGroupID.y, thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    vec4 fetched[2 * FETCHED];
    [[unroll]] for (uint n = 0; n < FETCHED; n++) {
        uint i = min(n * WORKGROUP + thread, CHUNK * FOURS - 1), c = min(i / FOURS, count - 1);
        uint at = ((first + c) * key_stride + head % n_k_heads * K_DIM) / 4 + i % FOURS;
        fetched[2 * n] = Vec4s(k).v[at];
        fetched[2 * n + 1] = Vec4s(q).v[at];
    }
    [[unroll]] for (uint n = 0; n < FETCHED; n++) {
        uint i = min(n * WORKGROUP + thread, CHUNK * FOURS - 1), at = i / FOURS * STRIDE + i % FOURS;
        rows[at] = fetched[2 * n];
        rows[CHUNK * STRIDE + at] = fetched[2 * n + 1];
    }
    if (thread < CHUNK) {
        uint of_head = (first + min(thread, count - 1)) * n_v_heads + head;
        logs[thread] = thread < count ? g.v[of_head] : 0.0;
        rates[thread] = beta.v[of_head];
    }
    barrier();
    for (uint i = thread; i < PAIRS + CHUNK; i += WORKGROUP) {
        bool is_pair = i < PAIRS;
        uvec2 cs = is_pair ? pair(i) : uvec2(i - PAIRS);
        uint key = cs.x * STRIDE, query = (CHUNK + cs.x) * STRIDE, other = is_pair ? cs.y * STRIDE : query;
        float kk = 0, qk = 0;
        for (uint a = 0; a < FOURS; a++) {
            kk += dot(rows[key + a], rows[other + a]);
            qk += dot(rows[query + a], rows[other + a]);
        }
        if (is_pair) {
            of_keys[cs.x * CHUNK + cs.y] = kk;
            of_queries[cs.x * CHUNK + cs.y] = qk;
        } else {
            lengths[cs.x] = qk;
        }
    }
    barrier();
    if (thread < CHUNK) {
        float key_factor = 1.0, query_factor = 1.0;
        if (NORM == 1) {
            key_factor = k_scale * inversesqrt(of_keys[thread * CHUNK + thread] + k_eps);
            query_factor = q_scale * inversesqrt(lengths[thread] + q_eps);
        }
        key_factors[thread] = key_factor;
        query_factors[thread] = query_factor;
        to_last[thread] = exp(log_between(thread, CHUNK - 1)) * key_factor;
    }
    barrier();
    for (uint i = thread; i < PAIRS; i += WORKGROUP) {
        uvec2 cs = pair(i);
        uint at = cs.x * CHUNK + cs.y;
        float factor = exp(log_between(cs.y, cs.x)) * key_factors[cs.y];
        of_keys[at] *= rates[cs.x] * key_factors[cs.x] * factor;
        of_queries[at] *= query_factors[cs.x] * factor;
    }
    barrier();
    uint row = first * n_v_heads + head;
    if (thread < CHUNK) {
        uint s = thread;
        float column[CHUNK];
        [[unroll]] for (uint c = 0; c < CHUNK; c++) {
            float t = c == s ? 1.0 : 0.0;
            [[unroll]] for (uint j = 0; j < CHUNK; j++) if (j < c) t = fma(-of_keys[c * CHUNK + j], column[j], t);
            column[c] = t;
        }
        [[unroll]] for (uint c = 0; c < CHUNK; c++) {
            float answer = 0;
            [[unroll]] for (uint j = 0; j < CHUNK; j++) if (j <= c) answer = fma(of_queries[c * CHUNK + j], column[j], answer);
            if (c < count) {
                uint at = (row + c * n_v_heads) * FACTORS + s;
                factors.v[at] = to_last[c] * column[c];
                factors.v[at + CHUNK] = answer;
            }
        }
        if (s < count) {
            float since = exp(logs[0] + log_between(0, s)), all = exp(logs[0] + log_between(0, CHUNK - 1));
            vec4 own = vec4(rates[s], rates[s] * since * key_factors[s], since * query_factors[s], all);
            Vec4s(factors).v[((row + s * n_v_heads) * FACTORS + 2 * CHUNK) / 4] = own;
        }
    }
}
