// Units of 32 weights of every storage type.
//
// A unit is two halves of 16 weights each, `a` and `b`, chosen so that the 16 bytes in which a four-bit type keeps two
// planes of nibbles are read once. A stored weight is s.x * q + s.y, of which little cancels, with q an unsigned byte and one pair
// s for each half, so that s can be applied to a sum of products. Types of fewer bits have theirs at the top of q, but those with
// minima where they are taken out most easily (is_low). F32, F16 and BF16 have no q.
// `dtype` is a specialization constant at every call, so one arm of each switch is left. Of Q8_0 and Q6_K there is a form in which
// eight blocks are taken apart: all their first parts, then all second parts, and so on (src/planes.rs), so that loads are aligned.
// An includer that masks q itself (own_bits) defines LOOSE as 1.
#ifndef LOOSE
#define LOOSE 0
#endif

const uint F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8;
const uint Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, IQ4_NL = 20, IQ4_XS = 23, BF16 = 30, MXFP4 = 39;
const uint IN_PLANES = 64, Q8_0_PLANES = Q8_0 + IN_PLANES, Q6_K_PLANES = Q6_K + IN_PLANES;

const uint NIBBLES = 0x0f0f0f0f, HIGH_NIBBLES = 0xf0f0f0f0u;
// The values of IQ4 plus 128, and 16 times those of FP4 plus 96, four to a word.
const uint IQ4_BYTES[4] = uint[](0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u);
const uint FP4_BYTES[4] = uint[](0x78706860u, 0xc0a09080u, 0x48505860u, 0x00203040u);

struct Unit {
    uvec4 a, b;   // q of 16 weights, four to a word
    vec2 sa, sb;
};

bool is_in_planes(uint dtype) { return dtype >= IN_PLANES; }
// The type, in whichever form.
uint type_of(uint dtype) { return dtype % IN_PLANES; }
bool is_float(uint dtype) { return dtype == F32 || dtype == F16 || dtype == BF16; }

// Where the halves of unit u are in the row, in sixteens of columns.
uvec2 halves(uint dtype, uint u) {
    uint j = u & 7;
    if (dtype == Q4_K || dtype == Q5_K) return uvec2(2 * (u & ~1u) + (j & 1)) + uvec2(0, 2);
    if (type_of(dtype) == Q6_K) return uvec2(16 * (u >> 3) + 8 * (j >> 2) + (j & 3)) + uvec2(0, 4);
    return uvec2(2 * u, 2 * u + 1);
}
// The unit that holds sixteen c of the row, and whether it is its half b.
uvec2 unit_of(uint dtype, uint c) {
    if (dtype == Q4_K || dtype == Q5_K) return uvec2(2 * (c >> 2) + (c & 1), (c >> 1) & 1);
    if (type_of(dtype) == Q6_K) return uvec2(4 * (c >> 3) + (c & 3), (c >> 2) & 1);
    return uvec2(c >> 1, c & 1);
}

uint u8_at(U8s p, uint i) { return uint(p.v[i]); }
uint u16_at(U8s p, uint i) { return uint(U16s(p).v[i >> 1]); }
uint u32_at(U8s p, uint i) { return U32s(p).v[i >> 2]; }
uvec4 u128_at(U8s p, uint i) { return UVec4s(p).v[i >> 4]; }
float half_of(uint bits) { return unpackHalf2x16(bits).x; }

// What a unit is made of, as it lies in memory: loading and making are two steps, so that other work fits between.
struct Raw {
    uvec4 q, h;  // 16 bytes each, from the word in which they begin
    uvec2 more;  // the word behind each of them, if they do not begin a word
    uvec4 s;     // scales
};

// 16 bytes at any offset, for align16.
void load16(U8s p, uint i, out uvec4 v, out uint more) {
    uint word = i >> 2;
    v = uvec4(U32s(p).v[word], U32s(p).v[word + 1], U32s(p).v[word + 2], U32s(p).v[word + 3]);
    more = (i & 3) == 0 ? 0 : U32s(p).v[word + 4];
}
uvec4 align16(uint i, uvec4 v, uint more) {
    uint shift = 8 * (i & 3);
    if (shift == 0) return v;
    return (v >> shift) | (uvec4(v.yzw, more) << (32 - shift));
}

