// SPDX-License-Identifier: Apache-2.0
// Cases of normalisations over a part of each sample.
#include "tests/unit/graph/op_case_builders.h"

BUILD(layer, sr_layer_norm(in[0], in[1], in[2], 0.0))
BUILD(layer_eps, sr_layer_norm(in[0], in[1], in[2], 0.1))
BUILD(layer_gamma, sr_layer_norm(in[0], in[1], SR_NONE, 0.1))
BUILD(layer_beta, sr_layer_norm(in[0], SR_NONE, in[1], 0.1))
BUILD(layer_gamma_only, sr_layer_norm(in[0], in[1], SR_NONE, 0.0))
BUILD(layer_bare, sr_layer_norm(in[0], SR_NONE, SR_NONE, 0.0))
BUILD(layer_bare_eps, sr_layer_norm(in[0], SR_NONE, SR_NONE, 0.1))
BUILD(rms, sr_rms_norm(in[0], in[1], 0.0))
BUILD(rms_eps, sr_rms_norm(in[0], in[1], 0.1))
BUILD(rms_bare, sr_rms_norm(in[0], SR_NONE, 0.0))
BUILD(group_bare, sr_group_norm(in[0], 2, SR_NONE, SR_NONE, 0.0))
BUILD(group_eps, sr_group_norm(in[0], 2, in[1], in[2], 0.1))
BUILD(instance_bare, sr_instance_norm(in[0], SR_NONE, SR_NONE, 0.0))
BUILD(instance_eps, sr_instance_norm(in[0], in[1], in[2], 0.1))

WRONG(layer_gamma_length, sr_layer_norm(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 1, 3), SR_NONE, 0.0))
WRONG(layer_of_scalar, sr_layer_norm(ZEROS(SR_F32, 0, 0), SR_NONE, SR_NONE, 0.0))
WRONG(rms_below_zero, sr_rms_norm(ZEROS(SR_F32, 1, 4), SR_NONE, -1.0))
WRONG(three_groups, sr_group_norm(ZEROS(SR_F32, 3, 1, 2, 4), 3, SR_NONE, SR_NONE, 0.0))
WRONG(group_beta, sr_group_norm(ZEROS(SR_F32, 3, 1, 2, 4), 2, SR_NONE, ZEROS(SR_F32, 1, 2), 0.0))
WRONG(instance_of_vector, sr_instance_norm(ZEROS(SR_F32, 1, 4), SR_NONE, SR_NONE, 0.0))
WRONG(grad_statistics,
      sr_op_record(sr_op_find("groupnorm_grad"), (const int64_t[3]){0, 1 | (int64_t)1 << 32, 0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 3, 4), SR_NONE,
                                 ZEROS(SR_F32, 2, 3, 1), ZEROS(SR_F32, 2, 4, 1)},
                   (sr_tensor[3]){{0}}))

// Attributes: eps, groups and of_rows, uncentred, then those of drop_path.
static const int64_t of_rows[5] = {0, 1 | (int64_t)1 << 32, 0, 0, 0};

static sr_tensor sum_and_layer(sr_context *context, const sr_tensor *in, void *user) {
    const sr_tensor all[] = {in[0], in[1], SR_NONE, in[2], in[3]};
    sr_tensor out[4];
    (void)context;
    (void)user;
    sr_op_record(sr_op_find("add_groupnorm"), of_rows, all, out);
    return sr_add(out[0], out[1]);
}

static sr_tensor layer_grad_and_sum(sr_context *context, const sr_tensor *in, void *user) {
    const sr_tensor all[] = {in[0], in[1], in[2], SR_NONE, in[3], in[4]};
    sr_tensor out[3];
    (void)context;
    (void)user;
    sr_op_record(sr_op_find("groupnorm_add_grad"), of_rows, all, out);
    return out[0];
}

WRONG(sum_key, sr_op_record(sr_op_find("add_groupnorm"), of_rows,
                            (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 3, 4),
                                          ZEROS(SR_I32, 1, 3), SR_NONE, SR_NONE},
                            (sr_tensor[4]){{0}}))
WRONG(grad_sum_shapes, sr_op_record(sr_op_find("groupnorm_add_grad"), of_rows,
                                    (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 3, 4),
                                                  ZEROS(SR_F32, 2, 4, 4), SR_NONE,
                                                  ZEROS(SR_F32, 2, 3, 1), ZEROS(SR_F32, 2, 3, 1)},
                                    (sr_tensor[3]){{0}}))

// Batch norm with ReLU before max pooling of 2 x 2 pixels. Attributes: those of pooling, which
// begin with window and stride, and eps.
static const int64_t of_squares[10] = {2 | (int64_t)2 << 32, 2 | (int64_t)2 << 32};
static const int64_t of_large_squares[10] = {16 | (int64_t)16 << 32, 16 | (int64_t)16 << 32};

