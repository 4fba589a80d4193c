// SPDX-License-Identifier: Apache-2.0
// mix_batch, reference: mixup (Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR
// 2018) and CutMix (Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with
// Localizable Features", ICCV 2019) of the samples of one lane.
//
// The first stage draws the mix of the lane and stores it in the workspace; the second applies it,
// one block per sample. All draws are from one stream whose seed is the first draw of (key, scope),
// in double precision with the functions of math.h. No other provider has an entry: in fp32 this
// kernel is bound by memory bandwidth, and in bf16 it takes less than a thousandth of a network's
// step.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/base/rng.h"
#include "kernels/cpu/reference/reference_internal.h"

// How a lane is mixed. Without mixing, every sample is its own partner and the box is empty.
typedef struct mix_plan {
    double weight;                    // of the sample itself
    int64_t top, bottom, left, right; // the partner's part of the picture
    bool blend;                       // mixup
    uint32_t partner[];               // a permutation of the samples
} mix_plan;

// ---- Draws ----

static void begin_draws(sr_rng *rng, const int32_t *key, uint32_t scope) {
    const uint64_t seed = (uint64_t)(uint32_t)key[0] | (uint64_t)(uint32_t)key[1] << 32;
    const sr_rng4 own = sr_philox(seed, 0, scope, (uint32_t)key[2], (uint32_t)key[3]);
    sr_rng_init(rng, (uint64_t)own.v[0] | (uint64_t)own.v[1] << 32, 0, 0, 0);
}

// log of a uniform draw in (0, 1].
static double log_uniform(sr_rng *rng) {
    return sr_log_f64(1.0 - sr_rng_uniform(rng, 0, 1));
}

// log of a draw from Gamma(shape + 1): Marsaglia and Tsang, "A simple method for generating gamma
// variables", ACM TOMS 26(3), 2000, without their shortcut.
static double log_gamma_above_one(sr_rng *rng, double shape) {
    const double d = shape + 2.0 / 3.0, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = sr_rng_normal(rng), root = 1 + c * x;
        if (root <= 0)
            continue;
        const double v = root * root * root, log_v = sr_log_f64(v);
        if (log_uniform(rng) < 0.5 * x * x + d * (1 - v + log_v))
            return sr_log_f64(d) + log_v;
    }
}

// A draw from Beta(alpha, alpha), a / (a + b) of two from Gamma(alpha), which is Gamma(alpha + 1)
// times a uniform draw to the power of 1 / alpha. In logarithms, because for small alpha both
// underflow.
static double draw_beta(sr_rng *rng, double alpha) {
    const double a = log_gamma_above_one(rng, alpha), log_u = log_uniform(rng);
    const double b = log_gamma_above_one(rng, alpha), log_v = log_uniform(rng);
    return 1 / (1 + sr_exp((b - a) + (log_v - log_u) / alpha));
}

// Half a side on both sides of 'centre', clipped to the picture.
static void cut_side(int64_t centre, double side, int64_t size, int64_t *begin, int64_t *end) {
    const int64_t half = (int64_t)(0.5 * side);
    *begin = centre > half ? centre - half : 0;
    *end = centre + half < size ? centre + half : size;
}

// A box with the share 1 - lambda of the area around a uniform centre (Yun et al., eq. 2); the
// weight is the share of pixels outside the box, after it was clipped at the border.
static void draw_box(sr_rng *rng, double lambda, const sr_mix_params *p, mix_plan *plan) {
    const double ratio = sqrt(1 - lambda), pixels = (double)p->h * (double)p->w;
    const int64_t x = sr_rng_below(rng, (uint32_t)p->w), y = sr_rng_below(rng, (uint32_t)p->h);
    cut_side(x, ratio * (double)p->w, p->w, &plan->left, &plan->right);
    cut_side(y, ratio * (double)p->h, p->h, &plan->top, &plan->bottom);
    const int64_t area = (plan->right - plan->left) * (plan->bottom - plan->top);
    plan->weight = (pixels - (double)area) / pixels;
}

static void draw_plan(const sr_mix_params *p, const int32_t *key, mix_plan *plan) {
    sr_rng rng;
    *plan = (mix_plan){.weight = 1};
    for (int64_t i = 0; i < p->n; i++)
        plan->partner[i] = (uint32_t)i;
    begin_draws(&rng, key, p->scope);
    if (!(sr_rng_uniform(&rng, 0, 1) < p->probability))
        return;
    const bool both = p->mixup > 0 && p->cutmix > 0;
    plan->blend = both ? sr_rng_uniform(&rng, 0, 1) < 0.5 : p->mixup > 0;
    const double alpha = plan->blend ? p->mixup : p->cutmix;
    if (!(alpha > 0))
        return;
    sr_rng_shuffle(&rng, plan->partner, (uint32_t)p->n);
    plan->weight = draw_beta(&rng, alpha);
    if (!plan->blend)
        draw_box(&rng, plan->weight, p, plan);
}

// ---- Stages ----

// Pixels in the box are from 'other', all others from 'own'.
static void paste_box(const sr_mix_params *p, const mix_plan *plan, size_t element, const char *own,
                      const char *other, char *y) {
    const size_t pixel = (size_t)p->c * element, row = (size_t)p->w * pixel;
    memcpy(y, own, (size_t)p->h * row);
    for (int64_t i = plan->top; i < plan->bottom; i++) {
        const size_t at = (size_t)i * row + (size_t)plan->left * pixel;
        memcpy(y + at, other + at, (size_t)(plan->right - plan->left) * pixel);
    }
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_mix.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_mix_batch(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn plans[] = SR_REFERENCE_TYPES(mix_plan);
    static const sr_kernel_fn mixes[] = SR_REFERENCE_TYPES(mix_sample);
    const sr_mix_params *p = (const sr_mix_params *)(const void *)request->params;
    sr_add_stage(out, plans[request->dtype[0]], 1);
    sr_add_stage(out, mixes[request->dtype[0]], p->n);
    out->workspace = sizeof(mix_plan) + (size_t)p->n * sizeof(uint32_t);
    return SR_OK;
}
