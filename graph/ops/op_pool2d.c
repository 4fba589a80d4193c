// SPDX-License-Identifier: Apache-2.0
// Pooling and nearest upsampling. Average pooling and upsampling are linear: each gradient operator
// has its forward operator as derivative. maxpool2d_grad has none (its derivative would gather
// through the index).
#include <stdio.h>

#include "graph/ops/op_pool_internal.h"

// Kernels keep the offset of the maximum inside its window in one byte.
#define MAX_WINDOW 255

static const sr_attr_field fields[] = {SR_POOL_FIELDS, {0}};

// Positions of a window along a side, as in torch: with ceil_mode a window that begins in the
// padding after the picture is left out.
static int64_t positions(bool ceil_mode, int64_t size, int32_t window, int32_t gap, int32_t stride,
                         sr_op_sides pad, int32_t after) {
    const int64_t more = ceil_mode ? stride - 1 : 0;
    const int64_t count =
        sr_op_positions(size, pad.before + pad.after + more, window, 1 + (int64_t)gap, stride);
    return ceil_mode && (count - 1) * stride >= size + pad.before - after ? count - 1 : count;
}

// Whether the last of 'count' windows along a side begins before the padding after the picture,
// which may be a part of it ('after').
static bool is_within(int64_t count, int64_t size, int32_t stride, sr_op_sides pad, int32_t after) {
    return (count - 1) * stride < size + pad.before - after;
}

static sr_status expect_window(const sr_node_view *node, const sr_pool_attr *a) {
    if (a->window_h < 1 || a->window_w < 1 || a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 ||
        a->pad_w < 0 || a->pad_h > a->window_h / 2 || a->pad_w > a->window_w / 2) {
        return SR_FAIL(SR_E_SHAPE,
                       "%s: window %dx%d, stride %dx%d, pad %dx%d: window and stride must be "
                       "positive, padding at most half the window",
                       node->op->name, a->window_h, a->window_w, a->stride_h, a->stride_w, a->pad_h,
                       a->pad_w);
    }
    if (a->gap_h < 0 || a->gap_w < 0)
        return SR_FAIL(SR_E_SHAPE, "%s: dilation must be positive", node->op->name);
    if (a->extra_h < 0 || a->extra_w < 0)
        return SR_FAIL(SR_E_SHAPE,
                       "%s: %dx%d more pixels of padding at the bottom and on the right: it must "
                       "not be less than 0",
                       node->op->name, a->extra_h, a->extra_w);
    if (a->same &&
        (a->pad_h > 0 || a->pad_w > 0 || a->extra_h > 0 || a->extra_w > 0 || a->ceil_mode))
        return SR_FAIL(SR_E_SHAPE, "%s: with 'same', neither padding nor ceil_mode may be given",
                       node->op->name);
    return SR_OK;
}

