// SPDX-License-Identifier: Apache-2.0
// A missing tensor is an error of the call that receives it: every operator of the table with every
// required input missing, and every public call whose name is a macro that records its line.
#include "autograd/gradients.h"
#include "graph/recording_internal.h"
#include "tests/unit/support/test_support.h"
#include "trainer/models/model.h"

static const sr_info four = {.dtype = SR_F32, .rank = 1, .dim = {4}};

static sr_context *context_new(void) {
    sr_context *context;
    assert_ok(sr_context_create(NULL, &context));
    sr_context_begin_step(context);
    return context;
}

static void expect_missing(sr_context *context, const char *place, const char *what) {
    char text[128];
    assert_status(SR_E_ARGUMENT, sr_context_status(context));
    (void)snprintf(text, sizeof text, "%s", place);
    assert_message(text);
    (void)snprintf(text, sizeof text, "%s: a tensor is missing", what);
    assert_message(text);
    sr_context_begin_step(context);
}

// ---- Operators ----

// The inputs in the mask 'missing' are SR_NONE, the others a variable, which passes the check for
// presence of every input.
static void record_without(sr_context *context, const sr_op *op, uint32_t missing) {
    static const unsigned char attr[SR_OP_ATTR_BYTES];
    sr_tensor input[SR_OP_MAX_INPUTS], output[SR_OP_MAX_OUTPUTS];
    const sr_tensor variable = sr_variable(context, "v", &four, NULL);
    for (int i = 0; i < op->inputs; i++)
        input[i] = (missing >> i & 1) ? SR_NONE : variable;
    const size_t nodes = context->recording.node_count;
    sr_at("model.c", 7);
    sr_op_record(op, attr, input, output);
    assert_int_equal(nodes, context->recording.node_count);
    for (int i = 0; i < op->outputs; i++)
        assert_true(sr_is_none(output[i]));
}

static void test_every_operator_needs_its_inputs(void **state) {
    (void)state;
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    sr_context *context = context_new();
    for (size_t o = 0; o < count; o++) {
        for (int i = 0; i < ops[o]->required; i++) {
            char what[64];
            (void)snprintf(what, sizeof what, "%s: %s", ops[o]->name, ops[o]->input_name[i]);
            record_without(context, ops[o], 1u << i);
            expect_missing(context, "model.c:7: ", what);
        }
        char first[64];
        (void)snprintf(first, sizeof first, "%s: %s", ops[o]->name, ops[o]->input_name[0]);
        record_without(context, ops[o], UINT32_MAX);
        expect_missing(context, "model.c:7: ", first);
    }
    sr_context_free(context);
}

// ---- Public calls ----

typedef struct arguments {
    sr_context *context;
    sr_tensor some; // f32 [4], a variable
} arguments;

typedef struct missing_call {
    const char *name; // of the function
    const char *what; // in the message
    void (*make)(const arguments *a);
} missing_call;

#define CALL(label, expression)                                                                    \
    static void label(const arguments *a) {                                                        \
        (void)a;                                                                                   \
        (void)(expression);                                                                        \
    }
#define DOES(label, statement)                                                                     \
    static void label(const arguments *a) {                                                        \
        (void)a;                                                                                   \
        statement;                                                                                 \
    }

static float untouched = 3;
static const int64_t dims[1] = {4};
static const double ones[4] = {1, 1, 1, 1};

