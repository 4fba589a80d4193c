// SPDX-License-Identifier: Apache-2.0
// Products with rows that batch norm and ReLU come before, by tensor cores: linear layers and
// convolutions of 1x1, and the gradients of their weights.
//
//   y   [rows][K]  = normalised x[rows][C]   w[K][C]^T + bias
//   dw  [K][C]     = dy[rows][K]^T   normalised x[rows][C]
//
// The normalised rows are in shared memory alone. What a block copies there (cp.async) it copies
// while it multiplies what came before; a thread normalises its own copies, once they are there,
// and the barrier behind that is the one that a copy needs anyway. They are rounded as by
// batchnorm_infer_relu of class "tensor", so results are those of a product with its result.
//
// A row of a tile is whole pieces of 64 elements, 8 vectors of 16 bytes. Vector v of row r is at
// place v ^ (r % 8) of its piece: eight rows of a matrix (ldmatrix) are in all banks.
//
// In the forward pass a block goes through tiles of 128 rows of a lane, and for each through the
// columns of the result, by steps of 64 channels of x. Up to 192 channels of a tile stay where they
// are for all columns. In dw a block has 128 x 128 results, or 128 x 64, for a slice of the rows of
// a lane, of which there are as many as follow from the lane's shape. The sums of slices are added
// by a binary tree.
#include "kernels/cuda/cuda_cut.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_mma.h"
#include "kernels/cuda/cuda_mma_provider.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_round.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/kernel_lanes.h"

enum {
    WARP = 32,
    SIDE = 16,  // of a product
    VECTOR = 8, // elements of 16 bytes
    DEPTH = 64, // terms of a step
    VECTORS = DEPTH / VECTOR,
    STAGES = 3, // of copies
    AHEAD = STAGES - 1,
    TALL = 4, // warps of a block, one below the other
    WARP_ROWS = 32,
    WARP_COLUMNS = 64,
    ROWS = TALL * WARP_ROWS, // of a tile of results
    QUAD = 4,                // lanes of a warp that have a row of a product
    BLOCKS = 2 * 132,        // of the forward pass: as many as an H100 runs at once
};
static_assert(ROWS == SR_NORM_LINEAR_TILE && DEPTH == SR_NORM_LINEAR_UNIT &&
                  WARP_COLUMNS == SR_NORM_LINEAR_TILE / 2,
              "as slices are cut");

// Place of a vector of a row of a tile of WIDE pieces.
template <int WIDE>
static __device__ __forceinline__ uint16_t *at(uint16_t *tile, int row, int vector) {
    return tile + (row * WIDE * VECTORS + (vector ^ (row & 7))) * VECTOR;
}

// ---- Batch norm and ReLU ----

// Those of the channels of a vector.
struct norm_factors {
    float mean[VECTOR], factor[VECTOR], beta[VECTOR];
};

// gamma / sqrt(var + eps)
template <class A>
static __device__ float factor_of(const A &a, int64_t channel, int64_t statistic) {
    const float s = 1.0f / sqrtf(a.var[statistic] + a.eps);
    return a.gamma ? a.gamma[channel] * s : s;
}

// All but 'factor'; 'first': where the statistics of the lane begin.
template <class A>
static __device__ __forceinline__ void get_factors(norm_factors &f, const A &a, int64_t first,
                                                   int32_t channel) {
    sr_get(a.mean + first + channel, f.mean);
    SR_UNROLL
    for (int k = 0; k < VECTOR; k++)
        f.beta[k] = 0;
    if (a.beta)
        sr_get(a.beta + channel, f.beta);
}

template <class T>
static __device__ __forceinline__ void normalise(uint16_t *place, const norm_factors &f) {
    uint32_t pair[VECTOR / 2];
    sr_get((const uint32_t *)(const void *)place, pair);
    SR_UNROLL
    for (int k = 0; k < VECTOR; k += 2) {
        float v[2];
        SR_UNROLL
        for (int i = 0; i < 2; i++) {
            v[i] = __fmaf_rn(T::of_pair(pair[k / 2], i != 0) - f.mean[k + i], f.factor[k + i],
                             f.beta[k + i]);
            v[i] = v[i] < 0 ? 0.0f : v[i];
        }
        pair[k / 2] = T::pair(v[0], v[1]);
    }
    sr_put((uint32_t *)(void *)place, pair);
}

