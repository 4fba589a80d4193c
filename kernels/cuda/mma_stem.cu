// SPDX-License-Identifier: Apache-2.0
// Convolutions of pictures with few channels, and the gradients of their filters, by tensor cores:
// the first layers of networks.
//
// A block has 8 x 16 pixels of the output and 64 of its channels. The pixels of x that these see
// are in shared memory with 4 or 8 channels each, the missing ones 0, so that what a pixel of the
// output sees of a row begins at a multiple of 16 bytes: windows overlap in memory, and are rows of
// a matrix all the same (ldmatrix). A row of a filter has as many terms as fill products of 16; its
// weights beyond the filter are 0, so a number there must be finite for a finite result.
//
//   y   [pixels][channels] = windows[pixels][terms]   weights[channels][terms]^T
//   dw  [channels][terms]  = dy[pixels][channels]^T   windows[pixels][terms]
//
// In dw a warp has a row of the filters, and a block a unit of tiles of one lane, of which there
// are as many as follow from the lane's shape. Their sums are added by a binary tree.
#include "kernels/cuda/cuda_cut.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_mma.h"
#include "kernels/cuda/cuda_mma_provider.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/kernel_lanes.h"

enum {
    WARP = 32,
    SIDE = 16, // of a product
    TILE_H = SR_STEM_TILE_H,
    TILE_W = SR_STEM_TILE_W, // pixels of the output
    PIXELS = TILE_H * TILE_W,
    CHANNELS = SR_STEM_CHANNELS, // of the output, of a block
    DY_PITCH = CHANNELS + 8,
    WARPS = 4, // of the forward pass
    ROWS = TILE_H / WARPS,
    MOST_FILTER = 8, // pixels of a filter's side
    MOST_STRIDE = 4,
    MOST_TERMS = 32,      // of a filter's row
    BLOCKS = 2 * 4 * 132, // of the forward pass, at most: twice those that an H100 runs at once
};

struct stem_shape {
    int32_t h, w, c, k, r, s, p, q, stride_h, stride_w, pad_top, pad_left;
    int32_t pixel, terms;     // channels of a pixel in shared memory, terms of a filter's row
    int32_t patch_h, patch_w; // pixels of x that a tile sees
    int32_t tiles_h, tiles_w; // of a picture
    int32_t block_tiles;
    int64_t tiles;                   // of all lanes
    int64_t lane_tiles, units, unit; // of a lane: tiles, units, tiles of a unit
};

static __host__ __device__ int32_t round_up(int32_t n, int32_t to) {
    return (n + to - 1) / to * to;
}

static stem_shape shape_of(const sr_conv_params *p, int lanes) {
    stem_shape s = {};
    s.h = (int32_t)p->h;
    s.w = (int32_t)p->w;
    s.c = (int32_t)p->c;
    s.k = (int32_t)p->k;
    s.r = (int32_t)p->r;
    s.s = (int32_t)p->s;
    s.p = (int32_t)p->p;
    s.q = (int32_t)p->q;
    s.stride_h = p->stride_h;
    s.stride_w = p->stride_w;
    s.pad_top = p->pad_top;
    s.pad_left = p->pad_left;
    s.pixel = sr_stem_pixel(s.stride_w);
    s.terms = sr_stem_terms(s.s, s.stride_w);
    s.patch_h = (TILE_H - 1) * s.stride_h + s.r;
    s.patch_w = (TILE_W - 1) * s.stride_w + s.terms / s.pixel;
    s.tiles_h = round_up(s.p, TILE_H) / TILE_H;
    s.tiles_w = round_up(s.q, TILE_W) / TILE_W;
    s.tiles = p->n * s.tiles_h * s.tiles_w;
    s.lane_tiles = s.tiles / lanes;
    // Each block makes a copy of the weights, which takes as long as some tiles.
    s.block_tiles = (int32_t)sr_blocks_for(s.tiles, BLOCKS);
    s.unit = sr_stem_unit(s.lane_tiles);
    s.units = sr_blocks_for(s.lane_tiles, s.unit);
    return s;
}

static int64_t patch_elements(const stem_shape &s) {
    return (int64_t)s.patch_h * s.patch_w * s.pixel;
}
// Rows of weights lie in other banks of shared memory than their neighbours.
static __host__ __device__ int32_t weight_pitch(const stem_shape &s) {
    return s.r * s.terms + 8;
}

