// Sine and cosine to about 1e-7, for angles below 2^23. The driver's own may be off by 2^-11 (Vulkan, "Precision of
// GLSL.std.450 instructions"), which a rotary embedding shows at position 4,000.
//
// The angle becomes q pi/2 + x, |x| <= pi/4, in integers: the usual subtraction of pi/2 in parts needs a fused
// multiply-add, and Vulkan allows `fma` to round twice. The 24 bits of the angle times the first 64 of 2/pi give the
// number of quarter turns with all bits that matter. The polynomials are least-maximum fits up to pi/4.

void sin_cos(float angle, out float s, out float c) {
    float x = abs(angle);
    uint quadrant = 0;
    if (x >= 0.75) {
        // x = mantissa / 2^shift, shift from 1 to 24.
        uint bits = floatBitsToUint(x), mantissa = (bits & 0x7fffffu) | 0x800000u, shift = 150 - (bits >> 23);
        uint whole, part, more, rest, carry;
        umulExtended(mantissa, 0xa2f9836eu, whole, part);
        umulExtended(mantissa, 0x4e441529u, more, rest);
        part = uaddCarry(part, more, carry);
        whole += carry;
        uint fraction = (whole << (32 - shift)) | (part >> shift);
        quadrant = (whole >> shift) + (fraction >> 31);
        x = float(int(fraction)) * 3.657295198167899e-10;
    }
    float z = x * x;
    float sine = fma(x * z, fma(z, fma(z, -1.9494950538501143e-4, 8.331973105669022e-3), -0.16666650772094727), x);
    float cosine =
        fma(z * z, fma(z, fma(z, 2.4437729734927416e-5, -1.388736185617745e-3), 4.166664555668831e-2), fma(z, -0.5, 1.0));
    s = (quadrant & 1) == 1 ? cosine : sine;
    c = (quadrant & 1) == 1 ? sine : cosine;
    if (((quadrant & 2) != 0) != (angle < 0)) s = -s;
    if (((quadrant + 1) & 2) != 0) c = -c;
}
