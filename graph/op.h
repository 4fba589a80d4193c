// SPDX-License-Identifier: Apache-2.0
// Operator descriptors: everything about an operator is in one descriptor, in one file
// graph/ops/op_X.c, or, for elementwise formulas, in one row of kernels/expression_list.def.
//
// There is no switch over operators: shape inference, lowering to a kernel, derivative, cost and
// in-place permission are fields of the descriptor. A new operator needs one file and one line in
// graph/ops/op_list.def, or one row; its public function in graph/ops.h; and one test case (the
// suite fails without it).
#ifndef SR_GRAPH_OP_H
#define SR_GRAPH_OP_H

#include "graph/op_attr.h"
#include "graph/tensor.h"
#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_OP_ABI 5          // of sr_op, checked for operators of plug-ins
#define SR_OP_MAX_INPUTS 8   // of one operator
#define SR_OP_MAX_OUTPUTS 4  // of one operator
#define SR_OP_ATTR_BYTES 128 // of an operator's attributes

typedef struct sr_context sr_context; // graph/context.h

// A recorded node, as passed to inference, lowering and derivative rules. Absent optional inputs
// are SR_NONE and have dtype SR_DTYPE_COUNT in 'in'.
typedef struct sr_node_view {
    const struct sr_op *op;
    const void *attr;
    int inputs;
    const sr_info *in;       // [inputs]
    const sr_info *out;      // [op->outputs]; during inference zeroed, to be filled
    const sr_tensor *input;  // [inputs]; NULL during inference and lowering
    const sr_tensor *output; // [op->outputs]; likewise
} sr_node_view;

// What the outputs of an operator become when lanes that run side by side meet behind it.
typedef enum sr_join {
    SR_JOIN_NONE = 0,
    SR_JOIN_SUM,     // of one output: its sum over lanes
    SR_JOIN_MOMENTS, // of two outputs, mean and biased variance of as many elements in each lane:
                     // those of all elements
} sr_join;

// An operator's descriptor. Immutable. Its rules must depend only on their arguments: a step that
// repeats an earlier one does not call them again.
typedef struct sr_op {
    uint32_t struct_size, abi;
    const char *name; // "conv2d"
    const char *help; // one line
    int inputs;       // number of input positions; trailing and optional ones may be SR_NONE
    const char *input_name[SR_OP_MAX_INPUTS]; // "x", as in the formula of 'help'; for messages
    int required;                             // the first 'required' inputs must be present
    int outputs; // a plan may leave out those that the kernel may leave out (SR_ARG_OPT_OUT)
    size_t
        attr_size; // bytes of the attribute struct, <= SR_OP_ATTR_BYTES, zeroed before it is filled

    // Computes shapes and dtypes of the outputs, or fails with SR_FAIL(SR_E_SHAPE, ...), naming the
    // shapes. 'out' is writable here.
    sr_status (*infer)(const sr_node_view *node, sr_info *out);

    // Selects the kernel that computes the node. Arguments are the inputs by position, then the
    // outputs. The arguments (request->args, dtypes) have defaults before the call; the rule fills
    // 'kernel' and 'params'. NULL for operators that only rename their input (alias). For an
    // operator with its own kernels, 'kernel' is also set before the call; the rule fills only
    // 'params' and may be NULL.
    sr_status (*lower)(const sr_node_view *node, sr_kernel_request *request);

    // Records nodes that compute the gradients of the inputs: grad_out[i] is the gradient of output
    // i (SR_NONE if there is none); wanted[i] says whether grad_in[i] is needed; the rule leaves it
    // SR_NONE if it is zero. Never called without any grad_out. NULL: not differentiable. Then a
    // gradient that reaches the operator is an error naming it, unless 'stops' has all inputs.
    void (*derivative)(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in);
    uint32_t keeps_inputs, keeps_outputs; // bit i: the derivative rule reads input / output i
    // Where differentiation ends (sr_op_gradient_text describes it). Integer inputs and outputs
    // never have a gradient.
    uint32_t stops;  // bit i: the gradient of input i is zero: labels, keys, step functions
    uint32_t hidden; // bit i: only the rule reads output i; a gradient of it is an error
    bool once;       // the rule records an operator without a rule: no second derivative

    // Bit (8 * output + input): the output may reuse the memory of that input if this is its last
    // use.
    uint32_t in_place;
    // Bit mask of inputs that the kernel updates in place (variables only), for optimiser steps.
    // The node then has no outputs and is never pruned.
    uint32_t updates;
    bool alias; // output 0 is input 0 under another shape: no kernel, no memory

    // If the int64_t at 'join_lanes' of the attributes is more than 1, a plan stops behind the
    // operator until its outputs, f32, are those of a group of so many lanes.
    sr_join join;
    size_t join_lanes;

    // An operator that recomputes output 0 with the same bits. Its inputs are the inputs of the
    // node, then its outputs 1, 2, ...; its attributes are the same. It lets a plan free the memory
    // in between. NULL: recomputing is too expensive.
    const struct sr_op *again;

    // Floating-point operations of one run, and bytes that it must read and write. NULL: 0, and the
    // sum of the arguments' sizes.
    void (*cost)(const sr_node_view *node, double *flops, double *bytes);

    // Kernels of an operator outside the tree: [kernel_count] entries with 'kernel' SR_KERNEL_OWN;
    // the last one that supports a request serves it. One for f64 makes sr_gradient_check possible.
    // They must follow the rule of blocks (kernels/kernel.h).
    const sr_kernel_entry *kernels;
    size_t kernel_count;

    // The members of the attributes, ended by one without a name, so that programs can be written
    // as text. NULL: the attributes are written as bytes.
    const sr_attr_field *fields;
} sr_op;

