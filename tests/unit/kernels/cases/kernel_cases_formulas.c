// SPDX-License-Identifier: Apache-2.0
// Problems of kernels of single elements: formulas, casts, and sums over repeats (see
// kernel_cases.h).
#include "tests/unit/kernels/cases/kernel_case_builders.h"

// Numbers of elements.
static const int64_t element_counts[] = {1, 15, 16, 65, 3000, 65536 + 37};
enum { COUNTS = sizeof element_counts / sizeof element_counts[0] };

// Elementwise: inputs of these roles, one output, n elements.
static void elementwise(sr_kernel_id kernel, int inputs, const arg_role *roles, double bound) {
    for (size_t k = 0; k < COUNTS; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_expression_params params = {.count = element_counts[k],
                                                 .constant = {-0.3, 0.7}};
            problem c = problem_of(kernel, inputs + 1, &params, sizeof params);
            for (int i = 0; i < inputs; i++)
                set(&c, i, roles[i], types[t], roles[i] == POSITIVE ? 1 : element_counts[k]);
            set_output(&c, inputs, ACTIVATION, types[t], element_counts[k]);
            c.arg[inputs].bound = bound;
            check_problem(&c);
        }
    }
}

// The same with inputs that are repeated along some dimensions: along the first ones, the last ones
// and those between, with rows of one vector, more and less, and several blocks.
static void repeated_inputs(sr_kernel_id kernel, int inputs, const arg_role *roles) {
    static const struct {
        int dims;
        int64_t dim[SR_EXPRESSION_DIMS];
        uint8_t repeated[SR_EXPRESSION_INPUTS];
    } shapes[] = {
        {3, {3, 50, 40}, {0, 2, 3}},
        {3, {3, 700, 33}, {0, 4, 1}},
        {5, {2, 3, 5, 1, 7}, {8, 18, 13}},
        {2, {21, 16}, {1, 2, 0}},
        {1, {70}, {1, 0, 1}},
        {4, {2, 1, 3, 17}, {2, 2, 5}},
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            sr_expression_params params = {
                .count = 1, .constant = {-0.3, 0.7}, .dims = (uint8_t)shapes[k].dims};
            for (int d = 0; d < shapes[k].dims; d++) {
                params.dim[d] = shapes[k].dim[d];
                params.count *= shapes[k].dim[d];
            }
            memcpy(params.repeated, shapes[k].repeated, sizeof params.repeated);
            problem c = problem_of(kernel, inputs + 1, &params, sizeof params);
            for (int i = 0; i < inputs; i++)
                set(&c, i, roles[i], types[t],
                    roles[i] == POSITIVE ? 1 : sr_input_elements(&params, i));
            set_output(&c, inputs, ACTIVATION, types[t], params.count);
            check_problem(&c);
        }
    }
}

// Formulas that are not numbers for negative inputs.
static bool is_of_positives(sr_kernel_id kernel) {
    return kernel == SR_KERNEL_log || kernel == SR_KERNEL_sqrt || kernel == SR_KERNEL_rsqrt ||
           kernel == SR_KERNEL_power || kernel == SR_KERNEL_power_grad || kernel == SR_KERNEL_pow ||
           kernel == SR_KERNEL_pow_grad || kernel == SR_KERNEL_pow_exponent_grad;
}

// The rows of kernels/expression_list.def, with inputs of the output's shape.
void case_expression(sr_kernel_id kernel) {
    arg_role roles[MAX_ARGS] = {NONE};
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    for (int i = 0; i + 1 < count; i++)
        roles[i] = arguments[i].type != SR_ARG_T ? POSITIVE
                   : is_of_positives(kernel)     ? POSITIVE_ACTIVATION
                                                 : ACTIVATION;
    elementwise(kernel, count - 1, roles,
                kernel == SR_KERNEL_gelu        ? 2
                : kernel == SR_KERNEL_gelu_grad ? 4
                                                : 0);
    if (!kernel_cases_of_digests)
        repeated_inputs(kernel, count - 1, roles);
}

void case_sum_to(sr_kernel_id kernel) {
    // The last ones are sums of more than 4,096 sums of 32 terms, of rows of many leaves, and of
    // several blocks.
    static const struct {
        int64_t high, wide;
        uint8_t repeated;
    } shapes[] = {{37, 11, 2}, {37, 11, 5}, {37, 11, 0},  {37, 11, 7},  {2389, 11, 7}, {3, 131, 6},
                  {70, 40, 4}, {2, 700, 2}, {3, 9000, 2}, {5000, 9, 1}, {900, 3, 2}};
    for (size_t k = 0; k < problems(sizeof shapes / sizeof shapes[0], 7); k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_expression_params params = {.count = shapes[k].high * shapes[k].wide * 5,
                                                 .dim = {shapes[k].high, shapes[k].wide, 5},
                                                 .dims = 3,
                                                 .repeated = {shapes[k].repeated}};
            problem c = problem_of(kernel, 3, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], params.count);
            set(&c, 1, NONE, types[t], params.count);
            set_output(&c, 2, ACTIVATION, types[t], sr_input_elements(&params, 0));
            c.terms = (double)params.count;
            check_problem(&c);
            set(&c, 1, ACTIVATION, types[t], params.count);
            check_problem(&c);
        }
    }
}
void case_fill_by(sr_kernel_id kernel) {
    elementwise(kernel, 1, (const arg_role[]){POSITIVE}, 0);
}
void case_cast(sr_kernel_id kernel) {
    static const sr_dtype pairs[][2] = {
        {SR_BF16, SR_F32}, {SR_F32, SR_BF16}, {SR_F16, SR_F32}, {SR_F32, SR_F16}};
    for (size_t k = 0; k < COUNTS; k++) {
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            const sr_count_params params = {element_counts[k]};
            problem c = problem_of(kernel, 2, &params, sizeof params);
            set(&c, 0, ACTIVATION, pairs[i][0], element_counts[k]);
            set_output(&c, 1, ACTIVATION, pairs[i][1], element_counts[k]);
            check_problem(&c);
        }
    }
}
