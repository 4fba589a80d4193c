// SPDX-License-Identifier: Apache-2.0
// Pixels near points, with their weights (kernels/taps.h), and what consists of weighted sums of
// these pixels (op_gather_sum.c): grid_sample and deformable convolution.
//
// The derivative of the weights with respect to the points is taps2d of an order more in one of the
// directions; so there are derivatives of any order, which become zero.
#include <math.h>

#include "graph/ops/op_internal.h"

typedef struct taps_attr {
    double scale_h, shift_h, scale_w, shift_w; // as in sr_taps_params, and so is the rest
    int32_t step_h, step_w, gap_h, gap_w;
    int32_t h, w, p, q, r, s;
    int32_t filter, border, corners, order_h, order_w, x_first;
} taps_attr;

static const sr_attr_field fields[] = {SR_ATTR(taps_attr, scale_h, -1e300, 1e300),
                                       SR_ATTR(taps_attr, shift_h, -1e300, 1e300),
                                       SR_ATTR(taps_attr, scale_w, -1e300, 1e300),
                                       SR_ATTR(taps_attr, shift_w, -1e300, 1e300),
                                       SR_ATTR(taps_attr, step_h, -SR_ATTR_SIDE, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, step_w, -SR_ATTR_SIDE, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, gap_h, -SR_ATTR_SIDE, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, gap_w, -SR_ATTR_SIDE, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, h, 1, SR_ATTR_EXTENT),
                                       SR_ATTR(taps_attr, w, 1, SR_ATTR_EXTENT),
                                       SR_ATTR(taps_attr, p, 1, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, q, 1, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, r, 1, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, s, 1, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, filter, 0, SR_FILTER_CUBIC),
                                       SR_ATTR(taps_attr, border, 0, SR_TAPS_REFLECT),
                                       SR_ATTR(taps_attr, corners, 0, SR_ATTR_FLAG),
                                       SR_ATTR(taps_attr, order_h, 0, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, order_w, 0, SR_ATTR_SIDE),
                                       SR_ATTR(taps_attr, x_first, 0, SR_ATTR_FLAG),
                                       {0}};

// points[N,J,K,2]: J = p q r s.
static sr_status infer(const sr_node_view *node, sr_info *out) {
    const taps_attr *a = node->attr;
    const sr_info *points = &node->in[0];
    const int64_t count = (int64_t)a->p * a->q * a->r * a->s;
    char text[SR_INFO_TEXT];
    if (points->rank != 4 || sr_op_parameter_dtype(points->dtype) != points->dtype ||
        points->dim[1] != count || points->dim[3] != 2)
        return SR_FAIL(SR_E_SHAPE, "%s: points %s must be f32 or f64 [N,%lld,K,2]", node->op->name,
                       sr_info_text(points, text), (long long)count);
    if (a->h < 1 || a->w < 1 || (int64_t)a->h * a->w > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE, "%s: a picture of %d x %d pixels; 1 to %d are possible",
                       node->op->name, a->h, a->w, INT32_MAX);
    out[0] = *points;
    out[0].dim[2] = sr_taps_share(a->filter);
    out[0].dim[3] = points->dim[2];
    out[1] = out[0];
    out[1].dtype = SR_I32;
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    const taps_attr *a = node->attr;
    const sr_taps_params p = {.n = node->in[0].dim[0],
                              .p = a->p,
                              .q = a->q,
                              .r = a->r,
                              .s = a->s,
                              .groups = node->in[0].dim[2],
                              .h = a->h,
                              .w = a->w,
                              .scale_h = a->scale_h,
                              .shift_h = a->shift_h,
                              .step_h = a->step_h,
                              .gap_h = a->gap_h,
                              .scale_w = a->scale_w,
                              .shift_w = a->shift_w,
                              .step_w = a->step_w,
                              .gap_w = a->gap_w,
                              .filter = a->filter,
                              .border = a->border,
                              .corners = a->corners,
                              .order_h = a->order_h,
                              .order_w = a->order_w,
                              .x_first = a->x_first};
    return sr_op_lower(request, SR_KERNEL_taps2d, &p, sizeof p);
}

// Records taps2d: out[0] weights, out[1] index.
static void record(const taps_attr *attr, sr_tensor points, sr_tensor out[2]) {
    out[0] = out[1] = SR_NONE;
    sr_op_record(&sr_op_taps2d, attr, &points, out);
}