// All operators: those of op_list.def in order, then those of plug-ins. Operators need not be in
// the table to be recorded: it is for listings and look-up by name.
const sr_op *const *sr_ops(size_t *count);
// The operator with this name, or NULL.
const sr_op *sr_op_find(const char *name);
// Adds a plug-in's operators (trainer/engine/plugins.h); 'origin' must stay valid.
SR_NODISCARD sr_status sr_ops_add(const sr_op *const *list, const char *origin);

// Whether the gradients of all inputs are zero, so that differentiation ends here without an error.
static inline bool sr_op_stops(const sr_op *op) {
    return !op->derivative && op->stops == (1u << op->inputs) - 1;
}
#define SR_OP_GRADIENT_TEXT 128 // bytes of that text
// Writes where differentiation ends ("x, once; none to labels") to 'out' and returns it.
char *sr_op_gradient_text(const sr_op *op, char out[SR_OP_GRADIENT_TEXT]);

// Records a node. 'input' has op->inputs entries. Writes op->outputs tensors to 'output' (none
// after an error; the first error sticks to the context with file and line of sr_at, operator and
// input). The context is that of the first present input, else the one that this thread used last.
void sr_op_record(const sr_op *op, const void *attr, const sr_tensor *input, sr_tensor *output);
// The same for operators with one output.
sr_tensor sr_op_record_one(const sr_op *op, const void *attr, const sr_tensor *input);

// For calls that examine an argument before they record: gets dtype and shape of 'x'. Returns false
// if an error sticks; the call must then return sr_op_failed(). what: "flatten: x", for the
// message. out may be NULL.
bool sr_op_argument(sr_tensor x, const char *what, sr_info *out);
// The result of a failed call: no tensor, with the number of its context.
sr_tensor sr_op_failed(void);
// Makes a failure that already has a message stick to the context, prefixed with file, line and
// name of the call; returns sr_op_failed().
sr_tensor sr_op_refused(sr_status status, const char *name);

#ifdef __cplusplus
}
#endif
#endif