// The bytes that a table of 16, in four words, has for four nibbles.
uint look_up(uint table[4], uint nibbles) {
    uint found = 0;
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint n = (nibbles >> (8 * k)) & 15;
        found |= ((table[n >> 2] >> (8 * (n & 3))) & 255) << (8 * k);
    }
    return found;
}
uvec4 look_up(uint table[4], uvec4 n) {
    return uvec4(look_up(table, n.x), look_up(table, n.y), look_up(table, n.z), look_up(table, n.w));
}

// Bits first..first + 15 of `high` as bit 0 of 16 bytes.
uvec4 fifth_bits(uint high, uint first) {
    uvec4 bits = (uvec4(high) >> (first + uvec4(0, 4, 8, 12))) & 15;
    return bits * 0x00204081u & 0x01010101u;
}

// Where unit u of the row that begins at byte `row` has its block, and the first 16 bytes of its q. In planes: its eight blocks.
uvec2 place_of(uint dtype, uint row, uint u) {
    uint j = u & 7, block;
    switch (dtype) {
    case Q4_0: case IQ4_NL: block = row + 18 * u; return uvec2(block, block + 2);
    case Q4_1: block = row + 20 * u; return uvec2(block, block + 4);
    case Q5_0: block = row + 22 * u; return uvec2(block, block + 6);
    case Q5_1: block = row + 24 * u; return uvec2(block, block + 8);
    case Q8_0: block = row + 34 * u; return uvec2(block, block + 2);
    case MXFP4: block = row + 17 * u; return uvec2(block, block + 1);
    case Q4_K: block = row + 144 * (u >> 3); return uvec2(block, block + 16 + 16 * j);
    case Q5_K: block = row + 176 * (u >> 3); return uvec2(block, block + 48 + 16 * j);
    case Q6_K: block = row + 210 * (u >> 3); return uvec2(block, block + 64 * (j >> 2) + 16 * (j & 3));
    case Q2_K: block = row + 84 * (u >> 3); return uvec2(block, block + 16 + 32 * (j >> 2));
    case Q3_K: block = row + 110 * (u >> 3); return uvec2(block, block + 32 + 32 * (j >> 2));
    case IQ4_XS: block = row + 136 * (u >> 3); return uvec2(block, block + 8 + 16 * j);
    case Q8_0_PLANES: block = row + 272 * (u >> 3); return uvec2(block, block + 32 * j);
    case Q6_K_PLANES: block = row + 1680 * (u >> 6); return uvec2(block, block + 128 * (u >> 3 & 7) + 64 * (j >> 2) + 16 * (j & 3));
    }
    return uvec2(0);
}
// Where the 16 bytes h are: more bits, or the second half of q.
uint high_of(uint dtype, uvec2 place, uint u) {
    uint j = u & 7;
    if (dtype == Q6_K) return place.x + 128 + 32 * (j >> 2) + 16 * (j & 1);
    if (dtype == Q6_K_PLANES) return place.x + 1024 + 64 * (u >> 3 & 7) + 32 * (j >> 2) + 16 * (j & 1);
    if (dtype == Q5_K) return place.x + 16 + 16 * (j & 1);
    return place.y + 16;
}

// Where Q6_K has the eight scales of the half of a block that unit u is in, and d.
uvec2 scales_of(uint dtype, uint block, uint u) {
    uint half_of_it = 8 * ((u & 7) >> 2), i = u >> 3 & 7;
    if (is_in_planes(dtype)) return uvec2(block + 1536 + 16 * i + half_of_it, block + 1664 + 2 * i);
    return uvec2(block + 192 + half_of_it, block + 208);
}

