// The norm and the rotation of rope.comp by one subgroup.
#include "common/trig.glsl"

const uint ROTATES_ADJACENT = 2;
const uint PAIRS = (HEAD / 2 + SUBGROUP - 1) / SUBGROUP; // of a lane, at most; what is not rotated counts as pairs too

// The columns of pair p: the first N_ROT / 2 are rotated.
uvec2 columns_of_pair(uint p) {
    if (2 * p >= N_ROT || ROTATES == ROTATES_ADJACENT) return uvec2(2 * p, 2 * p + 1);
    return uvec2(p, p + N_ROT / 2);
}
uvec2 own_columns(uint n) { return columns_of_pair(min(n * SUBGROUP + gl_SubgroupInvocationID, HEAD / 2 - 1)); }

// What a lane has of a head, and how that is turned.
struct Pair { vec2 x, turn; };
Pair pairs[PAIRS];

// The norm's weights and the angles: what does not wait for the head.
void load_turns(F32s norm, uint position) {
    [[unroll]] for (uint n = 0; n < PAIRS; n++) {
        uint p = n * SUBGROUP + gl_SubgroupInvocationID;
        uvec2 c = own_columns(n);
        pairs[n].x = NORM == 1 ? vec2(norm.v[c.x], norm.v[c.y]) : vec2(1);
        pairs[n].turn = vec2(0, 1);
        if (2 * p < N_ROT) sin_cos(float(position) * frequencies.v[p], pairs[n].turn.x, pairs[n].turn.y);
    }
}

// The head that begins at `at`, normed and turned, in place of the norm's weights.
void load_turned(F32s x, uint at) {
    float squares = 0, inverse = 1.0;
    vec2 of_x[PAIRS];
    [[unroll]] for (uint n = 0; n < PAIRS; n++) {
        uvec2 c = own_columns(n);
        of_x[n] = vec2(passed(x, at + c.x), passed(x, at + c.y));
    }
    [[unroll]] for (uint n = 0; n < PAIRS; n++)
        if (n * SUBGROUP + gl_SubgroupInvocationID < HEAD / 2) squares += dot(of_x[n], of_x[n]);
    if (NORM == 1) inverse = inversesqrt(subgroupAdd(squares) / float(HEAD) + EPS);
    [[unroll]] for (uint n = 0; n < PAIRS; n++) {
        uint p = n * SUBGROUP + gl_SubgroupInvocationID;
        float sine = pairs[n].turn.x, cosine = pairs[n].turn.y, m = 2 * p < N_ROT ? magnitude * inverse : inverse;
        vec2 y = of_x[n] * pairs[n].x * m;
        pairs[n].x = vec2(y.x * cosine - y.y * sine, y.x * sine + y.y * cosine);
    }
}