CALL(conv, sr_conv2d(SR_NONE, a->some, (sr_conv2d_opts){0}))
CALL(conv_w, sr_conv2d(a->some, SR_NONE, (sr_conv2d_opts){0}))
CALL(conv_bias, sr_conv2d_bias(SR_NONE, SR_NONE, SR_NONE, (sr_conv2d_opts){0}))
CALL(transposed, sr_conv2d_transpose(SR_NONE, a->some, (sr_conv2d_opts){0}, 0))
CALL(transposed_w, sr_conv2d_transpose(a->some, SR_NONE, (sr_conv2d_opts){0}, 0))
CALL(linear, sr_linear(SR_NONE, a->some, SR_NONE))
CALL(matmul, sr_matmul(a->some, SR_NONE, (sr_matmul_opts){0}))
CALL(bias_add, sr_bias_add(a->some, SR_NONE))
CALL(channel_sum, sr_channel_sum(SR_NONE))
CALL(channel_dot, sr_channel_dot(a->some, SR_NONE, SR_NONE))
CALL(norm_train, sr_batchnorm_train(SR_NONE, SR_NONE, SR_NONE, 0).y)
CALL(norm_infer, sr_batchnorm_infer(SR_NONE, SR_NONE, SR_NONE, SR_NONE, SR_NONE, 0))
CALL(norm_group, sr_batchnorm_group(SR_NONE, SR_NONE, SR_NONE, 0, 2).y)
CALL(lane_sum, sr_lane_sum(SR_NONE, 1))
CALL(layer_norm, sr_layer_norm(SR_NONE, a->some, a->some, 0))
CALL(rms_norm, sr_rms_norm(SR_NONE, SR_NONE, 0))
CALL(group_norm, sr_group_norm(SR_NONE, 1, SR_NONE, SR_NONE, 0))
CALL(instance_norm, sr_instance_norm(SR_NONE, SR_NONE, SR_NONE, 0))
CALL(relu, sr_relu(SR_NONE))
CALL(gelu, sr_gelu(SR_NONE))
CALL(leaky, sr_leaky_relu(SR_NONE, 0.1))
CALL(tanh_of, sr_tanh_op(SR_NONE))
CALL(sigmoid, sr_sigmoid(SR_NONE))
CALL(softplus, sr_softplus(SR_NONE))
CALL(silu, sr_silu(SR_NONE))
CALL(square, sr_square(SR_NONE))
CALL(exp_of, sr_exp_op(SR_NONE))
CALL(gelu_tanh, sr_gelu_tanh(SR_NONE))
CALL(mish, sr_mish(SR_NONE))
CALL(hard_sigmoid, sr_hard_sigmoid(SR_NONE))
CALL(hard_swish, sr_hard_swish(SR_NONE))
CALL(elu, sr_elu(SR_NONE, 1))
CALL(prelu, sr_prelu(a->some, SR_NONE))
CALL(absolute, sr_abs(SR_NONE))
CALL(root, sr_sqrt(SR_NONE))
CALL(inverse_root, sr_rsqrt(SR_NONE))
CALL(reciprocal, sr_reciprocal(SR_NONE))
CALL(power, sr_power(SR_NONE, 2))
CALL(log_of, sr_log_op(SR_NONE))
CALL(sin_of, sr_sin_op(SR_NONE))
CALL(atan_of, sr_atan_op(SR_NONE))
CALL(cos_of, sr_cos_op(SR_NONE))
CALL(erf_of, sr_erf_op(SR_NONE))
CALL(clip, sr_clip(SR_NONE, 0, 1))
CALL(pow_of, sr_pow_op(a->some, SR_NONE))
CALL(maximum, sr_maximum(SR_NONE, a->some))
CALL(minimum, sr_minimum(a->some, SR_NONE))
CALL(greater, sr_greater(SR_NONE, SR_NONE))
CALL(equal, sr_equal(a->some, SR_NONE))
CALL(where, sr_where(a->some, SR_NONE, a->some))
CALL(add, sr_add(a->some, SR_NONE))
CALL(sub, sr_sub(SR_NONE, a->some))
CALL(mul, sr_mul(SR_NONE, SR_NONE))
CALL(divide, sr_div(SR_NONE, SR_NONE))
CALL(scale, sr_scale(SR_NONE, 1, 0))
CALL(scale_by, sr_scale_by(a->some, SR_NONE))
CALL(fill_by, sr_fill_by(SR_NONE, SR_F32, 1, dims))
CALL(cast, sr_cast(SR_NONE, SR_F32))
CALL(normalize, sr_normalize(SR_NONE, ones, ones, SR_F32))
CALL(dropout, sr_dropout(a->some, SR_NONE, 0.5, 0))
CALL(drop_path, sr_drop_path(SR_NONE, a->some, 0.5, 0))
CALL(random_normal, sr_random_normal(SR_NONE, SR_F32, 1, dims, 0))
CALL(mix, sr_mix_batch(a->some, SR_NONE, SR_NONE, (sr_mix_opts){0}).x)
CALL(maxpool, sr_maxpool2d(SR_NONE, (sr_pool2d_opts){.window = 2}))
CALL(avgpool, sr_avgpool2d(SR_NONE, (sr_pool2d_opts){.window = 2}))
CALL(adaptive, sr_adaptive_avgpool2d(SR_NONE, 2, 2))
CALL(adaptive_max, sr_adaptive_maxpool2d(SR_NONE, 2, 2))
CALL(global_avg, sr_global_avgpool(SR_NONE))
CALL(global_max, sr_global_maxpool(SR_NONE))
CALL(upsample, sr_upsample2d(SR_NONE, 2))
CALL(resize, sr_resize2d(SR_NONE, (sr_resize2d_opts){.scale = 2}))
CALL(gather_sum, sr_gather_sum(a->some, SR_NONE, a->some))
CALL(sample, sr_grid_sample(SR_NONE, a->some, (sr_grid_sample_opts){0}))
CALL(sample_grid, sr_grid_sample(a->some, SR_NONE, (sr_grid_sample_opts){0}))
CALL(deform, sr_deform_conv2d(SR_NONE, a->some, SR_NONE, a->some, SR_NONE, (sr_conv2d_opts){0}))
CALL(deform_w, sr_deform_conv2d(a->some, a->some, SR_NONE, SR_NONE, SR_NONE, (sr_conv2d_opts){0}))
CALL(upfirdn, sr_upfirdn2d(a->some, SR_NONE, (sr_upfirdn2d_opts){0}))
CALL(iou, sr_box_iou(a->some, SR_NONE))
CALL(kept, sr_nms(SR_NONE, a->some, SR_NONE, (sr_nms_opts){0}).index)
CALL(kept_scores, sr_nms(a->some, SR_NONE, SR_NONE, (sr_nms_opts){0}).count)
CALL(align, sr_roi_align(a->some, SR_NONE, a->some, (sr_roi_align_opts){.height = 1}))
CALL(stop_gradient, sr_stop_gradient(SR_NONE))
CALL(reshape, sr_reshape(SR_NONE, 1, dims))
CALL(flatten, sr_flatten(SR_NONE))
CALL(permute, sr_permute(SR_NONE, NULL))
CALL(slice, sr_slice(SR_NONE, 0, 0, 1, 1))
CALL(flip, sr_flip(SR_NONE, 0))
CALL(pad, sr_pad(SR_NONE, NULL, NULL))
CALL(concat, sr_concat((sr_tensor[]){a->some, SR_NONE}, 2, 0))
CALL(concat_one, sr_concat((sr_tensor[]){SR_NONE}, 1, 0))
CALL(stack, sr_stack((sr_tensor[]){SR_NONE}, 1, 0))
DOES(split, sr_tensor part[2]; sr_split(SR_NONE, 0, 2, NULL, part);
     assert_true(sr_is_none(part[0])))
