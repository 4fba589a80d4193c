// SPDX-License-Identifier: Apache-2.0
// The expression operator: each row of kernels/expression_list.def is an operator, whose shapes,
// kernel, derivative and public call are made here.
//
// Shapes broadcast as in numpy: dimensions are aligned at the last one, and one of extent 1 is
// repeated. A gradient is summed over the repeats of its input by sum_to, whose own gradient is the
// row 'expand'; one that is a product is formed there, so that no term is rounded. bce_with_logits,
// which consists of rows, is here, too.
#include <math.h>
#include <string.h>

#include "graph/ops/op_internal.h"

// ---- Shapes ----

// Broadcasts the shape of 'out' with that of 'in'; false where they do not broadcast.
static bool join_shapes(sr_info *out, const sr_info *in) {
    sr_info joined = in->rank > out->rank ? *in : *out;
    const int least = in->rank < out->rank ? in->rank : out->rank;
    for (int i = 1; i <= least; i++) {
        const int64_t a = out->dim[out->rank - i], b = in->dim[in->rank - i];
        if (a != b && a != 1 && b != 1)
            return false;
        joined.dim[joined.rank - i] = a == 1 ? b : a;
    }
    *out = joined;
    return true;
}

static sr_status infer(const sr_node_view *node, sr_kernel_id kernel, sr_info *out) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    SR_TRY(sr_op_expect_activation(node, 0, "input", -1));
    out[0] = node->in[0];
    for (int i = 1; i < node->inputs; i++) {
        const sr_info *in = &node->in[i];
        if (arguments[i].type == SR_ARG_P) {
            SR_TRY(sr_op_expect_scalar(node, i, node->in[0].dtype));
        } else if (in->dtype != out->dtype || !join_shapes(&out[0], in)) {
            char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
            return SR_FAIL(SR_E_SHAPE,
                           "%s: inputs %s and %s must have equal dtypes, and equal shapes or "
                           "dimensions of 1 where they differ",
                           node->op->name, sr_info_text(&node->in[0], left),
                           sr_info_text(in, right));
        }
    }
    return SR_OK;
}

// The numbers of a formula: k[0], k[1].
static const sr_attr_field numbers[] = {{"k", SR_ATTR_F64, 0, 0, -HUGE_VAL, HUGE_VAL}, {0}};

// ---- Kernel ----

// Bit i: input i is repeated along dimension d of the output. Numbers (SR_ARG_P) never are.
static unsigned repeats_along(const sr_node_view *node, const sr_kernel_argument *arguments,
                              int d) {
    const sr_info *out = &node->out[0];
    unsigned mask = 0;
    for (int i = 0; i < node->inputs; i++) {
        const int own = d - (out->rank - node->in[i].rank);
        if (arguments[i].type == SR_ARG_T && (own < 0 || node->in[i].dim[own] != out->dim[d]))
            mask |= 1u << i;
    }
    return mask;
}

// Dimensions of extent 1 are left out, and neighbours of the same repeats are one dimension.
static void set_dims(const sr_node_view *node, const sr_kernel_argument *arguments,
                     sr_expression_params *p) {
    unsigned before = 0;
    for (int d = 0; d < node->out[0].rank; d++) {
        const int64_t extent = node->out[0].dim[d];
        const unsigned mask = repeats_along(node, arguments, d);
        if (extent == 1)
            continue;
        if (p->dims > 0 && mask == before) {
            p->dim[p->dims - 1] *= extent;
            continue;
        }
        for (int i = 0; i < node->inputs; i++)
            p->repeated[i] |= (uint8_t)((mask >> i & 1) << p->dims);
        p->dim[p->dims++] = extent;
        before = mask;
    }
}

static sr_status lower(const sr_node_view *node, sr_kernel_id kernel, sr_kernel_request *request) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    sr_expression_params p = {.count = sr_info_count(&node->out[0])};
    bool whole = true;
    if (node->op->attr_size > 0)
        memcpy(p.constant, node->attr, node->op->attr_size);
    for (int i = 0; i < node->inputs; i++)
        whole = whole && (arguments[i].type != SR_ARG_T || sr_info_count(&node->in[i]) == p.count);
    if (!whole)
        set_dims(node, arguments, &p);
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// ---- sum_to: x, w or none -> y: the sum of x, or of x w, over the repeats of an input ----

typedef struct sum_attr {
    int64_t dim[SR_MAX_RANK]; // of the result
    int32_t rank, reserved;
} sum_attr;

