// SPDX-License-Identifier: Apache-2.0
// Copies of elements to other places: rearrange (a permutation of dimensions, a part, padding with
// zeros) and concat. Elements are moved as they are.
#include <string.h>

#include "kernels/cpu/reference/reference_internal.h"

// Where the elements of a row of y, its last dimension, come from.
typedef struct row_source {
    bool inside;    // else the row is zeros
    int64_t offset; // in x, of its element begin[last]
} row_source;

static row_source source_of(const sr_rearrange_params *p, int64_t row) {
    row_source source = {.inside = true, .offset = p->first};
    for (int d = p->dims - 2; d >= 0; d--) {
        const int64_t at = row % p->dim[d] - p->begin[d];
        row /= p->dim[d];
        if (at < 0 || at >= p->end[d] - p->begin[d] || at % p->every[d] != 0)
            source.inside = false;
        else
            source.offset += at / p->every[d] * p->step[d];
    }
    return source;
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_rearrange.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_rearrange(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(rearrange);
    const sr_rearrange_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]], sr_blocks_of(p->count, SR_REFERENCE_BLOCK));
    return SR_OK;
}

sr_status sr_reference_prepare_concat(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(concat);
    const sr_concat_params *p = (const void *)request->params;
    const int64_t row = sr_concat_width(p);
    sr_add_stage(out, variants[request->dtype[0]],
                 sr_blocks_of(p->rows, sr_blocks_of(SR_REFERENCE_BLOCK, row)));
    return SR_OK;
}
