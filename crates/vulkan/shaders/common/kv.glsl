// Keys and values in the cache: their formats, and the rows of the one in bytes.
//
// KV_Q8: the row of a token has the signed bytes of all its heads' columns, then a scale in f16 for every 32 of them, up to a
// multiple of 16 bytes: x = scale * byte, which stays within f16.

const uint KV_F32 = 0, KV_F16 = 1, KV_Q8 = 2;
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer UVec2s { uvec2 v[]; };

uint q8_row_bytes(uint width) { return (width + width / 16 + 15) / 16 * 16; }

// Eight columns of the row at byte `row`, and the bits of their scale.
uvec3 q8_load(U8s cache, uint row, uint width, uint column) {
    return uvec3(UVec2s(cache).v[(row + column) / 8], uint(U16s(cache).v[(row + width) / 2 + column / 32]));
}

// Four columns of them.
vec4 q8_columns(uint bytes, uint scale) { return unpackHalf2x16(scale).x * vec4(unpack8(int(bytes))); }

// The nearest multiples of the scale. A quotient may be off by more than its last bit, so what is left over decides.
uint q8_bytes(vec4 x, float scale) {
    if (scale == 0.0) return 0;
    vec4 steps = roundEven(clamp(x / scale, -127.0, 127.0));
    vec4 rest = x - steps * scale;
    steps += mix(vec4(0), sign(rest), greaterThan(abs(rest), vec4(0.5 * scale)));
    return uint(pack32(i8vec4(clamp(steps, -127.0, 127.0))));
}

// Eight columns as bytes, and the bits of their scale; four lanes side by side have the 32 of a scale.
uvec3 q8_of(vec4 a, vec4 b) {
    vec4 both = max(abs(a), abs(b));
    float most = max(max(both.x, both.y), max(both.z, both.w));
    most = max(most, subgroupShuffleXor(most, 1));
    most = max(most, subgroupShuffleXor(most, 2));
    uint bits = uint(float16BitsToUint16(float16_t(min(most * (1.0 / 127.0), 515.5))));
    // The neighbour has the same. What comes from it, no compiler takes for the number before it was rounded; one did.
    bits = subgroupShuffleXor(bits, 1);
    float scale = unpackHalf2x16(bits).x;
    return uvec3(q8_bytes(a, scale), q8_bytes(b, scale), bits);
}

// Puts them at `column` of the row at byte `row`.
void q8_store(U8s cache, uint row, uint width, uint column, uvec3 bytes) {
    UVec2s(cache).v[(row + column) / 8] = bytes.xy;
    if (column % 32 == 0) U16s(cache).v[(row + width) / 2 + column / 32] = uint16_t(bytes.z);
}
