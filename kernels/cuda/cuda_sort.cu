// SPDX-License-Identifier: Apache-2.0
// Sorting of rows: kernels/cpu/reference/reference_sort.c. The order is total, as indices decide
// between equal numbers, so any algorithm gives the same result.
//
// A block sorts TILE elements in shared memory by a bitonic network (Batcher 1968). Of longer rows,
// the place of an element is its place in its tile plus the numbers of elements of the other tiles
// that are before it, which are searched in their sorted tiles.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/sort_key.h"

enum { TILE = 2048, MOST_THREADS = 256, LEAST_THREADS = 32 };

struct sort_args {
    const void *x;
    void *y;
    int32_t *index;
    uint64_t *sorted; // [rows][tiles][TILE] where there are several tiles
    sr_sort_params p;
    int64_t tiles;
    int32_t width, reserved; // elements that a block sorts: a power of two
};

// A number's key and index in one integer, which no other element has; UINT64_MAX beyond the row.
template <class T> static __device__ uint64_t rank_of(const sort_args &a, int64_t row, int64_t i) {
    if (i >= a.p.n)
        return UINT64_MAX;
    const float value = sr_load<T>(a.x, row * a.p.n + i);
    return (uint64_t)sr_sort_key_f32(value, a.p.ascending) << 32 | (uint32_t)i;
}

template <class T>
static __device__ void store_place(const sort_args &a, int64_t row, int64_t place, uint64_t rank) {
    const uint32_t i = (uint32_t)rank;
    sr_store<T>(a.y, row * a.p.k + place, sr_load<T>(a.x, row * a.p.n + i));
    a.index[row * a.p.k + place] = (int32_t)i;
}

// Sorts ranks[width]: runs of 2, 4, ... elements, up and down in turn, are merged.
static __device__ void sort_block(uint64_t *ranks, unsigned width) {
    for (unsigned run = 2; run <= width; run *= 2) {
        for (unsigned distance = run / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (unsigned pair = threadIdx.x; pair < width / 2; pair += blockDim.x) {
                const unsigned low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                const uint64_t a = ranks[low], b = ranks[high];
                if ((a > b) == ((low & run) == 0)) {
                    ranks[low] = b;
                    ranks[high] = a;
                }
            }
        }
    }
    __syncthreads();
}

template <class T> static __device__ void cuda_sort_rows(const sort_args &a) {
    uint64_t *ranks = (uint64_t *)(void *)sr_cuda_shared;
    const int64_t row = sr_divide(blockIdx.x, a.tiles), tile = blockIdx.x - row * a.tiles;
    const int64_t first = tile * a.width;
    for (int i = (int)threadIdx.x; i < a.width; i += (int)blockDim.x)
        ranks[i] = rank_of<T>(a, row, first + i);
    sort_block(ranks, (unsigned)a.width);
    for (int i = (int)threadIdx.x; i < a.width; i += (int)blockDim.x) {
        if (a.tiles > 1)
            a.sorted[(int64_t)blockIdx.x * TILE + i] = ranks[i];
        else if (i < a.p.k)
            store_place<T>(a, row, i, ranks[i]);
    }
}
SR_CUDA_TYPED(cuda_sort_rows, sort_args, 256, 1)

// The number of elements of a sorted tile that are before this one.
static __device__ int64_t count_before(const uint64_t *tile, uint64_t rank) {
    int low = 0, high = TILE;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (tile[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// A thread has an element of a tile.
template <class T> static __device__ void cuda_sort_merge(const sort_args &a) {
    const int64_t i = sr_thread(), block = i / TILE;
    const int64_t row = sr_divide(block, a.tiles), own = block - row * a.tiles;
    if (row >= a.p.rows)
        return;
    const uint64_t *tiles = a.sorted + row * a.tiles * TILE;
    const uint64_t rank = a.sorted[i];
    int64_t place = i - block * TILE;
    if (rank == UINT64_MAX)
        return;
    for (int64_t tile = 0; tile < a.tiles && place < a.p.k; tile++)
        if (tile != own)
            place += count_before(tiles + tile * TILE, rank);
    if (place < a.p.k)
        store_place<T>(a, row, place, rank);
}
SR_CUDA_TYPED(cuda_sort_merge, sort_args, 256, 0)

sr_status sr_cuda_prepare_sort_rows(const sr_kernel_request *request, sr_prepared *out) {
    sort_args a = {};
    a.p = *sr_cuda_params<sr_sort_params>(request);
    a.tiles = sr_blocks_for(a.p.n, TILE);
    a.width = 2;
    while (a.width < a.p.n && a.width < TILE)
        a.width *= 2;
    int threads = a.width / 2 < LEAST_THREADS ? LEAST_THREADS : a.width / 2;
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    sr_cuda_making making(request, a, out);
    making.add(cuda_sort_rows_kernels[request->dtype[0]], a.p.rows * a.tiles, threads,
               (size_t)a.width * sizeof(uint64_t));
    if (a.tiles > 1) {
        making.add_elements(cuda_sort_merge_kernels[request->dtype[0]], a.p.rows * a.tiles * TILE);
        out->workspace = (size_t)(a.p.rows * a.tiles * TILE) * sizeof(uint64_t);
    }
    return making.done();
}
