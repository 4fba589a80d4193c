// SPDX-License-Identifier: Apache-2.0
// Updates in place (sgd, adam, rmsprop, lion, lamb, ema), limits of gradients, and sums of all
// elements and of their squares, all with the reference's bits.
#ifndef SR_KERNELS_CPU_X86_UPDATE_INTERNAL_H
#define SR_KERNELS_CPU_X86_UPDATE_INTERNAL_H

#include "kernels/cpu/x86/x86_double_internal.h"
#include "kernels/cpu/x86/x86_elementwise_internal.h"

// hyper: lr, momentum, weight_decay, nesterov, gradient scale, dampening, first step, 0
SR_INLINE void sgd_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    float *p = args->p[0], *m = args->p[1];
    const float *hyper = args->p[3];
    const sr_vf momentum = sr_v_set(hyper[1]), fresh = sr_v_set(1.0f - hyper[5]);
    const sr_vf weight = sr_v_get(p, i, n, type);
    const sr_vf g = sr_v_add(sr_v_mul(sr_v_get(args->p[2], i, n, type), sr_v_set(hyper[4])),
                             sr_v_mul(sr_v_set(hyper[2]), weight));
    sr_vf step = g;
    if (hyper[1] != 0.0f) {
        sr_vf moment = g;
        if (hyper[6] == 0.0f)
            moment = sr_v_add(sr_v_mul(momentum, sr_v_get(m, i, n, type)), sr_v_mul(fresh, g));
        sr_v_put(m, i, moment, n, type);
        step = hyper[3] != 0.0f ? sr_v_add(g, sr_v_mul(momentum, moment)) : moment;
    }
    sr_v_put(p, i, sr_v_sub(weight, sr_v_mul(sr_v_set(hyper[0]), step)), n, type);
}
SR_X86_F32(sgd, ELEMENTS(sgd))

// a x + b y
SR_INLINE sr_vf blend_of(float a, sr_vf x, float b, sr_vf y) {
    return sr_v_add(sr_v_mul(sr_v_set(a), x), sr_v_mul(sr_v_set(b), y));
}

// The scaled gradient plus the decay: hyper[4] and hyper[5].
SR_INLINE sr_vf decayed_of(const float *hyper, sr_vf g, sr_vf p) {
    return sr_v_add(sr_v_mul(g, sr_v_set(hyper[4])), sr_v_mul(sr_v_set(hyper[5]), p));
}

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, decay of the gradient, factor of p, step size,
// root of the bias correction, eps, greatest
SR_INLINE void adam_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    float *p = args->p[0], *m = args->p[1], *v = args->p[2], *top = args->p[3];
    const float *h = args->p[5];
    const sr_vf weight = sr_v_get(p, i, n, type);
    const sr_vf g = decayed_of(h, sr_v_get(args->p[4], i, n, type), weight);
    const sr_vf moment = blend_of(h[0], sr_v_get(m, i, n, type), h[1], g);
    sr_vf square = blend_of(h[2], sr_v_get(v, i, n, type), h[3], sr_v_mul(g, g));
    sr_v_put(m, i, moment, n, type);
    sr_v_put(v, i, square, n, type);
    if (h[10] != 0.0f) {
        square = sr_v_max(sr_v_get(top, i, n, type), square);
        sr_v_put(top, i, square, n, type);
    }
    const sr_vf root = sr_v_add(sr_v_div(sr_v_sqrt(square), sr_v_set(h[8])), sr_v_set(h[9]));
    const sr_vf step = sr_v_mul(sr_v_set(h[7]), sr_v_div(moment, root));
    sr_v_put(p, i, sr_v_sub(sr_v_mul(sr_v_set(h[6]), weight), step), n, type);
}
SR_X86_F32(adam, ELEMENTS(adam))

// hyper: alpha, 1 - alpha, momentum, factor into m, gradient scale, decay of the gradient, factor
// of the step, eps in the root, unused, eps, centred, square starts at 1
SR_INLINE void rmsprop_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    float *p = args->p[0], *square = args->p[1], *mean = args->p[2], *m = args->p[3];
    const float *h = args->p[5];
    const sr_vf weight = sr_v_get(p, i, n, type);
    const sr_vf g = decayed_of(h, sr_v_get(args->p[4], i, n, type), weight);
    const sr_vf past = h[11] != 0.0f ? sr_v_set(1.0f) : sr_v_get(square, i, n, type);
    sr_vf variance = blend_of(h[0], past, h[1], sr_v_mul(g, g));
    sr_v_put(square, i, variance, n, type);
    if (h[10] != 0.0f) {
        const sr_vf average = blend_of(h[0], sr_v_get(mean, i, n, type), h[1], g);
        sr_v_put(mean, i, average, n, type);
        variance = sr_v_sub(variance, sr_v_mul(average, average));
        variance = sr_v_pick(sr_v_gt(sr_v_zero(), variance), sr_v_zero(), variance);
    }
    const sr_vf root = sr_v_add(sr_v_sqrt(sr_v_add(variance, sr_v_set(h[7]))), sr_v_set(h[9]));
    sr_vf step = sr_v_mul(sr_v_set(h[3]), sr_v_div(g, root));
    if (h[2] != 0.0f) {
        step = sr_v_add(sr_v_mul(sr_v_set(h[2]), sr_v_get(m, i, n, type)), step);
        sr_v_put(m, i, step, n, type);
    }
    sr_v_put(p, i, sr_v_sub(weight, sr_v_mul(sr_v_set(h[6]), step)), n, type);
}
SR_X86_F32(rmsprop, ELEMENTS(rmsprop))

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, unused, factor of p, lr
SR_INLINE void lion_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    float *p = args->p[0], *m = args->p[1];
    const float *h = args->p[3];
    const sr_vf moment = sr_v_get(m, i, n, type);
    const sr_vf g = sr_v_mul(sr_v_get(args->p[2], i, n, type), sr_v_set(h[4]));
    const sr_vf c = blend_of(h[0], moment, h[1], g);
    const sr_vf below = sr_v_pick(sr_v_gt(sr_v_zero(), c), sr_v_set(-1.0f), c);
    const sr_vf sign = sr_v_pick(sr_v_gt(c, sr_v_zero()), sr_v_set(1.0f), below);
    const sr_vf kept = sr_v_mul(sr_v_set(h[6]), sr_v_get(p, i, n, type));
    sr_v_put(p, i, sr_v_sub(kept, sr_v_mul(sr_v_set(h[7]), sign)), n, type);
    sr_v_put(m, i, blend_of(h[2], moment, h[3], g), n, type);
}
SR_X86_F32(lion, ELEMENTS(lion))

// hyper: b1, factor of g in m, b2, 1 - b2, gradient scale, decay, 1 / bias correction, unused, root
// of the bias correction, eps
SR_INLINE void lamb_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    float *m = args->p[1], *v = args->p[2], *grad = args->p[3];
    const float *h = args->p[4];
    const sr_vf g = sr_v_mul(sr_v_get(grad, i, n, type), sr_v_set(h[4]));
    const sr_vf moment = blend_of(h[0], sr_v_get(m, i, n, type), h[1], g);
    const sr_vf square = blend_of(h[2], sr_v_get(v, i, n, type), h[3], sr_v_mul(g, g));
    sr_v_put(m, i, moment, n, type);
    sr_v_put(v, i, square, n, type);
    const sr_vf root = sr_v_add(sr_v_div(sr_v_sqrt(square), sr_v_set(h[8])), sr_v_set(h[9]));
    const sr_vf weight = sr_v_get(args->p[0], i, n, type);
    sr_v_put(grad, i, blend_of(h[6], sr_v_div(moment, root), h[5], weight), n, type);
}
SR_X86_F32(lamb, ELEMENTS(lamb))

// hyper: keep, take, scale
SR_INLINE void ema_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const float *hyper = args->p[2];
    const sr_vf e = sr_v_mul(sr_v_set(hyper[0]), sr_v_get(args->p[0], i, n, type));
    const sr_vf p = sr_v_mul(sr_v_get(args->p[1], i, n, type), sr_v_set(hyper[2]));
    sr_v_put(args->p[0], i, sr_v_add(e, sr_v_mul(sr_v_set(hyper[1]), p)), n, type);
}
SR_X86_F32(ema, ELEMENTS(ema))

// hyper: limit
SR_INLINE void limit_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const float *hyper = args->p[1];
    const sr_vf most = sr_v_set(hyper[0]), least = sr_v_set(-hyper[0]);
    const sr_vf g = sr_v_get(args->p[0], i, n, type);
    const sr_vf above = sr_v_pick(sr_v_gt(least, g), least, g);
    sr_v_put(args->p[0], i, sr_v_pick(sr_v_gt(g, most), most, above), n, type);
}
SR_X86_F32(limit, ELEMENTS(limit))

// Stores the tree sum of n sums in sums[0].
#define TREE_OF(name, number)                                                                      \
    SR_INLINE void name(number *sums, int64_t n) {                                                 \
        for (int64_t step = 1; step < n; step *= 2)                                                \
            for (int64_t i = 0; i + step < n; i += 2 * step)                                       \
                sums[i] += sums[i + step];                                                         \
    }
TREE_OF(tree_of_sums, float)
TREE_OF(tree_of_doubles, double)
#undef TREE_OF

// Stage 0: the sum of a block: chunks of 1,024 elements, each added in sixteen interleaved sums and
// joined as a tree.
SR_INLINE void sum_block(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    enum { CHUNK = 1024 };
    const sr_x86_range r = elements_of(args, block);
    float chunk[SR_X86_BLOCK / CHUNK];
    int64_t chunks = 0;
    for (int64_t begin = r.begin; begin < r.end; begin += CHUNK) {
        const int64_t end = sr_x86_min(r.end, begin + CHUNK);
        sr_vf sum = sr_v_zero();
        int64_t i = begin;
        for (; i + SR_ELEMENTS <= end; i += SR_ELEMENTS)
            sum = sr_v_add(sum, sr_v_get(args->p[0], i, SR_ELEMENTS, type));
        if (i < end)
            sum = sr_v_add(sum, sr_v_get(args->p[0], i, (int)(end - i), type));
        chunk[chunks++] = sr_v_sum(sum);
    }
    tree_of_sums(chunk, chunks);
    float *out = args->workspace;
    out[block] = chunk[0];
}

SR_X86_TYPED(sum, sum_block(args, block, type))

static sr_status sum_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)block, (void)worker;
    const sr_count_params *params = args->params;
    const int64_t blocks = sr_x86_ceil_div(params->count, SR_X86_BLOCK);
    float *sum = args->workspace, *out = args->p[1];
    tree_of_sums(sum, blocks);
    out[0] = blocks > 0 ? sum[0] : 0.0f;
    return SR_OK;
}

// Sixteen interleaved sums of squares, and their tree.
typedef struct square_sums {
    sr_vd low, high;
} square_sums;

SR_INLINE void add_squares_of(square_sums *sums, sr_vf x) {
    const sr_vd low = sr_vd_widen(x, false), high = sr_vd_widen(x, true);
    sums->low = sr_vd_add(sums->low, sr_vd_mul(low, low));
    sums->high = sr_vd_add(sums->high, sr_vd_mul(high, high));
}

SR_INLINE double joined_squares(square_sums sums) {
    double way[SR_ELEMENTS];
    sr_vd_store(way, sums.low);
    sr_vd_store(way + SR_ELEMENTS / 2, sums.high);
    tree_of_doubles(way, SR_ELEMENTS);
    return way[0];
}

// Stage 0: the sum of squares of a block, in the order of sum_block.
SR_INLINE void squares_block(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    enum { CHUNK = 1024 };
    const sr_x86_range r = elements_of(args, block);
    double chunk[SR_X86_BLOCK / CHUNK], *out = args->workspace;
    int64_t chunks = 0;
    for (int64_t begin = r.begin; begin < r.end; begin += CHUNK) {
        const int64_t end = sr_x86_min(r.end, begin + CHUNK);
        square_sums sums = {sr_vd_set(0.0), sr_vd_set(0.0)};
        int64_t i = begin;
        for (; i + SR_ELEMENTS <= end; i += SR_ELEMENTS)
            add_squares_of(&sums, sr_v_get(args->p[0], i, SR_ELEMENTS, type));
        if (i < end)
            add_squares_of(&sums, sr_v_get(args->p[0], i, (int)(end - i), type));
        chunk[chunks++] = joined_squares(sums);
    }
    tree_of_doubles(chunk, chunks);
    out[block] = chunk[0];
}
SR_X86_F32(add_squares, squares_block(args, block, type))

static sr_status add_squares_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)block, (void)worker;
    const sr_update_params *params = args->params;
    const int64_t blocks = sr_x86_ceil_div(params->count, SR_X86_BLOCK);
    double *sums = args->workspace, *s = args->p[1];
    tree_of_doubles(sums, blocks);
    s[0] += blocks > 0 ? sums[0] : 0.0;
    return SR_OK;
}

#endif
