// SPDX-License-Identifier: Apache-2.0
// upfirdn2d: filtered up- and downsampling (Karras et al. 2020). It is linear in the picture, and
// its gradient is upfirdn2d with the factors exchanged and the filter reversed; so there are
// derivatives of any order. The filter gets no gradient.
#include "graph/ops/op_internal.h"

typedef struct upfirdn_attr {
    int64_t h, w; // of the result
    int32_t up_h, up_w, down_h, down_w, pad_top, pad_left;
    int32_t flip, reserved;
} upfirdn_attr;

static const sr_attr_field fields[] = {SR_ATTR(upfirdn_attr, h, 1, SR_ATTR_EXTENT),
                                       SR_ATTR(upfirdn_attr, w, 1, SR_ATTR_EXTENT),
                                       SR_ATTR(upfirdn_attr, up_h, 1, SR_ATTR_SIDE),
                                       SR_ATTR(upfirdn_attr, up_w, 1, SR_ATTR_SIDE),
                                       SR_ATTR(upfirdn_attr, down_h, 1, SR_ATTR_SIDE),
                                       SR_ATTR(upfirdn_attr, down_w, 1, SR_ATTR_SIDE),
                                       SR_ATTR(upfirdn_attr, pad_top, -SR_ATTR_SIDE, SR_ATTR_SIDE),
                                       SR_ATTR(upfirdn_attr, pad_left, -SR_ATTR_SIDE, SR_ATTR_SIDE),
                                       SR_ATTR(upfirdn_attr, flip, 0, SR_ATTR_FLAG),
                                       {0}};

enum { MOST = 1 << 20 }; // of factors and padding

static bool is_factor(int32_t factor) {
    return factor >= 1 && factor <= MOST;
}

static bool is_padding(int64_t pad) {
    return pad >= -MOST && pad <= MOST;
}

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const upfirdn_attr *a = node->attr;
    const sr_info *x = &node->in[0], *filter = &node->in[1];
    char xt[SR_INFO_TEXT], ft[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    if (filter->rank != 2 || filter->dtype != sr_op_parameter_dtype(x->dtype) ||
        filter->dim[0] > MOST || filter->dim[1] > MOST)
        return SR_FAIL(SR_E_SHAPE, "%s: filter %s must be %s [R,S]", node->op->name,
                       sr_info_text(filter, ft), sr_dtype_name(sr_op_parameter_dtype(x->dtype)));
    if (!is_factor(a->up_h) || !is_factor(a->up_w) || !is_factor(a->down_h) ||
        !is_factor(a->down_w) || !is_padding(a->pad_top) || !is_padding(a->pad_left)) {
        return SR_FAIL(SR_E_SHAPE,
                       "%s: up %dx%d, down %dx%d, padding %d and %d: factors are 1 to %d, and "
                       "padding is less than that",
                       node->op->name, a->up_h, a->up_w, a->down_h, a->down_w, a->pad_top,
                       a->pad_left, MOST);
    }
    if (a->h < 1 || a->w < 1 || a->h > INT32_MAX || a->w > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE, "%s: x %s and filter %s give %lld x %lld pixels", node->op->name,
                       sr_info_text(x, xt), sr_info_text(filter, ft), (long long)a->h,
                       (long long)a->w);
    out[0] = *x;
    out[0].dim[1] = a->h;
    out[0].dim[2] = a->w;
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    const upfirdn_attr *a = node->attr;
    const sr_info *x = &node->in[0], *filter = &node->in[1];
    const sr_upfirdn_params p = {.n = x->dim[0],
                                 .h = x->dim[1],
                                 .w = x->dim[2],
                                 .c = x->dim[3],
                                 .p = a->h,
                                 .q = a->w,
                                 .r = filter->dim[0],
                                 .s = filter->dim[1],
                                 .up_h = a->up_h,
                                 .up_w = a->up_w,
                                 .down_h = a->down_h,
                                 .down_w = a->down_w,
                                 .pad_top = a->pad_top,
                                 .pad_left = a->pad_left,
                                 .flip = a->flip};
    return sr_op_lower(request, SR_KERNEL_upfirdn2d, &p, sizeof p);
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const upfirdn_attr *a = node->attr;
    const sr_info *x = &node->in[0], *filter = &node->in[1];
    const upfirdn_attr attr = {.h = x->dim[1],
                               .w = x->dim[2],
                               .up_h = a->down_h,
                               .up_w = a->down_w,
                               .down_h = a->up_h,
                               .down_w = a->up_w,
                               .pad_top = (int32_t)filter->dim[0] - 1 - a->pad_top,
                               .pad_left = (int32_t)filter->dim[1] - 1 - a->pad_left,
                               .flip = !a->flip};
    if (wanted[0])
        grad_in[0] = sr_op_binary(&sr_op_upfirdn2d, &attr, grad_out[0], node->input[1]);
}

static void cost(const sr_node_view *node, double *flops, double *bytes) {
    const upfirdn_attr *a = node->attr;
    const sr_info *x = &node->in[0], *y = &node->out[0];
    const double taps = (double)sr_info_count(&node->in[1]) / (double)(a->up_h * a->up_w);
    *flops = 2 * (double)sr_info_count(y) * taps;
    *bytes = (double)(sr_info_count(x) + sr_info_count(y)) * (double)sr_dtype_size(x->dtype);
}

const sr_op sr_op_upfirdn2d = {
    SR_OP_HEAD,
    .name = "upfirdn2d",
    .help = "pictures x upsampled with zeros, filtered, and downsampled",
    .inputs = 2,
    .input_name = {"x", "filter"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(upfirdn_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .derivative = derivative,
    .keeps_inputs = 2u,
    .stops = 2u, // filter
    .cost = cost,
};

static int32_t or_one(int factor) {
    return factor == 0 ? 1 : factor;
}

// Pixels of a side of the result.
static int64_t side_of(int64_t size, int64_t up, int64_t down, int64_t pads, int64_t taps) {
    return down < 1 ? 0 : sr_op_positions(size * up, pads, taps, 1, down);
}

sr_tensor sr_upfirdn2d(sr_tensor x, sr_tensor filter, sr_upfirdn2d_opts o) {
    sr_info xi, fi;
    if (!sr_op_argument(x, "upfirdn2d: x", &xi) ||
        !sr_op_argument(filter, "upfirdn2d: filter", &fi))
        return sr_op_failed();
    upfirdn_attr attr = {.up_h = or_one(o.up),
                         .down_h = or_one(o.down),
                         .pad_top = o.top,
                         .pad_left = o.left,
                         .flip = !o.correlate};
    attr.up_w = o.up_w == 0 ? attr.up_h : o.up_w;
    attr.down_w = o.down_w == 0 ? attr.down_h : o.down_w;
    if (xi.rank == 4 && fi.rank == 2) { // else the operator refuses
        attr.h = side_of(xi.dim[1], attr.up_h, attr.down_h, (int64_t)o.top + o.bottom, fi.dim[0]);
        attr.w = side_of(xi.dim[2], attr.up_w, attr.down_w, (int64_t)o.left + o.right, fi.dim[1]);
    }
    const sr_tensor scaled = o.gain == 0 || o.gain == 1 ? filter : sr_scale(filter, o.gain, 0);
    return sr_op_binary(&sr_op_upfirdn2d, &attr, x, scaled);
}
