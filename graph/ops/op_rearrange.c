// SPDX-License-Identifier: Apache-2.0
// Moving elements: permute, slice, pad and concat, which are copies, and what consists of
// them: flips, reflected padding, pixel shuffle.
//
// slice and pad are each other's derivative: a slice takes the elements start, start + step, ... of
// each dimension, pad puts them there, within zeros.
#include <stdio.h>

#include "graph/ops/op_internal.h"

// ---- Lowering to the kernel ----

// Strides of a contiguous tensor.
static void strides_of(const sr_info *info, int64_t stride[SR_MAX_RANK]) {
    int64_t n = 1;
    for (int d = info->rank - 1; d >= 0; d--) {
        stride[d] = n;
        n *= info->dim[d];
    }
}

// A dimension of the result: positions begin, begin + every, ... below 'end' have elements of x,
// 'step' apart.
typedef struct place {
    int64_t dim, step, begin, end, every;
} place;

// Adds a dimension inside of those that the params have. It is joined with the last one where the
// elements lie one after the other; one of extent 1 is left out.
static void add_dim(sr_rearrange_params *p, place a) {
    const bool whole = a.begin == 0 && a.end == a.dim && a.every == 1;
    const int d = p->dims - 1;
    if (whole && a.dim == 1)
        return;
    if (whole && d >= 0 && p->every[d] == 1 && p->step[d] == a.step * a.dim &&
        p->dim[d] <= INT32_MAX / a.dim) {
        p->dim[d] *= a.dim;
        p->begin[d] *= (int32_t)a.dim;
        p->end[d] *= (int32_t)a.dim;
        p->step[d] = a.step;
        return;
    }
    p->dim[p->dims] = a.dim;
    p->step[p->dims] = a.step;
    p->begin[p->dims] = (int32_t)a.begin;
    p->end[p->dims] = (int32_t)a.end;
    p->every[p->dims++] = (int32_t)a.every;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request,
                       sr_rearrange_params *p) {
    p->count = sr_info_count(&node->out[0]);
    p->elements = sr_info_count(&node->in[0]);
    if (p->dims == 0) { // a single element
        p->dim[0] = p->end[0] = p->every[0] = 1;
        p->dims = 1;
    }
    return sr_op_lower(request, SR_KERNEL_rearrange, p, sizeof *p);
}

// Extents and positions are 32-bit numbers.
static sr_status expect_extents(const sr_node_view *node) {
    const sr_info *x = &node->in[0];
    char text[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "x", -1));
    for (int d = 0; d < x->rank; d++)
        if (x->dim[d] > INT32_MAX)
            return SR_FAIL(SR_E_SHAPE, "%s: x %s: an extent may be at most %d", node->op->name,
                           sr_info_text(x, text), INT32_MAX);
    return SR_OK;
}

// ---- permute ----

typedef struct permute_attr {
    int32_t order[SR_MAX_RANK]; // dimension d of the result is dimension order[d] of x
} permute_attr;

static const sr_attr_field permute_fields[] = {
    SR_ATTR_ARRAY(permute_attr, order, 0, SR_MAX_RANK - 1), {0}};

static sr_status permute_infer(const sr_node_view *node, sr_info *out) {
    const permute_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    unsigned seen = 0;
    char text[SR_INFO_TEXT];
    SR_TRY(expect_extents(node));
    out[0] = *x;
    for (int d = 0; d < x->rank; d++) {
        const int from = a->order[d];
        if (from < 0 || from >= x->rank || (seen >> from & 1))
            return SR_FAIL(SR_E_SHAPE,
                           "%s: x %s: the order must have each of the dimensions 0 to %d once",
                           node->op->name, sr_info_text(x, text), x->rank - 1);
        seen |= 1u << from;
        out[0].dim[d] = x->dim[from];
    }
    return SR_OK;
}

static sr_status permute_lower(const sr_node_view *node, sr_kernel_request *request) {
    const permute_attr *a = node->attr;
    sr_rearrange_params p = {0};
    int64_t stride[SR_MAX_RANK] = {0};
    strides_of(&node->in[0], stride);
    for (int d = 0; d < node->out[0].rank; d++) {
        const int64_t dim = node->out[0].dim[d];
        add_dim(&p, (place){dim, stride[a->order[d]], 0, dim, 1});
    }
    return lower(node, request, &p);
}

