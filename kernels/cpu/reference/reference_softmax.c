// SPDX-License-Identifier: Apache-2.0
// Reference softmax over rows, its logarithm, gradients; cross-entropy with label smoothing and
// ignored labels, its gradient, and counts of correct predictions. Sums over a row are those of
// reference_sum.inc.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"

#define ROW_CHUNK 32 // samples of one block

// Rows of a block of the kernels on rows of channels.
static int64_t block_rows_of(const sr_rows_params *p) {
    return sr_blocks_of(SR_REFERENCE_BLOCK, p->channels);
}

static sr_block_range rows_of_block(const sr_kernel_args *args, int64_t block) {
    const sr_rows_params *p = args->params;
    return sr_block_range_of(block, block_rows_of(p), p->rows);
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_softmax.inc"
#include "kernels/cpu/reference/reference_typed.inc"

static int64_t sample_blocks(const sr_kernel_request *request) {
    return sr_blocks_of(((const sr_xent_params *)(const void *)request->params)->n, ROW_CHUNK);
}

static sr_status prepare_rows(const sr_kernel_request *request, const sr_kernel_fn *variants,
                              sr_prepared *out) {
    const sr_rows_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]], sr_blocks_of(p->rows, block_rows_of(p)));
    return SR_OK;
}

// Narrow types need room for a row of exponentials.
sr_status sr_reference_prepare_softmax(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(softmax);
    const sr_rows_params *p = (const void *)request->params;
    if (sr_dtype_size(request->dtype[0]) < sizeof(float))
        out->scratch = (size_t)p->channels * sizeof(float);
    return prepare_rows(request, variants, out);
}

sr_status sr_reference_prepare_softmax_grad(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(softmax_grad);
    return prepare_rows(request, variants, out);
}

sr_status sr_reference_prepare_log_softmax(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(log_softmax);
    return prepare_rows(request, variants, out);
}

sr_status sr_reference_prepare_log_softmax_grad(const sr_kernel_request *request,
                                                sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(log_softmax_grad);
    return prepare_rows(request, variants, out);
}

sr_status sr_reference_prepare_logsumexp(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(logsumexp);
    return prepare_rows(request, variants, out);
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
