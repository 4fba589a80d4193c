// SPDX-License-Identifier: Apache-2.0
// Shared by provider_x86.c and the compilations of its kernels: the tables of stage functions,
// block sizes, and plans of kernels with several stages.
#ifndef SR_KERNELS_CPU_X86_INTERNAL_H
#define SR_KERNELS_CPU_X86_INTERNAL_H

#include <stdbool.h>

#include "kernels/base/cpuid.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"
#include "kernels/resize.h"

#define SR_X86_NUMERICS 8 // sr_provider.numerics

// Elements of one block of an elementwise kernel: 256 KiB of f32, which fit in a second-level cache
// and divide evenly between two threads.
#define SR_X86_BLOCK 65536
// The same for a kernel over rows of channels; its minimum and maximum number of rows; the rows
// that statistics process at a time; and the minimum width of a row: narrower rows are joined.
#define SR_X86_ROWS_BLOCK 32768
#define SR_X86_ROWS_LEAST 32
#define SR_X86_ROWS_MOST 64
#define SR_X86_ROWS_GROUP 8
#define SR_X86_ROWS_WIDTH 64
// Number of channels in one block of a stage that combines partial sums.
#define SR_X86_CHANNEL_BLOCK 256

// Rows of x86_list.def. SR_X86_BEGIN_NAME is the first row of a family.
enum {
#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages) SR_X86_##place,
#define SR_X86_FAMILY(name) SR_X86_BEGIN_##name, SR_X86_BEFORE_##name = SR_X86_BEGIN_##name - 1,
#include "kernels/cpu/x86/x86_list.def"
#undef SR_X86
    SR_X86_COUNT
};

typedef struct sr_x86_kernel {
    sr_kernel_fn stage[SR_KERNEL_STAGES];
} sr_x86_kernel;

// The feature that an entry of each set needs.
enum {
    SR_X86_NEEDS_AVX2 = SR_CPU_AVX2,
    SR_X86_NEEDS_AVX512 = SR_CPU_AVX512,
    SR_X86_NEEDS_AMX = SR_CPU_AMX_BF16,
    SR_X86_NEEDS_DOT = SR_CPU_BF16_DOT,
};

// A family's functions for one instruction set: all rows for T f32, then all for bf16, then all for
// f16. The sets give the same bits.
#define SR_X86_TYPES 3
_Static_assert(SR_F32 == 0 && SR_BF16 == 1 && SR_F16 == 2, "the order of the tables");
#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages)
#define SR_X86_FAMILY(name) extern const sr_x86_kernel sr_x86_avx2_##name[], sr_x86_avx512_##name[];
#include "kernels/cpu/x86/x86_list.def"
#undef SR_X86

// Makes the stage functions NAME_f32, NAME_bf16 and NAME_f16 from a body, which uses args, block,
// worker and type (T). The functions that the body calls are inlined, so that 'type' is constant in
// them.
#define SR_X86_STAGE(name, suffix, storage, ...)                                                   \
    static sr_status name##_##suffix(const sr_kernel_args *args, int64_t block,                    \
                                     sr_worker *worker) {                                          \
        const sr_dtype type = storage;                                                             \
        (void)worker;                                                                              \
        __VA_ARGS__;                                                                               \
        return SR_OK;                                                                              \
    }
