// SPDX-License-Identifier: Apache-2.0
// Helpers of the files that contain operator cases.
#ifndef SR_TESTS_UNIT_OP_CASE_BUILDERS_H
#define SR_TESTS_UNIT_OP_CASE_BUILDERS_H

#include "graph/context.h"
#include "tests/unit/graph/op_cases.h"
#include "tests/unit/support/test_support.h"

#define F64(rank_, ...)                                                                            \
    {                                                                                              \
        .dtype = SR_F64, .rank = (rank_), .dim = { __VA_ARGS__ }                                   \
    }
#define I32(n)                                                                                     \
    {                                                                                              \
        .dtype = SR_I32, .rank = 1, .dim = { n }                                                   \
    }

// Zeros of a given shape, for calls that are refused.
static inline sr_tensor zeros(sr_context *context, sr_dtype dtype, int rank, const int64_t *dim) {
    static const double nothing[4096];
    sr_info info = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        info.dim[i] = dim[i];
    assert_true((size_t)sr_info_count(&info) * sr_dtype_size(dtype) <= sizeof nothing);
    return sr_constant(context, &info, nothing);
}
#define ZEROS(dtype, rank, ...) zeros(context, dtype, rank, (const int64_t[]){__VA_ARGS__})

#define BUILD(name, expression)                                                                    \
    static sr_tensor name(sr_context *context, const sr_tensor *in, void *user) {                  \
        (void)context;                                                                             \
        (void)user;                                                                                \
        return expression;                                                                         \
    }
#define WRONG(name, call)                                                                          \
    static void name(sr_context *context) {                                                        \
        (void)(call);                                                                              \
    }
// Of two, or three, inputs whose shapes do not broadcast; attributes are zeros.
#define WRONG_PAIR(name, op)                                                                       \
    WRONG(name, sr_op_record_one(sr_op_find(op), (const double[2]){0},                             \
                                 (sr_tensor[]){ZEROS(SR_F32, 2, 2, 3), ZEROS(SR_F32, 2, 3, 2)}))
#define WRONG_THREE(name, op)                                                                      \
    WRONG(name, sr_op_record_one(sr_op_find(op), (const double[2]){0},                             \
                                 (sr_tensor[]){ZEROS(SR_F32, 2, 2, 3), ZEROS(SR_F32, 2, 3, 2),     \
                                               ZEROS(SR_F32, 2, 2, 3)}))

#endif
