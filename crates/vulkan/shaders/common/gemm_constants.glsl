// The constants of both matrix-matrix kernels.
layout(constant_id = 2) const uint DTYPE = 0;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 32;
layout(constant_id = 6) const uint WM = 32;      // rows and tokens of a subgroup, or of a thread
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 8) const uint EPILOGUE = 0; // PLAIN 0, BIAS 1, ADD 2, GLU 3
layout(constant_id = 9) const uint ACTIVATION = 0;
layout(constant_id = 10) const uint EXPERTS = 0; // 1: one input row a token, 2: one a (token, slot)
layout(constant_id = 11) const uint DTYPE2 = 0;  // of the second matrix
