// SPDX-License-Identifier: Apache-2.0
// Convolution and its two gradients. Each of the three is bilinear and the derivative of the other
// two, so gradients of gradients of any order are recorded from the same three nodes.
// Transposed convolution is conv2d_dx as a forward operator (Dumoulin & Visin 2016).
#include "graph/ops/op_internal.h"

typedef struct conv_attr {
    int32_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
    int32_t same;             // 1: the sides are padded so that y is as large as x / stride
    int64_t h, w;             // conv2d_dx: size of dx
    int64_t r, s;             // conv2d_dw: size of the filters
    int32_t extra_h, extra_w; // more padding at the bottom and on the right
} conv_attr;

static const sr_attr_field fields[] = {SR_ATTR(conv_attr, stride_h, 1, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, stride_w, 1, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, pad_h, 0, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, pad_w, 0, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, dilation_h, 1, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, dilation_w, 1, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, groups, 1, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, same, 0, SR_ATTR_FLAG),
                                       SR_ATTR(conv_attr, h, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(conv_attr, w, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(conv_attr, r, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(conv_attr, s, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(conv_attr, extra_h, 0, SR_ATTR_SIDE),
                                       SR_ATTR(conv_attr, extra_w, 0, SR_ATTR_SIDE),
                                       {0}};

static sr_status expect_geometry(const char *name, const conv_attr *a) {
    if (a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 || a->pad_w < 0 || a->extra_h < 0 ||
        a->extra_w < 0 || a->dilation_h < 1 || a->dilation_w < 1 || a->groups < 1) {
        return SR_FAIL(SR_E_SHAPE,
                       "%s: stride %dx%d, pad %dx%d, dilation %d, groups %d: stride, dilation and "
                       "groups must be positive, padding at least 0",
                       name, a->stride_h, a->stride_w, a->pad_h, a->pad_w, a->dilation_h,
                       a->groups);
    }
    if (a->same && (a->pad_h > 0 || a->pad_w > 0 || a->extra_h > 0 || a->extra_w > 0))
        return SR_FAIL(SR_E_SHAPE, "%s: with 'same', no other padding may be given", name);
    return SR_OK;
}

// Every size of one convolution, from the three shapes. Fails unless they belong together.
static sr_status conv_params(const sr_node_view *node, const sr_info *x, const sr_info *w,
                             const sr_info *y, sr_conv_params *out) {
    const conv_attr *a = node->attr;
    const sr_op_sides high = sr_op_sides_of(x->dim[1], w->dim[2], a->dilation_h, a->stride_h,
                                            a->pad_h, a->extra_h, a->same);
    const sr_op_sides wide = sr_op_sides_of(x->dim[2], w->dim[3], a->dilation_w, a->stride_w,
                                            a->pad_w, a->extra_w, a->same);
    *out = (sr_conv_params){.n = x->dim[0],
                            .h = x->dim[1],
                            .w = x->dim[2],
                            .c = x->dim[3],
                            .k = w->dim[0],
                            .r = w->dim[2],
                            .s = w->dim[3],
                            .stride_h = a->stride_h,
                            .stride_w = a->stride_w,
                            .pad_top = (int32_t)high.before,
                            .pad_left = (int32_t)wide.before,
                            .pad_bottom = (int32_t)high.after,
                            .pad_right = (int32_t)wide.after,
                            .dilation_h = a->dilation_h,
                            .dilation_w = a->dilation_w,
                            .groups = a->groups};
    const char *name = node->op->name;
    char xt[SR_INFO_TEXT], wt[SR_INFO_TEXT], yt[SR_INFO_TEXT];
    SR_TRY(expect_geometry(name, a));
    if (w->dim[1] * a->groups != x->dim[3])
        return SR_FAIL(SR_E_SHAPE,
                       "%s: w %s with groups %d needs %lld input channels, x %s has %lld", name,
                       sr_info_text(w, wt), a->groups, (long long)(w->dim[1] * a->groups),
                       sr_info_text(x, xt), (long long)x->dim[3]);
    if (out->k % a->groups != 0)
        return SR_FAIL(SR_E_SHAPE, "%s: w %s has %lld filters, expected a multiple of groups %d",
                       name, sr_info_text(w, wt), (long long)out->k, a->groups);
    out->p = sr_op_positions(out->h, high.before + high.after, out->r, a->dilation_h, a->stride_h);
    out->q = sr_op_positions(out->w, wide.before + wide.after, out->s, a->dilation_w, a->stride_w);
    if (out->p < 1 || out->q < 1)
        return SR_FAIL(SR_E_SHAPE,
                       "%s: w %s with dilation %d does not fit into x %s with pad %dx%d", name,
                       sr_info_text(w, wt), a->dilation_h, sr_info_text(x, xt), a->pad_h, a->pad_w);
    if (y && (y->dim[0] != out->n || y->dim[1] != out->p || y->dim[2] != out->q ||
              y->dim[3] != out->k)) {
        const sr_info want = {
            .dtype = x->dtype, .rank = 4, .dim = {out->n, out->p, out->q, out->k}};
        char expected[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: x %s and w %s give y %s, dy is %s", name,
                       sr_info_text(x, xt), sr_info_text(w, wt), sr_info_text(&want, expected),
                       sr_info_text(y, yt));
    }
    return SR_OK;
}

static sr_status expect_filters(const sr_node_view *node, int input, sr_dtype activation) {
    const sr_info *w = &node->in[input];
    char text[SR_INFO_TEXT];
    if (w->rank != 4 || w->dtype != sr_op_parameter_dtype(activation))
        return SR_FAIL(SR_E_SHAPE, "%s: w %s must be %s [K, C/groups, R, S]", node->op->name,
                       sr_info_text(w, text), sr_dtype_name(sr_op_parameter_dtype(activation)));
    return SR_OK;
}

static void conv_cost(const sr_conv_params *p, const sr_node_view *node, double *flops,
                      double *bytes) {
    const int64_t terms = p->r * p->s * (p->c / p->groups);
    *flops = 2.0 * (double)(p->n * p->p * p->q * p->k) * (double)terms;
    *bytes = 0;
    for (int i = 0; i < node->inputs; i++)
        if (sr_op_present(node, i))
            *bytes +=
                (double)sr_info_count(&node->in[i]) * (double)sr_dtype_size(node->in[i].dtype);
    *bytes += (double)sr_info_count(&node->out[0]) * (double)sr_dtype_size(node->out[0].dtype);
}

// ---- conv2d: x, w, bias -> y ----

static sr_status forward_infer(const sr_node_view *node, sr_info *out) {
    const sr_info *x = &node->in[0], *w = &node->in[1];
    sr_conv_params p;
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    SR_TRY(expect_filters(node, 1, x->dtype));
    SR_TRY(conv_params(node, x, w, NULL, &p));
    SR_TRY(sr_op_expect_vector(node, 2, "bias", x->dtype, p.k));
    out[0] = (sr_info){.dtype = x->dtype, .rank = 4, .dim = {p.n, p.p, p.q, p.k}};
    return SR_OK;
}

static sr_status forward_lower(const sr_node_view *node, sr_kernel_request *request) {
    sr_conv_params p;
    SR_TRY(conv_params(node, &node->in[0], &node->in[1], NULL, &p));
    return sr_op_lower(request, SR_KERNEL_conv2d, &p, sizeof p);
}

static void forward_cost(const sr_node_view *node, double *flops, double *bytes) {
    sr_conv_params p;
    if (conv_params(node, &node->in[0], &node->in[1], NULL, &p) == SR_OK)
        conv_cost(&p, node, flops, bytes);
}

// The three derivative rules; 'attr' of the new node is that of the old one plus the sizes that the
// new node cannot derive from its inputs.
static sr_tensor record_dx(const sr_node_view *node, sr_tensor dy, sr_tensor w, const sr_info *x) {
    conv_attr attr = *(const conv_attr *)node->attr;
    attr.h = x->dim[1];
    attr.w = x->dim[2];
    attr.r = attr.s = 0;
    return sr_op_binary(&sr_op_conv2d_dx, &attr, dy, w);
}

static sr_tensor record_dw(const sr_node_view *node, sr_tensor x, sr_tensor dy, const sr_info *w) {
    conv_attr attr = *(const conv_attr *)node->attr;
    attr.r = w->dim[2];
    attr.s = w->dim[3];
    attr.h = attr.w = 0;
    return sr_op_binary(&sr_op_conv2d_dw, &attr, x, dy);
}

static sr_tensor record_forward(const sr_node_view *node, sr_tensor x, sr_tensor w) {
    conv_attr attr = *(const conv_attr *)node->attr;
    attr.h = attr.w = attr.r = attr.s = 0;
    return sr_op_record_one(&sr_op_conv2d, &attr, (sr_tensor[]){x, w, SR_NONE});
}

static void forward_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = record_dx(node, grad_out[0], node->input[1], &node->in[0]);
    if (wanted[1])
        grad_in[1] = record_dw(node, node->input[0], grad_out[0], &node->in[1]);
    if (wanted[2])
        grad_in[2] = sr_channel_sum(grad_out[0]);
}

const sr_op sr_op_conv2d = {
    SR_OP_HEAD,
    .name = "conv2d",
    .help = "convolution of x[N,H,W,C] with w[K,C/groups,R,S], plus bias[K]",
    .inputs = 3,
    .input_name = {"x", "w", "bias"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(conv_attr),
    .fields = fields,
    .infer = forward_infer,
    .lower = forward_lower,
    .derivative = forward_derivative,
    .keeps_inputs = 3u,
    .cost = forward_cost,
};

// ---- conv2d_dx: dy, w -> dx ----

static sr_status dx_infer(const sr_node_view *node, sr_info *out) {
    const conv_attr *a = node->attr;
    const sr_info *dy = &node->in[0], *w = &node->in[1];
    sr_conv_params p;
    SR_TRY(sr_op_expect_activation(node, 0, "dy", 4));
    SR_TRY(expect_filters(node, 1, dy->dtype));
    if (a->h < 1 || a->w < 1) {
        char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
        return SR_FAIL(SR_E_SHAPE, "%s: %s and w %s give an image of %lld x %lld pixels",
                       node->op->name, sr_info_text(dy, left), sr_info_text(w, right),
                       (long long)a->h, (long long)a->w);
    }
    const sr_info x = {
        .dtype = dy->dtype, .rank = 4, .dim = {dy->dim[0], a->h, a->w, w->dim[1] * a->groups}};
    SR_TRY(conv_params(node, &x, w, dy, &p));
    out[0] = x;
    return SR_OK;
}

static sr_status dx_lower(const sr_node_view *node, sr_kernel_request *request) {
    sr_conv_params p;
    SR_TRY(conv_params(node, &node->out[0], &node->in[1], &node->in[0], &p));
    return sr_op_lower(request, SR_KERNEL_conv2d_dx, &p, sizeof p);
}

static void dx_cost(const sr_node_view *node, double *flops, double *bytes) {
    sr_conv_params p;
    if (conv_params(node, &node->out[0], &node->in[1], &node->in[0], &p) == SR_OK)
        conv_cost(&p, node, flops, bytes);
}

static void dx_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                          const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = record_forward(node, grad_out[0], node->input[1]);
    if (wanted[1])
        grad_in[1] = record_dw(node, grad_out[0], node->input[0], &node->in[1]);
}

const sr_op sr_op_conv2d_dx = {
    SR_OP_HEAD,
    .name = "conv2d_dx",
    .help = "gradient of conv2d with respect to x; transposed convolution",
    .inputs = 2,
    .input_name = {"dy", "w"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(conv_attr),
    .fields = fields,
    .infer = dx_infer,
    .lower = dx_lower,
    .derivative = dx_derivative,
    .keeps_inputs = 3u,
    .cost = dx_cost,
};

// ---- conv2d_dw: x, dy -> dw ----

static sr_status dw_infer(const sr_node_view *node, sr_info *out) {
    const conv_attr *a = node->attr;
    const sr_info *x = &node->in[0], *dy = &node->in[1];
    sr_conv_params p;
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    SR_TRY(sr_op_expect_activation(node, 1, "dy", 4));
    if (x->dtype != dy->dtype || a->r < 1 || a->s < 1 || a->groups < 1 ||
        x->dim[3] % a->groups != 0) {
        char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
        return SR_FAIL(
            SR_E_SHAPE,
            "%s: x %s and dy %s must have the same dtype, the filter size %lld x %lld must be "
            "positive, and groups %d must divide the channels of x",
            node->op->name, sr_info_text(x, left), sr_info_text(dy, right), (long long)a->r,
            (long long)a->s, a->groups);
    }
    const sr_info w = {.dtype = sr_op_parameter_dtype(x->dtype),
                       .rank = 4,
                       .dim = {dy->dim[3], x->dim[3] / a->groups, a->r, a->s}};
    SR_TRY(conv_params(node, x, &w, dy, &p));
    out[0] = w;
    return SR_OK;
}

static sr_status dw_lower(const sr_node_view *node, sr_kernel_request *request) {
    sr_conv_params p;
    SR_TRY(conv_params(node, &node->in[0], &node->out[0], &node->in[1], &p));
    return sr_op_lower(request, SR_KERNEL_conv2d_dw, &p, sizeof p);
}

static void dw_cost(const sr_node_view *node, double *flops, double *bytes) {
    sr_conv_params p;
    if (conv_params(node, &node->in[0], &node->out[0], &node->in[1], &p) == SR_OK)
        conv_cost(&p, node, flops, bytes);
}

static void dw_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                          const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] = record_dx(node, node->input[1], grad_out[0], &node->in[0]);
    if (wanted[1])
        grad_in[1] = record_forward(node, node->input[0], grad_out[0]);
}

const sr_op sr_op_conv2d_dw = {
    SR_OP_HEAD,
    .name = "conv2d_dw",
    .help = "gradient of conv2d with respect to w",
    .inputs = 2,
    .input_name = {"x", "dy"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(conv_attr),
    .fields = fields,
    .infer = dw_infer,
    .lower = dw_lower,
    .derivative = dw_derivative,
    .keeps_inputs = 3u,
    .cost = dw_cost,
};

// ---- Model code ----

static conv_attr attr_of(sr_conv2d_opts opts) {
    const int stride = opts.stride == 0 ? 1 : opts.stride;
    const int dilation = opts.dilation == 0 ? 1 : opts.dilation;
    return (conv_attr){.stride_h = stride,
                       .stride_w = opts.stride_w == 0 ? stride : opts.stride_w,
                       .pad_h = opts.pad,
                       .pad_w = opts.has_pad_w ? opts.pad_w : opts.pad,
                       .dilation_h = dilation,
                       .dilation_w = opts.dilation_w == 0 ? dilation : opts.dilation_w,
                       .groups = opts.groups == 0 ? 1 : opts.groups,
                       .same = opts.same,
                       .extra_h = opts.extra_bottom,
                       .extra_w = opts.extra_right};
}

sr_tensor sr_conv2d(sr_tensor x, sr_tensor w, sr_conv2d_opts opts) {
    return sr_conv2d_bias(x, w, SR_NONE, opts);
}

sr_tensor sr_conv2d_bias(sr_tensor x, sr_tensor w, sr_tensor bias, sr_conv2d_opts opts) {
    const conv_attr attr = attr_of(opts);
    return sr_op_record_one(&sr_op_conv2d, &attr, (sr_tensor[]){x, w, bias});
}

// Sets attr->h and attr->w to the size of the result of the transposed convolution. Its arguments
// have other names than those of conv2d_dx, so they are checked here, for the messages.
static sr_status transposed_size(const sr_info *x, const sr_info *w, int output_pad,
                                 conv_attr *attr) {
    char xt[SR_INFO_TEXT], wt[SR_INFO_TEXT];
    (void)sr_info_text(x, xt);
    (void)sr_info_text(w, wt);
    if (x->rank != 4 || w->rank != 4)
        return SR_FAIL(SR_E_SHAPE, "x %s must be [N,P,Q,K] and w %s [K, C/groups, R, S]", xt, wt);
    if (w->dim[0] != x->dim[3])
        return SR_FAIL(SR_E_SHAPE, "w %s needs %lld input channels, x %s has %lld", wt,
                       (long long)w->dim[0], xt, (long long)x->dim[3]);
    if (attr->stride_h < 1 || attr->stride_w < 1)
        return SR_FAIL(SR_E_SHAPE, "stride %dx%d must be positive", attr->stride_h, attr->stride_w);
    if (output_pad < 0 || output_pad >= attr->stride_h || output_pad >= attr->stride_w) {
        return SR_FAIL(
            SR_E_SHAPE,
            "output_pad %d must be at least 0 and less than the stride, %dx%d: with more "
            "pixels sr_conv2d would give a larger x",
            output_pad, attr->stride_h, attr->stride_w);
    }
    if (attr->same)
        return SR_FAIL(SR_E_SHAPE, "'same' does not say which size of y is meant; pad and "
                                   "extra_bottom, extra_right do");
    attr->h = (x->dim[1] - 1) * attr->stride_h - 2 * (int64_t)attr->pad_h - attr->extra_h +
              attr->dilation_h * (w->dim[2] - 1) + 1 + output_pad;
    attr->w = (x->dim[2] - 1) * attr->stride_w - 2 * (int64_t)attr->pad_w - attr->extra_w +
              attr->dilation_w * (w->dim[3] - 1) + 1 + output_pad;
    if (attr->h < 1 || attr->w < 1)
        return SR_FAIL(
            SR_E_SHAPE, "x %s and w %s with pad %dx%d and output_pad %d give %lld x %lld pixels",
            xt, wt, attr->pad_h, attr->pad_w, output_pad, (long long)attr->h, (long long)attr->w);
    return SR_OK;
}

sr_tensor sr_conv2d_transpose(sr_tensor x, sr_tensor w, sr_conv2d_opts opts, int output_pad) {
    conv_attr attr = attr_of(opts);
    sr_info xi, wi;
    if (!sr_op_argument(x, "conv2d_transpose: x", &xi) ||
        !sr_op_argument(w, "conv2d_transpose: w", &wi))
        return sr_op_failed();
    const sr_status status = transposed_size(&xi, &wi, output_pad, &attr);
    if (status != SR_OK)
        return sr_op_refused(status, "conv2d_transpose");
    return sr_op_binary(&sr_op_conv2d_dx, &attr, x, w);
}
