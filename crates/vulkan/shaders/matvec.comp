// y[t][o] = sum_k W[o][k] x[t][k], for few tokens; epilogues: + bias, + residual, act(gate) * up, experts. NORM: x is first
// divided by its root mean square and multiplied by the norm's weight.
// Axes: t up to NT tokens of the group, o outputs, k inputs. LANES lanes share a row, so a subgroup makes SUBGROUP / LANES times
// ROWS outputs (of each matrix) at a time. Launch: (up to ceil(n_out / (outputs of a workgroup)), ceil(rows / NT)).
//
// The workgroup brings x to shared memory in the order in which lanes read it: neighbours side by side. RESIDENT: all of it at
// once, and the subgroups go on to further rows, as many as there are workgroups apart. Else UNITS units of 32 columns at a time.
// The lanes of a row stride over its items of WIDE units, AHEAD further items under way while one is multiplied. Where an item lies
// in a block is the same in every turn if turns are whole blocks (is_alike), so that scales are found once. The norm's weight is
// applied on the way to shared memory, its root to the sums.
//
// INTEGER: 32 columns of x become integers of 16 bits with one scale, x = scale (256 high + low), each part a signed byte; four
// products with stored bytes are one instruction then, two with both parts, and the error of x is 2^-16 of the largest of its 32.
// Otherwise, and for F32, F16 and BF16, all in f32.
// An expert has expert_rows rows of a matrix, which may hold gate and up: up then begins at row up_row of the expert.
// Bytes: the matrix once per group of NT tokens (two matrices for GLU), x once per workgroup from cache.
#version 460
#extension GL_EXT_integer_dot_product : require
#include "common/zinc.glsl"
#include "common/chain.glsl"
layout(constant_id = 2) const uint DTYPE = 0;
layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint NT = 1;
layout(constant_id = 5) const uint EPILOGUE = 0; // PLAIN 0, BIAS 1, ADD 2, GLU 3, GLU_BIAS 4
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const uint EXPERTS = 0;  // 1: one input row a token, 2: one a (token, slot)
layout(constant_id = 8) const uint DTYPE2 = 0;   // of the second matrix
layout(constant_id = 9) const uint NORM = 0;
layout(constant_id = 10) const uint UNITS = 64;  // a multiple of 8 and of LANES * WIDE, or all
layout(constant_id = 11) const uint INTEGER = 0;
layout(constant_id = 12) const uint RESIDENT = 0;
layout(constant_id = 13) const uint LANES = 32;  // a power of two
layout(constant_id = 14) const uint WIDE = 1;    // 2 for types with blocks of 256 weights
layout(constant_id = 15) const uint PARTS = 8;   // fours of x of an item: as words 8 a unit, as integers as below
layout(constant_id = 16) const uint EXACT = 0;   // every lane has an item in every turn
layout(constant_id = 17) const uint AHEAD = 1;   // items under way at a time; divides TURNS, and more than one if they are unrolled
layout(constant_id = 18) const uint HOLD = 0;    // keep loads before the products that they are to come behind
const uint MATRICES = EPILOGUE >= 3 ? 2 : 1;
const uint MADE = ROWS * (SUBGROUP / LANES); // outputs of a subgroup at a time
const uint TURN = LANES * WIDE;              // units of a turn
const uint ITEMS = UNITS / WIDE;
const uint TURNS = (UNITS + TURN - 1) / TURN; // of a row, if x is resident
const uint HELD = (NT * UNITS * 2 + WORKGROUP - 1) / WORKGROUP; // sixteens of x that a thread brings
#include "common/dequant.glsl"
#include "common/activation.glsl"

#include "common/params/matvec.glsl"

bool is_integer(uint dtype) { return INTEGER == 1 && !is_float(dtype); }
// Whether the 16 weights of half a and of half b have scales of their own though they are neighbours.
bool is_fine(uint dtype) { return type_of(dtype) == Q6_K || dtype == Q2_K || dtype == Q3_K; }
// Whether q, or q - 128 of a type that is not low, is not yet the weight without its scale.
bool has_minimum(uint dtype) { return centre(dtype) != 128.0; }
// Whether half a of both units of an item are neighbours, and half b: otherwise a and b of each unit are.
bool is_crossed(uint dtype) { return dtype == Q4_K || dtype == Q5_K || type_of(dtype) == Q6_K; }

