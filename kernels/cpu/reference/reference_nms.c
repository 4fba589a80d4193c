// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression: boxes in the order of their scores, of which each removes those after it
// that overlap it. One block is one sample. Scratch has a flag for each place of the order.
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/boxes.h"
#include "kernels/cpu/reference/reference_internal.h"

#define OVERLAP_float sr_boxes_overlap_f32
#define OVERLAP_double sr_boxes_overlap_f64
#define OVERLAP_OF(type) OVERLAP_##type
#define OVERLAP(type) OVERLAP_OF(type)

#define SR_TYPED_BODY "kernels/cpu/reference/reference_nms.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_nms(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(nms);
    const sr_nms_params *p = (const void *)request->params;
    out->scratch = (size_t)p->boxes;
    sr_add_stage(out, variants[request->dtype[0]], p->samples);
    return SR_OK;
}
