// SPDX-License-Identifier: Apache-2.0
// Cases of operators that take elements by their numbers.
#include "tests/unit/graph/op_case_builders.h"

#define INDEX(rank_, ...)                                                                          \
    {                                                                                              \
        .dtype = SR_I32, .rank = (rank_), .dim = { __VA_ARGS__ }                                   \
    }

BUILD(select_columns, sr_index_select(in[0], in[1], 1))
BUILD(gather_last, sr_gather(in[0], in[1], 1))
BUILD(gather_first, sr_gather(in[0], in[1], 0))
BUILD(embed, sr_embedding(in[0], in[1], SR_F64))
BUILD(scatter_three, sr_scatter_add(in[0], in[1], 1, 3))
BUILD(scatter_two, sr_scatter_add(in[0], in[1], 0, 2))
BUILD(scatter_samples, sr_scatter_add(in[0], in[1], 1, 2))

WRONG(gather_axis, sr_gather(ZEROS(SR_F32, 2, 2, 3), ZEROS(SR_I32, 1, 2), 2))
WRONG(gather_by_floats, sr_gather(ZEROS(SR_F32, 2, 2, 3), ZEROS(SR_F32, 1, 2), 1))
WRONG(gather_extents, sr_gather(ZEROS(SR_F32, 3, 2, 3, 2), ZEROS(SR_I32, 2, 3, 3), 1))
WRONG(gather_integers, sr_gather(ZEROS(SR_I32, 2, 2, 3), ZEROS(SR_I32, 1, 2), 1))
WRONG(select_by_two, sr_index_select(ZEROS(SR_F32, 2, 2, 3), ZEROS(SR_I32, 2, 2, 3), 1))
WRONG(embed_bf16, sr_embedding(ZEROS(SR_BF16, 2, 2, 3), ZEROS(SR_I32, 1, 2), SR_BF16))
WRONG(scatter_count, sr_scatter_add(ZEROS(SR_F32, 2, 2, 3), ZEROS(SR_I32, 1, 3), 1, 0))
WRONG(scatter_extents, sr_scatter_add(ZEROS(SR_F32, 2, 2, 3), ZEROS(SR_I32, 1, 2), 1, 4))

const op_case op_cases_index[] = {
    {.op = "gather",
     .build = select_columns,
     .inputs = 2,
     .info = {F64(3, 2, 3, 2), I32(3)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 0, 2}},
     .want = {5, 6, 1, 2, 5, 6, 11, 12, 7, 8, 11, 12},
     .want_count = 12,
     .gradient = GRADIENT_TWICE,
     .wrong = select_by_two,
     .call = "index_select",
     .message = "index_select: index [2, 3] i32 must have one dimension"},
    {.op = "gather",
     .build = gather_last,
     .inputs = 2,
     .info = {F64(2, 2, 3), INDEX(2, 2, 2)},
     .in = {{1, 2, 3, 4, 5, 6}, {2, 0, 1, 1}},
     .want = {3, 1, 5, 5},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = gather_axis,
     .message = "gather: axis 2 of x [2, 3] f32"},
    {.op = "gather",
     .build = gather_first,
     .inputs = 2,
     .info = {F64(2, 2, 2), INDEX(2, 3, 2)},
     .in = {{1, 2, 3, 4}, {1, 0, 0, 1, 1, 1}},
     .want = {3, 2, 1, 4, 3, 4},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = gather_by_floats,
     .message = "gather: index [2] f32 of x [2, 3] f32 along axis 1 must be i32"},
    // Other rows for each sample
    {.op = "gather",
     .build = gather_last,
     .inputs = 2,
     .info = {F64(3, 2, 2, 2), INDEX(2, 2, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 0}},
     .want = {3, 4, 5, 6},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = gather_extents,
     .message = "gather: index [3, 3] i32 of x [2, 3, 2] f32 along axis 1 must be i32 and have one "
                "dimension, or the first 2 or all"},
    {.op = "gather",
     .build = embed,
     .inputs = 2,
     .params = 1,
     .own_type = true,
     .info = {F64(2, 3, 2), INDEX(2, 2, 2)},
     .in = {{1, 2, 3, 4, 5, 6}, {2, 0, 1, 2}},
     .want = {5, 6, 1, 2, 3, 4, 5, 6},
     .want_count = 8,
     .gradient = GRADIENT_TWICE,
     .wrong = embed_bf16,
     .call = "embedding",
     .message = "embedding: table [2, 3] bf16 must be f32 [V,C]"},
    {.op = "gather",
     .build = gather_first,
     .inputs = 2,
     .info = {F64(1, 3), I32(2)},
     .in = {{1, 2, 3}, {2, 2}},
     .want = {3, 3},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = gather_integers,
     .message = "gather: x [2, 3] i32 must be f32"},
    {.op = "scatter_add",
     .build = scatter_three,
     .inputs = 2,
     .info = {F64(2, 2, 3), I32(3)},
     .in = {{1, 2, 3, 4, 5, 6}, {1, 1, 0}},
     .want = {3, 3, 0, 6, 9, 0},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = scatter_count,
     .message = "scatter_add: x [2, 3] f32: 0 and 3 elements along the axis"},
    // The gradients of selections
    {.op = "scatter_add",
     .build = gather_first,
     .wrt = 1,
     .inputs = 3,
     .info = {F64(2, 2, 2), INDEX(2, 3, 2), F64(2, 3, 2)},
     .in = {{0}, {1, 0, 0, 1, 1, 1}, {1, 2, 3, 4, 5, 6}},
     .want = {3, 2, 6, 10},
     .want_count = 4,
     .gradient = GRADIENT_TWICE},
    {.op = "scatter_add",
     .build = scatter_samples,
     .inputs = 2,
     .info = {F64(3, 2, 2, 2), INDEX(2, 2, 2)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 0}},
     .want = {0, 0, 4, 6, 7, 8, 5, 6},
     .want_count = 8,
     .gradient = GRADIENT_TWICE},
    {.op = "scatter_add",
     .build = embed,
     .wrt = 1,
     .inputs = 3,
     .params = 1,
     .own_type = true,
     .info = {F64(2, 3, 2), INDEX(2, 2, 2), F64(3, 2, 2, 2)},
     .in = {{0}, {2, 0, 0, 2}, {1, 2, 3, 4, 5, 6, 7, 8}},
     .want = {8, 10, 0, 0, 8, 10},
     .want_count = 6,
     .gradient = GRADIENT_TWICE},
    // Numbers that y does not have
    {.op = "scatter_add",
     .build = scatter_two,
     .inputs = 2,
     .info = {F64(1, 3), I32(3)},
     .in = {{1, 2, 3}, {1, 2, -1}},
     .want = {0, 1},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = scatter_extents,
     .message = "scatter_add: index [2] i32 of x [2, 3] f32 along axis 1 must be i32"},
};
const size_t op_cases_index_count = sizeof op_cases_index / sizeof op_cases_index[0];
