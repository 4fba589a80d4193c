// SPDX-License-Identifier: Apache-2.0
// Recording contexts: record operator calls and run them.
//
// There is only one execution path: calls record nodes, and an observation (sr_read,
// sr_context_run, sr_compile) compiles the nodes it needs, or replays the plan of an equal program.
// A context belongs to one thread.
#ifndef SR_GRAPH_CONTEXT_H
#define SR_GRAPH_CONTEXT_H

#include <stddef.h>

#include "graph/ops.h"
#include "graph/tensor.h"
#include "kernels/base/status.h"
#include "kernels/device/stream.h"
#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// Records operators and runs them; owns its variables and compiled plans.
typedef struct sr_context sr_context;
// A compiled program: kernels in order and the location of their memory. Immutable.
typedef struct sr_plan sr_plan;
struct sr_kernel_request; // kernels/kernel.h

// Settings of a context; all zeros are the defaults.
typedef struct sr_context_options {
    const char *device;      // "cpu", "cpu-async"; NULL: SERRIED_TEST_DEVICE if set, else "cpu"
    sr_device *use_device;   // borrowed; overrides 'device'
    int threads;             // of the context's own stream; 0: all processors of this process
    int optimize;            // 0: all passes, which are bit-neutral but for pass_prologue.c;
                             // -1: none (for tests)
    size_t plan_cache_bytes; // limit of cached plans, without kernel state; 0: 256 MiB
} sr_context_options;

// Opens the device and creates an empty context. options may be NULL. SR_E_USAGE for an unknown
// device.
SR_NODISCARD sr_status sr_context_create(const sr_context_options *options, sr_context **out);
// Frees the context with its variables and plans; executors must be idle. NULL is legal.
void sr_context_free(sr_context *context);
// The device that the context computes on. Borrowed.
sr_device *sr_context_device(sr_context *context);

// Whether plans compiled from now on recompute cheap values in the backward pass instead of keeping
// them, which takes less memory, more time, and gives the same bits. Until the first call they do
// so on CPUs, where what is kept falls out of the cache.
void sr_context_set_recomputing(sr_context *context, bool on);
// Which products and max poolings take batch norm and ReLU along on devices with streams
// (pass_prologue.c, pass_fuse_pool.c): until the first call, those for which the device has a
// kernel of another class than "reference". For plans as those of another device, before the first
// plan is compiled.
void sr_context_set_prologues(sr_context *context,
                              bool (*takes)(const struct sr_kernel_request *request));

// The first error since the step began (sr_error_message on this thread has its message).
SR_NODISCARD sr_status sr_context_status(sr_context *context);
// Starts a step: discards everything recorded, including updates and assignments that have not run.
// Tensors other than variables become stale. Clears the error. No replay of this context's plans
// may be running, since replays read constants of the step.
void sr_context_begin_step(sr_context *context);

// Creates a variable, which outlives steps. data: host memory with the initial value, or NULL for
// zeros.
sr_tensor sr_variable(sr_context *context, const char *name, const sr_info *info, const void *data);
// The same in device memory of the caller (64-byte aligned, valid until sr_context_free).
sr_tensor sr_variable_on(sr_context *context, const char *name, const sr_info *info,
                         sr_address memory);
// Moves a variable to other device memory of the same size (which must stay valid as long); the
// value is not copied. Takes effect at the next compile or observation.
void sr_variable_move(sr_tensor variable, sr_address memory);
// The device address of a variable.
sr_address sr_variable_memory(sr_tensor variable);
// The name that a variable was made with. Borrowed until sr_context_free.
const char *sr_variable_name(sr_tensor variable);
// Copies host memory into a variable now, after everything observed so far. Values that were
// recorded in this step but not yet observed are computed from the new value.
SR_NODISCARD sr_status sr_variable_write(sr_tensor variable, const void *data);
// At the next sr_context_run, or sr_read of a variable, the variable takes this value (same shape
// and dtype). This carries values across steps. Calls recorded before this one use the old value.
void sr_variable_assign(sr_tensor variable, sr_tensor value);

// A value of this step from host memory, copied at once.
sr_tensor sr_constant(sr_context *context, const sr_info *info, const void *data);
// Zero-filled host memory in which model code computes a constant, valid until the next call of
// this function, derivative rule or observation; allocates only to grow. NULL with the error set
// when memory is out.
void *sr_context_scratch(sr_context *context, size_t bytes);
#define SR_INPUT_SLOTS 64 // of a program
// A value that is bound when a compiled plan runs. slot: 0 .. SR_INPUT_SLOTS - 1, each used once in
// a step.
sr_tensor sr_input(sr_context *context, int slot, const sr_info *info);