#define SR_X86_F32(name, ...) SR_X86_STAGE(name, f32, SR_F32, __VA_ARGS__)
#define SR_X86_TYPED(name, ...)                                                                    \
    SR_X86_STAGE(name, f32, SR_F32, __VA_ARGS__)                                                   \
    SR_X86_STAGE(name, bf16, SR_BF16, __VA_ARGS__)                                                 \
    SR_X86_STAGE(name, f16, SR_F16, __VA_ARGS__)

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
// Range number 'part' when 'count' items are divided into nearly equal ranges.
static inline sr_x86_range sr_x86_share(int64_t count, int64_t part, int64_t parts) {
    return (sr_x86_range){count * part / parts, count * (part + 1) / parts};
}
// Number of rows of x[M,C] that sums over rows treat as one row of fold C elements: a power of two;
// 1 if there are enough channels.
static inline int64_t sr_x86_fold(int64_t channels) {
    int64_t fold = 1;
    while (fold * channels < SR_X86_ROWS_WIDTH)
        fold *= 2;
    return fold;
}
// Rows of one block of a kernel over x[M,C], in whole groups after folding. They are few enough
// that a chain (graph/pass_chain.c) of kernels on four or five arrays, some with four times the
// channels, fits in a second-level cache and that no sum has more than SR_X86_ROWS_MOST terms, but
// enough that the partial sums of the channels are a small part of the data.
static inline int64_t sr_x86_block_rows(int64_t channels) {
    const int64_t fold = sr_x86_fold(channels);
    int64_t rows = SR_X86_ROWS_BLOCK / (fold * channels);
    rows = rows > SR_X86_ROWS_MOST ? SR_X86_ROWS_MOST : rows;
    rows = rows < SR_X86_ROWS_LEAST ? SR_X86_ROWS_LEAST : rows;
    return rows / SR_X86_ROWS_GROUP * SR_X86_ROWS_GROUP * fold;
}
// Rows of width 'width' of one block of a pooling kernel.
static inline int64_t sr_x86_pool_rows(int64_t width, int64_t channels) {
    const int64_t rows = SR_X86_BLOCK / (width * channels);
    return rows < 1 ? 1 : rows;
}
// Rows of one block of a softmax.
static inline int64_t sr_x86_softmax_rows(int64_t channels) {
    return sr_x86_ceil_div(SR_X86_BLOCK, channels);
}
// Rows of a group of a cross-entropy, and most classes of a group that is transposed: with more,
// few elements of a row's vectors are unused.
#define SR_X86_XENT_ROWS 16
#define SR_X86_XENT_FEW 48
// Rows of one block, in whole groups: so few that a small batch with a thousand classes has several
// blocks.
static inline int64_t sr_x86_xent_rows(int64_t classes) {
    const int64_t groups = SR_X86_BLOCK / 4 / (SR_X86_XENT_ROWS * classes);
    return (groups < 1 ? 1 : groups) * SR_X86_XENT_ROWS;
}
// Floats of one partial result per channel in a workspace; keeps rows 64-byte aligned.
static inline int64_t sr_x86_padded(int64_t channels) {
    return sr_x86_ceil_div(channels, 16) * 16;
}

// sum_to as x[outer,terms,inner] -> y[outer,inner] (x86_sum_internal.h).
typedef struct sr_x86_sum {
    int64_t outer, terms, inner;
    int64_t chunk, chunks; // terms of a block; number of blocks of a sum
    int64_t group;         // sums of a block if each has one chunk
    int64_t blocks;
} sr_x86_sum;

// Minimum number of elements of a block, and desired number of blocks: enough for eight threads.
#define SR_X86_SUM_LEAST 16384
#define SR_X86_SUM_BLOCKS 8
// Without blocks for other sums.
static inline sr_x86_sum sr_x86_sum_of(const sr_expression_params *p) {
    int64_t extent[3] = {1, 1, 1};
    int at = 0;
    for (int d = 0; d < p->dims; d++) {
        const bool summed = p->repeated[0] >> d & 1;
        if (p->dim[d] == 1)
            continue;
        at += summed != (at == 1);
        if (at > 2)
            return (sr_x86_sum){.chunk = 1, .chunks = 1, .group = 1};
        extent[at] *= p->dim[d];
    }
    sr_x86_sum s = {extent[0], extent[1], extent[2], 32, 1, 1, 0};
    if (at < 2 || p->count < 1)
        return (sr_x86_sum){.chunk = 1, .chunks = 1, .group = 1};
    while (s.chunk < s.terms && (s.chunk * s.inner < SR_X86_SUM_LEAST ||
                                 s.chunk * SR_X86_SUM_BLOCKS < s.terms * s.outer))
        s.chunk *= 2;
    s.chunks = sr_x86_ceil_div(s.terms, s.chunk);
    if (s.chunks == 1)
        s.chunk = s.terms;
    while (s.chunks == 1 && 2 * s.group * SR_X86_SUM_BLOCKS <= s.outer &&
           s.group * s.terms * s.inner < SR_X86_SUM_LEAST)
        s.group *= 2;
    s.blocks = sr_x86_ceil_div(s.outer * s.chunks, s.group);
    return s;
}

// resize2d and its gradient (x86_resize_internal.h, x86_resize_plan.c).
#define SR_X86_RESIZE_VECTORS 4 // that are summed at a time

// Rows or columns of the pictures that are written: which ones of the pictures that are read
// contribute to them (kernels/resize.h), with 'most' weights for each.
typedef struct sr_x86_resize_side {
    const sr_resize_span *span;
    const float *weight;
    int64_t positions, most, source; // source: of the pictures that are read
} sr_x86_resize_side;