CALL(roll, sr_roll(SR_NONE, 0, 1))
CALL(transpose, sr_transpose(SR_NONE, 0, 1))
CALL(gather, sr_gather(a->some, SR_NONE, 0))
CALL(index_select, sr_index_select(SR_NONE, a->some, 0))
CALL(embedding, sr_embedding(a->some, SR_NONE, SR_F32))
CALL(scatter_add, sr_scatter_add(SR_NONE, a->some, 0, 1))
CALL(pad2d, sr_pad2d(SR_NONE, (sr_pad2d_opts){0}))
CALL(pixel_shuffle, sr_pixel_shuffle(SR_NONE, 2))
CALL(pixel_unshuffle, sr_pixel_unshuffle(SR_NONE, 2))
CALL(reduce, sr_reduce_sum(SR_NONE))
CALL(xent, sr_softmax_cross_entropy(a->some, SR_NONE, 0))
CALL(max_over, sr_max_over(SR_NONE, 0, false).value)
CALL(min_over, sr_min_over(SR_NONE, 0, true).index)
CALL(argmax, sr_argmax(SR_NONE, 0, false))
CALL(argmin, sr_argmin(SR_NONE, 0, false))
CALL(one_hot, sr_one_hot(SR_NONE, 2, SR_F32))
CALL(topk, sr_topk(SR_NONE, 1, false).value)
CALL(sort, sr_sort(SR_NONE, false).value)
CALL(argsort, sr_argsort(SR_NONE, true))
CALL(sum, sr_sum(SR_NONE, (sr_axes){0}))
CALL(mean, sr_mean(SR_NONE, (sr_axes){0}))
CALL(variance, sr_var(SR_NONE, (sr_axes){0}, 1))
CALL(norm, sr_norm(SR_NONE, (sr_axes){0}, 2))
CALL(logsumexp, sr_logsumexp(SR_NONE, (sr_axes){0}))
CALL(softmax, sr_softmax(SR_NONE, 0))
CALL(log_softmax, sr_log_softmax(SR_NONE, 0))
CALL(attention, sr_attention(a->some, a->some, SR_NONE, SR_NONE, (sr_attention_opts){0}))
CALL(hits, sr_topk_hits(SR_NONE, SR_NONE))
CALL(bce, sr_bce_with_logits(SR_NONE, 0.5))
DOES(sgd, sr_sgd_update(a->some, a->some, SR_NONE, a->some))
DOES(ema, sr_ema_update(a->some, SR_NONE, a->some))
DOES(move, sr_variable_move(SR_NONE, (sr_address){1}))
CALL(memory, sr_variable_memory(SR_NONE))
CALL(name_of, sr_variable_name(SR_NONE))
DOES(write_to, assert_status(SR_E_ARGUMENT, sr_variable_write(SR_NONE, &untouched)))
DOES(assign, sr_variable_assign(SR_NONE, a->some))
DOES(assign_value, sr_variable_assign(a->some, SR_NONE))
DOES(read_now, assert_status(SR_E_ARGUMENT, sr_read(SR_NONE, &untouched, sizeof untouched)))
DOES(read_later, sr_read_later(SR_NONE, &untouched, sizeof untouched))
DOES(keep, sr_keep(SR_NONE))
DOES(info_of, sr_info info; assert_false(sr_tensor_info(SR_NONE, &info)))
DOES(compile, sr_plan *plan;
     assert_status(SR_E_ARGUMENT,
                   sr_compile(a->context, &(sr_target){.tensor = SR_NONE}, 1, &plan)))