static void permute_derivative(sr_context *context, const sr_node_view *node,
                               const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const permute_attr *a = node->attr;
    permute_attr inverse = {{0}};
    for (int d = 0; d < node->in[0].rank; d++)
        inverse.order[a->order[d]] = d;
    if (wanted[0])
        grad_in[0] = sr_op_unary(&sr_op_permute, &inverse, grad_out[0]);
}

const sr_op sr_op_permute = {
    SR_OP_HEAD,
    .name = "permute",
    .help = "x with its dimensions permuted",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(permute_attr),
    .fields = permute_fields,
    .infer = permute_infer,
    .lower = permute_lower,
    .derivative = permute_derivative,
};

// ---- slice and pad ----

typedef struct part_attr {
    int64_t dim[SR_MAX_RANK];   // of the result
    int64_t start[SR_MAX_RANK]; // of the part, in the larger tensor
    int32_t step[SR_MAX_RANK], reserved;
} part_attr;

static const sr_attr_field part_fields[] = {
    SR_ATTR_ARRAY(part_attr, dim, 0, SR_ATTR_EXTENT),
    SR_ATTR_ARRAY(part_attr, start, 0, SR_ATTR_EXTENT),
    SR_ATTR_ARRAY(part_attr, step, -SR_ATTR_EXTENT, SR_ATTR_EXTENT),
    {0}};

// The part has 'part' elements in a dimension of 'whole'.
static sr_status expect_inside(const sr_node_view *node, int d, int64_t part, int64_t whole) {
    const part_attr *a = node->attr;
    const int64_t first = a->start[d];
    char text[SR_INFO_TEXT];
    if (part >= 1 && part <= whole && whole <= INT32_MAX && a->step[d] != 0 && first >= 0 &&
        first < whole) {
        const int64_t last = first + (part - 1) * a->step[d];
        if (last >= 0 && last < whole)
            return SR_OK;
    }
    return SR_FAIL(SR_E_SHAPE,
                   "%s: x %s, dimension %d: %lld elements from %lld by steps of %d must be among "
                   "0 to %lld",
                   node->op->name, sr_info_text(&node->in[0], text), d, (long long)part,
                   (long long)first, a->step[d], (long long)whole - 1);
}

static sr_status part_infer(const sr_node_view *node, sr_info *out) {
    const part_attr *a = node->attr;
    const bool takes = node->op == &sr_op_slice;
    SR_TRY(expect_extents(node));
    out[0] = sr_op_info(node->in[0].dtype, node->in[0].rank, a->dim);
    for (int d = 0; d < out[0].rank; d++) {
        const int64_t in = node->in[0].dim[d], got = out[0].dim[d];
        SR_TRY(expect_inside(node, d, takes ? got : in, takes ? in : got));
    }
    return SR_OK;
}

static sr_status slice_lower(const sr_node_view *node, sr_kernel_request *request) {
    const part_attr *a = node->attr;
    sr_rearrange_params p = {0};
    int64_t stride[SR_MAX_RANK] = {0};
    strides_of(&node->in[0], stride);
    for (int d = 0; d < node->out[0].rank; d++) {
        p.first += a->start[d] * stride[d];
        add_dim(&p, (place){a->dim[d], a->step[d] * stride[d], 0, a->dim[d], 1});
    }
    return lower(node, request, &p);
}

// Downward steps begin with the last element of x.
static sr_status pad_lower(const sr_node_view *node, sr_kernel_request *request) {
    const part_attr *a = node->attr;
    sr_rearrange_params p = {0};
    int64_t stride[SR_MAX_RANK] = {0};
    strides_of(&node->in[0], stride);
    for (int d = 0; d < node->out[0].rank; d++) {
        const int64_t length = (node->in[0].dim[d] - 1) * a->step[d];
        place at = {a->dim[d], stride[d], a->start[d], a->start[d] + length + 1, a->step[d]};
        if (a->step[d] < 0) {
            p.first += (node->in[0].dim[d] - 1) * stride[d];
            at = (place){a->dim[d], -stride[d], a->start[d] + length, a->start[d] + 1, -a->step[d]};
        }
        if (at.begin + 1 == at.end)
            at.every = 1;
        add_dim(&p, at);
    }
    return lower(node, request, &p);
}

