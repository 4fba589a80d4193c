// SPDX-License-Identifier: Apache-2.0
// roi_align: boxes of pictures in one size, by the rules of kernels/roi.h. It is linear in the
// picture: roi_align and its gradient are each other's derivative. Boxes get no gradient, as in
// torchvision.
#include "graph/ops/op_internal.h"

typedef struct roi_attr {
    int64_t n, h, w; // roi_align_grad: of dx
    int32_t p, q;    // roi_align: of y
    double scale;
    int32_t samples, aligned;
} roi_attr;

static const sr_attr_field fields[] = {SR_ATTR(roi_attr, n, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(roi_attr, h, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(roi_attr, w, 0, SR_ATTR_EXTENT),
                                       SR_ATTR(roi_attr, p, 0, SR_ATTR_SIDE),
                                       SR_ATTR(roi_attr, q, 0, SR_ATTR_SIDE),
                                       SR_ATTR(roi_attr, scale, -1e300, 1e300),
                                       SR_ATTR(roi_attr, samples, 0, SR_ATTR_SIDE),
                                       SR_ATTR(roi_attr, aligned, 0, SR_ATTR_FLAG),
                                       {0}};

static sr_status expect_rois(const sr_node_view *node) {
    const sr_info *boxes = &node->in[1], *image = &node->in[2];
    const sr_dtype want = sr_op_parameter_dtype(node->in[0].dtype);
    char bt[SR_INFO_TEXT], it[SR_INFO_TEXT];
    if (boxes->dtype != want || boxes->rank != 2 || boxes->dim[1] != 4 || image->dtype != SR_I32 ||
        image->rank != 1 || image->dim[0] != boxes->dim[0])
        return SR_FAIL(SR_E_SHAPE, "%s: boxes %s must be %s [R,4], image %s i32 [R]",
                       node->op->name, sr_info_text(boxes, bt), sr_dtype_name(want),
                       sr_info_text(image, it));
    return SR_OK;
}

static sr_status expect_options(const sr_node_view *node, const sr_info *x, const sr_info *y) {
    const roi_attr *a = node->attr;
    char xt[SR_INFO_TEXT];
    if (x->dim[0] >= 1 && x->dim[0] <= INT32_MAX && x->dim[1] >= 1 && x->dim[1] <= INT32_MAX &&
        x->dim[2] >= 1 && x->dim[2] <= INT32_MAX && y->dim[0] <= INT32_MAX && y->dim[1] >= 1 &&
        y->dim[2] >= 1 && a->samples >= 0 && a->samples <= 1024 && a->scale > 0)
        return SR_OK;
    return SR_FAIL(SR_E_SHAPE,
                   "%s: %lld boxes of x %s to %lld x %lld pixels with %d samples and scale %g: "
                   "size and scale must be positive, samples 0 to 1024, extents at most %d",
                   node->op->name, (long long)y->dim[0], sr_info_text(x, xt), (long long)y->dim[1],
                   (long long)y->dim[2], a->samples, a->scale, INT32_MAX);
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request, sr_kernel_id kernel,
                       const sr_info *x, const sr_info *y) {
    const roi_attr *a = node->attr;
    const sr_roi_params p = {.n = x->dim[0],
                             .h = x->dim[1],
                             .w = x->dim[2],
                             .c = x->dim[3],
                             .rois = y->dim[0],
                             .p = y->dim[1],
                             .q = y->dim[2],
                             .scale = a->scale,
                             .samples = a->samples,
                             .aligned = a->aligned};
    return sr_op_lower(request, kernel, &p, sizeof p);
}

// ---- roi_align: x, boxes, image -> y ----

static sr_status align_infer(const sr_node_view *node, sr_info *out) {
    const roi_attr *a = node->attr;
    SR_TRY(sr_op_expect_activation(node, 0, "x", 4));
    SR_TRY(expect_rois(node));
    out[0] = (sr_info){.dtype = node->in[0].dtype,
                       .rank = 4,
                       .dim = {node->in[1].dim[0], a->p, a->q, node->in[0].dim[3]}};
    return expect_options(node, &node->in[0], &out[0]);
}

static sr_status align_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_roi_align, &node->in[0], &node->out[0]);
}

static void align_derivative(sr_context *context, const sr_node_view *node,
                             const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const sr_info *x = &node->in[0];
    roi_attr attr = *(const roi_attr *)node->attr;
    attr.n = x->dim[0];
    attr.h = x->dim[1];
    attr.w = x->dim[2];
    attr.p = attr.q = 0;
    if (wanted[0])
        grad_in[0] = sr_op_record_one(&sr_op_roi_align_grad, &attr,
                                      (sr_tensor[]){grad_out[0], node->input[1], node->input[2]});
}

const sr_op sr_op_roi_align = {
    SR_OP_HEAD,
    .name = "roi_align",
    .help = "regions of x resampled to one size by bilinear interpolation",
    .inputs = 3,
    .input_name = {"x", "boxes", "image"},
    .required = 3,
    .outputs = 1,
    .attr_size = sizeof(roi_attr),
    .fields = fields,
    .infer = align_infer,
    .lower = align_lower,
    .derivative = align_derivative,
    .keeps_inputs = 6u,
    .stops = 6u, // boxes and image
};

// ---- roi_align_grad: dy, boxes, image -> dx ----

static sr_status grad_infer(const sr_node_view *node, sr_info *out) {
    const roi_attr *a = node->attr;
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "dy", 4));
    SR_TRY(expect_rois(node));
    if (node->in[0].dim[0] != node->in[1].dim[0])
        return SR_FAIL(SR_E_SHAPE, "%s: dy %s must have a picture for each of %lld boxes",
                       node->op->name, sr_info_text(&node->in[0], text),
                       (long long)node->in[1].dim[0]);
    out[0] = (sr_info){
        .dtype = node->in[0].dtype, .rank = 4, .dim = {a->n, a->h, a->w, node->in[0].dim[3]}};
    return expect_options(node, &out[0], &node->in[0]);
}

static sr_status grad_lower(const sr_node_view *node, sr_kernel_request *request) {
    return lower(node, request, SR_KERNEL_roi_align_grad, &node->out[0], &node->in[0]);
}

static void grad_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    roi_attr attr = *(const roi_attr *)node->attr;
    attr.p = (int32_t)node->in[0].dim[1];
    attr.q = (int32_t)node->in[0].dim[2];
    attr.n = attr.h = attr.w = 0;
    if (wanted[0])
        grad_in[0] = sr_op_record_one(&sr_op_roi_align, &attr,
                                      (sr_tensor[]){grad_out[0], node->input[1], node->input[2]});
}

const sr_op sr_op_roi_align_grad = {
    SR_OP_HEAD,
    .name = "roi_align_grad",
    .help = "gradient of roi_align",
    .inputs = 3,
    .input_name = {"dy", "boxes", "image"},
    .required = 3,
    .outputs = 1,
    .attr_size = sizeof(roi_attr),
    .fields = fields,
    .infer = grad_infer,
    .lower = grad_lower,
    .derivative = grad_derivative,
    .keeps_inputs = 6u,
    .stops = 6u, // boxes and image
};

sr_tensor sr_roi_align(sr_tensor x, sr_tensor boxes, sr_tensor image, sr_roi_align_opts opts) {
    const roi_attr attr = {.p = opts.height,
                           .q = opts.width == 0 ? opts.height : opts.width,
                           .scale = opts.scale == 0 ? 1 : opts.scale,
                           .samples = opts.samples,
                           .aligned = opts.aligned};
    return sr_op_record_one(&sr_op_roi_align, &attr, (sr_tensor[]){x, boxes, image});
}
