// SPDX-License-Identifier: Apache-2.0
// Reference updates of parameters in place, f32: SGD with momentum in the form of torch.optim.SGD
// (weight decay is added to the gradient, the first momentum is the gradient), Adam, RMSprop,
// Lion and the direction of LAMB, moving averages, and what clipping of gradients needs.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/reference/reference_internal.h"

#define NAME(x) x##_f64
#define A double
#include "kernels/cpu/reference/reference_sum.inc"
#undef NAME
#undef A

// The row's number of a piece's segment; its elements in the arrays.
static int32_t row_of_piece(const sr_update_params *p, const float *table, int64_t number,
                            sr_block_range *out) {
    sr_update_piece piece;
    int32_t row;
    memcpy(&piece, table + p->pieces_at + number * (int64_t)(sizeof piece / sizeof *table),
           sizeof piece);
    memcpy(&row, table + p->map_at + piece.segment, sizeof row);
    *out = (sr_block_range){piece.begin - p->first, piece.begin - p->first + piece.count};
    return row;
}

// The elements of a block, which is a piece where there are pieces; *hyper becomes their row.
static sr_block_range range_of(const sr_kernel_args *args, int64_t block, const float **hyper) {
    const sr_update_params *p = args->params;
    sr_block_range range;
    if (p->pieces == 0)
        return sr_block_range_of(block, SR_REFERENCE_BLOCK, p->count);
    const int32_t row = row_of_piece(p, *hyper, block, &range);
    if (row < 0)
        return (sr_block_range){0, 0};
    *hyper += (int64_t)row * SR_UPDATE_ROW;
    return range;
}

// hyper: lr, momentum, weight_decay, nesterov, gradient scale, dampening, first step, 0
static sr_status sgd(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    float *p = args->p[0], *m = args->p[1];
    const float *grad = args->p[2], *hyper = args->p[3];
    const sr_block_range r = range_of(args, block, &hyper);
    const float lr = hyper[0], momentum = hyper[1], decay = hyper[2], scale = hyper[4];
    const float fresh = 1.0f - hyper[5];
    const bool nesterov = hyper[3] != 0.0f, first = hyper[6] != 0.0f,
               has_momentum = momentum != 0.0f;
    for (int64_t i = r.begin; i < r.end; i++) {
        const float g = grad[i] * scale + decay * p[i];
        float step = g;
        if (has_momentum) {
            m[i] = first ? g : momentum * m[i] + fresh * g;
            step = nesterov ? g + momentum * m[i] : m[i];
        }
        p[i] -= lr * step;
    }
    return SR_OK;
}

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, decay of the gradient, factor of p, step size,
// root of the bias correction, eps, greatest
static sr_status adam(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    float *p = args->p[0], *m = args->p[1], *v = args->p[2], *top = args->p[3];
    const float *grad = args->p[4], *h = args->p[5];
    const sr_block_range r = range_of(args, block, &h);
    const bool greatest = h[10] != 0.0f;
    for (int64_t i = r.begin; i < r.end; i++) {
        const float g = grad[i] * h[4] + h[5] * p[i];
        m[i] = h[0] * m[i] + h[1] * g;
        v[i] = h[2] * v[i] + h[3] * (g * g);
        float square = v[i];
        if (greatest)
            top[i] = square = top[i] > square ? top[i] : square;
        p[i] = h[6] * p[i] - h[7] * (m[i] / (sqrtf(square) / h[8] + h[9]));
    }
    return SR_OK;
}

