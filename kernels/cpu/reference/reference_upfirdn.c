// SPDX-License-Identifier: Apache-2.0
// upfirdn2d: zeros between the pixels, a filter, every n-th pixel. One block is one row of the
// output. A pixel is the sum over the rows of the filter of the sums over its columns, both in
// leaves and the tree of reference_sum.inc, without the terms that are zeros between or around the
// pixels.
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/upfirdn.h"

// Levels of the trees of the sums over rows and columns.
static inline int64_t row_levels(const sr_upfirdn_params *p) {
    return sr_leaf_levels(sr_upfirdn_most(p->r, p->up_h, p->h));
}
static inline int64_t column_levels(const sr_upfirdn_params *p) {
    return sr_leaf_levels(sr_upfirdn_most(p->s, p->up_w, p->w));
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_upfirdn.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_upfirdn2d(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(upfirdn2d);
    const sr_upfirdn_params *p = (const void *)request->params;
    out->scratch = (size_t)((2 + row_levels(p) + column_levels(p)) * p->c) *
                   sr_accumulator_size(request->dtype[0]);
    sr_add_stage(out, variants[request->dtype[0]], p->n * p->p);
    return SR_OK;
}
