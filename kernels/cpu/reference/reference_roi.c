// SPDX-License-Identifier: Apache-2.0
// roi_align and its gradient: pixels and weights of kernels/roi.h, rounded to the type of sums.
//
// A bin is the sum over its rows of the weight of the row times the sum over its columns of the
// weight of the column times the pixel, times the share of a sample. A pixel of the gradient is the
// same sum over the bins of a box that it is part of, and the sum of these over its boxes. All sums
// are in order, in leaves and the tree of reference_sum.inc. Weights of 0 are left out.
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/roi.h"

// Numbers of the tree of sums of so many terms.
static inline int64_t roi_numbers(int64_t terms, int64_t channels) {
    return (1 + sr_leaf_levels(terms)) * channels;
}

// Box r; they have the type of parameters.
static inline sr_roi_box roi_box(const sr_roi_params *p, const void *boxes, const int32_t *image,
                                 int64_t r, bool wide) {
    double box[4];
    for (int k = 0; k < 4; k++)
        box[k] =
            wide ? ((const double *)boxes)[4 * r + k] : (double)((const float *)boxes)[4 * r + k];
    return sr_roi_box_of(p, box, image[r]);
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_roi.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_roi_align(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(roi_align);
    const sr_roi_params *p = (const void *)request->params;
    const int64_t sums = roi_numbers(p->h, p->c) + roi_numbers(p->w, p->c);
    out->scratch = (size_t)(sums + p->h + p->w) * sr_accumulator_size(request->dtype[0]);
    sr_add_stage(out, variants[request->dtype[0]], p->rois * p->p);
    return SR_OK;
}

// Scratch: a box for each of 'rois', then sums and weights.
sr_status sr_reference_prepare_roi_align_grad(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(roi_align_grad);
    const sr_roi_params *p = (const void *)request->params;
    const int64_t sums =
        roi_numbers(p->p, p->c) + roi_numbers(p->q, p->c) + roi_numbers(p->rois, p->c);
    const int64_t weights = p->q + p->rois * p->p;
    out->scratch = (size_t)p->rois * sizeof(sr_roi_box) +
                   (size_t)(sums + weights) * sr_accumulator_size(request->dtype[0]);
    sr_add_stage(out, variants[request->dtype[0]], p->n * p->h);
    return SR_OK;
}