DOES(compile_lanes, sr_plan *plan;
     assert_status(SR_E_ARGUMENT,
                   sr_compile_lanes(a->context, &(sr_target){.tensor = SR_NONE}, 1, 1, &plan)))
DOES(gradients_y, sr_tensor g; sr_gradients(SR_NONE, SR_NONE, &a->some, 1, &g);
     assert_true(sr_is_none(g)))
DOES(gradients_x, sr_tensor xs[2] = {a->some}; sr_tensor g[2];
     sr_gradients(a->some, SR_NONE, xs, 2, g); assert_true(sr_is_none(g[0]) && sr_is_none(g[1])))
DOES(statistic, sr_forward forward = {.context = a->context};
     sr_forward_statistic(&forward, a->some, SR_NONE))
DOES(auxiliary, sr_forward forward = {.context = a->context};
     sr_forward_auxiliary(&forward, "aux", SR_NONE, 0.3))
DOES(output, sr_forward forward = {.context = a->context};
     sr_forward_output(&forward, "logits", SR_NONE))

static const missing_call calls[] = {
    {"sr_conv2d", "conv2d: x", conv},
    {"sr_conv2d", "conv2d: w", conv_w},
    {"sr_conv2d_bias", "conv2d: x", conv_bias},
    {"sr_conv2d_transpose", "conv2d_transpose: x", transposed},
    {"sr_conv2d_transpose", "conv2d_transpose: w", transposed_w},
    {"sr_linear", "linear: x", linear},
    {"sr_matmul", "matmul: b", matmul},
    {"sr_bias_add", "bias_add: b", bias_add},
    {"sr_channel_sum", "channel_sum: x", channel_sum},
    {"sr_channel_dot", "channel_dot: b", channel_dot},
    {"sr_batchnorm_train", "batchnorm_train: x", norm_train},
    {"sr_batchnorm_infer", "batchnorm_infer: x", norm_infer},
    {"sr_batchnorm_group", "batchnorm_moments: x", norm_group},
    {"sr_lane_sum", "lane_sum: x", lane_sum},
    {"sr_layer_norm", "groupnorm: x", layer_norm},
    {"sr_rms_norm", "groupnorm: x", rms_norm},
    {"sr_group_norm", "groupnorm: x", group_norm},
    {"sr_instance_norm", "instance_norm: x", instance_norm},
    {"sr_relu", "relu: x", relu},
    {"sr_gelu", "gelu: x", gelu},
    {"sr_leaky_relu", "leaky_relu: x", leaky},
    {"sr_tanh_op", "tanh: x", tanh_of},
    {"sr_sigmoid", "sigmoid: x", sigmoid},
    {"sr_softplus", "softplus: x", softplus},
    {"sr_silu", "silu: x", silu},
    {"sr_square", "square: x", square},
    {"sr_exp_op", "exp: x", exp_of},
    {"sr_gelu_tanh", "gelu_tanh: x", gelu_tanh},
    {"sr_mish", "mish: x", mish},
    {"sr_hard_sigmoid", "hard_sigmoid: x", hard_sigmoid},
    {"sr_hard_swish", "hard_swish: x", hard_swish},
    {"sr_elu", "elu: x", elu},
    {"sr_prelu", "prelu: slope", prelu},
    {"sr_abs", "abs: x", absolute},
    {"sr_sqrt", "sqrt: x", root},
    {"sr_rsqrt", "rsqrt: x", inverse_root},
    {"sr_reciprocal", "reciprocal: x", reciprocal},
    {"sr_power", "power: x", power},
    {"sr_log_op", "log: x", log_of},
    {"sr_sin_op", "sin: x", sin_of},
    {"sr_cos_op", "cos: x", cos_of},
    {"sr_atan_op", "atan: x", atan_of},
    {"sr_erf_op", "erf: x", erf_of},
    {"sr_clip", "clip: x", clip},
    {"sr_pow_op", "pow: b", pow_of},
    {"sr_maximum", "maximum: a", maximum},
    {"sr_minimum", "minimum: b", minimum},
    {"sr_greater", "greater: a", greater},
    {"sr_equal", "equal: b", equal},
    {"sr_where", "where: a", where},
    {"sr_add", "add: b", add},
    {"sr_sub", "sub: a", sub},
    {"sr_mul", "mul: a", mul},
    {"sr_div", "div: a", divide},
    {"sr_scale", "scale: x", scale},
    {"sr_scale_by", "scale_by: scalar", scale_by},
    {"sr_fill_by", "fill_by: scalar", fill_by},
    {"sr_cast", "cast: x", cast},
    {"sr_normalize", "normalize: x", normalize},
    {"sr_dropout", "dropout: key", dropout},
    {"sr_drop_path", "drop_path: x", drop_path},
    {"sr_random_normal", "random_normal: key", random_normal},
    {"sr_mix_batch", "mix_batch: labels", mix},
    {"sr_maxpool2d", "maxpool2d: x", maxpool},
    {"sr_avgpool2d", "avgpool2d: x", avgpool},
    {"sr_adaptive_avgpool2d", "adaptive_avgpool2d: x", adaptive},
    {"sr_adaptive_maxpool2d", "adaptive_maxpool2d: x", adaptive_max},
    {"sr_global_avgpool", "global_avgpool: x", global_avg},
    {"sr_global_maxpool", "global_maxpool: x", global_max},
    {"sr_upsample2d", "upsample2d: x", upsample},
    {"sr_resize2d", "resize2d: x", resize},
    {"sr_gather_sum", "gather_sum: index", gather_sum},
    {"sr_grid_sample", "grid_sample: x", sample},
    {"sr_grid_sample", "grid_sample: grid", sample_grid},
    {"sr_deform_conv2d", "deform_conv2d: x", deform},
    {"sr_deform_conv2d", "deform_conv2d: w", deform_w},
    {"sr_upfirdn2d", "upfirdn2d: filter", upfirdn},
    {"sr_box_iou", "box_iou: b", iou},
    {"sr_nms", "nms: boxes", kept},
    {"sr_nms", "nms: scores", kept_scores},
    {"sr_roi_align", "roi_align: boxes", align},
    {"sr_stop_gradient", "stop_gradient: x", stop_gradient},
    {"sr_reshape", "reshape: x", reshape},
    {"sr_flatten", "flatten: x", flatten},
    {"sr_permute", "permute: x", permute},
    {"sr_slice", "slice: x", slice},
    {"sr_flip", "flip: x", flip},
    {"sr_pad", "pad: x", pad},
    {"sr_concat", "concat: x[1]", concat},
    {"sr_concat", "concat: x[0]", concat_one},
    {"sr_stack", "stack: x[0]", stack},
    {"sr_split", "split: x", split},
    {"sr_roll", "roll: x", roll},
    {"sr_transpose", "transpose: x", transpose},
    {"sr_gather", "gather: index", gather},
    {"sr_index_select", "index_select: x", index_select},
    {"sr_embedding", "embedding: index", embedding},
    {"sr_scatter_add", "scatter_add: x", scatter_add},
    {"sr_pad2d", "pad2d: x", pad2d},
    {"sr_pixel_shuffle", "pixel_shuffle: x", pixel_shuffle},
    {"sr_pixel_unshuffle", "pixel_unshuffle: x", pixel_unshuffle},
    {"sr_reduce_sum", "reduce_sum: x", reduce},
    {"sr_softmax_cross_entropy", "softmax_xent: labels", xent},
    {"sr_max_over", "max_over: x", max_over},
    {"sr_min_over", "min_over: x", min_over},
    {"sr_argmax", "argmax: x", argmax},
    {"sr_argmin", "argmin: x", argmin},
    {"sr_one_hot", "one_hot: index", one_hot},
    {"sr_topk", "sort_rows: x", topk},
    {"sr_sort", "sort: x", sort},
    {"sr_argsort", "sort: x", argsort},
    {"sr_sum", "sum: x", sum},
    {"sr_mean", "mean: x", mean},
    {"sr_var", "var: x", variance},
    {"sr_norm", "norm: x", norm},
    {"sr_logsumexp", "logsumexp: x", logsumexp},
    {"sr_softmax", "softmax: x", softmax},
    {"sr_log_softmax", "log_softmax: x", log_softmax},
    {"sr_attention", "attention: v", attention},
    {"sr_topk_hits", "topk_hits: logits", hits},
    {"sr_bce_with_logits", "bce_with_logits: x", bce},
    {"sr_sgd_update", "sgd: g", sgd},
    {"sr_ema_update", "ema: p", ema},
    {"sr_variable_move", "sr_variable_move", move},
    {"sr_variable_memory", "sr_variable_memory", memory},
    {"sr_variable_name", "sr_variable_name", name_of},
    {"sr_variable_write", "sr_variable_write", write_to},
    {"sr_variable_assign", "sr_variable_assign: variable", assign},
    {"sr_variable_assign", "sr_variable_assign: value", assign_value},
    {"sr_read", "sr_read", read_now},
    {"sr_read_later", "sr_read_later", read_later},
    {"sr_keep", "sr_keep", keep},
    {"sr_tensor_info", "sr_tensor_info", info_of},
    {"sr_compile", "sr_compile: targets[0]", compile},
    {"sr_compile_lanes", "sr_compile: targets[0]", compile_lanes},
    {"sr_gradients", "sr_gradients: y", gradients_y},
    {"sr_gradients", "sr_gradients: xs[1]", gradients_x},
    {"sr_forward_statistic", "sr_forward_statistic: value", statistic},
    {"sr_forward_auxiliary", "sr_forward_auxiliary: tensor", auxiliary},
    {"sr_forward_output", "sr_forward_output: tensor", output},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

static void test_every_call_needs_its_tensors(void **state) {
    (void)state;
    sr_context *context = context_new();
    for (size_t i = 0; i < CALLS; i++) {
        const arguments a = {context, sr_variable(context, "v", &four, NULL)};
        calls[i].make(&a);
        expect_missing(context, "test_missing.c:", calls[i].what);
        assert_ok(sr_context_run(context));
        assert_true(untouched == 3);
    }
    sr_context_free(context);
}

static void expect_case(const char *header, const char *name) {
    bool found = false;
    for (size_t i = 0; i < CALLS; i++)
        found = found || strcmp(calls[i].name, name) == 0;
    if (!found)
        fail_msg("%s of %s has no case here", name, header);
}

static void test_every_macro_has_a_case(void **state) {
    (void)state;
    static const char *const headers[] = {"graph/ops.h", "graph/context.h", "autograd/gradients.h",
                                          "trainer/models/model.h"};
    int found = 0;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        FILE *file = fopen(headers[i], "r");
        char line[256], name[64];
        assert_non_null(file);
        while (fgets(line, sizeof line, file)) {
            if (sscanf(line, "#define %63[a-z0-9_](...)", name) != 1)
                continue;
            found++;
            expect_case(headers[i], name);
        }
        assert_int_equal(0, fclose(file));
    }
    assert_true(found > 50);
}

