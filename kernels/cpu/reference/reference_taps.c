// SPDX-License-Identifier: Apache-2.0
// taps2d: the pixels near points and their weights, by kernels/taps.h.
#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/taps.h"

#define POINTS 1024 // of a block

#define SR_TYPED_BODY "kernels/cpu/reference/reference_taps.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_taps2d(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(taps2d);
    const sr_taps_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]], sr_blocks_of(sr_taps_points(p), POINTS));
    return SR_OK;
}
