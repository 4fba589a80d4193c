// SPDX-License-Identifier: Apache-2.0
// Elements of one dimension by their numbers: gather copies them, scatter_add sums what was copied.
//
// scatter_add first sorts the index: of each of its lists it makes, for every place of y, the list
// of the j that belong there, in ascending order (a counting sort). The terms of an element of y
// are those of its place in this order, in leaves and the tree of reference_sum.inc. So the work
// grows with the number of terms plus that of results, and no order depends on the device.
#include <math.h>
#include <string.h>

#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/cpu/reference/reference_lists.h"

#define NEIGHBOURS 1024 // of 'inner' that are summed together

// Neighbours of a row for which the index has the same number.
static inline int64_t together(const sr_gather_params *p, int64_t most) {
    return p->per_inner ? 1 : p->inner < most ? p->inner : most;
}

static sr_status sort_list(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    sr_sort_list(args->params, args->p[1], args->workspace, block);
    return SR_OK;
}

// Neighbours from 'first' on of place 'place' of y.
typedef struct sum_unit {
    int64_t outer, place, first, width;
} sum_unit;

static inline int64_t chunks_of(const sr_gather_params *p) {
    return sr_blocks_of(p->inner, together(p, NEIGHBOURS));
}

static inline sum_unit unit_of(const sr_gather_params *p, int64_t number) {
    const int64_t width = together(p, NEIGHBOURS), chunks = chunks_of(p);
    const int64_t first = number % chunks * width, left = p->inner - first, row = number / chunks;
    return (sum_unit){row / p->n, row % p->n, first, left < width ? left : width};
}

static inline int64_t units_of_block(const sr_gather_params *p) {
    return sr_blocks_of(SR_REFERENCE_BLOCK, together(p, NEIGHBOURS));
}

static inline int64_t levels_of(const sr_gather_params *p) {
    return sr_reference_levels(sr_blocks_of(p->count, SR_REFERENCE_TERMS));
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_gather.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_gather(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(gather);
    const sr_gather_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]],
                 sr_blocks_of(p->outer * p->count, sr_blocks_of(SR_REFERENCE_BLOCK, p->inner)));
    return SR_OK;
}

sr_status sr_reference_prepare_scatter_add(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(scatter_add);
    const sr_gather_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    sr_add_stage(out, sort_list, sr_gather_lists(p));
    sr_add_stage(out, variants[dtype],
                 sr_blocks_of(p->outer * p->n * chunks_of(p), units_of_block(p)));
    out->workspace = sr_list_bytes(p);
    out->scratch =
        (size_t)((1 + levels_of(p)) * together(p, NEIGHBOURS)) * sr_accumulator_size(dtype);
    return SR_OK;
}
