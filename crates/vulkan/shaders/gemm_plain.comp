// y[t][o] = sum_k W[o][k] x[t][k], for many tokens, without matrix cores; epilogues: + bias, + residual, act(gate) * up, experts.
// Axes: t tokens, o outputs, k inputs. Launch: (ceil(n_out / BM), token tiles); a thread makes WM x WN of the BM x BN tile: rows
// in pairs (gate and up for GLU), one every WORKGROUP / (BN / WN) pairs. All in f32.
// Bytes: the matrix once per token tile, x once per row tile (both mostly from cache).
#version 460
#include "common/zinc.glsl"
#include "common/chain.glsl"
#include "common/gemm_constants.glsl"
const uint GROUP = 1, PER_EIGHT = 2, X_ROUNDED = 0, LEAST_W = 0;
#define VALUE vec4
#define PUT(tile, at, a, b) { tile[2 * (at)] = a; tile[2 * (at) + 1] = b; }
#define BOUNDED(v) v
#define IN_ORDER(v) v
#define PUT_WEIGHTS(dtype, half_of_it, at, q, s) PUT(tile_w, at, (raised(q.x) - 1024.0) * s.x + s.y, (raised(q.y) - 1024.0) * s.x + s.y)
#include "common/dequant.glsl"
#include "common/activation.glsl"
#include "common/params/gemm_plain.glsl"
#include "common/gemm.glsl"

const uint ACROSS = BN / WN, DOWN = BM / WM;

void main() {
    find_tokens();
    if (EXPERTS > 0 && count == 0) return;
    uint thread = gl_LocalInvocationID.x, token0 = thread % ACROSS, pair0 = thread / ACROSS;
    float sums[WM * WN];
    [[unroll]] for (uint i = 0; i < WM * WN; i++) sums[i] = 0;
    fetch(0);
    if (count == 0) return;
    for (uint k = BK; k <= n_in; k += BK) {
        put(k - BK);
        barrier();
        if (k < n_in) fetch(k);
        for (uint kk = 0; kk < BK / 4; kk++) {
            vec4 a[WM];
            [[unroll]] for (uint i = 0; i < WM; i++) a[i] = tile_w[(2 * (pair0 + i / 2 * DOWN) + i % 2) * STRIDE * 2 + kk];
            [[unroll]] for (uint j = 0; j < WN; j++) {
                vec4 b = tile_x[(token0 + j * ACROSS) * STRIDE * 2 + kk];
                [[unroll]] for (uint i = 0; i < WM; i++) sums[i * WN + j] += dot(a[i], b);
            }
        }
        barrier();
    }
    [[unroll]] for (uint i = 0; i < WM; i += MATRICES) {
        [[unroll]] for (uint j = 0; j < WN; j++) {
            float v = sums[i * WN + j];
            if (EPILOGUE == 3) v = gated(ACTIVATION, v, sums[(i + 1) * WN + j], alpha, limit);
            write(output_of(2 * (pair0 + i / 2 * DOWN) + i % 2), token0 + j * ACROSS, v, 0);
        }
    }
}
