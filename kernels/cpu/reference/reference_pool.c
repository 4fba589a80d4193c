// SPDX-License-Identifier: Apache-2.0
// Reference pooling and nearest upsampling. One block is one row of the output (of dx in the
// gradients, which gather, so that no two blocks write the same element). Pixels of a window, and
// outputs that a pixel is part of, are added row by row, in leaves and the tree of
// reference_sum.inc.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"

typedef struct pool_window {
    int64_t begin, end; // input positions, or elements, inside the picture
    int64_t first;      // input position of offset 0, possibly in the padding
} pool_window;

static inline pool_window window_of(int64_t out, int32_t window, int32_t stride, int32_t pad,
                                    int64_t size) {
    const int64_t first = out * stride - pad, end = first + window;
    return (pool_window){first < 0 ? 0 : first, end < size ? end : size, first};
}

// A window of maxpool2d: the elements of it that are in the picture, and the input position of
// element 0, possibly in the padding. Neighbours are 'apart'.
static inline pool_window elements_of(int64_t out, int32_t window, int32_t stride, int32_t pad,
                                      int32_t gap, int64_t size) {
    const int64_t first = out * stride - pad, apart = 1 + (int64_t)gap;
    const int64_t begin = first < 0 ? sr_blocks_of(-first, apart) : 0;
    const int64_t end = first < size ? sr_blocks_of(size - first, apart) : 0;
    return (pool_window){begin, end < window ? end : window, first};
}

// Extent of such a window.
static inline int32_t extent_of(int32_t window, int32_t gap) {
    return window + (window - 1) * gap;
}

// Outputs whose windows contain input position 'in'.
static inline sr_block_range outputs_of(int64_t in, int32_t window, int32_t stride, int32_t pad,
                                        int64_t outputs) {
    const int64_t at = in + pad;
    const int64_t begin = at < window ? 0 : (at - window) / stride + 1, end = at / stride + 1;
    return (sr_block_range){begin, end < outputs ? end : outputs};
}

// The element of a window that is 'distance' after its element 0; negative: none.
static inline int64_t element_at(int64_t distance, int32_t gap) {
    const int64_t apart = 1 + (int64_t)gap;
    return distance % apart == 0 ? distance / apart : -1;
}

// Copies of a pixel that upsampling makes.
static inline int64_t copies_of(const sr_pool_params *p) {
    return (int64_t)p->stride_h * p->stride_w;
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_pool.inc"
#include "kernels/cpu/reference/reference_typed.inc"

// terms: of a sum, at most; 0: there are no sums.
static sr_status prepare(const sr_kernel_fn *variants, const sr_kernel_request *request,
                         int64_t blocks, int64_t terms, sr_prepared *out) {
    const sr_pool_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    sr_add_stage(out, variants[dtype], blocks);
    if (terms > 0)
        out->scratch = (size_t)((1 + sr_leaf_levels(terms)) * p->c) * sr_accumulator_size(dtype);
    return SR_OK;
}

// 'rows' is the height of the output.
#define POOL(kernel, rows, terms)                                                                  \
    sr_status sr_reference_prepare_##kernel(const sr_kernel_request *request, sr_prepared *out) {  \
        static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(kernel);                         \
        const sr_pool_params *p = (const void *)request->params;                                   \
        return prepare(variants, request, p->n * (rows), terms, out);                              \
    }

POOL(maxpool2d, p->p, 0)
POOL(maxpool2d_grad, p->h, sr_pool_windows(p))
POOL(avgpool2d, p->p, sr_pool_pixels(p))
POOL(avgpool2d_grad, p->h, sr_pool_windows(p))
POOL(upsample2d, p->p, 0)
POOL(upsample2d_grad, p->h, copies_of(p))
