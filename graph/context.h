// SPDX-License-Identifier: Apache-2.0
// Recording contexts: where operator calls are written down, and how they come to run.
//
// One path: calls record; an observation (sr_read, sr_context_run, sr_compile) compiles what it
// needs, or replays the plan of an equal record. A context belongs to one thread.
#ifndef SR_GRAPH_CONTEXT_H
#define SR_GRAPH_CONTEXT_H

#include <stddef.h>

#include "graph/ops.h"
#include "graph/tensor.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Records operators and runs them; owns its variables and compiled plans.
typedef struct sr_context sr_context;
// A compiled program: kernels in order and the places of their memory. Immutable.
typedef struct sr_plan sr_plan;
typedef struct sr_device sr_device; // kernels/device/device.h

// Settings of a context; all zero is the usual one.
typedef struct sr_context_options {
    const char *device;      // "cpu", "cpu-async"; NULL: SERRIED_TEST_DEVICE if set, else "cpu"
    sr_device *use_device;   // borrowed; overrides 'device'
    int threads;             // of the context's own stream; 0: all processors of this process
    int optimize;            // 0: everything; -1: nothing (bit-neutral passes off; for tests)
    size_t plan_cache_bytes; // of cached plans, without the state of their kernels; 0: 256 MiB
} sr_context_options;

// Opens the device and makes an empty context. options may be NULL. SR_E_USAGE for an unknown
// device;
SR_NODISCARD sr_status sr_context_create(const sr_context_options *options, sr_context **out);
// Ends the context with its variables and plans; executors must be idle. NULL is legal.
void sr_context_free(sr_context *context);
// The device that the context computes on. Borrowed.
sr_device *sr_context_device(sr_context *context);

// The first error since the step began (its message in sr_error_message of this thread).
SR_NODISCARD sr_status sr_context_status(sr_context *context);
// Starts a step: forgets the record, with the updates and assignments in it that were not run;
// tensors other than variables become stale. Clears the error. No replay of this context's plans
// may be under way: they read constants of the step.
void sr_context_begin_step(sr_context *context);

// A variable outlives steps. data: host memory with the first value, or NULL for zeros.
sr_tensor sr_variable(sr_context *context, const char *name, const sr_info *info, const void *data);
// The same on memory of the caller (device memory, 64-byte aligned, alive until sr_context_free).
sr_tensor sr_variable_on(sr_context *context, const char *name, const sr_info *info, void *memory);
// Moves a variable onto other device memory of the same size (which must live as long); its old
// value stays where it was. Takes effect at the next compile or observation.
void sr_variable_move(sr_tensor variable, void *memory);
// Device memory of a variable.
void *sr_variable_memory(sr_tensor variable);
// The name that a variable was made with. Borrowed until sr_context_free.
const char *sr_variable_name(sr_tensor variable);
// Copies host memory into a variable now (after everything that was observed before). Values that
// this step recorded and nobody has observed yet are computed from the new value.
SR_NODISCARD sr_status sr_variable_write(sr_tensor variable, const void *data);
// At the next sr_context_run, or sr_read of a variable, the variable takes this value (same shape
// and dtype): carries values across steps. What was recorded before keeps the old value.
void sr_variable_assign(sr_tensor variable, sr_tensor value);

// A value of this step from host memory, copied at once.
sr_tensor sr_constant(sr_context *context, const sr_info *info, const void *data);
// A value that is bound when a compiled plan runs; slot 0..63, each slot once a step.
sr_tensor sr_input(sr_context *context, int slot, const sr_info *info);

// Cut: runs what the tensor needs and copies it to host memory of 'bytes' bytes (must equal its
// size). Values that recorded derivative rules read, and those of sr_keep, are kept; any other
// earlier value used later is recomputed from the record (sr_context_stats counts them, by name in
// the debug log). Reading a variable runs what sr_context_run would, where updates wait.
SR_NODISCARD sr_status sr_read(sr_tensor tensor, void *data, size_t bytes);
// Delivers at the next sr_context_run.
void sr_read_later(sr_tensor tensor, void *data, size_t bytes);
// The value stays in memory until the end of the step once it has been computed.
void sr_keep(sr_tensor tensor);
// Runs updates, assignments and everything asked for with sr_read_later, and waits.
SR_NODISCARD sr_status sr_context_run(sr_context *context);

// Counters of a context since its creation.
typedef struct sr_context_stats {
    uint64_t nodes_recorded, plans_compiled, plans_replayed, nodes_recomputed;
    // Of the nodes recorded, those that an earlier step had recorded at the same place; programs
    // that were those of an earlier step, so that they were neither built nor looked for.
    uint64_t nodes_repeated, programs_repeated;
    // Own cost: from the beginning of steps to their first observation (model code and derivative
    // rules included); making records canonical, hashing, finding plans; compiling, beside what the
    // providers take to make their kernels ready, which is prepare_ns.
    uint64_t record_ns, hash_ns, compile_ns, prepare_ns;
    size_t planned_peak_bytes, live_bound_bytes; // of the largest plan
} sr_context_stats;
// The counters as they stand.
sr_context_stats sr_context_get_stats(const sr_context *context);