Raw load_raw(uint dtype, U8s p, uint row, uint u) {
    Raw raw;
    uvec2 place = place_of(dtype, row, u);
    uint block = place.x, high = high_of(dtype, place, u), j = u & 7;
    if (dtype == Q4_K || dtype == Q5_K) {
        raw.s = u128_at(p, block);
        raw.q = u128_at(p, place.y);
        if (dtype == Q5_K) raw.h = u128_at(p, high);
        return raw;
    }
    if (is_in_planes(dtype)) {
        raw.q = u128_at(p, place.y);
        raw.h = u128_at(p, high);
    } else {
        load16(p, place.y, raw.q, raw.more.x);
        if (dtype == Q8_0 || dtype == Q6_K || dtype == Q2_K || dtype == Q3_K) load16(p, high, raw.h, raw.more.y);
    }
    switch (type_of(dtype)) {
    case Q4_0: case IQ4_NL: raw.s.x = u16_at(p, block); break;
    case Q8_0: raw.s.x = u16_at(p, is_in_planes(dtype) ? block + 256 + 2 * j : block); break;
    case Q4_1: raw.s.x = u32_at(p, block); break;
    case Q5_0: raw.s = uvec4(u16_at(p, block), 0, u16_at(p, block + 2), u16_at(p, block + 4)); break;
    case Q5_1: raw.s = uvec4(u16_at(p, block), u16_at(p, block + 2), u16_at(p, block + 4), u16_at(p, block + 6)); break;
    case MXFP4: raw.s.x = u8_at(p, block); break;
    case Q6_K: {
        uvec2 scales = scales_of(dtype, block, u);
        raw.s = uvec4(u16_at(p, scales.y), u8_at(p, scales.x + (j & 3)), u8_at(p, scales.x + (j & 3) + 4), 0);
        break;
    }
    case Q2_K: raw.s = uvec4(u32_at(p, block + 80), u16_at(p, block + 2 * u % 16), 0, 0); break;
    case Q3_K: {
        // Scales 2 j and 2 j + 1: four low bits of a byte each, two high bits of another.
        uint first = 2 * j, at = block + 96;
        raw.s = uvec4(u16_at(p, block + 108), u16_at(p, at + (first & 7)), u16_at(p, at + 8 + (first & 3)), 0);
        break;
    }
    case IQ4_XS: raw.s = uvec4(u16_at(p, block), u16_at(p, block + 2), u8_at(p, block + 4 + (j >> 1)), 0); break;
    }
    return raw;
}

// Units u and u + 1, u even: what both are made of is loaded once.
void load_raws(uint dtype, U8s p, uint row, uint u, out Raw even, out Raw odd) {
    odd = load_raw(dtype, p, row, u + 1);
    if (dtype != Q4_K && dtype != Q5_K && type_of(dtype) != Q6_K) {
        even = load_raw(dtype, p, row, u);
        return;
    }
    uvec2 place = place_of(dtype, row, u);
    uint high = high_of(dtype, place, u);
    if (type_of(dtype) == Q6_K) {
        uint scale = scales_of(dtype, place.x, u).x + (u & 3);
        uint a = u16_at(p, scale), b = u16_at(p, scale + 4);
        even.s = uvec4(odd.s.x, a & 255, b & 255, 0);
        odd.s = uvec4(odd.s.x, a >> 8, b >> 8, 0);
        if (is_in_planes(dtype)) {
            even.q = u128_at(p, place.y);
            even.h = u128_at(p, high);
            return;
        }
        // The second sixteen bytes begin where the first end.
        uint word = place.y >> 2;
        even.q = uvec4(U32s(p).v[word], U32s(p).v[word + 1], U32s(p).v[word + 2], U32s(p).v[word + 3]);
        word = high >> 2;
        even.h = uvec4(U32s(p).v[word], U32s(p).v[word + 1], U32s(p).v[word + 2], U32s(p).v[word + 3]);
        even.more = uvec2(odd.q.x, odd.h.x);
        return;
    }
    even.s = odd.s;
    even.q = u128_at(p, place.y);
    if (dtype == Q5_K) even.h = u128_at(p, high);
}

