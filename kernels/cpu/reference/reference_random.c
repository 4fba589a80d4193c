// SPDX-License-Identifier: Apache-2.0
// random_normal, reference: Box-Muller on Philox draws, with the log, sine and cosine of math.h.
//
// Element e is half e % 2 of the pair e / 2, whose two uniforms are the first two words of the
// counter (e / 2, scope, step, lane) under the key's seed.
#include <math.h>

#include "kernels/base/math.h"
#include "kernels/base/rng.h"
#include "kernels/cpu/reference/reference_internal.h"

static const double two_pi = 6.283185307179586476925286766559;

static void draw_pair(const int32_t *key, uint32_t scope, int64_t pair, double out[2]) {
    uint64_t seed = (uint64_t)(uint32_t)key[0] | (uint64_t)(uint32_t)key[1] << 32;
    sr_rng4 words = sr_philox(seed, (uint32_t)pair, scope, (uint32_t)key[2], (uint32_t)key[3]);
    double u = ((double)words.v[0] + 0.5) * 0x1p-32, angle = two_pi * (double)words.v[1] * 0x1p-32;
    double radius = sqrt(-2 * sr_log_f64(u));
    out[0] = radius * sr_cos(angle);
    out[1] = radius * sr_sin(angle);
}

static void store(sr_dtype dtype, void *y, int64_t i, double value) {
    if (dtype == SR_F64)
        ((double *)y)[i] = value;
    else if (dtype == SR_F32)
        ((float *)y)[i] = (float)value;
    else
        ((uint16_t *)y)[i] =
            dtype == SR_BF16 ? sr_f32_to_bf16((float)value) : sr_f32_to_f16((float)value);
}

static sr_status fill(const sr_kernel_args *args, int64_t block, sr_dtype dtype) {
    const sr_dropout_params *params = args->params;
    sr_block_range range = sr_block_range_of(block, SR_REFERENCE_BLOCK, params->count);
    for (int64_t i = range.begin; i < range.end; i += 2) { // blocks begin at even elements
        double pair[2];
        draw_pair(args->p[0], params->scope, i / 2, pair);
        store(dtype, args->p[1], i, pair[0]);
        if (i + 1 < range.end)
            store(dtype, args->p[1], i + 1, pair[1]);
    }
    return SR_OK;
}

static sr_status fill_f32(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    return fill(args, block, SR_F32);
}
static sr_status fill_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    return fill(args, block, SR_BF16);
}
static sr_status fill_f16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    return fill(args, block, SR_F16);
}
static sr_status fill_f64(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    return fill(args, block, SR_F64);
}

sr_status sr_reference_prepare_random_normal(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn fills[] = SR_REFERENCE_TYPES(fill);
    const sr_dropout_params *params = (const sr_dropout_params *)(const void *)request->params;
    sr_add_stage(out, fills[request->dtype[1]], sr_blocks_of(params->count, SR_REFERENCE_BLOCK));
    return SR_OK;
}