// ---- Compiled use: the trainer records once and replays for every lane ----

// What a plan is asked for. Where 'after' is a variable, the sink gets the target only when every
// node that reads that variable has run: an update of the variable may then begin.
typedef struct sr_target {
    sr_tensor tensor;
    sr_tensor after; // SR_NONE: none
} sr_target;

// Compiles (or finds) the plan that computes 'targets' from inputs and variables; updates recorded
// so far become part of it, and are then no longer run by sr_context_run. The plan is
// borrowed from the context's cache: valid until sr_context_free or until the cache, over its
// limit, drops those that longest were not asked for (never one of this step); compile again every
// step: a step that repeats an earlier one is known by comparison while it is recorded (repeat.c).
SR_NODISCARD sr_status sr_compile(sr_context *context, const sr_target *targets, int count,
                                  sr_plan **out);

// An executor: a stream (team of threads) with its own memory range and pointer tables. Plans of
// one context replay on many executors at the same time.
typedef struct sr_executor sr_executor;
// threads: of its team; 0: all processors of this process. SR_E_MEMORY.
SR_NODISCARD sr_status sr_executor_create(sr_device *device, int threads, sr_executor **out);
// Waits for its replay first; NULL is legal.
void sr_executor_free(sr_executor *executor);

// Called on the executor's thread the moment target 'index' is complete (and its 'after' is
// through): 'data' is host-readable memory, valid during the call.
typedef sr_status (*sr_sink_fn)(void *user, int index, const void *data, size_t bytes);

// What one replay gets and where its targets go.
typedef struct sr_run {
    void *const *inputs; // device or host memory of each input slot used (array of 64)
    sr_sink_fn sink;     // may be NULL
    void *user;
} sr_run;

// Starts a replay; returns at once. One replay per executor at a time (SR_E_ARGUMENT while one is
// not waited for). 'run' is copied, the arrays
// it points to must live until the wait.
SR_NODISCARD sr_status sr_executor_begin(sr_executor *executor, sr_plan *plan, const sr_run *run);
// Waits for the replay; returns its first failure: a kernel's, a sink's.
SR_NODISCARD sr_status sr_executor_wait(sr_executor *executor);

// ---- Seeing ----
// Bytes of memory that a replay takes for values, beside inputs and variables.
size_t sr_plan_peak_bytes(const sr_plan *plan);
// Lower bound of that: the most bytes that are alive at the same time.
size_t sr_plan_live_bound_bytes(const sr_plan *plan);
// Kernels that one replay runs.
int sr_plan_node_count(const sr_plan *plan);
// Floating-point operations of one replay.
double sr_plan_flops(const sr_plan *plan);
// Bytes that the kernels of one replay must read and write.
double sr_plan_bytes(const sr_plan *plan);

typedef struct sr_text sr_text; // kernels/base/text.h
// Appends the plan: a line for each step with the number of its independent units, the model line
// that recorded it, and the stages of kernels ("kernel/provider:stage") that run in turn in each
// unit.
SR_NODISCARD sr_status sr_plan_text(const sr_plan *plan, sr_text *out);

// Per-node times of an executor's replays (off by default): names and accumulated nanoseconds.
typedef struct sr_node_profile {
    const char *op, *kernel;
    double flops, bytes;
    int64_t ns, runs;
} sr_node_profile;
// Switches the times on or off from the next replay on.
void sr_executor_set_profiling(sr_executor *executor, bool on);
// Fills up to 'capacity' rows of the last profiled plan in execution order; returns the number of
// rows that there are. Not while a replay is under way.
int sr_executor_get_profile(const sr_executor *executor, sr_node_profile *rows, int capacity);

#ifdef __cplusplus
}
#endif

// As in graph/ops.h: errors name the line of the call. Calls that make tensors of values have no
// such macro: they stand among the arguments of operators, whose line it must stay.
#ifndef SR_OPS_PLAIN
#define sr_variable_move(...) (sr_at(__FILE__, __LINE__), sr_variable_move(__VA_ARGS__))
#define sr_variable_memory(...) (sr_at(__FILE__, __LINE__), sr_variable_memory(__VA_ARGS__))
#define sr_variable_name(...) (sr_at(__FILE__, __LINE__), sr_variable_name(__VA_ARGS__))
#define sr_variable_write(...) (sr_at(__FILE__, __LINE__), sr_variable_write(__VA_ARGS__))
#define sr_variable_assign(...) (sr_at(__FILE__, __LINE__), sr_variable_assign(__VA_ARGS__))
#define sr_read(...) (sr_at(__FILE__, __LINE__), sr_read(__VA_ARGS__))
#define sr_read_later(...) (sr_at(__FILE__, __LINE__), sr_read_later(__VA_ARGS__))
#define sr_keep(...) (sr_at(__FILE__, __LINE__), sr_keep(__VA_ARGS__))
#define sr_compile(...) (sr_at(__FILE__, __LINE__), sr_compile(__VA_ARGS__))
#define sr_tensor_info(...) (sr_at(__FILE__, __LINE__), sr_tensor_info(__VA_ARGS__))
#endif
#endif
