// SPDX-License-Identifier: Apache-2.0
// Elementwise reference kernels that are no formulas (reference_expression.c): filling, dropout,
// pictures to floats. Blocks of 64 Ki elements; output may be an input.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/base/rng.h"
#include "kernels/cpu/reference/reference_internal.h"

#define SR_TYPED_BODY "kernels/cpu/reference/reference_elementwise.inc"
#include "kernels/cpu/reference/reference_typed.inc"

// Every params struct of these kernels begins with the number of elements.
static int64_t count_of(const void *params) {
    return ((const sr_count_params *)params)->count;
}

static sr_status prepare(const sr_kernel_fn *variants, sr_dtype dtype, int64_t count,
                         sr_prepared *out) {
    sr_add_stage(out, variants[dtype], sr_blocks_of(count, SR_REFERENCE_BLOCK));
    return SR_OK;
}

// 'typed' is the argument whose dtype is T.
#define ELEMENTWISE(kernel, typed)                                                                 \
    sr_status sr_reference_prepare_##kernel(const sr_kernel_request *request, sr_prepared *out) {  \
        static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(kernel);                         \
        return prepare(variants, request->dtype[typed], count_of(request->params), out);           \
    }

ELEMENTWISE(fill_by, 1)
ELEMENTWISE(dropout, 0)

sr_status sr_reference_prepare_normalize(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(normalize);
    const sr_normalize_params *p = (const void *)request->params;
    if (p->channels < 1 || p->channels > SR_NORMALIZE_MAX_CHANNELS)
        return SR_FAIL(SR_E_UNSUPPORTED, "normalize: %lld channels; the limit is %d",
                       (long long)p->channels, SR_NORMALIZE_MAX_CHANNELS);
    return prepare(variants, request->dtype[1], p->rows * p->channels, out);
}