static const sr_attr_field sum_fields[] = {
    SR_ATTR_ARRAY(sum_attr, dim, 0, SR_ATTR_EXTENT), SR_ATTR(sum_attr, rank, 0, SR_MAX_RANK), {0}};

static sum_attr attr_of(const sr_info *like) {
    sum_attr attr = {.rank = like->rank};
    for (int i = 0; i < like->rank; i++)
        attr.dim[i] = like->dim[i];
    return attr;
}

// Extent of the result along dimension d of x.
static int64_t extent_of(const sum_attr *a, const sr_info *x, int d) {
    const int own = d - (x->rank - a->rank);
    return own < 0 ? 1 : a->dim[own];
}

static sr_status sum_infer(const sr_node_view *node, sr_info *out) {
    const sum_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    if (sr_op_present(node, 1))
        SR_TRY(sr_op_expect_equal(node, 0, 1));
    bool fits = a->rank >= 0 && a->rank <= x->rank;
    for (int d = 0; d < x->rank && fits; d++)
        fits = extent_of(a, x, d) == x->dim[d] || extent_of(a, x, d) == 1;
    out[0] = sr_op_info(x->dtype, a->rank, a->dim);
    if (fits)
        return SR_OK;
    char text[SR_INFO_TEXT], wanted[SR_INFO_TEXT];
    return SR_FAIL(SR_E_SHAPE, "%s: input %s cannot be summed to %s", node->op->name,
                   sr_info_text(x, text), sr_info_text(&out[0], wanted));
}

static sr_status sum_lower(const sr_node_view *node, sr_kernel_request *request) {
    const sum_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    sr_expression_params p = {.count = sr_info_count(x)};
    for (int d = 0; d < x->rank; d++) {
        const bool summed = extent_of(a, x, d) != x->dim[d];
        p.dim[p.dims] = x->dim[d];
        p.repeated[0] |= (uint8_t)(summed << p.dims++);
    }
    return sr_op_lower(request, SR_KERNEL_sum_to, &p, sizeof p);
}

static void sum_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_tensor x = node->input[0], w = node->input[1], g = grad_out[0];
    if (wanted[0])
        grad_in[0] = sr_is_none(w) ? sr_op_binary(&sr_op_expand, NULL, g, x) : sr_mul(g, w);
    if (wanted[1])
        grad_in[1] = sr_mul(g, x);
}

