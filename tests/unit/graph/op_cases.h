// SPDX-License-Identifier: Apache-2.0
// The table of operator cases that test_ops.c runs.
#ifndef SR_TESTS_UNIT_OP_CASES_H
#define SR_TESTS_UNIT_OP_CASES_H

#include "autograd/gradients.h"
#include "graph/op.h"

#define OP_CASE_INPUTS 8
#define OP_CASE_VALUES 16

enum op_case_gradient {
    GRADIENT_NONE = 0, // an error that names the operator
    GRADIENT_STOPS,    // no gradient, no error
    GRADIENT_ONCE,     // the gradient's gradient is an error
    GRADIENT_TWICE,
};

typedef struct op_case op_case;
struct op_case {
    const char *op; // the operator under test
    // Records the operator; 'user' is the case.
    sr_check_fn build;
    // The value under test is the result of build (wrt 0), or the gradient of build with respect to
    // input wrt - 1, where the last input is the gradient of build's result.
    int wrt;
    int inputs;
    sr_info info[OP_CASE_INPUTS]; // floats as f64
    uint32_t params;              // mask of inputs that stay f32 when activations are narrower
    uint32_t fixed;               // mask of float inputs that are not differentiated
    double low, high;             // of random inputs; both 0: -1 to 1
    enum op_case_gradient gradient;

    // Computed by hand: values of the inputs (also integers) and the result. Cases without 'want'
    // only test gradients.
    double in[OP_CASE_INPUTS][OP_CASE_VALUES];
    double want[OP_CASE_VALUES];
    int want_count;
    bool own_type; // the call states the type of its result: f64 only

    // Records an invalid call; the message must contain the text, and the name of the operator, or
    // of the call that consists of operators.
    void (*wrong)(sr_context *context);
    const char *message, *call;
};

extern const op_case op_cases_layers[], op_cases_matmul[], op_cases_norms[], op_cases_formulas[],
    op_cases_shapes[], op_cases_index[], op_cases_pictures[], op_cases_reduce[], op_cases_math[],
    op_cases_attention[], op_cases_windows[], op_cases_boxes[], op_cases_samples[];
extern const size_t op_cases_layers_count, op_cases_matmul_count, op_cases_norms_count,
    op_cases_formulas_count, op_cases_shapes_count, op_cases_index_count, op_cases_pictures_count,
    op_cases_reduce_count, op_cases_math_count, op_cases_attention_count, op_cases_windows_count,
    op_cases_boxes_count, op_cases_samples_count;

// Operators that update variables have no value and no gradient; functions of their own test them.
typedef struct op_update_case {
    const char *op;
    void (*run)(void);
    void (*wrong)(sr_context *context);
    const char *message;
} op_update_case;

extern const op_update_case op_update_cases[];
extern const size_t op_update_case_count;

#endif
