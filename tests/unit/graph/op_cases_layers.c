// SPDX-License-Identifier: Apache-2.0
// Cases of the layers: convolution, linear, channels, batch normalisation, pooling.
#include "tests/unit/graph/op_case_builders.h"

// ---- Convolution and linear ----

BUILD(conv_plain, sr_conv2d(in[0], in[1], (sr_conv2d_opts){0}))
BUILD(conv_bias, sr_conv2d_bias(in[0], in[1], in[2], (sr_conv2d_opts){0}))
BUILD(conv_strided, sr_conv2d_bias(in[0], in[1], in[2],
                                   (sr_conv2d_opts){.stride = 2,
                                                    .stride_w = 1,
                                                    .pad = 1,
                                                    .pad_w = 2,
                                                    .has_pad_w = true,
                                                    .dilation = 2,
                                                    .groups = 2}))
BUILD(conv_transposed, sr_conv2d_transpose(in[0], in[1], (sr_conv2d_opts){0}, 0))
BUILD(conv_transposed_strided,
      sr_conv2d_transpose(in[0], in[1], (sr_conv2d_opts){.stride = 2, .pad = 1}, 1))
BUILD(linear_bias, sr_linear(in[0], in[1], in[2]))
BUILD(linear_plain, sr_linear(in[0], in[1], SR_NONE))

WRONG(conv_channels,
      sr_conv2d(ZEROS(SR_F32, 4, 2, 8, 8, 4), ZEROS(SR_F32, 4, 5, 3, 7, 7), (sr_conv2d_opts){0}))
WRONG(conv_groups, sr_conv2d(ZEROS(SR_F32, 4, 1, 4, 4, 4), ZEROS(SR_F32, 4, 3, 2, 1, 1),
                             (sr_conv2d_opts){.groups = 2}))
WRONG(conv_too_large,
      sr_conv2d(ZEROS(SR_F32, 4, 1, 4, 4, 1), ZEROS(SR_F32, 4, 1, 1, 5, 5), (sr_conv2d_opts){0}))
WRONG(conv_bf16_weights,
      sr_conv2d(ZEROS(SR_BF16, 4, 1, 4, 4, 1), ZEROS(SR_BF16, 4, 1, 1, 1, 1), (sr_conv2d_opts){0}))
WRONG(conv_bad_bias, sr_conv2d_bias(ZEROS(SR_F32, 4, 1, 4, 4, 1), ZEROS(SR_F32, 4, 2, 1, 1, 1),
                                    ZEROS(SR_F32, 1, 3), (sr_conv2d_opts){0}))
WRONG(conv_output_pad,
      sr_conv2d_transpose(ZEROS(SR_F32, 4, 1, 4, 4, 2), ZEROS(SR_F32, 4, 2, 1, 3, 3),
                          (sr_conv2d_opts){.stride = 2}, 2))
static void dw_without_filters(sr_context *context) {
    const int64_t attr[6] = {1, 1 | (int64_t)1 << 32, 1, 0, 0, 0};
    const int64_t enough[16] = {attr[0]};
    (void)sr_op_record_one(
        sr_op_find("conv2d_dw"), enough,
        (sr_tensor[]){ZEROS(SR_F32, 4, 1, 4, 4, 2), ZEROS(SR_F32, 4, 1, 4, 4, 2)});
}
WRONG(linear_columns, sr_linear(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 5, 6), SR_NONE))
WRONG(linear_of_vector, sr_linear(ZEROS(SR_F32, 1, 4), ZEROS(SR_F32, 2, 5, 4), SR_NONE))
WRONG(linear_dx_rows,
      sr_op_record_one(sr_op_find("linear_dx"), NULL,
                       (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 5, 6)}))
WRONG(linear_dw_rows,
      sr_op_record_one(sr_op_find("linear_dw"), NULL,
                       (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 5, 6)}))

// ---- Channels, normalisation ----