static void part_derivative(sr_context *context, const sr_node_view *node,
                            const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    part_attr attr = *(const part_attr *)node->attr;
    for (int d = 0; d < node->in[0].rank; d++)
        attr.dim[d] = node->in[0].dim[d];
    if (wanted[0])
        grad_in[0] =
            sr_op_unary(node->op == &sr_op_slice ? &sr_op_pad : &sr_op_slice, &attr, grad_out[0]);
}

const sr_op sr_op_slice = {
    SR_OP_HEAD,
    .name = "slice",
    .help = "a part of x, every n-th element of a dimension",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(part_attr),
    .fields = part_fields,
    .infer = part_infer,
    .lower = slice_lower,
    .derivative = part_derivative,
};

const sr_op sr_op_pad = {
    SR_OP_HEAD,
    .name = "pad",
    .help = "x padded with zeros, also between its elements",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(part_attr),
    .fields = part_fields,
    .infer = part_infer,
    .lower = pad_lower,
    .derivative = part_derivative,
};

// ---- concat ----

typedef struct concat_attr {
    int32_t axis, reserved;
} concat_attr;

static const sr_attr_field concat_fields[] = {SR_ATTR(concat_attr, axis, 0, SR_MAX_RANK - 1), {0}};

static sr_status concat_infer(const sr_node_view *node, sr_info *out) {
    const concat_attr *a = node->attr;
    char text[SR_INFO_TEXT], first[SR_INFO_TEXT];
    SR_TRY(sr_op_expect_activation(node, 0, "a", -1));
    out[0] = node->in[0];
    if (a->axis < 0 || a->axis >= out[0].rank)
        return SR_FAIL(SR_E_SHAPE, "%s: axis %d of a %s", node->op->name, a->axis,
                       sr_info_text(&node->in[0], text));
    for (int i = 1; i < node->inputs; i++) {
        if (!sr_op_present(node, i))
            continue;
        sr_info like = node->in[i];
        if (like.rank == out[0].rank)
            like.dim[a->axis] = out[0].dim[a->axis];
        if (like.dtype != out[0].dtype || !sr_op_same_shape(&like, &out[0]))
            return SR_FAIL(
                SR_E_SHAPE, "%s: %s %s must match a %s in dtype and in all dimensions but %d",
                node->op->name, node->op->input_name[i], sr_info_text(&node->in[i], text),
                sr_info_text(&node->in[0], first), a->axis);
        out[0].dim[a->axis] += node->in[i].dim[a->axis];
    }
    return SR_OK;
}

static sr_status concat_lower(const sr_node_view *node, sr_kernel_request *request) {
    const concat_attr *a = node->attr;
    sr_concat_params p = {.rows = 1};
    for (int d = 0; d < a->axis; d++)
        p.rows *= node->in[0].dim[d];
    for (int i = 0; i < SR_CONCAT_INPUTS; i++)
        p.width[i] = sr_op_present(node, i) ? sr_info_count(&node->in[i]) / p.rows : 0;
    return sr_op_lower(request, SR_KERNEL_concat, &p, sizeof p);
}

static void concat_derivative(sr_context *context, const sr_node_view *node,
                              const sr_tensor *grad_out, const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    const concat_attr *a = node->attr;
    int64_t start = 0;
    for (int i = 0; i < node->inputs; i++) {
        if (!sr_op_present(node, i))
            continue;
        const int64_t extent = node->in[i].dim[a->axis];
        if (wanted[i])
            grad_in[i] = sr_slice(grad_out[0], a->axis, start, extent, 1);
        start += extent;
    }
}