// [token][part][item]. Group g of an item is 32 neighbouring columns, in sixteens k. As words: four columns a part, 8 parts a
// group. As integers: part 4 g + 2 k is the high bytes, the next the low ones; behind the groups scale and sum of each; and, if
// the type is fine and has minima, the sums of the sixteens.
shared vec4 xs[NT * PARTS * ITEMS];

const uint SUBGROUPS = WORKGROUP / SUBGROUP;
shared float square_sums[NORM == 1 ? NT * SUBGROUPS : 1]; // [token][subgroup]

// [matrix][row][token], and of each token the squares of this thread's x and what x is divided by.
float sums[MATRICES * ROWS * NT];
float squares[NT], inverse[NT];
// What is added to the sums, of the first lane of a row: [row][token].
float added[ROWS * NT];

// [ahead][matrix][row][unit]; floats have one item under way.
Raw raws[AHEAD * MATRICES * ROWS * WIDE];
vec4 floats[MATRICES * ROWS * WIDE * 8];
Unit now[MATRICES * ROWS * WIDE];

// [matrix][row]: where this lane's row begins in bytes, and the row it makes next.
uint here[MATRICES * ROWS], there[MATRICES * ROWS];

uint lane() { return gl_SubgroupInvocationID % LANES; }
// First unit of this lane's item in the first turn.
uint lane_unit() { return EXACT == 1 ? lane() * WIDE : min(lane() * WIDE, n_in / 32 - WIDE); }

// Where row r of matrix m begins for this lane, of those that begin at output `first` of the product at row `base`.
uint row_at(uint m, uint r, uint base, uint first) {
    uint o = first + r * (SUBGROUP / LANES) + gl_SubgroupInvocationID / LANES;
    return (base + m * up_row + min(o, n_out - 1)) * (m == 0 ? row_bytes : row_bytes2);
}

// Whether an item of every turn lies where that of the first one does, in its block or its eight blocks.
bool is_alike(uint dtype) { return TURN % (dtype == Q6_K_PLANES ? 64 : 8) == 0; }

// Bytes from a row's begin to the items of a turn; a lane that has no item there takes its first.
uint turn_at(uint dtype, uint turn) {
    if (!is_alike(dtype)) return 0;
    if (EXACT == 0 && turn * TURN + lane() * WIDE >= n_in / 32) return 0;
    return turn * (TURN * bytes_of(dtype) / 8);
}

// The unit of this lane's item of a turn, counted from there.
uint unit_at(uint dtype, uint turn) {
    return is_alike(dtype) ? lane_unit() : min(turn * TURN + lane() * WIDE, n_in / 32 - WIDE);
}

// Matrices from..to, all of one type: this lane's item of that turn, of the next rows if `is_next`.
void load_weights(uint dtype, uint from, uint to, bool is_next, uint turn) {
    [[unroll]] for (uint m = from; m < to; m++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint mr = m * ROWS + r, at = mr * WIDE, raw = (turn % AHEAD * MATRICES * ROWS + mr) * WIDE;
            uint row = (is_next ? there[mr] : here[mr]) + turn_at(dtype, turn), u = unit_at(dtype, turn);
            U8s matrix = m == 0 ? w : w2;
            if (is_float(dtype)) {
                [[unroll]] for (uint j = 0; j < 8 * WIDE; j++) floats[at * 8 + j] = load_floats(dtype, matrix, row, 32 * u + 4 * j);
            } else if (WIDE == 1) {
                raws[raw] = load_raw(dtype, matrix, row, u);
            } else {
                load_raws(dtype, matrix, row, u, raws[raw], raws[raw + 1]);
            }
        }
    }
}

uint packed(uvec4 v) { return (v.x & 255) | ((v.y & 255) << 8) | ((v.z & 255) << 16) | (v.w << 24); }