// Unit u of the row that begins at byte `row`, from what was loaded of it. Q3_K needs 32 more bytes, its mask, from memory.
Unit make_bytes(uint dtype, U8s p, uint row, uint u, Raw raw) {
    Unit w;
    uvec2 place = place_of(dtype, row, u);
    uint high = high_of(dtype, place, u), j = u & 7;
    uvec4 q = raw.q, h = raw.h;
    if (dtype != Q4_K && dtype != Q5_K && !is_in_planes(dtype)) q = align16(place.y, q, raw.more.x);
    if (dtype == Q8_0 || dtype == Q6_K || dtype == Q2_K || dtype == Q3_K) h = align16(high, h, raw.more.y);
    switch (type_of(dtype)) {
    case Q4_0: case IQ4_NL: {
        float d = half_of(raw.s.x);
        w.a = dtype == Q4_0 ? (q << 4) & HIGH_NIBBLES : look_up(IQ4_BYTES, q & NIBBLES);
        w.b = dtype == Q4_0 ? q & HIGH_NIBBLES : look_up(IQ4_BYTES, (q >> 4) & NIBBLES);
        w.sa = w.sb = d * (dtype == Q4_0 ? vec2(1.0 / 16, -8) : vec2(1, -128));
        return w;
    }
    case Q4_1:
        w.a = q & NIBBLES;
        w.b = (q >> 4) & NIBBLES;
        w.sa = w.sb = unpackHalf2x16(raw.s.x);
        return w;
    case Q5_0: case Q5_1: {
        uint bits = raw.s.z | (raw.s.w << 16);
        w.a = (q & NIBBLES) | (fifth_bits(bits, 0) << 4);
        w.b = ((q >> 4) & NIBBLES) | (fifth_bits(bits, 16) << 4);
        float d = half_of(raw.s.x);
        w.sa = w.sb = vec2(d, half_of(raw.s.y));
        if (dtype == Q5_1) return w;
        w.a <<= 3;
        w.b <<= 3;
        w.sa = w.sb = vec2(d / 8, -16.0 * d);
        return w;
    }
    case Q8_0:
        w.a = q ^ 0x80808080u;
        w.b = h ^ 0x80808080u;
        w.sa = w.sb = half_of(raw.s.x) * vec2(1, -128);
        return w;
    case MXFP4: {
        uint e = raw.s.x;
        w.a = look_up(FP4_BYTES, q & NIBBLES);
        w.b = look_up(FP4_BYTES, (q >> 4) & NIBBLES);
        // 2^(e - 127): two arms, because it may be below the smallest normal number.
        float d = e == 0 ? uintBitsToFloat(0x00400000u) : uintBitsToFloat(e << 23);
        w.sa = w.sb = d * vec2(1.0 / 16, -6);
        return w;
    }
    case Q4_K: case Q5_K: {
        uint pair = j >> 1;
        w.a = LOOSE == 1 && dtype == Q4_K ? q : q & NIBBLES;
        w.b = dtype == Q4_K ? (LOOSE == 1 ? q : q & HIGH_NIBBLES) : (q >> 4) & NIBBLES;
        if (dtype == Q5_K) {
            h >>= 2 * pair;
            w.a |= (h & 0x01010101u) << 4;
            w.b |= (h & 0x02020202u) << 3;
        }
        // Twelve bytes hold eight scales and eight minima of six bits.
        uvec3 part = raw.s.yzw >> (16 * (pair & 1));
        uint scales = pair < 2 ? part.x & 0x3f3f : (part.z & 0x0f0f) | ((part.x >> 2) & 0x3030);
        uint minima = pair < 2 ? part.y & 0x3f3f : ((part.z >> 4) & 0x0f0f) | ((part.y >> 2) & 0x3030);
        vec2 d = unpackHalf2x16(raw.s.x) * vec2(1, -1);
        w.sa = d * vec2(scales & 255, minima & 255);
        w.sb = d * vec2(dtype == Q4_K ? 1.0 / 16 : 1.0, 1) * vec2((scales >> 8) & 255, (minima >> 8) & 255);
        return w;
    }
    case Q6_K: {
        h >>= 2 * ((j >> 1) & 1);
        w.a = ((q & NIBBLES) << 2) | ((h & 0x03030303u) << 6);
        w.b = ((q >> 2) & (NIBBLES << 2)) | ((h & 0x30303030u) << 2);
        float d = half_of(raw.s.x);
        w.sa = d * float(int8_t(raw.s.y)) * vec2(0.25, -32);
        w.sb = d * float(int8_t(raw.s.z)) * vec2(0.25, -32);
        return w;
    }
    case Q2_K: {
        w.a = (q >> (2 * (j & 3))) & 0x03030303u;
        w.b = (h >> (2 * (j & 3))) & 0x03030303u;
        vec2 d = unpackHalf2x16(raw.s.x) * vec2(1, -1);
        w.sa = d * vec2(raw.s.y & 15, (raw.s.y >> 4) & 15);
        w.sb = d * vec2((raw.s.y >> 8) & 15, raw.s.y >> 12);
        return w;
    }
    case Q3_K: {
        uvec4 mask_a, mask_b;
        uint more_a, more_b;
        load16(p, place.x, mask_a, more_a);
        load16(p, place.x + 16, mask_b, more_b);
        mask_a = align16(place.x, mask_a, more_a) >> j;
        mask_b = align16(place.x + 16, mask_b, more_b) >> j;
        w.a = (((q >> (2 * (j & 3))) & 0x03030303u) << 5) | ((mask_a & 0x01010101u) << 7);
        w.b = (((h >> (2 * (j & 3))) & 0x03030303u) << 5) | ((mask_b & 0x01010101u) << 7);
        uint low = (j < 4 ? raw.s.y : raw.s.y >> 4) & 0x0f0f, upper = (raw.s.z >> (2 * (j >> 1))) & 0x0303;
        uint scales = low | (upper << 4);
        float d = half_of(raw.s.x);
        w.sa = d * float(int(scales & 255) - 32) * vec2(1.0 / 32, -4);
        w.sb = d * float(int(scales >> 8) - 32) * vec2(1.0 / 32, -4);
        return w;
    }
    case IQ4_XS: {
        w.a = look_up(IQ4_BYTES, q & NIBBLES);
        w.b = look_up(IQ4_BYTES, (q >> 4) & NIBBLES);
        uint low = (raw.s.z >> (4 * (j & 1))) & 15, upper = (raw.s.y >> (2 * j)) & 3;
        w.sa = w.sb = half_of(raw.s.x) * float(int(low | (upper << 4)) - 32) * vec2(1, -128);
        return w;
    }
    }
    return w;
}