// A tile's picture, and its first pixel of the output.
struct stem_tile {
    int64_t image;
    int32_t p, q;

    __device__ stem_tile(const stem_shape &s, int64_t number) {
        const int32_t of_image = s.tiles_h * s.tiles_w;
        image = sr_divide(number, of_image);
        const int32_t rest = (int32_t)(number - image * of_image), row = rest / s.tiles_w;
        p = row * TILE_H;
        q = (rest - row * s.tiles_w) * TILE_W;
    }
};

// Loads the pixels of x that a tile sees.
template <int PIXEL>
static __device__ void load_patch(uint16_t *patch, const uint16_t *x, const stem_shape &s,
                                  const stem_tile &t) {
    const int32_t top = t.p * s.stride_h - s.pad_top, left = t.q * s.stride_w - s.pad_left;
    for (int32_t i = threadIdx.x; i < s.patch_h * s.patch_w; i += blockDim.x) {
        const int32_t row = i / s.patch_w, h = top + row, w = left + i - row * s.patch_w;
        const bool exists = (uint32_t)h < (uint32_t)s.h && (uint32_t)w < (uint32_t)s.w;
        const uint16_t *from = x + ((t.image * s.h + h) * s.w + w) * s.c;
        uint16_t v[PIXEL] = {};
        SR_UNROLL
        for (int k = 0; k < 4; k++)
            if (exists && k < s.c)
                v[k] = from[k];
        sr_put(patch + i * PIXEL, v);
    }
}

static __device__ void load_patch(uint16_t *patch, const void *x, const stem_shape &s,
                                  const stem_tile &t) {
    if (s.pixel == 4)
        load_patch<4>(patch, (const uint16_t *)x, s, t);
    else
        load_patch<8>(patch, (const uint16_t *)x, s, t);
}

// Where a lane's pixel of a row of a tile begins to see row r.
static __device__ const uint16_t *window(const uint16_t *patch, const stem_shape &s, int row,
                                         int32_t r, int column) {
    return patch + ((row * s.stride_h + r) * s.patch_w + column * s.stride_w) * s.pixel;
}

// ---- conv2d: x, w, bias, y ----

struct stem_args {
    const void *x;
    const float *w, *bias;
    void *y;
    void *workspace;
    stem_shape s;
};

// The weight of a term of row r; 0 beyond the filter.
static __device__ float weight_of(const stem_args &a, int32_t k, int32_t r, int32_t term) {
    const stem_shape &s = a.s;
    const int32_t column = term / s.pixel, c = term % s.pixel;
    const bool exists = k < s.k && column < s.s && c < s.c;
    return exists ? a.w[(((int64_t)k * s.c + c) * s.r + r) * s.s + column] : 0.0f;
}

// weights[64][pitch] of the block's channels.
template <class T>
static __device__ void load_weights(uint16_t *weights, const stem_args &a, int32_t first) {
    const int32_t pairs = a.s.r * a.s.terms / 2;
    for (int32_t i = threadIdx.x; i < CHANNELS * pairs; i += blockDim.x) {
        const int32_t k = i / pairs, t = (i - k * pairs) * 2, r = t / a.s.terms,
                      term = t - r * a.s.terms;
        const uint32_t pair =
            T::pair(weight_of(a, first + k, r, term), weight_of(a, first + k, r, term + 1));
        memcpy((void *)&weights[k * weight_pitch(a.s) + t], &pair, sizeof pair);
    }
}

