// SPDX-License-Identifier: Apache-2.0
// Cases of operators that resize pictures. Values follow the formulas of PyTorch's documentation,
// evaluated by hand.
#include "tests/unit/graph/op_case_builders.h"

BUILD(bilinear, sr_resize2d(in[0], (sr_resize2d_opts){.scale = 2, .mode = SR_RESIZE_BILINEAR}))
BUILD(bilinear_by_scale,
      sr_resize2d(in[0],
                  (sr_resize2d_opts){.scale = 1, .scale_w = 1.5, .mode = SR_RESIZE_BILINEAR}))
BUILD(bilinear_down,
      sr_resize2d(in[0], (sr_resize2d_opts){.height = 2, .width = 2, .mode = SR_RESIZE_BILINEAR}))
BUILD(bilinear_up,
      sr_resize2d(in[0], (sr_resize2d_opts){.height = 3, .width = 3, .mode = SR_RESIZE_BILINEAR}))
BUILD(corners,
      sr_resize2d(in[0],
                  (sr_resize2d_opts){
                      .height = 1, .width = 5, .mode = SR_RESIZE_BILINEAR, .align_corners = true}))
BUILD(bicubic,
      sr_resize2d(in[0], (sr_resize2d_opts){.height = 3, .width = 4, .mode = SR_RESIZE_BICUBIC}))
BUILD(nearest, sr_resize2d(in[0], (sr_resize2d_opts){.height = 3, .width = 5}))
BUILD(nearest_exact,
      sr_resize2d(in[0],
                  (sr_resize2d_opts){.height = 1, .width = 5, .mode = SR_RESIZE_NEAREST_EXACT}))
BUILD(antialiased,
      sr_resize2d(in[0],
                  (sr_resize2d_opts){
                      .height = 1, .width = 2, .mode = SR_RESIZE_BILINEAR, .antialias = true}))
BUILD(antialiased_bicubic,
      sr_resize2d(in[0],
                  (sr_resize2d_opts){
                      .height = 2, .width = 1, .mode = SR_RESIZE_BICUBIC, .antialias = true}))
BUILD(area, sr_resize2d(in[0], (sr_resize2d_opts){.height = 2, .width = 2, .mode = SR_RESIZE_AREA}))
BUILD(area_rows,
      sr_resize2d(in[0], (sr_resize2d_opts){.height = 2, .width = 1, .mode = SR_RESIZE_AREA}))

static sr_tensor square(sr_context *context) {
    return ZEROS(SR_F32, 4, 1, 2, 2, 1);
}
WRONG(resize_rows, sr_resize2d(ZEROS(SR_F32, 2, 2, 2), (sr_resize2d_opts){.scale = 2}))
WRONG(resize_to_nothing, sr_resize2d(square(context), (sr_resize2d_opts){0}))
WRONG(resize_to_both, sr_resize2d(square(context), (sr_resize2d_opts){2, 2, .scale = 2}))
WRONG(resize_too_small, sr_resize2d(square(context), (sr_resize2d_opts){.scale = 0.25}))
WRONG(resize_too_large, sr_resize2d(square(context), (sr_resize2d_opts){.scale = 1e300}))
WRONG(nearest_corners,
      sr_resize2d(square(context), (sr_resize2d_opts){.scale = 2, .align_corners = true}))
WRONG(resize_by_nothing,
      sr_resize2d(square(context), (sr_resize2d_opts){.scale = 2, .mode = (sr_resize_mode)9}))
WRONG(resize_grad_size, sr_op_record_one(sr_op_find("resize2d_grad"), (const double[8]){0},
                                         (sr_tensor[]){square(context)}))

