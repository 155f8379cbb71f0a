// Functions of one number, and act(gate) * up as graph/src/ops/glu.rs defines it. SILU 0, GELU 1, SIGMOID 2, CLAMPED 3.

// exp cancels near 0, so a polynomial (a least-maximum fit up to 0.6) stands in there.
float tanh_of(float x) {
    float z = x * x, size = abs(x);
    if (size < 0.6) {
        float p = fma(z, fma(z, fma(z, -5.905868019908667e-3, 2.0805384963750839e-2), -5.3786683827638626e-2), 0.13331958651542664);
        return fma(x * z, fma(z, p, -0.33333298563957214), x);
    }
    float y = 1.0 - 2.0 / (exp(2.0 * min(size, 20.0)) + 1.0);
    return x < 0 ? -y : y;
}

float gated(uint activation, float gate, float up, float alpha, float limit) {
    switch (activation) {
        case 0: return gate * sigmoid(gate) * up;
        // 0.5 (1 + tanh(u)) is sigmoid(2 u), which does not cancel.
        case 1: return gate * sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)) * up;
        case 2: return sigmoid(gate) * up;
        default:
            gate = min(gate, limit);
            up = clamp(up, -limit, limit);
            return gate * sigmoid(alpha * gate) * (up + 1.0);
    }
}
