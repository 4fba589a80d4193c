// SPDX-License-Identifier: Apache-2.0
// Reference convolutions, linear layers and matrix products: direct sums in the natural order.
//
//   conv2d     y[n,p,q,k]  = sum over r, s, c  x w
//   conv2d_dx  dx[n,h,w,c] = sum over r, s, k  dy w
//   conv2d_dw  dw[k,c,r,s] = sum over n, p, q  x dy
//
// in chains and a tree (reference_sum.inc), the last of the named indices running fastest. Terms
// outside of the picture are left out but keep their places, so the chains and the tree of an
// output do not depend on where in the picture it is: any device can compute any outputs side by
// side in this order (kernels/cpu/x86/x86_direct_internal.h does). Inner loops run over
// neighbouring outputs (channels), four terms at a time and in the order of the sum, so they
// vectorise without changing a bit. The first two begin with a stage that rounds the weights to T
// and transposes them for this. A linear layer is a 1 x 1 convolution of one image with one row;
// so is each product of matmul, where both factors are activations.
// Not here: Winograd, FFT, im2col; other providers may use them.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/cpu/reference/reference_internal.h"

#define PIXEL_TILE 16      // neighbouring pixels that one block computes
#define PACK_CHUNK 64      // filters that one packing block handles
#define FILTER_CHUNK 16    // filters of one group whose gradient one block computes
#define DEPTHWISE_CHUNK 64 // the same for depthwise convolutions, which vectorise over filters

static inline bool is_depthwise(const sr_conv_params *p) {
    return p->c == p->groups && p->k == p->groups;
}

// Window row or column 'tap' of output position 'out': the input position, or -1 when it is
// padding.
static inline int64_t input_position(int64_t out, int64_t tap, int32_t stride, int32_t dilation,
                                     int32_t pad, int64_t size) {
    const int64_t at = out * stride + tap * dilation - pad;
    return at >= 0 && at < size ? at : -1;
}

// The inverse: the output position that reads input 'in' with 'tap', or -1.
static inline int64_t output_position(int64_t in, int64_t tap, int32_t stride, int32_t dilation,
                                      int32_t pad, int64_t size) {
    const int64_t at = in + pad - tap * dilation;
    return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
}

// The pixel in row 'row' and column 'column' of a picture 'width' wide, -1 where one is -1.
static inline int64_t source_of(int64_t row, int64_t column, int64_t width) {
    return row < 0 || column < 0 ? -1 : row * width + column;
}

// Levels of the tree of a tile's sums over 'in' channels, to which at most SR_REFERENCE_TERMS terms
// of a tap are added at a time.
static inline int64_t tile_levels(const sr_conv_params *p, int64_t in) {
    return sr_reference_levels(p->r * p->s * sr_blocks_of(in / p->groups, SR_REFERENCE_TERMS));
}

// Filters of one block of conv2d_dw: k begin .. end - 1, all of one group.
static inline int64_t filter_chunks(const sr_conv_params *p) {
    return is_depthwise(p) ? sr_blocks_of(p->k, DEPTHWISE_CHUNK)
                           : p->groups * sr_blocks_of(p->k / p->groups, FILTER_CHUNK);
}

static inline sr_block_range filter_chunk(const sr_conv_params *p, int64_t block) {
    if (is_depthwise(p))
        return sr_block_range_of(block, DEPTHWISE_CHUNK, p->k);
    const int64_t per_group = p->k / p->groups, chunks = sr_blocks_of(per_group, FILTER_CHUNK);
    const int64_t first = block / chunks * per_group;
    const sr_block_range r = sr_block_range_of(block % chunks, FILTER_CHUNK, per_group);
    return (sr_block_range){first + r.begin, first + r.end};
}

// Elements of the sums of one block of conv2d_dw: every tap of its filters.
static inline int64_t filter_sums(const sr_conv_params *p) {
    return p->r * p->s * (is_depthwise(p) ? DEPTHWISE_CHUNK : FILTER_CHUNK * (p->c / p->groups));
}

// Levels of the tree of these sums, to which a part of an output row is added at a time.
static inline int64_t filter_levels(const sr_conv_params *p) {
    return sr_reference_levels(p->n * p->p * sr_blocks_of(p->q, SR_REFERENCE_TERMS));
}

// Columns q of 'part' whose tap s is inside the picture.
static sr_block_range columns_of(const sr_conv_params *p, int64_t s, sr_block_range part) {
    int64_t begin = part.begin, end = part.end;
    while (begin < end &&
           input_position(begin, s, p->stride_w, p->dilation_w, p->pad_left, p->w) < 0)
        begin++;
    while (begin < end &&
           input_position(end - 1, s, p->stride_w, p->dilation_w, p->pad_left, p->w) < 0)
        end--;
    return (sr_block_range){begin, end};
}