// ---- Which context gets the error ----

// The tensor of a failed call blames its own context wherever it is used; other contexts get no
// error.
static void test_a_failed_call_blames_its_own_context(void **state) {
    (void)state;
    sr_context *first = context_new(), *second = context_new();
    sr_tensor x = sr_variable(first, "x", &four, NULL), y = sr_variable(second, "y", &four, NULL);
    const int64_t wrong[1] = {5};
    sr_tensor failed = sr_reshape(x, 1, wrong);
    (void)sr_relu(y);
    assert_true(sr_is_none(failed) && sr_is_none(sr_relu(failed)));
    assert_ok(sr_context_status(second));
    assert_status(SR_E_SHAPE, sr_context_status(first));
    // In a later step it is not a valid tensor, nor does it count as an absent optional one.
    sr_context_begin_step(first);
    (void)sr_batchnorm_train(x, failed, SR_NONE, 0);
    expect_missing(first, "test_missing.c:", "batchnorm_train: gamma");
    sr_tensor grad;
    sr_gradients(sr_relu(x), failed, &x, 1, &grad);
    expect_missing(first, "test_missing.c:", "sr_gradients: dy");
    sr_context_free(first);
    sr_context_free(second);
}

static void test_without_a_context_the_thread_gets_the_error(void **state) {
    (void)state;
    sr_context_free(context_new());
    float value = 3;
    assert_true(sr_is_none(sr_relu(SR_NONE)));
    assert_message("relu: x: a tensor is missing");
    assert_status(SR_E_ARGUMENT, sr_read(SR_NONE, &value, sizeof value));
    assert_message("sr_read: a tensor is missing");
    assert_true(value == 3);
}