sr_status sr_op_pool_params(const sr_node_view *node, const sr_pool_attr *a, const sr_info *x,
                            const sr_info *y, sr_pool_params *out) {
    const sr_op_sides high = sr_op_sides_of(x->dim[1], a->window_h, 1 + (int64_t)a->gap_h,
                                            a->stride_h, a->pad_h, a->extra_h, a->same);
    const sr_op_sides wide = sr_op_sides_of(x->dim[2], a->window_w, 1 + (int64_t)a->gap_w,
                                            a->stride_w, a->pad_w, a->extra_w, a->same);
    char xt[SR_INFO_TEXT], yt[SR_INFO_TEXT];
    *out = (sr_pool_params){.n = x->dim[0],
                            .h = x->dim[1],
                            .w = x->dim[2],
                            .c = x->dim[3],
                            .window_h = a->window_h,
                            .window_w = a->window_w,
                            .stride_h = a->stride_h,
                            .stride_w = a->stride_w,
                            .pad_top = (int32_t)high.before,
                            .pad_left = (int32_t)wide.before,
                            .pad_bottom = (int32_t)high.after,
                            .pad_right = (int32_t)wide.after,
                            .gap_h = a->gap_h,
                            .gap_w = a->gap_w};
    SR_TRY(expect_window(node, a));
    out->p = positions(a->ceil_mode, out->h, a->window_h, a->gap_h, a->stride_h, high, a->after_h);
    out->q = positions(a->ceil_mode, out->w, a->window_w, a->gap_w, a->stride_w, wide, a->after_w);
    if (out->p < 1 || out->q < 1)
        return SR_FAIL(SR_E_SHAPE, "%s: a window of %dx%d does not fit into x %s with pad %dx%d",
                       node->op->name, a->window_h, a->window_w, sr_info_text(x, xt), a->pad_h,
                       a->pad_w);
    if (!is_within(out->p, out->h, a->stride_h, high, a->after_h) ||
        !is_within(out->q, out->w, a->stride_w, wide, a->after_w))
        return SR_FAIL(SR_E_SHAPE,
                       "%s: x %s: %lld x %lld windows, of which the last is in the padding alone, "
                       "at the bottom or on the right",
                       node->op->name, sr_info_text(x, xt), (long long)out->p, (long long)out->q);
    if (y &&
        (y->dim[0] != out->n || y->dim[1] != out->p || y->dim[2] != out->q || y->dim[3] != out->c))
        return SR_FAIL(SR_E_SHAPE, "%s: x %s gives y [%lld, %lld, %lld, %lld], dy is %s",
                       node->op->name, sr_info_text(x, xt), (long long)out->n, (long long)out->p,
                       (long long)out->q, (long long)out->c, sr_info_text(y, yt));
    return SR_OK;
}

static sr_status lower_forward(const sr_node_view *node, sr_kernel_request *request,
                               sr_kernel_id kernel) {
    sr_pool_params p;
    SR_TRY(sr_op_pool_params(node, node->attr, &node->in[0], NULL, &p));
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_status lower_gradient(const sr_node_view *node, sr_kernel_request *request,
                                sr_kernel_id kernel) {
    sr_pool_params p;
    SR_TRY(sr_op_pool_params(node, node->attr, &node->out[0], &node->in[0], &p));
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// dx of a pooling gradient: its size is in the attributes.
static sr_status infer_gradient(const sr_node_view *node, sr_info *out) {
    const sr_pool_attr *a = node->attr;
    sr_pool_params p;
    SR_TRY(sr_op_expect_activation(node, 0, "dy", 4));
    const sr_info x = {.dtype = node->in[0].dtype,
                       .rank = 4,
                       .dim = {node->in[0].dim[0], a->h, a->w, node->in[0].dim[3]}};
    SR_TRY(sr_op_pool_params(node, node->attr, &x, &node->in[0], &p));
    out[0] = x;
    return SR_OK;
}

static sr_pool_attr gradient_attr(const sr_node_view *node) {
    sr_pool_attr attr = *(const sr_pool_attr *)node->attr;
    attr.h = node->in[0].dim[1];
    attr.w = node->in[0].dim[2];
    return attr;
}

static sr_pool_attr forward_attr(const sr_node_view *node) {
    sr_pool_attr attr = *(const sr_pool_attr *)node->attr;
    attr.h = attr.w = 0;
    return attr;
}

// ---- maxpool2d: x -> y, index ----

sr_status sr_op_maxpool_infer(const sr_node_view *node, const sr_pool_attr *a, const sr_info *x,
                              sr_info *y, sr_info *index) {
    sr_pool_params p;
    SR_TRY(sr_op_pool_params(node, a, x, NULL, &p));
    if ((int64_t)a->window_h * a->window_w > MAX_WINDOW)
        return SR_FAIL(SR_E_SHAPE,
                       "%s: a window of %dx%d has more than %d elements; pool in several steps",
                       node->op->name, a->window_h, a->window_w, MAX_WINDOW);
    *y = *index = (sr_info){.dtype = x->dtype, .rank = 4, .dim = {p.n, p.p, p.q, p.c}};
    index->dtype = SR_U8;
    return SR_OK;
}

static sr_status max_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    return sr_op_maxpool_infer(node, node->attr, &node->in[0], &out[0], &out[1]);
}

static sr_status max_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower_forward(node, request, SR_KERNEL_maxpool2d);
}