BUILD(bias_add, sr_bias_add(in[0], in[1]))
BUILD(channel_sum, sr_channel_sum(in[0]))
BUILD(channel_dot, sr_channel_dot(in[0], in[1], in[2]))
BUILD(channel_dot_plain, sr_channel_dot(in[0], in[1], SR_NONE))
BUILD(norm_y, sr_batchnorm_train(in[0], in[1], in[2], 0.0).y)
BUILD(norm_y_eps, sr_batchnorm_train(in[0], in[1], in[2], 0.1).y)
BUILD(norm_y_bare, sr_batchnorm_train(in[0], SR_NONE, SR_NONE, 0.1).y)
static sr_tensor norm_statistics(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    const sr_batchnorm_out out = sr_batchnorm_train(in[0], SR_NONE, SR_NONE, 0.1);
    return sr_add(out.mean, sr_mul(out.var, out.var));
}
static sr_tensor norm_everything(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    const sr_batchnorm_out out = sr_batchnorm_train(in[0], in[1], in[2], 0.1);
    return sr_bias_add(out.y, sr_add(out.mean, out.var));
}
BUILD(norm_group, sr_batchnorm_group(in[0], in[1], in[2], 0.0, 1).y)
BUILD(norm_group_eps, sr_batchnorm_group(in[0], in[1], in[2], 0.1, 1).y)
BUILD(norm_group_bare, sr_batchnorm_group(in[0], SR_NONE, SR_NONE, 0.1, 1).y)
BUILD(norm_group_mean, sr_batchnorm_group(in[0], SR_NONE, SR_NONE, 0.0, 1).mean)
static sr_tensor norm_group_statistics(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    const sr_batchnorm_out out = sr_batchnorm_group(in[0], SR_NONE, SR_NONE, 0.1, 1);
    return sr_add(out.mean, sr_mul(out.var, out.var));
}
static sr_tensor norm_group_everything(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    const sr_batchnorm_out out = sr_batchnorm_group(in[0], in[1], in[2], 0.1, 1);
    return sr_bias_add(out.y, sr_add(out.mean, out.var));
}
// Of a lane alone, for which sr_lane_sum records nothing; groups are in test_stops.c.
static sr_tensor lane_sum(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    const sr_tensor square = sr_mul(in[0], in[0]);
    return sr_op_record_one(sr_op_find("lane_sum"), &(int64_t){1}, &square);
}
BUILD(norm_given, sr_batchnorm_infer(in[0], in[1], in[2], in[3], in[4], 0.0))
BUILD(norm_given_eps, sr_batchnorm_infer(in[0], in[1], in[2], in[3], in[4], 0.1))

static sr_dtype dtype_of(sr_tensor x) {
    sr_info info = {.dtype = SR_F64};
    (void)sr_tensor_info(x, &info);
    return info.dtype;
}
static sr_tensor norm_relu(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    sr_tensor out[4];
    sr_op_record(sr_op_find("batchnorm_train_relu"), &(double){0}, in, out);
    return sr_add(out[0], sr_cast(out[3], dtype_of(in[0]))); // of one channel: 0 or 1
}
static sr_tensor norm_pair_relu(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    sr_tensor out[4];
    sr_op_record(sr_op_find("batchnorm_train_pair_relu"), &(double){0}, in, out);
    return sr_add(out[0], sr_cast(out[3], dtype_of(in[0])));
}
static sr_tensor norm_given_relu(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    sr_tensor out[2];
    sr_op_record(sr_op_find("batchnorm_infer_relu"), &(double){0}, in, out);
    return sr_add(out[0], sr_cast(out[1], dtype_of(in[0])));
}
BUILD(norm_relu_linear, sr_op_record_one(sr_op_find("batchnorm_relu_linear"), &(double){0}, in))
BUILD(norm_relu_linear_dw,
      sr_op_record_one(sr_op_find("batchnorm_relu_linear_dw"), &(double){0}, in))
static sr_tensor norm_relu_grad(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    sr_tensor out[3];
    sr_op_record(sr_op_find("batchnorm_relu_grad"), &(double){0}, in, out);
    return out[0];
}
static sr_tensor norm_add_relu_grad(sr_context *context, const sr_tensor *in, void *user) {
    (void)context;
    (void)user;
    sr_tensor out[4];
    sr_op_record(sr_op_find("batchnorm_add_relu_grad"), &(double){0}, in, out);
    return sr_add(out[0], out[1]);
}

WRONG(bias_length, sr_bias_add(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 1, 3)))
WRONG(sum_of_scalar, sr_channel_sum(ZEROS(SR_F32, 0, 0)))
WRONG(dot_shapes, sr_channel_dot(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 4, 3), SR_NONE))
WRONG(dot_of_vectors, sr_channel_dot(ZEROS(SR_F32, 1, 3), ZEROS(SR_F32, 1, 3), SR_NONE))
WRONG(norm_gamma, sr_batchnorm_train(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 1, 3), SR_NONE, 0).y)
WRONG(norm_grad_shapes,
      sr_op_record(sr_op_find("batchnorm_grad"), &(double){0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 4, 4), SR_NONE,
                                 ZEROS(SR_F32, 1, 4), ZEROS(SR_F32, 1, 4)},
                   (sr_tensor[3]){{0}}))
