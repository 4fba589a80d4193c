// SPDX-License-Identifier: Apache-2.0
// Cases of activations, arithmetic, shapes, sums, losses and updates.
#include "tests/unit/graph/op_case_builders.h"

// ---- Elementwise ----

BUILD(relu, sr_relu(in[0]))
BUILD(add_relu, sr_op_record_one(sr_op_find("add_relu"), NULL, in))
BUILD(add_relu_grad, sr_op_record_one(sr_op_find("add_relu_grad"), NULL, in))
BUILD(gelu, sr_gelu(in[0]))
BUILD(leaky, sr_leaky_relu(in[0], 0.25))
BUILD(tanh_of, sr_tanh_op(in[0]))
BUILD(sigmoid, sr_sigmoid(in[0]))
BUILD(softplus, sr_softplus(in[0]))
BUILD(silu, sr_silu(in[0]))
BUILD(bce, sr_bce_with_logits(in[0], 1.0))
BUILD(add, sr_add(in[0], in[1]))
BUILD(add_twice, sr_add(in[0], in[0]))
BUILD(sub, sr_sub(in[0], in[1]))
BUILD(mul, sr_mul(in[0], in[1]))
BUILD(divide, sr_div(in[0], in[1]))
BUILD(square, sr_square(in[0]))
BUILD(exp_of, sr_exp_op(in[0]))
BUILD(expand, sr_op_record_one(sr_op_find("expand"), NULL, in))
BUILD(scale, sr_scale(in[0], -2.0, 0.5))
BUILD(scale_by, sr_scale_by(in[0], in[1]))
BUILD(fill_by_f64, sr_fill_by(in[0], SR_F64, 2, (const int64_t[]){2, 2}))
BUILD(cast_f64, sr_cast(in[0], SR_F64))
BUILD(cast_f32, sr_cast(in[0], SR_F32))
BUILD(cast_i32, sr_cast(in[0], SR_I32))
BUILD(normalize, sr_normalize(in[0], (const double[]){0.5, 0}, (const double[]){0.25, 1}, SR_F32))
BUILD(keep_all, sr_dropout(in[0], in[1], 0.0, 3))
BUILD(normal_pair, sr_random_normal(in[0], SR_F64, 1, (const int64_t[]){2}, 0))
BUILD(mix_none, sr_mix_batch(in[0], in[1], in[2], (sr_mix_opts){.mixup = 1, .cutmix = 1}).x)
BUILD(drop_half, sr_dropout(in[0], in[1], 0.5, 3))
BUILD(keep_samples, sr_drop_path(in[0], in[1], 0.0, 3))
BUILD(drop_samples, sr_drop_path(in[0], in[1], 0.5, 3))

WRONG(relu_of_integers, sr_relu(ZEROS(SR_I32, 1, 3)))
WRONG(gelu_of_integers, sr_gelu(ZEROS(SR_I32, 1, 3)))
WRONG(leaky_of_integers, sr_leaky_relu(ZEROS(SR_U8, 1, 3), 0.1))
WRONG(tanh_of_integers, sr_tanh_op(ZEROS(SR_I32, 1, 3)))
WRONG(sigmoid_of_integers, sr_sigmoid(ZEROS(SR_I32, 1, 3)))
WRONG(softplus_of_integers, sr_softplus(ZEROS(SR_I32, 1, 3)))
WRONG(silu_of_integers, sr_silu(ZEROS(SR_I32, 1, 3)))
WRONG(square_of_integers, sr_square(ZEROS(SR_I32, 1, 3)))
WRONG(exp_of_integers, sr_exp_op(ZEROS(SR_I32, 1, 3)))
WRONG_PAIR(relu_grad_shapes, "relu_grad")
WRONG_PAIR(add_relu_shapes, "add_relu")
WRONG_THREE(add_relu_grad_shapes, "add_relu_grad")
WRONG_PAIR(gelu_grad_shapes, "gelu_grad")
WRONG_PAIR(leaky_grad_shapes, "leaky_relu_grad")
WRONG_PAIR(tanh_grad_shapes, "tanh_grad")
WRONG_PAIR(sigmoid_grad_shapes, "sigmoid_grad")
WRONG_PAIR(softplus_grad_shapes, "softplus_grad")
WRONG_PAIR(silu_grad_shapes, "silu_grad")
WRONG_PAIR(add_shapes, "add")
WRONG(sub_dtypes, sr_sub(ZEROS(SR_F32, 1, 3), ZEROS(SR_BF16, 1, 3)))
WRONG_PAIR(mul_shapes, "mul")
WRONG_PAIR(div_shapes, "div")
WRONG_THREE(div_grad_shapes, "div_grad")
WRONG_PAIR(expand_shapes, "expand")
// To [7], as the operator's attributes have it: five extents, then the rank.
WRONG(sum_to_seven, sr_op_record_one(sr_op_find("sum_to"), (const int64_t[6]){7, 0, 0, 0, 0, 1},
                                     (sr_tensor[]){ZEROS(SR_F32, 2, 2, 3), SR_NONE}))
