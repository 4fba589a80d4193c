// SPDX-License-Identifier: Apache-2.0
// serried bench step --plan --gpu: how long a training step takes on a GPU, without that GPU.
//
// The program of the lanes that run side by side is recorded and compiled as for a device that runs
// beside the host. Each kernel is that of the class that the CUDA module would take
// (bench_gpu_serve.c). Its time is the longest of three: its products and sums at the rate that
// was measured for such kernels; its bytes at the rate of a copy, of which our own kernels reach a
// share; and what cuDNN was measured to take for this shape (bench_gpu_times.c). Each launch adds
// the time that a graph of empty kernels was measured to take for one. The time of a step is the
// sum over its kernels. No cache keeps anything from one kernel to the next.
//
// The first level has the kernels that exist. Further levels change the list of kernels, one after
// the other, as in the performance model of ResNet-50 that they are named after.
#ifndef SR_LAUNCHER_BENCH_GPU_INTERNAL_H
#define SR_LAUNCHER_BENCH_GPU_INTERNAL_H

#include "graph/plan_view.h"
#include "kernels/base/text.h"
#include "kernels/kernel_params.h"
#include "launcher/bench/bench_step_internal.h"

// ---- bench_gpu_table.c: GPUs ----

typedef struct sr_gpu {
    const char *name, *model;
    const char *reported;          // model, as the driver names it
    double tensor_tf32, tensor_16; // FLOP/s of tensor cores: of f32 in TF32; of bf16 and f16
    double warp_16;                // FLOP/s of them by mma.sync, warp by warp
    double plain;                  // FLOP/s of f32 without them, by fused multiply-adds
    double bytes;                  // per second, read and written
    double own;                    // share of 'bytes' that our kernels reach
    double launch;                 // seconds from a kernel to the next, on the GPU
    double enqueue;                // seconds of the host for a launch
    double memory, cache;          // bytes; cache: of the second level
    bool measured;                 // whether bench_gpu_times.def is of this GPU, else see 'like'
    const char *like;              // name of the GPU whose measured times are scaled; NULL: none
    const char *source;            // of these figures
} sr_gpu;

// NULL if the table does not have it.
const sr_gpu *sr_gpu_find(const char *name);
// Row i of the table; NULL after the last.
const sr_gpu *sr_gpu_at(size_t i);
// The row of a device's model (sr_device_properties); NULL if the table does not have it.
const sr_gpu *sr_gpu_of_model(const char *model);

// ---- bench_gpu_program.c: the kernels of a step ----

enum { SR_GPU_USES = 16 }; // values that a kernel reads, or writes

// Rows of the report; those that are not listed are SR_GPU_OTHER.
typedef enum sr_gpu_family {
    SR_GPU_OTHER = 0,
    SR_GPU_POINTWISE,
    SR_GPU_POINTWISE_GRAD,
    SR_GPU_CONV,
    SR_GPU_CONV_GRAD,
    SR_GPU_BATCHNORM,
    SR_GPU_BATCHNORM_GRAD,
    SR_GPU_ELEMENTWISE,
    SR_GPU_POOL,
    SR_GPU_AGAIN,  // recomputed in the backward pass, to save memory
    SR_GPU_UPDATE, // of parameters, and what brings gradients there
    SR_GPU_FAMILIES
} sr_gpu_family;

// A tensor: written by one kernel, or given (then 'given').
typedef struct sr_gpu_value {
    double bytes;
    uint32_t root;         // values with the same number may share memory
    int original;          // the value of which it is a recomputation, or itself
    int mask;              // value of a bit for each element, with the signs; -1: none
    bool given, is_vector; // is_vector: of channels, or a number
    bool is_packed;        // weights as kernels take them: not a result of the one that makes it
} sr_gpu_value;

// How often all bytes of a value pass through memory, and how often the second-level cache serves
// them besides.
typedef struct sr_gpu_use {
    int value;
    double times, cached;
} sr_gpu_use;

// Numerics classes of the CUDA module.
typedef enum sr_gpu_class {
    SR_GPU_reference,
    SR_GPU_tensor,
    SR_GPU_mma,
    SR_GPU_cudnn,
    SR_GPU_cublaslt,
    SR_GPU_CLASSES
} sr_gpu_class;

typedef struct sr_gpu_kernel {
    const char *op, *why; // why: it reads more than its inputs once, or NULL
    sr_kernel_id id;
    sr_gpu_class numerics;
    sr_gpu_family family;
    sr_dtype dtype;  // of activations
    sr_info in, out; // the first ones
    sr_info filter;  // of convolutions; else of rank 0
    int stride;      // of convolutions without padding or dilation, of 1x1 filters
    sr_gpu_use reads[SR_GPU_USES], writes[SR_GPU_USES];
    int read_count, write_count;
    double flops, executed; // of the network; with those that the kernel pads or repeats
    double fixed;           // bytes beside those of values
    double measured;        // seconds of a run of all lanes; 0: not known
    double in_turn;         // the same where lanes that are launched one by one run so, too
    double functions;       // launches of a run for all lanes together, or for one
    double repeats, runs;   // repeats: for each lane of a run, or 1; runs in a step
    bool gone;              // became part of another kernel
    // Of batch norm: its x; what is added before the ReLU that it includes; the gradient that it
    // writes for others. Of gradients of convolutions: dy. -1: none.
    int raw, residual, shared, gradient;
    bool rectifies; // includes a ReLU, or its gradient
} sr_gpu_kernel;

typedef struct sr_gpu_program {
    sr_gpu_kernel *kernels;
    int kernel_count;
    size_t kernel_capacity;
    sr_gpu_value *values;
    int value_count;
    size_t value_capacity;
} sr_gpu_program;