// Columns of the picture that some tap reads for columns 'part' of the output.
static sr_block_range columns_seen(const sr_conv_params *p, sr_block_range part) {
    const int64_t begin = part.begin * p->stride_w - p->pad_left;
    const int64_t end = (part.end - 1) * p->stride_w + (p->s - 1) * p->dilation_w - p->pad_left + 1;
    const int64_t last = end < p->w ? end : p->w, first = begin > 0 ? begin : 0;
    return (sr_block_range){first < last ? first : last, last};
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_conv.inc"
#include "kernels/cpu/reference/reference_typed.inc"

// Rows of matrices of b, each of PACK_CHUNK terms, that matmul packs.
static int64_t matmul_chunks(const sr_matmul_params *p) {
    return sr_blocks_of(p->terms, PACK_CHUNK);
}

static int64_t matmul_tiles(const sr_matmul_params *p) {
    return sr_blocks_of(p->rows, PIXEL_TILE);
}

static int64_t matmul_levels(const sr_matmul_params *p) {
    return sr_reference_levels(sr_blocks_of(p->terms, SR_REFERENCE_TERMS));
}

#undef SR_TYPED_BODY
#define SR_TYPED_BODY "kernels/cpu/reference/reference_matmul.inc"
#include "kernels/cpu/reference/reference_typed.inc"

// ---- Preparing: the shape is in the state, so that linear layers can use the same functions ----

static sr_status set_shape(const sr_conv_params *p, sr_prepared *out) {
    sr_conv_params *state = sr_alloc(sizeof *state, "convolution");
    if (!state)
        return SR_E_MEMORY;
    *state = *p;
    out->state = state;
    out->state_free = sr_free;
    return SR_OK;
}

static size_t tile_bytes(const sr_conv_params *p, int64_t in, int64_t out, sr_dtype dtype) {
    return (size_t)((1 + tile_levels(p, in)) * PIXEL_TILE * out) * sr_accumulator_size(dtype);
}

static size_t weight_bytes(const sr_conv_params *p, sr_dtype dtype) {
    return (size_t)(p->k * p->c / p->groups * p->r * p->s) * sr_accumulator_size(dtype);
}

static sr_status prepare_forward(const sr_conv_params *p, sr_dtype dtype, sr_prepared *out) {
    static const sr_kernel_fn pack[] = SR_REFERENCE_TYPES(pack_forward);
    static const sr_kernel_fn run[] = SR_REFERENCE_TYPES(forward);
    SR_TRY(set_shape(p, out));
    sr_add_stage(out, pack[dtype], sr_blocks_of(p->k, PACK_CHUNK));
    sr_add_stage(out, run[dtype], p->n * p->p * sr_blocks_of(p->q, PIXEL_TILE));
    out->workspace = weight_bytes(p, dtype);
    out->scratch = tile_bytes(p, p->c, p->k, dtype);
    return SR_OK;
}

static sr_status prepare_dx(const sr_conv_params *p, sr_dtype dtype, sr_prepared *out) {
    static const sr_kernel_fn pack[] = SR_REFERENCE_TYPES(pack_dx);
    static const sr_kernel_fn run[] = SR_REFERENCE_TYPES(backward_data);
    SR_TRY(set_shape(p, out));
    sr_add_stage(out, pack[dtype], sr_blocks_of(p->k, PACK_CHUNK));
    sr_add_stage(out, run[dtype], p->n * p->h * sr_blocks_of(p->w, PIXEL_TILE));
    out->workspace = weight_bytes(p, dtype);
    out->scratch = tile_bytes(p, p->k, p->c, dtype);
    return SR_OK;
}

static sr_status prepare_dw(const sr_conv_params *p, sr_dtype dtype, sr_prepared *out) {
    static const sr_kernel_fn run[] = SR_REFERENCE_TYPES(backward_weights);
    const int64_t x_row = p->w * (p->c / p->groups), dy_row = p->q * FILTER_CHUNK;
    SR_TRY(set_shape(p, out));
    sr_add_stage(out, run[dtype], filter_chunks(p));
    // Sums, their tree, a row of x or dy as A.
    out->scratch =
        (size_t)((1 + filter_levels(p)) * filter_sums(p) + (x_row > dy_row ? x_row : dy_row)) *
        sr_accumulator_size(dtype);
    return SR_OK;
}

sr_status sr_reference_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_forward((const void *)request->params, request->dtype[0], out);
}

sr_status sr_reference_prepare_conv2d_dx(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_dx((const void *)request->params, request->dtype[0], out);
}

sr_status sr_reference_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_dw((const void *)request->params, request->dtype[0], out);
}

sr_status sr_reference_prepare_linear(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv((const void *)request->params);
    return prepare_forward(&p, request->dtype[0], out);
}

sr_status sr_reference_prepare_linear_dx(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv((const void *)request->params);
    return prepare_dx(&p, request->dtype[0], out);
}

sr_status sr_reference_prepare_linear_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv((const void *)request->params);
    return prepare_dw(&p, request->dtype[0], out);
}

sr_status sr_reference_prepare_matmul(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn pack[] = SR_REFERENCE_TYPES(matmul_pack);
    static const sr_kernel_fn run[] = SR_REFERENCE_TYPES(matmul);
    const sr_matmul_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    const size_t size = sr_accumulator_size(dtype);
    sr_add_stage(out, pack[dtype], p->b_count * matmul_chunks(p));
    sr_add_stage(out, run[dtype], sr_matmul_batches(p) * matmul_tiles(p));
    out->workspace = (size_t)(p->b_count * p->terms * p->columns) * size;
    out->scratch = (size_t)((1 + matmul_levels(p)) * PIXEL_TILE * p->columns) * size;
    return SR_OK;
}
