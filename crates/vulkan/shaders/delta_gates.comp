// g[t][h] = a[h] ln(1 + exp(alpha[t][h] + dt[h])), beta[t][h] = sigmoid(b[t][h])
// Axes: t rows, h value heads. Launch: (heads / WORKGROUP, rows). Bytes: alpha, b, g and beta once.
#version 460
#include "common/zinc.glsl"

#include "common/params/delta_gates.glsl"

// ln(1 + x) for 0 <= x <= 1, as 2 artanh(s): the driver's log is only good to 2^-21 near 1.
float log_1p(float x) {
    float s = x / (2.0 + x), z = s * s;
    float p = fma(z, fma(z, fma(z, 1.0 / 15.0, 1.0 / 13.0), 1.0 / 11.0), 1.0 / 9.0);
    p = fma(z, fma(z, fma(z, p, 1.0 / 7.0), 1.0 / 5.0), 1.0 / 3.0);
    return 2.0 * fma(s * z, p, s);
}

void main() {
    uint t = gl_WorkGroupID.y, h = gl_GlobalInvocationID.x, at = t * n_heads + h;
    if (h >= n_heads) return;
    uint n_there = n_rows(step, rows); // asked for together with the rest
    float x = alpha.v[at] + dt.v[h], of_a = a.v[h], of_b = b.v[at];
    if (t >= n_there) return;
    g.v[at] = of_a * (max(x, 0.0) + log_1p(exp(-abs(x))));
    beta.v[at] = sigmoid(of_b);
}
