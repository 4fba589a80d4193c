// SPDX-License-Identifier: Apache-2.0
// Plans: compiled programs, and the data that the passes read and write.
#ifndef SR_GRAPH_PLAN_INTERNAL_H
#define SR_GRAPH_PLAN_INTERNAL_H

#include "graph/call_layers.h"
#include "graph/recording_internal.h"

#define SR_NO_STEP UINT32_MAX
#define SR_PLAN_ALIGN ((size_t)64) // of values in the range

// Planners of pass_memory.c: the smallest result is used.
enum { SR_PLANNERS = 3 };
extern const char *const sr_planner_names[SR_PLANNERS];

// Where a value of the plan is stored when it runs.
typedef enum sr_storage {
    SR_STORAGE_RANGE = 0, // at 'offset' in the executor's range
    SR_STORAGE_VARIABLE,  // memory of variable 'index'
    SR_STORAGE_INPUT,     // what is bound to input slot 'index'
    SR_STORAGE_MEMORY,    // memory binding 'index' of the plan
} sr_storage;

typedef struct sr_plan_value {
    sr_info info;
    size_t bytes;      // of all lanes
    size_t lane_bytes; // of one
    uint32_t lanes;    // that have a value of their own, sr_lane_stride(lane_bytes) apart; or 1
    uint32_t root;     // the value whose memory it uses (itself, or another by alias or in place)
    uint32_t first; // first step that accesses it (roots: all values stored there); a launch before
    uint32_t last;  // pass_chain.c; and the last one
    bool pinned;    // leaves and kept values: their memory is never reused
    bool delivered; // roots of targets
    bool updated;   // leaves that a node updates in place
    sr_storage storage;
    uint32_t index;
    size_t offset;
} sr_plan_value;

typedef struct sr_launch {
    const sr_op *op;
    const char *file;
    int line;
    sr_layer layer;
    bool backward;     // a gradient, or a value that is computed again for one
    bool joins;        // a replay stops behind it
    uint32_t runs;     // of its kernel, one for each lane; 1: it computes all lanes, or none varies
    uint32_t prepared; // index in plan->prepared
    uint32_t workspace; // value number of its workspace, or SR_REF_NONE
    uint32_t packed;    // of what it packs, if others use that, too, or SR_REF_NONE
    bool packs;         // it is the first of them
    int args;
    uint32_t arg[SR_KERNEL_MAX_ARGS]; // value numbers, SR_REF_NONE for absent ones
    uint32_t first_pointer;           // index of its first argument among those of all launches
    double flops, bytes;
} sr_launch;

#define SR_ALL_STAGES (-1)

// A stage of a launch, or all of them, as part of a step.
typedef struct sr_item {
    uint32_t launch;
    int stage;
    int64_t blocks, per_unit; // in total, and in one unit of the step
    int64_t block_rows;
} sr_item;

#define SR_CHAIN_ITEMS 12 // of one step

// Stages that run together, unit by unit; the units of a step are independent.
typedef struct sr_step {
    uint32_t first, count; // in plan->items
    int64_t units;
    uint32_t first_sink, sink_count; // in plan->sinks: targets delivered after this step
} sr_step;

// A launch whose outputs lanes join.
typedef struct sr_plan_join {
    uint32_t launch;
    int64_t lanes;
} sr_plan_join;

// A place where a replay waits for other lanes.
typedef struct sr_plan_stop {
    uint32_t end;          // steps before it
    uint32_t first, count; // in plan->joins
} sr_plan_stop;

typedef struct sr_shared_prepared {
    sr_kernel_request request;
    sr_prepared prepared;
} sr_shared_prepared;

typedef struct sr_sink_entry {
    uint32_t target, value;
} sr_sink_entry;

// A root outside the range and its uses: its address may change between replays.
typedef struct sr_outside {
    uint32_t value;
    uint32_t first_use, use_count; // in plan->uses
} sr_outside;

struct sr_plan {
    sr_arena arena;  // everything below
    uint64_t number; // unique in the process
    uint64_t hash;
    unsigned char *program; // canonical bytes of the program it was compiled from
    size_t program_bytes;
    uint64_t last_use;   // of the cache
    uint16_t generation; // of the step that used it last

    sr_plan_value *values; // the program's, then workspaces, then what is packed
    uint32_t value_count, first_workspace, first_packed;
    sr_launch *launches;
    uint32_t launch_count;
    uint32_t arg_count; // of all launches
    sr_item *items;
    uint32_t item_count;
    sr_step *steps;
    uint32_t step_count;
    sr_plan_join *joins; // in the order of launches
    uint32_t join_count;
    sr_plan_stop *stops;
    uint32_t stop_count;
    sr_shared_prepared *prepared;
    uint32_t prepared_count;
    sr_sink_entry *sinks;
    size_t *target_strides;             // of each target, between lanes
    uint32_t sink_count, leading_sinks; // the first leading_sinks need no launch
    sr_outside *outside;
    uint32_t outside_count;
    uint32_t *uses;     // numbers of arguments, among those of all launches
    sr_address *memory; // bindings of this compile
    uint32_t memory_count;
    sr_address *variables; // memory of the variables that the context had when it was compiled
    uint32_t variable_count;
    uint64_t variable_moves; // of the context, when 'variables' was filled

