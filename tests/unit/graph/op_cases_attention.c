// SPDX-License-Identifier: Apache-2.0
// Cases of multi-head attention.
#include "tests/unit/graph/op_case_builders.h"

BUILD(two_heads,
      sr_attention(in[0], in[1], in[2], SR_NONE, (sr_attention_opts){.heads = 2, .scale = 1}))
BUILD(one_head, sr_attention(in[0], in[1], in[2], in[3], (sr_attention_opts){.scale = 1}))
BUILD(default_scale, sr_attention(in[0], in[1], in[2], in[3], (sr_attention_opts){.heads = 2}))
BUILD(itself, sr_attention(in[0], in[0], in[0], SR_NONE, (sr_attention_opts){.heads = 3}))

WRONG(heads, sr_attention(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 3, 1, 2, 4),
                          ZEROS(SR_F32, 3, 1, 2, 4), SR_NONE, (sr_attention_opts){.heads = 3}))
WRONG(channels, sr_attention(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 3, 1, 2, 6),
                             ZEROS(SR_F32, 3, 1, 2, 4), SR_NONE, (sr_attention_opts){.heads = 2}))
WRONG(values, sr_attention(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 3, 1, 5, 4),
                           ZEROS(SR_F32, 3, 1, 2, 4), SR_NONE, (sr_attention_opts){.heads = 2}))
WRONG(bias_heads,
      sr_attention(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 3, 1, 5, 4), ZEROS(SR_F32, 3, 1, 5, 4),
                   ZEROS(SR_F32, 4, 1, 1, 2, 5), (sr_attention_opts){.heads = 2}))
WRONG(bias_batches,
      sr_attention(ZEROS(SR_F32, 3, 3, 2, 4), ZEROS(SR_F32, 3, 3, 5, 4), ZEROS(SR_F32, 3, 3, 5, 4),
                   ZEROS(SR_F32, 4, 2, 1, 2, 5), (sr_attention_opts){0}))

WRONG(negative_heads,
      sr_attention(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 3, 1, 2, 4),
                   SR_NONE, (sr_attention_opts){.heads = -1}))

typedef struct attributes {
    double scale;
    int32_t heads, reserved;
} attributes;

static void record_gradient(sr_context *context, const char *name, int64_t lse_queries) {
    const attributes attr = {.scale = 1, .heads = 1};
    const sr_tensor x = ZEROS(SR_F32, 3, 1, 2, 4);
    sr_op_record(sr_op_find(name), &attr,
                 (sr_tensor[]){x, x, x, x, ZEROS(SR_F32, 3, 1, 1, lse_queries), x,
                               ZEROS(SR_F32, 4, 1, 1, 2, 2)},
                 (sr_tensor[3]){{0}});
}
WRONG(lse_of_others, record_gradient(context, "attention_grad", 3))
WRONG(lse_of_bias, record_gradient(context, "attention_bias_grad", 1))

const op_case op_cases_attention[] = {
    {.op = "attention",
     .build = two_heads,
     .inputs = 3,
     .info = {F64(3, 1, 1, 2), F64(3, 1, 2, 2), F64(3, 1, 2, 2)},
     .in = {{1, 1}, {3, 0, 3, 64}, {1, 5, 2, 9}}, // equal scores; one that outweighs the other
     .want = {1.5, 9},
     .want_count = 2,
     .gradient = GRADIENT_ONCE,
     .wrong = heads,
     .message = "attention: q [1, 2, 4] f32: 3 heads must divide the channels"},
    {.op = "attention",
     .build = one_head,
     .inputs = 4,
     .params = 8,
     .info = {F64(3, 2, 1, 1), F64(3, 2, 2, 1), F64(3, 2, 2, 1), F64(4, 2, 1, 1, 2)},
     .in = {{1, 1}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 0, 64, 0}}, // of each batch its own
     .want = {1.5, 3},
     .want_count = 2,
     .gradient = GRADIENT_ONCE,
     .wrong = channels,
     .message =
         "attention: k [1, 2, 6] f32 must match q [1, 2, 4] f32 in dtype, batch and channels"},
    {.op = "attention",
     .build = default_scale,
     .inputs = 4,
     .params = 8,
     .info = {F64(3, 2, 3, 4), F64(3, 2, 2, 4), F64(3, 2, 2, 4), F64(4, 1, 2, 3, 2)},
     .gradient = GRADIENT_ONCE,
     .low = -2,
     .high = 2,
     .wrong = values,
     .message = "attention: v [1, 2, 4] f32 must have the tokens of k [1, 5, 4] f32"},
    {.op = "attention",
     .build = itself,
     .inputs = 1,
     .info = {F64(3, 1, 35, 3)}, // more than a leaf of a sum
     .gradient = GRADIENT_ONCE,
     .wrong = bias_heads,
     .message =
         "attention: bias [1, 1, 2, 5] f32 must be f32 [G, 2, 2, 5]: heads, queries and keys"},
    {.op = "attention_grad",
     .build = one_head,
     .wrt = 2,
     .inputs = 5,
     .params = 8,
     .info = {F64(3, 1, 1, 1), F64(3, 1, 2, 1), F64(3, 1, 2, 1), F64(4, 1, 1, 1, 2),
              F64(3, 1, 1, 1)},
     .in = {{1}, {5, 5}, {1, 3}, {0, 0}, {2}},
     .want = {-1, 1},
     .want_count = 2,
     .gradient = GRADIENT_NONE,
     .wrong = lse_of_others,
     .message = "attention_grad: lse is [1, 1, 3] f32, expected [1, 1, 2] f32"},
    {.op = "attention_bias_grad",
     .build = one_head,
     .wrt = 4,
     .inputs = 5,
     .params = 8,
     .info = {F64(3, 2, 1, 1), F64(3, 2, 2, 1), F64(3, 2, 2, 1), F64(4, 1, 1, 1, 2),
              F64(3, 2, 1, 1)},
     .in = {{1, 1}, {5, 5, 7, 7}, {1, 3, 1, 5}, {0, 0}, {2, 2}}, // the sum over batches
     .want = {-3, 3},
     .want_count = 2,
     .gradient = GRADIENT_NONE,
     .wrong = lse_of_bias,
     .message = "attention_bias_grad: lse is [1, 1, 1] f32, expected [1, 1, 2] f32"},
    {.op = "attention",
     .build = one_head,
     .inputs = 4,
     .params = 8,
     .info = {F64(3, 4, 2, 3), F64(3, 4, 3, 3), F64(3, 4, 3, 3), F64(4, 2, 1, 2, 3)},
     .gradient = GRADIENT_ONCE,
     .wrong = bias_batches,
     .message = "attention: the first dimension of bias [2, 1, 2, 5] f32 must divide that of q"},
    {.op = "attention",
     .build = itself,
     .inputs = 1,
     .info = {F64(3, 1, 1, 3)}, // a single token: its own value
     .in = {{4, 5, 6}},
     .want = {4, 5, 6},
     .want_count = 3,
     .gradient = GRADIENT_ONCE,
     .wrong = negative_heads,
     .message = "attention: q [1, 2, 4] f32: -1 heads must divide the channels"},
};
const size_t op_cases_attention_count = sizeof op_cases_attention / sizeof op_cases_attention[0];