// Adds the program of a plan of some lanes side by side, which runs 'runs' times in a step.
SR_NODISCARD sr_status sr_gpu_program_add(sr_gpu_program *program, const sr_plan *plan,
                                          const sr_gpu *gpu, double runs);
// Adds a kernel without values.
SR_NODISCARD sr_status sr_gpu_program_add_fixed(sr_gpu_program *program, const char *op,
                                                double bytes, double functions, double runs);
SR_NODISCARD sr_status sr_gpu_program_copy(const sr_gpu_program *from, sr_gpu_program *out);
void sr_gpu_program_release(sr_gpu_program *program);
// Appends a value; *out: its number.
SR_NODISCARD sr_status sr_gpu_value_add(sr_gpu_program *program, const sr_gpu_value *value,
                                        int *out);
// Whether a kernel is a convolution, a linear layer, or a gradient of one.
bool sr_gpu_is_product(const sr_gpu_kernel *kernel);
// The heading of a family's row.
const char *sr_gpu_family_name(sr_gpu_family family);

// ---- bench_gpu_serve.c: which kernels of the CUDA module serve a launch ----

// Whether the module has a kernel for a product, or for max pooling, that batch norm and ReLU come
// before, which plans then have (sr_context_set_prologues).
bool sr_gpu_takes_prologue(const sr_kernel_request *request);
// Fills in what depends on the kernel: its class, launches, times, and what it works on beside its
// arguments. lanes: of the plan, each with arguments of the shapes of 'view'.
void sr_gpu_serve(const sr_plan_launch_view *view, int lanes, const sr_gpu *gpu,
                  sr_gpu_kernel *kernel);
// The passes of an argument of its kernel, and of an output those that read it. Notes why, if that
// is more than it must be.
sr_gpu_use sr_gpu_passes(const sr_plan_launch_view *view, const sr_gpu *gpu, int argument,
                         sr_gpu_kernel *kernel);
// Bytes of an argument that its kernel packs first, and the functions that do it; 0: it does not.
double sr_gpu_packs(const sr_plan_launch_view *view, const sr_gpu_kernel *kernel, int argument,
                    double *functions);
const char *sr_gpu_class_name(sr_gpu_class numerics);

// ---- bench_gpu_times.c: what cuDNN was measured to take ----

// Seconds of a convolution or a gradient of one of n samples; 0: not known. x, y: of a sample.
double sr_gpu_measured(const sr_gpu *gpu, sr_kernel_id id, sr_dtype dtype, const sr_conv_params *p,
                       int64_t n);

// ---- bench_gpu_fuse.c: levels ----

// A level: what it does to the kernels of the level before.
typedef struct sr_gpu_step {
    const char *name, *what;
    sr_status (*apply)(sr_gpu_program *program);
} sr_gpu_step;

enum { SR_GPU_LEVELS = 6 };
extern const sr_gpu_step sr_gpu_steps[SR_GPU_LEVELS];

// ---- bench_gpu_limits.c: times ----

enum { SR_GPU_BY_FLOPS, SR_GPU_BY_BYTES, SR_GPU_BY_MEASURE, SR_GPU_BY_LAUNCH, SR_GPU_BOUNDS };
extern const char *const sr_gpu_bounds[SR_GPU_BOUNDS]; // "flops", "bytes", "measured", "launch"

// Of one kernel, or the sum over some. 'least': inputs and outputs once; 'cached': bytes that the
// second-level cache serves; 'workspace': of 'bytes', those of sums that are written and read.
typedef struct sr_gpu_cost {
    double kernels, functions, flops, executed, bytes, cached, least, workspace;
    double by[SR_GPU_BOUNDS];    // seconds by each of them alone
    double bound[SR_GPU_BOUNDS]; // seconds that each of them takes: the longest, and launches
    double seconds;              // the sum of these
} sr_gpu_cost;

// Of all runs of a kernel in a step.
sr_gpu_cost sr_gpu_cost_of(const sr_gpu_program *program, const sr_gpu_kernel *kernel,
                           const sr_gpu *gpu);
// What takes most of the time.
int sr_gpu_bound_of(const sr_gpu_cost *cost);
void sr_gpu_cost_add(sr_gpu_cost *to, const sr_gpu_cost *cost);
// Most bytes of values that are alive at a time.
SR_NODISCARD sr_status sr_gpu_live_bytes(const sr_gpu_program *program, double *out);

// ---- bench_gpu.c: all of it ----

typedef struct sr_gpu_level {
    sr_gpu_program program;
    sr_gpu_cost step, family[SR_GPU_FAMILIES];
    double memory; // bytes that the step needs
} sr_gpu_level;

typedef struct sr_gpu_plan {
    const sr_gpu *gpu;
    const sr_step_result *result;
    int at_once;         // lanes side by side
    double fixed_memory; // bytes of parameters, optimiser, sums of gradients and inputs
    sr_gpu_level level[SR_GPU_LEVELS];
} sr_gpu_plan;

// FLOP/s of a class's products, or of its other arithmetic.
double sr_gpu_flop_rate(const sr_gpu *gpu, sr_gpu_class numerics, sr_dtype dtype);

// Plans the steps of an engine for this GPU and prints the result.
SR_NODISCARD sr_status sr_step_plan_gpu(sr_engine *engine, const sr_step_result *result,
                                        const char *gpu, bool json);
SR_NODISCARD sr_status sr_gpu_report(const sr_gpu_plan *plan);
SR_NODISCARD sr_status sr_gpu_report_json(const sr_gpu_plan *plan);

#endif
