// SPDX-License-Identifier: Apache-2.0
// Cases of windows of any shape: padding that differs from side to side, windows, strides and
// dilations that are not square. Values are those of PyTorch, with explicit padding.
#include "tests/unit/graph/op_case_builders.h"

BUILD(conv_same, sr_conv2d(in[0], in[1], (sr_conv2d_opts){.stride = 2, .same = true}))
BUILD(conv_extra, sr_conv2d(in[0], in[1],
                            (sr_conv2d_opts){.stride = 2,
                                             .stride_w = 1,
                                             .pad_w = 1,
                                             .has_pad_w = true,
                                             .dilation_w = 2,
                                             .extra_bottom = 1,
                                             .extra_right = 1}))
BUILD(transposed_extra,
      sr_conv2d_transpose(in[0], in[1],
                          (sr_conv2d_opts){.stride = 2, .extra_bottom = 1, .extra_right = 1}, 0))
BUILD(max_wide, sr_maxpool2d(in[0], (sr_pool2d_opts){.window = 2,
                                                     .stride = 1,
                                                     .window_w = 3,
                                                     .stride_w = 2,
                                                     .pad_w = 1,
                                                     .has_pad_w = true}))
BUILD(max_same, sr_maxpool2d(in[0], (sr_pool2d_opts){.window = 2, .same = true}))
BUILD(max_far,
      sr_maxpool2d(in[0],
                   (sr_pool2d_opts){.window = 2, .stride = 3, .extra_bottom = 2, .extra_right = 3}))
BUILD(mean_far, sr_avgpool2d(in[0], (sr_pool2d_opts){.window = 1,
                                                     .stride = 2,
                                                     .window_w = 2,
                                                     .stride_w = 3,
                                                     .extra_bottom = 1,
                                                     .extra_right = 2}))
BUILD(mean_far_counted, sr_avgpool2d(in[0], (sr_pool2d_opts){.window = 2,
                                                             .stride = 3,
                                                             .extra_bottom = 2,
                                                             .extra_right = 3,
                                                             .count_pad = true}))
BUILD(mean_same, sr_avgpool2d(in[0], (sr_pool2d_opts){.window = 2, .same = true}))
BUILD(mean_extra, sr_avgpool2d(in[0], (sr_pool2d_opts){.window = 2,
                                                       .stride = 1,
                                                       .window_w = 1,
                                                       .count_pad = true,
                                                       .extra_bottom = 1}))
BUILD(adaptive_max, sr_adaptive_maxpool2d(in[0], 2, 2))
BUILD(adaptive_max_whole, sr_adaptive_maxpool2d(in[0], 1, 2))

static sr_tensor square(sr_context *context) {
    return ZEROS(SR_F32, 4, 1, 2, 2, 1);
}
static sr_tensor filter(sr_context *context) {
    return ZEROS(SR_F32, 4, 1, 1, 2, 2);
}
WRONG(conv_same_padded,
      sr_conv2d(square(context), filter(context), (sr_conv2d_opts){.pad = 1, .same = true}))
WRONG(conv_less, sr_conv2d(square(context), filter(context), (sr_conv2d_opts){.extra_right = -1}))
WRONG(transposed_same, sr_conv2d_transpose(square(context), filter(context),
                                           (sr_conv2d_opts){.stride = 2, .same = true}, 0))
WRONG(max_same_up,
      sr_maxpool2d(square(context), (sr_pool2d_opts){.window = 2, .ceil_mode = true, .same = true}))
WRONG(max_of_padding,
      sr_maxpool2d(square(context), (sr_pool2d_opts){.window = 2, .pad = 1, .extra_bottom = 3}))
WRONG(max_far_out,
      sr_maxpool2d(square(context),
                   (sr_pool2d_opts){.window = 2, .stride = 2, .extra_bottom = 2, .extra_right = 1}))
WRONG(mean_far_out,
      sr_avgpool2d(square(context), (sr_pool2d_opts){.window = 2, .stride_w = 2, .extra_right = 2}))
WRONG(mean_far_out_counted,
      sr_avgpool2d(square(context),
                   (sr_pool2d_opts){.window = 2, .count_pad = true, .extra_bottom = 2}))
WRONG(mean_same_counts,
      sr_avgpool2d(square(context), (sr_pool2d_opts){.window = 2, .count_pad = true, .same = true}))
WRONG(mean_less,
      sr_avgpool2d(square(context),
                   (sr_pool2d_opts){.window = 2, .count_pad = true, .pad = 1, .extra_bottom = -1}))
WRONG(adaptive_max_to_nothing, sr_adaptive_maxpool2d(square(context), 1, 0))
WRONG(adaptive_max_to_many, sr_adaptive_maxpool2d(square(context), 1, 256))

