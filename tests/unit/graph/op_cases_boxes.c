// SPDX-License-Identifier: Apache-2.0
// Cases of operators of boxes. Values are those of torchvision.
#include "tests/unit/graph/op_case_builders.h"

#define NUMBERS(rank_, ...)                                                                        \
    {                                                                                              \
        .dtype = SR_I32, .rank = (rank_), .dim = { __VA_ARGS__ }                                   \
    }

BUILD(iou, sr_box_iou(in[0], in[1]))
BUILD(kept, sr_cast(sr_nms(in[0], in[1], SR_NONE, (sr_nms_opts){.overlap = 0.5}).index, SR_F64))
BUILD(kept_of_classes,
      sr_cast(sr_nms(in[0], in[1], in[2], (sr_nms_opts){.overlap = 0.5, .capacity = 3}).index,
              SR_F64))
BUILD(kept_above, sr_cast(sr_nms(in[0], in[1], SR_NONE,
                                 (sr_nms_opts){.overlap = 0.5, .only_above = true, .above = 0.25})
                              .count,
                          SR_F64))
BUILD(kept_few,
      sr_cast(sr_nms(in[0], in[1], SR_NONE, (sr_nms_opts){.overlap = 1, .capacity = 2}).index,
              SR_F64))
BUILD(align, sr_roi_align(in[0], in[1], in[2],
                          (sr_roi_align_opts){.height = 2, .samples = 2, .aligned = true}))
BUILD(align_old,
      sr_roi_align(in[0], in[1], in[2], (sr_roi_align_opts){.height = 1, .width = 2, .scale = 0.5}))

static sr_tensor square(sr_context *context) {
    return ZEROS(SR_F32, 4, 1, 2, 2, 1);
}
static sr_tensor images(sr_context *context) {
    return ZEROS(SR_I32, 1, 2);
}
WRONG(iou_ranks, sr_box_iou(ZEROS(SR_F32, 2, 2, 4), ZEROS(SR_F32, 3, 1, 2, 4)))
WRONG(nms_shapes, sr_nms(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 2, 1, 3), SR_NONE,
                         (sr_nms_opts){.overlap = 0.5})
                      .index)
WRONG(nms_classes, sr_nms(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 2, 1, 2), images(context),
                          (sr_nms_opts){.overlap = 0.5})
                       .index)
WRONG(nms_of_none, sr_nms(ZEROS(SR_F32, 3, 1, 2, 4), ZEROS(SR_F32, 2, 1, 2), SR_NONE,
                          (sr_nms_opts){.overlap = 0.5, .capacity = -1})
                       .index)
WRONG(align_boxes, sr_roi_align(square(context), ZEROS(SR_F32, 2, 2, 5), images(context),
                                (sr_roi_align_opts){.height = 2}))
WRONG(align_to_nothing, sr_roi_align(square(context), ZEROS(SR_F32, 2, 2, 4), images(context),
                                     (sr_roi_align_opts){.width = 2}))
WRONG(align_grad_rows,
      sr_op_record_one(sr_op_find("roi_align_grad"), (const double[8]){0},
                       (sr_tensor[]){square(context), ZEROS(SR_F32, 2, 2, 4), images(context)}))

