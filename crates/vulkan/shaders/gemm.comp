// y[t][o] = sum_k W[o][k] x[t][k], for many tokens, on matrix cores; epilogues: + bias, + residual, act(gate) * up, experts.
// Axes: t tokens, o outputs, k inputs. Launch: (ceil(n_out / BM), token tiles, slices); SPLIT subgroups make WM x WN of the BM x BN
// tile, each of its part of every step's columns.
// A workgroup takes one slice of the columns. If they are SLICED, the last of a tile's workgroups to finish adds their sums, in
// the order of the slices: each leaves its own in `slice_sums` and counts in `arrived`, which is 0 again at the end.
// Weights and x are rounded to f16 (x bounded to its range), products summed in f32.
// Bytes: the matrix once per token tile, x once per row tile (both mostly from cache); with slices their sums twice.
#version 460
#extension GL_KHR_cooperative_matrix : require
#include "common/zinc.glsl"
#include "common/chain.glsl"
#include "common/gemm_constants.glsl"
layout(constant_id = 12) const uint TILE = 16;   // side of the matrices
layout(constant_id = 13) const uint SPLIT = 1;   // divides ELEMENTS
layout(constant_id = 14) const uint X_ROUNDED = 0;
layout(constant_id = 15) const uint Y_ROUNDED = 0;
layout(constant_id = 16) const uint SLICED = 0;
const uint ELEMENTS = TILE * TILE / SUBGROUP;    // of a matrix that a lane has
const uint GROUP = TILE, PER_EIGHT = 1;
const uint LEAST_W = WORKGROUP / SUBGROUP * TILE * TILE / 4; // a matrix of sums for each subgroup
#define VALUE uvec4
#define PUT(tile, at, a, b) tile[at] = uvec4(halves_of(a), halves_of(b));
#define PUT_WEIGHTS(dtype, half_of_it, at, q, s) tile_w[at] = weights_of(dtype, half_of_it, q, s);
#define LOOSE 1
#include "common/dequant.glsl"
#include "common/activation.glsl"
#include "common/params/gemm.glsl"

#include "common/halves.glsl"
#include "common/gemm.glsl"

const uint MI = WM / TILE, NI = WN / TILE;
const uint PARTS = BM / WM * (BN / WN), BK_OWN = BK / SPLIT;
#define Sums coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator>

void wait() {
    if (SPLIT == 1) subgroupBarrier();
    else barrier();
}

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer SliceSums { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters { uint v[]; };
shared uint last;

const uint JOINED = ELEMENTS / SPLIT;
float joined[MATRICES * JOINED];

// A lane's elements of the sum of matrix m that `part` makes, from those of its subgroups. They pass through the tile of weights,
// which is done with. Trip counts are constants here and below: a loop that is not unrolled would put the sums into memory, for
// the whole kernel.
void join(Sums own, uint part, uint z, uint m) {
    coopMatStore(own, tile_w, gl_SubgroupID * (TILE * TILE / 4), TILE / 4, gl_CooperativeMatrixLayoutColumnMajor);
    wait();
    [[unroll]] for (uint n = 0; n < JOINED; n++) {
        float v = 0;
        [[unroll]] for (uint s = 0; s < SPLIT; s++) {
            uint e = (s * PARTS + part) * TILE * TILE + (n * SPLIT + z) * SUBGROUP + gl_SubgroupInvocationID;
            v += uintBitsToFloat(tile_w[e / 4][e % 4]);
        }
        joined[m * JOINED + n] = v;
    }
    wait();
}

Sums sums[MI * NI];

// Adds the product of the step's tiles, from place `first` of its columns on.
void multiply(uint row0, uint token0, uint first) {
    [[unroll]] for (uint kk = 0; kk < BK_OWN; kk += TILE) {
        uint column = (first + kk) / 8;
        coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseA> a[MI];
        [[unroll]] for (uint i = 0; i < MI; i++)
            coopMatLoad(a[i], tile_w, (row0 + i * TILE) * STRIDE + column, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0; j < NI; j++) {
            coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseB> b;
            coopMatLoad(b, tile_x, (token0 + j * TILE) * STRIDE + column, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0; i < MI; i++) sums[i * NI + j] = coopMatMulAdd(a[i], b, sums[i * NI + j]);
        }
    }
}

uint tile() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// Where the sums are that this thread has, or its like in another slice has, of a matrix of the tile; the next is WORKGROUP behind.
uint sums_at(uint slice, uint matrix) {
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    return ((tile() * gl_NumWorkGroups.z + slice) * (MI * NI) + matrix) * JOINED * WORKGROUP + thread;
}

// Whether this workgroup is the tile's last to finish.
bool is_last() {
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        last = atomicAdd(Counters(arrived).v[tile()], 1);
        if (last == gl_NumWorkGroups.z - 1) Counters(arrived).v[tile()] = 0;
    }
    barrier();
    memoryBarrierBuffer();
    return last == gl_NumWorkGroups.z - 1;
}

