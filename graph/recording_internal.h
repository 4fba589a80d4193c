// SPDX-License-Identifier: Apache-2.0
// The recording of a step: internal types of this room and autograd.
//
// A reference ('ref') identifies a value of the recording or a variable in 32 bits: SR_REF_NONE, a
// variable (SR_REF_VARIABLE | index), or the index of a value.
#ifndef SR_GRAPH_RECORDING_INTERNAL_H
#define SR_GRAPH_RECORDING_INTERNAL_H

#include "graph/context.h"
#include "graph/op.h"
#include "kernels/base/memory.h"

#define SR_REF_NONE UINT32_MAX
#define SR_REF_VARIABLE 0x80000000u
// Far more than any memory holds, and small enough that the size in bytes of a few such tensors
// fits an int64_t.
#define SR_MAX_ELEMENTS (INT64_C(1) << 48)

typedef struct sr_value {
    sr_info info;
    uint32_t node;     // producer, or SR_REF_NONE for leaves
    uint32_t output;   // which of its outputs
    int32_t slot;      // number given to sr_input; -1 otherwise
    bool keep;         // sr_keep
    bool lost;         // computed before an update and not kept: can no longer be used
    sr_address memory; // its address, once it is materialised
} sr_value;

typedef struct sr_node {
    const sr_op *op;
    const char *file;
    int line;
    const char *layer;                // sr_layer_use; NULL: any
    bool layer_exact;                 // 'layer' itself, and none within it
    uint32_t source;                  // 1 + the node whose derivative rule recorded it; 0: none
    uint32_t attr;                    // offset in the recording's attribute bytes
    uint32_t input[SR_OP_MAX_INPUTS]; // refs
    uint32_t first_output;            // index of output 0; outputs follow each other
    bool executed;
} sr_node;

// Bytes of an operator's attributes in a recording.
static inline size_t sr_attr_room(const sr_op *op) {
    return (op->attr_size + 7) & ~(size_t)7;
}

typedef struct sr_variable_entry {
    char *name;
    sr_info info;
    sr_address memory;
    bool owned;
    uint32_t assigned; // ref of the value it takes at the end of the step, or SR_REF_NONE
    sr_address source; // the address of that value while assignments run
} sr_variable_entry;

typedef struct sr_delivery { // sr_read_later
    uint32_t ref;
    void *data;
    size_t bytes;
} sr_delivery;

typedef struct sr_step_chunk {
    sr_address memory;
    size_t bytes, used;
} sr_step_chunk;

// A constant of at most 8 bytes that a derivative rule made: it is written again when its span
// repeats.
typedef struct sr_gradient_constant {
    uint32_t value, bytes;
    unsigned char data[8];
} sr_gradient_constant;

// What one call of sr_gradients recorded.
typedef struct sr_gradient_span {
    uint32_t y, dy;                         // refs
    uint32_t node, value, attr;             // its begin
    uint32_t end_node, end_value, end_attr; // and end
    uint32_t count;                         // number of xs
    uint32_t *refs;                         // xs, then grads: [2 count]
    size_t ref_capacity;
    sr_gradient_constant *constants;
    size_t constant_count, constant_capacity;
} sr_gradient_span;

#define SR_OTHER_RECORDINGS 3   // for phases of a step, and an evaluation in between
#define SR_MAX_GRADIENT_SPANS 4 // of a recording; further gradients are recorded again in each step

// What the calls of a step recorded (up to '..._count'), followed (up to '..._stored') by what an
// earlier step recorded after the same beginning: see repeat.c.
typedef struct sr_recording {
    sr_node *nodes;
    size_t node_count, node_stored, node_capacity;
    sr_value *values;
    size_t value_count, value_stored, value_capacity;
    unsigned char *attrs;
    size_t attr_count, attr_capacity;
    sr_gradient_span spans[SR_MAX_GRADIENT_SPANS];
    int span_count;
    bool marked;                // values are kept or in memory, or nodes have run
    uint64_t last_step;         // the last step that used it
    struct sr_program *program; // scratch of canonicalisation, and the last program
} sr_recording;

struct sr_context {
    uint16_t number, generation;
    uint64_t serial;
    sr_device *device;
    bool owns_device;
    int threads, optimize;
    bool recomputes;
    bool (*takes_prologue)(const sr_kernel_request *request); // see sr_context_set_prologues
    size_t plan_cache_bytes;

    sr_recording recording;
    sr_recording other_recordings[SR_OTHER_RECORDINGS]; // of other earlier steps
    uint64_t steps;
    struct sr_gradient_span_notes *noting; // of the gradients being recorded, or NULL

    sr_delivery *deliveries;
    size_t delivery_count, delivery_capacity;
    bool has_updates; // update nodes or assignments wait to run

