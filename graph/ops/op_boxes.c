// SPDX-License-Identifier: Apache-2.0
// Boxes: their overlaps, which consist of formulas and so have derivatives of any order, and which
// of them non-maximum suppression keeps.
#include <math.h>

#include "graph/ops/op_internal.h"

// ---- nms: boxes, scores, order, classes -> index, count ----

typedef struct nms_attr {
    int64_t capacity;
    double overlap, above;
    int32_t only_above, reserved;
} nms_attr;

static const sr_attr_field fields[] = {SR_ATTR(nms_attr, capacity, 1, SR_ATTR_EXTENT),
                                       SR_ATTR(nms_attr, overlap, -1e300, 1e300),
                                       SR_ATTR(nms_attr, above, -HUGE_VAL, HUGE_VAL),
                                       SR_ATTR(nms_attr, only_above, 0, SR_ATTR_FLAG),
                                       {0}};

// Input i is i32 in the shape of the scores.
static sr_status expect_numbers(const sr_node_view *node, int i) {
    char text[SR_INFO_TEXT], scores[SR_INFO_TEXT];
    if (node->in[i].dtype == SR_I32 && sr_op_same_shape(&node->in[i], &node->in[1]))
        return SR_OK;
    return SR_FAIL(SR_E_SHAPE, "%s: %s %s must be i32 in the shape of scores %s", node->op->name,
                   node->op->input_name[i], sr_info_text(&node->in[i], text),
                   sr_info_text(&node->in[1], scores));
}

static sr_status nms_infer(const sr_node_view *node, sr_info *out) {
    const nms_attr *a = node->attr;
    const sr_info *boxes = &node->in[0], *scores = &node->in[1];
    char bt[SR_INFO_TEXT], st[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "boxes", 3));
    SR_TRY(sr_op_expect_activation(node, 1, "scores", 2));
    if (boxes->dtype != scores->dtype || boxes->dim[0] != scores->dim[0] ||
        boxes->dim[1] != scores->dim[1] || boxes->dim[2] != 4)
        return SR_FAIL(SR_E_SHAPE, "%s: boxes %s must be [N,M,4] and scores %s [N,M], of one dtype",
                       node->op->name, sr_info_text(boxes, bt), sr_info_text(scores, st));
    SR_TRY(expect_numbers(node, 2));
    if (sr_op_present(node, 3))
        SR_TRY(expect_numbers(node, 3));
    if (a->capacity < 1 || a->capacity > INT32_MAX || boxes->dim[1] > INT32_MAX)
        return SR_FAIL(SR_E_SHAPE, "%s: %lld of boxes %s; 1 to %d are possible", node->op->name,
                       (long long)a->capacity, sr_info_text(boxes, bt), INT32_MAX);
    out[0] = (sr_info){.dtype = SR_I32, .rank = 2, .dim = {boxes->dim[0], a->capacity}};
    out[1] = (sr_info){.dtype = SR_I32, .rank = 1, .dim = {boxes->dim[0]}};
    return SR_OK;
}

static sr_status nms_lower(const sr_node_view *node, sr_kernel_request *request) {
    const nms_attr *a = node->attr;
    const sr_nms_params p = {.samples = node->in[0].dim[0],
                             .boxes = node->in[0].dim[1],
                             .capacity = a->capacity,
                             .overlap = a->overlap,
                             .above = a->above,
                             .only_above = a->only_above};
    return sr_op_lower(request, SR_KERNEL_nms, &p, sizeof p);
}

const sr_op sr_op_nms = {
    SR_OP_HEAD,
    .name = "nms",
    .help = "non-maximum suppression: indices of the boxes that are kept, and their number",
    .inputs = 4,
    .input_name = {"boxes", "scores", "order", "classes"},
    .required = 3,
    .outputs = 2,
    .attr_size = sizeof(nms_attr),
    .fields = fields,
    .infer = nms_infer,
    .lower = nms_lower,
    .stops = 15u, // indices are step functions
};