// ---- batchnorm_relu_linear: x, gamma, beta, mean, var, w, bias, y ----

struct linear_shape {
    int32_t lane_rows, lane_tiles, tiles;
    int32_t c, k;
    int32_t lane_statistics; // numbers after which another lane's begin: 0, they are shared; or c
    int32_t statistics;      // of all lanes
    int32_t chunks;          // of DEPTH channels
    int32_t columns, group;  // tiles of columns: all, and those of a block
};

struct norm_linear_args {
    const void *x;
    const float *gamma, *beta, *mean, *var, *w, *bias;
    void *y;
    float *factors;    // of the statistics
    uint16_t *weights; // w as T
    linear_shape s;
    float eps;
};

template <class T> static __device__ void pack(const norm_linear_args &a) {
    const int64_t i = sr_thread();
    if (i < a.s.statistics)
        a.factors[i] = factor_of(a, i % a.s.c, i);
    if (a.w && i * VECTOR < (int64_t)a.s.k * a.s.c) {
        float w[VECTOR];
        uint32_t pair[VECTOR / 2];
        sr_get(a.w + i * VECTOR, w);
        SR_UNROLL
        for (int k = 0; k < VECTOR; k += 2)
            pair[k / 2] = T::pair(w[k], w[k + 1]);
        sr_put((uint32_t *)(void *)(a.weights + i * VECTOR), pair);
    }
}

SR_CUDA_KERNEL(mma_norm_linear_pack_bf16, norm_linear_args, SR_CUDA_ELEMENTS, 0) {
    pack<sr_bf16>(a);
}
SR_CUDA_KERNEL(mma_norm_linear_pack_f16, norm_linear_args, SR_CUDA_ELEMENTS, 0) {
    pack<sr_f16>(a);
}

// A step of a block: a chunk of channels for a tile of columns of a tile of rows.
struct linear_step {
    int32_t tile, column, chunk; // column: of the block's tiles of columns
    int32_t stage, base;         // base: stage of chunk 0 of x

    __device__ linear_step() : tile((int32_t)blockIdx.x), column(0), chunk(0), stage(0), base(0) {}

    static __device__ int32_t columns_of(const linear_shape &s) {
        const int32_t left = s.columns - (int32_t)blockIdx.y * s.group;
        return s.group < left ? s.group : left;
    }
    __device__ bool exists(const linear_shape &s) const { return tile < s.tiles; }
    // Whether chunks of x stay for all columns.
    static __device__ bool keeps(const linear_shape &s) { return s.chunks <= STAGES; }
    // Whether this step has a chunk of x that none before had.
    __device__ bool is_fresh(const linear_shape &s) const { return !keeps(s) || column == 0; }
    __device__ bool is_last(const linear_shape &s) const { return chunk + 1 == s.chunks; }
    __device__ int32_t stage_of_x(void) const { return (base + chunk) % STAGES; }
    // Its first column of y.
    template <int COLUMNS> __device__ int32_t first_column(const linear_shape &s) const {
        return ((int32_t)blockIdx.y * s.group + column) * COLUMNS;
    }

    __device__ void next(const linear_shape &s) {
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        if (++chunk < s.chunks)
            return;
        chunk = 0;
        const bool done = ++column == columns_of(s);
        if (done || !keeps(s))
            base = (base + s.chunks) % STAGES;
        if (!done)
            return;
        column = 0;
        tile += (int32_t)gridDim.x;
    }
};

// The rows of a tile.
struct tile_rows {
    int64_t first;
    int32_t lane, count;

    __device__ tile_rows(const linear_shape &s, int32_t tile) {
        lane = tile / s.lane_tiles;
        const int32_t begin = (tile - lane * s.lane_tiles) * ROWS, left = s.lane_rows - begin;
        first = (int64_t)lane * s.lane_rows + begin;
        count = left < ROWS ? left : (int32_t)ROWS;
    }
};

