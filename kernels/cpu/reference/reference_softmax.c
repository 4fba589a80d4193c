// SPDX-License-Identifier: Apache-2.0
// Reference softmax, cross-entropy with label smoothing and ignored labels, its gradient, and
// counts of correct predictions. Sums over classes are those of reference_sum.inc.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"

#define ROW_CHUNK 32 // samples of one block

#define SR_TYPED_BODY "kernels/cpu/reference/reference_softmax.inc"
#include "kernels/cpu/reference/reference_typed.inc"

static int64_t sample_blocks(const sr_kernel_request *request) {
    return sr_blocks_of(((const sr_xent_params *)(const void *)request->params)->n, ROW_CHUNK);
}

sr_status sr_reference_prepare_softmax(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(softmax);
    sr_add_stage(out, variants[request->dtype[0]], sample_blocks(request));
    return SR_OK;
}

sr_status sr_reference_prepare_softmax_xent(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(softmax_xent);
    sr_add_stage(out, variants[request->dtype[0]], sample_blocks(request));
    return SR_OK;
}

sr_status sr_reference_prepare_softmax_xent_grad(const sr_kernel_request *request,
                                                 sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(softmax_xent_grad);
    sr_add_stage(out, variants[request->dtype[3]], sample_blocks(request));
    return SR_OK;
}

// Counts are small whole numbers, exact in f32: one block.
sr_status sr_reference_prepare_topk_hits(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(topk_hits);
    sr_add_stage(out, variants[request->dtype[0]], 1);
    return SR_OK;
}
