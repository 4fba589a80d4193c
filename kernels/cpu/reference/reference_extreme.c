// SPDX-License-Identifier: Apache-2.0
// Reference kernels along one dimension: the largest or smallest element with its index, and
// one-hot vectors of indices.
#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"

// Results of a block of extreme; lines of 'inner' elements of a block of one_hot.
static int64_t block_results(const sr_axis_params *p) {
    return sr_blocks_of(SR_REFERENCE_BLOCK, p->n);
}

static int64_t block_lines(const sr_axis_params *p) {
    return sr_blocks_of(SR_REFERENCE_BLOCK, p->inner);
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_extreme.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_extreme(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(extreme);
    const sr_axis_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]],
                 sr_blocks_of(p->rows * p->inner, block_results(p)));
    return SR_OK;
}

sr_status sr_reference_prepare_one_hot(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(one_hot);
    const sr_axis_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[1]], sr_blocks_of(p->rows * p->n, block_lines(p)));
    return SR_OK;
}