const op_case op_cases_boxes[] = {
    {.op = "div",
     .build = iou,
     .inputs = 2,
     .info = {F64(2, 2, 4), F64(2, 3, 4)},
     .in = {{0, 0, 2, 2, 1, 1, 4, 3}, {1, 1, 3, 3, 0, 0, 2, 1, 5, 5, 6, 6}},
     .want = {0.14285714285714285, 0.5, 0, 0.6666666666666667, 0, 0},
     .want_count = 6,
     .low = 1,
     .high = 3,
     .gradient = GRADIENT_TWICE,
     .wrong = iou_ranks,
     .call = "box_iou",
     .message = "box_iou: a [2, 4] f32 must be [...,M,4] and b [1, 2, 4] f32"},
    {.op = "nms",
     .build = kept,
     .inputs = 2,
     .info = {F64(3, 1, 4, 4), F64(2, 1, 4)},
     .in = {{0, 0, 2, 2, 0, 0, 2, 1.9, 1, 1, 4, 3, 0, 0, 2, 2.1}, {0.5, 0.9, 0.3, 0.5}},
     .want = {1, 2, -1, -1},
     .want_count = 4,
     .own_type = true,
     .gradient = GRADIENT_STOPS,
     .wrong = nms_shapes,
     .message = "nms: boxes [1, 2, 4] f32 must be [N,M,4] and scores [1, 3] f32"},
    {.op = "nms",
     .build = kept_of_classes,
     .inputs = 3,
     .info = {F64(3, 1, 4, 4), F64(2, 1, 4), NUMBERS(2, 1, 4)},
     .in = {{0, 0, 2, 2, 0, 0, 2, 1.9, 1, 1, 4, 3, 0, 0, 2, 2.1},
            {0.5, 0.9, 0.3, 0.5},
            {0, 0, 0, 1}},
     .want = {1, 3, 2},
     .want_count = 3,
     .own_type = true,
     .gradient = GRADIENT_STOPS,
     .wrong = nms_classes,
     .message = "nms: classes [2] i32 must be i32 in the shape of scores"},
    // Two samples; those of equal scores in the order of their indices.
    {.op = "nms",
     .build = kept_few,
     .inputs = 2,
     .info = {F64(3, 2, 2, 4), F64(2, 2, 2)},
     .in = {{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1}, {0.5, 0.5, 0.25, 0.5}},
     .want = {0, 1, 1, 0},
     .want_count = 4,
     .own_type = true,
     .gradient = GRADIENT_STOPS,
     .wrong = nms_of_none,
     .message = "nms: -1 of boxes [1, 2, 4] f32; 1 to 2147483647 are possible"},
    {.op = "nms",
     .build = kept_above,
     .inputs = 2,
     .info = {F64(3, 1, 4, 4), F64(2, 1, 4)},
     .in = {{0, 0, 2, 2, 3, 0, 5, 2, 6, 6, 7, 7, 9, 9, 11, 12}, {0.5, 0.25, 0.3, -0.5}},
     .want = {2},
     .want_count = 1,
     .own_type = true,
     .gradient = GRADIENT_STOPS},
    {.op = "roi_align",
     .build = align,
     .inputs = 3,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 4, 4, 1), F64(2, 2, 4), I32(2)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
            {0.5, 0.5, 3, 2.5, -1, 1, 6, 3.5},
            {0, 0}},
     .want = {3.625, 4.875, 7.625, 8.875, 6.0625, 4.1875, 11.0625, 6.6875},
     .want_count = 8,
     .low = 0.25,
     .high = 2.5,
     .gradient = GRADIENT_TWICE,
     .wrong = align_boxes,
     .message = "roi_align: boxes [2, 5] f32 must be f32 [R,4], image [2] i32 i32 [R]"},
    // The second box is of no image.
    {.op = "roi_align",
     .build = align_old,
     .inputs = 3,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 4, 4, 1), F64(2, 3, 4), I32(3)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
            {0.5, 0.5, 3, 2.5, 0, 0, 4, 4, -1, 1, 6, 3.5},
            {0, -1, 0}},
     .want = {4.5625, 5.1875, 0, 0, 5.90625, 7.625},
     .want_count = 6,
     .low = 0.25,
     .high = 2.5,
     .gradient = GRADIENT_TWICE,
     .wrong = align_to_nothing,
     .message = "to 0 x 2 pixels with 0 samples and scale 1: size and scale must be positive"},
    {.op = "roi_align_grad",
     .build = align,
     .wrt = 1,
     .inputs = 4,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 4, 4, 1), F64(2, 2, 4), I32(2), F64(4, 2, 2, 2, 1)},
     .in = {{0}, {0.5, 0.5, 3, 2.5, -1, 1, 6, 3.5}, {0, 0}, {1, 2, 3, 4, 5, 6, 7, 8}},
     .want = {0.421875, 0.736328125, 0.751953125, 0.33984375, 2.46875, 3.41015625, 2.53515625,
              2.0859375, 3.296875, 3.767578125, 2.111328125, 2.94921875, 1.3125, 1.1484375,
              0.3515625, 1.3125},
     .want_count = 16,
     .low = 0.25,
     .high = 2.5,
     .gradient = GRADIENT_TWICE,
     .wrong = align_grad_rows,
     .message = "roi_align_grad: dy [1, 2, 2, 1] f32 must have a picture for each of 2 boxes"},
};
const size_t op_cases_boxes_count = sizeof op_cases_boxes / sizeof op_cases_boxes[0];