WRONG(scale_of_integers, sr_scale(ZEROS(SR_I32, 1, 3), 1, 0))
WRONG(scale_by_vector, sr_scale_by(ZEROS(SR_F32, 1, 3), ZEROS(SR_F32, 1, 3)))
WRONG(fill_too_deep,
      sr_fill_by(ZEROS(SR_F32, 1, 1), SR_F32, 6, (const int64_t[6]){1, 1, 1, 1, 1, 1}))
WRONG(cast_to_i64, sr_cast(ZEROS(SR_F32, 1, 3), SR_I64))
WRONG(normalize_channels, sr_normalize(ZEROS(SR_U8, 2, 3, 5), (const double[5]){0},
                                       (const double[5]){1, 1, 1, 1, 1}, SR_F32))
WRONG(normal_key, sr_random_normal(ZEROS(SR_I32, 1, 3), SR_F32, 1, (const int64_t[]){2}, 0))
WRONG(mix_labels, sr_mix_batch(ZEROS(SR_F32, 4, 3, 2, 2, 1), ZEROS(SR_I32, 1, 2),
                               ZEROS(SR_I32, 1, 4), (sr_mix_opts){.mixup = 1})
                      .x)
WRONG(drop_path_scalar, sr_drop_path(ZEROS(SR_F32, 0, 0), ZEROS(SR_I32, 1, 4), 0.5, 0))
WRONG(drop_path_key, sr_drop_path(ZEROS(SR_F32, 1, 3), ZEROS(SR_I32, 1, 3), 0.5, 0))
WRONG(dropout_key, sr_dropout(ZEROS(SR_F32, 1, 3), ZEROS(SR_I32, 1, 3), 0.5, 0))

// ---- Shapes, sums, losses ----

BUILD(reshape, sr_reshape(in[0], 2, (const int64_t[]){3, 2}))
BUILD(flatten, sr_flatten(in[0]))
BUILD(reduce_sum, sr_reduce_sum(in[0]))
BUILD(xent, sr_softmax_cross_entropy(in[0], in[1], 0.0))
BUILD(xent_smooth, sr_softmax_cross_entropy(in[0], in[1], 0.2))
BUILD(hits, sr_topk_hits(in[0], in[1]))

BUILD(stop_gradient, sr_stop_gradient(in[0]))
WRONG(stop_of_integers, sr_stop_gradient(ZEROS(SR_I32, 1, 3)))
WRONG(reshape_count, sr_reshape(ZEROS(SR_F32, 2, 2, 3), 1, (const int64_t[]){7}))
WRONG(sum_of_integers, sr_reduce_sum(ZEROS(SR_I32, 1, 3)))
WRONG(xent_labels, sr_softmax_cross_entropy(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_I32, 1, 4), 0))
WRONG(xent_grad_loss, sr_op_record_one(sr_op_find("softmax_xent_grad"), (const double[2]){0},
                                       (sr_tensor[]){ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_I32, 1, 3),
                                                     ZEROS(SR_F32, 1, 4)}))
WRONG(hits_labels, sr_topk_hits(ZEROS(SR_F32, 2, 3, 4), ZEROS(SR_F32, 1, 3)))