WRONG(norm_no_lanes, sr_batchnorm_group(ZEROS(SR_F32, 2, 3, 4), SR_NONE, SR_NONE, 0, 0).y)
WRONG(norm_group_gamma,
      sr_batchnorm_group(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 1, 3), SR_NONE, 0, 2).y)
WRONG(norm_sums_shapes, sr_op_record(sr_op_find("batchnorm_sums"), &(double){0},
                                     (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 4, 4),
                                                   ZEROS(SR_F32, 1, 4), ZEROS(SR_F32, 1, 4)},
                                     (sr_tensor[2]){{0}}))
WRONG(norm_dx_without_sums,
      sr_op_record_one(sr_op_find("batchnorm_dx"), (const int64_t[2]){0, 1},
                       (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 3, 4), SR_NONE,
                                     ZEROS(SR_F32, 1, 4), ZEROS(SR_F32, 1, 4), SR_NONE, SR_NONE}))
WRONG(lane_sum_narrow, sr_lane_sum(ZEROS(SR_BF16, 1, 4), 2))
WRONG(norm_without_mean,
      sr_batchnorm_infer(ZEROS(SR_F32, 2, 3, 4), SR_NONE, SR_NONE, SR_NONE, ZEROS(SR_F32, 1, 4), 0))
WRONG(norm_relu_shapes,
      sr_op_record(sr_op_find("batchnorm_train_relu"), &(double){0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 4, 4), SR_NONE, SR_NONE},
                   (sr_tensor[4]){{0}}))
WRONG(norm_pair_relu_without_var,
      sr_op_record(sr_op_find("batchnorm_train_pair_relu"), &(double){0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 3, 4), SR_NONE, SR_NONE,
                                 SR_NONE, SR_NONE, ZEROS(SR_F32, 1, 4), SR_NONE},
                   (sr_tensor[4]){{0}}))
WRONG(norm_given_relu_without_var,
      sr_op_record(sr_op_find("batchnorm_infer_relu"), &(double){0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), SR_NONE, SR_NONE, SR_NONE,
                                 ZEROS(SR_F32, 1, 4), SR_NONE},
                   (sr_tensor[2]){{0}}))
WRONG(norm_relu_linear_shapes,
      sr_op_record_one(sr_op_find("batchnorm_relu_linear"), &(double){0},
                       (sr_tensor[]){ZEROS(SR_F32, 4, 1, 2, 3, 4), SR_NONE, SR_NONE,
                                     ZEROS(SR_F32, 1, 4), ZEROS(SR_F32, 1, 4),
                                     ZEROS(SR_F32, 4, 5, 3, 1, 1), SR_NONE}))
WRONG(norm_relu_linear_dw_shapes,
      sr_op_record_one(sr_op_find("batchnorm_relu_linear_dw"), &(double){0},
                       (sr_tensor[]){ZEROS(SR_F32, 4, 1, 2, 3, 4), SR_NONE, SR_NONE,
                                     ZEROS(SR_F32, 1, 4), ZEROS(SR_F32, 1, 4),
                                     ZEROS(SR_F32, 4, 1, 2, 2, 5)}))
WRONG(norm_relu_grad_shapes,
      sr_op_record(sr_op_find("batchnorm_relu_grad"), &(double){0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 3, 4),
                                 ZEROS(SR_F32, 1, 3), SR_NONE, ZEROS(SR_F32, 1, 4),
                                 ZEROS(SR_F32, 1, 4)},
                   (sr_tensor[3]){{0}}))
WRONG(norm_add_relu_grad_shapes,
      sr_op_record(sr_op_find("batchnorm_add_relu_grad"), &(double){0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_U8, 2, 3, 1),
                                 ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 2, 4, 4), SR_NONE,
                                 ZEROS(SR_F32, 1, 4), ZEROS(SR_F32, 1, 4)},
                   (sr_tensor[4]){{0}}))
WRONG(norm_add_relu_grad_signs,
      sr_op_record(sr_op_find("batchnorm_add_relu_grad"), &(double){0},
                   (sr_tensor[]){ZEROS(SR_F32, 2, 3, 9), ZEROS(SR_U8, 2, 3, 1),
                                 ZEROS(SR_F32, 2, 3, 9), SR_NONE, SR_NONE, ZEROS(SR_F32, 1, 9),
                                 ZEROS(SR_F32, 1, 9)},
                   (sr_tensor[4]){{0}}))