// Cuts the recording: computes the tensor with everything it depends on, and copies it to host
// memory of 'bytes' bytes (must equal its size). Values that recorded derivative rules read, and
// values of sr_keep, are kept; any other earlier value that is used later is recomputed (counted by
// sr_context_stats, named in the debug log). Reading a variable while updates are pending runs what
// sr_context_run runs.
SR_NODISCARD sr_status sr_read(sr_tensor tensor, void *data, size_t bytes);
// Copies the tensor to host memory at the next sr_context_run.
void sr_read_later(sr_tensor tensor, void *data, size_t bytes);
// Keeps the value in memory, once computed, until the end of the step.
void sr_keep(sr_tensor tensor);
// Runs updates, assignments and the reads of sr_read_later, and waits.
SR_NODISCARD sr_status sr_context_run(sr_context *context);

// Counters of a context since its creation.
typedef struct sr_context_stats {
    uint64_t nodes_recorded, plans_compiled, plans_replayed, nodes_recomputed;
    // nodes_repeated: recorded nodes that an earlier step had recorded at the same position;
    // programs_repeated: programs that repeated those of an earlier step, so that they were neither
    // built nor looked up.
    uint64_t nodes_repeated, programs_repeated;
    // Overhead: record_ns, from the beginning of steps to their first observation (with model code
    // and derivative rules); hash_ns, building canonical programs, hashing, finding plans;
    // compile_ns, compiling without prepare_ns, in which providers prepare kernels.
    uint64_t record_ns, hash_ns, compile_ns, prepare_ns;
    size_t planned_peak_bytes, live_bound_bytes; // of the largest plan
} sr_context_stats;
// The current counters.
sr_context_stats sr_context_get_stats(const sr_context *context);

// ---- Compiled use: the trainer records once and replays for every lane ----

// A value that a plan delivers. If 'after' is a variable, the sink gets the target only when every
// node that reads this variable has run, so that an update of the variable may begin.
//
// On devices that run beside the host the targets of a group are passed to the sink one after the
// other, when the last of them is complete, unless those that wait for it take too much memory.
typedef struct sr_target {
    sr_tensor tensor;
    sr_tensor after; // SR_NONE: none
    uint32_t group;  // 0: none
} sr_target;

// Compiles, or finds in the cache, the plan that computes 'targets' from inputs and variables.
// Updates recorded so far become part of it and are no longer run by sr_context_run. The plan is
// borrowed from the context's cache: it is valid until sr_context_free, or until the cache exceeds
// its limit and drops the least recently used plans (never one of this step). Call this in every
// step: a step that repeats an earlier one is recognised during recording (repeat.c).
SR_NODISCARD sr_status sr_compile(sr_context *context, const sr_target *targets, int count,
                                  sr_plan **out);
// The same for 'lanes' lanes side by side: a replay computes the program for each of them, with the
// bits of a replay for it alone. What depends on an input slot has a value for each lane, all else
// is computed once. A slot's memory holds the values of the lanes, sr_lane_stride(bytes of one)
// apart, and so do targets (sr_plan_target_stride). Only on devices that run beside the host;
// SR_E_UNSUPPORTED on others, and for a program that joins lanes, updates variables or keeps
// values.
SR_NODISCARD sr_status sr_compile_lanes(sr_context *context, const sr_target *targets, int count,
                                        int lanes, sr_plan **out);
// Lanes of a plan.
int sr_plan_lanes(const sr_plan *plan);
// How many bytes a target of each lane is behind that of the lane before; 0: lanes share it.
size_t sr_plan_target_stride(const sr_plan *plan, int target);

#define SR_LANE_ALIGN ((size_t)SR_KERNEL_LANE_ALIGN) // of the values of each lane
// How far the values of two lanes are apart, if each has so many bytes.
static inline size_t sr_lane_stride(size_t bytes) {
    return (bytes + SR_LANE_ALIGN - 1) / SR_LANE_ALIGN * SR_LANE_ALIGN;
}

// An executor: a stream (team of threads) with its own memory range and pointer tables. Plans of
// one context can replay on several executors at the same time.
typedef struct sr_executor sr_executor;
// threads: size of its team; 0: all processors of this process. SR_E_MEMORY.
SR_NODISCARD sr_status sr_executor_create(sr_device *device, int threads, sr_executor **out);
// Waits for its replay first; NULL is legal.
void sr_executor_free(sr_executor *executor);

