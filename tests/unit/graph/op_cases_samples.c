// SPDX-License-Identifier: Apache-2.0
// Cases of operators that sample pictures, and of the weighted sums that they consist of. Values of
// sums are computed by hand; others are those of PyTorch and torchvision.
#include "tests/unit/graph/op_case_builders.h"

#define INDEX(...)                                                                                 \
    {                                                                                              \
        .dtype = SR_I32, .rank = 4, .dim = { __VA_ARGS__ }                                         \
    }

BUILD(weighted, sr_gather_sum(in[0], in[1], in[2]))
BUILD(sample, sr_grid_sample(in[0], in[1], (sr_grid_sample_opts){0}))
BUILD(sample_border,
      sr_grid_sample(in[0], in[1],
                     (sr_grid_sample_opts){.border = SR_PAD_REPLICATE, .align_corners = true}))
BUILD(sample_reflected,
      sr_grid_sample(in[0], in[1], (sr_grid_sample_opts){.border = SR_PAD_REFLECT}))
BUILD(sample_nearest,
      sr_grid_sample(in[0], in[1],
                     (sr_grid_sample_opts){.mode = SR_SAMPLE_NEAREST, .align_corners = true}))
BUILD(sample_bicubic,
      sr_grid_sample(in[0], in[1], (sr_grid_sample_opts){.mode = SR_SAMPLE_BICUBIC}))
BUILD(sample_bicubic_border,
      sr_grid_sample(in[0], in[1],
                     (sr_grid_sample_opts){.mode = SR_SAMPLE_BICUBIC, .border = SR_PAD_REPLICATE}))
BUILD(sample_bicubic_reflected, sr_grid_sample(in[0], in[1],
                                               (sr_grid_sample_opts){.mode = SR_SAMPLE_BICUBIC,
                                                                     .border = SR_PAD_REFLECT,
                                                                     .align_corners = true}))
BUILD(deformed, sr_deform_conv2d(in[0], in[1], in[2], in[3], SR_NONE, (sr_conv2d_opts){0}))
BUILD(deformed_plain,
      sr_deform_conv2d(in[0], in[1], SR_NONE, in[2], in[3],
                       (sr_conv2d_opts){.stride = 2, .pad = 1, .dilation_w = 2, .groups = 2}))
BUILD(upsampled, sr_upfirdn2d(in[0], in[1], (sr_upfirdn2d_opts){.up = 2, .top = 1, .left = 1}))
BUILD(correlated,
      sr_upfirdn2d(in[0], in[1],
                   (sr_upfirdn2d_opts){.up = 2, .top = 1, .left = 1, .correlate = true}))
BUILD(downsampled,
      sr_upfirdn2d(in[0], in[1],
                   (sr_upfirdn2d_opts){.down = 2, .bottom = 1, .left = 1, .right = -1, .gain = 2}))
BUILD(resampled,
      sr_upfirdn2d(in[0], in[1],
                   (sr_upfirdn2d_opts){.up = 3, .down = 2, .top = 2, .left = 2, .right = 1}))

static sr_tensor square(sr_context *context) {
    return ZEROS(SR_F32, 4, 1, 2, 2, 1);
}
static sr_tensor numbers(sr_context *context) {
    return ZEROS(SR_I32, 4, 1, 2, 1, 2);
}
static sr_tensor weights(sr_context *context) {
    return ZEROS(SR_F32, 4, 1, 2, 1, 2);
}
WRONG(weighted_groups,
      sr_gather_sum(ZEROS(SR_F32, 4, 1, 2, 1, 2), numbers(context), weights(context)))
WRONG(weighted_halves,
      sr_gather_sum(ZEROS(SR_BF16, 4, 1, 3, 2, 1), numbers(context), ZEROS(SR_BF16, 4, 1, 2, 1, 2)))
WRONG(scattered_rows, sr_op_record_one(sr_op_find("scatter_sum"), (const int64_t[1]){0},
                                       (sr_tensor[]){ZEROS(SR_F32, 4, 1, 2, 2, 1), numbers(context),
                                                     weights(context)}))
WRONG(dot_rows, sr_op_record_one(sr_op_find("gather_dot"), NULL,
                                 (sr_tensor[]){square(context), ZEROS(SR_F32, 4, 1, 2, 1, 1),
                                               numbers(context)}))
