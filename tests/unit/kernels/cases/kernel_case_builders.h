// SPDX-License-Identifier: Apache-2.0
// Helpers of the files that contain problems of kernels (see kernel_cases.h).
#ifndef SR_TESTS_UNIT_KERNEL_CASE_BUILDERS_H
#define SR_TESTS_UNIT_KERNEL_CASE_BUILDERS_H

#include "tests/unit/kernels/cases/kernel_cases.h"
#include "tests/unit/support/test_support.h"

static inline problem problem_of(sr_kernel_id kernel, int args, const void *params, size_t bytes) {
    problem c = {.request = {.kernel = kernel, .args = args}, .terms = 1};
    memcpy(c.request.params, params, bytes);
    return c;
}

static inline sr_dtype dtype_of(arg_role role, sr_dtype t) {
    switch (role) {
    case ACTIVATION:
    case POSITIVE_ACTIVATION:
        return t;
    case PARAMETER:
    case POSITIVE:
    case HYPER:
    case TABLE:
        return SR_F32;
    case BYTES:
    case SIGNS:
    case INDEX:
        return SR_U8;
    case KEY:
    case NUMBERS:
    case ORDER:
    case MOVES:
        return SR_I32;
    case DOUBLE:
        return SR_F64;
    case NONE:
        break;
    }
    return SR_DTYPE_COUNT;
}

static inline void set(problem *c, int i, arg_role role, sr_dtype t, int64_t count) {
    c->arg[i].role = role;
    c->arg[i].count = count;
    c->request.dtype[i] = dtype_of(role, t);
}

static inline void set_output(problem *c, int i, arg_role role, sr_dtype t, int64_t count) {
    set(c, i, role, t, count);
    c->arg[i].output = true;
}

static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
enum { TYPES = sizeof types / sizeof types[0] };

// The problems of a list whose last ones were added later.
static inline size_t problems(size_t count, size_t added) {
    return kernel_cases_of_digests ? count - added : count;
}

void case_expression(sr_kernel_id kernel); // kernel_cases_formulas.c
void case_sum_to(sr_kernel_id kernel);     // kernel_cases_formulas.c
void case_fill_by(sr_kernel_id kernel);    // kernel_cases_formulas.c
void case_cast(sr_kernel_id kernel);       // kernel_cases_formulas.c
void case_rows(sr_kernel_id kernel);       // kernel_cases_rows.c
void case_channel_dot(sr_kernel_id kernel);
void case_batchnorm(sr_kernel_id kernel);
void case_batchnorm_part(sr_kernel_id kernel);
void case_batchnorm_relu(sr_kernel_id kernel);
void case_norm_linear(sr_kernel_id kernel);
void case_norm_pool(sr_kernel_id kernel);
void case_groupnorm(sr_kernel_id kernel);
void case_attention(sr_kernel_id kernel);  // kernel_cases_attention.c
void case_nms(sr_kernel_id kernel);        // kernel_cases_boxes.c
void case_roi_align(sr_kernel_id kernel);  // kernel_cases_boxes.c
void case_gather_sum(sr_kernel_id kernel); // kernel_cases_samples.c
void case_resize(sr_kernel_id kernel);     // kernel_cases_samples.c
void case_taps2d(sr_kernel_id kernel);     // kernel_cases_samples.c
void case_move_pixels(sr_kernel_id kernel);
void case_upfirdn2d(sr_kernel_id kernel); // kernel_cases_samples.c
void case_softmax(sr_kernel_id kernel);   // kernel_cases_softmax.c
void case_xent(sr_kernel_id kernel);      // kernel_cases_softmax.c

#endif