const op_case op_cases_pictures[] = {
    {.op = "resize2d",
     .build = bilinear,
     .inputs = 1,
     .info = {F64(4, 1, 2, 2, 1)},
     .in = {{1, 2, 3, 4}},
     .want = {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4},
     .want_count = 16,
     .gradient = GRADIENT_TWICE,
     .wrong = resize_rows,
     .message =
         "resize2d: x [2, 2] f32 to 0 x 0 pixels, or 2 times its size: it must be [N,H,W,C]"},
    // A step of 2 / 3; by its size, it would be 3 / 4.
    {.op = "resize2d",
     .build = bilinear_by_scale,
     .inputs = 1,
     .info = {F64(4, 1, 1, 3, 1)},
     .in = {{1, 2, 4}},
     .want = {1, 1.5, 2.3333333333333333, 3.6666666666666667},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = resize_to_nothing,
     .message = "either height and width or scale must be given, and be positive"},
    {.op = "resize2d",
     .build = bilinear_down,
     .inputs = 1,
     .info = {F64(4, 1, 3, 3, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}},
     .want = {2, 3.5, 6.5, 8},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = resize_to_both,
     .message = "either height and width or scale must be given, and be positive"},
    {.op = "resize2d",
     .build = corners,
     .inputs = 1,
     .info = {F64(4, 1, 1, 3, 1)},
     .in = {{1, 2, 4}},
     .want = {1, 1.5, 2, 3, 4},
     .want_count = 5,
     .gradient = GRADIENT_TWICE,
     .wrong = nearest_corners,
     .message = "align_corners and antialias are for bilinear and bicubic"},
    {.op = "resize2d",
     .build = bicubic,
     .inputs = 1,
     .info = {F64(4, 1, 2, 3, 1)},
     .in = {{1, 2, 4, -1, 0, 3}},
     .want = {1.10183376736111, 1.603069729275172, 2.972896999782983, 4.224129570855031,
              -0.07177734375, 0.364990234375, 2.0107421875, 3.679443359375, -1.245388454861112,
              -0.8730892605251742, 1.048587375217014, 3.134757147894964},
     .want_count = 12,
     .gradient = GRADIENT_TWICE,
     .wrong = resize_by_nothing,
     .message = "there is no such mode"},
    {.op = "resize2d",
     .build = nearest,
     .inputs = 1,
     .info = {F64(4, 1, 2, 3, 1)},
     .in = {{1, 2, 3, 4, 5, 6}},
     .want = {1, 1, 2, 2, 3, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6},
     .want_count = 15,
     .gradient = GRADIENT_TWICE,
     .wrong = resize_too_small,
     .message = "resize2d: x [1, 2, 2, 1] f32 to 0 x 0 pixels: a side has 1 to 2147483647"},
    {.op = "resize2d",
     .build = nearest_exact,
     .inputs = 1,
     .info = {F64(4, 1, 1, 3, 1)},
     .in = {{1, 2, 3}},
     .want = {1, 1, 2, 3, 3},
     .want_count = 5,
     .gradient = GRADIENT_TWICE,
     .wrong = resize_too_large,
     .message = "pixels: a side has 1 to 2147483647"},
    {.op = "resize2d",
     .build = antialiased,
     .inputs = 1,
     .info = {F64(4, 1, 1, 4, 1)},
     .in = {{1, 2, 3, 5}},
     .want = {1.7142857142857142, 3.7142857142857142},
     .want_count = 2,
     .gradient = GRADIENT_TWICE},
    {.op = "resize2d",
     .build = antialiased_bicubic,
     .inputs = 1,
     .info = {F64(4, 1, 5, 1, 1)},
     .in = {{1, 2, 3, 5, 0}},
     .want = {2.042349436050223, 2.823366673760375},
     .want_count = 2,
     .gradient = GRADIENT_TWICE},
    {.op = "resize2d",
     .build = area,
     .inputs = 1,
     .info = {F64(4, 1, 3, 2, 1)},
     .in = {{1, 2, 3, 4, 5, 6}},
     .want = {2, 3, 4, 5},
     .want_count = 4,
     .gradient = GRADIENT_TWICE},
    {.op = "resize2d_grad",
     .build = bilinear_up,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(4, 1, 3, 3, 1)},
     .in = {{0}, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
     .want = {5.25, 8.25, 14.25, 17.25},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = resize_grad_size,
     .message = "resize2d_grad: dy"},
    {.op = "resize2d_grad",
     .build = area_rows,
     .wrt = 1,
     .inputs = 2,
     .info = {F64(4, 1, 3, 1, 1), F64(4, 1, 2, 1, 1)},
     .in = {{0}, {1, 2}},
     .want = {0.5, 1.5, 1},
     .want_count = 3,
     .gradient = GRADIENT_TWICE},
};
const size_t op_cases_pictures_count = sizeof op_cases_pictures / sizeof op_cases_pictures[0];