typedef struct sr_x86_resize {
    sr_x86_resize_side rows, columns;
    int64_t c;
    int64_t elements;                // of all pictures that are read
    int64_t row_parts, column_parts; // blocks of a picture
    int64_t pitch;                   // floats from one line to the next; there are rows.most
} sr_x86_resize;

bool sr_x86_resize_supports(const sr_kernel_request *request);
sr_status sr_x86_resize_plan(const sr_kernel_request *request, sr_prepared *out);

// The convolution that is equivalent to a request of conv2d or linear, or of a gradient of them.
sr_conv_params sr_x86_shape_of(const sr_kernel_request *request);
// Linear layers that are computed like 1x1 convolutions: those with enough rows that packing the
// weights costs little, and with whole vectors of channels. oneDNN computes the others.
bool sr_x86_is_tall(const sr_conv_params *p);

// Convolution gradient with respect to the weights (x86_conv_dw_internal.h, x86_conv_dw_plan.c).
typedef struct sr_x86_dw {
    sr_conv_params p;
    bool merged; // few channels: a panel has some of the R S C elements of a window; in products
                 // of pairs, some of the S C elements of one of its rows
    bool flat;   // 1x1, stride 1, no padding: pixels of all images form one row
    int64_t in_panels, out_panels, taps;
    int64_t groups, ranges;     // blocks of stage 0: groups of units times ranges of output panels;
                                // in products of pairs, of input panels
    int64_t units, unit_pixels; // images; flat: pixels (linear layers: of a pass)
    int64_t images, rows;       // of one pass; images > 1 only with all rows; flat: rows is pixels
    int64_t step_h, step_w;     // distance in the picture of packed input rows or pixels
    int64_t x_height, x_width;  // packed rows and pixels of one image of a pass
    int64_t pitch_h, pitch_w;   // input panel: packed rows, pixels per output row, pixel
    int64_t row_floats;         // input panel: one packed row
    int64_t x_floats, dy_floats; // input panel; all output panels of a range; of one pass
    int64_t tile_floats;         // taps * 32 * 32: dw of one pair of panels
    int64_t partial_floats;      // dw of all pairs: one group's partial result
} sr_x86_dw;

// Channels of a panel, of x and of dy.
#define SR_X86_DW_SIDE 32

// Floats of one output panel of a pass of 'pixels' pixels: an odd number of pairs of cache lines,
// so that the writes of one pixel to the panels use different cache sets.
static inline int64_t sr_x86_dw_dy_panel(int64_t pixels) {
    return (pixels | 1) * SR_X86_DW_SIDE;
}