const sr_op sr_op_sum_to = {
    SR_OP_HEAD,
    .name = "sum_to",
    .help = "x, or x w, summed to the smaller shape that was broadcast; products are not rounded",
    .inputs = 2,
    .input_name = {"x", "w"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(sum_attr),
    .fields = sum_fields,
    .infer = sum_infer,
    .lower = sum_lower,
    .derivative = sum_derivative,
    .keeps_inputs = 3u,
};

// Whether a sum is that of rows of channels to channels: channel_sum and channel_dot stream over
// them.
static bool sums_rows(const sr_info *x, const sr_info *like, int64_t shape[2]) {
    const sum_attr a = attr_of(like);
    bool kept = false;
    shape[0] = shape[1] = 1;
    for (int d = 0; d < x->rank; d++) {
        kept = kept || extent_of(&a, x, d) != 1;
        if (kept && extent_of(&a, x, d) != x->dim[d])
            return false;
        shape[kept] *= x->dim[d];
    }
    return true;
}

static sr_tensor sum_rows(sr_tensor x, sr_tensor w, const int64_t shape[2]) {
    const sr_tensor rows = sr_reshape(x, 2, shape);
    if (sr_is_none(w))
        return sr_channel_sum(rows);
    return sr_op_record_one(&sr_op_channel_dot, NULL,
                            (sr_tensor[]){rows, sr_reshape(w, 2, shape), SR_NONE});
}

// x, or x w where there is a w, which broadcasts to the shape of x.
static sr_tensor sum_to_shape(sr_tensor x, sr_tensor w, const sr_info *like, sr_dtype dtype) {
    sr_info info, factor;
    int64_t shape[2];
    const sum_attr attr = attr_of(like);
    if (!sr_op_argument(x, "sum_to: x", &info))
        return sr_op_failed();
    if (!sr_is_none(w)) {
        if (!sr_op_argument(w, "sum_to: w", &factor))
            return sr_op_failed();
        if (!sr_op_same_shape(&factor, &info))
            w = sr_op_binary(&sr_op_expand, NULL, w, x);
    }
    if (sums_rows(&info, like, shape))
        return sr_reshape(sr_op_as_type(sum_rows(x, w, shape), dtype), like->rank, like->dim);
    return sr_op_binary(&sr_op_sum_to, &attr, sr_op_as_type(x, dtype),
                        sr_is_none(w) ? w : sr_op_as_type(w, dtype));
}

sr_tensor sr_op_sum_to_shape(sr_tensor x, const sr_info *like, sr_dtype dtype) {
    return sum_to_shape(x, SR_NONE, like, dtype);
}

// ---- Derivatives ----

sr_tensor sr_op_shaped_like(sr_tensor gradient, const sr_info *input) {
    sr_info own;
    if (!sr_op_argument(gradient, "gradient", &own) || sr_op_same_shape(&own, input))
        return gradient;
    return sr_info_count(&own) == sr_info_count(input)
               ? sr_reshape(gradient, input->rank, input->dim)
               : sr_op_sum_to_shape(gradient, input, own.dtype);
}

// g x, of which g has the shape of the output, in the shape of an input that may have been
// repeated.
static sr_tensor product(sr_tensor g, sr_tensor x, const sr_info *input) {
    sr_info info;
    if (!sr_op_argument(g, "gradient", &info) || sr_info_count(&info) == sr_info_count(input))
        return sr_mul(g, x);
    return sum_to_shape(g, x, input, input->dtype);
}

// A row of a, b and the gradient g. Where the input whose gradient it is was repeated, the terms of
// its sum are in the dtype of parameters: not rounded to a narrower one, nor infinite in it.
static sr_tensor terms(const sr_op *row, const sr_info *input, sr_tensor a, sr_tensor b,
                       sr_tensor g) {
    const sr_dtype wide = sr_op_parameter_dtype(input->dtype);
    sr_info info;
    if (!sr_op_argument(g, "gradient", &info) || sr_info_count(&info) == sr_info_count(input))
        return sr_op_record_one(row, NULL, (sr_tensor[]){a, b, g});
    const sr_tensor in[] = {sr_op_as_type(a, wide), sr_op_as_type(b, wide), sr_op_as_type(g, wide)};
    return sr_op_as_type(sr_op_shaped_like(sr_op_record_one(row, NULL, in), input), input->dtype);
}

// The derivative of k x^n times g: zero where n is 0, and not 0 x^-1, which is NaN at 0.
static sr_tensor power_grad(sr_tensor x, sr_tensor g, double k, double n) {
    const double attr[2] = {k * n, n - 1.0};
    return n == 0.0 ? sr_scale(g, 0.0, 0.0) : sr_op_binary(&sr_op_power_grad, attr, x, g);
}

#define BINARY(row, a, b) sr_op_binary(&sr_op_##row, NULL, a, b)
#define TERNARY(row, a, b, c) sr_op_record_one(&sr_op_##row, NULL, (sr_tensor[]){a, b, c})
#define SAME(row, a, b) sr_op_binary(&sr_op_##row, k, a, b)
#define GRADIENT(i, gradient)                                                                      \
    if (wanted[i])                                                                                 \
        grad_in[i] = sr_op_shaped_like(gradient, &node->in[i]);

// ---- Rows ----

#define IN(type, name, elements)                                                                   \
    const sr_tensor name = node->input[input++];                                                   \
    (void)name;
#define OUT(type, name, elements)                                                                  \
    const sr_tensor name = node->output[0];                                                        \
    (void)name;
#define SR_EXPRESSION(name, formula, call, arguments, code, literals, rule, gradients, ...)        \
    static sr_status infer_##name(const sr_node_view *node, sr_info *out) {                        \
        return infer(node, SR_KERNEL_##name, out);                                                 \
    }                                                                                              \
    static sr_status lower_##name(const sr_node_view *node, sr_kernel_request *request) {          \
        return lower(node, SR_KERNEL_##name, request);                                             \
    }                                                                                              \
    __attribute__((unused)) static void derive_##name(                                             \
        sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,                  \
        const bool *wanted, sr_tensor *grad_in) {                                                  \
        const sr_tensor g = grad_out[0];                                                           \
        const double *k = node->attr;                                                              \
        int input = 0;                                                                             \
        (void)context, (void)wanted, (void)grad_in, (void)g, (void)k;                              \
        arguments gradients                                                                        \
    }
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
#undef IN
#undef OUT

