// The chain (src/chain.rs): phases of few tokens follow each other without a barrier. The workgroups of a phase begin as soon as
// there is room, ask for what no phase before has made, their weights above all, and wait() until all workgroups of the phase before
// have come to their arrive(). What such a phase has made is read past the caches of a compute unit, which may have older values.
// One thread's counting and looking is for its whole workgroup, on both sides of a barrier. In a phase some workgroup has to wait,
// so that all are known to have arrived only when all before have.

layout(constant_id = 63) const uint LINKS = 0; // 1: the phase before is waited for, 2: the phase behind waits

layout(buffer_reference, scalar, buffer_reference_align = 64) coherent buffer Chain {
    uint arrived; // workgroups of the phase before, in all steps until now
    uint before;  // workgroups that it has in a step
    uint unused[14];
    uint own;     // workgroups of this phase that have arrived: the first word of the next link
};
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Passed { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer Passed4s { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer PassedWords { uvec4 v[]; };

bool waits() { return (LINKS & 1) != 0; }

// Counts may wrap around.
void wait(Chain link, Step s) {
    if (!waits()) return;
    if (gl_LocalInvocationIndex == 0) {
        uint due = link.before * s.number, arrived = atomicLoad(link.arrived, gl_ScopeDevice, 0, 0);
        while (int(arrived - due) < 0) arrived = atomicLoad(link.arrived, gl_ScopeDevice, 0, 0);
    }
    barrier();
}

void arrive(Chain link) {
    if ((LINKS & 2) == 0) return;
    barrier();
    if (gl_LocalInvocationIndex == 0)
        atomicAdd(link.own, 1, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
}

// Element i of what a phase before has made; fours, and words, four at a time, count as such.
float passed(F32s a, uint i) { return waits() ? Passed(a).v[i] : a.v[i]; }
vec4 passed4(F32s a, uint i) { return waits() ? Passed4s(a).v[i] : Vec4s(a).v[i]; }
uvec4 passed_words(F32s a, uint i) { return waits() ? PassedWords(a).v[i] : UVec4s(U8s(a)).v[i]; }