// ---- Gradients that do not flow ----

static void expect_zeros(sr_tensor tensor) {
    float got[4] = {1, 1, 1, 1};
    static const float zeros[4];
    assert_ok(sr_read(tensor, got, sizeof got));
    assert_memory_equal(zeros, got, sizeof got);
}

static void test_unreachable_gradients_are_zeros(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_tensor xs[2] = {sr_variable(context, "a", &four, NULL),
                       sr_variable(context, "b", &four, NULL)};
    sr_tensor grads[2];
    sr_gradients(sr_scale(xs[0], 3, 1), SR_NONE, xs, 2, grads);
    float got[4];
    assert_ok(sr_read(grads[0], got, sizeof got));
    assert_true(got[0] == 3 && got[3] == 3);
    expect_zeros(grads[1]);
    // After an operator that stops gradients; and the gradient of a gradient that is a constant.
    const int64_t row[2] = {1, 4};
    const int32_t label = 0;
    const sr_info one = {.dtype = SR_I32, .rank = 1, .dim = {1}};
    sr_gradients(sr_topk_hits(sr_reshape(xs[0], 2, row), sr_constant(context, &one, &label)),
                 SR_NONE, xs, 1, &grads[1]);
    expect_zeros(grads[1]);
    sr_gradients(grads[0], SR_NONE, xs, 1, &grads[1]);
    expect_zeros(grads[1]);
    sr_context_free(context);
}