bool sr_x86_dw_supports(const sr_kernel_request *request);
bool sr_x86_dw_supports_linear(const sr_kernel_request *request);
sr_status sr_x86_dw_plan(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_x86_dw_plan_linear(const sr_kernel_request *request, sr_prepared *out);

// Winograd convolution (x86_winograd_internal.h, x86_winograd_plan.c): F(4x4, 3x3).
#define SR_X86_WINOGRAD_OUT 4
#define SR_X86_WINOGRAD_IN 6
#define SR_X86_WINOGRAD_POINTS 36
#define SR_X86_WINOGRAD_TAPS 9
#define SR_X86_WINOGRAD_SIDE 32 // channels of a panel

typedef struct sr_x86_winograd {
    int64_t h, w, c;   // input pictures; for conv2d_dx: dy
    int64_t p, q, k;   // pictures that are written
    int64_t top, left; // padding; negative: skipped rows and columns
    bool mirrored;     // conv2d_dx: weights with channels exchanged and taps reversed
    int64_t dilation_h, dilation_w;
    int64_t phase_h, phase_w;        // tiles of a phase (see x86_winograd_internal.h)
    int64_t tiles_h, tiles_w, tiles; // of a picture, all phases; of all pictures
    int64_t in_panels, out_panels;
    int64_t block_tiles;          // of one block or pass, a multiple of four
    int64_t range_panels, ranges; // output panels multiplied at a time, and how many times
    int64_t shares;               // parts of the ranges; blocks are groups of tiles times shares
    // conv2d_dw with few channels: a block has a group of tiles, of which it processes
    // 'block_tiles' at a time, and a range of input and of output panels. With many channels: a
    // point and a range of output panels, and it processes 'pass_tiles' at a time.
    int64_t groups, in_range_panels, in_ranges, pass_tiles;
} sr_x86_winograd;

// Floats of 'panels' panels of 'rows' rows at one point: an odd number of whole cache lines, so
// that the points of one position use different cache sets.
static inline int64_t sr_x86_winograd_point(int64_t panels, int64_t rows) {
    return panels * rows * SR_X86_WINOGRAD_SIDE + 16;
}

// Number of zeros that are read in place of pixels outside a picture.
static inline int64_t sr_x86_winograd_zeros(const sr_x86_winograd *g) {
    return (g->in_panels > g->out_panels ? g->in_panels : g->out_panels) * SR_X86_WINOGRAD_SIDE;
}

// Floats of the gradient of one pair of panels at all points: [point][32][32].
static inline int64_t sr_x86_winograd_pair(void) {
    return SR_X86_WINOGRAD_POINTS * sr_x86_winograd_point(1, SR_X86_WINOGRAD_SIDE);
}

// Transforms of all tiles (x86_winograd_few_internal.h), [panel][point][tile][32]: floats from one
// point to the next, and of 'panels' panels.
static inline int64_t sr_x86_winograd_few_point(const sr_x86_winograd *g) {
    return sr_x86_winograd_point(1, sr_x86_ceil_div(g->tiles, 4) * 4);
}

static inline int64_t sr_x86_winograd_few_panels(const sr_x86_winograd *g, int64_t panels) {
    return panels * SR_X86_WINOGRAD_POINTS * sr_x86_winograd_few_point(g);
}

// sr_kernel_entry.variants of conv2d and conv2d_dx.
extern const char *const sr_x86_winograd_variants[];

// Whether one of the entries that compute a convolution in this way is faster than direct kernels,
// and which: 'few' is that for few tiles.
bool sr_x86_winograd_supports(const sr_kernel_request *request);
bool sr_x86_winograd_supports_many(const sr_kernel_request *request);
bool sr_x86_winograd_supports_few(const sr_kernel_request *request);
// Whether it is faster than even products of pairs of bf16.
bool sr_x86_winograd_outdoes_dot(const sr_kernel_request *request);
sr_status sr_x86_winograd_plan(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_x86_winograd_plan_few(const sr_kernel_request *request, sr_prepared *out);
bool sr_x86_winograd_supports_dw(const sr_kernel_request *request);
sr_status sr_x86_winograd_plan_dw(const sr_kernel_request *request, sr_prepared *out);
bool sr_x86_winograd_supports_points(const sr_kernel_request *request);
sr_status sr_x86_winograd_plan_points(const sr_kernel_request *request, sr_prepared *out);
bool sr_x86_winograd_supports_dw_few(const sr_kernel_request *request);
sr_status sr_x86_winograd_plan_dw_few(const sr_kernel_request *request, sr_prepared *out);

// Products of rows with weights (x86_pointwise_internal.h, x86_pointwise_plan.c).
#define SR_X86_POINTWISE_VECTORS 3 // of 16 outputs each, in a wide panel; narrow ones have fewer
#define SR_X86_POINTWISE_ROWS 14   // of a tile, at most
#define SR_X86_POINTWISE_PIECE 512 // inputs that are summed before sums are stored
// Maximum number of rows of a pass: enough that weights, which stream from the shared cache, are
// reused often.
#define SR_X86_POINTWISE_PASS 144
#define SR_X86_POINTWISE_SUM_ROWS (SR_X86_POINTWISE_PASS + SR_X86_POINTWISE_ROWS)
// Floats from one packed row to the next: an odd number of cache lines, so that rows use different
// cache sets.
#define SR_X86_POINTWISE_PITCH (SR_X86_POINTWISE_PIECE + 16)
#define SR_X86_POINTWISE_DIRECT 4 // numbers of channels for which rows are read in place

// Outputs, divided into panels of the width of a tile.
typedef struct sr_x86_panels {
    int64_t count;
    int64_t columns;              // outputs of all panels, a multiple of sixteen
    int64_t wide, narrow_vectors; // wide panels, which are first; vectors of a narrow one
} sr_x86_panels;
sr_x86_panels sr_x86_panels_of(int64_t outputs);

typedef struct sr_x86_pointwise {
    int64_t in, out;      // channels: summed over; of a result
    int64_t rows;         // pixels of all pictures, after the stride
    sr_x86_panels panels; // of outputs
    int64_t piece;        // inputs that are summed up at a time
    int64_t grain;        // rows of a block, unless a chain sets others
    int64_t fetch_step;   // bytes of the next pass that are fetched at each step of a tile
    int64_t sum_rows;     // rows that fit in scratch: of a pass, and of a tile
    bool mirrored;        // weights are [in][out] (conv2d_dx), not [out][in]
    int direct;           // 0: rows are packed; else 1 + index in sr_x86_pointwise_direct
    bool strided;         // [p][q] are every stride-th pixels of pictures [h][w]
    bool spread;          // strided, and the results are spread (conv2d_dx)
    int64_t h, w, p, q;   // of the convolution
    int64_t stride_h, stride_w;
    int64_t top, left; // the position of the first
} sr_x86_pointwise;

extern const int64_t sr_x86_pointwise_direct[SR_X86_POINTWISE_DIRECT];
bool sr_x86_pointwise_supports(const sr_kernel_request *request);
bool sr_x86_pointwise_supports_linear(const sr_kernel_request *request);
sr_status sr_x86_pointwise_plan(const sr_kernel_request *request, sr_prepared *out);
// Rows of a block if a row of x and its row of y have row_bytes bytes.
int64_t sr_x86_pointwise_grain(int64_t row_bytes, int64_t rows);
// Number of bytes of scratch.
size_t sr_x86_pointwise_scratch(const sr_x86_pointwise *g);
// Bytes of the next pass that are fetched at each step.
int64_t sr_x86_pointwise_fetch(int64_t outputs);

// Convolutions and linear layers by products of pairs of bf16 (x86_dot_internal.h, x86_dot_plan.c).

// Taps that read neighbouring pixels of a row.
typedef struct sr_x86_dot_run {
    int32_t h, w; // first pixel, relative to the one that a result begins with
    int32_t first, taps;
} sr_x86_dot_run;

// Results that have the same taps: all results, except for conv2d_dx with strides.
typedef struct sr_x86_dot_phase {
    sr_x86_pointwise g;    // of pairs of terms; p, q: its results; h, w: the pictures of results
    int64_t tap, taps;     // of sr_x86_dot.tap
    int64_t run, runs;     // of sr_x86_dot.run, whose 'first' counts from 'tap'
    int64_t block, blocks; // of stage 1
    int64_t weights;       // begin of its packed weights, in pairs
} sr_x86_dot_phase;

typedef struct sr_x86_dot {
    int64_t in, out;        // channels: of an input pixel; of a result
    int64_t h, w;           // pictures that are read
    int64_t step_h, step_w; // from one result to the next, in the input pictures
    int64_t window;         // taps of a filter
    bool mirrored;          // weights are [in][out] (conv2d_dx), not [out][in]
    bool flat;              // rows of x become rows of y
    int phases;
    sr_x86_dot_phase *phase;
    sr_x86_dot_run *run;
    int32_t *tap; // positions of taps in a filter, in the order of the terms
} sr_x86_dot;

// Output pixels of a pass of the gradient of the weights, and elements of a panel of them. Two
// panels fit in a first-level cache. A panel has an odd number of cache lines, so that panels use
// different cache sets.
#define SR_X86_DOT_PASS 448
#define SR_X86_DOT_PANEL (SR_X86_DOT_PASS * SR_X86_DW_SIDE + 32)

bool sr_x86_dot_supports(const sr_kernel_request *request);
bool sr_x86_dot_supports_linear(const sr_kernel_request *request);
sr_status sr_x86_dot_plan(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_x86_dot_plan_dw(const sr_kernel_request *request, sr_prepared *out);

// Depthwise convolutions (x86_depthwise_internal.h, x86_depthwise_dw_internal.h,
// x86_depthwise_plan.c).
#define SR_X86_DEPTHWISE_SIDE 16 // channels of a panel: a vector

// How outputs and inputs of a row correspond.
typedef enum sr_x86_depthwise_form {
    SR_X86_DEPTHWISE_DENSE,   // stride 1
    SR_X86_DEPTHWISE_STRIDED, // stride 2
    SR_X86_DEPTHWISE_SPREAD,  // stride 2, conv2d_dx
    SR_X86_DEPTHWISE_ANY,     // other strides, dilations and windows, or few channels
} sr_x86_depthwise_form;

typedef struct sr_x86_depthwise {
    sr_conv_params p;
    bool mirrored; // conv2d_dx
    sr_x86_depthwise_form form;
    int64_t in_h, in_w;   // pictures that are read: x, of conv2d_dx dy
    int64_t out_h, out_w; // pictures that are written; of conv2d_dw dy
    // Tap row r of an output at 'row' reads input row (row step_h + r dilation_h - top) / divisor_h
    // if the division is exact; columns likewise.
    int64_t step_h, step_w, divisor_h, divisor_w;
    int64_t top, left;
    int64_t pitch; // floats from one tap's packed weights to the next
    // conv2d_dw: a block is a group of rows of dy and adds 'chunk_rows' of them at a time.
    int64_t groups, group_rows, chunk_rows;
    int64_t panels;
} sr_x86_depthwise;

bool sr_x86_depthwise_supports(const sr_kernel_request *request);
sr_status sr_x86_depthwise_plan(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_x86_depthwise_plan_dw(const sr_kernel_request *request, sr_prepared *out);
// Linear layers in bf16 on AMX tiles (x86_amx_internal.h, x86_amx_plan.c): sr_x86_pointwise, with
// panels of as many outputs as those of sr_x86_dw, and sr_x86_dw.
#define SR_X86_AMX_SIDE SR_X86_DW_SIDE // rows and columns of four tiles; terms of a step
bool sr_x86_amx_supports(const sr_kernel_request *request);
sr_status sr_x86_amx_plan(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_x86_amx_plan_dw(const sr_kernel_request *request, sr_prepared *out);

// Multi-head attention (x86_attention_internal.h).
#define SR_X86_ATTENTION_QUERIES 36 // of a tile: whole tiles of products
#define SR_X86_ATTENTION_BLOCK 252  // queries of a block, whole tiles
#define SR_X86_ATTENTION_PANEL 64   // columns of packed keys and values

// Number of blocks of a head.
static inline int64_t sr_x86_attention_blocks(const sr_attention_params *p) {
    return sr_x86_ceil_div(p->queries, SR_X86_ATTENTION_BLOCK);
}

// Convolutions and linear layers in the reference's order (x86_direct_internal.h,
// x86_direct_dw_internal.h, x86_direct_plan.c).
#define SR_X86_DIRECT_TERMS 32   // added one after the other: SR_REFERENCE_TERMS
#define SR_X86_DIRECT_SIDE 64    // outputs of a panel
#define SR_X86_DIRECT_PIXELS 96  // of a block, a multiple of a tile's
#define SR_X86_DIRECT_ROWS 12    // of a tile, at most
#define SR_X86_DIRECT_JOIN 16384 // elements of dw in a block that joins groups

// Some terms of each sum of a tile: channels first .. first + count - 1 of a tap.
typedef struct sr_x86_direct_step {
    int32_t tap, first, count;
    bool begins, ends; // the first and the last terms of a leaf
    uint64_t joins;    // at its end: the levels of the tree to add
} sr_x86_direct_step;

// conv2d, conv2d_dx, linear, linear_dx: 'in' channels of some pixels become 'out' channels of one.
// For matmul, the pixels are the rows of one product.
typedef struct sr_x86_direct {
    sr_conv_params p;
    bool mirrored; // conv2d_dx, and matmul if b is not transposed
    int64_t in, out;
    int64_t pixels, panels; // of the results
    int64_t pixel_blocks;   // times the shares of the panels: number of blocks
    int64_t panel_shares;
    int64_t levels, steps;
    sr_x86_direct_step step[];
} sr_x86_direct;

// conv2d_dw, linear_dw. A block of stage 0 processes a group of leaves, a panel of outputs, a range
// of inputs, and a row of taps.
typedef struct sr_x86_direct_dw {
    sr_conv_params p;
    int64_t inputs;         // of a range
    int64_t panels, ranges; // of outputs, of inputs
    int64_t parts;          // of an output row, of at most SR_X86_DIRECT_TERMS pixels
    int64_t segments;       // parts of a leaf
    int64_t leaves, groups; // a group has group_leaves, a power of two
    int64_t group_leaves;
    int64_t levels;      // of the tree of a group
    int64_t tree_floats; // of a tap: sums of each level, and the total
    int64_t x_floats;    // of the pixels that the taps of a leaf read
    int64_t weights;     // elements of dw
} sr_x86_direct_dw;

bool sr_x86_direct_supports(const sr_kernel_request *request);
sr_status sr_x86_direct_plan(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_x86_direct_plan_dw(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_x86_direct_plan_matmul(const sr_kernel_request *request, sr_prepared *out);

#endif