static sr_tensor norm_pool(sr_context *context, const sr_tensor *in, void *user) {
    sr_tensor out[4];
    (void)context;
    (void)user;
    sr_op_record(sr_op_find("batchnorm_train_relu_maxpool"), of_squares, in, out);
    return out[0];
}
BUILD(norm_given_pool, sr_op_record_one(sr_op_find("batchnorm_infer_relu_maxpool"), of_squares, in))
static sr_tensor norm_pool_grad(sr_context *context, const sr_tensor *in, void *user) {
    sr_tensor forward[4], out[3];
    (void)context;
    (void)user;
    sr_op_record(sr_op_find("batchnorm_train_relu_maxpool"), of_squares,
                 (sr_tensor[]){in[0], in[2], in[3]}, forward);
    const sr_tensor all[] = {in[0], in[1], forward[3], in[2], in[3], in[4], in[5]};
    sr_op_record(sr_op_find("batchnorm_relu_maxpool_grad"), of_squares, all, out);
    return out[0];
}

WRONG(norm_pool_window,
      sr_op_record(sr_op_find("batchnorm_train_relu_maxpool"), of_large_squares,
                   (sr_tensor[]){ZEROS(SR_F32, 4, 1, 20, 20, 1), SR_NONE, SR_NONE},
                   (sr_tensor[4]){{0}}))
WRONG(norm_given_pool_without_var,
      sr_op_record_one(sr_op_find("batchnorm_infer_relu_maxpool"), of_squares,
                       (sr_tensor[]){ZEROS(SR_F32, 4, 1, 2, 2, 1), SR_NONE, SR_NONE,
                                     ZEROS(SR_F32, 1, 1), SR_NONE}))
WRONG(norm_pool_grad_index,
      sr_op_record(sr_op_find("batchnorm_relu_maxpool_grad"), of_squares,
                   (sr_tensor[]){ZEROS(SR_F32, 4, 1, 2, 2, 1), ZEROS(SR_F32, 4, 1, 1, 1, 1),
                                 ZEROS(SR_U8, 4, 1, 2, 1, 1), SR_NONE, SR_NONE, ZEROS(SR_F32, 1, 1),
                                 ZEROS(SR_F32, 1, 1)},
                   (sr_tensor[3]){{0}}))

