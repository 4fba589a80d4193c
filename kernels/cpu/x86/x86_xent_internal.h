// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of rows with labels, and its gradient, with the reference's bits.
//
// A group of sixteen rows has one vector of losses, and so one of logarithms. A row of few classes
// would leave much of a vector unused. Such a group is transposed: an element of a vector is a row,
// and a sum over classes adds whole vectors.
#ifndef SR_KERNELS_CPU_X86_XENT_INTERNAL_H
#define SR_KERNELS_CPU_X86_XENT_INTERNAL_H

#include "kernels/cpu/x86/x86_softmax_internal.h"

#define XENT_ROWS SR_X86_XENT_ROWS // of a group
#define XENT_FEW SR_X86_XENT_FEW   // most classes of a group that is transposed

_Static_assert(XENT_ROWS == SR_ELEMENTS, "a group has one vector of losses");
_Static_assert(XENT_FEW <= SR_REFERENCE_CHUNK, "the sum over few classes is one chunk");
_Static_assert(XENT_FEW % 4 == 0, "classes are transposed four at a time");

typedef struct xent {
    const void *logits;
    const int32_t *labels;
    float *loss, *prob, *scratch;
    int64_t classes, end; // end of the block's rows
    float smoothing;
    sr_dtype type;
} xent;

// Of each row of a group: the largest logit, and the sums of exp(x - max) and of x - max. The last
// one is for smoothing.
typedef struct xent_sums {
    float max[XENT_ROWS], exponentials[XENT_ROWS], differences[XENT_ROWS];
} xent_sums;

// ---- Many classes: row by row ----

SR_INLINE void xent_by_rows(const xent *t, int64_t first, int rows, xent_sums *sums) {
    for (int i = 0; i < rows; i++) {
        const int64_t begin = (first + i) * t->classes;
        float *prob = t->prob + begin;
        softmax_row r = {.x = t->logits, .first = begin, .count = t->classes, .type = t->type};
        sums->max[i] = r.max = row_max(&r);
        sums->exponentials[i] = row_sum(&r, ROW_EXPONENTIALS, prob);
        if (t->smoothing > 0)
            sums->differences[i] = row_sum(&r, ROW_DIFFERENCES, NULL);
        row_divide(prob, sums->exponentials[i], t->classes, prob, 0, SR_F32);
    }
}

// ---- Few classes: transposed ----

// x[class][row]; zeros for rows that the group does not have. A vector may have elements of the
// rows that follow, which are not used.
SR_INLINE void xent_transpose(const xent *t, int64_t first, int rows, float *x) {
    for (int i = 0; i < XENT_ROWS; i += 4) {
        for (int64_t c = 0; c < t->classes; c += SR_ELEMENTS) {
            sr_vf row[4];
            for (int k = 0; k < 4; k++) {
                const int64_t at = (first + i + k) * t->classes + c;
                row[k] = i + k < rows
                             ? sr_v_get(t->logits, at, row_left(at, t->end * t->classes), t->type)
                             : sr_v_zero();
            }
            const int n = (int)sr_x86_min(SR_ELEMENTS, t->classes - c);
            sr_v_put_transposed(row, n, x + c * XENT_ROWS + i, XENT_ROWS);
        }
    }
}

SR_INLINE sr_vf xent_max(const float *x, int64_t classes) {
    sr_vf max = sr_v_load(x);
    for (int64_t c = 1; c < classes; c++) {
        const sr_vf v = sr_v_load(x + c * XENT_ROWS);
        max = sr_v_pick(sr_v_gt(v, max), v, max);
    }
    return max;
}

// The sum over classes: interleaved sums, and their tree. The reference adds zeros in place of
// classes that do not exist, which change no bit.
SR_INLINE sr_vf xent_sum(const float *x, int64_t classes) {
    const int64_t ways = sr_x86_min(SR_REFERENCE_WAYS, classes);
    sr_vf way[SR_REFERENCE_WAYS] = {sr_v_zero()};
    for (int64_t k = 0; k < ways; k++)
        way[k] = sr_v_add(sr_v_zero(), sr_v_load(x + k * XENT_ROWS));
    for (int64_t c = ways; c < classes; c++) {
        const int64_t k = c % SR_REFERENCE_WAYS;
        way[k] = sr_v_add(way[k], sr_v_load(x + c * XENT_ROWS));
    }
    for (int64_t step = 1; step < ways; step *= 2)
        for (int64_t k = 0; k + step < ways; k += 2 * step)
            way[k] = sr_v_add(way[k], way[k + step]);
    return way[0];
}

// prob = x, transposed back. Four classes at a time are written; those beyond the last one are
// overwritten by the first ones of the next row.
SR_INLINE void xent_put(const xent *t, int64_t first, int rows, const float *x, float *prob) {
    const int64_t count = rows * t->classes;
    for (int64_t c = (t->classes - 1) / 4 * 4; c >= 0; c -= 4) {
        sr_vf class[4];
        for (int k = 0; k < 4; k++)
            class[k] = sr_v_load(x + (c + k) * XENT_ROWS);
        sr_v_put_transposed(class, XENT_ROWS, prob + c, t->classes);
    }
    for (int64_t i = 0; i < count; i += SR_ELEMENTS)
        sr_v_put(t->prob, first * t->classes + i, sr_v_load(prob + i), row_left(i, count), SR_F32);
}

