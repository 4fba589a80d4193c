// SPDX-License-Identifier: Apache-2.0
// The record of a step, as the files of this room and autograd see it.
//
// A reference ('ref') names a value of the record or a variable in 32 bits: SR_REF_NONE, a variable
// (SR_REF_VARIABLE | index), or an index of a value.
#ifndef SR_GRAPH_RECORDING_INTERNAL_H
#define SR_GRAPH_RECORDING_INTERNAL_H

#include "graph/context.h"
#include "graph/op.h"
#include "kernels/base/memory.h"

#define SR_REF_NONE UINT32_MAX
#define SR_REF_VARIABLE 0x80000000u
#define SR_MAX_INPUT_SLOTS 64
// Far beyond any memory, and small enough that sizes of a few such tensors in bytes fit an int64_t.
#define SR_MAX_ELEMENTS (INT64_C(1) << 48)

typedef struct sr_value {
    sr_info info;
    uint32_t node;   // producer, or SR_REF_NONE for leaves
    uint32_t output; // which of its outputs
    int32_t slot;    // of sr_input; -1 otherwise
    bool keep;       // sr_keep
    bool lost;       // computed before an update and not kept: may not be used any more
    void *memory;    // device memory with the value, once it is materialised
} sr_value;

typedef struct sr_node {
    const sr_op *op;
    const char *file;
    int line;
    uint32_t attr;                    // offset in the record's attribute bytes
    uint32_t input[SR_OP_MAX_INPUTS]; // refs
    uint32_t first_output;            // index of output 0; outputs follow each other
    bool executed;
} sr_node;

// Bytes that an operator's attributes take in a record.
static inline size_t sr_attr_room(const sr_op *op) {
    return (op->attr_size + 7) & ~(size_t)7;
}

typedef struct sr_variable_entry {
    char *name;
    sr_info info;
    void *memory;
    bool owned;
    uint32_t assigned; // ref of the value it takes at the end of the step, or SR_REF_NONE
} sr_variable_entry;

typedef struct sr_delivery { // sr_read_later
    uint32_t ref;
    void *data;
    size_t bytes;
} sr_delivery;

typedef struct sr_step_chunk {
    void *memory;
    size_t bytes, used;
} sr_step_chunk;

// A constant of at most 8 bytes that a derivative rule made: written again when its span repeats.
typedef struct sr_gradient_constant {
    uint32_t value, bytes;
    unsigned char data[8];
} sr_gradient_constant;

// What one call of sr_gradients recorded.
typedef struct sr_gradient_span {
    uint32_t y, dy;                         // refs
    uint32_t node, value, attr;             // where it begins
    uint32_t end_node, end_value, end_attr; // and ends
    uint32_t count;                         // of xs
    uint32_t *refs;                         // xs, then grads: [2 count]
    size_t ref_capacity;
    sr_gradient_constant *constants;
    size_t constant_count, constant_capacity;
} sr_gradient_span;

#define SR_OTHER_RECORDINGS 3   // phases of a step, and an evaluation in between
#define SR_MAX_GRADIENT_SPANS 4 // of a record; further gradients are recorded anew in each step

// What the calls of a step wrote down, and behind it (up to 'stored_...') what an earlier step
// wrote down after the same beginning: see repeat.c.
typedef struct sr_recording {
    sr_node *nodes;
    size_t node_count, node_stored, node_capacity;
    sr_value *values;
    size_t value_count, value_stored, value_capacity;
    unsigned char *attrs;
    size_t attr_count, attr_capacity;
    sr_gradient_span spans[SR_MAX_GRADIENT_SPANS];
    int span_count;
    bool marked;                // values of it are kept or in memory, or nodes have run
    uint64_t last_step;         // that used it
    struct sr_program *program; // scratch of canonicalisation, and the last program
} sr_recording;

struct sr_context {
    uint16_t number, generation;
    uint64_t serial;
    sr_device *device;
    bool owns_device;
    int threads, optimize;
    size_t plan_cache_bytes;

    sr_recording recording;
    sr_recording other_recordings[SR_OTHER_RECORDINGS]; // of earlier steps that went another way
    uint64_t steps;
    struct sr_gradient_span_notes *noting; // of the gradients that are being recorded, or NULL

    sr_delivery *deliveries;
    size_t delivery_count, delivery_capacity;
    bool has_updates; // update nodes or assignments wait to run

    sr_variable_entry *variables;
    size_t variable_count, variable_capacity;

    // Device memory of materialised values: chunks that are reused every step.
    sr_step_chunk *chunks;
    size_t chunk_count, chunk_capacity;

    // The first error of the step.
    sr_status status;
    char message[1024];
    char where[64];