// hyper: alpha, 1 - alpha, momentum, factor into m, gradient scale, decay of the gradient, factor
// of the step, eps in the root, unused, eps, centred, square starts at 1. Rounding may make a
// centred square negative, which counts as 0.
static sr_status rmsprop(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    float *p = args->p[0], *square = args->p[1], *mean = args->p[2], *m = args->p[3];
    const float *grad = args->p[4], *h = args->p[5];
    const sr_block_range r = range_of(args, block, &h);
    const bool moves = h[2] != 0.0f, centred = h[10] != 0.0f, begins = h[11] != 0.0f;
    for (int64_t i = r.begin; i < r.end; i++) {
        const float g = grad[i] * h[4] + h[5] * p[i];
        square[i] = h[0] * (begins ? 1.0f : square[i]) + h[1] * (g * g);
        float variance = square[i];
        if (centred) {
            mean[i] = h[0] * mean[i] + h[1] * g;
            variance = variance - mean[i] * mean[i];
            variance = variance < 0.0f ? 0.0f : variance;
        }
        float step = h[3] * (g / (sqrtf(variance + h[7]) + h[9]));
        if (moves)
            m[i] = step = h[2] * m[i] + step;
        p[i] -= h[6] * step;
    }
    return SR_OK;
}

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, unused, factor of p, lr. The sign of 0 is 0, and
// that of NaN NaN.
static sr_status lion(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    float *p = args->p[0], *m = args->p[1];
    const float *grad = args->p[2], *h = args->p[3];
    const sr_block_range r = range_of(args, block, &h);
    for (int64_t i = r.begin; i < r.end; i++) {
        const float g = grad[i] * h[4];
        const float c = h[0] * m[i] + h[1] * g;
        const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : c;
        p[i] = h[6] * p[i] - h[7] * sign;
        m[i] = h[2] * m[i] + h[3] * g;
    }
    return SR_OK;
}

// hyper: b1, factor of g in m, b2, 1 - b2, gradient scale, decay, 1 / bias correction, unused, root
// of the bias correction, eps
static sr_status lamb(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const float *p = args->p[0], *h = args->p[4];
    const sr_block_range r = range_of(args, block, &h);
    float *m = args->p[1], *v = args->p[2], *grad = args->p[3];
    for (int64_t i = r.begin; i < r.end; i++) {
        const float g = grad[i] * h[4];
        m[i] = h[0] * m[i] + h[1] * g;
        v[i] = h[2] * v[i] + h[3] * (g * g);
        grad[i] = h[6] * (m[i] / (sqrtf(v[i]) / h[8] + h[9])) + h[5] * p[i];
    }
    return SR_OK;
}

// hyper: keep, take, scale
static sr_status ema(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    float *e = args->p[0];
    const float *p = args->p[1], *hyper = args->p[2];
    const sr_block_range r = range_of(args, block, &hyper);
    const float keep = hyper[0], take = hyper[1], scale = hyper[2];
    for (int64_t i = r.begin; i < r.end; i++)
        e[i] = keep * e[i] + take * (p[i] * scale);
    return SR_OK;
}

// hyper: limit
static sr_status limit(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    float *g = args->p[0];
    const float *hyper = args->p[1];
    const sr_block_range r = range_of(args, block, &hyper);
    const float most = hyper[0];
    for (int64_t i = r.begin; i < r.end; i++)
        g[i] = g[i] > most ? most : g[i] < -most ? -most : g[i];
    return SR_OK;
}

static int64_t fold_blocks(const sr_fold_part *part) {
    return sr_blocks_of(part->count, SR_REFERENCE_BLOCK);
}

// Where bit k of the number of lanes so far is set, level[k] has the sum of 2^k of them.
static sr_status fold_lanes(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_fold_params *p = args->params;
    int number = 0;
    for (; block >= fold_blocks(&p->part[number]); number++)
        block -= fold_blocks(&p->part[number]);
    const sr_fold_part *part = &p->part[number];
    const float *x = args->p[sr_fold_input(number)];
    float *y = (float *)args->p[SR_FOLD_OUTPUT] + part->place;
    const sr_block_range r = sr_block_range_of(block, SR_REFERENCE_BLOCK, part->count);
    for (int64_t i = r.begin; i < r.end; i++) {
        float level[SR_FOLD_LEVELS] = {0}, sum = 0;
        for (int lane = 0; lane < p->lanes; lane++) {
            int k = 0;
            sum = x[(int64_t)lane * part->stride + i];
            for (; lane >> k & 1; k++)
                sum = level[k] + sum;
            level[k] = sum;
        }
        int k = 0;
        while (!(p->lanes >> k & 1))
            k++;
        sum = level[k];
        for (k++; p->lanes >> k; k++)
            if (p->lanes >> k & 1)
                sum = level[k] + sum;
        y[i] = p->adds ? y[i] + sum : sum;
    }
    return SR_OK;
}