const op_case op_cases_windows[] = {
    {.op = "conv2d",
     .build = conv_same,
     .inputs = 2,
     .params = 2,
     .info = {F64(4, 1, 4, 4, 1), F64(4, 1, 1, 3, 3)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
            {-4, -3, -2, -1, 0, 1, 2, 3, 4}},
     .want = {78, 27, -86, -95},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = conv_same_padded,
     .message = "conv2d: with 'same', no other padding may be given"},
    {.op = "conv2d",
     .build = conv_extra,
     .inputs = 2,
     .params = 2,
     .info = {F64(4, 1, 3, 3, 1), F64(4, 1, 1, 2, 2)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {-1, 0, 1, 2}},
     .want = {10, 15, 3, 3, 0, -7, -8, -9},
     .want_count = 8,
     .gradient = GRADIENT_TWICE,
     .wrong = conv_less,
     .message = "padding at least 0"},
    {.op = "conv2d_dx",
     .build = transposed_extra,
     .inputs = 2,
     .params = 2,
     .info = {F64(4, 1, 2, 2, 1), F64(4, 1, 1, 2, 2)},
     .in = {{1, 2, 3, 4}, {-1, 0, 1, 2}},
     .want = {-1, 0, -2, 1, 2, 2, -3, 0, -4},
     .want_count = 9,
     .gradient = GRADIENT_TWICE,
     .wrong = transposed_same,
     .message = "'same' does not say which size of y is meant"},
    {.op = "maxpool2d",
     .build = max_wide,
     .inputs = 1,
     .info = {F64(4, 1, 3, 4, 1)},
     .in = {{5, 9, 2, 6, 9, 3, 1, 7, 3, 8, 4, 1}},
     .want = {9, 9, 9, 8},
     .want_count = 4,
     .gradient = GRADIENT_ONCE,
     .wrong = max_of_padding,
     .message = "maxpool2d: x [1, 2, 2, 1] f32: 3 x 2 windows, of which the last is in the padding "
                "alone, at the bottom or on the right"},
    {.op = "maxpool2d",
     .build = max_same,
     .inputs = 1,
     .info = {F64(4, 1, 3, 3, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}},
     .want = {5, 6, 8, 9},
     .want_count = 4,
     .gradient = GRADIENT_ONCE,
     .wrong = max_same_up,
     .message = "with 'same', neither padding nor ceil_mode may be given"},
    {.op = "maxpool2d",
     .build = max_far, // the last windows are as far as the stride lets them be
     .inputs = 1,
     .info = {F64(4, 1, 4, 4, 1)},
     .in = {{5, 9, 2, 6, 8, 3, 1, 7, 3, 8, 4, 1, 0, 2, 8, 3}},
     .want = {9, 7, 2, 3},
     .want_count = 4,
     .gradient = GRADIENT_ONCE,
     .wrong = max_far_out,
     .message = "2 x 1 windows, of which the last is in the padding alone"},
    {.op = "avgpool2d",
     .build = mean_far,
     .inputs = 1,
     .info = {F64(4, 1, 3, 4, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
     .want = {1.5, 4, 9.5, 12},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = mean_far_out,
     .message = "1 x 2 windows, of which the last is in the padding alone"},
    {.op = "avgpool2d",
     .build = mean_far_counted,
     .inputs = 1,
     .info = {F64(4, 1, 4, 4, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
     .want = {3.5, 3, 6.75, 4},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = mean_far_out_counted,
     .message = "of which the last is in the padding alone"},
    {.op = "avgpool2d",
     .build = mean_same,
     .inputs = 1,
     .info = {F64(4, 1, 3, 3, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}},
     .want = {3, 4.5, 7.5, 9},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = mean_same_counts,
     .message = "'same' has padding that does not count"},
    {.op = "avgpool2d",
     .build = mean_extra,
     .inputs = 1,
     .info = {F64(4, 1, 3, 3, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}},
     .want = {2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 3.5, 4, 4.5},
     .want_count = 9,
     .gradient = GRADIENT_TWICE,
     .wrong = mean_less,
     .message = "it must not be less than 0"},
    {.op = "extreme",
     .build = adaptive_max,
     .inputs = 1,
     .info = {F64(4, 1, 3, 3, 1)},
     .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}},
     .want = {5, 6, 8, 9},
     .want_count = 4,
     .gradient = GRADIENT_TWICE,
     .wrong = adaptive_max_to_nothing,
     .call = "adaptive_maxpool2d",
     .message = "it must be [N,H,W,C], and the size positive"},
    {.op = "maxpool2d",
     .build = adaptive_max_whole,
     .inputs = 1,
     .info = {F64(4, 1, 2, 4, 1)},
     .in = {{1, 2, 3, 4, 8, 7, 6, 5}},
     .want = {8, 6},
     .want_count = 2,
     .gradient = GRADIENT_ONCE,
     .wrong = adaptive_max_to_many,
     .call = "adaptive_maxpool2d",
     .message = "a side has at most 255"},
};
const size_t op_cases_windows_count = sizeof op_cases_windows / sizeof op_cases_windows[0];