WRONG(taps_of_three, sr_op_record_one(sr_op_find("taps2d"), (const int64_t[16]){0},
                                      (sr_tensor[]){ZEROS(SR_F32, 4, 1, 1, 1, 3)}))
WRONG(sample_of_three,
      sr_grid_sample(square(context), ZEROS(SR_F32, 4, 1, 1, 1, 3), (sr_grid_sample_opts){0}))
WRONG(sample_by_nothing, sr_grid_sample(square(context), ZEROS(SR_F32, 4, 1, 1, 1, 2),
                                        (sr_grid_sample_opts){.mode = (sr_sample_mode)3}))
WRONG(deformed_offsets,
      sr_deform_conv2d(square(context), ZEROS(SR_F32, 4, 1, 1, 1, 6), SR_NONE,
                       ZEROS(SR_F32, 4, 1, 1, 2, 2), SR_NONE, (sr_conv2d_opts){0}))
WRONG(deformed_mask,
      sr_deform_conv2d(square(context), ZEROS(SR_F32, 4, 1, 1, 1, 8), ZEROS(SR_F32, 4, 1, 1, 1, 8),
                       ZEROS(SR_F32, 4, 1, 1, 2, 2), SR_NONE, (sr_conv2d_opts){0}))
WRONG(deformed_too_large,
      sr_deform_conv2d(square(context), ZEROS(SR_F32, 4, 1, 1, 1, 18), SR_NONE,
                       ZEROS(SR_F32, 4, 1, 1, 3, 3), SR_NONE, (sr_conv2d_opts){0}))
WRONG(deformed_stride,
      sr_deform_conv2d(square(context), ZEROS(SR_F32, 4, 1, 1, 1, 8), SR_NONE,
                       ZEROS(SR_F32, 4, 1, 1, 2, 2), SR_NONE, (sr_conv2d_opts){.stride = -1}))
WRONG(filter_of_four,
      sr_upfirdn2d(square(context), ZEROS(SR_F32, 4, 1, 1, 2, 2), (sr_upfirdn2d_opts){0}))
WRONG(filter_too_large,
      sr_upfirdn2d(square(context), ZEROS(SR_F32, 2, 3, 3), (sr_upfirdn2d_opts){0}))
WRONG(filter_backwards,
      sr_upfirdn2d(square(context), ZEROS(SR_F32, 2, 1, 1), (sr_upfirdn2d_opts){.up = -1}))

// x of these cases, and the points.
#define PICTURE                                                                                    \
    { 1, 2, 4, -1, 0, 3 }
#define POINTS                                                                                     \
    { -0.9, -0.5, 0.25, 1.2, 1.5, 0.1, -0.3, 0.6 }
#define SAMPLED .inputs = 2, .params = 2, .info = {F64(4, 1, 2, 3, 1), F64(4, 1, 2, 2, 2)}

