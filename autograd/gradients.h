// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation: records the gradient's nodes into the same program.
#ifndef SR_AUTOGRAD_GRADIENTS_H
#define SR_AUTOGRAD_GRADIENTS_H

#include "graph/context.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes to grads[i] the gradient of sum(y * dy) with respect to xs[i], in its shape and dtype. dy
// has the shape of y; SR_NONE means ones. The recorded nodes are ordinary nodes: gradients of
// gradients work wherever the rules are differentiable themselves.
//
// If y does not depend on xs[i], or only through inputs at which gradients stop (labels, random
// keys, step functions), the gradient is a tensor of zeros. If it depends on xs[i] through an
// operator without a derivative rule (softmax, gradients of operators that are differentiable
// once), the call fails and names that operator. `serried info ops` shows which inputs of each
// operator have gradients (sr_op_gradient_text). y and xs are floats: integers have no gradient.
//
// Errors stick to the context; SR_NONE as y or as one of the xs is an error, too.
void sr_gradients(sr_tensor y, sr_tensor dy, const sr_tensor *xs, int count, sr_tensor *grads);

// Gradient check by central differences in f64 (reference kernels): 'build' records a function of
// the given inputs and returns its result. Directional derivatives are compared along 'directions'
// random directions; *worst is the largest relative error. For tests, and for operators of users.
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

// As in graph/ops.h: errors name the line of the call.
#ifndef SR_OPS_PLAIN
#define sr_gradients(...) (sr_at(__FILE__, __LINE__), sr_gradients(__VA_ARGS__))
#endif
#endif
