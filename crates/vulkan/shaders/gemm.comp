// y[t][o] = sum_k W[o][k] x[t][k], for many tokens, on matrix cores; epilogues: + bias, + residual, act(gate) * up, experts.
// Axes: t tokens, o outputs, k inputs. Launch: (ceil(n_out / BM), token tiles); a subgroup makes WM x WN of the BM x BN tile.
// Weights and x are rounded to f16 (x bounded to its range), products summed in f32.
// Bytes: the matrix once per token tile, x once per row tile (both mostly from cache).
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#include "common/zinc.glsl"
#include "common/gemm_constants.glsl"
layout(constant_id = 12) const uint TILE = 16;   // side of the matrices
const uint ELEMENTS = TILE * TILE / SUBGROUP;    // of a matrix that a lane has
const uint GROUP = TILE;
#define VALUE4 f16vec4
#define BOUNDED(v) clamp(v, -65504.0, 65504.0)
#include "common/dequant.glsl"
#include "common/activation.glsl"
#include "common/params/gemm.glsl"
#include "common/gemm.glsl"

const uint MI = WM / TILE, NI = WN / TILE;
shared float out_tile[WORKGROUP / SUBGROUP * TILE * TILE];

void main() {
    if (!find_tokens()) return;
    uint across = BN / WN, row0 = gl_SubgroupID / across * WM, token0 = gl_SubgroupID % across * WN;
    coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator> sums[MI * NI];
    [[unroll]] for (uint i = 0; i < MI * NI; i++)
        sums[i] = coopmat<float, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseAccumulator>(0.0);
    fetch(0);
    for (uint k = BK; k <= n_in; k += BK) {
        put(k - BK);
        barrier();
        if (k < n_in) fetch(k);
        [[unroll]] for (uint kk = 0; kk < BK; kk += TILE) {
            coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseA> a[MI];
            [[unroll]] for (uint i = 0; i < MI; i++)
                coopMatLoad(a[i], tile_w, (row0 + i * TILE) * STRIDE + kk / 4, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < NI; j++) {
                coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseB> b;
                coopMatLoad(b, tile_x, (token0 + j * TILE) * STRIDE + kk / 4, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0; i < MI; i++) sums[i * NI + j] = coopMatMulAdd(a[i], b, sums[i * NI + j]);
            }
        }
        barrier();
    }
    if (EPILOGUE == 3) {
        [[unroll]] for (uint i = 0; i < MI / MATRICES; i++) {
            [[unroll]] for (uint j = 0; j < NI; j++) {
                [[unroll]] for (uint e = 0; e < ELEMENTS; e++) {
                    if (e < sums[0].length())
                        sums[i * MATRICES * NI + j][e] =
                            gated(ACTIVATION, sums[i * MATRICES * NI + j][e], sums[(i * MATRICES + 1) * NI + j][e], alpha, limit);
                }
            }
        }
    }
    // Trip counts are constants: a loop that is not unrolled would put the sums into memory, for the whole kernel.
    uint own = gl_SubgroupID * TILE * TILE;
    [[unroll]] for (uint i = 0; i < MI / MATRICES; i++) {
        [[unroll]] for (uint j = 0; j < NI; j++) {
            coopMatStore(sums[i * MATRICES * NI + j], out_tile, own, TILE, gl_CooperativeMatrixLayoutColumnMajor);
            subgroupBarrier();
            [[unroll]] for (uint n = 0; n < ELEMENTS; n++) {
                uint e = n * SUBGROUP + gl_SubgroupInvocationID;
                write(output_of(row0 + i * MATRICES * TILE + e % TILE), token0 + j * TILE + e / TILE, out_tile[own + e]);
            }
            subgroupBarrier();
        }
    }
}
