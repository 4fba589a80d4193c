// SPDX-License-Identifier: Apache-2.0
// Sums over dimensions and what consists of them: mean, variance and norms. These are calls, not
// operators: their sums are channel_sum, reduce_sum and sum_to, whose order is fixed.
//
// What happens between the sums and the result is computed in the dtype of parameters, so that a
// sum beyond the range of f16 is no infinite mean and a result is rounded once.
#include <stdio.h>

#include "graph/ops/op_internal.h"

// ---- Which dimensions ----

static sr_status find_axes(const sr_axes *axes, sr_reduction *r) {
    const int rank = r->x.rank;
    char text[SR_INFO_TEXT];
    if (axes->count < 0 || axes->count > rank)
        return SR_FAIL(SR_E_SHAPE, "x %s does not have %d dimensions to reduce",
                       sr_info_text(&r->x, text), axes->count);
    for (int i = 0; i < rank; i++)
        r->over[i] = axes->count == 0;
    for (int i = 0; i < axes->count; i++) {
        const int axis = axes->axis[i];
        if (axis < 0 || axis >= rank || r->over[axis])
            return SR_FAIL(SR_E_SHAPE, "x %s: axis %d must be one of 0 to %d, and given once",
                           sr_info_text(&r->x, text), axis, rank - 1);
        r->over[axis] = true;
    }
    return SR_OK;
}

static void set_shapes(bool keep, sr_reduction *r) {
    r->kept = r->result = r->x;
    r->result.rank = keep ? r->x.rank : 0;
    r->count = 1;
    for (int i = 0; i < r->x.rank; i++) {
        if (r->over[i]) {
            r->count *= r->x.dim[i];
            r->kept.dim[i] = 1;
        } else if (!keep) {
            r->result.dim[r->result.rank++] = r->x.dim[i];
        }
    }
    for (int i = 0; i < r->result.rank && keep; i++)
        r->result.dim[i] = r->kept.dim[i];
    for (int i = r->result.rank; i < SR_MAX_RANK; i++)
        r->result.dim[i] = 0;
}

bool sr_op_reduction(sr_tensor x, const char *name, const sr_axes *axes, sr_reduction *r) {
    char what[32], text[SR_INFO_TEXT];
    (void)snprintf(what, sizeof what, "%s: x", name);
    if (!sr_op_argument(x, what, &r->x))
        return false;
    sr_status status = find_axes(axes, r);
    if (status == SR_OK && !sr_dtype_is_float(r->x.dtype))
        status = SR_FAIL(SR_E_SHAPE, "x %s must be f32, bf16, f16 or f64 (sr_cast converts)",
                         sr_info_text(&r->x, text));
    if (status != SR_OK) {
        (void)sr_op_refused(status, name);
        return false;
    }
    set_shapes(axes->keep, r);
    return true;
}

sr_tensor sr_op_reduced_rows(sr_tensor x, const sr_reduction *r) {
    int order[SR_MAX_RANK], n = 0;
    bool moved = false;
    for (int over = 0; over <= 1; over++) {
        for (int i = 0; i < r->x.rank; i++) {
            if (r->over[i] == over) {
                moved = moved || i != n;
                order[n++] = i;
            }
        }
    }
    const int64_t rows[2] = {sr_info_count(&r->x) / r->count, r->count};
    return sr_reshape(moved ? sr_permute(x, order) : x, 2, rows);
}

// ---- Sums ----

// With extents of 1, in this dtype: that of x or of its parameters.
static sr_tensor sums_of(sr_tensor x, const sr_reduction *r, sr_dtype dtype) {
    if (sr_info_count(&r->x) == r->count) // of all elements
        return sr_reshape(sr_op_as_type(sr_reduce_sum(x), dtype), r->kept.rank, r->kept.dim);
    return sr_op_sum_to_shape(x, &r->kept, dtype);
}

// The dtype in which results are formed.
static sr_dtype wide_type(const sr_reduction *r) {
    return sr_op_parameter_dtype(r->x.dtype);
}

static sr_tensor result_of(sr_tensor sums, const sr_reduction *r) {
    return sr_reshape(sr_op_as_type(sums, r->result.dtype), r->result.rank, r->result.dim);
}

sr_tensor sr_sum(sr_tensor x, sr_axes over) {
    sr_reduction r;
    if (!sr_op_reduction(x, "sum", &over, &r))
        return sr_op_failed();
    return result_of(sums_of(x, &r, r.x.dtype), &r);
}

static sr_tensor mean_of(sr_tensor x, const sr_reduction *r, int correction) {
    return sr_scale(sums_of(x, r, wide_type(r)), 1.0 / (double)(r->count - correction), 0.0);
}

sr_tensor sr_mean(sr_tensor x, sr_axes over) {
    sr_reduction r;
    if (!sr_op_reduction(x, "mean", &over, &r))
        return sr_op_failed();
    return result_of(mean_of(x, &r, 0), &r);
}

sr_tensor sr_var(sr_tensor x, sr_axes over, int correction) {
    sr_reduction r;
    char text[SR_INFO_TEXT];
    if (!sr_op_reduction(x, "var", &over, &r))
        return sr_op_failed();
    if (correction < 0 || correction >= r.count) {
        return sr_op_refused(SR_FAIL(SR_E_SHAPE,
                                     "x %s: correction %d must be less than the %lld elements of a "
                                     "variance, and not negative",
                                     sr_info_text(&r.x, text), correction, (long long)r.count),
                             "var");
    }
    const sr_tensor wide = sr_op_as_type(x, wide_type(&r));
    const sr_tensor away = sr_sub(wide, mean_of(wide, &r, 0));
    return result_of(mean_of(sr_square(away), &r, correction), &r);
}

// The square root, whose derivative at 0 is not used: where s is 0, the result is s.
static sr_tensor root_of(sr_tensor s) {
    const sr_tensor positive = sr_where(s, s, sr_scale(s, 0.0, 1.0));
    return sr_where(s, sr_sqrt(positive), s);
}

sr_tensor sr_norm(sr_tensor x, sr_axes over, int order) {
    sr_reduction r;
    if (!sr_op_reduction(x, "norm", &over, &r))
        return sr_op_failed();
    if (order != 1 && order != 2)
        return sr_op_refused(SR_FAIL(SR_E_SHAPE, "order %d must be 1 or 2", order), "norm");
    if (order == 1)
        return result_of(sums_of(sr_abs(x), &r, r.x.dtype), &r);
    const sr_dtype wide = wide_type(&r);
    const sr_tensor squares = sr_square(sr_op_as_type(x, wide));
    return result_of(root_of(sums_of(squares, &r, wide)), &r);
}