sr_kept sr_nms(sr_tensor boxes, sr_tensor scores, sr_tensor classes, sr_nms_opts opts) {
    sr_info info;
    sr_tensor out[2] = {SR_NONE, SR_NONE};
    if (!sr_op_argument(boxes, "nms: boxes", &info) || !sr_op_argument(scores, "nms: scores", NULL))
        return (sr_kept){sr_op_failed(), sr_op_failed()};
    const nms_attr attr = {.capacity =
                               opts.capacity == 0 && info.rank > 1 ? info.dim[1] : opts.capacity,
                           .overlap = opts.overlap,
                           .above = opts.above,
                           .only_above = opts.only_above};
    const sr_tensor order = sr_argsort(scores, true);
    sr_op_record(&sr_op_nms, &attr, (sr_tensor[]){boxes, scores, order, classes}, out);
    return (sr_kept){out[0], out[1]};
}

// ---- Overlaps ----

// One of the four numbers of each box, along dimension 'along' of the result, in which the other
// one of the two last dimensions is 1.
static sr_tensor edge(sr_tensor boxes, const sr_info *info, int which, int along) {
    int64_t dim[SR_MAX_RANK];
    const int axis = info->rank - 1;
    for (int d = 0; d < info->rank; d++)
        dim[d] = d < axis - 1 ? info->dim[d] : d == along ? info->dim[axis - 1] : 1;
    return sr_reshape(sr_slice(boxes, axis, which, 1, 1), info->rank, dim);
}

// Extents and area of what two intervals of each side share.
typedef struct box_edges {
    sr_tensor begin, end; // of a side
} box_edges;

static box_edges edges_of(sr_tensor boxes, const sr_info *info, int side, int along) {
    return (box_edges){edge(boxes, info, side, along), edge(boxes, info, side + 2, along)};
}

static sr_tensor shared(box_edges a, box_edges b) {
    return sr_relu(sr_sub(sr_minimum(a.end, b.end), sr_maximum(a.begin, b.begin)));
}

static sr_tensor area(box_edges wide, box_edges high) {
    return sr_mul(sr_sub(wide.end, wide.begin), sr_sub(high.end, high.begin));
}

static sr_status expect_boxes(const sr_info *a, const sr_info *b) {
    char at[SR_INFO_TEXT], bt[SR_INFO_TEXT];
    const int last = a->rank - 1;
    bool fits = a->rank >= 2 && a->rank == b->rank && a->dtype == b->dtype &&
                sr_dtype_is_float(a->dtype) && a->dim[last] == 4 && b->dim[last] == 4;
    for (int d = 0; d < last - 1; d++)
        fits = fits && a->dim[d] == b->dim[d];
    return fits ? SR_OK
                : SR_FAIL(SR_E_SHAPE,
                          "a %s must be [...,M,4] and b %s [...,N,4], of one float dtype",
                          sr_info_text(a, at), sr_info_text(b, bt));
}

sr_tensor sr_box_iou(sr_tensor a, sr_tensor b) {
    sr_info ai, bi;
    if (!sr_op_argument(a, "box_iou: a", &ai) || !sr_op_argument(b, "box_iou: b", &bi))
        return sr_op_failed();
    const sr_status status = expect_boxes(&ai, &bi);
    if (status != SR_OK)
        return sr_op_refused(status, "box_iou");
    const int rows = ai.rank - 2, columns = ai.rank - 1;
    const box_edges a_wide = edges_of(a, &ai, 0, rows), a_high = edges_of(a, &ai, 1, rows);
    const box_edges b_wide = edges_of(b, &bi, 0, columns), b_high = edges_of(b, &bi, 1, columns);
    const sr_tensor both = sr_mul(shared(a_wide, b_wide), shared(a_high, b_high));
    const sr_tensor sum = sr_add(area(a_wide, a_high), area(b_wide, b_high));
    return sr_div(both, sr_sub(sum, both));
}