// Puts sixteen columns where they belong: number c of the token's. A neighbouring lane has the sixteen that share their scale.
void put_x(uint dtype, uint t, uint c, vec4 v[4], bool is_there) {
    uint columns = c / 2, k = c % 2, item = columns / WIDE, g = columns % WIDE;
    if (type_of(dtype) == Q6_K) {
        item = 4 * (columns >> 3) + 2 * ((columns >> 2) & 1) + (columns & 1);
        g = (columns >> 1) & 1;
    }
    if (!is_integer(dtype)) {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            if (is_there) xs[(t * PARTS + 8 * g + 4 * k + i) * ITEMS + item] = v[i];
        }
        return;
    }
    vec4 size = max(max(abs(v[0]), abs(v[1])), max(abs(v[2]), abs(v[3]))), all = v[0] + v[1] + v[2] + v[3];
    float most = max(max(size.x, size.y), max(size.z, size.w)), half_sum = all.x + all.y + all.z + all.w;
    most = max(most, subgroupShuffleXor(most, 1));
    float sum = half_sum + subgroupShuffleXor(half_sum, 1);
    // 32,512 is 127 times 256, so that the high part fits with the low one rounded to nearest. Added to 1.5 times 2^23, a number
    // has its integer in the low bits.
    float to_integer = most > 0 ? 32512.0 / most : 0.0;
    uvec4 high, low;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 n = floatBitsToUint(v[i] * to_integer + 12582912.0);
        high[i] = packed((n + 128) >> 8);
        low[i] = packed(n);
    }
    if (!is_there) return;
    uint part = t * PARTS + 4 * g + 2 * k, end = (t * PARTS + 4 * WIDE) * ITEMS + item;
    xs[part * ITEMS + item] = uintBitsToFloat(high);
    xs[(part + 1) * ITEMS + item] = uintBitsToFloat(low);
    xs[end][2 * g + k] = k == 0 ? most / 32512.0 : sum;
    if (is_fine(dtype) && has_minimum(dtype)) xs[end + ITEMS][2 * g + k] = half_sum;
}

uint input_row(uint t) { return (EXPERTS == 1 ? t / n_used : t) * (n_in / 4); }

// Whether the first weights and the norm's come while the workgroup waits for x.
bool is_early() { return waits() && RESIDENT == 1; }

// The norm's weights of the columns that this thread brings.
vec4 by[HELD * 4];
void fetch_norm(uint u0) {
    if (NORM == 0) return;
    uint n = min(UNITS, n_in / 32 - u0) * 2, thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    [[unroll]] for (uint h = 0; h < HELD; h++) {
        uint s = thread + h * WORKGROUP, c = 8 * u0 + 4 * min(s % (2 * UNITS), n - 1);
        [[unroll]] for (uint i = 0; i < 4; i++) by[h * 4 + i] = Vec4s(norm).v[c + i];
    }
}

// Asks for the items of the first turns of the rows `here`.
void fetch_first(uint dtype, uint from, uint to) {
    [[unroll]] for (uint turn = 0; turn < AHEAD; turn++) load_weights(dtype, from, to, false, turn);
}

// Columns of units u0.. of NT tokens from t0 on. The first weights are asked for behind x, since loads come back in order, and
// come while x is worked on.
void bring_x(uint dtype, uint from, uint to, uint u0, uint t0) {
    uint n = min(UNITS, n_in / 32 - u0) * 2, thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    vec4 held[HELD * 4];
    if (!is_early()) fetch_norm(u0);
    [[unroll]] for (uint h = 0; h < HELD; h++) {
        uint s = thread + h * WORKGROUP, t = min(s / (2 * UNITS), NT - 1), c = 8 * u0 + 4 * min(s % (2 * UNITS), n - 1);
        uint x0 = input_row(min(t0 + t, rows_max - 1)) + c;
        [[unroll]] for (uint i = 0; i < 4; i++) held[h * 4 + i] = passed4(x, x0 + i);
    }
    if (u0 == 0 && !is_early()) fetch_first(dtype, from, to);
    [[unroll]] for (uint h = 0; h < HELD; h++) {
        uint s = thread + h * WORKGROUP, t = s / (2 * UNITS), c = s % (2 * UNITS);
        bool is_there = t < NT && c < n;
        vec4 v[4];
        float square = 0;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            v[i] = held[h * 4 + i];
            if (NORM == 1) {
                square += dot(v[i], v[i]);
                v[i] *= by[h * 4 + i];
            }
        }
        if (NORM == 1 && from == 0) {
            [[unroll]] for (uint i = 0; i < NT; i++) squares[i] += is_there && i == t ? square : 0.0;
        }
        put_x(dtype, t, c, v, is_there);
    }
}