// 1024 + q of four weights: q is the mantissa of an f16, since a conversion of integers is slow on some GPUs.
vec4 raised(uint q) {
    vec2 even = unpackHalf2x16((q & 0x00ff00ffu) | 0x64006400u), odd = unpackHalf2x16(((q >> 8) & 0x00ff00ffu) | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// What is taken from q of types without a minimum of their own, so that s.y = -s.x * centre; 0 for others.
float centre(uint dtype) {
    if (dtype == Q4_1 || dtype == Q5_1 || dtype == Q2_K || dtype == Q4_K || dtype == Q5_K) return 0.0;
    return dtype == MXFP4 ? 96.0 : 128.0;
}

// Whether q of half a (0) or b (1) is less than 32.
bool is_low(uint dtype, uint half_of_it) { return centre(dtype) == 0.0 && (dtype != Q4_K || half_of_it == 0); }

// The bits of every second byte of q that are its own: where LOOSE, Q4_K leaves both nibbles there, so that one mask does for all.
uint own_bits(uint dtype, uint half_of_it) {
    if (LOOSE == 0 || dtype != Q4_K) return 0x00ff00ffu;
    return half_of_it == 0 ? 0x000f000fu : 0x00f000f0u;
}

// Bytes of 256 weights.
uint bytes_of(uint dtype) {
    switch (type_of(dtype)) {
    case F32: return 1024;
    case F16: case BF16: return 512;
    case Q8_0: return 272;
    case Q6_K: return 210;
    case Q5_1: return 192;
    case Q5_0: case Q5_K: return 176;
    case Q4_1: return 160;
    case Q4_0: case Q4_K: case IQ4_NL: return 144;
    case IQ4_XS: case MXFP4: return 136;
    case Q3_K: return 110;
    case Q2_K: return 84;
    }
    return 0;
}

// Four weights of a type without q, from column i of the row that begins at byte `row`.
vec4 load_floats(uint dtype, U8s p, uint row, uint i) {
    if (dtype == F32) return Vec4s(p).v[(row >> 4) + (i >> 2)];
    uvec2 bits = uvec2(u32_at(p, row + 2 * i), u32_at(p, row + 2 * i + 4));
    if (dtype == F16) return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
    return uintBitsToFloat(uvec4(bits.x << 16, bits.x & 0xffff0000u, bits.y << 16, bits.y & 0xffff0000u));
}
