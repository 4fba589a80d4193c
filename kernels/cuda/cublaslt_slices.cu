// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cublaslt_slices.h"

#include "kernels/cuda/cuda_sum.h"

// A tile is what a block of a product has. There are at most MOST_TILES of all slices, so that
// their sums are few, and a slice has at least LEAST_ROWS, so that it takes longer than to add it.
enum { TILE = 128, MOST_TILES = 256, LEAST_ROWS = 512 };
// Of slices with a rest. 32 rows of any width are a multiple of 64 bytes, as arguments are.
enum { UNIT = 32 };

// Of a block; results of a thread: 16 bytes; rows of threads at most.
enum { THREADS = 256, RESULTS = 4, MOST_ROWS = SR_CUDA_BATCH };
// A thread adds at most SR_CUDA_BATCH << LEVELS slices: the rows of a block have 512.
enum { LEVELS = 3 };
static_assert(MOST_TILES + 1 <= MOST_ROWS * SR_CUDA_BATCH << LEVELS, "slices and a rest");

// ---- Slices ----

// The most that divide the rows, of those from half as many as there may be; else slices of whole
// units of rows.
sr_cublaslt_slices sr_cublaslt_slices_of(const sr_linear_params *lane) {
    const int64_t n = lane->n;
    const int64_t tiles = sr_blocks_for(lane->k, TILE) * sr_blocks_for(lane->c, TILE);
    const int64_t by_tiles = MOST_TILES / tiles, by_rows = n / LEAST_ROWS;
    const int64_t most = by_tiles < by_rows ? by_tiles : by_rows;
    sr_cublaslt_slices s = {1, n, 0};
    if (most <= 1)
        return s;
    for (s.count = most; s.count > most / 2; s.count--) {
        s.rows = n / s.count;
        if (s.rows * s.count == n)
            return s;
    }
    s.rows = sr_blocks_for(sr_blocks_for(n, most), UNIT) * UNIT;
    s.count = n / s.rows;
    s.rest = n % s.rows;
    return s;
}

// ---- Adding them up ----

typedef sr_sums<RESULTS> vector;

// Results from i on of a slice of this block's lane, or of the rest behind all slices.
static __device__ __forceinline__ vector load(const sr_cublaslt_fold_args &a, int64_t slice,
                                              int64_t i) {
    vector sum;
    const float *const of_lane = a.sums + blockIdx.y * a.slices * a.results;
    sr_load_vector<sr_f32>(slice < a.slices ? of_lane + slice * a.results : a.rest, i, a.results,
                           sum.at);
    return sum;
}

// The tree of the slices begin .. end - 1, of which there is one at least.
static __device__ __forceinline__ vector add_slices(const sr_cublaslt_fold_args &a, int64_t begin,
                                                    int64_t end, int64_t i) {
    sr_tree<LEVELS, vector> tree;
    const auto batch = [&](int64_t first) {
        return sr_merge_batch<vector>(
            first, 1, end, [&](int64_t slice) { return load(a, slice, i); }, sr_plain_sum());
    };
    for (; begin + SR_CUDA_BATCH < end; begin += SR_CUDA_BATCH)
        tree.push(batch(begin));
    return tree.total(batch(begin));
}

// Each row of threads has a.first slices, a power of two, so that its sum is one of the tree.
SR_CUDA_KERNEL(cublaslt_fold, sr_cublaslt_fold_args, THREADS, 1) {
    vector *const shared = (vector *)(void *)sr_cuda_shared;
    const int column = (int)threadIdx.x % a.columns, row = (int)threadIdx.x / a.columns;
    const int64_t i = ((int64_t)blockIdx.x * a.columns + column) * RESULTS;
    const int64_t slices = a.slices + (a.rest ? 1 : 0), begin = (int64_t)row * a.first;
    const int64_t left = slices - begin;
    if (i < a.results && left > 0)
        shared[threadIdx.x] = add_slices(a, begin, begin + (left < a.first ? left : a.first), i);
    __syncthreads();
    if (i >= a.results || row > 0)
        return;
    const vector total = sr_merge_batch<vector>(
        0, 1, (slices + a.first - 1) / a.first,
        [&](int64_t of_row) { return shared[of_row * a.columns + column]; }, sr_plain_sum());
    sr_store_vector<sr_f32>(a.out + blockIdx.y * a.results, i, a.results, total.at);
}

// As few rows as have SR_CUDA_BATCH slices each, so that all slices of a thread are loaded
// together; beyond MOST_ROWS, more slices.
sr_status sr_cublaslt_fold(sr_cublaslt_fold_args *arguments, int lanes, void *stream) {
    const int64_t slices = arguments->slices + (arguments->rest ? 1 : 0);
    int rows = 1, first = SR_CUDA_BATCH;
    while (rows < MOST_ROWS && (int64_t)rows * first < slices)
        rows *= 2;
    while ((int64_t)rows * first < slices)
        first *= 2;
    arguments->first = first;
    arguments->columns = THREADS / rows;
    const int64_t blocks = sr_blocks_for(arguments->results, RESULTS * arguments->columns);
    const sr_cuda_part part = {&cublaslt_fold_kernel,
                               {(uint32_t)blocks, (uint32_t)lanes, 1},
                               {THREADS, 1, 1},
                               THREADS * sizeof(vector)};
    return sr_cuda_launch_part(&part, arguments, stream);
}
