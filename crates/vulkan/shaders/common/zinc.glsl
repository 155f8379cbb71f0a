// What every kernel shares: extensions, buffer references, the step buffer, reductions.
// Constant 0 is the workgroup's size, constant 1 the subgroup's.

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint WORKGROUP = 64;
layout(constant_id = 1) const uint SUBGROUP = 32;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32s { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec4s { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer F16s { float16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer F16Vec4s { f16vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32s { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16s { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8s { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer UVec4s { uvec4 v[]; };

// The step buffer, as src/step.rs writes it: eight words, then a record for each token, output and sequence of that number, then
// block tables.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Step {
    uint n_tokens;
    uint n_outputs;
    uint n_seqs;
    uint pages_max;
    uint tables;
    uint number; // of the step, among those of its plan, from 1
    uint unused[2];
    uint v[];
};
const uint PAGE_TOKENS = 16;
const uint ROWS_TOKENS = 0;

uint n_rows(Step s, uint rows) { return rows == ROWS_TOKENS ? s.n_tokens : s.n_outputs; }
uint step_id(Step s, uint t) { return s.v[8 * t]; }
uint step_position(Step s, uint t) { return s.v[8 * t + 1]; }
uint step_seq(Step s, uint t) { return s.v[8 * t + 2]; }
uint step_kv_slot(Step s, uint t) { return s.v[8 * t + 3]; }
uint step_output_row(Step s, uint r) { return s.v[8 * r + 4]; }
uint step_state_slot(Step s, uint q) { return s.v[8 * q + 5]; }
uint step_query_start(Step s, uint q) { return s.v[8 * q + 6]; }
// Tokens of sequence q before the step.
uint step_past(Step s, uint q) { return s.v[8 * q + 7]; }
// Where the block table of sequence q begins.
uint step_table(Step s, uint q) { return s.tables + q * s.pages_max; }
uint step_page(Step s, uint q, uint page) { return s.v[step_table(s, q) + page]; }

// Puts an output where it belongs. If `rounded`, only matrix cores read it, and it is kept in the f16 that they would make of it.
void put1(uint rounded, F32s y, uint i, float v) {
    if (rounded == 1) F16s(y).v[i] = float16_t(clamp(v, -65504.0, 65504.0));
    else y.v[i] = v;
}
// Four of them; `i` counts fours.
void put4(uint rounded, F32s y, uint i, vec4 v) {
    if (rounded == 1) F16Vec4s(y).v[i] = f16vec4(clamp(v, -65504.0, 65504.0));
    else Vec4s(y).v[i] = v;
}

// Sum over the workgroup; every thread gets it. `part` must hold WORKGROUP / 4 floats.
shared float zinc_part[256];
float workgroup_sum(float x) {
    x = subgroupAdd(x);
    barrier();
    if (subgroupElect()) zinc_part[gl_SubgroupID] = x;
    barrier();
    float sum = 0;
    for (uint i = gl_SubgroupInvocationID; i < WORKGROUP / SUBGROUP; i += SUBGROUP) sum += zinc_part[i];
    return subgroupAdd(sum);
}

float sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }
