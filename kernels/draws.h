// SPDX-License-Identifier: Apache-2.0
// Random draws of drop_path, random_normal and mix_batch, for the kernels of all kinds of devices.
//
// mix_batch: mixup (Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018) and
// CutMix (Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
// Features", ICCV 2019) of the samples of one lane. All its draws come from one stream, whose seed
// is the first draw of (key, scope). They are computed in double precision with the functions of
// math.h.
#ifndef SR_KERNELS_DRAWS_H
#define SR_KERNELS_DRAWS_H

#include "kernels/base/rng_inline.h"
#include "kernels/kernel_params.h"

// The seed in a key argument, which holds seed low, seed high, step, lane.
SR_DEVICE_INLINE uint64_t sr_draw_seed(const int32_t *key) {
    return (uint64_t)(uint32_t)key[0] | (uint64_t)(uint32_t)key[1] << 32;
}

// The random words of the counter (number, scope, step, lane).
SR_DEVICE_INLINE sr_rng4 sr_draw_words(const int32_t *key, uint32_t scope, int64_t number) {
    return sr_philox_inline(sr_draw_seed(key), (uint32_t)number, scope, (uint32_t)key[2],
                            (uint32_t)key[3]);
}

// Whether a sample of drop_path is kept: sample n uses word n % 4 of draw n / 4, like an element of
// dropout.
SR_DEVICE_INLINE int sr_draw_keeps(const int32_t *key, uint32_t scope, int64_t sample,
                                   double probability) {
    const sr_rng4 words = sr_draw_words(key, scope, sample / 4);
    const uint32_t low = sample & 1 ? words.v[1] : words.v[0],
                   high = sample & 1 ? words.v[3] : words.v[2];
    return (double)sr_rng_unit(sample & 2 ? high : low) >= probability;
}

// Two standard normals by Box and Muller, from the two uniforms in the first two words of draw
// 'pair'.
SR_DEVICE_INLINE void sr_draw_normals(const int32_t *key, uint32_t scope, int64_t pair,
                                      double out[2]) {
    const double two_pi = 6.283185307179586476925286766559;
    const sr_rng4 words = sr_draw_words(key, scope, pair);
    const double u = ((double)words.v[0] + 0.5) * 0x1p-32,
                 angle = two_pi * (double)words.v[1] * 0x1p-32;
    const double radius = sqrt(-2 * sr_log_f64_inline(u));
    out[0] = radius * sr_cos_inline(angle);
    out[1] = radius * sr_sin_inline(angle);
}

// How a lane is mixed. Without mixing, every sample is its own partner and the box is empty.
typedef struct sr_mix_plan {
    double weight;                    // of the sample itself
    int64_t top, bottom, left, right; // the part of the picture that the partner replaces
    int32_t blend, reserved;          // mixup
    sr_rng rng;                       // the stream of draws
} sr_mix_plan;

// log of a uniform draw in (0, 1].
SR_DEVICE_INLINE double sr_draw_log_uniform(sr_rng *rng) {
    return sr_log_f64_inline(1.0 - sr_rng_uniform_inline(rng, 0, 1));
}

// log of a draw from Gamma(shape + 1): Marsaglia and Tsang, "A simple method for generating gamma
// variables", ACM TOMS 26(3), 2000, without their shortcut.
SR_DEVICE_INLINE double sr_draw_log_gamma(sr_rng *rng, double shape) {
    const double d = shape + 2.0 / 3.0, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = sr_rng_normal_inline(rng), root = 1 + c * x;
        if (root <= 0)
            continue;
        const double v = root * root * root, log_v = sr_log_f64_inline(v);
        if (sr_draw_log_uniform(rng) < 0.5 * x * x + d * (1 - v + log_v))
            return sr_log_f64_inline(d) + log_v;
    }
}

// A draw from Beta(alpha, alpha): a / (a + b) for two draws from Gamma(alpha), each of which is a
// draw from Gamma(alpha + 1) times a uniform draw to the power of 1 / alpha. Computed in
// logarithms, because for small alpha both underflow.
SR_DEVICE_INLINE double sr_draw_beta(sr_rng *rng, double alpha) {
    const double a = sr_draw_log_gamma(rng, alpha), log_u = sr_draw_log_uniform(rng);
    const double b = sr_draw_log_gamma(rng, alpha), log_v = sr_draw_log_uniform(rng);
    return 1 / (1 + sr_exp_inline((b - a) + (log_v - log_u) / alpha));
}

// Half a side on both sides of 'centre', clipped to the picture.
SR_DEVICE_INLINE void sr_mix_cut_side(int64_t centre, double side, int64_t size, int64_t *begin,
                                      int64_t *end) {
    const int64_t half = (int64_t)(0.5 * side);
    *begin = centre > half ? centre - half : 0;
    *end = centre + half < size ? centre + half : size;
}

// Draws a box with the fraction 1 - lambda of the area around a uniform centre (Yun et al., eq. 2).
// The weight is the fraction of pixels outside the box after it is clipped at the border.
SR_DEVICE_INLINE void sr_mix_draw_box(double lambda, const sr_mix_params *p, sr_mix_plan *plan) {
    const double ratio = sqrt(1 - lambda), pixels = (double)p->h * (double)p->w;
    const int64_t x = sr_rng_below_inline(&plan->rng, (uint32_t)p->w),
                  y = sr_rng_below_inline(&plan->rng, (uint32_t)p->h);
    sr_mix_cut_side(x, ratio * (double)p->w, p->w, &plan->left, &plan->right);
    sr_mix_cut_side(y, ratio * (double)p->h, p->h, &plan->top, &plan->bottom);
    const int64_t area = (plan->right - plan->left) * (plan->bottom - plan->top);
    plan->weight = (pixels - (double)area) / pixels;
}

// Draws the plan and partner[n], a permutation of the samples.
SR_DEVICE_INLINE void sr_mix_draw(const sr_mix_params *p, const int32_t *key, sr_mix_plan *plan,
                                  uint32_t *partner) {
    const sr_rng4 own = sr_draw_words(key, p->scope, 0);
    plan->weight = 1;
    plan->top = plan->bottom = plan->left = plan->right = 0;
    plan->blend = plan->reserved = 0;
    sr_rng_init_inline(&plan->rng, (uint64_t)own.v[0] | (uint64_t)own.v[1] << 32, 0, 0, 0);
    for (int64_t i = 0; i < p->n; i++)
        partner[i] = (uint32_t)i;
    if (!(sr_rng_uniform_inline(&plan->rng, 0, 1) < p->probability))
        return;
    const int both = p->mixup > 0 && p->cutmix > 0;
    plan->blend = both ? sr_rng_uniform_inline(&plan->rng, 0, 1) < 0.5 : p->mixup > 0;
    const double alpha = plan->blend ? p->mixup : p->cutmix;
    if (!(alpha > 0))
        return;
    sr_rng_shuffle_inline(&plan->rng, partner, (uint32_t)p->n);
    plan->weight = sr_draw_beta(&plan->rng, alpha);
    if (!plan->blend)
        sr_mix_draw_box(plan->weight, p, plan);
}

#endif