static void test_integers_have_no_gradient(void **state) {
    (void)state;
    sr_context *context = context_new();
    const sr_info integers = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    const int32_t values[4] = {0};
    sr_tensor n = sr_constant(context, &integers, values), grad;
    sr_gradients(sr_cast(n, SR_F32), SR_NONE, &n, 1, &grad);
    assert_status(SR_E_ARGUMENT, sr_context_status(context));
    assert_message("test_missing.c:");
    assert_message("sr_gradients: xs[0] is [4] i32: only floats have gradients");
    sr_context_begin_step(context);
    n = sr_constant(context, &integers, values);
    sr_gradients(n, SR_NONE, &n, 1, &grad);
    assert_message("only floats have gradients");
    assert_status(SR_E_ARGUMENT, sr_context_status(context));
    sr_context_free(context);
}

// The probabilities that softmax_xent keeps for its rule have no derivative rule.
static void test_hidden_outputs_are_refused(void **state) {
    (void)state;
    sr_context *context = context_new();
    const sr_info rows = {.dtype = SR_F32, .rank = 2, .dim = {1, 4}};
    const sr_info one = {.dtype = SR_I32, .rank = 1, .dim = {1}};
    const int32_t label = 0;
    const double smoothing = 0;
    sr_tensor x = sr_variable(context, "x", &rows, NULL), grad, out[2];
    sr_op_record(sr_op_find("softmax_xent"), &smoothing,
                 (sr_tensor[]){x, sr_constant(context, &one, &label)}, out);
    sr_gradients(out[1], SR_NONE, &x, 1, &grad);
    assert_status(SR_E_UNSUPPORTED, sr_context_status(context));
    assert_message("output 1 of softmax_xent has no derivative rule");
    sr_context_free(context);
}