// The gradient of a number of each point, [N,J,K,1]; SR_NONE: it is zero, as derivatives of higher
// orders are.
static sr_tensor gradient_of(const sr_node_view *node, sr_tensor grad, bool wide) {
    taps_attr attr = *(const taps_attr *)node->attr;
    int32_t *order = wide ? &attr.order_w : &attr.order_h;
    const int32_t most = attr.filter == SR_FILTER_CUBIC    ? 3
                         : attr.filter == SR_FILTER_LINEAR ? 1
                                                           : 0;
    sr_tensor taps[2];
    if (*order >= most)
        return SR_NONE;
    ++*order;
    record(&attr, node->input[0], taps);
    const sr_tensor sum =
        sr_sum(sr_mul(grad, taps[0]), (sr_axes){.count = 1, .axis = {2}, .keep = false});
    const sr_tensor scaled = sr_scale(sum, wide ? attr.scale_w : attr.scale_h, 0);
    return sr_reshape(
        scaled, 4,
        (const int64_t[4]){node->in[0].dim[0], node->in[0].dim[1], node->in[0].dim[2], 1});
}

// first and second, [N,J,K,1], side by side, with zeros for one that is SR_NONE.
static sr_tensor beside(sr_tensor first, sr_tensor second) {
    const bool lacks = sr_is_none(first);
    if (lacks && sr_is_none(second))
        return SR_NONE;
    if (!lacks && !sr_is_none(second))
        return sr_concat((sr_tensor[]){first, second}, 2, 3);
    return sr_pad(lacks ? second : first, (const int[4]){0, 0, 0, lacks},
                  (const int[4]){0, 0, 0, !lacks});
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (!wanted[0] || sr_is_none(grad_out[0]))
        return;
    const sr_tensor high = gradient_of(node, grad_out[0], false);
    const sr_tensor wide = gradient_of(node, grad_out[0], true);
    grad_in[0] = ((const taps_attr *)node->attr)->x_first ? beside(wide, high) : beside(high, wide);
}