const op_case op_cases_samples[] = {
    {.op = "gather_sum",
     .build = weighted,
     .inputs = 3,
     .params = 4,
     .info = {F64(4, 1, 3, 1, 2), INDEX(1, 2, 2, 1), F64(4, 1, 2, 2, 1)},
     .in = {{1, 2, 3, 4, 5, 6}, {2, 0, 1, -1}, {1, 2, 3, 4}},
     .want = {7, 10, 9, 12},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = weighted_groups,
     .message = "gather_sum: index [1, 2, 1, 2] i32 must be i32 [N,J,T,K], T at most 32"},
    {.op = "gather_sum",
     .build = weighted,
     .inputs = 3,
     .params = 4,
     .info = {F64(4, 1, 2, 2, 1), INDEX(1, 1, 2, 2), F64(4, 1, 1, 2, 2)},
     .in = {{1, 2, 3, 4}, {1, 0, 0, 1}, {1, 2, 3, 4}},
     .want = {6, 20},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = weighted_halves,
     .message = "gather_sum: weight is [1, 2, 1, 2] bf16, expected [1, 2, 1, 2] f32"},
    {.op = "scatter_sum",
     .build = weighted,
     .wrt = 1,
     .inputs = 4,
     .params = 4,
     .info = {F64(4, 1, 3, 1, 2), INDEX(1, 2, 2, 1), F64(4, 1, 2, 2, 1), F64(4, 1, 2, 1, 2)},
     .in = {{0}, {2, 0, 1, -1}, {1, 2, 3, 4}, {1, 2, 3, 4}},
     .want = {2, 4, 9, 12, 1, 2},
     .want_count = 6,
     .gradient = GRADIENT_TWICE,
     .wrong = scattered_rows,
     .message = "scatter_sum: 0 rows, and an index of 2; 1 to 2147483647 are possible"},
    {.op = "gather_dot",
     .build = weighted,
     .wrt = 3,
     .inputs = 4,
     .params = 4,
     .info = {F64(4, 1, 3, 1, 2), INDEX(1, 2, 2, 1), F64(4, 1, 2, 2, 1), F64(4, 1, 2, 1, 2)},
     .in = {{1, 2, 3, 4, 5, 6}, {2, 0, 1, -1}, {1, 2, 3, 4}, {1, 2, 3, 4}},
     .want = {17, 5, 25, 0},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = dot_rows,
     .message = "gather_dot: y [1, 2, 1, 1] f32 does not fit to x [1, 2, 2, 1] f32"},

    // Samples at points
    {.op = "taps2d",
     .build = sample,
     SAMPLED,
     .in = {PICTURE, POINTS},
     .want = {0.65, 0.3375, 0, -0.405},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = taps_of_three,
     .message = "taps2d: points [1, 1, 1, 3] f32 must be f32 or f64 [N,0,K,2]"},
    {.op = "taps2d",
     .build = sample_border,
     SAMPLED,
     .in = {PICTURE, POINTS},
     .want = {0.6, 0.75, 3.45, 0.1},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = sample_of_three,
     .call = "grid_sample",
     .message = "grid_sample: x [1, 2, 2, 1] f32 must be [N,H,W,C] and grid [1, 1, 1, 3] f32"},
    {.op = "taps2d",
     .build = sample_reflected,
     SAMPLED,
     .in = {PICTURE, POINTS},
     .want = {1, 1.125, 2.75, -0.45},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = sample_by_nothing,
     .call = "grid_sample",
     .message = "grid_sample: there is no mode 3 or border 0"},
    {.op = "gather_sum",
     .build = sample_nearest,
     SAMPLED,
     .fixed = 2,
     .in = {PICTURE, POINTS},
     .want = {1, 0, 3, 0},
     .want_count = 4,
     .gradient = GRADIENT_TWICE},
    {.op = "taps2d",
     .build = sample_bicubic,
     SAMPLED,
     .in = {PICTURE, POINTS},
     .want = {0.55615625, 0.30685144043, -0.421875, -0.903118992188},
     .want_count = 4,
     .gradient = GRADIENT_TWICE},
    {.op = "taps2d",
     .build = sample_bicubic_border,
     SAMPLED,
     .in = {PICTURE, POINTS},
     .want = {0.88909375, 1.11344458008, 3.388, -0.877795945313},
     .want_count = 4,
     .gradient = GRADIENT_TWICE},
    {.op = "taps2d",
     .build = sample_bicubic_reflected,
     SAMPLED,
     .in = {PICTURE, POINTS},
     .want = {0.6941953125, 0.939296875, 2.4730078125, -0.437534},
     .want_count = 4,
     .gradient = GRADIENT_TWICE},
    {.op = "scatter_sum",
     .build = sample,
     .wrt = 1,
     .inputs = 3,
     .params = 2,
     .info = {F64(4, 1, 2, 3, 1), F64(4, 1, 2, 2, 2), F64(4, 1, 2, 2, 1)},
     .in = {PICTURE, POINTS, {1, 2, 3, 4}},
     .want = {0.65, 0, 0, 1.62, 2.355, 0.225},
     .want_count = 6,
     .gradient = GRADIENT_TWICE},
    {.op = "taps2d",
     .build = sample,
     .wrt = 2,
     .inputs = 3,
     .params = 2,
     .info = {F64(4, 1, 2, 3, 1), F64(4, 1, 2, 2, 2), F64(4, 1, 2, 2, 1)},
     .in = {PICTURE, POINTS, {1, 2, 3, 4}},
     .want = {1.5, -1.3, 2.7, -2.25, 0, 0, 5.4, 1.8},
     .want_count = 8,
     .gradient = GRADIENT_TWICE},

    // Deformable convolution
    {.op = "gather_sum",
     .build = deformed,
     .inputs = 4,
     .params = 8,
     .info = {F64(4, 1, 2, 2, 2), F64(4, 1, 1, 1, 16), F64(4, 1, 1, 1, 8), F64(4, 1, 2, 2, 2)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8},
            {-.4, .25, .125, -.5, .75, 0, .5, .25, -.125, .25, .375, .25, -.75, .25, 1.25, .5},
            {.25, .5, .75, 1, 1.25, 1.5, 1.75, 2},
            {1, 2, -1, 0, 0.5, 1, 2, -2}},
     .want = {21.5921875},
     .want_count = 1,
     .gradient = GRADIENT_TWICE,
     .wrong = deformed_offsets,
     .call = "deform_conv2d",
     .message = "offset [1, 1, 1, 6] f32 must be [1, 1, 1, 2 G 4]"},
    // Two groups of channels and of offsets; only gradients.
    {.op = "taps2d",
     .build = deformed_plain,
     .inputs = 4,
     .params = 12,
     .info = {F64(4, 1, 2, 3, 2), F64(4, 1, 2, 2, 16), F64(4, 2, 1, 2, 2), F64(1, 2)},
     .wrong = deformed_mask,
     .gradient = GRADIENT_TWICE,
     .call = "deform_conv2d",
     .message = "mask [1, 1, 1, 8] f32 must be [1, 1, 1, 4]"},
    {.op = "taps2d",
     .build = sample,
     .inputs = 2,
     .params = 2,
     .info = {F64(4, 1, 1, 1, 1), F64(4, 1, 1, 1, 2)},
     .in = {{3}, {0, 0}},
     .want = {3},
     .want_count = 1,
     .gradient = GRADIENT_TWICE,
     .wrong = deformed_too_large,
     .call = "deform_conv2d",
     .message = "w [1, 1, 3, 3] f32 does not fit into x [1, 2, 2, 1] f32"},
    {.op = "gather_sum",
     .build = sample_nearest,
     .inputs = 2,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 1, 3, 1), F64(4, 1, 1, 2, 2)},
     .in = {{1, 2, 3}, {-0.5, 0, 0.5, 0}}, // between two pixels: the even one
     .want = {1, 3},
     .want_count = 2,
     .gradient = GRADIENT_TWICE,
     .wrong = deformed_stride,
     .call = "deform_conv2d",
     .message = "stride and dilation must be positive"},

    // Filtered resampling
    {.op = "upfirdn2d",
     .build = upsampled,
     .inputs = 2,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(2, 2, 2)},
     .in = {{1, 2, 3, 4}, {1, 2, 3, 4}},
     .want = {1, 2, 2, 4, 3, 4, 6, 8, 3, 6, 4, 8, 9, 12, 12, 16},
     .want_count = 16,
     .gradient = GRADIENT_TWICE,
     .wrong = filter_of_four,
     .message = "upfirdn2d: filter [1, 1, 2, 2] f32 must be f32 [R,S]"},
    {.op = "upfirdn2d",
     .build = correlated,
     .inputs = 2,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(2, 2, 2)},
     .in = {{1, 2, 3, 4}, {1, 2, 3, 4}},
     .want = {4, 3, 8, 6, 2, 1, 4, 2, 12, 9, 16, 12, 6, 3, 8, 4},
     .want_count = 16,
     .gradient = GRADIENT_TWICE,
     .wrong = filter_too_large,
     .message = "upfirdn2d: x [1, 2, 2, 1] f32 and filter [3, 3] f32 give 0 x 0 pixels"},
    {.op = "upfirdn2d",
     .build = downsampled,
     .inputs = 2,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 4, 4, 1), F64(2, 2, 2)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 2, 3, 4}},
     .want = {16, 72, 80, 232},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = filter_backwards,
     .message = "factors are 1 to 1048576"},
    {.op = "upfirdn2d",
     .build = resampled,
     .inputs = 2,
     .params = 2,
     .fixed = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(2, 3, 3)},
     .in = {{1, 2, 3, 4}, {1, 2, -1, 0, 3, 4, 2, 1, 5}},
     .want = {1, -1, 4, 0, 2, 5, 2, 0, 0, 12, 12, 0},
     .want_count = 12,
     .gradient = GRADIENT_TWICE},
};
const size_t op_cases_samples_count = sizeof op_cases_samples / sizeof op_cases_samples[0];