// Which half of which unit of an item the sixteen weights k of group g are.
uint half_at(uint dtype, uint g, uint k) { return is_crossed(dtype) ? g : k; }
Unit unit_with(uint dtype, uint mr, uint g, uint k) { return now[mr * WIDE + (is_crossed(dtype) ? k : g)]; }
uvec4 bytes_at(uint dtype, uint mr, uint g, uint k) {
    Unit unit = unit_with(dtype, mr, g, k);
    return half_at(dtype, g, k) == 0 ? unit.a : unit.b;
}
vec2 scale_at(uint dtype, uint mr, uint g, uint k) {
    Unit unit = unit_with(dtype, mr, g, k);
    return half_at(dtype, g, k) == 0 ? unit.sa : unit.sb;
}

// Sums of products of four words with the high bytes, and with the low ones. Two signed bytes are what every GPU multiplies fast:
// where q can be 128 or more, q - 128 is taken, and minimum() makes up for it, which leaves no minimum to most. What is xor-ed is no
// constant to the compiler, since many a GPU's instruction has room for one, and the mask before it is one.
ivec2 products(bool low_bytes, ivec4 high, ivec4 low, uvec4 q) {
    uint middle = 0x80808080u | (n_in >> 31);
    ivec2 n = ivec2(0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        int word = int(low_bytes ? q[i] : q[i] ^ middle);
        n.x += dotPacked4x8EXT(high[i], word);
        n.y += dotPacked4x8EXT(low[i], word);
    }
    return n;
}

float minimum(bool low_bytes, vec2 s) { return low_bytes ? s.y : s.y + 128 * s.x; }

// Adds item number `place` of shared memory, times the weights `now` of matrices from..to.
void multiply(uint dtype, uint from, uint to, uint place, float live) {
    [[unroll]] for (uint t = 0; t < NT; t++) {
        uint x0 = t * PARTS * ITEMS + place;
        if (is_integer(dtype)) {
            vec4 ends = xs[x0 + 4 * WIDE * ITEMS], fine = vec4(0);
            if (is_fine(dtype) && has_minimum(dtype)) fine = xs[x0 + (4 * WIDE + 1) * ITEMS];
            [[unroll]] for (uint g = 0; g < WIDE; g++) {
                ivec4 part[4];
                [[unroll]] for (uint i = 0; i < 4; i++) part[i] = floatBitsToInt(xs[x0 + (4 * g + i) * ITEMS]);
                bool low0 = is_low(dtype, half_at(dtype, g, 0)), low1 = is_low(dtype, half_at(dtype, g, 1));
                [[unroll]] for (uint mr = from * ROWS; mr < to * ROWS; mr++) {
                    ivec2 n0 = products(low0, part[0], part[1], bytes_at(dtype, mr, g, 0));
                    ivec2 n1 = products(low1, part[2], part[3], bytes_at(dtype, mr, g, 1));
                    vec2 s0 = scale_at(dtype, mr, g, 0), s1 = scale_at(dtype, mr, g, 1);
                    float sum;
                    if (is_fine(dtype)) {
                        sum = ends[2 * g] * (s0.x * float(256 * n0.x + n0.y) + s1.x * float(256 * n1.x + n1.y));
                        if (has_minimum(dtype)) sum += minimum(low0, s0) * fine[2 * g] + minimum(low1, s1) * fine[2 * g + 1];
                    } else {
                        n0 += n1;
                        sum = s0.x * (ends[2 * g] * float(256 * n0.x + n0.y));
                        if (has_minimum(dtype)) sum += minimum(low0, s0) * ends[2 * g + 1];
                    }
                    sums[mr * NT + t] += EXACT == 1 ? sum : live * sum;
                }
            }
            continue;
        }
        [[unroll]] for (uint g = 0; g < WIDE; g++) {
            [[unroll]] for (uint k = 0; k < 2; k++) {
                vec4 part[4];
                [[unroll]] for (uint i = 0; i < 4; i++) part[i] = xs[x0 + (8 * g + 4 * k + i) * ITEMS];
                float all = dot(part[0] + part[1] + part[2] + part[3], vec4(1));
                [[unroll]] for (uint mr = from * ROWS; mr < to * ROWS; mr++) {
                    float sum = 0;
                    if (is_float(dtype)) {
                        [[unroll]] for (uint i = 0; i < 4; i++) sum += dot(floats[(mr * WIDE + g) * 8 + 4 * k + i], part[i]);
                    } else {
                        uvec4 q = bytes_at(dtype, mr, g, k);
                        vec2 s = scale_at(dtype, mr, g, k);
                        [[unroll]] for (uint i = 0; i < 4; i++) sum += dot(raised(q[i]) - 1024.0, part[i]);
                        sum = s.x * sum + s.y * all;
                    }
                    sums[mr * NT + t] += EXACT == 1 ? sum : live * sum;
                }
            }
        }
    }
}