const op_case op_cases_norms[] = {
    // y of batch norm is -1, 3, -1, 3
    {.op = "batchnorm_train_relu_maxpool",
     .build = norm_pool,
     .inputs = 3,
     .params = 6,
     .info = {F64(4, 1, 2, 2, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3, 1, 3}, {2}, {1}},
     .want = {3},
     .want_count = 1,
     .gradient = GRADIENT_NONE,
     .wrong = norm_pool_window,
     .message = "batchnorm_train_relu_maxpool: a window of 16x16 has more than 255"},
    {.op = "batchnorm_infer_relu_maxpool",
     .build = norm_given_pool,
     .inputs = 5,
     .params = 30,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(4, 1, 2, 2, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3, -5, 2}, {2}, {1}, {2}, {4}},
     .want = {2},
     .want_count = 1,
     .gradient = GRADIENT_NONE,
     .wrong = norm_given_pool_without_var,
     .message = "batchnorm_infer_relu_maxpool: mean and var must be given"},
    // dy is that of the first 3; dgamma and dbeta are 4
    {.op = "batchnorm_relu_maxpool_grad",
     .build = norm_pool_grad,
     .inputs = 6,
     .params = 60,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(4, 1, 2, 2, 1), F64(4, 1, 1, 1, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3, 1, 3}, {4}, {2}, {1}, {2}, {1}},
     .want = {0, 4, 0, -4},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_pool_grad_index,
     .message = "batchnorm_relu_maxpool_grad: index [1, 2, 1, 1] u8"},
    {.op = "groupnorm",
     .build = layer,
     .inputs = 3,
     .params = 6,
     .info = {F64(2, 2, 4), F64(1, 4), F64(1, 4)},
     .in = {{1, 3, 1, 3, 0, 4, 4, 0}, {1, 2, 3, 4}, {0, 1, 0, 1}},
     .want = {-1, 3, -3, 5, -1, 3, 3, -3},
     .want_count = 8,
     .gradient = GRADIENT_ONCE,
     .wrong = layer_gamma_length,
     .message = "groupnorm: gamma is [3] f32, expected [4] f32 to match [3, 4] f32"},
    {.op = "groupnorm",
     .build = layer_eps,
     .inputs = 3,
     .info = {F64(3, 2, 3, 5), F64(1, 5), F64(1, 5)},
     .gradient = GRADIENT_ONCE,
     .wrong = layer_of_scalar,
     .message = "groupnorm: x [] f32 needs at least 1 dimensions"},
    {.op = "groupnorm",
     .build = layer_gamma,
     .inputs = 2,
     .info = {F64(2, 2, 40), F64(1, 40)},
     .gradient = GRADIENT_ONCE},
    {.op = "groupnorm",
     .build = layer_beta,
     .inputs = 2,
     .info = {F64(1, 7), F64(1, 7)},
     .gradient = GRADIENT_ONCE},
    {.op = "groupnorm",
     .build = layer_bare_eps,
     .inputs = 1,
     .info = {F64(2, 3, 4)},
     .gradient = GRADIENT_ONCE},
    {.op = "groupnorm",
     .build = rms,
     .inputs = 2,
     .params = 2,
     .info = {F64(2, 2, 2), F64(1, 2)},
     .in = {{2, -2, 0.5, 0.5}, {2, 3}},
     .want = {2, -3, 2, 3},
     .want_count = 4,
     .gradient = GRADIENT_ONCE,
     .wrong = rms_below_zero,
     .message = "groupnorm: eps -1 must be at least 0"},
    {.op = "groupnorm",
     .build = rms_eps,
     .inputs = 2,
     .info = {F64(2, 3, 5), F64(1, 5)},
     .gradient = GRADIENT_ONCE},
    {.op = "groupnorm",
     .build = group_bare,
     .inputs = 1,
     .info = {F64(3, 1, 2, 4)},
     .in = {{1, 3, 0, 8, 1, 3, 0, 8}},
     .want = {-1, 1, -1, 1, -1, 1, -1, 1},
     .want_count = 8,
     .gradient = GRADIENT_ONCE,
     .wrong = three_groups,
     .message = "groupnorm: the last dimension of x [1, 2, 4] f32 must be a multiple of groups 3"},
    {.op = "groupnorm",
     .build = group_eps,
     .inputs = 3,
     .info = {F64(4, 2, 3, 2, 6), F64(1, 6), F64(1, 6)},
     .gradient = GRADIENT_ONCE,
     .wrong = group_beta,
     .message = "groupnorm: beta is [2] f32, expected [4] f32"},
    {.op = "groupnorm",
     .build = instance_bare,
     .inputs = 1,
     .info = {F64(3, 1, 2, 2)},
     .in = {{1, 8, 3, 0}},
     .want = {-1, 1, 1, -1},
     .want_count = 4,
     .gradient = GRADIENT_ONCE,
     .wrong = instance_of_vector,
     .message = "groupnorm: x [4] f32 needs at least 2 dimensions"},
    {.op = "groupnorm",
     .build = instance_eps,
     .inputs = 3,
     .info = {F64(3, 2, 5, 3), F64(1, 3), F64(1, 3)},
     .gradient = GRADIENT_ONCE},
    // With a = 1 and b = -1: dx = dy - a - xhat b.
    {.op = "groupnorm_grad",
     .build = layer_bare,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(2, 1, 4), F64(2, 1, 4)},
     .in = {{1, 3, 1, 3}, {4, 0, 0, 0}},
     .want = {2, 0, -2, 0},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = grad_statistics,
     .message = "groupnorm_grad: rstd is [4, 1] f32, expected [3, 1] f32"},
    // dgamma: the sum of dy xhat over rows.
    {.op = "groupnorm_grad",
     .build = layer_gamma_only,
     .wrt = 2,
     .inputs = 3,
     .params = 2,
     .info = {F64(2, 2, 2), F64(1, 2), F64(2, 2, 2)},
     .in = {{1, 3, 5, 1}, {1, 1}, {1, 2, 3, 4}},
     .want = {2, -2},
     .want_count = 2,
     .gradient = GRADIENT_NONE},
    // Uncentred: b = 1/2.
    {.op = "groupnorm_grad",
     .build = rms_bare,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(2, 1, 2), F64(2, 1, 2)},
     .in = {{2, -2}, {1, 0}},
     .want = {0.25, 0.25},
     .want_count = 2,
     .gradient = GRADIENT_NONE},
    // s + 2 xhat + 1
    {.op = "add_groupnorm",
     .build = sum_and_layer,
     .inputs = 4,
     .params = 12,
     .info = {F64(2, 1, 4), F64(2, 1, 4), F64(1, 4), F64(1, 4)},
     .in = {{1, 2, 3, 0}, {0, 1, -2, 3}, {2, 2, 2, 2}, {1, 1, 1, 1}},
     .want = {0, 6, 0, 6},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = sum_key,
     .message = "add_groupnorm: key [3] i32 must be i32 [4]"},
    // z, and the gradient of layer_bare above
    {.op = "groupnorm_add_grad",
     .build = layer_grad_and_sum,
     .inputs = 5,
     .params = 24,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(2, 1, 4), F64(2, 1, 4), F64(2, 1, 4), F64(2, 1, 1), F64(2, 1, 1)},
     .in = {{1, 3, 1, 3}, {4, 0, 0, 0}, {1, 2, 3, 4}, {2}, {1}},
     .want = {3, 2, 1, 4},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = grad_sum_shapes,
     .message = "groupnorm_add_grad: inputs [3, 4] f32 and [4, 4] f32"},
};
const size_t op_cases_norms_count = sizeof op_cases_norms / sizeof op_cases_norms[0];
