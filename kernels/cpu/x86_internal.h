// SPDX-License-Identifier: Apache-2.0
// What provider_x86.c and the two compilations of its kernels share: the table of stage functions,
// the sizes of blocks, and the plans of kernels that need more than one stage.
#ifndef SR_KERNELS_CPU_X86_INTERNAL_H
#define SR_KERNELS_CPU_X86_INTERNAL_H

#include <stdbool.h>

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

// Elements of one block of an elementwise kernel: 256 KiB of f32, which two threads share evenly
// and a second-level cache holds.
#define SR_X86_BLOCK 65536
// Channels of one block of a stage that combines partial sums.
#define SR_X86_CHANNEL_BLOCK 256

typedef struct sr_x86_kernel {
    sr_kernel_fn stage[SR_KERNEL_STAGES];
} sr_x86_kernel;

// Functions of one instruction set by kernel and T (0: f32, 1: bf16); the same bits from both sets.
typedef struct sr_x86_set {
    sr_x86_kernel kernel[SR_KERNEL_COUNT][2];
} sr_x86_set;

extern const sr_x86_set sr_x86_avx2, sr_x86_avx512;

// [begin, end) of the elements of a block.
typedef struct sr_x86_range {
    int64_t begin, end;
} sr_x86_range;

static inline int64_t sr_x86_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t sr_x86_ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline sr_x86_range sr_x86_block_range(int64_t count, int64_t block, int64_t size) {
    return (sr_x86_range){block * size, sr_x86_min(count, (block + 1) * size)};
}
// Rows of one block of a kernel over x[M,C]: about SR_X86_BLOCK elements, a multiple of four rows.
static inline int64_t sr_x86_block_rows(int64_t channels) {
    int64_t rows = SR_X86_BLOCK / channels / 4 * 4;
    return rows < 4 ? 4 : rows;
}
// Rows of width 'width' of one block of a pooling kernel.
static inline int64_t sr_x86_pool_rows(int64_t width, int64_t channels) {
    const int64_t rows = SR_X86_BLOCK / (width * channels);
    return rows < 1 ? 1 : rows;
}
// Floats of one partial result per channel in a workspace; keeps rows 64-byte aligned.
static inline int64_t sr_x86_padded(int64_t channels) {
    return sr_x86_ceil_div(channels, 16) * 16;
}

// Convolution gradient with respect to the weights (x86_conv_dw_internal.h, x86_conv_dw_plan.c).
typedef struct sr_x86_dw {
    sr_conv_params p;
    bool merged; // a panel's lanes are the S * C neighbours of a row (few channels), taps are rows
    bool flat;   // 1x1, stride 1, no padding: pixels of all images form one row
    int64_t in_panels, out_panels, taps;
    int64_t groups, ranges;    // blocks of stage 0: groups of images times ranges of output panels
    int64_t images, rows;      // of one pass; images > 1 only with all rows; flat: rows is pixels
    int64_t step_h, step_w;    // from one packed input row or pixel to the next, in the picture
    int64_t x_height, x_width; // packed rows and pixels of one image of a pass
    int64_t pitch_h, pitch_w;  // input panel: packed rows, pixels per output row, pixel
    int64_t pixel_floats, row_floats; // input panel: one packed pixel, one packed row
    int64_t x_floats, dy_floats;      // input panel; all output panels of a range; of one pass
    int64_t tile_floats;              // taps * 32 * 32: dw of one pair of panels
    int64_t partial_floats;           // dw of all pairs: one group's partial result
} sr_x86_dw;

// Channels of a panel, of x and of dy.
#define SR_X86_DW_SIDE 32

// Floats of one output panel of a pass of 'pixels' pixels: an odd number of pairs of cache lines,
// so that the panels' writes of one pixel fall into different sets.
static inline int64_t sr_x86_dw_dy_panel(int64_t pixels) {
    return (pixels | 1) * SR_X86_DW_SIDE;
}

bool sr_x86_dw_supports(const sr_kernel_request *request);
sr_x86_dw sr_x86_dw_plan(const sr_conv_params *params);

#endif