const sr_op sr_op_concat = {
    SR_OP_HEAD,
    .name = "concat",
    .help = "tensors concatenated along a dimension",
    .inputs = SR_CONCAT_INPUTS,
    .input_name = {"a", "b", "c", "d"},
    .required = 2,
    .outputs = 1,
    .attr_size = sizeof(concat_attr),
    .fields = concat_fields,
    .infer = concat_infer,
    .lower = concat_lower,
    .derivative = concat_derivative,
};

// ---- Calls ----

sr_tensor sr_permute(sr_tensor x, const int *order) {
    sr_info info;
    permute_attr attr = {{0}};
    if (!sr_op_argument(x, "permute: x", &info))
        return sr_op_failed();
    for (int d = 0; d < info.rank; d++)
        attr.order[d] = order[d];
    return sr_op_unary(&sr_op_permute, &attr, x);
}

sr_tensor sr_slice(sr_tensor x, int axis, int64_t start, int64_t count, int step) {
    sr_info info;
    part_attr attr = {.reserved = 0};
    if (!sr_op_argument(x, "slice: x", &info))
        return sr_op_failed();
    if (axis < 0 || axis >= info.rank)
        return sr_op_refused(
            SR_FAIL(SR_E_SHAPE, "axis %d of a tensor of %d dimensions", axis, (int)info.rank),
            "slice");
    for (int d = 0; d < info.rank; d++) {
        attr.dim[d] = d == axis ? count : info.dim[d];
        attr.start[d] = d == axis ? start : 0;
        attr.step[d] = d == axis ? step : 1;
    }
    return sr_op_unary(&sr_op_slice, &attr, x);
}

sr_tensor sr_flip(sr_tensor x, int axis) {
    sr_info info;
    if (!sr_op_argument(x, "flip: x", &info))
        return sr_op_failed();
    const int64_t n = axis >= 0 && axis < info.rank ? info.dim[axis] : 1;
    return sr_slice(x, axis, n - 1, n, -1);
}

sr_tensor sr_pad(sr_tensor x, const int *before, const int *after) {
    sr_info info;
    part_attr attr = {.reserved = 0};
    if (!sr_op_argument(x, "pad: x", &info))
        return sr_op_failed();
    for (int d = 0; d < info.rank; d++) {
        attr.dim[d] = info.dim[d] + before[d] + after[d];
        attr.start[d] = before[d];
        attr.step[d] = 1;
    }
    return sr_op_unary(&sr_op_pad, &attr, x);
}

// More than the operator takes are joined by groups.
static sr_tensor join(const sr_tensor *x, int count, const concat_attr *attr) {
    sr_tensor in[SR_CONCAT_INPUTS] = {SR_NONE, SR_NONE, SR_NONE, SR_NONE};
    const int share = (count + SR_CONCAT_INPUTS - 1) / SR_CONCAT_INPUTS;
    if (count == 1)
        return x[0];
    for (int i = 0, done = 0; done < count; i++) {
        const int part = count - done < share ? count - done : share;
        in[i] = join(x + done, part, attr);
        done += part;
    }
    return sr_op_record_one(&sr_op_concat, attr, in);
}

sr_tensor sr_concat(const sr_tensor *x, int count, int axis) {
    const concat_attr attr = {.axis = axis};
    char what[32];
    for (int i = 0; i < count; i++) {
        (void)snprintf(what, sizeof what, "concat: x[%d]", i);
        if (!sr_op_argument(x[i], what, NULL))
            return sr_op_failed();
    }
    return count > 0 ? join(x, count, &attr)
                     : sr_op_refused(SR_FAIL(SR_E_ARGUMENT, "no tensors"), "concat");
}

// ---- Padding with the picture's own pixels ----

// 'count' elements beyond one end of dimension 'axis', which has n.
static sr_tensor border(sr_tensor x, int axis, int64_t n, int count, bool after, sr_pad_mode mode) {
    if (mode == SR_PAD_REFLECT)
        return sr_slice(x, axis, after ? n - 2 : count, count, -1);
    // 'expand', whose derivative adds the gradients of the copies in one sum, takes its shape from
    // a tensor: the edge, padded with zeros.
    const sr_tensor edge = sr_slice(x, axis, after ? n - 1 : 0, 1, 1);
    int more[SR_MAX_RANK] = {0};
    more[axis] = count - 1;
    return sr_op_binary(&sr_op_expand, NULL, edge, sr_pad(edge, (const int[SR_MAX_RANK]){0}, more));
}

