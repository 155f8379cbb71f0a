// Weights and x as matrix cores take them: eight halves in four words. The includer has included dequant.glsl and the parameters.

#define BOUNDED(v) clamp(v, -65504.0, 65504.0)
// Of weights and of x, four columns lie in the order 0, 2, 1, 3: that of the bytes which one mask takes out of a word.
uvec2 halves_of(vec4 v) { return uvec2(packFloat2x16(f16vec2(v.xz)), packFloat2x16(f16vec2(v.yw))); }
uvec2 in_order(uvec2 v) { return uvec2((v.x & 0xffffu) | (v.y << 16), (v.x >> 16) | (v.y & 0xffff0000u)); }
#define IN_ORDER(v) uvec4(in_order(v.xy), in_order(v.zw))

// Eight weights s.x q + s.y, of a half of a unit, made in f16: q is the mantissa of 64 + q / 16 if it is low, else of 4 + q / 256, so that
// the factor, 16 or 256 s.x, is of the weights' own size and has all its bits. What is or-ed is no constant to the compiler, since many
// a GPU's instruction has room for one, and the mask is one already.
uvec4 weights_of(uint dtype, uint half_of_it, uvec2 q, vec2 s) {
    bool low = is_low(dtype, half_of_it);
    uint base = (low ? 0x54005400u : 0x44004400u) | (n_in >> 31);
    f16vec2 offset = f16vec2(low ? 64.0 : 4.0), minimum = f16vec2(float16_t(s.y));
    f16vec2 factor = f16vec2(float16_t((low ? 16.0 : 256.0) * s.x));
    uvec4 bytes = (uvec4(q.x, q.x >> 8, q.y, q.y >> 8) & own_bits(dtype, half_of_it)) | base;
    uvec4 made;
    [[unroll]] for (uint i = 0; i < 4; i++) made[i] = packFloat2x16(fma(unpackFloat2x16(bytes[i]) - offset, factor, minimum));
    return made;
}
