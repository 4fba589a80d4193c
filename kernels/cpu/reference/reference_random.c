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

#define SR_TYPED_BODY "kernels/cpu/reference/reference_random.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_random_normal(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(random_normal);
    const sr_dropout_params *params = (const sr_dropout_params *)(const void *)request->params;
    sr_add_stage(out, variants[request->dtype[1]], sr_blocks_of(params->count, SR_REFERENCE_BLOCK));
    return SR_OK;
}