SR_INLINE void xent_by_classes(const xent *t, int64_t first, int rows, xent_sums *sums) {
    float *x = t->scratch;
    xent_transpose(t, first, rows, x);
    const sr_vf max = xent_max(x, t->classes);
    for (int64_t c = 0; c < t->classes; c++)
        sr_v_store(x + c * XENT_ROWS, sr_v_sub(sr_v_load(x + c * XENT_ROWS), max));
    if (t->smoothing > 0)
        sr_v_store(sums->differences, xent_sum(x, t->classes));
    for (int64_t c = 0; c < t->classes; c++)
        sr_v_store(x + c * XENT_ROWS, sr_v_expf(sr_v_load(x + c * XENT_ROWS)));
    const sr_vf sum = xent_sum(x, t->classes);
    for (int64_t c = 0; c < t->classes; c++)
        sr_v_store(x + c * XENT_ROWS, sr_v_div(sr_v_load(x + c * XENT_ROWS), sum));
    xent_put(t, first, rows, x, x + XENT_ROWS * XENT_FEW);
    sr_v_store(sums->max, max);
    sr_v_store(sums->exponentials, sum);
}

// ---- softmax_xent: logits, labels, loss, prob ----

SR_INLINE void xent_losses(const xent *t, int64_t first, int rows, const xent_sums *sums) {
    float own[XENT_ROWS] = {0}, loss[XENT_ROWS];
    const int32_t *label = t->labels + first;
    for (int i = 0; i < rows; i++)
        if (label[i] >= 0 && label[i] < t->classes)
            own[i] = sr_x86_element(t->logits, (first + i) * t->classes + label[i], t->type);
    const sr_vf lse = sr_v_logf(sr_v_load(sums->exponentials));
    sr_vf v = sr_v_sub(lse, sr_v_sub(sr_v_load(own), sr_v_load(sums->max)));
    if (t->smoothing > 0) {
        const sr_vf mean = sr_v_div(sr_v_load(sums->differences), sr_v_set((float)t->classes));
        v = sr_v_add(sr_v_mul(sr_v_set(1.0f - t->smoothing), v),
                     sr_v_mul(sr_v_set(t->smoothing), sr_v_sub(lse, mean)));
    }
    sr_v_store(loss, v);
    for (int i = 0; i < rows; i++)
        t->loss[first + i] = label[i] < 0 ? 0.0f : label[i] < t->classes ? loss[i] : NAN;
}

SR_INLINE void xent_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                          sr_dtype type) {
    const sr_xent_params *p = args->params;
    const sr_x86_range r = sr_x86_block_range(p->n, block, args->block_rows);
    const xent t = {.logits = args->p[0],
                    .labels = args->p[1],
                    .loss = args->p[2],
                    .prob = args->p[3],
                    .scratch = worker->scratch,
                    .classes = p->k,
                    .end = r.end,
                    .smoothing = (float)p->smoothing,
                    .type = type};
    for (int64_t first = r.begin; first < r.end; first += XENT_ROWS) {
        const int rows = (int)sr_x86_min(XENT_ROWS, r.end - first);
        xent_sums sums = {.max = {0}};
        if (t.classes <= XENT_FEW)
            xent_by_classes(&t, first, rows, &sums);
        else
            xent_by_rows(&t, first, rows, &sums);
        xent_losses(&t, first, rows, &sums);
    }
}

// ---- softmax_xent_grad: prob, labels, dloss, dlogits ----

// A vector may be written beyond its row, where the block's next row overwrites it.
SR_INLINE void xent_grad_block(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    static const int32_t numbers[SR_ELEMENTS] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
    const sr_xent_params *p = args->params;
    const sr_x86_range r = sr_x86_block_range(p->n, block, args->block_rows);
    const int32_t *labels = args->p[1];
    const float *dloss = args->p[2];
    const float target = (float)(1.0 - p->smoothing), share = (float)(p->smoothing / (double)p->k);
    const sr_vf others = sr_v_set(share), own = sr_v_set(share + target);
    for (int64_t row = r.begin; row < r.end; row++) {
        const sr_vi label = sr_vi_set(labels[row]);
        const sr_vf scale = sr_v_set(dloss[row]);
        for (int64_t c = 0; c < p->k; c += SR_ELEMENTS) {
            const int64_t at = row * p->k + c;
            const int n = row_left(at, r.end * p->k);
            const sr_vi class = sr_vi_add(sr_vi_load(numbers), sr_vi_set((int32_t)c));
            const sr_vf wanted = sr_v_pick(sr_vi_equal(class, label), own, others);
            const sr_vf dx = sr_v_mul(scale, sr_v_sub(sr_v_get(args->p[0], at, n, SR_F32), wanted));
            sr_v_put(args->p[3], at, labels[row] < 0 ? sr_v_zero() : dx, n, type);
        }
    }
}

SR_X86_TYPED(softmax_xent, xent_block(args, block, worker, type))
SR_X86_TYPED(softmax_xent_grad, xent_grad_block(args, block, type))

#endif