const op_case op_cases_math[] = {
    // Activations
    {.op = "relu",
     .build = relu,
     .inputs = 1,
     .info = {F64(1, 3)},
     .in = {{-1, 2, 0}},
     .want = {0, 2, 0},
     .want_count = 3,
     .gradient = GRADIENT_TWICE,
     .wrong = relu_of_integers,
     .message = "relu: input [3] i32 must be f32"},
    {.op = "relu_grad",
     .build = relu,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(1, 3), F64(1, 3)},
     .in = {{-1, 2, 0}, {5, 6, 7}},
     .want = {0, 6, 0},
     .want_count = 3,
     .gradient = GRADIENT_TWICE,
     .wrong = relu_grad_shapes,
     .message = "relu_grad: inputs [2, 3] f32 and [3, 2] f32"},
    {.op = "add_relu",
     .build = add_relu,
     .inputs = 2,
     .info = {F64(1, 4), F64(1, 4)},
     .in = {{-1, 2, 1, -3}, {0.5, -1, -1, 4}},
     .want = {0, 1, 0, 1},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = add_relu_shapes,
     .message = "add_relu: inputs [2, 3] f32 and [3, 2] f32"},
    {.op = "add_relu_grad",
     .build = add_relu_grad,
     .inputs = 3,
     .info = {F64(1, 3), F64(1, 3), F64(1, 3)},
     .in = {{-1, 2, 0}, {5, 6, 7}, {1, -8, 1}},
     .want = {0, -2, 0},
     .want_count = 3,
     .gradient = GRADIENT_NONE,
     .wrong = add_relu_grad_shapes,
     .message = "add_relu_grad: inputs [2, 3] f32 and [3, 2] f32"},
    {.op = "gelu",
     .build = gelu,
     .inputs = 1,
     .info = {F64(1, 3)},
     .in = {{0, 1, -1}},
     .want = {0, 0.8413447460685429, -0.15865525393145707},
     .want_count = 3,
     .gradient = GRADIENT_ONCE,
     .low = -3,
     .high = 3,
     .wrong = gelu_of_integers,
     .message = "gelu: input"},
    {.op = "gelu_grad",
     .build = gelu,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(1, 3), F64(1, 3)},
     .in = {{0, 1, -1}, {1, 1, 1}},
     .want = {0.5, 1.0833154705876864, -0.08331547058768636},
     .want_count = 3,
     .gradient = GRADIENT_NONE,
     .wrong = gelu_grad_shapes,
     .message = "gelu_grad: inputs"},
    {.op = "leaky_relu",
     .build = leaky,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{-4, 4}},
     .want = {-1, 4},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = leaky_of_integers,
     .message = "leaky_relu: input [3] u8"},
    {.op = "leaky_relu_grad",
     .build = leaky,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(1, 2), F64(1, 2)},
     .in = {{-4, 4}, {1, 2}},
     .want = {0.25, 2},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = leaky_grad_shapes,
     .message = "leaky_relu_grad: inputs"},
    {.op = "tanh",
     .build = tanh_of,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{0, 1}},
     .want = {0, 0.7615941559557649},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .low = -2,
     .high = 2,
     .wrong = tanh_of_integers,
     .message = "tanh: input"},
    {.op = "tanh_grad",
     .build = tanh_of,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(1, 2), F64(1, 2)},
     .in = {{0, 1}, {1, 1}},
     .want = {1, 0.4199743416140261},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .low = -2,
     .high = 2,
     .wrong = tanh_grad_shapes,
     .message = "tanh_grad: inputs"},
    {.op = "sigmoid",
     .build = sigmoid,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{0, 1}},
     .want = {0.5, 0.7310585786300049},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .low = -4,
     .high = 4,
     .wrong = sigmoid_of_integers,
     .message = "sigmoid: input"},
    {.op = "sigmoid_grad",
     .build = sigmoid,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(1, 2), F64(1, 2)},
     .in = {{0, 1}, {1, 1}},
     .want = {0.25, 0.19661193324148185},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .low = -4,
     .high = 4,
     .wrong = sigmoid_grad_shapes,
     .message = "sigmoid_grad: inputs"},
    {.op = "softplus",
     .build = softplus,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{0, 1}},
     .want = {0.6931471805599453, 1.3132616875182228},
     .want_count = 2,
     .low = -4,
     .high = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = softplus_of_integers,
     .message = "softplus: input"},
    {.op = "softplus_grad",
     .build = softplus,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(1, 2), F64(1, 2)},
     .in = {{0, 1}, {1, 2}},
     .want = {0.5, 1.4621171572600098},
     .want_count = 2,
     .low = -4,
     .high = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = softplus_grad_shapes,
     .message = "softplus_grad: inputs"},
    {.op = "silu",
     .build = silu,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{0, 1}},
     .want = {0, 0.7310585786300049},
     .want_count = 2,
     .low = -4,
     .high = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = silu_of_integers,
     .message = "silu: input"},
    {.op = "silu_grad",
     .build = silu,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(1, 2), F64(1, 2)},
     .in = {{0, 1}, {1, 1}},
     .want = {0.5, 0.9276705118714867},
     .want_count = 2,
     .low = -4,
     .high = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = silu_grad_shapes,
     .message = "silu_grad: inputs"},
    {.op = "softplus",
     .build = bce,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{0, -1}},
     .want = {0.6931471805599453, 1.3132616875182228},
     .want_count = 2,
     .low = -4,
     .high = 4,
     .gradient = GRADIENT_TWICE},

    // Arithmetic
    {.op = "add",
     .build = add,
     .inputs = 2,
     .info = {F64(1, 3), F64(1, 3)},
     .in = {{1, 2, 3}, {4, 5, -6}},
     .want = {5, 7, -3},
     .want_count = 3,
     .gradient = GRADIENT_TWICE,
     .wrong = add_shapes,
     .message =
         "add: inputs [2, 3] f32 and [3, 2] f32 must have equal dtypes, and equal shapes or"},
    {.op = "add",
     .build = add,
     .inputs = 2,
     .info = {F64(2, 2, 3), F64(1, 3)},
     .in = {{1, 2, 3, 4, 5, 6}, {10, 20, -30}},
     .want = {11, 22, -27, 14, 25, -24},
     .want_count = 6,
     .gradient = GRADIENT_TWICE},
    // The gradient of b, which is repeated over the rows.
    {.op = "add",
     .build = add,
     .wrt = 2,
     .inputs = 3,
     .info = {F64(2, 2, 3), F64(1, 3), F64(2, 2, 3)},
     .in = {{0}, {0}, {1, 2, 3, 4, 5, -6}},
     .want = {5, 7, -3},
     .want_count = 3,
     .gradient = GRADIENT_TWICE},
    {.op = "add",
     .build = add,
     .inputs = 2,
     .info = {F64(0, 0), F64(2, 2, 1)},
     .in = {{5}, {1, -2}},
     .want = {6, 3},
     .want_count = 2,
     .gradient = GRADIENT_TWICE},
    {.op = "add",
     .build = add_twice,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{1, -2}},
     .want = {2, -4},
     .want_count = 2,
     .gradient = GRADIENT_TWICE},
    {.op = "sub",
     .build = sub,
     .inputs = 2,
     .info = {F64(1, 3), F64(1, 3)},
     .in = {{1, 2, 3}, {4, 5, -6}},
     .want = {-3, -3, 9},
     .want_count = 3,
     .gradient = GRADIENT_TWICE,
     .wrong = sub_dtypes,
     .message = "sub: inputs [3] f32 and [3] bf16"},
    {.op = "mul",
     .build = mul,
     .inputs = 2,
     .info = {F64(1, 3), F64(1, 3)},
     .in = {{1, 2, 3}, {4, 5, -6}},
     .want = {4, 10, -18},
     .want_count = 3,
     .gradient = GRADIENT_TWICE,
     .wrong = mul_shapes,
     .message = "mul: inputs"},
    {.op = "mul",
     .build = mul,
     .inputs = 2,
     .info = {F64(3, 2, 1, 2), F64(2, 3, 1)},
     .in = {{1, 2, 3, 4}, {1, 10, 100}},
     .want = {1, 2, 10, 20, 100, 200, 3, 4, 30, 40, 300, 400},
     .want_count = 12,
     .gradient = GRADIENT_TWICE},
    {.op = "sub",
     .build = sub,
     .inputs = 2,
     .info = {F64(2, 1, 2), F64(2, 2, 1)},
     .in = {{5, 7}, {1, 2}},
     .want = {4, 6, 3, 5},
     .want_count = 4,
     .gradient = GRADIENT_TWICE},
    {.op = "div",
     .build = divide,
     .inputs = 2,
     .info = {F64(1, 3), F64(1, 3)},
     .in = {{1, 2, -3}, {4, 0.5, 2}},
     .want = {0.25, 4, -1.5},
     .want_count = 3,
     .low = 0.5,
     .high = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = div_shapes,
     .message = "div: inputs"},
    {.op = "div",
     .build = divide,
     .inputs = 2,
     .info = {F64(2, 2, 2), F64(2, 2, 1)},
     .in = {{1, 2, 3, 4}, {2, 4}},
     .want = {0.5, 1, 0.75, 1},
     .want_count = 4,
     .low = 0.5,
     .high = 2,
     .gradient = GRADIENT_TWICE},
    {.op = "div_grad",
     .build = divide,
     .wrt = 2,
     .inputs = 3,
     .info = {F64(1, 3), F64(1, 3), F64(1, 3)},
     .in = {{1, 2, -3}, {4, 0.5, 2}, {1, 2, 3}},
     .want = {-0.0625, -16, 2.25},
     .want_count = 3,
     .low = 0.5,
     .high = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = div_grad_shapes,
     .message = "div_grad: inputs [2, 3] f32 and [3, 2] f32"},
    {.op = "square",
     .build = square,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{-3, 0.5}},
     .want = {9, 0.25},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .low = -2,
     .high = 2,
     .wrong = square_of_integers,
     .message = "square: input"},
    {.op = "exp",
     .build = exp_of,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{0, 1}},
     .want = {1, 2.718281828459045},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = exp_of_integers,
     .message = "exp: input"},
    {.op = "expand",
     .build = expand,
     .inputs = 2,
     .fixed = 2,
     .info = {F64(2, 2, 1), F64(2, 2, 3)},
     .in = {{4, 5}, {0}},
     .want = {4, 4, 4, 5, 5, 5},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = expand_shapes,
     .message = "expand: inputs"},
    // The gradient of b, which is repeated along the second dimension of three.
    {.op = "sum_to",
     .build = mul,
     .wrt = 2,
     .inputs = 3,
     .info = {F64(3, 2, 2, 2), F64(3, 2, 1, 2), F64(3, 2, 2, 2)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 10, 10}},
     .want = {4, 6, 75, 86},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = sum_to_seven,
     .message = "sum_to: input [2, 3] f32 cannot be summed to [7] f32"},
    {.op = "scale",
     .build = scale,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{1, -3}},
     .want = {-1.5, 6.5},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = scale_of_integers,
     .message = "scale: input"},
    {.op = "scale_by",
     .build = scale_by,
     .inputs = 2,
     .params = 2,
     .info = {F64(1, 2), F64(1, 1)},
     .in = {{1, -3}, {2}},
     .want = {2, -6},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = scale_by_vector,
     .message = "scale_by: scalar [3] f32"},
    {.op = "scale_by",
     .build = scale_by,
     .inputs = 2,
     .params = 2,
     .info = {F64(1, 2), F64(0, 0)},
     .gradient = GRADIENT_TWICE},
    {.op = "fill_by",
     .build = fill_by_f64,
     .inputs = 1,
     .info = {F64(1, 1)},
     .in = {{-3}},
     .want = {-3, -3, -3, -3},
     .want_count = 4,
     .own_type = true,
     .gradient = GRADIENT_TWICE,
     .wrong = fill_too_deep,
     .message = "6 dimensions"},
    {.op = "cast",
     .build = cast_f64,
     .inputs = 1,
     .info = {F64(1, 2)},
     .in = {{1.5, -3}},
     .want = {1.5, -3},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = cast_to_i64,
     .message = "cast: target type i64"},
    {.op = "cast",
     .build = cast_f32,
     .inputs = 1,
     .info = {I32(3)},
     .in = {{1, -3, 7}},
     .want = {1, -3, 7},
     .want_count = 3,
     .gradient = GRADIENT_STOPS},
    {.op = "cast",
     .build = cast_i32,
     .inputs = 1,
     .info = {{.dtype = SR_U8, .rank = 1, .dim = {3}}},
     .in = {{1, 255, 7}},
     .want = {1, 255, 7},
     .want_count = 3,
     .gradient = GRADIENT_STOPS},
    {.op = "normalize",
     .build = normalize,
     .inputs = 1,
     .info = {{.dtype = SR_U8, .rank = 2, .dim = {2, 2}}},
     .in = {{0, 0, 255, 255}},
     .want = {-2, 0, 2, 1},
     .want_count = 4,
     .gradient = GRADIENT_STOPS,
     .wrong = normalize_channels,
     .message = "normalize: x [3, 5] u8 must be u8 [..., C] with at most 4"},
    {.op = "dropout",
     .build = keep_all,
     .inputs = 2,
     .info = {F64(1, 5), I32(4)},
     .in = {{1, 2, 3, 4, 5}, {1, 2, 3, 4}},
     .want = {1, 2, 3, 4, 5},
     .want_count = 5,
     .gradient = GRADIENT_TWICE,
     .wrong = dropout_key,
     .message = "dropout: key [3] i32"},
    {.op = "dropout",
     .build = drop_half,
     .inputs = 2,
     .info = {F64(2, 5, 7), I32(4)},
     .in = {{0}, {1, 2, 3, 4}},
     .gradient = GRADIENT_TWICE},
    {.op = "drop_path",
     .build = keep_samples,
     .inputs = 2,
     .info = {F64(1, 5), I32(4)},
     .in = {{1, 2, 3, 4, 5}, {1, 2, 3, 4}},
     .want = {1, 2, 3, 4, 5},
     .want_count = 5,
     .gradient = GRADIENT_TWICE,
     .wrong = drop_path_key,
     .message = "drop_path: key [3] i32"},
    {.op = "drop_path",
     .build = drop_samples,
     .inputs = 2,
     .info = {F64(3, 5, 1, 7), I32(4)},
     .in = {{0}, {1, 2, 3, 4}},
     .gradient = GRADIENT_TWICE,
     .wrong = drop_path_scalar,
     .message = "must have a dimension of samples"},

    {.op = "random_normal",
     .build = normal_pair,
     .inputs = 1,
     .info = {I32(4)},
     .own_type = true,
     .want = {0.9911376792540323, -0.9246625883905122}, // from Philox words 6627e8d5 e169c58d
     .want_count = 2,
     .gradient = GRADIENT_STOPS,
     .wrong = normal_key,
     .message = "random_normal: key [3] i32"},

    {.op = "mix_batch", // what it mixes is tested in test_mix.c
     .build = mix_none,
     .inputs = 3,
     .info = {F64(4, 2, 1, 2, 1), I32(2), I32(4)},
     .in = {{1, -2, 3, 4}, {1, 0}, {1, 2, 3, 4}},
     .want = {1, -2, 3, 4},
     .want_count = 4,
     .gradient = GRADIENT_STOPS,
     .wrong = mix_labels,
     .message = "mix_batch: labels [2] i32 must be i32 [3] to match [3, 2, 2, 1] f32"},

    // Shapes, sums, losses
    {.op = "reshape",
     .build = reshape,
     .inputs = 1,
     .info = {F64(3, 1, 2, 3)},
     .in = {{1, 2, 3, 4, 5, 6}},
     .want = {1, 2, 3, 4, 5, 6},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = reshape_count,
     .message = "reshape: x [2, 3] f32 has 6 elements and does not fit the shape [7] f32"},
    {.op = "reshape",
     .build = flatten,
     .inputs = 1,
     .info = {F64(4, 2, 1, 2, 2)},
     .gradient = GRADIENT_TWICE},
    {.op = "stop_gradient",
     .build = stop_gradient,
     .inputs = 1,
     .info = {F64(2, 1, 2)},
     .in = {{3, -4}},
     .want = {3, -4},
     .want_count = 2,
     .gradient = GRADIENT_STOPS,
     .wrong = stop_of_integers,
     .message = "stop_gradient: x [3] i32"},
    {.op = "reduce_sum",
     .build = reduce_sum,
     .inputs = 1,
     .info = {F64(2, 1, 3)},
     .in = {{1, 2, -7}},
     .want = {-4},
     .want_count = 1,
     .gradient = GRADIENT_TWICE,
     .wrong = sum_of_integers,
     .message = "reduce_sum: x [3] i32"},
    {.op = "softmax_xent",
     .build = xent,
     .inputs = 2,
     .info = {F64(2, 3, 2), I32(3)},
     .in = {{0, 0, 1, 0, 5, 5}, {1, 0, -1}},
     .want = {0.6931471805599453, 0.31326168751822286, 0},
     .want_count = 3,
     .gradient = GRADIENT_ONCE,
     .wrong = xent_labels,
     .message = "softmax_xent: labels [4] i32 must be i32 [3]"},
    {.op = "softmax_xent",
     .build = xent_smooth,
     .inputs = 2,
     .info = {F64(2, 3, 4), I32(3)},
     .in = {{0}, {1, -1, 3}},
     .gradient = GRADIENT_ONCE,
     .low = -3,
     .high = 3},
    {.op = "softmax_xent_grad",
     .build = xent,
     .wrt = 1,
     .inputs = 3,
     .info = {F64(2, 2, 2), I32(2), F64(1, 2)},
     .params = 4,
     .in = {{0, 0, 3, 4}, {1, -1}, {2, 1}},
     .want = {1, -1, 0, 0},
     .want_count = 4,
     .gradient = GRADIENT_NONE,
     .wrong = xent_grad_loss,
     .message = "softmax_xent_grad: dloss is [4] f32, expected [3] f32"},
    {.op = "topk_hits",
     .build = hits,
     .inputs = 2,
     .info = {F64(2, 2, 6), I32(2)},
     .in = {{9, 1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5}, {0, 2}},
     .want = {1, 2},
     .want_count = 2,
     .gradient = GRADIENT_STOPS,
     .wrong = hits_labels,
     .message = "topk_hits: labels [3] f32"},
};
const size_t op_cases_math_count = sizeof op_cases_math / sizeof op_cases_math[0];