    // The layer of the following calls, as in sr_node (call_layers.h), and all names that were
    // used.
    const char *layer;
    bool layer_exact;
    uint32_t source;
    char **layer_names;
    size_t layer_name_count, layer_name_capacity;

    sr_variable_entry *variables;
    size_t variable_count, variable_capacity;

    // Device memory of materialised values: chunks that are reused in every step.
    sr_step_chunk *chunks;
    size_t chunk_count, chunk_capacity;

    // The first error of the step.
    sr_kept_error failure;

    void *scratch; // of sr_context_scratch
    size_t scratch_capacity;

    struct sr_plan_cache *cache;
    uint64_t variable_moves; // number of calls of sr_variable_move
    sr_executor *executor;   // of sr_read and sr_context_run, created at first use
    sr_context_stats stats;
    int64_t record_start_ns; // begin of this step; 0 after its first observation
};

// File and line in model code of the current call (sr_at).
const char *sr_call_file(void);
int sr_call_line(void);

// Adds a context to the table of contexts: sets its number, generation and serial. SR_E_LIMIT.
SR_NODISCARD sr_status sr_context_register(sr_context *context);
// Removes it; legal for a context that was never added.
void sr_context_unregister(const sr_context *context);
// The generation of the next step; never 0, the generation of variables.
uint16_t sr_next_generation(uint16_t generation);
// Makes this the context that the thread used last.
void sr_context_use(const sr_context *context);
// The context of a tensor; NULL for SR_NONE and for a freed context.
sr_context *sr_context_of(sr_tensor tensor);
// The context of a tensor, else the one that this thread used last, else NULL: the context to which
// errors of a call stick.
sr_context *sr_context_for(sr_tensor tensor);
// Why a tensor is invalid in this context and step, or NULL if it is valid.
const char *sr_context_fault(const sr_context *context, sr_tensor tensor);
// The ref of a tensor of this context and step; SR_REF_NONE and an error that sticks otherwise.
uint32_t sr_context_ref(sr_context *context, sr_tensor tensor, const char *what);
// The same for a call whose only argument is the tensor; *out is the context to which errors stick,
// or NULL. SR_REF_NONE also if an error sticks already.
uint32_t sr_context_ref_of(sr_tensor tensor, const char *what, sr_context **out);
// Whether this is SR_NONE itself, for an absent optional input, and not the result of a failed
// call.
static inline bool sr_is_absent(sr_tensor t) {
    return t.context == 0 && sr_is_none(t);
}
// The result of a failed call: no tensor, with the number of this context (NULL: of none).
sr_tensor sr_context_none(const sr_context *context);
sr_tensor sr_context_tensor(const sr_context *context, uint32_t ref);
const sr_info *sr_context_info(const sr_context *context, uint32_t ref);

// Makes the thread's current error (sr_error_message) stick to the context, unless one sticks
// already.
void sr_context_stick(sr_context *context, sr_status status);
// Makes an error of the current call stick, prefixed with its file and line, unless one sticks
// already. With a NULL context the error is only in sr_error_message.
void sr_context_refuse(sr_context *context, sr_status status, const char *fmt, ...) SR_PRINTF(3, 4);
// The same for a status that has its message already, which is prefixed with file, line and 'what'.
// SR_OK is legal.
void sr_context_refuse_status(sr_context *context, sr_status status, const char *what);
// Called by each observation; the first one of a step ends its recording and counts its time.
// Returns the current time.
int64_t sr_context_recorded(sr_context *context);
// Checks the shape that a caller gives to a leaf and clears its unused dimensions, so that shapes
// can be compared as bytes. False and an error that sticks if it is invalid; 'what' is for the
// message.
bool sr_context_take_info(sr_context *context, const char *what, const sr_info *info, sr_info *out);
// Fills a view of a node; the caller provides the arrays.
typedef struct sr_view_arrays {
    sr_info in[SR_OP_MAX_INPUTS], out[SR_OP_MAX_OUTPUTS];
    sr_tensor input[SR_OP_MAX_INPUTS], output[SR_OP_MAX_OUTPUTS];
} sr_view_arrays;
void sr_context_view(const sr_context *context, uint32_t node, sr_view_arrays *arrays,
                     sr_node_view *view);

// The context's own copy of a name, until it is freed; NULL with the error set when memory is out.
const char *sr_layer_keep_name(sr_context *context, const char *name);
// As sr_layer_use, but for this layer itself, not one within it; NULL: none.
void sr_layer_use_exactly(sr_context *context, const char *name);