// c[row][n]: of this warp's rows of the tile, channels 8 n ...
template <class T>
static __device__ __forceinline__ void multiply(float (&c)[ROWS][CHANNELS / 8][4],
                                                const uint16_t *patch, const uint16_t *weights,
                                                const stem_shape &s, int32_t channels) {
    const int lane = threadIdx.x % WARP, first = threadIdx.x / WARP * ROWS;
    const uint16_t *b_row =
        weights + (lane % 8 + lane / 16 * 8) * weight_pitch(s) + lane / 8 % 2 * 8;
    for (int32_t r = 0; r < s.r; r++) {
        for (int32_t t = 0; t < s.terms; t += SIDE) {
            uint32_t x[ROWS][4];
            SR_UNROLL
            for (int row = 0; row < ROWS; row++)
                sr_load_matrix(x[row],
                               window(patch, s, first + row, r, lane % 16) + t + lane / 16 * 8);
            SR_UNROLL
            for (int n = 0; n < CHANNELS / SIDE; n++) {
                uint32_t w[4];
                if (n * SIDE >= channels)
                    break;
                sr_load_matrix(w, b_row + n * SIDE * weight_pitch(s) + r * s.terms + t);
                SR_UNROLL
                for (int row = 0; row < ROWS; row++) {
                    sr_mma<T>(c[row][2 * n], x[row], w[0], w[1]);
                    sr_mma<T>(c[row][2 * n + 1], x[row], w[2], w[3]);
                }
            }
        }
    }
}

// Stores a warp's rows, 16 bytes at a time, by way of its part of 'staging' [PIXELS][DY_PITCH].
template <class T>
static __device__ __forceinline__ void store(const float (&c)[ROWS][CHANNELS / 8][4],
                                             uint16_t *staging, const stem_args &a,
                                             const stem_tile &t, int32_t first) {
    const stem_shape &s = a.s;
    const int lane = threadIdx.x % WARP, row0 = threadIdx.x / WARP * ROWS;
    uint16_t *own = staging + row0 * TILE_W * DY_PITCH;
    __syncwarp();
    SR_UNROLL
    for (int n = 0; n < CHANNELS / 8; n++) {
        const int32_t channel = n * 8 + lane % 4 * 2;
        const bool biased = a.bias && first + channel < s.k;
        const float bias[2] = {biased ? a.bias[first + channel] : 0.0f,
                               biased ? a.bias[first + channel + 1] : 0.0f};
        SR_UNROLL
        for (int i = 0; i < 2 * ROWS; i++) {
            const float *v = &c[i / 2][n][i % 2 * 2];
            const uint32_t pair = T::pair(v[0] + bias[0], v[1] + bias[1]);
            const int pixel = i / 2 * TILE_W + i % 2 * 8 + lane / 4;
            memcpy((void *)&own[pixel * DY_PITCH + channel], &pair, sizeof pair);
        }
    }
    __syncwarp();
    for (int i = lane; i < ROWS * TILE_W * CHANNELS / 8; i += WARP) {
        const int pixel = i / (CHANNELS / 8), channel = i % (CHANNELS / 8) * 8;
        const int32_t p = t.p + row0 + pixel / TILE_W, q = t.q + pixel % TILE_W;
        uint16_t v[8];
        sr_get(&own[pixel * DY_PITCH + channel], v);
        if (p < s.p && q < s.q && first + channel < s.k)
            sr_put((uint16_t *)a.y + ((t.image * s.p + p) * s.q + q) * s.k + first + channel, v);
    }
}

template <class T> static __device__ void stem(const stem_args &a) {
    const stem_shape &s = a.s;
    uint16_t *weights = (uint16_t *)(void *)sr_cuda_shared;
    uint16_t *staging = weights + CHANNELS * weight_pitch(s);
    uint16_t *patch = staging + PIXELS * DY_PITCH;
    const int32_t first = blockIdx.y * CHANNELS;
    const int64_t begin = (int64_t)blockIdx.x * s.block_tiles;
    load_weights<T>(weights, a, first);
    for (int64_t i = begin; i < begin + s.block_tiles && i < s.tiles; i++) {
        const stem_tile tile(s, i);
        float c[ROWS][CHANNELS / 8][4] = {};
        __syncthreads();
        load_patch(patch, a.x, s, tile);
        __syncthreads();
        multiply<T>(c, patch, weights, s, s.k - first);
        store<T>(c, staging, a, tile, first);
    }
}

SR_CUDA_KERNEL_WITH(mma_stem_bf16, stem_args, 128, 1, (128, 4)) {
    stem<sr_bf16>(a);
}
SR_CUDA_KERNEL_WITH(mma_stem_f16, stem_args, 128, 1, (128, 4)) {
    stem<sr_f16>(a);
}

// ---- conv2d_dw: x, dy, dw ----

