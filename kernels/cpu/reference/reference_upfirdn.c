// SPDX-License-Identifier: Apache-2.0
// upfirdn2d: zeros between the pixels, a filter, every n-th pixel. One block is one row of the
// output. A pixel is the sum over the rows of the filter of the sums over its columns, in order,
// without the terms that are zeros between or around the pixels.
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/upfirdn.h"

#define SR_TYPED_BODY "kernels/cpu/reference/reference_upfirdn.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_upfirdn2d(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(upfirdn2d);
    const sr_upfirdn_params *p = (const void *)request->params;
    out->scratch = (size_t)(2 * p->c) * sr_accumulator_size(request->dtype[0]);
    sr_add_stage(out, variants[request->dtype[0]], p->n * p->p);
    return SR_OK;
}