// ---- Pooling ----

BUILD(max_two, sr_maxpool2d(in[0], (sr_pool2d_opts){.window = 2}))
BUILD(max_overlapping, sr_maxpool2d(in[0], (sr_pool2d_opts){.window = 3, .stride = 2, .pad = 1}))
BUILD(max_global, sr_global_maxpool(in[0]))
BUILD(mean_two, sr_avgpool2d(in[0], (sr_pool2d_opts){.window = 2}))
BUILD(mean_overlapping, sr_avgpool2d(in[0], (sr_pool2d_opts){.window = 3, .stride = 2, .pad = 1}))
BUILD(mean_global, sr_global_avgpool(in[0]))
BUILD(upsample_two, sr_upsample2d(in[0], 2))

WRONG(max_window, sr_maxpool2d(ZEROS(SR_F32, 4, 1, 20, 20, 1), (sr_pool2d_opts){.window = 16}))
WRONG(max_grad_index,
      sr_op_record_one(sr_op_find("maxpool2d_grad"),
                       (const int64_t[16]){1 | (int64_t)1 << 32, 1 | (int64_t)1 << 32, 0, 2, 2},
                       (sr_tensor[]){ZEROS(SR_F32, 4, 1, 2, 2, 1), ZEROS(SR_U8, 4, 1, 2, 1, 1)}))
WRONG(mean_rank, sr_avgpool2d(ZEROS(SR_F32, 3, 4, 4, 1), (sr_pool2d_opts){.window = 2}))
WRONG(mean_grad_size,
      sr_op_record_one(sr_op_find("avgpool2d_grad"),
                       (const int64_t[16]){1 | (int64_t)1 << 32, 1 | (int64_t)1 << 32, 0, 3, 3},
                       (sr_tensor[]){ZEROS(SR_F32, 4, 1, 2, 2, 1)}))
WRONG(upsample_factor, sr_upsample2d(ZEROS(SR_F32, 4, 1, 2, 2, 1), 0))
WRONG(upsample_grad_size, sr_op_record_one(sr_op_find("upsample2d_grad"), (const int32_t[32]){2, 2},
                                           (sr_tensor[]){ZEROS(SR_F32, 4, 1, 3, 2, 1)}))