    void *scratch; // of whoever works on the record now
    size_t scratch_capacity;

    struct sr_plan_cache *cache;
    uint64_t variable_moves; // sr_variable_move, counted
    sr_executor *executor;   // of sr_read and sr_context_run, created at first use
    sr_context_stats stats;
    int64_t record_start_ns; // of this step; 0 once something was observed
};

// Where the call that is being made stands in model code (sr_at).
const char *sr_call_file(void);
int sr_call_line(void);

// Enters a context into the table of contexts: sets its number, generation and serial. SR_E_LIMIT.
SR_NODISCARD sr_status sr_context_register(sr_context *context);
// Takes it out; legal for one that was never entered.
void sr_context_unregister(const sr_context *context);
// The generation of the next step; never 0, which is that of variables.
uint16_t sr_next_generation(uint16_t generation);
// This thread now works on this context.
void sr_context_use(const sr_context *context);
// The context of a tensor; NULL for SR_NONE and where the context was freed.
sr_context *sr_context_of(sr_tensor tensor);
// That, or the context that this thread used last, or NULL: where the error of a call belongs.
sr_context *sr_context_for(sr_tensor tensor);
// What is wrong with a tensor in this context and step, or NULL.
const char *sr_context_fault(const sr_context *context, sr_tensor tensor);
// The ref of a tensor of this context and step; SR_REF_NONE with the error sticking otherwise.
uint32_t sr_context_ref(sr_context *context, sr_tensor tensor, const char *what);
// The same for a call that is given nothing but the tensor; *out: where the error sticks, or NULL.
// SR_REF_NONE also where an error sticks already.
uint32_t sr_context_ref_of(sr_tensor tensor, const char *what, sr_context **out);
// SR_NONE itself, as absent optional inputs are given; not the result of a call that failed.
static inline bool sr_is_absent(sr_tensor t) {
    return t.context == 0 && sr_is_none(t);
}
// What a call returns that failed: no tensor, of this context (NULL: of none).
sr_tensor sr_context_none(const sr_context *context);
sr_tensor sr_context_tensor(const sr_context *context, uint32_t ref);
const sr_info *sr_context_info(const sr_context *context, uint32_t ref);

// Sticks the error that sr_error_message now holds to the context, unless one sticks already.
void sr_context_stick(sr_context *context, sr_status status);
// Sticks an error of the call that is being made, with its place in front, unless one sticks
// already. A NULL context: it is only in sr_error_message.
void sr_context_refuse(sr_context *context, sr_status status, const char *fmt, ...) SR_PRINTF(3, 4);
// The same for a status that has its message, which gets place and 'what' in front. SR_OK is legal.
void sr_context_refuse_status(sr_context *context, sr_status status, const char *what);
// The recording of a step ends with its first observation: counts its time, returns the time now.
int64_t sr_context_recorded(sr_context *context);
// The shape that a caller gives to a leaf, checked, with its unused dimensions cleared: shapes are
// compared as bytes from here on. False with the error sticking; 'what' is for its message.
bool sr_context_take_info(sr_context *context, const char *what, const sr_info *info, sr_info *out);
// Fills a view of a node; the arrays are the caller's.
typedef struct sr_view_arrays {
    sr_info in[SR_OP_MAX_INPUTS], out[SR_OP_MAX_OUTPUTS];
    sr_tensor input[SR_OP_MAX_INPUTS], output[SR_OP_MAX_OUTPUTS];
} sr_view_arrays;
void sr_context_view(const sr_context *context, uint32_t node, sr_view_arrays *arrays,
                     sr_node_view *view);

// Zero-filled host memory until the next call of this function; grows once, then allocates nothing.
// NULL with the error set when memory is out.
void *sr_context_scratch(sr_context *context, size_t bytes);
// Device memory that lives until the next step.
SR_NODISCARD sr_status sr_context_step_alloc(sr_context *context, size_t bytes, void **out);
// SR_E_SHAPE unless memory can hold the shape: a dtype, at most SR_MAX_RANK dimensions of at least
// 1, at most SR_MAX_ELEMENTS elements.
SR_NODISCARD sr_status sr_info_check(const sr_info *info);
// Bytes of a value.
size_t sr_info_bytes(const sr_info *info);

// ---- Steps that repeat (repeat.c) ----

// Begins a step: the cursor goes back, marks go.
void sr_recording_rewind(sr_context *context);
// Whether the call repeats the node that stands at the cursor, which then moves behind it.
bool sr_recording_repeats(sr_context *context, const sr_op *op, const void *attr,
                          const uint32_t *ref);