static sr_tensor pad_axis(sr_tensor x, int axis, int before, int after, sr_pad_mode mode) {
    sr_info info;
    sr_tensor piece[3];
    int pieces = 0;
    if (!sr_op_argument(x, "pad2d: x", &info))
        return sr_op_failed();
    if (before > 0)
        piece[pieces++] = border(x, axis, info.dim[axis], before, false, mode);
    piece[pieces++] = x;
    if (after > 0)
        piece[pieces++] = border(x, axis, info.dim[axis], after, true, mode);
    return sr_concat(piece, pieces, axis);
}

sr_tensor sr_pad2d(sr_tensor x, sr_pad2d_opts o) {
    sr_info info;
    if (!sr_op_argument(x, "pad2d: x", &info))
        return sr_op_failed();
    if (info.rank != 4 || o.top < 0 || o.bottom < 0 || o.left < 0 || o.right < 0) {
        char text[SR_INFO_TEXT];
        return sr_op_refused(SR_FAIL(SR_E_SHAPE,
                                     "x %s must be [N,H,W,C], with 0 or more pixels on each side "
                                     "(top %d, bottom %d, left %d, right %d)",
                                     sr_info_text(&info, text), o.top, o.bottom, o.left, o.right),
                             "pad2d");
    }
    if (o.mode == SR_PAD_ZERO)
        return sr_pad(x, (const int[4]){0, o.top, o.left, 0},
                      (const int[4]){0, o.bottom, o.right, 0});
    return pad_axis(pad_axis(x, 1, o.top, o.bottom, o.mode), 2, o.left, o.right, o.mode);
}

// ---- Pixel shuffle ----

// x as [N,H,W,C], if its extents are multiples of the given ones.
static bool expect_multiples(sr_tensor x, const char *name, const int64_t by[4], sr_info *info) {
    char what[SR_INFO_TEXT], text[SR_INFO_TEXT];
    (void)snprintf(what, sizeof what, "%s: x", name);
    if (!sr_op_argument(x, what, info))
        return false;
    bool fits = info->rank == 4;
    for (int d = 0; d < 4 && fits; d++)
        fits = by[d] > 0 && info->dim[d] % by[d] == 0;
    if (!fits) {
        (void)sr_op_refused(SR_FAIL(SR_E_SHAPE,
                                    "x %s must be [N,H,W,C], with H, W and C multiples of %lld, "
                                    "%lld and %lld",
                                    sr_info_text(info, text), (long long)by[1], (long long)by[2],
                                    (long long)by[3]),
                            name);
    }
    return fits;
}

sr_tensor sr_pixel_shuffle(sr_tensor x, int factor) {
    const int64_t r = factor;
    sr_info i;
    if (!expect_multiples(x, "pixel_shuffle", (const int64_t[4]){1, 1, 1, r * r}, &i))
        return sr_op_failed();
    const int64_t n = i.dim[0], h = i.dim[1], w = i.dim[2], c = i.dim[3] / (r * r);
    x = sr_reshape(x, 5, (const int64_t[5]){n * h, w, c, r, r});
    x = sr_permute(x, (const int[5]){0, 3, 1, 4, 2});
    return sr_reshape(x, 4, (const int64_t[4]){n, h * r, w * r, c});
}

sr_tensor sr_pixel_unshuffle(sr_tensor x, int factor) {
    const int64_t r = factor;
    sr_info i;
    if (!expect_multiples(x, "pixel_unshuffle", (const int64_t[4]){1, r, r, 1}, &i))
        return sr_op_failed();
    const int64_t n = i.dim[0], h = i.dim[1] / r, w = i.dim[2] / r, c = i.dim[3];
    x = sr_reshape(x, 5, (const int64_t[5]){n * h, r, w, r, c});
    x = sr_permute(x, (const int[5]){0, 2, 4, 1, 3});
    return sr_reshape(x, 4, (const int64_t[4]){n, h, w, c * r * r});
}