// ---- Transposed convolution ----

static void expect_output_pad(sr_context *context, int stride, int pad, int output_pad,
                              const char *message) {
    const sr_info image = {.dtype = SR_F32, .rank = 4, .dim = {1, 2, 2, 1}};
    const sr_info filter = {.dtype = SR_F32, .rank = 4, .dim = {1, 1, 1, 1}};
    sr_context_begin_step(context);
    sr_tensor x = sr_input(context, 0, &image), w = sr_input(context, 1, &filter);
    (void)sr_conv2d_transpose(x, w, (sr_conv2d_opts){.stride = stride, .pad = pad}, output_pad);
    assert_status(SR_E_SHAPE, sr_context_status(context));
    assert_message("test_missing.c:");
    assert_message("conv2d_transpose: ");
    assert_message(message);
}

static void test_output_pad_is_named(void **state) {
    (void)state;
    sr_context *context = context_new();
    expect_output_pad(context, 2, 0, 2, "output_pad 2 must be at least 0 and less than the stride");
    expect_output_pad(context, 1, 0, -1, "output_pad -1");
    expect_output_pad(context, 2, 2, 1, "with pad 2x2 and output_pad 1 give 0 x 0 pixels");
    sr_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator_needs_its_inputs),
        cmocka_unit_test(test_every_call_needs_its_tensors),
        cmocka_unit_test(test_every_macro_has_a_case),
        cmocka_unit_test(test_a_failed_call_blames_its_own_context),
        cmocka_unit_test(test_without_a_context_the_thread_gets_the_error),
        cmocka_unit_test(test_unreachable_gradients_are_zeros),
        cmocka_unit_test(test_integers_have_no_gradient),
        cmocka_unit_test(test_hidden_outputs_are_refused),
        cmocka_unit_test(test_output_pad_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
