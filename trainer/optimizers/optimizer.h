// SPDX-License-Identifier: Apache-2.0
// Optimisers: one descriptor each, applied to the flat ranges that a rank owns.
//
// The update of a step runs on the communication thread, bucket by bucket, under the rest of the
// backward pass. It calls one prepared kernel per piece (a run of elements with equal settings);
// the kernel's arguments are the parameters, the states in order, the gradient sum and eight
// numbers that 'fill' computes once a step for each group.
#ifndef SR_TRAINER_OPTIMIZER_H
#define SR_TRAINER_OPTIMIZER_H

#include "kernels/base/options.h"
#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_OPTIMIZER_ABI 1        // of sr_optimizer_desc
#define SR_OPTIMIZER_MAX_STATES 3 // state values of a parameter
#define SR_HYPER 8                // numbers that a kernel gets for a group

// What a step hands to an optimiser for one group of parameters.
typedef struct sr_hyper_request {
    double lr;             // of the schedule, scaled for the group
    double weight_decay;   // scaled for the group
    double gradient_scale; // the sum over lanes times this is the gradient of the loss
    int64_t step;          // from 0, over the whole run: the first step is 0
} sr_hyper_request;

// The eight numbers of a group ('hyper') have the layout that the optimiser gives them: 'fill'
// writes what its kernel reads, nobody else looks. 'fill' is asked once a step for each group, on
// every rank alike. SGD's layout is in graph/ops.h (sr_sgd_update).
//
// States are zeros before the first step, and after parameters were loaded without their optimiser
// state. An optimiser that begins otherwise (SGD's momentum is the first gradient itself) tells its
// kernel so by request->step == 0; a run that goes on from a checkpoint goes on counting.
// tests/samples/optimizer_lion.c is an optimiser out of tree.

// An optimiser's descriptor. Immutable.
typedef struct sr_optimizer_desc {
    uint32_t struct_size, abi;
    const char *name, *help;
    const sr_option_table *options;          // of its own: momentum, nesterov, ...
    sr_status (*check)(const void *options); // what must fit together; NULL: nothing
    int states;
    const char *state_names[SR_OPTIMIZER_MAX_STATES]; // "momentum"
    sr_kernel_id kernel; // arguments: p, states..., g, hyper; params: sr_count_params
    void (*fill)(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]);
    // Of its own, where 'kernel' is SR_KERNEL_OWN (kernels/kernel.h): elementwise, since the flat
    // space is cut into pieces anywhere, so an element's new value may need no other element.
    const sr_kernel_entry *kernels;
    size_t kernel_count;
} sr_optimizer_desc;

// All optimisers: those of trainer/optimizers/optimizer_list.def, then those of plug-ins.
const sr_optimizer_desc *const *sr_optimizers(size_t *count);
// Adds a plug-in's (trainer/engine/plugins.h); 'origin' must live on.
SR_NODISCARD sr_status sr_optimizers_add(const sr_optimizer_desc *const *list, const char *origin);

#ifdef __cplusplus
}
#endif
#endif