// Begins the copies of a step as one group, which is empty behind the last step.
template <int WIDE>
static __device__ __forceinline__ void copy_step(uint16_t *x, uint16_t *w,
                                                 const norm_linear_args &a, const linear_step &t) {
    const linear_shape &s = a.s;
    constexpr int THREADS = TALL * WIDE * WARP, COLUMNS = WIDE * WARP_COLUMNS;
    const int vector = (int)threadIdx.x % VECTORS, row0 = (int)threadIdx.x / VECTORS;
    const int32_t channel = t.chunk * DEPTH + vector * VECTOR;
    if (t.exists(s)) {
        const bool inside = channel < s.c;
        if (t.is_fresh(s)) {
            const tile_rows rows(s, t.tile);
            uint16_t *to = x + t.stage_of_x() * (ROWS * DEPTH);
            SR_UNROLL_BY(1)
            for (int row = row0; row < ROWS; row += THREADS / VECTORS) {
                const bool exists = inside && row < rows.count;
                const int64_t from = (rows.first + row) * s.c + channel;
                sr_copy_async<16>(at<1>(to, row, vector),
                                  (const uint16_t *)a.x + (exists ? from : 0), exists);
            }
        }
        uint16_t *to = w + t.stage * (COLUMNS * DEPTH);
        SR_UNROLL_BY(1)
        for (int row = row0; row < COLUMNS; row += THREADS / VECTORS) {
            const int32_t k = t.first_column<COLUMNS>(s) + row;
            const bool exists = inside && k < s.k;
            const int64_t from = (int64_t)k * s.c + channel;
            sr_copy_async<16>(at<1>(to, row, vector), a.weights + (exists ? from : 0), exists);
        }
    }
    sr_copy_commit();
}

// Normalises what this thread copied of x for a step. Channels that fill up a chunk stay 0.
template <class T, int WIDE>
static __device__ __forceinline__ void normalise_step(uint16_t *x, const norm_linear_args &a,
                                                      const linear_step &t) {
    const linear_shape &s = a.s;
    constexpr int THREADS = TALL * WIDE * WARP;
    const int vector = (int)threadIdx.x % VECTORS, row0 = (int)threadIdx.x / VECTORS;
    const int32_t channel = t.chunk * DEPTH + vector * VECTOR;
    if (channel >= s.c || !t.is_fresh(s))
        return;
    const int64_t first = t.tile / s.lane_tiles * s.lane_statistics;
    norm_factors f;
    get_factors(f, a, first, channel);
    sr_get(a.factors + first + channel, f.factor);
    uint16_t *tile = x + t.stage_of_x() * (ROWS * DEPTH);
    SR_UNROLL_BY(1)
    for (int row = row0; row < ROWS; row += THREADS / VECTORS)
        normalise<T>(at<1>(tile, row, vector), f);
}

// c[i][n]: of this warp's rows 16 i ..., columns 8 n ...
template <class T>
static __device__ __forceinline__ void multiply_step(float (&c)[2][VECTORS][4], uint16_t *x,
                                                     uint16_t *w, int32_t depth, int32_t rows,
                                                     int32_t columns) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int row = warp % TALL * WARP_ROWS + lane % 16,
              column = warp / TALL * WARP_COLUMNS + lane % 8 + lane / 16 * 8;
    SR_UNROLL
    for (int d = 0; d < DEPTH / SIDE; d++) {
        uint32_t r[2][4];
        if (d * SIDE >= depth || warp % TALL * WARP_ROWS >= rows)
            break;
        SR_UNROLL
        for (int i = 0; i < 2; i++)
            sr_load_matrix(r[i], at<1>(x, row + i * SIDE, d * 2 + lane / 16));
        SR_UNROLL
        for (int n = 0; n < WARP_COLUMNS / SIDE; n++) {
            uint32_t q[4];
            if (n * SIDE >= columns)
                break;
            sr_load_matrix(q, at<1>(w, column + n * SIDE, d * 2 + lane / 8 % 2));
            SR_UNROLL
            for (int i = 0; i < 2; i++) {
                sr_mma<T>(c[i][2 * n], r[i], q[0], q[1]);
                sr_mma<T>(c[i][2 * n + 1], r[i], q[2], q[3]);
            }
        }
    }
}