struct stem_dw_args {
    const void *x, *dy;
    float *dw;
    float *sums; // [lanes][units][channels, a multiple of 64][r][terms]
    stem_shape s;
};

static __host__ __device__ int64_t unit_sums(const stem_shape &s) {
    return (int64_t)round_up(s.k, CHANNELS) * s.r * s.terms;
}

// Begins to copy dy of a tile.
static __device__ void copy_dy(uint16_t *to, const stem_dw_args &a, const stem_tile &t,
                               int32_t first) {
    const stem_shape &s = a.s;
    for (int i = threadIdx.x; i < PIXELS * CHANNELS / 8; i += blockDim.x) {
        const int pixel = i / (CHANNELS / 8), channel = i % (CHANNELS / 8) * 8;
        const int32_t p = t.p + pixel / TILE_W, q = t.q + pixel % TILE_W;
        const bool exists = p < s.p && q < s.q && first + channel < s.k;
        const int64_t at = ((t.image * s.p + p) * s.q + q) * s.k + first + channel;
        sr_copy_async<16>(to + pixel * DY_PITCH + channel,
                          (const uint16_t *)a.dy + (exists ? at : 0), exists);
    }
    sr_copy_commit();
}

template <class T> static __device__ void stem_dw(const stem_dw_args &a) {
    const stem_shape &s = a.s;
    uint16_t *dy = (uint16_t *)(void *)sr_cuda_shared, *patch = dy + PIXELS * DY_PITCH;
    const int lane = threadIdx.x % WARP, r = threadIdx.x / WARP;
    const int32_t first = blockIdx.y * CHANNELS;
    const int64_t of_lane = sr_divide(blockIdx.x, s.units), unit = blockIdx.x - of_lane * s.units;
    const int64_t begin = unit * s.unit, left = s.lane_tiles - begin;
    const int64_t count = left < s.unit ? left : s.unit;
    float c[CHANNELS / SIDE][MOST_TERMS / 8][4] = {};
    for (int64_t i = 0; i < count; i++) {
        const stem_tile tile(s, of_lane * s.lane_tiles + begin + i);
        __syncthreads();
        copy_dy(dy, a, tile, first);
        load_patch(patch, a.x, s, tile);
        sr_copy_wait<0>();
        __syncthreads();
        for (int row = 0; row < TILE_H; row++) {
            uint32_t g[CHANNELS / SIDE][4];
            SR_UNROLL
            for (int m = 0; m < CHANNELS / SIDE; m++)
                sr_load_matrix_transposed(
                    g[m], dy + (row * TILE_W + lane % 8 + lane / 16 * 8) * DY_PITCH + m * SIDE +
                              lane / 8 % 2 * 8);
            SR_UNROLL
            for (int n = 0; n < MOST_TERMS / SIDE; n++) {
                uint32_t x[4];
                if (n * SIDE >= s.terms)
                    break;
                sr_load_matrix_transposed(x, window(patch, s, row, r, lane % 16) + n * SIDE +
                                                 lane / 16 * 8);
                SR_UNROLL
                for (int m = 0; m < CHANNELS / SIDE; m++) {
                    sr_mma<T>(c[m][2 * n], g[m], x[0], x[1]);
                    sr_mma<T>(c[m][2 * n + 1], g[m], x[2], x[3]);
                }
            }
        }
    }
    float *sums = a.sums + blockIdx.x * ((int64_t)gridDim.y * CHANNELS * s.r * s.terms);
    SR_UNROLL
    for (int m = 0; m < CHANNELS / SIDE; m++) {
        SR_UNROLL
        for (int n = 0; n < MOST_TERMS / 8; n++) {
            if (n * 8 >= s.terms)
                break;
            for (int i = 0; i < 2; i++) {
                const int32_t channel = first + m * SIDE + i * 8 + lane / 4;
                const float pair[2] = {c[m][n][2 * i], c[m][n][2 * i + 1]};
                sr_put(sums + ((int64_t)channel * s.r + r) * s.terms + n * 8 + lane % 4 * 2, pair);
            }
        }
    }
}

SR_CUDA_KERNEL_WITH(mma_stem_dw_bf16, stem_dw_args, 256, 1, (256, 2)) {
    stem_dw<sr_bf16>(a);
}
SR_CUDA_KERNEL_WITH(mma_stem_dw_f16, stem_dw_args, 256, 1, (256, 2)) {
    stem_dw<sr_f16>(a);
}