#define DERIVES(name) derive_##name
#define ENDS(name) NULL
#define IN(type, name, elements) #name,
#define OUT(type, name, elements)
#define SR_EXPRESSION(row, formula, call, arguments, code, literals, rule, gradients, ...)         \
    const sr_op sr_op_##row = {SR_OP_HEAD,                                                         \
                               .name = #row,                                                       \
                               .help = formula,                                                    \
                               .inputs = COUNT(arguments),                                         \
                               .input_name = {arguments},                                          \
                               .required = COUNT(arguments),                                       \
                               .outputs = 1,                                                       \
                               .infer = infer_##row,                                               \
                               .lower = lower_##row,                                               \
                               .derivative = rule(row),                                            \
                               .fields = numbers,                                                  \
                               __VA_ARGS__};
#define COUNT(...) (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

// ---- Calls ----

#define CALL_1(name)                                                                               \
    sr_tensor sr_##name(sr_tensor x) {                                                             \
        return sr_op_unary(&sr_op_##name, NULL, x);                                                \
    }
#define CALL_2(name)                                                                               \
    sr_tensor sr_##name(sr_tensor a, sr_tensor b) {                                                \
        return sr_op_binary(&sr_op_##name, NULL, a, b);                                            \
    }
#define CALL_NONE(name)
#define CALL_OWN(name)
#define SR_EXPRESSION(row, formula, call, ...) call(row)
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

sr_tensor sr_tanh_op(sr_tensor x) {
    return sr_op_unary(&sr_op_tanh, NULL, x);
}

sr_tensor sr_exp_op(sr_tensor x) {
    return sr_op_unary(&sr_op_exp, NULL, x);
}

sr_tensor sr_log_op(sr_tensor x) {
    return sr_op_unary(&sr_op_log, NULL, x);
}

sr_tensor sr_sin_op(sr_tensor x) {
    return sr_op_unary(&sr_op_sin, NULL, x);
}

sr_tensor sr_cos_op(sr_tensor x) {
    return sr_op_unary(&sr_op_cos, NULL, x);
}

sr_tensor sr_atan_op(sr_tensor x) {
    return sr_op_unary(&sr_op_atan, NULL, x);
}

sr_tensor sr_erf_op(sr_tensor x) {
    return sr_op_unary(&sr_op_erf, NULL, x);
}

sr_tensor sr_pow_op(sr_tensor a, sr_tensor b) {
    return sr_op_binary(&sr_op_pow, NULL, a, b);
}

sr_tensor sr_power(sr_tensor x, double exponent) {
    return sr_op_unary(&sr_op_power, &exponent, x);
}

sr_tensor sr_clip(sr_tensor x, double low, double high) {
    const double bounds[2] = {low, high};
    return sr_op_unary(&sr_op_clip, bounds, x);
}

sr_tensor sr_where(sr_tensor c, sr_tensor a, sr_tensor b) {
    return TERNARY(where, c, a, b);
}

sr_tensor sr_elu(sr_tensor x, double alpha) {
    return sr_op_unary(&sr_op_elu, &alpha, x);
}

sr_tensor sr_prelu(sr_tensor x, sr_tensor slope) {
    sr_info info, own;
    if (!sr_op_argument(x, "prelu: x", &info) || !sr_op_argument(slope, "prelu: slope", &own))
        return sr_op_failed();
    return sr_op_binary(&sr_op_prelu, NULL, x,
                        own.dtype == info.dtype ? slope : sr_cast(slope, info.dtype));
}

sr_tensor sr_scale_by(sr_tensor x, sr_tensor scalar) {
    return sr_op_binary(&sr_op_scale_by, NULL, x, scalar);
}

sr_tensor sr_leaky_relu(sr_tensor x, double slope) {
    return sr_op_unary(&sr_op_leaky_relu, &slope, x);
}

sr_tensor sr_scale(sr_tensor x, double alpha, double beta) {
    const double constants[2] = {alpha, beta};
    return sr_op_unary(&sr_op_scale, constants, x);
}

// softplus(x) - t x is written as (1 - t) softplus(x) + t softplus(-x), as softplus(x) - x is
// softplus(-x): no term is larger than the loss, and none larger than the gradient. The other form
// cancels when a sample is classified correctly: in bf16 neither its loss nor its gradient has a
// correct digit.
sr_tensor sr_bce_with_logits(sr_tensor x, double target) {
    sr_info info;
    if (!sr_op_argument(x, "bce_with_logits: x", &info))
        return sr_op_failed();
    if (target == 0.0)
        return sr_softplus(x);
    const sr_tensor right = sr_softplus(sr_scale(x, -1.0, 0.0));
    if (target == 1.0)
        return right;
    const sr_tensor wrong = sr_scale(sr_softplus(x), 1.0 - target, 0.0);
    return sr_add(wrong, sr_scale(right, target, 0.0));
}
