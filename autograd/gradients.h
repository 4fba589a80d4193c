// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation: records the gradient's nodes into the same program.
#ifndef SR_AUTOGRAD_GRADIENTS_H
#define SR_AUTOGRAD_GRADIENTS_H

#include "graph/context.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes to grads[i] the gradient of sum(y * dy) with respect to xs[i] (same shape; the dtype of a
// parameter's gradient is the parameter's), SR_NONE where xs[i] does not reach y. dy SR_NONE stands
// for ones. The recorded nodes are ordinary nodes: gradients of gradients work wherever the rules
// are differentiable themselves. Errors stick to the context.
void sr_gradients(sr_tensor y, sr_tensor dy, const sr_tensor *xs, int count, sr_tensor *grads);

// Gradient check by central differences in f64 (reference kernels): 'build' records the function of
// the given inputs and returns a tensor; compares directional derivatives along 'directions' random
// directions. *worst gets the largest relative error. For tests and users' own operators.
typedef sr_tensor (*sr_check_fn)(sr_context *context, const sr_tensor *inputs, void *user);
// infos, values, differentiable: [count], the shapes (f64), elements and which of them are checked.
// The caller compares *worst with its own bound.
SR_NODISCARD sr_status sr_gradient_check(sr_context *context, const sr_info *infos,
                                         const double *const *values, int count,
                                         const bool *differentiable, sr_check_fn build, void *user,
                                         uint64_t seed, int directions, double *worst);

#ifdef __cplusplus
}
#endif
#endif