// Each of four lanes has word i of four rows of words; then all words of row t, its own number.
static __device__ __forceinline__ void transpose_words(uint32_t (&word)[QUAD], int t) {
    SR_UNROLL
    for (int bit = 1; bit < QUAD; bit *= 2) {
        SR_UNROLL
        for (int i = 0; i < QUAD; i++) {
            if (i & bit)
                continue;
            const bool upper = (t & bit) != 0;
            const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + bit], bit);
            word[i] = upper ? got : word[i];
            word[i + bit] = upper ? word[i + bit] : got;
        }
    }
}

// Stores a warp's results, and clears them: four lanes have 32 columns of a row, 16 bytes each.
template <class T>
static __device__ __forceinline__ void store(float (&c)[2][VECTORS][4], const norm_linear_args &a,
                                             const tile_rows &rows, int32_t first) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, t = lane % QUAD;
    const int row = warp % TALL * WARP_ROWS + lane / QUAD;
    SR_UNROLL
    for (int n = 0; n < VECTORS; n += QUAD) {
        const int32_t column = first + n * VECTOR;
        const bool exists = column + t * VECTOR < a.s.k;
        SR_UNROLL
        for (int i = 0; i < 4; i++) {
            uint32_t word[QUAD];
            SR_UNROLL
            for (int q = 0; q < QUAD; q++) {
                float *v = &c[i / 2][n + q][i % 2 * 2], bias[2] = {};
                if (a.bias && column + q * VECTOR < a.s.k)
                    sr_get(a.bias + column + q * VECTOR + 2 * t, bias);
                word[q] = T::pair(v[0] + bias[0], v[1] + bias[1]);
                v[0] = v[1] = 0;
            }
            transpose_words(word, t);
            if (exists && row + i * 8 < rows.count)
                sr_put((uint32_t *)(void *)((uint16_t *)a.y + (rows.first + row + i * 8) * a.s.k +
                                            column + t * VECTOR),
                       word);
        }
    }
}

template <class T, int WIDE> static __device__ void norm_linear(const norm_linear_args &a) {
    const linear_shape &s = a.s;
    constexpr int COLUMNS = WIDE * WARP_COLUMNS;
    uint16_t *x = (uint16_t *)(void *)sr_cuda_shared, *w = x + STAGES * ROWS * DEPTH;
    linear_step now, ahead;
    float c[2][VECTORS][4] = {};
    for (int i = 0; i < AHEAD; i++, ahead.next(s))
        copy_step<WIDE>(x, w, a, ahead);
    for (; now.exists(s); now.next(s)) {
        sr_copy_wait<AHEAD - 1>();
        normalise_step<T, WIDE>(x, a, now);
        __syncthreads();
        copy_step<WIDE>(x, w, a, ahead);
        ahead.next(s);
        const tile_rows rows(s, now.tile);
        const int32_t column =
            now.first_column<COLUMNS>(s) + (int32_t)threadIdx.x / (TALL * WARP) * WARP_COLUMNS;
        multiply_step<T>(c, x + now.stage_of_x() * (ROWS * DEPTH),
                         w + now.stage * (COLUMNS * DEPTH), s.c - now.chunk * DEPTH, rows.count,
                         s.k - column);
        if (now.is_last(s))
            store<T>(c, a, rows, column);
    }
}

SR_CUDA_KERNEL_WITH(mma_norm_linear_bf16, norm_linear_args, 256, 1, (256, 2)) {
    norm_linear<sr_bf16, 2>(a);
}
SR_CUDA_KERNEL_WITH(mma_norm_linear_f16, norm_linear_args, 256, 1, (256, 2)) {
    norm_linear<sr_f16, 2>(a);
}
SR_CUDA_KERNEL_WITH(mma_norm_linear_narrow_bf16, norm_linear_args, 128, 1, (128, 3)) {
    norm_linear<sr_bf16, 1>(a);
}
SR_CUDA_KERNEL_WITH(mma_norm_linear_narrow_f16, norm_linear_args, 128, 1, (128, 3)) {
    norm_linear<sr_f16, 1>(a);
}