// ---- Updates ----

static const sr_info pair = {.dtype = SR_F32, .rank = 1, .dim = {2}};
static const sr_info eight = {.dtype = SR_F32, .rank = 1, .dim = {8}};

static void expect_pair(sr_tensor variable, float first, float second) {
    float got[2];
    assert_ok(sr_read(variable, got, sizeof got));
    assert_true(got[0] == first && got[1] == second);
}

// g' = 2 g + 0.5 p; m = 0.5 m + g'; p -= 0.25 m
static void run_sgd(void) {
    sr_context *context;
    assert_ok(sr_context_create(NULL, &context));
    sr_context_begin_step(context);
    const float p0[2] = {2, -4}, m0[2] = {8, 0}, g[2] = {1, 1};
    const float hyper[8] = {0.25f, 0.5f, 0.5f, 0, 2, 0, 0, 0};
    sr_tensor p = sr_variable(context, "p", &pair, p0), m = sr_variable(context, "m", &pair, m0);
    sr_sgd_update(p, m, sr_constant(context, &pair, g), sr_constant(context, &eight, hyper));
    assert_ok(sr_context_run(context));
    expect_pair(m, 7, 0);
    expect_pair(p, 0.25f, -4);
    sr_context_free(context);
}

static void run_ema(void) {
    sr_context *context;
    assert_ok(sr_context_create(NULL, &context));
    sr_context_begin_step(context);
    const float e0[2] = {2, -4}, p0[2] = {4, 4}, hyper[8] = {0.75f, 0.5f, 0.5f};
    sr_tensor e = sr_variable(context, "e", &pair, e0), p = sr_variable(context, "p", &pair, p0);
    sr_ema_update(e, p, sr_constant(context, &eight, hyper));
    assert_ok(sr_context_run(context));
    expect_pair(e, 2.5f, -2);
    expect_pair(p, 4, 4);
    sr_context_free(context);
}

static void sgd_shapes(sr_context *context) {
    sr_tensor p = sr_variable(context, "p", &pair, NULL),
              m = sr_variable(context, "m", &pair, NULL);
    sr_sgd_update(p, m, ZEROS(SR_F32, 1, 3), ZEROS(SR_F32, 1, 8));
}

static void ema_hyper(sr_context *context) {
    sr_tensor e = sr_variable(context, "e", &pair, NULL),
              p = sr_variable(context, "p", &pair, NULL);
    sr_ema_update(e, p, ZEROS(SR_F32, 1, 2));
}

const op_update_case op_update_cases[] = {
    {"sgd", run_sgd, sgd_shapes, "sgd: inputs [2] f32 and [3] f32"},
    {"ema", run_ema, ema_hyper, "ema: hyper [2] f32 must be f32 [8]"},
};
const size_t op_update_case_count = sizeof op_update_cases / sizeof op_update_cases[0];