// Of at most SR_REFERENCE_BLOCK elements. The square of an f32 is exact in f64.
static double squares_of(const float *x, sr_block_range r) {
    double chunk[SR_REFERENCE_BLOCK / SR_REFERENCE_CHUNK];
    int64_t chunks = 0;
    for (int64_t i = r.begin; i < r.end; i += SR_REFERENCE_CHUNK) {
        const int64_t n = r.end - i < SR_REFERENCE_CHUNK ? r.end - i : SR_REFERENCE_CHUNK;
        double term[SR_REFERENCE_CHUNK];
        for (int64_t k = 0; k < n; k++)
            term[k] = (double)x[i + k] * (double)x[i + k];
        chunk[chunks++] = sum_chunk_f64(term, n);
    }
    tree_sum_f64(chunk, chunks, 1, 1);
    return chunk[0];
}

static sr_status add_squares_leaf(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_update_params *params = args->params;
    double *sums = args->workspace;
    sums[block] =
        squares_of(args->p[0], sr_block_range_of(block, SR_REFERENCE_BLOCK, params->count));
    return SR_OK;
}

static sr_status add_squares_piece(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_update_params *params = args->params;
    sr_block_range range;
    double *s = args->p[1];
    if (row_of_piece(params, args->p[2], block, &range) >= 0)
        s[block * params->apart] += squares_of(args->p[0], range);
    return SR_OK;
}

static sr_status add_squares_tree(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)block;
    (void)worker;
    const sr_update_params *params = args->params;
    const int64_t blocks = sr_blocks_of(params->count, SR_REFERENCE_BLOCK);
    double *sums = args->workspace, *s = args->p[1];
    tree_sum_f64(sums, blocks, 1, 1);
    s[0] += blocks > 0 ? sums[0] : 0.0;
    return SR_OK;
}

static_assert(SR_UPDATE_PIECE == SR_REFERENCE_BLOCK, "a piece is a block");

static int64_t blocks_of(const sr_kernel_request *request) {
    const sr_update_params *p = (const void *)request->params;
    return p->pieces > 0 ? p->pieces : sr_blocks_of(p->count, SR_REFERENCE_BLOCK);
}

static sr_status prepare(sr_kernel_fn run, const sr_kernel_request *request, sr_prepared *out) {
    sr_add_stage(out, run, blocks_of(request));
    return SR_OK;
}

sr_status sr_reference_prepare_sgd(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(sgd, request, out);
}

sr_status sr_reference_prepare_adam(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(adam, request, out);
}

sr_status sr_reference_prepare_rmsprop(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(rmsprop, request, out);
}

sr_status sr_reference_prepare_lion(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(lion, request, out);
}

sr_status sr_reference_prepare_lamb(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(lamb, request, out);
}

sr_status sr_reference_prepare_ema(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(ema, request, out);
}

sr_status sr_reference_prepare_limit(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(limit, request, out);
}

sr_status sr_reference_prepare_fold_lanes(const sr_kernel_request *request, sr_prepared *out) {
    const sr_fold_params *p = (const void *)request->params;
    int64_t blocks = 0;
    for (int i = 0; i < p->parts; i++)
        blocks += fold_blocks(&p->part[i]);
    sr_add_stage(out, fold_lanes, blocks);
    return SR_OK;
}

sr_status sr_reference_prepare_add_squares(const sr_kernel_request *request, sr_prepared *out) {
    const sr_update_params *p = (const void *)request->params;
    if (p->pieces > 0)
        return prepare(add_squares_piece, request, out);
    SR_TRY(prepare(add_squares_leaf, request, out));
    sr_add_stage(out, add_squares_tree, 1);
    out->workspace = (size_t)out->stage[0].blocks * sizeof(double);
    return SR_OK;
}