// Device memory that is valid until the next step.
SR_NODISCARD sr_status sr_context_step_alloc(sr_context *context, size_t bytes, sr_address *out);
// SR_E_SHAPE unless the shape is valid: a dtype, at most SR_MAX_RANK dimensions of at least 1, at
// most SR_MAX_ELEMENTS elements.
SR_NODISCARD sr_status sr_info_check(const sr_info *info);
// Bytes of a value.
size_t sr_info_bytes(const sr_info *info);

// ---- Steps that repeat (repeat.c) ----

// Begins a step: moves the cursor to the start and clears marks.
void sr_recording_rewind(sr_context *context);
// Whether the call repeats the node at the cursor, which then moves past it.
bool sr_recording_repeats(sr_context *context, const sr_op *op, const void *attr,
                          const uint32_t *ref);
// The same for a leaf; slot -1: a constant.
bool sr_recording_repeats_leaf(sr_context *context, const sr_info *info, int slot);
// Called when the step records something other than what follows the cursor. Switches to a
// recording of an earlier step that has the same beginning, followed by this node ('op' NULL:
// leaf), and returns true. Otherwise makes room for new nodes and returns false; an error may
// stick.
bool sr_recording_diverge(sr_context *context, const sr_op *op, const void *attr,
                          const uint32_t *ref, const sr_info *leaf, int slot);
// Whether these gradients are recorded at the cursor; if so, writes them to grads and moves the
// cursor past them.
bool sr_recording_repeats_gradients(sr_context *context, uint32_t y, uint32_t dy,
                                    const sr_tensor *xs, int count, sr_tensor *grads);
// Notes taken while gradients are recorded (from sr_gradient_span_begin to _end), so that they can
// repeat.
typedef struct sr_gradient_span_notes {
    uint32_t y, dy;
    size_t node, value, attr;
    bool whole; // everything recorded so far can be repeated
    sr_gradient_constant *constants;
    size_t constant_count, constant_capacity;
} sr_gradient_span_notes;
void sr_gradient_span_begin(sr_context *context, uint32_t y, uint32_t dy,
                            sr_gradient_span_notes *notes);
void sr_gradient_span_end(sr_context *context, sr_gradient_span_notes *notes, const sr_tensor *xs,
                          int count, const sr_tensor *grads);
void sr_gradient_span_note_constant(sr_context *context, uint32_t value, const void *data,
                                    size_t bytes);
// Called before a plan is freed.
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
    uint32_t group; // sr_target.group
} sr_program_target;

enum { SR_REQUEST_WORDS = 3 }; // of a target in sr_program.request

// A canonical program: the form that is hashed, compared and compiled.
typedef struct sr_program {
    // What it was built from; 'repeats': the same recording and request give this program again.
    bool repeats;
    size_t built_nodes, built_values;
    uint32_t *request; // refs of targets, their 'after', their group; values to keep
    size_t request_count, request_capacity;
    unsigned request_flags;
    uint32_t lanes;       // side by side
    struct sr_plan *plan; // of the cache, or NULL

    sr_program_value *values;
    size_t value_count, value_capacity;
    sr_program_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *joined; // nodes of the recording that became part of others (pass_fuse.c)
    size_t joined_count, joined_capacity;
    unsigned char *attrs;
    size_t attr_count, attr_capacity;
    sr_program_target *targets;
    size_t target_count, target_capacity;
    sr_address *memory; // bindings: constants and values kept by earlier cuts, then values to keep
    size_t memory_count, memory_capacity;
    uint32_t *memory_value; // of the recording, for each binding
    size_t memory_value_capacity;

    unsigned char *bytes; // the canonical form
    size_t byte_count, byte_capacity;
    uint64_t hash;

    // Scratch: canonical number of each value and variable of the recording, and node marks.
    uint32_t *value_number, *variable_number;
    size_t value_number_capacity, variable_number_capacity;
    unsigned char *needed;
    size_t needed_capacity;
} sr_program;

// What an observation asks for.
typedef struct sr_wanted {
    const sr_target *targets; // passed to the sink
    int target_count;
    const uint32_t *keep; // refs of values that stay in memory of the step
    size_t keep_count;
    bool updates;            // all update nodes that have not run
    uint32_t lanes;          // side by side; 0 as 1
    bool keep_for_gradients; // also keep what derivative rules of executed nodes read, and sr_keep
} sr_wanted;

// Builds context->recording.program; nodes that have run before and are needed again are counted as
// recomputed.
SR_NODISCARD sr_status sr_program_build(sr_context *context, const sr_wanted *wanted);
void sr_program_release(sr_program *program);
// The plan for that program, from the cache or compiled; sets its memory bindings.
SR_NODISCARD sr_status sr_plan_get(sr_context *context, sr_plan **out);
void sr_plan_cache_free(struct sr_plan_cache *cache);

#endif