// Called for target 'index', possibly on a thread of the executor; 'data' and 'bytes' are those of
// the first lane. Work that the call enqueues on 'stream' (copies, kernels) runs after the target
// is complete and all reads of its 'after' are done, and before the target's memory is reused.
typedef sr_status (*sr_sink_fn)(void *user, int index, sr_address data, size_t bytes,
                                sr_stream *stream);

// Called behind the calls of the sink that follow each other: work for these targets may still be
// enqueued here.
typedef sr_status (*sr_sink_end_fn)(void *user, sr_stream *stream);

// Inputs of one replay, and the sink of its targets.
typedef struct sr_run {
    const sr_address *inputs; // [SR_INPUT_SLOTS]: device memory of each input slot used
    sr_sink_fn sink;          // may be NULL
    sr_sink_end_fn sink_end;  // may be NULL
    void *user;
    bool stops; // the caller joins lanes (sr_executor_stop)
} sr_run;

// Starts a replay and returns at once. One replay per executor at a time (SR_E_ARGUMENT until the
// caller has waited for the last one). 'run' is copied; the arrays it points to must stay valid
// until the wait.
SR_NODISCARD sr_status sr_executor_begin(sr_executor *executor, sr_plan *plan, const sr_run *run);
// Waits for the replay, or for its next stop; returns its first failure, of a kernel or a sink.
SR_NODISCARD sr_status sr_executor_wait(sr_executor *executor);

#define SR_STOP_VALUES 8 // of a stop
// Values that lanes join at a stop: those of one operator (sr_lane_sum, sr_batchnorm_group).
typedef struct sr_stop_value {
    bool moments;       // data[0] are means and data[1] variances; else data[0] is summed
    int64_t lanes;      // of a group
    int64_t count;      // elements of each, f32
    sr_address data[2]; // to be replaced in place
} sr_stop_value;

// Number of places where a replay of the plan waits for other lanes. A plan with stops is replayed
// with sr_run.stops, one executor for each lane of a group: sr_executor_begin runs to the first
// stop, sr_executor_continue to the next one or to the end; sr_executor_wait before each.
int sr_plan_stop_count(const sr_plan *plan);
// Writes the values of the stop at which the replay is waiting and returns how many; 0: the replay
// has ended. Between sr_executor_wait and sr_executor_continue.
int sr_executor_stop(const sr_executor *executor, sr_stop_value values[SR_STOP_VALUES]);
// Continues behind the stop; from now on the values must not be written. A replay may also be left
// at a stop.
SR_NODISCARD sr_status sr_executor_continue(sr_executor *executor);

// ---- Inspection ----

// Bytes of memory that a replay needs for values, without inputs and variables.
size_t sr_plan_peak_bytes(const sr_plan *plan);
// A lower bound of that: the maximum number of bytes that are live at the same time.
size_t sr_plan_live_bound_bytes(const sr_plan *plan);
// Number of kernels that one replay runs.
int sr_plan_node_count(const sr_plan *plan);
// Floating-point operations of one replay.
double sr_plan_flops(const sr_plan *plan);
// Bytes that the kernels of one replay must read and write.
double sr_plan_bytes(const sr_plan *plan);

typedef struct sr_text sr_text; // kernels/base/text.h
// Appends the plan as text. The line of a step has the number of its independent units, the line of
// model code that recorded it, and the kernel stages ("kernel/provider:stage") that run one after
// the other in each unit.
SR_NODISCARD sr_status sr_plan_text(const sr_plan *plan, sr_text *out);

// Per-node times of an executor's replays (off by default): names and accumulated nanoseconds.
typedef struct sr_node_profile {
    const char *op, *kernel;
    const char *layer; // the first 'layer_length' characters (graph/call_layers.h); NULL: in none
    int layer_length;
    bool backward; // it computes a gradient, or a value again for one
    double flops, bytes;
    int64_t ns, runs;
} sr_node_profile;
// Switches the times on or off from the next replay on, and discards those measured so far.
void sr_executor_set_profiling(sr_executor *executor, bool on);
// Fills up to 'capacity' rows: those of each profiled plan in execution order, the plans in the
// order of their first replays. Returns the total number of rows. Must not be called while a replay
// is running.
int sr_executor_get_profile(const sr_executor *executor, sr_node_profile *rows, int capacity);

#ifdef __cplusplus
}
#endif

// As in graph/ops.h, errors name the line of the call. Calls that make tensors from values have no
// such macro: they are used as arguments of operators, whose line must be kept.
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
#define sr_compile_lanes(...) (sr_at(__FILE__, __LINE__), sr_compile_lanes(__VA_ARGS__))
#define sr_tensor_info(...) (sr_at(__FILE__, __LINE__), sr_tensor_info(__VA_ARGS__))
#endif
#endif