const op_case op_cases_layers[] = {
    // Convolution. y = x00 + 2 x01 - x11 + 10
    {.op = "conv2d",
     .build = conv_bias,
     .inputs = 3,
     .params = 6,
     .info = {F64(4, 1, 3, 3, 1), F64(4, 1, 1, 2, 2), F64(1, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 0, -1}, {10}},
     .want = {10, 12, 16, 18},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = conv_channels,
     .message =
         "conv2d: w [5, 3, 7, 7] f32 with groups 1 needs 3 input channels, x [2, 8, 8, 4] f32 "
         "has 4"},
    {.op = "conv2d",
     .build = conv_strided,
     .inputs = 3,
     .gradient = GRADIENT_TWICE,
     .info = {F64(4, 2, 7, 5, 4), F64(4, 6, 2, 3, 2), F64(1, 6)},
     .wrong = conv_groups,
     .message = "multiple of groups 2"},
    {.op = "conv2d",
     .build = conv_plain,
     .inputs = 2,
     .gradient = GRADIENT_TWICE,
     .info = {F64(4, 1, 4, 4, 2), F64(4, 3, 2, 3, 3)},
     .wrong = conv_too_large,
     .message = "does not fit"},
    {.op = "conv2d",
     .build = conv_plain,
     .inputs = 2,
     .gradient = GRADIENT_TWICE,
     .info = {F64(4, 2, 1, 1, 3), F64(4, 2, 3, 1, 1)},
     .wrong = conv_bf16_weights,
     .message = "must be f32 [K, C/groups, R, S]"},
    {.op = "conv2d_dx",
     .build = conv_transposed,
     .inputs = 2,
     .params = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(4, 1, 1, 2, 2)},
     .in = {{1, 2, 3, 4}, {1, 2, 0, -1}},
     .want = {1, 4, 4, 3, 9, 6, 0, -3, -4},
     .want_count = 9,
     .gradient = GRADIENT_TWICE,
     .wrong = conv_output_pad,
     .message = "conv2d_transpose: output_pad 2 must be at least 0 and less than the stride, 2x2"},
    {.op = "conv2d_dx",
     .build = conv_transposed_strided,
     .inputs = 2,
     .gradient = GRADIENT_TWICE,
     .info = {F64(4, 2, 3, 2, 3), F64(4, 3, 2, 3, 3)},
     .wrong = conv_bad_bias,
     .message = "conv2d: bias is [3] f32, expected [2] f32"},
    {.op = "conv2d_dw",
     .build = conv_plain,
     .wrt = 2,
     .inputs = 3,
     .params = 2,
     .info = {F64(4, 1, 3, 3, 1), F64(4, 1, 1, 2, 2), F64(4, 1, 2, 2, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {0}, {1, 2, 3, 4}},
     .want = {37, 47, 67, 77},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = dw_without_filters,
     .message = "conv2d_dw: x [1, 4, 4, 2] f32 and dy [1, 4, 4, 2] f32"},

    // Linear
    {.op = "linear",
     .build = linear_bias,
     .inputs = 3,
     .params = 6,
     .info = {F64(2, 2, 2), F64(2, 3, 2), F64(1, 3)},
     .in = {{1, 2, 3, 4}, {1, 0, 0, 1, 1, -1}, {0.5, 1, 0}},
     .want = {1.5, 3, -1, 3.5, 5, -1},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = linear_columns,
     .message = "linear: x [3, 4] f32 and w [5, 6] f32"},
    {.op = "linear",
     .build = linear_bias,
     .inputs = 3,
     .params = 6,
     .info = {F64(3, 2, 1, 2), F64(2, 1, 2), F64(1, 1)},
     .in = {{1, 2, 3, 4}, {1, -1}, {0.5}},
     .want = {-0.5, -0.5},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = linear_of_vector,
     .message = "linear: x [4] f32 needs at least two dimensions"},
    {.op = "linear",
     .build = linear_plain,
     .inputs = 2,
     .gradient = GRADIENT_TWICE,
     .info = {F64(4, 2, 3, 2, 4), F64(2, 5, 4)}},
    {.op = "linear_dx",
     .build = linear_plain,
     .wrt = 1,
     .inputs = 3,
     .params = 2,
     .info = {F64(2, 1, 2), F64(2, 3, 2), F64(2, 1, 3)},
     .in = {{0}, {1, 0, 0, 1, 1, -1}, {1, 2, 3}},
     .want = {4, -1},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = linear_dx_rows,
     .message = "linear_dx: dy [3, 4] f32 and w [5, 6] f32"},
    {.op = "linear_dw",
     .build = linear_plain,
     .wrt = 2,
     .inputs = 3,
     .params = 2,
     .info = {F64(2, 2, 2), F64(2, 1, 2), F64(2, 2, 1)},
     .in = {{1, 2, 3, 4}, {0}, {1, 10}},
     .want = {31, 42},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = linear_dw_rows,
     .message = "linear_dw: x [3, 4] f32 and dy [5, 6] f32"},

    // Channels
    {.op = "bias_add",
     .build = bias_add,
     .inputs = 2,
     .params = 2,
     .info = {F64(2, 2, 2), F64(1, 2)},
     .in = {{1, 2, 3, 4}, {10, 20}},
     .want = {11, 22, 13, 24},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = bias_length,
     .message = "bias_add: b is [3] f32, expected [4] f32 to match [3, 4] f32"},
    {.op = "channel_sum",
     .build = channel_sum,
     .inputs = 1,
     .info = {F64(2, 2, 2)},
     .in = {{1, 2, 3, 4}},
     .want = {4, 6},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = sum_of_scalar,
     .message = "channel_sum: x is a scalar"},
    {.op = "channel_dot",
     .build = channel_dot,
     .inputs = 3,
     .params = 4,
     .info = {F64(2, 2, 2), F64(2, 2, 2), F64(1, 2)},
     .in = {{1, 2, 3, 4}, {5, 6, 7, 8}, {1, 2}},
     .want = {1 * 4 + 3 * 6, 2 * 4 + 4 * 6},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = dot_shapes,
     .message = "channel_dot: inputs [3, 4] f32 and [4, 3] f32 must have equal shapes"},
    {.op = "channel_dot",
     .build = channel_dot_plain,
     .inputs = 2,
     .info = {F64(3, 2, 3, 2), F64(3, 2, 3, 2)},
     .gradient = GRADIENT_TWICE,
     .wrong = dot_of_vectors,
     .message = "channel_dot: a [3] f32 needs at least two dimensions"},

    // Batch normalisation
    {.op = "batchnorm_train",
     .build = norm_y,
     .inputs = 3,
     .params = 6,
     .low = -1,
     .high = 1,
     .info = {F64(2, 4, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3, 1, 3}, {2}, {1}},
     .want = {-1, 3, -1, 3},
     .want_count = 4,
     .gradient = GRADIENT_ONCE,
     .wrong = norm_gamma,
     .message = "batchnorm_train: a per-channel input is [3] f32, expected [4] f32"},
    {.op = "batchnorm_train",
     .build = norm_y_eps,
     .inputs = 3,
     .gradient = GRADIENT_ONCE,
     .info = {F64(4, 2, 3, 2, 3), F64(1, 3), F64(1, 3)}},
    {.op = "batchnorm_train",
     .build = norm_y_bare,
     .inputs = 1,
     .gradient = GRADIENT_ONCE,
     .info = {F64(2, 7, 3)}},
    {.op = "batchnorm_train",
     .build = norm_statistics,
     .inputs = 1,
     .gradient = GRADIENT_TWICE,
     .info = {F64(2, 7, 3)}},
    {.op = "batchnorm_train",
     .build = norm_everything,
     .inputs = 3,
     .gradient = GRADIENT_ONCE,
     .info = {F64(2, 7, 3), F64(1, 3), F64(1, 3)}},
    {.op = "batchnorm_grad",
     .build = norm_y,
     .wrt = 1,
     .inputs = 4,
     .params = 6,
     .info = {F64(2, 4, 1), F64(1, 1), F64(1, 1), F64(2, 4, 1)},
     .in = {{1, 3, 1, 3}, {2}, {1}, {1, 2, 3, 4}},
     .want = {-2, -2, 2, 2},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_grad_shapes,
     .message = "batchnorm_grad: inputs [3, 4] f32 and [4, 4] f32"},
    {.op = "batchnorm_infer",
     .build = norm_given,
     .inputs = 5,
     .params = 30,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(2, 2, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3}, {2}, {1}, {2}, {4}},
     .want = {0, 2},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = norm_without_mean,
     .message = "batchnorm_infer: mean and var must be given"},
    {.op = "batchnorm_infer",
     .build = norm_given_eps,
     .inputs = 5,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(3, 2, 3, 4), F64(1, 4), F64(1, 4), F64(1, 4), F64(1, 4)},
     .gradient = GRADIENT_TWICE},

    // With ReLU
    {.op = "batchnorm_train_relu",
     .build = norm_relu,
     .inputs = 4,
     .params = 12,
     .info = {F64(2, 4, 1), F64(2, 4, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3, 1, 3}, {2, -4, -3, 1}, {2}, {1}},
     .want = {2, 0, 0, 5},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_relu_shapes,
     .message = "batchnorm_train_relu: inputs [3, 4] f32 and [4, 4] f32"},
    {.op = "batchnorm_train_pair_relu",
     .build = norm_pair_relu,
     .inputs = 8,
     .params = 252,
     .info = {F64(2, 4, 1), F64(2, 4, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1),
              F64(1, 1)},
     .in = {{1, 3, 1, 3}, {2, -4, -3, 1}, {2}, {1}, {6}, {3}, {2}, {4}},
     .want = {3, 0, 0, 4},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_pair_relu_without_var,
     .message = "batchnorm_train_pair_relu: mean and var must be given"},
    {.op = "batchnorm_infer_relu",
     .build = norm_given_relu,
     .inputs = 6,
     .params = 60,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(2, 2, 1), F64(2, 2, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3}, {-1, 5}, {2}, {1}, {2}, {4}},
     .want = {0, 8},
     .want_count = 2,
     .gradient = GRADIENT_NONE,
     .wrong = norm_given_relu_without_var,
     .message = "batchnorm_infer_relu: mean and var must be given"},
    {.op = "batchnorm_relu_linear",
     .build = norm_relu_linear,
     .inputs = 7,
     .params = 126,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(4, 1, 1, 2, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(4, 2, 1, 1, 1),
              F64(1, 2)},
     .in = {{1, 3}, {2}, {1}, {2}, {4}, {1, -2}, {5, 6}},
     .want = {5, 6, 7, 2},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_relu_linear_shapes,
     .message = "batchnorm_relu_linear: w [5, 3, 1, 1] f32 must be f32 [K, 4, 1, 1]"},
    {.op = "batchnorm_relu_linear_dw",
     .build = norm_relu_linear_dw,
     .inputs = 6,
     .params = 30,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(4, 1, 1, 2, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(4, 1, 1, 2, 2)},
     .in = {{1, 3}, {2}, {1}, {2}, {4}, {7, 8, 1, -2}},
     .want = {2, -4},
     .want_count = 2,
     .gradient = GRADIENT_NONE,
     .wrong = norm_relu_linear_dw_shapes,
     .message = "batchnorm_relu_linear_dw: x [1, 2, 3, 4] f32 and dy [1, 2, 2, 5] f32 must have "
                "the same dtype and pixels"},
    {.op = "batchnorm_relu_grad",
     .build = norm_relu_grad,
     .inputs = 6,
     .params = 60,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(2, 4, 1), F64(2, 4, 1), F64(1, 1), F64(1, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3, 1, 3}, {1, 2, 3, 4}, {2}, {1}, {2}, {1}},
     .want = {0, -2, 0, 2},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_relu_grad_shapes,
     .message = "batchnorm_relu_grad: a per-channel input is [3] f32, expected [4] f32"},
    {.op = "batchnorm_add_relu_grad",
     .build = norm_add_relu_grad,
     .inputs = 7,
     .params = 112,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(2, 4, 1),
              {.dtype = SR_U8, .rank = 2, .dim = {4, 1}},
              F64(2, 4, 1),
              F64(2, 4, 1),
              F64(1, 1),
              F64(1, 1),
              F64(1, 1)},
     .in = {{1, 3, 1, 3}, {0, 1, 0xfe, 5}, {1, 1, 1, 1}, {0, 1, 2, 3}, {2}, {2}, {1}},
     .want = {0, 0, 0, 6},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_add_relu_grad_shapes,
     .message = "batchnorm_add_relu_grad: inputs [3, 4] f32 and [4, 4] f32"},
    {.op = "batchnorm_add_relu_grad",
     .build = norm_add_relu_grad,
     .inputs = 7,
     .params = 112,
     .low = 0.5,
     .high = 1.5,
     .info = {F64(2, 1, 9),
              {.dtype = SR_U8, .rank = 2, .dim = {1, 2}},
              F64(2, 1, 9),
              F64(2, 1, 9),
              F64(1, 9),
              F64(1, 9),
              F64(1, 9)},
     .gradient = GRADIENT_NONE,
     .wrong = norm_add_relu_grad_signs,
     .message = "batchnorm_add_relu_grad: signs are [3, 1] u8, expected [3, 2] u8"},

    // The same for a group of lanes, of one lane: batchnorm_group alone has no gradient of the
    // statistics.
    {.op = "batchnorm_moments",
     .build = norm_group_mean,
     .inputs = 1,
     .info = {F64(2, 4, 1)},
     .in = {{1, 3, 1, 4}},
     .want = {2.25},
     .want_count = 1,
     .gradient = GRADIENT_TWICE,
     .wrong = norm_no_lanes,
     .message = "batchnorm_moments: lanes 0 must be between 1 and 65536"},
    {.op = "batchnorm_moments",
     .build = norm_group_statistics,
     .inputs = 1,
     .gradient = GRADIENT_TWICE,
     .info = {F64(2, 7, 3)}},
    {.op = "batchnorm_group",
     .build = norm_group,
     .inputs = 3,
     .params = 6,
     .low = -1,
     .high = 1,
     .info = {F64(2, 4, 1), F64(1, 1), F64(1, 1)},
     .in = {{1, 3, 1, 3}, {2}, {1}},
     .want = {-1, 3, -1, 3},
     .want_count = 4,
     .gradient = GRADIENT_ONCE,
     .wrong = norm_group_gamma,
     .message = "batchnorm_group: a per-channel input is [3] f32, expected [4] f32"},
    {.op = "batchnorm_group",
     .build = norm_group_eps,
     .inputs = 3,
     .gradient = GRADIENT_ONCE,
     .info = {F64(4, 2, 3, 2, 3), F64(1, 3), F64(1, 3)}},
    {.op = "batchnorm_group",
     .build = norm_group_bare,
     .inputs = 1,
     .gradient = GRADIENT_ONCE,
     .info = {F64(2, 7, 3)}},
    {.op = "batchnorm_group",
     .build = norm_group_everything,
     .inputs = 3,
     .gradient = GRADIENT_ONCE,
     .info = {F64(2, 7, 3), F64(1, 3), F64(1, 3)}},
    {.op = "batchnorm_sums", // the gradient of gamma
     .build = norm_group,
     .wrt = 2,
     .inputs = 4,
     .params = 6,
     .info = {F64(2, 4, 1), F64(1, 1), F64(1, 1), F64(2, 4, 1)},
     .in = {{1, 3, 1, 3}, {2}, {1}, {1, 2, 3, 4}},
     .want = {2},
     .want_count = 1,
     .gradient = GRADIENT_NONE,
     .wrong = norm_sums_shapes,
     .message = "batchnorm_sums: inputs [3, 4] f32 and [4, 4] f32"},
    {.op = "batchnorm_dx",
     .build = norm_group,
     .wrt = 1,
     .inputs = 4,
     .params = 6,
     .info = {F64(2, 4, 1), F64(1, 1), F64(1, 1), F64(2, 4, 1)},
     .in = {{1, 3, 1, 3}, {2}, {1}, {1, 2, 3, 4}},
     .want = {-2, -2, 2, 2},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = norm_dx_without_sums,
     .message = "batchnorm_dx: dgamma must be given"},
    {.op = "lane_sum",
     .build = lane_sum,
     .inputs = 1,
     .params = 1,
     .info = {F64(1, 3)},
     .in = {{1, -2, 3}},
     .want = {1, 4, 9},
     .want_count = 3,
     .gradient = GRADIENT_TWICE,
     .wrong = lane_sum_narrow,
     .message = "lane_sum: x [4] bf16 must be f32 or f64"},

    // Pooling
    {.op = "maxpool2d",
     .build = max_two,
     .inputs = 1,
     .info = {F64(4, 1, 2, 2, 1)},
     .in = {{1, 4, 3, 2}},
     .want = {4},
     .want_count = 1,
     .gradient = GRADIENT_ONCE,
     .wrong = max_window,
     .message = "maxpool2d: a window of 16x16 has more than 255"},
    {.op = "maxpool2d",
     .build = max_overlapping,
     .inputs = 1,
     .info = {F64(4, 2, 5, 6, 3)},
     .gradient = GRADIENT_ONCE},
    {.op = "maxpool2d",
     .build = max_global,
     .inputs = 1,
     .info = {F64(4, 2, 3, 4, 3)},
     .gradient = GRADIENT_ONCE},
    {.op = "maxpool2d",
     .build = max_global,
     .inputs = 1,
     .info = {F64(4, 1, 20, 13, 2)},
     .gradient = GRADIENT_ONCE}, // 260 pixels: reduced in two steps
    {.op = "maxpool2d_grad",
     .build = max_two,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(4, 1, 1, 1, 1)},
     .in = {{1, 4, 3, 2}, {5}},
     .want = {0, 5, 0, 0},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = max_grad_index,
     .message = "maxpool2d_grad: index [1, 2, 1, 1] u8"},
    {.op = "avgpool2d",
     .build = mean_two,
     .inputs = 1,
     .info = {F64(4, 1, 2, 2, 1)},
     .in = {{1, 4, 3, 2}},
     .want = {2.5},
     .want_count = 1,
     .gradient = GRADIENT_TWICE,
     .wrong = mean_rank,
     .message = "avgpool2d: x [4, 4, 1] f32 must have 4 dimensions"},
    {.op = "avgpool2d",
     .build = mean_overlapping,
     .inputs = 1,
     .info = {F64(4, 2, 5, 6, 3)},
     .gradient = GRADIENT_TWICE},
    {.op = "avgpool2d",
     .build = mean_global,
     .inputs = 1,
     .info = {F64(4, 2, 5, 6, 3)},
     .gradient = GRADIENT_TWICE},
    {.op = "avgpool2d_grad",
     .build = mean_two,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(4, 1, 1, 1, 1)},
     .in = {{0}, {4}},
     .want = {1, 1, 1, 1},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = mean_grad_size,
     .message = "avgpool2d_grad: x [1, 3, 3, 1] f32"},
    {.op = "upsample2d",
     .build = upsample_two,
     .inputs = 1,
     .info = {F64(4, 1, 1, 1, 2)},
     .in = {{1, 2}},
     .want = {1, 2, 1, 2, 1, 2, 1, 2},
     .want_count = 8,
     .gradient = GRADIENT_TWICE,
     .wrong = upsample_factor,
     .message = "upsample2d: factor 0"},
    {.op = "upsample2d_grad",
     .build = upsample_two,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(4, 1, 1, 1, 1), F64(4, 1, 2, 2, 1)},
     .in = {{0}, {1, 2, 3, 4}},
     .want = {10},
     .want_count = 1,
     .gradient = GRADIENT_TWICE,
     .wrong = upsample_grad_size,
     .message = "upsample2d_grad: dy [1, 3, 2, 1] f32"},

};
const size_t op_cases_layers_count = sizeof op_cases_layers / sizeof op_cases_layers[0];
