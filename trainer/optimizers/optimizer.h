// SPDX-License-Identifier: Apache-2.0
// Optimisers: one descriptor each, applied to the ranges of the flat space that a rank owns.
//
// The update of a step runs on the communication thread, bucket by bucket, during the backward
// pass. It calls one prepared kernel per run of elements with equal settings. The kernel's
// arguments are the parameters, the states in order, the gradient sum, and sixteen numbers that
// 'fill' computes once per step for each group.
#ifndef SR_TRAINER_OPTIMIZER_H
#define SR_TRAINER_OPTIMIZER_H

#include "kernels/base/options.h"
#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_OPTIMIZER_ABI 3        // of sr_optimizer_desc
#define SR_OPTIMIZER_MAX_STATES 3 // state values per parameter
#define SR_HYPER 16               // numbers that a kernel gets per group
#define SR_MATRIX_ITERATIONS 5    // of a matrix's direction

// The input of 'fill' in one step for one group of parameters.
typedef struct sr_hyper_request {
    double lr;             // of the schedule, scaled for the group
    double weight_decay;   // scaled for the group
    double gradient_scale; // the sum over lanes times this is the gradient of the loss
    int64_t step;          // updates of the parameter set before this one, over the whole run
    // Of optimisers with reductions, Euclidean norms: of all gradients together; of this tensor's
    // gradient or, for 'finish', its direction; of its parameters before the update (with two
    // reductions for 'finish' alone). All with gradient_scale.
    double global_norm, norm, param_norm;
    int64_t rows, columns; // of a matrix that is updated as a whole; else 0
} sr_hyper_request;

// Reductions. The update of an optimiser with none begins with the first complete bucket. With one
// it waits for all gradients: 'fill' is then called for each tensor, and knows its norms (LARS).
// With two, the kernel computes no parameters, but replaces the gradient by a direction u; when the
// norms of all directions are known, 'finish' gives three numbers for each tensor, and
// p = keep p + take (scale u) (LAMB).

// The layout of the numbers of a group ('hyper', zero before) is the optimiser's own: 'fill' writes
// what its kernel reads, nothing else reads them. 'fill' is called once per step for each group,
// with the same input on every rank, and must give the same bits there: it may use no libm function
// but sqrt. SGD's layout is in graph/ops.h (sr_sgd_update).
//
// States are zero before the first step, and after parameters were loaded without their optimiser
// state. An optimiser that starts differently (SGD's first momentum is the gradient itself) detects
// the first step by request->step == 0; a resumed run continues its count.
// Matrices. An optimiser with two reductions may treat weights of two or more dimensions, as
// matrices [first dimension, rest], in another way (Muon). Their direction comes from a momentum m,
// the first state: m = h[0] m + h[1] (h[2] g), u = h[4] g + h[5] (h[6] m), with the numbers of
// 'fill_matrix'. When its norm is known, u / (|u| + 1e-7) is brought near the orthogonal matrix
// with the same singular vectors, by some steps of a Newton-Schulz iteration; then 'finish'. One
// rank owns the whole matrix. Directions of all other parameters may come from such a momentum, too
// ('is_linear'), without the iteration; the request then has no rows.
//
// tests/samples/optimizer_signum.c is an optimiser outside the tree.

// An optimiser's descriptor. Immutable.
typedef struct sr_optimizer_desc {
    uint32_t struct_size, abi;
    const char *name, *help;
    const sr_option_table *options;          // momentum, nesterov, ...
    sr_status (*check)(const void *options); // combinations of options; NULL: nothing to check
    int states;
    const char *state_names[SR_OPTIMIZER_MAX_STATES]; // "momentum"; names in checkpoints
    // Bits of the states that exist with these options; the kernel gets another state in place of
    // one that does not, and must not touch it. NULL: all.
    uint32_t (*uses)(const void *options);
    sr_kernel_id kernel; // arguments: p, states..., g, hyper; params: sr_count_params
    void (*fill)(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]);
    int reductions; // 0 to 2
    // Of matrices; NULL: all tensors alike.
    void (*fill_matrix)(const void *options, const sr_hyper_request *request,
                        float hyper[SR_HYPER]);
    bool (*is_linear)(const void *options); // NULL: no
    int (*iterations)(const void *options); // NULL: SR_MATRIX_ITERATIONS
    // With two reductions: keep, take, scale.
    void (*finish)(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]);
    // Its own kernels, if 'kernel' is SR_KERNEL_OWN (kernels/kernel.h). They must be elementwise:
    // the flat space is divided at any element, so an element's new value must not need another
    // element.
    const sr_kernel_entry *kernels;
    size_t kernel_count;
} sr_optimizer_desc;

// All optimisers: those of trainer/optimizers/optimizer_list.def, then those of plug-ins.
const sr_optimizer_desc *const *sr_optimizers(size_t *count);
// Adds the optimisers of a plug-in (trainer/engine/plugins.h). 'origin' must stay valid.
SR_NODISCARD sr_status sr_optimizers_add(const sr_optimizer_desc *const *list, const char *origin);

#ifdef __cplusplus
}
#endif
#endif