// Whether the leaf does: slot -1 for a constant.
bool sr_recording_repeats_leaf(sr_context *context, const sr_info *info, int slot);
// What stands behind the cursor is not what this step records: goes over to a record of an earlier
// step that has the same beginning and this node (NULL: leaf) next, and is then true; else makes
// room, or an error sticks.
bool sr_recording_diverge(sr_context *context, const sr_op *op, const void *attr,
                          const uint32_t *ref, const sr_info *leaf, int slot);
// Whether the gradients stand at the cursor; they are then given, and the cursor is behind them.
bool sr_recording_repeats_gradients(sr_context *context, uint32_t y, uint32_t dy,
                                    const sr_tensor *xs, int count, sr_tensor *grads);
// Around the recording of gradients, so that they can repeat.
typedef struct sr_gradient_span_notes {
    uint32_t y, dy;
    size_t node, value, attr;
    bool whole; // nothing was recorded that could not be repeated
    sr_gradient_constant *constants;
    size_t constant_count, constant_capacity;
} sr_gradient_span_notes;
void sr_gradient_span_begin(sr_context *context, uint32_t y, uint32_t dy,
                            sr_gradient_span_notes *notes);
void sr_gradient_span_end(sr_context *context, sr_gradient_span_notes *notes, const sr_tensor *xs,
                          int count, const sr_tensor *grads);
void sr_gradient_span_note_constant(sr_context *context, uint32_t value, const void *data,
                                    size_t bytes);
// A plan is about to be freed.
void sr_recordings_forget_plan(sr_context *context, const sr_plan *plan);
void sr_recording_release(sr_recording *record);

// ---- Canonical programs (program.c) ----

typedef enum sr_leaf_kind { SR_LEAF_VARIABLE = 0, SR_LEAF_INPUT, SR_LEAF_MEMORY } sr_leaf_kind;

typedef struct sr_program_value {
    sr_info info;
    uint32_t node;      // canonical producer, or SR_REF_NONE for a leaf
    uint32_t leaf_kind; // sr_leaf_kind of a leaf
    uint32_t leaf;      // variable index, input slot, or number of the memory binding
    uint32_t kept;      // 1 + number of the memory binding that receives it; 0: none
} sr_program_value;

typedef struct sr_program_node {
    const sr_op *op;
    uint32_t attr;                      // offset in attrs
    uint32_t recorded;                  // node of the recording (not part of the identity)
    uint32_t input[SR_OP_MAX_INPUTS];   // canonical values or SR_REF_NONE
    uint32_t output[SR_OP_MAX_OUTPUTS]; // canonical values
} sr_program_node;

typedef struct sr_program_target {
    uint32_t value;
    uint32_t after; // variable index or SR_REF_NONE
} sr_program_target;

// A program without its surroundings: what is hashed, compared and compiled.
typedef struct sr_program {
    // What it was built from; 'repeats' says that the same record and wish give this program again.
    bool repeats;
    size_t built_nodes, built_values;
    uint32_t *wish; // refs of targets, their 'after', values to keep
    size_t wish_count, wish_capacity;
    unsigned wish_flags;
    struct sr_plan *plan; // of the cache, or NULL

    sr_program_value *values;
    size_t value_count, value_capacity;
    sr_program_node *nodes;
    size_t node_count, node_capacity;
    unsigned char *attrs;
    size_t attr_count, attr_capacity;
    sr_program_target *targets;
    size_t target_count, target_capacity;
    void **memory; // bindings: constants and values kept by earlier cuts, then values to keep
    size_t memory_count, memory_capacity;
    uint32_t *memory_value; // of the record, of each binding
    size_t memory_value_capacity;

    unsigned char *bytes; // the canonical record
    size_t byte_count, byte_capacity;
    uint64_t hash;

    // Scratch: canonical number of each value and variable of the record, and node marks.
    uint32_t *value_number, *variable_number;
    size_t value_number_capacity, variable_number_capacity;
    unsigned char *needed;
    size_t needed_capacity;
} sr_program;

// Which values must survive the run in memory of the step.
typedef struct sr_wanted {
    const sr_target *targets; // handed to the sink
    int target_count;
    const uint32_t *keep; // refs to materialise
    size_t keep_count;
    bool updates;            // all update nodes that have not run
    bool keep_for_gradients; // what derivative rules of executed nodes read, and sr_keep
} sr_wanted;

// Builds context->program; nodes that ran before and are needed again are counted as recomputed.
SR_NODISCARD sr_status sr_program_build(sr_context *context, const sr_wanted *wanted);
void sr_program_release(sr_program *program);
// The plan for context->program, from the cache or compiled; its memory bindings are set.
SR_NODISCARD sr_status sr_plan_get(sr_context *context, sr_plan **out);
void sr_plan_cache_free(struct sr_plan_cache *cache);

#endif