// ---- batchnorm_relu_linear_dw: x, gamma, beta, mean, var, dy, dw ----

struct norm_linear_dw_args {
    const void *x;
    const float *gamma, *beta, *mean, *var;
    const void *dy;
    float *dw;
    float *sums;                      // [lanes][slices][k][c]
    int32_t lane_rows, slice, slices; // slice: rows of one
    int32_t c, k, lane_statistics, lanes;
    int32_t tiles_c, tiles; // tiles of results along c, and all
    float eps;
};

// A block's part: rows, and its results.
struct dw_part {
    int64_t first;              // row
    int32_t lane, slice, count; // count: of rows
    int32_t k, c;

    template <int WIDE> static __device__ dw_part of(const norm_linear_dw_args &a) {
        dw_part p;
        const int32_t number = (int32_t)blockIdx.x / a.tiles, tile = (int32_t)blockIdx.x % a.tiles;
        p.lane = number / a.slices;
        p.slice = number - p.lane * a.slices;
        const int32_t begin = p.slice * a.slice, left = a.lane_rows - begin;
        p.first = (int64_t)p.lane * a.lane_rows + begin;
        p.count = left < a.slice ? left : a.slice;
        p.k = tile / a.tiles_c * ROWS;
        p.c = tile % a.tiles_c * (WIDE * WARP_COLUMNS);
        return p;
    }
};

// Copies 'vectors' of rows of a matrix of 'wide' columns from 'column' on: those of this thread,
// and zeros beyond the matrix and its rows.
template <int WIDE, int THREADS>
static __device__ __forceinline__ void copy_rows(uint16_t *to, const void *from, int64_t first,
                                                 int32_t rows, int32_t column, int32_t wide) {
    constexpr int OF_ROW = WIDE * VECTORS;
    const int vector = (int)threadIdx.x % OF_ROW;
    const int32_t own = column + vector * VECTOR;
    SR_UNROLL_BY(1)
    for (int row = (int)threadIdx.x / OF_ROW; row < DEPTH; row += THREADS / OF_ROW) {
        const bool exists = own < wide && row < rows;
        const int64_t place = (first + row) * wide + own;
        sr_copy_async<16>(at<WIDE>(to, row, vector), (const uint16_t *)from + (exists ? place : 0),
                          exists);
    }
}

// c[m][n]: of this warp's weights, rows 16 m ... and columns 8 n ...
template <class T, int WIDE>
static __device__ __forceinline__ void multiply_rows(float (&c)[2][VECTORS][4], uint16_t *dy,
                                                     uint16_t *x, int32_t rows, int32_t weights,
                                                     int32_t channels) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int of_dy = warp % TALL * (WARP_ROWS / VECTOR) + lane / 8 % 2,
              of_x = warp / TALL * VECTORS + lane / 16;
    SR_UNROLL
    for (int d = 0; d < DEPTH; d += SIDE) {
        uint32_t g[2][4];
        if (d >= rows || weights <= 0)
            break;
        SR_UNROLL
        for (int m = 0; m < 2; m++)
            sr_load_matrix_transposed(
                g[m], at<2>(dy, d + lane % 8 + lane / 16 * 8, of_dy + m * (SIDE / VECTOR)));
        SR_UNROLL
        for (int n = 0; n < WARP_COLUMNS / SIDE; n++) {
            uint32_t q[4];
            if (n * SIDE >= channels)
                break;
            sr_load_matrix_transposed(q, at<WIDE>(x, d + lane % 16, of_x + n * (SIDE / VECTOR)));
            SR_UNROLL
            for (int m = 0; m < 2; m++) {
                sr_mma<T>(c[m][2 * n], g[m], q[0], q[1]);
                sr_mma<T>(c[m][2 * n + 1], g[m], q[2], q[3]);
            }
        }
    }
}