// Writes the outputs whose sums `joined` holds: of the matrix (of both, if two) that begins at that row and token of the tile.
void finish(uint row, uint token, uint z) {
    [[unroll]] for (uint n = 0; n < JOINED; n++) {
        uint e = (n * SPLIT + z) * SUBGROUP + gl_SubgroupInvocationID;
        float v = joined[n];
        if (MATRICES == 2) v = gated(ACTIVATION, v, joined[JOINED + n], alpha, limit);
        write(output_of(row + e % TILE), token + e / TILE, v, Y_ROUNDED);
    }
}

void main() {
    find_tokens();
    if (EXPERTS > 0 && count == 0) return;
    uint across = BN / WN, part = gl_SubgroupID % PARTS, z = gl_SubgroupID / PARTS;
    uint row0 = part / across * WM, token0 = part % across * WN;
    uint slice = gl_WorkGroupID.z, n_slices = gl_NumWorkGroups.z, n_steps = n_in / BK;
    uint begin = 0, end = n_in;
    if (SLICED == 1) {
        begin = slice * n_steps / n_slices * BK;
        end = (slice + 1) * n_steps / n_slices * BK;
    }
    [[unroll]] for (uint i = 0; i < MI * NI; i++) sums[i] = Sums(0.0);
    fetch(begin);
    if (count == 0) return;
    for (uint k = begin; k < end; k += BK) {
        put(k);
        barrier();
        if (k + BK < end) fetch(k + BK);
        multiply(row0, token0, z * BK_OWN);
        barrier();
    }
    [[unroll]] for (uint i = 0; i < MI / MATRICES; i++) {
        [[unroll]] for (uint j = 0; j < NI; j++) {
            uint matrix = (i * NI + j) * MATRICES;
            [[unroll]] for (uint m = 0; m < MATRICES; m++) join(sums[(i * MATRICES + m) * NI + j], part, z, m);
            if (SLICED == 0) {
                finish(row0 + i * MATRICES * TILE, token0 + j * TILE, z);
                continue;
            }
            uint at = sums_at(slice, matrix);
            [[unroll]] for (uint n = 0; n < MATRICES * JOINED; n++) SliceSums(slice_sums).v[at + n * WORKGROUP] = joined[n];
        }
    }
    if (SLICED == 0 || !is_last()) return;
    [[unroll]] for (uint i = 0; i < MI / MATRICES; i++) {
        [[unroll]] for (uint j = 0; j < NI; j++) {
            uint matrix = (i * NI + j) * MATRICES;
            [[unroll]] for (uint n = 0; n < MATRICES * JOINED; n++) joined[n] = 0;
            for (uint s = 0; s < n_slices; s++) {
                uint at = sums_at(s, matrix);
                [[unroll]] for (uint n = 0; n < MATRICES * JOINED; n++) joined[n] += SliceSums(slice_sums).v[at + n * WORKGROUP];
            }
            finish(row0 + i * MATRICES * TILE, token0 + j * TILE, z);
        }
    }
}