// One item of each of the rows `here`, those of x at `stage` in shared memory. Further ones get under way meanwhile, behind the last
// the first of `there`, if there are any.
void take_turn(uint dtype, uint from, uint to, uint turn, uint n_turns, bool has_next, uint stage) {
    float live = turn * TURN + lane() * WIDE < n_in / 32 ? 1.0 : 0.0;
    // What stands in for an item past the end is one that is in shared memory, and counts nothing.
    uint place = EXACT == 1 || live > 0 ? turn * LANES + lane() - stage : 0;
    if (is_float(dtype)) {
        multiply(dtype, from, to, place, live);
    } else {
        [[unroll]] for (uint m = from; m < to; m++) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                U8s matrix = m == 0 ? w : w2;
                uint mr = m * ROWS + r, row = here[mr] + turn_at(dtype, turn), u = unit_at(dtype, turn);
                [[unroll]] for (uint i = 0; i < WIDE; i++) {
                    Raw raw = raws[(turn % AHEAD * MATRICES * ROWS + mr) * WIDE + i];
                    now[mr * WIDE + i] = make_bytes(dtype, matrix, row, u + i, raw);
                }
            }
        }
    }
    // The next are under way while these are multiplied. A branch around the last loads, which come from the cache, costs more
    // than they do (H200: 8 %).
    uint next = turn + AHEAD;
    bool is_past = next >= n_turns;
    load_weights(dtype, from, to, is_past && has_next, is_past ? next - n_turns : next);
    // Or NVIDIA's compiler asks for them at the end, to have more registers. Not for lavapipe, which takes it for a barrier of the
    // workgroup, whose subgroups do not all make as many rows.
    if (HOLD == 1) subgroupBarrier();
    if (!is_float(dtype)) multiply(dtype, from, to, place, live);
}

// All items of the rows `here`. Few turns are unrolled, so that nothing under way has to change its place.
void walk(uint dtype, uint from, uint to, bool has_next, uint t0) {
    if (RESIDENT == 1 && TURNS <= 6) {
        [[unroll]] for (uint turn = 0; turn < TURNS; turn++) take_turn(dtype, from, to, turn, TURNS, has_next, 0);
        return;
    }
    uint n_turns = (n_in / 32 + TURN - 1) / TURN, stage = 0;
    for (uint turn = 0; turn < n_turns; turn++) {
        if (RESIDENT == 0 && turn * TURN % UNITS == 0) {
            barrier();
            bring_x(dtype, from, to, turn * TURN, t0);
            barrier();
            stage = turn * LANES;
        }
        take_turn(dtype, from, to, turn, n_turns, has_next, stage);
    }
}

float sum_of_lanes(float v) {
    if (LANES == SUBGROUP) return subgroupAdd(v);
    [[unroll]] for (uint m = 1; m < LANES; m *= 2) v += subgroupShuffleXor(v, m);
    return v;
}

// Makes what x is divided by. Waits for all that the workgroup has brought.
void roots() {
    [[unroll]] for (uint t = 0; t < NT; t++) {
        float sum = subgroupAdd(squares[t]);
        if (subgroupElect()) square_sums[t * SUBGROUPS + gl_SubgroupID] = sum;
    }
    barrier();
    [[unroll]] for (uint t = 0; t < NT; t++) {
        float sum = 0;
        [[unroll]] for (uint s = 0; s < SUBGROUPS; s++) sum += square_sums[t * SUBGROUPS + s];
        inverse[t] = inversesqrt(sum / float(n_in) + eps);
    }
}