static __device__ __forceinline__ void store_sums(const float (&c)[2][VECTORS][4],
                                                  const norm_linear_dw_args &a, const dw_part &p) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float *sums = a.sums + ((int64_t)p.lane * a.slices + p.slice) * a.k * a.c;
    const int32_t column = p.c + warp / TALL * WARP_COLUMNS + lane % QUAD * 2;
    SR_UNROLL
    for (int i = 0; i < 4; i++) {
        const int32_t row = p.k + warp % TALL * WARP_ROWS + i * 8 + lane / QUAD;
        SR_UNROLL
        for (int n = 0; n < VECTORS; n++) {
            const float pair[2] = {c[i / 2][n][i % 2 * 2], c[i / 2][n][i % 2 * 2 + 1]};
            if (row < a.k && column + n * 8 < a.c)
                sr_put(sums + (int64_t)row * a.c + column + n * 8, pair);
        }
    }
}

// Factors of a block's channels in shared memory, as they do not fit into registers: of each kind
// the first halves of vectors, then the second ones, so that eight vectors are in all banks.
template <int OF_ROW> struct shared_factors {
    enum { HALF = VECTOR / 2 };
    float part[6][OF_ROW][HALF];

    __device__ void put(int vector, const norm_factors &f) {
        SR_UNROLL
        for (int k = 0; k < VECTOR; k++) {
            part[k / HALF][vector][k % HALF] = f.mean[k];
            part[2 + k / HALF][vector][k % HALF] = f.factor[k];
            part[4 + k / HALF][vector][k % HALF] = f.beta[k];
        }
    }
    __device__ __forceinline__ void get(int vector, norm_factors &f) const {
        float half[6][HALF];
        SR_UNROLL
        for (int i = 0; i < 6; i++)
            sr_get(part[i][vector], half[i]);
        SR_UNROLL
        for (int k = 0; k < VECTOR; k++) {
            f.mean[k] = half[k / HALF][k % HALF];
            f.factor[k] = half[2 + k / HALF][k % HALF];
            f.beta[k] = half[4 + k / HALF][k % HALF];
        }
    }
};

template <int OF_ROW>
static __device__ void find_factors(shared_factors<OF_ROW> &factors, const norm_linear_dw_args &a,
                                    const dw_part &p) {
    const int32_t vector = (int32_t)threadIdx.x, channel = p.c + vector * VECTOR;
    const int64_t first = (int64_t)p.lane * a.lane_statistics;
    norm_factors f;
    if (vector >= OF_ROW || channel >= a.c)
        return;
    get_factors(f, a, first, channel);
    SR_UNROLL
    for (int k = 0; k < VECTOR; k++)
        f.factor[k] = factor_of(a, channel + k, first + channel + k);
    factors.put(vector, f);
}