static void max_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_pool_attr attr = gradient_attr(node);
    if (wanted[0] && !sr_is_none(grad_out[0]))
        grad_in[0] = sr_op_binary(&sr_op_maxpool2d_grad, &attr, grad_out[0], node->output[1]);
}

const sr_op sr_op_maxpool2d = {
    SR_OP_HEAD,
    .name = "maxpool2d",
    .help = "the largest value of each window",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 2,
    .attr_size = sizeof(sr_pool_attr),
    .fields = fields,
    .infer = max_infer,
    .lower = max_lower,
    .derivative = max_derivative,
    .keeps_outputs = 2u,
    .once = true,
};

sr_status sr_op_expect_index(const sr_node_view *node, int i, const sr_info *dy) {
    if (node->in[i].dtype == SR_U8 && sr_op_same_shape(dy, &node->in[i]))
        return SR_OK;
    char left[SR_INFO_TEXT], right[SR_INFO_TEXT];
    return SR_FAIL(SR_E_SHAPE, "%s: index %s must be u8 in the shape of dy %s", node->op->name,
                   sr_info_text(&node->in[i], right), sr_info_text(dy, left));
}

static sr_status max_grad_infer(const sr_node_view *node, sr_info *out) {
    SR_TRY(infer_gradient(node, out));
    return sr_op_expect_index(node, 1, &node->in[0]);
}

static sr_status max_grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower_gradient(node, request, SR_KERNEL_maxpool2d_grad);
}

const sr_op sr_op_maxpool2d_grad = {
    SR_OP_HEAD,
    .name = "maxpool2d_grad",
    .help = "gradient of maxpool2d",
    .inputs = 2,
    .input_name = {"dy", "index"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(sr_pool_attr),
    .fields = fields,
    .infer = max_grad_infer,
    .lower = max_grad_lower,
};

// ---- avgpool2d ----

static sr_status avg_infer(const sr_node_view *node, sr_info *out) {
    sr_pool_params p;
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    SR_TRY(sr_op_pool_params(node, node->attr, &node->in[0], NULL, &p));
    out[0] = (sr_info){.dtype = node->in[0].dtype, .rank = 4, .dim = {p.n, p.p, p.q, p.c}};
    return SR_OK;
}

static sr_status avg_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower_forward(node, request, SR_KERNEL_avgpool2d);
}

static void avg_derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                           const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_pool_attr attr = gradient_attr(node);
    if (wanted[0])
        grad_in[0] = sr_op_unary(&sr_op_avgpool2d_grad, &attr, grad_out[0]);
}

const sr_op sr_op_avgpool2d = {
    SR_OP_HEAD,
    .name = "avgpool2d",
    .help = "the mean of each window, padding not counted",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(sr_pool_attr),
    .fields = fields,
    .infer = avg_infer,
    .lower = avg_lower,
    .derivative = avg_derivative,
};

static sr_status avg_grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower_gradient(node, request, SR_KERNEL_avgpool2d_grad);
}

static void avg_grad_derivative(sr_context *context, const sr_node_view *node,
                                const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_pool_attr attr = forward_attr(node);
    if (wanted[0])
        grad_in[0] = sr_op_unary(&sr_op_avgpool2d, &attr, grad_out[0]);
}