// dw of the lanes: the sums of their units, but for channels and terms that fill up products.
SR_CUDA_KERNEL(mma_stem_fold, stem_dw_args, SR_CUDA_COLUMN, 1) {
    const stem_shape &s = a.s;
    const int64_t lanes = sr_divide(s.tiles, s.lane_tiles);
    sr_sum_lanes(lanes, s.units, a.sums, unit_sums(s), [&](int64_t lane, int64_t place) -> float * {
        const int32_t row = (int32_t)place / s.terms, term = (int32_t)place - row * s.terms;
        const int32_t k = row / s.r, r = row - k * s.r, column = term / s.pixel, c = term % s.pixel;
        const bool exists = k < s.k && column < s.s && c < s.c;
        return exists ? a.dw + (((lane * s.k + k) * s.c + c) * s.r + r) * s.s + column : NULL;
    });
}

// ---- Requests ----

static bool is_small(const sr_conv_params *p) {
    const int64_t most = INT32_MAX / 8; // places in a picture, and sums, are numbered in 32 bits
    return p->h > 0 && p->w > 0 && p->p > 0 && p->q > 0 && p->n > 0 && p->h * p->stride_h < most &&
           p->w * p->stride_w < most && p->p * p->stride_h < most && p->q * p->stride_w < most &&
           p->k * p->r * MOST_TERMS < most;
}

bool sr_mma_supports_stem(const sr_kernel_request *request) {
    const sr_conv_params *p = sr_cuda_params<sr_conv_params>(request);
    const int lanes = request->lanes > 0 ? request->lanes : 1;
    if (request->lanes > 0 && (sr_kernel_lane_inputs(request) != 0 || p->n % lanes != 0))
        return false;
    if (!sr_kernel_fits(request) || (request->dtype[0] != SR_BF16 && request->dtype[0] != SR_F16) ||
        p->groups != 1 || p->c < 1 || p->c > 4 || p->k % 8 != 0 || p->k < 8 || !is_small(p))
        return false;
    // A product alone is a matrix's, and is left to others.
    return p->r <= MOST_FILTER && p->s <= MOST_FILTER && p->r * p->s > 1 && p->dilation_h == 1 &&
           p->dilation_w == 1 && p->stride_h <= MOST_STRIDE && p->stride_w <= MOST_STRIDE &&
           shape_of(p, lanes).terms <= MOST_TERMS;
}

sr_status sr_mma_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out) {
    stem_args a = {};
    a.s = shape_of(sr_cuda_params<sr_conv_params>(request), 1);
    const size_t elements =
        (size_t)(CHANNELS * weight_pitch(a.s) + PIXELS * DY_PITCH) + (size_t)patch_elements(a.s);
    sr_cuda_making making(request, a, out);
    making.add_grid(request->dtype[0] == SR_F16 ? &mma_stem_f16_kernel : &mma_stem_bf16_kernel,
                    sr_blocks_for(a.s.tiles, a.s.block_tiles), sr_blocks_for(a.s.k, CHANNELS), 1,
                    WARPS * WARP, 1, elements * sizeof(uint16_t));
    return making.done();
}

sr_status sr_mma_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params *p = sr_cuda_params<sr_conv_params>(request);
    const int lanes = request->lanes > 0 ? request->lanes : 1;
    stem_dw_args a = {};
    a.s = shape_of(p, lanes);
    const size_t elements = (size_t)(PIXELS * DY_PITCH) + (size_t)patch_elements(a.s);
    sr_cuda_making making(request, a, out);
    making.add_grid(request->dtype[0] == SR_F16 ? &mma_stem_dw_f16_kernel
                                                : &mma_stem_dw_bf16_kernel,
                    lanes * a.s.units, sr_blocks_for(a.s.k, CHANNELS), 1, a.s.r * WARP, 1,
                    elements * sizeof(uint16_t));
    making.add_columns(&mma_stem_fold_kernel, lanes * unit_sums(a.s), a.s.units);
    out->workspace = (size_t)(lanes * a.s.units * unit_sums(a.s)) * sizeof(float);
    return making.done();
}
