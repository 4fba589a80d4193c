// SPDX-License-Identifier: Apache-2.0
// Calls that cut tensors into parts and join them. They consist of slice, concat, permute and
// reshape, so they are no operators.
#include <stdio.h>

#include "graph/ops/op_internal.h"

// Whether x has this dimension; else an error sticks.
static bool expect_axis(sr_tensor x, const char *name, int axis, sr_info *info) {
    char what[32], text[SR_INFO_TEXT];
    (void)snprintf(what, sizeof what, "%s: x", name);
    if (!sr_op_argument(x, what, info))
        return false;
    if (axis >= 0 && axis < info->rank)
        return true;
    (void)sr_op_refused(SR_FAIL(SR_E_SHAPE, "axis %d of x %s", axis, sr_info_text(info, text)),
                        name);
    return false;
}

// x with a dimension of extent 1 more.
static sr_tensor with_axis(sr_tensor x, const sr_info *info, int axis) {
    int64_t dim[SR_MAX_RANK];
    for (int d = 0; d <= info->rank; d++)
        dim[d] = d == axis ? 1 : info->dim[d - (d > axis)];
    return sr_reshape(x, info->rank + 1, dim);
}

enum { PIECES = 64 };

sr_tensor sr_stack(const sr_tensor *x, int count, int axis) {
    sr_tensor piece[PIECES];
    sr_info info;
    char what[32], text[SR_INFO_TEXT];
    if (count < 1 || count > PIECES)
        return sr_op_refused(SR_FAIL(SR_E_SHAPE, "%d tensors; 1 to %d are possible", count, PIECES),
                             "stack");
    for (int i = 0; i < count; i++) {
        (void)snprintf(what, sizeof what, "stack: x[%d]", i);
        if (!sr_op_argument(x[i], what, &info))
            return sr_op_failed();
        if (info.rank == SR_MAX_RANK || axis < 0 || axis > info.rank) {
            return sr_op_refused(SR_FAIL(SR_E_SHAPE,
                                         "x[%d] %s along a new dimension %d; a tensor has at most "
                                         "%d dimensions",
                                         i, sr_info_text(&info, text), axis, SR_MAX_RANK),
                                 "stack");
        }
        piece[i] = with_axis(x[i], &info, axis);
    }
    return sr_concat(piece, count, axis);
}

// What is wrong with the extents of parts of n; NULL: nothing.
static const char *problem_of(int64_t n, int count, const int64_t *extent) {
    int64_t sum = 0;
    if (extent == NULL)
        return count < 1 || n % count != 0 ? "the extent must be a multiple of their number" : NULL;
    for (int i = 0; i < count; i++) {
        if (extent[i] < 1 || extent[i] > n)
            return "each must have an element, and none more than x";
        sum += extent[i];
    }
    return sum != n ? "the sum of their extents must be that of x" : NULL;
}

void sr_split(sr_tensor x, int axis, int count, const int64_t *extent, sr_tensor *part) {
    sr_info info;
    char text[SR_INFO_TEXT];
    for (int i = 0; i < count; i++)
        part[i] = SR_NONE;
    if (!expect_axis(x, "split", axis, &info))
        return;
    const char *problem = problem_of(info.dim[axis], count, extent);
    if (problem != NULL) {
        (void)sr_op_refused(SR_FAIL(SR_E_SHAPE, "x %s into %d parts along axis %d: %s",
                                    sr_info_text(&info, text), count, axis, problem),
                            "split");
        return;
    }
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        const int64_t own = extent != NULL ? extent[i] : info.dim[axis] / count;
        part[i] = sr_slice(x, axis, start, own, 1);
        start += own;
    }
}

sr_tensor sr_roll(sr_tensor x, int axis, int64_t by) {
    sr_info info;
    if (!expect_axis(x, "roll", axis, &info))
        return sr_op_failed();
    const int64_t n = info.dim[axis], last = (by % n + n) % n; // 'last' are moved to the front
    if (last == 0)
        return x;
    const sr_tensor piece[2] = {sr_slice(x, axis, n - last, last, 1),
                                sr_slice(x, axis, 0, n - last, 1)};
    return sr_concat(piece, 2, axis);
}

sr_tensor sr_transpose(sr_tensor x, int a, int b) {
    sr_info info;
    int order[SR_MAX_RANK];
    if (!expect_axis(x, "transpose", a, &info) || !expect_axis(x, "transpose", b, &info))
        return sr_op_failed();
    for (int d = 0; d < info.rank; d++)
        order[d] = d == a ? b : d == b ? a : d;
    return sr_permute(x, order);
}