const sr_op sr_op_avgpool2d_grad = {
    SR_OP_HEAD,
    .name = "avgpool2d_grad",
    .help = "gradient of avgpool2d",
    .inputs = 1,
    .input_name = {"dy"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(sr_pool_attr),
    .fields = fields,
    .infer = infer_gradient,
    .lower = avg_grad_lower,
    .derivative = avg_grad_derivative,
};

// ---- Model code ----

static int gap_of(int dilation) {
    return dilation > 0 ? dilation - 1 : dilation; // 0: dense
}

static sr_pool_attr attr_of(sr_pool2d_opts opts) {
    const int window_w = opts.window_w == 0 ? opts.window : opts.window_w;
    const int stride_w = opts.stride_w == 0 ? opts.stride : opts.stride_w;
    return (sr_pool_attr){.window_h = opts.window,
                          .window_w = window_w,
                          .stride_h = opts.stride == 0 ? opts.window : opts.stride,
                          .stride_w = stride_w == 0 ? window_w : stride_w,
                          .pad_h = opts.pad,
                          .pad_w = opts.has_pad_w ? opts.pad_w : opts.pad,
                          .gap_h = gap_of(opts.dilation),
                          .gap_w = gap_of(opts.dilation_w == 0 ? opts.dilation : opts.dilation_w),
                          .ceil_mode = opts.ceil_mode,
                          .extra_h = opts.extra_bottom,
                          .extra_w = opts.extra_right,
                          .same = opts.same};
}

static sr_pool_attr whole_attr(int64_t h, int64_t w) {
    return (sr_pool_attr){.window_h = (int32_t)h,
                          .window_w = (int32_t)w,
                          .stride_h = (int32_t)h,
                          .stride_w = (int32_t)w};
}

static sr_tensor record_max(const sr_pool_attr *attr, sr_tensor x) {
    sr_tensor out[2] = {SR_NONE, SR_NONE};
    sr_op_record(&sr_op_maxpool2d, attr, &x, out);
    return out[0];
}

sr_tensor sr_maxpool2d(sr_tensor x, sr_pool2d_opts opts) {
    const sr_pool_attr attr = attr_of(opts);
    if (opts.count_pad)
        return sr_op_refused(SR_FAIL(SR_E_SHAPE, "count_pad is for average pooling"), "maxpool2d");
    return record_max(&attr, x);
}

// Whether there is padding that sr_op_avgpool2d would accept.
static bool pads_count(const sr_pool_attr *a) {
    return (a->pad_h > 0 || a->pad_w > 0 || a->extra_h > 0 || a->extra_w > 0) && a->pad_h >= 0 &&
           a->pad_w >= 0 && a->pad_h <= a->window_h / 2 && a->pad_w <= a->window_w / 2 &&
           a->extra_h >= 0 && a->extra_w >= 0;
}

// Padding that counts is a part of the picture: zeros around it.
sr_tensor sr_avgpool2d(sr_tensor x, sr_pool2d_opts opts) {
    sr_pool_attr attr = attr_of(opts);
    if (attr.gap_h != 0 || attr.gap_w != 0)
        return sr_op_refused(SR_FAIL(SR_E_SHAPE, "dilation is for maximum pooling"), "avgpool2d");
    if (opts.count_pad && opts.same)
        return sr_op_refused(SR_FAIL(SR_E_SHAPE, "'same' has padding that does not count"),
                             "avgpool2d");
    if (opts.count_pad && pads_count(&attr)) {
        attr.after_h = attr.pad_h + attr.extra_h;
        attr.after_w = attr.pad_w + attr.extra_w;
        x = sr_pad2d(
            x, (sr_pad2d_opts){attr.pad_h, attr.after_h, attr.pad_w, attr.after_w, SR_PAD_ZERO});
        attr.pad_h = attr.pad_w = attr.extra_h = attr.extra_w = 0;
    }
    return sr_op_unary(&sr_op_avgpool2d, &attr, x);
}

// ---- Windows that cover the picture ----

// False after an error, which sticks.
static bool expect_adaptive(sr_tensor x, const char *name, int height, int width, sr_info *info) {
    char what[48], text[SR_INFO_TEXT];
    (void)snprintf(what, sizeof what, "%s: x", name);
    if (!sr_op_argument(x, what, info))
        return false;
    if (info->rank == 4 && height >= 1 && width >= 1)
        return true;
    (void)sr_op_refused(SR_FAIL(SR_E_SHAPE,
                                "x %s to %d x %d pixels: it must be [N,H,W,C], and the size "
                                "positive",
                                sr_info_text(info, text), height, width),
                        name);
    return false;
}

// Whether the windows have one size, that of 'attr'; others overlap by a pixel here and there.
static bool is_regular(const sr_info *x, int height, int width, sr_pool_attr *attr) {
    *attr = whole_attr(x->dim[1] / height, x->dim[2] / width);
    return x->dim[1] % height == 0 && x->dim[2] % width == 0;
}

sr_tensor sr_adaptive_avgpool2d(sr_tensor x, int height, int width) {
    sr_info info;
    sr_pool_attr attr;
    if (!expect_adaptive(x, "adaptive_avgpool2d", height, width, &info))
        return sr_op_failed();
    if (is_regular(&info, height, width, &attr))
        return sr_op_unary(&sr_op_avgpool2d, &attr, x);
    return sr_resize2d(
        x, (sr_resize2d_opts){.height = height, .width = width, .mode = SR_RESIZE_AREA});
}

// Maxima of 'count' windows that cover dimension 'axis', of extent n.
static sr_tensor maxima_along(sr_tensor x, int axis, int64_t n, int64_t count) {
    sr_tensor piece[MAX_WINDOW];
    for (int64_t i = 0; i < count; i++) {
        const int64_t begin = i * n / count, end = ((i + 1) * n + count - 1) / count;
        piece[i] = sr_max_over(sr_slice(x, axis, begin, end - begin, 1), axis, true).value;
    }
    return sr_concat(piece, (int)count, axis);
}

sr_tensor sr_adaptive_maxpool2d(sr_tensor x, int height, int width) {
    sr_info info;
    sr_pool_attr attr;
    if (!expect_adaptive(x, "adaptive_maxpool2d", height, width, &info))
        return sr_op_failed();
    if (height > MAX_WINDOW || width > MAX_WINDOW)
        return sr_op_refused(
            SR_FAIL(SR_E_SHAPE, "%d x %d pixels; a side has at most %d", height, width, MAX_WINDOW),
            "adaptive_maxpool2d");
    if (is_regular(&info, height, width, &attr) &&
        (int64_t)attr.window_h * attr.window_w <= MAX_WINDOW)
        return record_max(&attr, x);
    return maxima_along(maxima_along(x, 1, info.dim[1], height), 2, info.dim[2], width);
}

// [N,1,1,C] -> [N,C]
static sr_tensor without_pixels(sr_tensor y, const sr_info *x) {
    const int64_t dim[2] = {x->dim[0], x->dim[3]};
    return sr_reshape(y, 2, dim);
}

sr_tensor sr_global_avgpool(sr_tensor x) {
    sr_info info;
    if (!sr_op_argument(x, "global_avgpool: x", &info))
        return sr_op_failed();
    const sr_pool_attr attr = whole_attr(info.dim[1], info.dim[2]);
    return without_pixels(sr_op_unary(&sr_op_avgpool2d, &attr, x), &info);
}

// Windows that are too large for the one-byte index are pooled along rows, then along the column:
// the maximum is the same, and so is its first position.
sr_tensor sr_global_maxpool(sr_tensor x) {
    sr_info info;
    if (!sr_op_argument(x, "global_maxpool: x", &info))
        return sr_op_failed();
    sr_pool_attr attr = whole_attr(info.dim[1], info.dim[2]);
    if (info.dim[1] * info.dim[2] > MAX_WINDOW) {
        attr = whole_attr(1, info.dim[2]);
        x = record_max(&attr, x);
        attr = whole_attr(info.dim[1], 1);
    }
    return without_pixels(record_max(&attr, x), &info);
}
