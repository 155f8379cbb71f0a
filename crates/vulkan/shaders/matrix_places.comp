// y[use][lane][e]: which element of a matrix of that use, A or B, a lane has as its element e, as row * columns + column; y[0] and y[1]
// are how many a lane has. Drivers are free in this and say it nowhere: src/fragments.rs compares it with what kernels can do.
// Axes: lanes, elements. Launch: one workgroup of one subgroup.
#version 460
#extension GL_KHR_cooperative_matrix : require
#include "common/zinc.glsl"
layout(constant_id = 2) const uint TILE = 16; // rows of A, columns of A, rows of B
layout(constant_id = 3) const uint TN = 16;   // columns of B
const uint ELEMENTS_MAX = 16;
#include "common/params/matrix_places.glsl"

shared float16_t places[TILE * TILE]; // each element its own place, which f16 has exactly

void main() {
    uint lane = gl_SubgroupInvocationID;
    for (uint i = lane; i < TILE * TILE; i += SUBGROUP) places[i] = float16_t(float(i));
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, TILE, TILE, gl_MatrixUseA> a;
    coopMatLoad(a, places, 0, TILE, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float16_t, gl_ScopeSubgroup, TILE, TN, gl_MatrixUseB> b;
    coopMatLoad(b, places, 0, TN, gl_CooperativeMatrixLayoutRowMajor);
    if (lane == 0) {
        y.v[0] = a.length();
        y.v[1] = b.length();
    }
    for (uint e = 0; e < min(a.length(), ELEMENTS_MAX); e++) y.v[2 + lane * ELEMENTS_MAX + e] = uint(a[e]);
    for (uint e = 0; e < min(b.length(), ELEMENTS_MAX); e++) y.v[2 + (SUBGROUP + lane) * ELEMENTS_MAX + e] = uint(b[e]);
}