template <class T, int WIDE> static __device__ void norm_linear_dw(const norm_linear_dw_args &a) {
    constexpr int THREADS = TALL * WIDE * WARP, OF_ROW = WIDE * VECTORS;
    constexpr int DY = DEPTH * ROWS, X = DEPTH * WIDE * WARP_COLUMNS;
    uint16_t *dy = (uint16_t *)(void *)sr_cuda_shared, *x = dy + STAGES * DY;
    auto &factors = *(shared_factors<OF_ROW> *)(void *)(x + STAGES * X);
    const dw_part p = dw_part::of<WIDE>(a);
    const int vector = (int)threadIdx.x % OF_ROW, row0 = (int)threadIdx.x / OF_ROW;
    const auto copy = [&](int32_t row, int stage) {
        if (row < p.count) {
            copy_rows<2, THREADS>(dy + stage * DY, a.dy, p.first + row, p.count - row, p.k, a.k);
            copy_rows<WIDE, THREADS>(x + stage * X, a.x, p.first + row, p.count - row, p.c, a.c);
        }
        sr_copy_commit();
    };
    for (int i = 0; i < AHEAD; i++)
        copy(i * DEPTH, i);
    find_factors(factors, a, p);
    __syncthreads();
    float c[2][VECTORS][4] = {};
    const int32_t warp = threadIdx.x / WARP;
    int stage = 0, next = AHEAD;
    for (int32_t row = 0; row < p.count; row += DEPTH) {
        sr_copy_wait<AHEAD - 1>();
        if (p.c + vector * VECTOR < a.c) {
            norm_factors f;
            factors.get(vector, f);
            SR_UNROLL_BY(1)
            for (int i = row0; i < DEPTH && row + i < p.count; i += THREADS / OF_ROW)
                normalise<T>(at<WIDE>(x + stage * X, i, vector), f);
        }
        __syncthreads();
        copy(row + AHEAD * DEPTH, next);
        multiply_rows<T, WIDE>(c, dy + stage * DY, x + stage * X, p.count - row,
                               a.k - p.k - warp % TALL * WARP_ROWS,
                               a.c - p.c - warp / TALL * WARP_COLUMNS);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    store_sums(c, a, p);
}

SR_CUDA_KERNEL_WITH(mma_norm_linear_dw_bf16, norm_linear_dw_args, 256, 1, (256, 2)) {
    norm_linear_dw<sr_bf16, 2>(a);
}
SR_CUDA_KERNEL_WITH(mma_norm_linear_dw_f16, norm_linear_dw_args, 256, 1, (256, 2)) {
    norm_linear_dw<sr_f16, 2>(a);
}
SR_CUDA_KERNEL_WITH(mma_norm_linear_dw_narrow_bf16, norm_linear_dw_args, 128, 1, (128, 3)) {
    norm_linear_dw<sr_bf16, 1>(a);
}
SR_CUDA_KERNEL_WITH(mma_norm_linear_dw_narrow_f16, norm_linear_dw_args, 128, 1, (128, 3)) {
    norm_linear_dw<sr_f16, 1>(a);
}

// dw of the lanes: the sums of their slices.
SR_CUDA_KERNEL(mma_norm_linear_fold, norm_linear_dw_args, SR_CUDA_COLUMN, 1) {
    const int64_t results = (int64_t)a.k * a.c;
    sr_sum_lanes(a.lanes, a.slices, a.sums, results, [&](int64_t lane, int64_t place) -> float * {
        return a.dw + lane * results + place;
    });
}

// ---- Requests ----

enum { MEAN_AND_VAR = 3 << 3, MOST_CHANNELS = 1 << 16 }; // MEAN_AND_VAR: arguments

bool sr_mma_supports_norm_linear(const sr_kernel_request *request) {
    const sr_norm_linear_params *p = sr_cuda_params<sr_norm_linear_params>(request);
    const uint32_t own = request->lanes > 0 ? sr_kernel_lane_inputs(request) : 0;
    if (!sr_kernel_fits(request) || (request->dtype[0] != SR_BF16 && request->dtype[0] != SR_F16))
        return false;
    if (request->lanes > 0 && (p->n % request->lanes != 0 || (own != 0 && own != MEAN_AND_VAR)))
        return false;
    // Rows, statistics, tiles and blocks are numbered in 32 bits.
    return p->n > 0 && p->c > 0 && p->k > 0 && p->c % VECTOR == 0 && p->k % VECTOR == 0 &&
           p->n < INT32_MAX / 2 && p->c < MOST_CHANNELS && p->k < MOST_CHANNELS &&
           sr_norm_linear_is_bound_by_bytes(p->c, p->k);
}

static int lanes_of(const sr_kernel_request *request) {
    return request->lanes > 0 ? request->lanes : 1;
}

// Numbers from a lane's statistics to the next one's.
static int32_t lane_statistics_of(const sr_kernel_request *request) {
    const bool own = request->lanes > 0 && sr_kernel_lane_inputs(request) != 0;
    return own ? (int32_t)sr_cuda_params<sr_norm_linear_params>(request)->c : 0;
}

// Of tiles of ROWS, and of so many times WARP_COLUMNS, rows or columns.
static size_t tile_bytes(int wide) {
    return (size_t)(STAGES * DEPTH * (ROWS + wide * WARP_COLUMNS)) * sizeof(uint16_t);
}

sr_status sr_mma_prepare_batchnorm_relu_linear(const sr_kernel_request *request, sr_prepared *out) {
    const sr_norm_linear_params *p = sr_cuda_params<sr_norm_linear_params>(request);
    const bool f16 = request->dtype[0] == SR_F16;
    const int lanes = lanes_of(request), wide = p->k > WARP_COLUMNS ? 2 : 1;
    norm_linear_args a = {};
    linear_shape &s = a.s;
    a.eps = (float)p->eps;
    s.c = (int32_t)p->c;
    s.k = (int32_t)p->k;
    s.lane_rows = (int32_t)(p->n / lanes);
    s.lane_tiles = (int32_t)sr_blocks_for(s.lane_rows, ROWS);
    s.tiles = lanes * s.lane_tiles;
    s.lane_statistics = lane_statistics_of(request);
    s.statistics = s.lane_statistics == 0 ? s.c : s.c * lanes;
    s.chunks = (int32_t)sr_blocks_for(s.c, DEPTH);
    s.columns = (int32_t)sr_blocks_for(s.k, wide * WARP_COLUMNS);
    // Few rows are shared by blocks with some of the columns each.
    const int64_t shares = s.tiles < BLOCKS ? BLOCKS / s.tiles : 1;
    s.group = (int32_t)sr_blocks_for(s.columns, shares);
    const sr_cuda_kernel *const product =
        wide == 2
            ? (f16 ? &mma_norm_linear_f16_kernel : &mma_norm_linear_bf16_kernel)
            : (f16 ? &mma_norm_linear_narrow_f16_kernel : &mma_norm_linear_narrow_bf16_kernel);
    const int64_t weights = p->k * p->c, vectors = weights / VECTOR;
    sr_cuda_making making(request, a, out);
    making.add_elements(f16 ? &mma_norm_linear_pack_f16_kernel : &mma_norm_linear_pack_bf16_kernel,
                        vectors > s.statistics ? vectors : s.statistics);
    making.add_grid(product, s.tiles < BLOCKS ? s.tiles : (int32_t)BLOCKS,
                    sr_blocks_for(s.columns, s.group), 1, wide * TALL * WARP, 1, tile_bytes(wide));
    out->workspace = (size_t)s.statistics * sizeof(float);
    if (making.status == SR_OK) {
        const sr_kernel_packing packing = sr_cuda_packing(5, request->dtype[0], weights, 1, 1);
        sr_cuda_plan_pack(making.plan, &packing, out);
    }
    return making.done();
}

sr_status sr_mma_prepare_batchnorm_relu_linear_dw(const sr_kernel_request *request,
                                                  sr_prepared *out) {
    const sr_norm_linear_params *p = sr_cuda_params<sr_norm_linear_params>(request);
    const bool f16 = request->dtype[0] == SR_F16;
    const int wide = p->c > WARP_COLUMNS ? 2 : 1;
    norm_linear_dw_args a = {};
    a.eps = (float)p->eps;
    a.c = (int32_t)p->c;
    a.k = (int32_t)p->k;
    a.lanes = lanes_of(request);
    a.lane_rows = (int32_t)(p->n / a.lanes);
    a.lane_statistics = lane_statistics_of(request);
    a.slice = (int32_t)sr_norm_linear_slice(a.lane_rows, p->c, p->k);
    a.slices = (int32_t)sr_blocks_for(a.lane_rows, a.slice);
    a.tiles_c = (int32_t)sr_blocks_for(a.c, wide * WARP_COLUMNS);
    a.tiles = a.tiles_c * (int32_t)sr_blocks_for(a.k, ROWS);
    const sr_cuda_kernel *const product =
        wide == 2 ? (f16 ? &mma_norm_linear_dw_f16_kernel : &mma_norm_linear_dw_bf16_kernel)
                  : (f16 ? &mma_norm_linear_dw_narrow_f16_kernel
                         : &mma_norm_linear_dw_narrow_bf16_kernel);
    sr_cuda_making making(request, a, out);
    making.add(product, (int64_t)a.lanes * a.slices * a.tiles, wide * TALL * WARP,
               tile_bytes(wide) + (size_t)(wide * WARP_COLUMNS) * 3 * sizeof(float));
    making.add_columns(&mma_norm_linear_fold_kernel, a.lanes * p->k * p->c, a.slices);
    out->workspace = (size_t)((int64_t)a.lanes * a.slices * p->k * p->c) * sizeof(float);
    return making.done();
}