const sr_op sr_op_taps2d = {
    SR_OP_HEAD,
    .name = "taps2d",
    .help = "weights and indices of the pixels near points",
    .inputs = 1,
    .input_name = {"points"},
    .required = 1,
    .outputs = 2,
    .attr_size = sizeof(taps_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .derivative = derivative,
    .keeps_inputs = 1u,
};

// x[N,H,W,C] as rows of pixels [N,H W,K,C/K].
static sr_tensor pixels_of(sr_tensor x, const sr_info *info, int64_t groups) {
    return sr_reshape(x, 4,
                      (const int64_t[4]){info->dim[0], info->dim[1] * info->dim[2], groups,
                                         info->dim[3] / groups});
}

// ---- grid_sample ----

static const int32_t filters[] = {
    [SR_SAMPLE_BILINEAR] = SR_FILTER_LINEAR,
    [SR_SAMPLE_NEAREST] = SR_FILTER_NEAREST,
    [SR_SAMPLE_BICUBIC] = SR_FILTER_CUBIC,
};
static const int32_t borders[] = {
    [SR_PAD_ZERO] = SR_TAPS_ZERO,
    [SR_PAD_REFLECT] = SR_TAPS_REFLECT,
    [SR_PAD_REPLICATE] = SR_TAPS_REPLICATE,
};

static sr_status expect_grid(const sr_info *x, const sr_info *grid,
                             const sr_grid_sample_opts *opts) {
    char xt[SR_INFO_TEXT], gt[SR_INFO_TEXT];
    if (x->rank != 4 || !sr_dtype_is_float(x->dtype) || grid->rank != 4 ||
        grid->dtype != sr_op_parameter_dtype(x->dtype) || grid->dim[0] != x->dim[0] ||
        grid->dim[3] != 2 || x->dim[1] > INT32_MAX || x->dim[2] > INT32_MAX ||
        grid->dim[1] > INT32_MAX || grid->dim[2] > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE, "x %s must be [N,H,W,C] and grid %s %s [N,P,Q,2]",
                       sr_info_text(x, xt), sr_info_text(grid, gt),
                       sr_dtype_name(sr_op_parameter_dtype(x->dtype)));
    if ((unsigned)opts->mode > SR_SAMPLE_BICUBIC || (unsigned)opts->border > SR_PAD_REPLICATE)
        return SR_FAIL(SR_E_SHAPE, "there is no mode %d or border %d", (int)opts->mode,
                       (int)opts->border);
    return SR_OK;
}

sr_tensor sr_grid_sample(sr_tensor x, sr_tensor grid, sr_grid_sample_opts opts) {
    sr_info xi, gi;
    sr_tensor taps[2];
    if (!sr_op_argument(x, "grid_sample: x", &xi) ||
        !sr_op_argument(grid, "grid_sample: grid", &gi))
        return sr_op_failed();
    const sr_status status = expect_grid(&xi, &gi, &opts);
    if (status != SR_OK)
        return sr_op_refused(status, "grid_sample");
    // -1 and 1 are the middles of the outermost pixels, or their outer edges.
    const double high = (double)xi.dim[1], wide = (double)xi.dim[2];
    const taps_attr attr = {.scale_h = (opts.align_corners ? high - 1 : high) / 2,
                            .shift_h = (high - 1) / 2,
                            .scale_w = (opts.align_corners ? wide - 1 : wide) / 2,
                            .shift_w = (wide - 1) / 2,
                            .h = (int32_t)xi.dim[1],
                            .w = (int32_t)xi.dim[2],
                            .p = (int32_t)gi.dim[1],
                            .q = (int32_t)gi.dim[2],
                            .r = 1,
                            .s = 1,
                            .filter = filters[opts.mode],
                            .border = borders[opts.border],
                            .corners = opts.align_corners,
                            .x_first = 1};
    const int64_t points[4] = {gi.dim[0], gi.dim[1] * gi.dim[2], 1, 2};
    record(&attr, sr_reshape(grid, 4, points), taps);
    const sr_tensor y = sr_gather_sum(pixels_of(x, &xi, 1), taps[1], taps[0]);
    return sr_reshape(y, 4, (const int64_t[4]){xi.dim[0], gi.dim[1], gi.dim[2], xi.dim[3]});
}

// ---- Deformable convolution ----

// What its arguments have in common.
typedef struct deform_shape {
    sr_info x, w, offset, mask;
    int64_t p, q, taps, groups; // taps: of a filter; groups: of channels with own offsets
    taps_attr attr;
} deform_shape;

static int or_one(int option) {
    return option == 0 ? 1 : option;
}

// Positions of the filter, as of sr_conv2d.
static sr_status set_geometry(const sr_conv2d_opts *o, deform_shape *s) {
    const int stride = or_one(o->stride), dilation = or_one(o->dilation);
    const int stride_w = o->stride_w == 0 ? stride : o->stride_w;
    const int dilation_w = o->dilation_w == 0 ? dilation : o->dilation_w;
    const int pad_w = o->has_pad_w ? o->pad_w : o->pad;
    char xt[SR_INFO_TEXT], wt[SR_INFO_TEXT];
    if (stride < 1 || stride_w < 1 || dilation < 1 || dilation_w < 1 || o->pad < 0 || pad_w < 0 ||
        o->extra_bottom < 0 || o->extra_right < 0)
        return SR_FAIL(SR_E_SHAPE, "stride and dilation must be positive, padding at least 0");
    const sr_op_sides high = sr_op_sides_of(s->x.dim[1], s->w.dim[2], dilation, stride, o->pad,
                                            o->extra_bottom, o->same);
    const sr_op_sides wide = sr_op_sides_of(s->x.dim[2], s->w.dim[3], dilation_w, stride_w, pad_w,
                                            o->extra_right, o->same);
    s->p = sr_op_positions(s->x.dim[1], high.before + high.after, s->w.dim[2], dilation, stride);
    s->q =
        sr_op_positions(s->x.dim[2], wide.before + wide.after, s->w.dim[3], dilation_w, stride_w);
    if (s->p < 1 || s->q < 1 || s->p > INT32_MAX || s->q > INT32_MAX || s->x.dim[1] > INT32_MAX ||
        s->x.dim[2] > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE, "w %s does not fit into x %s", sr_info_text(&s->w, wt),
                       sr_info_text(&s->x, xt));
    s->attr = (taps_attr){.scale_h = 1,
                          .shift_h = -(double)high.before,
                          .scale_w = 1,
                          .shift_w = -(double)wide.before,
                          .step_h = stride,
                          .step_w = stride_w,
                          .gap_h = dilation,
                          .gap_w = dilation_w,
                          .h = (int32_t)s->x.dim[1],
                          .w = (int32_t)s->x.dim[2],
                          .p = (int32_t)s->p,
                          .q = (int32_t)s->q,
                          .r = (int32_t)s->w.dim[2],
                          .s = (int32_t)s->w.dim[3],
                          .filter = SR_FILTER_LINEAR,
                          .border = SR_TAPS_ZERO};
    return SR_OK;
}

static bool is_map(const sr_info *map, const deform_shape *s, int64_t channels) {
    return map->rank == 4 && sr_dtype_is_float(map->dtype) && map->dim[0] == s->x.dim[0] &&
           map->dim[1] == s->p && map->dim[2] == s->q && map->dim[3] == channels;
}

static sr_status expect_deform(const sr_conv2d_opts *o, bool masked, deform_shape *s) {
    char text[SR_INFO_TEXT], more[SR_INFO_TEXT];
    if (s->x.rank != 4 || !sr_dtype_is_float(s->x.dtype) || s->w.rank != 4)
        return SR_FAIL(SR_E_SHAPE, "x %s must be [N,H,W,C] and w %s [K, C/groups, R, S]",
                       sr_info_text(&s->x, text), sr_info_text(&s->w, more));
    SR_TRY(set_geometry(o, s));
    s->taps = s->w.dim[2] * s->w.dim[3];
    s->groups = s->offset.rank == 4 ? s->offset.dim[3] / (2 * s->taps) : 0;
    if (s->groups < 1 || s->x.dim[3] % s->groups != 0 ||
        !is_map(&s->offset, s, 2 * s->taps * s->groups)) {
        return SR_FAIL(SR_E_SHAPE,
                       "offset %s must be [%lld, %lld, %lld, 2 G %lld], where G divides the %lld "
                       "channels of x",
                       sr_info_text(&s->offset, text), (long long)s->x.dim[0], (long long)s->p,
                       (long long)s->q, (long long)s->taps, (long long)s->x.dim[3]);
    }
    if (masked && !is_map(&s->mask, s, s->taps * s->groups))
        return SR_FAIL(SR_E_SHAPE, "mask %s must be [%lld, %lld, %lld, %lld]",
                       sr_info_text(&s->mask, text), (long long)s->x.dim[0], (long long)s->p,
                       (long long)s->q, (long long)(s->taps * s->groups));
    return SR_OK;
}

// A map [N,P,Q,G R S each] as [N,P Q R S,G,each], or [N,P Q R S,each,G] where 'last' is set.
static sr_tensor by_tap(sr_tensor map, const deform_shape *s, int64_t each, bool last) {
    const int64_t n = s->x.dim[0], pixels = s->p * s->q;
    map = sr_op_as_type(map, sr_op_parameter_dtype(s->x.dtype));
    map = sr_reshape(map, 4, (const int64_t[4]){n * pixels, s->groups, s->taps, each});
    if (s->groups > 1)
        map = sr_permute(map, (const int[4]){0, 2, 1, 3});
    return sr_reshape(
        map, 4,
        (const int64_t[4]){n, pixels * s->taps, last ? each : s->groups, last ? s->groups : each});
}

sr_tensor sr_deform_conv2d(sr_tensor x, sr_tensor offset, sr_tensor mask, sr_tensor w,
                           sr_tensor bias, sr_conv2d_opts opts) {
    deform_shape s = {.taps = 0};
    sr_tensor taps[2];
    const bool masked = !sr_is_none(mask);
    if (!sr_op_argument(x, "deform_conv2d: x", &s.x) ||
        !sr_op_argument(offset, "deform_conv2d: offset", &s.offset) ||
        !sr_op_argument(w, "deform_conv2d: w", &s.w) ||
        (masked && !sr_op_argument(mask, "deform_conv2d: mask", &s.mask)))
        return sr_op_failed();
    const sr_status status = expect_deform(&opts, masked, &s);
    if (status != SR_OK)
        return sr_op_refused(status, "deform_conv2d");
    record(&s.attr, by_tap(offset, &s, 2, false), taps);
    const sr_tensor weight = masked ? sr_mul(taps[0], by_tap(mask, &s, 1, true)) : taps[0];
    sr_tensor y = sr_gather_sum(pixels_of(x, &s.x, s.groups), taps[1], weight);
    // The taps of a pixel are a picture that the filter covers.
    const int64_t pixels = s.x.dim[0] * s.p * s.q;
    y = sr_reshape(y, 4, (const int64_t[4]){pixels, s.w.dim[2], s.w.dim[3], s.x.dim[3]});
    y = sr_conv2d_bias(y, w, bias, (sr_conv2d_opts){.groups = opts.groups});
    return sr_reshape(y, 4, (const int64_t[4]){s.x.dim[0], s.p, s.q, s.w.dim[0]});
}
