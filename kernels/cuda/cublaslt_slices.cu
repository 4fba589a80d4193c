// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cublaslt_slices.h"

#include "kernels/cuda/cuda_sum.h"

enum { THREADS = 256, MOST_ROWS = SR_CUDA_BATCH }; // of a block
// A thread adds at most SR_CUDA_BATCH << LEVELS slices: the rows of a block have 256.
enum { LEVELS = 2 };
static_assert(SR_SLICE_TILES + 1 <= MOST_ROWS * SR_CUDA_BATCH << LEVELS, "slices and a rest");

// ---- Adding them up ----

// Results from i on of a slice of this block's lane, or of the rest behind all slices.
template <int N>
static __device__ __forceinline__ sr_sums<N> load(const sr_cublaslt_fold_args &a, int64_t slice,
                                                  int64_t i) {
    sr_sums<N> sum;
    const float *const of_lane = a.sums + blockIdx.y * a.slices * a.results;
    sr_load_vector<sr_f32>(slice < a.slices ? of_lane + slice * a.results : a.rest, i, sum.at);
    return sum;
}

// The tree of the slices begin .. end - 1, of which there is one at least.
template <int N>
static __device__ __forceinline__ sr_sums<N> add_slices(const sr_cublaslt_fold_args &a,
                                                        int64_t begin, int64_t end, int64_t i) {
    sr_tree<LEVELS, sr_sums<N>> tree;
    const auto batch = [&](int64_t first) {
        return sr_merge_batch<sr_sums<N>>(
            first, 1, end, [&](int64_t slice) { return load<N>(a, slice, i); }, sr_plain_sum());
    };
    for (; begin + SR_CUDA_BATCH < end; begin += SR_CUDA_BATCH)
        tree.push(batch(begin));
    return tree.total(batch(begin));
}

// A thread has N results. Each row of threads has a.first slices, a power of two, so that its sum
// is one of the tree.
template <int N> static __device__ __forceinline__ void fold(const sr_cublaslt_fold_args &a) {
    sr_sums<N> *const shared = (sr_sums<N> *)(void *)sr_cuda_shared;
    const int column = (int)threadIdx.x % a.columns, row = (int)threadIdx.x / a.columns;
    const int64_t i = ((int64_t)blockIdx.x * a.columns + column) * N;
    const int64_t slices = a.slices + (a.rest ? 1 : 0), begin = (int64_t)row * a.first;
    const int64_t left = slices - begin;
    if (i < a.results && left > 0)
        shared[threadIdx.x] = add_slices<N>(a, begin, begin + (left < a.first ? left : a.first), i);
    __syncthreads();
    if (i >= a.results || row > 0)
        return;
    const sr_sums<N> total = sr_merge_batch<sr_sums<N>>(
        0, 1, (slices + a.first - 1) / a.first,
        [&](int64_t of_row) { return shared[of_row * a.columns + column]; }, sr_plain_sum());
    sr_store_vector<sr_f32>(a.out + blockIdx.y * a.results, i, total.at);
}

// Sums of slices are aligned to 16 bytes where that divides their size.
SR_CUDA_KERNEL(cublaslt_fold_vectors, sr_cublaslt_fold_args, THREADS, 1) {
    fold<sr_lanes<sr_f32>>(a);
}
SR_CUDA_KERNEL(cublaslt_fold_elements, sr_cublaslt_fold_args, THREADS, 1) {
    fold<1>(a);
}

// As few rows as have SR_CUDA_BATCH slices each, so that all slices of a thread are loaded
// together; beyond MOST_ROWS, more slices.
sr_status sr_cublaslt_fold(sr_cublaslt_fold_args *arguments, int lanes, void *stream) {
    const int64_t slices = arguments->slices + (arguments->rest ? 1 : 0);
    const bool vectors = arguments->results % sr_lanes<sr_f32> == 0;
    const int results = vectors ? sr_lanes<sr_f32> : 1;
    int rows = 1, first = SR_CUDA_BATCH;
    while (rows < MOST_ROWS && (int64_t)rows * first < slices)
        rows *= 2;
    while ((int64_t)rows * first < slices)
        first *= 2;
    arguments->first = first;
    arguments->columns = THREADS / rows;
    const int64_t blocks = sr_blocks_for(arguments->results, results * arguments->columns);
    const sr_cuda_part part = {vectors ? &cublaslt_fold_vectors_kernel
                                       : &cublaslt_fold_elements_kernel,
                               {(uint32_t)blocks, (uint32_t)lanes, 1},
                               {THREADS, 1, 1},
                               THREADS * results * sizeof(float)};
    return sr_cuda_launch_part(&part, arguments, stream);
}
