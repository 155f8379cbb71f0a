// Units of 32 weights of every storage type, as f32.
//
// A unit is what one lane takes at a time: 16 weights that begin at column `a` of the row and 16 that
// begin at column `b`, chosen so that a four-bit type is read 16 bytes at a time. `dtype` is a
// specialization constant at every call, so one arm of each switch is left.

const uint F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8;
const uint Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, IQ4_NL = 20, IQ4_XS = 23, BF16 = 30, MXFP4 = 39;

const float IQ4_VALUES[16] = float[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const float FP4_VALUES[16] = float[](0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6);

uint u8_at(U8s p, uint i) { return uint(p.v[i]); }
uint u16_at(U8s p, uint i) { return uint(U16s(p).v[i >> 1]); }
// Four bytes at an even offset.
uint u32_at2(U8s p, uint i) { return u16_at(p, i) | (u16_at(p, i + 2) << 16); }
float half_at(U8s p, uint i) { return float(F16s(p).v[i >> 1]); }

// Scale and minimum `j` of Q4_K and Q5_K: twelve bytes of six-bit numbers.
uvec2 k_scale_min(U8s p, uint at, uint j) {
    if (j < 4) return uvec2(u8_at(p, at + j) & 63, u8_at(p, at + j + 4) & 63);
    uint low = u8_at(p, at + j + 4);
    return uvec2((low & 15) | ((u8_at(p, at + j - 4) >> 6) << 4), (low >> 4) | ((u8_at(p, at + j) >> 6) << 4));
}

// Scale `j` of Q3_K: six bits, less 32.
float q3_scale(U8s p, uint at, uint j) {
    uint low = u8_at(p, at + (j & 7));
    low = j < 8 ? low & 15 : low >> 4;
    uint high = (u8_at(p, at + 8 + (j & 3)) >> (2 * (j >> 2))) & 3;
    return float(int(low | (high << 4)) - 32);
}

// Unit `u` of the row that begins at byte `row`.
void load_unit(uint dtype, U8s p, uint row, uint u, out float w[32], out uint a, out uint b) {
    a = 32 * u;
    b = a + 16;
    switch (dtype) {
    case F32:
        [[unroll]] for (uint i = 0; i < 32; i++) w[i] = F32s(p).v[(row >> 2) + a + i];
        return;
    case F16:
        [[unroll]] for (uint i = 0; i < 32; i++) w[i] = float(F16s(p).v[(row >> 1) + a + i]);
        return;
    case BF16:
        [[unroll]] for (uint i = 0; i < 32; i++) w[i] = uintBitsToFloat(uint(U16s(p).v[(row >> 1) + a + i]) << 16);
        return;
    case Q4_0: case IQ4_NL: {
        uint at = row + 18 * u;
        float d = half_at(p, at);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            uint q = u16_at(p, at + 2 + 2 * i);
            [[unroll]] for (uint k = 0; k < 2; k++) {
                uint low = (q >> (8 * k)) & 15, high = (q >> (8 * k + 4)) & 15;
                w[2 * i + k] = d * (dtype == Q4_0 ? float(low) - 8.0 : IQ4_VALUES[low]);
                w[16 + 2 * i + k] = d * (dtype == Q4_0 ? float(high) - 8.0 : IQ4_VALUES[high]);
            }
        }
        return;
    }
    case Q4_1: {
        uint at = row + 20 * u;
        uint dm = U32s(p).v[at >> 2];
        vec2 s = unpackHalf2x16(dm);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uint q = U32s(p).v[(at >> 2) + 1 + i];
            [[unroll]] for (uint k = 0; k < 4; k++) {
                w[4 * i + k] = fma(s.x, float((q >> (8 * k)) & 15), s.y);
                w[16 + 4 * i + k] = fma(s.x, float((q >> (8 * k + 4)) & 15), s.y);
            }
        }
        return;
    }
    case Q5_0: case Q5_1: {
        uint at = row + (dtype == Q5_0 ? 22 : 24) * u;
        float d = half_at(p, at), m = dtype == Q5_0 ? -16.0 * d : half_at(p, at + 2);
        uint head = dtype == Q5_0 ? 2 : 4;
        uint high = u32_at2(p, at + head);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            uint q = u16_at(p, at + head + 4 + 2 * i);
            [[unroll]] for (uint k = 0; k < 2; k++) {
                uint e = 2 * i + k;
                w[e] = fma(d, float(((q >> (8 * k)) & 15) | (((high >> e) & 1) << 4)), m);
                w[16 + e] = fma(d, float(((q >> (8 * k + 4)) & 15) | (((high >> (e + 16)) & 1) << 4)), m);
            }
        }
        return;
    }
    case Q8_0: {
        uint at = row + 34 * u;
        float d = half_at(p, at);
        [[unroll]] for (uint i = 0; i < 16; i++) {
            uint q = u16_at(p, at + 2 + 2 * i);
            w[2 * i] = d * float(int8_t(q & 255));
            w[2 * i + 1] = d * float(int8_t(q >> 8));
        }
        return;
    }
    case MXFP4: {
        uint at = row + 17 * u;
        uint e = u8_at(p, at);
        float d = e == 0 ? uintBitsToFloat(0x00400000u) : uintBitsToFloat(e << 23);
        [[unroll]] for (uint i = 0; i < 16; i++) {
            uint q = u8_at(p, at + 1 + i);
            w[i] = d * FP4_VALUES[q & 15];
            w[16 + i] = d * FP4_VALUES[q >> 4];
        }
        return;
    }
    case Q4_K: case Q5_K: {
        uint j = u & 7, pair = j >> 1, h = j & 1;
        uint block = row + (dtype == Q4_K ? 144 : 176) * (u >> 3);
        vec2 s = unpackHalf2x16(U32s(p).v[block >> 2]);
        uvec2 low = k_scale_min(p, block + 4, 2 * pair), high = k_scale_min(p, block + 4, 2 * pair + 1);
        float d0 = s.x * float(low.x), m0 = s.y * float(low.y), d1 = s.x * float(high.x), m1 = s.y * float(high.y);
        uvec4 q = UVec4s(p).v[(block + (dtype == Q4_K ? 16 : 48) + 16 * j) >> 4];
        uvec4 f = dtype == Q5_K ? UVec4s(p).v[(block + 16 + 16 * h) >> 4] : uvec4(0);
        a = 256 * (u >> 3) + 64 * pair + 16 * h;
        b = a + 32;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            [[unroll]] for (uint k = 0; k < 4; k++) {
                uint bits = f[i] >> (8 * k + 2 * pair);
                w[4 * i + k] = fma(d0, float(((q[i] >> (8 * k)) & 15) | ((bits & 1) << 4)), -m0);
                w[16 + 4 * i + k] = fma(d1, float(((q[i] >> (8 * k + 4)) & 15) | ((bits & 2) << 3)), -m1);
            }
        }
        return;
    }
    case Q6_K: {
        uint j = u & 7, n = j >> 2, half_row = (j >> 1) & 1, h = j & 1;
        uint block = row + 210 * (u >> 3);
        float d = half_at(p, block + 208);
        uint sc = block + 192 + 8 * n + 2 * half_row + h;
        float d0 = d * float(int8_t(u8_at(p, sc))), d1 = d * float(int8_t(u8_at(p, sc + 4)));
        uint ql = block + 64 * n + 32 * half_row + 16 * h, qh = block + 128 + 32 * n + 16 * h;
        a = 256 * (u >> 3) + 128 * n + 32 * half_row + 16 * h;
        b = a + 64;
        [[unroll]] for (uint i = 0; i < 8; i++) {
            uint q = u16_at(p, ql + 2 * i), f = u16_at(p, qh + 2 * i) >> (2 * half_row);
            [[unroll]] for (uint k = 0; k < 2; k++) {
                w[2 * i + k] = d0 * (float(((q >> (8 * k)) & 15) | (((f >> (8 * k)) & 3) << 4)) - 32.0);
                w[16 + 2 * i + k] = d1 * (float(((q >> (8 * k + 4)) & 15) | (((f >> (8 * k + 4)) & 3) << 4)) - 32.0);
            }
        }
        return;
    }
    case Q2_K: case Q3_K: {
        uint j = u & 7, n = j >> 2, shift = 2 * (j & 3);
        uint block = row + (dtype == Q2_K ? 84 : 110) * (u >> 3);
        uint qs = block + (dtype == Q2_K ? 16 : 32) + 32 * n;
        float d = half_at(p, block + (dtype == Q2_K ? 80 : 108));
        float dmin = dtype == Q2_K ? half_at(p, block + 82) : 0.0;
        a = 256 * (u >> 3) + 128 * n + 16 * shift;
        b = a + 16;
        [[unroll]] for (uint h = 0; h < 2; h++) {
            uint is = 8 * n + shift + h;
            uint sc = dtype == Q2_K ? u8_at(p, block + is) : 0;
            float scale = dtype == Q2_K ? d * float(sc & 15) : d * q3_scale(p, block + 96, is);
            float low = dmin * float(sc >> 4);
            [[unroll]] for (uint i = 0; i < 16; i++) {
                uint q = (u8_at(p, qs + 16 * h + i) >> shift) & 3;
                uint set = dtype == Q3_K ? (u8_at(p, block + 16 * h + i) >> (4 * n + (j & 3))) & 1 : 1;
                w[16 * h + i] = dtype == Q2_K ? fma(scale, float(q), -low) : scale * (float(q) - (set == 1 ? 0.0 : 4.0));
            }
        }
        return;
    }
    case IQ4_XS: {
        uint j = u & 7, block = row + 136 * (u >> 3);
        uint low = (u8_at(p, block + 4 + (j >> 1)) >> (4 * (j & 1))) & 15;
        uint high = (u16_at(p, block + 2) >> (2 * j)) & 3;
        float d = half_at(p, block) * float(int(low | (high << 4)) - 32);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            uint q = u16_at(p, block + 8 + 16 * j + 2 * i);
            [[unroll]] for (uint k = 0; k < 2; k++) {
                w[2 * i + k] = d * IQ4_VALUES[(q >> (8 * k)) & 15];
                w[16 + 2 * i + k] = d * IQ4_VALUES[(q >> (8 * k + 4)) & 15];
            }
        }
        return;
    }
    }
}
