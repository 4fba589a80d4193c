// SPDX-License-Identifier: Apache-2.0
// drop_path and random_normal, reference.
//
// drop_path: one draw for each sample. random_normal: Box-Muller on Philox draws, with the log,
// sine and cosine of math.h.
// Element e is half e % 2 of the pair e / 2, whose two uniforms are the first two words of the
// counter (e / 2, scope, step, lane) under the key's seed.
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/draws.h"

#define SR_TYPED_BODY "kernels/cpu/reference/reference_random.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_random_normal(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(random_normal);
    const sr_dropout_params *params = (const sr_dropout_params *)(const void *)request->params;
    sr_add_stage(out, variants[request->dtype[1]], sr_blocks_of(params->count, SR_REFERENCE_BLOCK));
    return SR_OK;
}

sr_status sr_reference_prepare_drop_path(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(drop_path);
    const sr_drop_path_params *p = (const sr_drop_path_params *)(const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]],
                 sr_blocks_of(p->samples * p->size, SR_REFERENCE_BLOCK));
    return SR_OK;
}
