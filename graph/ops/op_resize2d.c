// SPDX-License-Identifier: Apache-2.0
// Resizing of pictures by the rules of kernels/resize.h. It is linear: resize2d and its gradient
// are each other's derivative. upsample2d has a kernel of its own, which copies, for nearest
// upsampling by an integer factor.
#include "graph/ops/op_internal.h"

typedef struct resize_attr {
    int64_t h, w;          // of the result
    double step_h, step_w; // as in sr_resize_params
    int32_t filter, corners, antialias, reserved;
} resize_attr;

static const sr_attr_field fields[] = {SR_ATTR(resize_attr, h, 1, SR_ATTR_EXTENT),
                                       SR_ATTR(resize_attr, w, 1, SR_ATTR_EXTENT),
                                       SR_ATTR(resize_attr, step_h, -1e300, 1e300),
                                       SR_ATTR(resize_attr, step_w, -1e300, 1e300),
                                       SR_ATTR(resize_attr, filter, 0, SR_FILTER_AREA),
                                       SR_ATTR(resize_attr, corners, 0, SR_ATTR_FLAG),
                                       SR_ATTR(resize_attr, antialias, 0, SR_ATTR_FLAG),
                                       {0}};

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const resize_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, node->op->input_name[0], 4));
    if (a->h < 1 || a->w < 1 || a->h > INT32_MAX || a->w > INT32_MAX || x->dim[1] > INT32_MAX ||
        x->dim[2] > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE, "%s: %s %s to %lld x %lld pixels: a side has 1 to %d",
                       node->op->name, node->op->input_name[0], sr_info_text(x, text),
                       (long long)a->h, (long long)a->w, INT32_MAX);
    out[0] = *x;
    out[0].dim[1] = a->h;
    out[0].dim[2] = a->w;
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel,
                       const sr_info *x, const sr_info *y) {
    const resize_attr *a = node->attr;
    const sr_resize_params p = {.n = x->dim[0],
                                .h = x->dim[1],
                                .w = x->dim[2],
                                .c = x->dim[3],
                                .p = y->dim[1],
                                .q = y->dim[2],
                                .step_h = a->step_h,
                                .step_w = a->step_w,
                                .filter = a->filter,
                                .corners = a->corners,
                                .antialias = a->antialias};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

static sr_status resize_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_resize2d, &node->in[0], &node->out[0]);
}

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_resize2d_grad, &node->out[0], &node->in[0]);
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    resize_attr attr = *(const resize_attr *)node->attr;
    attr.h = node->in[0].dim[1];
    attr.w = node->in[0].dim[2];
    if (wanted[0])
        grad_in[0] =
            sr_op_unary(node->op == &sr_op_resize2d ? &sr_op_resize2d_grad : &sr_op_resize2d, &attr,
                        grad_out[0]);
}

const sr_op sr_op_resize2d = {
    SR_OP_HEAD,
    .name = "resize2d",
    .help = "pictures x, resized",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(resize_attr),
    .fields = fields,
    .infer = infer,
    .lower = resize_lower,
    .derivative = derivative,
};

const sr_op sr_op_resize2d_grad = {
    SR_OP_HEAD,
    .name = "resize2d_grad",
    .help = "gradient of resize2d",
    .inputs = 1,
    .input_name = {"dy"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(resize_attr),
    .fields = fields,
    .infer = infer,
    .lower = grad_lower,
    .derivative = derivative,
};

// ---- Call ----

static const int32_t filters[] = {
    [SR_RESIZE_NEAREST] = SR_FILTER_NEAREST, [SR_RESIZE_NEAREST_EXACT] = SR_FILTER_NEAREST_EXACT,
    [SR_RESIZE_BILINEAR] = SR_FILTER_LINEAR, [SR_RESIZE_BICUBIC] = SR_FILTER_CUBIC,
    [SR_RESIZE_AREA] = SR_FILTER_AREA,
};

static bool interpolates(const sr_resize2d_opts *o) {
    return o->mode == SR_RESIZE_BILINEAR || o->mode == SR_RESIZE_BICUBIC;
}

// What is wrong with the options; NULL: nothing.
static const char *problem_of(const sr_info *x, const sr_resize2d_opts *o) {
    const bool by_size = o->height > 0 && o->width > 0;
    const bool by_scale = o->height == 0 && o->width == 0 && o->scale > 0 && o->scale_w >= 0;
    if (x->rank != 4)
        return "it must be [N,H,W,C]";
    if (by_size ? o->scale != 0 || o->scale_w != 0 : !by_scale)
        return "either height and width or scale must be given, and be positive";
    if ((unsigned)o->mode > SR_RESIZE_AREA)
        return "the mode is not one of sr_resize_mode";
    if ((o->align_corners || o->antialias) && !interpolates(o))
        return "align_corners and antialias are for bilinear and bicubic";
    return NULL;
}

// Pixels of a side of the result, beyond the limit of a side where the scale gives more.
static int64_t side_of(int64_t in, int size, double scale) {
    const double pixels = (double)in * scale;
    return size > 0 ? size : pixels < (double)INT32_MAX ? (int64_t)pixels : INT64_MAX;
}

// Whether torch ignores the scale: bilinear and nearest copy pixels if their number does not
// change, and nearest makes exactly two of each if it doubles.
static bool follows_size(const sr_resize2d_opts *o, int64_t in, int64_t out) {
    const bool nearest = o->mode == SR_RESIZE_NEAREST;
    const bool linear = o->mode == SR_RESIZE_BILINEAR && !o->antialias;
    return ((nearest || linear) && out == in) || (nearest && out == 2 * in);
}

static double step_of(const sr_resize2d_opts *o, int64_t in, int64_t out, double scale) {
    if (o->align_corners)
        return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    return scale > 0 && !follows_size(o, in, out) ? 1 / scale : (double)in / (double)out;
}

sr_tensor sr_resize2d(sr_tensor x, sr_resize2d_opts o) {
    sr_info info;
    char text[SR_INFO_TEXT];
    if (!sr_op_argument(x, "resize2d: x", &info))
        return sr_op_failed();
    const char *problem = problem_of(&info, &o);
    if (problem != NULL)
        return sr_op_refused(SR_FAIL(SR_E_SHAPE, "x %s to %d x %d pixels, or %g times its size: %s",
                                     sr_info_text(&info, text), o.height, o.width, o.scale,
                                     problem),
                             "resize2d");
    const double scale_w = o.scale_w > 0 ? o.scale_w : o.scale;
    resize_attr attr = {.h = side_of(info.dim[1], o.height, o.scale),
                        .w = side_of(info.dim[2], o.width, scale_w),
                        .filter = filters[o.mode],
                        .corners = o.align_corners,
                        .antialias = o.antialias};
    attr.step_h = step_of(&o, info.dim[1], attr.h, o.scale);
    attr.step_w = step_of(&o, info.dim[2], attr.w, scale_w);
    return sr_op_unary(&sr_op_resize2d, &attr, x);
}