    size_t range_bytes; // memory of the executor
    size_t live_bound;  // maximum live bytes: no planner can use less
    size_t peaks[SR_PLANNERS];
    int planner;          // the one whose plan is used
    size_t scratch_bytes; // per worker
    double flops, bytes;
    int64_t prepare_ns; // time in which providers prepared its kernels
    uint32_t lanes;     // that a replay computes
    bool optimize;
    bool asynchronous; // the device runs launches one by one, so a step is one launch
};

static inline size_t sr_plan_aligned(size_t bytes) {
    return (bytes + SR_PLAN_ALIGN - 1) & ~(SR_PLAN_ALIGN - 1);
}
// How far the values of two lanes are apart; 0: they share one.
static inline size_t sr_plan_stride(const sr_plan_value *v) {
    return v->lanes > 1 ? sr_lane_stride(v->lane_bytes) : 0;
}
// Sets the bytes of a workspace of one run; each has its own.
static inline void sr_plan_set_workspace(sr_plan_value *v, size_t bytes) {
    v->lane_bytes = bytes;
    v->bytes = v->lanes > 1 ? v->lanes * sr_lane_stride(bytes) : bytes;
}
// Whether the value has its own memory in the range.
static inline bool sr_plan_in_range(const sr_plan *plan, uint32_t value) {
    const sr_plan_value *v = &plan->values[value];
    return v->root == value && v->storage == SR_STORAGE_RANGE && v->first != SR_NO_STEP;
}

// node_request.c: a node as its operator sees it, which points to 'arrays', and its kernel's
// request, of one lane.
SR_NODISCARD sr_status sr_node_request(const sr_context *context, const sr_program_node *node,
                                       sr_view_arrays *arrays, sr_node_view *view,
                                       sr_kernel_request *request);

// The passes in order, one file each. pass_recompute.c: recomputes cheap values in the backward
// pass instead of keeping them.
SR_NODISCARD sr_status sr_pass_recompute(sr_program *program);
// pass_fuse.c: joins operators whose value between them need not go to memory.
SR_NODISCARD sr_status sr_pass_fuse(const sr_context *context);
// Removes nodes from a program; values that they alone wrote have no use.
void sr_program_remove(sr_program *program, const bool *gone);
// Adds room for attributes, zeros, to a program's; attr: where they are among them.
SR_NODISCARD sr_status sr_program_add_attrs(sr_program *program, size_t bytes, uint32_t *attr);
// What remains of a batchnorm_train, also with ReLU, whose y nothing reads; attr: the attributes of
// a batchnorm_moments of one lane, which sr_add_moments_attr adds to a program's.
sr_program_node sr_moments_of(const sr_program_node *norm, uint32_t attr);
SR_NODISCARD sr_status sr_add_moments_attr(sr_program *program, uint32_t *attr);
// pass_prologue.c: lets convolutions normalise what they read.
SR_NODISCARD sr_status sr_pass_prologue(const sr_context *context);
// Whether the device has a kernel for the request that is of a class of its own.
bool sr_is_faster_kernel(const sr_kernel_request *request);
// pass_packing.c: lets launches share what their kernels pack of one argument.
void sr_pass_packing(sr_plan *plan);
// pass_inplace.c: lets outputs reuse the memory of inputs that are last used there.
void sr_pass_in_place(sr_plan *plan);
// pass_chain.c: joins stages that stream over the same rows into steps.
void sr_pass_chain(sr_plan *plan);
// Whether the stage of an item accesses an argument of its launch.
bool sr_item_touches(const sr_plan *plan, const sr_item *item, int arg);
// pass_memory.c: offsets of all values in the range; tries several planners and uses the smallest
// result.
SR_NODISCARD sr_status sr_pass_memory(sr_plan *plan);
// pass_outside.c: finds the uses of values outside the range.
SR_NODISCARD sr_status sr_pass_outside(sr_plan *plan);
// Checks that no two values that are live at the same time overlap. Runs on every plan.
SR_NODISCARD sr_status sr_plan_check(const sr_plan *plan);

// compile.c
SR_NODISCARD sr_status sr_plan_compile(sr_context *context, sr_plan **out);
void sr_plan_free(sr_plan *plan);

#endif
