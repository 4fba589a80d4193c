// SPDX-License-Identifier: Apache-2.0
// Cases of matrix products.
#include "tests/unit/graph/op_case_builders.h"

#define OPTS(...)                                                                                  \
    (sr_matmul_opts) {                                                                             \
        __VA_ARGS__                                                                                \
    }
BUILD(plain, sr_matmul(in[0], in[1], OPTS(0)))
BUILD(first, sr_matmul(in[0], in[1], OPTS(.transpose_a = true)))
BUILD(second, sr_matmul(in[0], in[1], OPTS(.transpose_b = true, .alpha = 0.5)))
BUILD(both, sr_matmul(in[0], in[1], OPTS(.transpose_a = true, .transpose_b = true, .alpha = 2)))

WRONG(terms, sr_matmul(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 5, 6), OPTS(0)))
WRONG(rows_of_one, sr_matmul(ZEROS(SR_F32, 3, 2, 3, 4), ZEROS(SR_F32, 2, 5, 6), OPTS(0)))
WRONG(transposed_terms,
      sr_matmul(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 4, 6), OPTS(.transpose_a = true)))
WRONG(vectors, sr_matmul(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 1, 4), OPTS(0)))
WRONG(batches, sr_matmul(ZEROS(SR_F32, 3, 2, 3, 4), ZEROS(SR_F32, 3, 3, 4, 5), OPTS(0)))
WRONG(dtypes, sr_matmul(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_BF16, 2, 4, 5), OPTS(0)))

const op_case op_cases_matmul[] = {
    {.op = "matmul",
     .build = plain,
     .inputs = 2,
     .info = {F64(2, 2, 2), F64(2, 2, 3)},
     .in = {{1, 2, 3, 4}, {1, 0, 1, 0, 1, -1}},
     .want = {1, 2, -1, 3, 4, -1},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = terms,
     .message = "matmul: a [3, 4] f32 and b [5, 6] f32: a must have as many columns as b has rows"},
    {.op = "matmul",
     .build = both,
     .inputs = 2,
     .info = {F64(2, 2, 2), F64(2, 1, 2)},
     .in = {{1, 2, 3, 4}, {5, 6}},
     .want = {46, 68},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = transposed_terms,
     .message = "matmul: a [3, 4] f32, transposed, and b [4, 6] f32"},
    // Batches [2, 1] and [3] are [2, 3].
    {.op = "matmul",
     .build = plain,
     .inputs = 2,
     .info = {F64(4, 2, 1, 1, 2), F64(3, 3, 2, 1)},
     .in = {{1, 2, 3, 4}, {1, 0, 0, 1, 1, 1}},
     .want = {1, 2, 3, 3, 4, 7},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = batches,
     .message = "matmul: a [2, 3, 4] f32 and b [3, 4, 5] f32: dimensions before the last two"},
    // One matrix b for the rows of all batches.
    {.op = "matmul",
     .build = plain,
     .inputs = 2,
     .info = {F64(3, 2, 1, 2), F64(2, 2, 2)},
     .in = {{1, 2, 3, 4}, {1, 2, 3, 4}},
     .want = {7, 10, 15, 22},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = rows_of_one,
     .message = "matmul: a [2, 3, 4] f32 and b [5, 6] f32: a must have"},
    {.op = "matmul",
     .build = second,
     .inputs = 2,
     .info = {F64(3, 2, 3, 4), F64(2, 5, 4)},
     .gradient = GRADIENT_TWICE,
     .wrong = vectors,
     .message = "matmul: b [4] f32 needs at least two dimensions"},
    {.op = "matmul",
     .build = first,
     .inputs = 2,
     .info = {F64(3, 2, 3, 4), F64(2, 3, 5)},
     .gradient = GRADIENT_TWICE,
     .wrong = dtypes,
     .message = "matmul: a [3, 4] f32 and b [4, 5] bf16: the dtypes must be equal"},
    {.op = "matmul",
     .build = second,
     .inputs = 2,
     .info = {F64(2, 3, 4), F64(5, 2, 1, 2, 2, 4)},
     .gradient = GRADIENT_TWICE},
    {.op = "matmul",
     .build = both,
     .inputs = 2,
     .info = {F64(4, 1, 2, 3, 2), F64(4, 2, 1, 4, 3)},
     .gradient = GRADIENT_TWICE},
};
const size_t op_cases_matmul_count = sizeof op_cases_matmul / sizeof op_cases_matmul[0];