// Asks for what is added to the outputs of the row group at `first`, so that nothing waits for it at the end.
void fetch_added(uint first, uint t0) {
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint o = min(first + r * (SUBGROUP / LANES) + gl_SubgroupInvocationID / LANES, n_out - 1);
        [[unroll]] for (uint t = 0; t < NT; t++) added[r * NT + t] = passed(other, min(t0 + t, rows_max - 1) * n_out + o);
    }
}

// Writes the outputs of the row group at `first`.
void finish(uint base, uint first, uint t0, uint n_tokens) {
    uint total = n_tokens * n_used, count = t0 < total ? min(NT, total - t0) : 0;
    [[unroll]] for (uint i = 0; i < MATRICES * ROWS * NT; i++) {
        sums[i] = sum_of_lanes(sums[i]);
        if (NORM == 1) sums[i] *= inverse[i % NT];
    }
    if (lane() != 0) return;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint o = first + r * (SUBGROUP / LANES) + gl_SubgroupInvocationID / LANES;
        if (o >= n_out) break;
        [[unroll]] for (uint t = 0; t < NT; t++) {
            if (t >= count) break;
            float v = sums[r * NT + t];
            uint at = (t0 + t) * n_out + o;
            if (EPILOGUE == 1 || EPILOGUE == 4) v += other.v[base + o];
            if (EPILOGUE == 2) v += added[r * NT + t];
            if (EPILOGUE >= 3) {
                float up = sums[(ROWS + r) * NT + t];
                if (EPILOGUE == 4) up += other2.v[base + o];
                v = gated(ACTIVATION, v, up, alpha, limit);
            }
            y.v[at] = v;
        }
    }
}

// The rows of outputs from `first` on, as those here or as the next.
void set_rows(uint base, uint first, bool is_next) {
    [[unroll]] for (uint m = 0; m < MATRICES; m++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            if (is_next) there[m * ROWS + r] = row_at(m, r, base, first);
            else here[m * ROWS + r] = row_at(m, r, base, first);
        }
    }
}

void work() {
    uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * MADE, t0 = gl_WorkGroupID.y * NT, base = 0;
    // Asked for before all else and needed at the end: rows past it hold anything, and nothing is written of them.
    uint n_tokens = n_rows(step, rows), id = EXPERTS != 0 ? ids.v[t0] : 0;
    if (EXPERTS != 0 || gl_WorkGroupID.y > 0) {
        if (t0 >= n_tokens * n_used) return;
        base = id * expert_rows;
    }
    [[unroll]] for (uint t = 0; t < NT; t++) squares[t] = 0;
    set_rows(base, first, false);
    if (is_early()) {
        fetch_norm(0);
        fetch_first(DTYPE, 0, MATRICES);
    }
    wait(chain, step);
    if (RESIDENT == 1) {
        bring_x(DTYPE, 0, MATRICES, 0, t0);
        if (NORM == 1) roots();
        else barrier();
    }
    uint apart = gl_NumWorkGroups.x * gl_NumSubgroups * MADE;
    while (true) {
        bool has_next = RESIDENT == 1 && first + apart < n_out;
        if (has_next) set_rows(base, first + apart, true);
        [[unroll]] for (uint i = 0; i < MATRICES * ROWS * NT; i++) sums[i] = 0;
        if (EPILOGUE == 2) fetch_added(first, t0);
        if (MATRICES == 2 && DTYPE != DTYPE2) {
            walk(DTYPE, 0, 1, has_next, t0);
            walk(DTYPE2, 1, 2, has_next, t0);
        } else {
            walk(DTYPE, 0, MATRICES, has_next, t0);
        }
        if (RESIDENT == 0 && NORM == 1) roots();
        finish(base, first, t0, n_tokens);
        if (!has_next) break;
        first += apart;
        [[unroll]] for (uint mr = 0; mr < MATRICES * ROWS; mr++) here[mr] = there[mr];
    }
}

void main() {
    work();
    arrive(chain);
}
