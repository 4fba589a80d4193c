// SPDX-License-Identifier: Apache-2.0
// Weighted sums of elements by their numbers: gather_sum, and its gradients with respect to the
// elements, scatter_sum, and to the weights, gather_dot.
//
// scatter_sum sorts the index as scatter_add does: of each picture and group, the terms of each
// place in ascending order. They are added in leaves and the tree of reference_sum.inc, as the
// products of gather_dot are.
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/cpu/reference/reference_lists.h"

// Rows [count] of the index and of y in a block.
static inline int64_t rows_of_block(const sr_gather_sum_params *p) {
    return sr_blocks_of(SR_REFERENCE_BLOCK, p->groups * p->inner);
}

static inline int64_t blocks_of_rows(const sr_gather_sum_params *p, int64_t rows) {
    return sr_blocks_of(rows, rows_of_block(p));
}

static inline int64_t dot_levels(const sr_gather_sum_params *p) {
    return sr_reference_levels(sr_blocks_of(p->inner, SR_REFERENCE_TERMS));
}

static inline int64_t place_levels(const sr_gather_sum_params *p) {
    return sr_reference_levels(sr_blocks_of(p->count * p->share, SR_REFERENCE_TERMS));
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_gather_sum.inc"
#include "kernels/cpu/reference/reference_typed.inc"

static sr_status sort_list(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_gather_params lists = sr_gather_sum_lists(args->params);
    sr_sort_list(&lists, args->p[1], args->workspace, block);
    return SR_OK;
}

sr_status sr_reference_prepare_gather_sum(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(gather_sum);
    const sr_gather_sum_params *p = (const void *)request->params;
    out->scratch = (size_t)p->inner * sr_accumulator_size(request->dtype[0]);
    sr_add_stage(out, variants[request->dtype[0]], blocks_of_rows(p, p->outer * p->count));
    return SR_OK;
}

sr_status sr_reference_prepare_gather_dot(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(gather_dot);
    const sr_gather_sum_params *p = (const void *)request->params;
    out->scratch =
        (size_t)((1 + dot_levels(p)) * p->share) * sr_accumulator_size(request->dtype[0]);
    sr_add_stage(out, variants[request->dtype[0]], blocks_of_rows(p, p->outer * p->count));
    return SR_OK;
}

sr_status sr_reference_prepare_scatter_sum(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(scatter_sum);
    const sr_gather_sum_params *p = (const void *)request->params;
    const sr_gather_params lists = sr_gather_sum_lists(p);
    sr_add_stage(out, sort_list, sr_gather_lists(&lists));
    sr_add_stage(out, variants[request->dtype[0]], blocks_of_rows(p, p->outer * p->n));
    out->workspace = sr_list_bytes(&lists);
    out->scratch =
        (size_t)((1 + place_levels(p)) * p->inner) * sr_accumulator_size(request->dtype[0]);
    return SR_OK;
}
