// SPDX-License-Identifier: Apache-2.0
// channel_sum in numerics class "tensor": gradients of bias. x is read once, 16 bytes at a time,
// for all lanes that lie side by side.
//
// The shape of a lane alone cuts its rows into units and its columns into slabs. A block has a slab
// of a unit: 'wide' neighbouring threads have a vector of 16 bytes each, or one channel where rows
// are no whole vectors, and each adds 'turns' rows of the unit, one after the other. Threads are
// joined by a tree, and units by a function of its own, by the binary tree (sr_sum_lanes). So lanes
// side by side have the sums that each has alone. A term is in at most MOST_TURNS + 8 additions,
// and those of the tree of units.
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/kernel_params.h"

enum {
    THREADS = 256,
    THREAD_BITS = 8, // THREADS = 2^8
    MOST_WIDE_BITS = 5,
    BATCH = 4,       // rows whose loads are under way together
    MOST_TURNS = 32, // rows of a thread in a unit; a power of two times BATCH
    ENOUGH_UNITS = 64
};

struct tensor_sum_args {
    const void *x;
    float *s, *units;                                          // units: [lanes][units][channels]
    int64_t rows;                                              // of a lane
    int32_t lanes, channels, vectors, wide_bits, turns, count; // count: units of a lane
};

template <class T, int N> static __device__ void sum_unit(const tensor_sum_args &a) {
    typedef typename T::type element;
    const int wide = 1 << a.wide_bits, high = THREADS >> a.wide_bits;
    const int vector = (int)blockIdx.y * wide + ((int)threadIdx.x & (wide - 1));
    const bool exists = vector < a.vectors;
    const element *const x =
        (const element *)a.x + (int64_t)blockIdx.z * a.rows * a.channels + (int64_t)vector * N;
    int64_t row = (int64_t)blockIdx.x * a.turns * high + ((int)threadIdx.x >> a.wide_bits);
    float sum[N] = {};
    for (int turn = 0; turn < a.turns; turn += BATCH) {
        sr_packed<element, N> batch[BATCH];
        SR_UNROLL
        for (int i = 0; i < BATCH; i++, row += high)
            batch[i].load(x + row * a.channels, exists && row < a.rows, true);
        SR_UNROLL
        for (int i = 0; i < BATCH; i++) {
            SR_UNROLL
            for (int k = 0; k < N; k++)
                sum[k] += sr_element<T, N>(batch[i], k);
        }
    }
    float *const shared = (float *)(void *)sr_cuda_shared; // [N][THREADS / 2]
    const int thread = (int)threadIdx.x;
    for (int step = THREADS / 2; step >= wide; step /= 2) {
        SR_UNROLL
        for (int k = 0; k < N; k++)
            if (thread >= step && thread < 2 * step)
                shared[k * (THREADS / 2) + thread - step] = sum[k];
        __syncthreads();
        SR_UNROLL
        for (int k = 0; k < N; k++)
            if (thread < step)
                sum[k] += shared[k * (THREADS / 2) + thread];
        __syncthreads();
    }
    if (thread < wide && exists)
        sr_put(a.units + ((int64_t)blockIdx.z * a.count + blockIdx.x) * a.channels + vector * N,
               sum);
}

template <class T> static __device__ void tensor_channel_sum(const tensor_sum_args &a) {
    sum_unit<T, sr_lanes<T>>(a);
}
SR_CUDA_TYPED(tensor_channel_sum, tensor_sum_args, THREADS, 1)

template <class T> static __device__ void tensor_channel_sum_narrow(const tensor_sum_args &a) {
    sum_unit<T, 1>(a);
}
SR_CUDA_TYPED(tensor_channel_sum_narrow, tensor_sum_args, THREADS, 1)

SR_CUDA_KERNEL(tensor_channel_sum_units, tensor_sum_args, SR_CUDA_COLUMN, 1) {
    sr_sum_lanes(a.lanes, a.count, a.units, a.channels,
                 [&](int64_t lane, int64_t i) { return a.s + lane * a.channels + i; });
}

// As many threads side by side as leave fewest of them without a vector, and of these the most.
static int wide_bits_for(int32_t vectors) {
    int best = 0;
    int64_t least = INT64_MAX;
    for (int bits = 0; bits <= MOST_WIDE_BITS; bits++) {
        const int64_t used = sr_blocks_for(vectors, INT64_C(1) << bits) << bits;
        if (used <= least) {
            least = used;
            best = bits;
        }
        if (INT64_C(1) << bits >= vectors)
            break;
    }
    return best;
}

static int turns_for(int64_t rows, int high) {
    int turns = BATCH;
    while (turns < MOST_TURNS && sr_blocks_for(rows, turns * high) > ENOUGH_UNITS)
        turns *= 2;
    return turns;
}

sr_status sr_tensor_prepare_channel_sum(const sr_kernel_request *request, sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t vector = sr_cuda_lanes(dtype), lanes = request->lanes > 0 ? request->lanes : 1;
    const bool whole = p->channels % vector == 0;
    tensor_sum_args a = {};
    a.lanes = (int32_t)lanes;
    a.rows = p->rows / lanes;
    a.channels = (int32_t)p->channels;
    a.vectors = (int32_t)(whole ? p->channels / vector : p->channels);
    a.wide_bits = wide_bits_for(a.vectors);
    const int high = THREADS >> a.wide_bits;
    a.turns = turns_for(a.rows, high);
    a.count = (int32_t)sr_blocks_for(a.rows, a.turns * high);
    sr_cuda_making making(request, a, out);
    making.add_grid(whole ? tensor_channel_sum_kernels[dtype]
                          : tensor_channel_sum_narrow_kernels[dtype],
                    a.count, sr_blocks_for(a.vectors, 1 << a.wide_bits), lanes, THREADS, 1,
                    (size_t)(whole ? vector : 1) * (THREADS / 2) * sizeof(float));
    making.add_columns(&tensor_channel_sum_units_kernel, lanes * p->channels, a.count);
    out->workspace = (size_t)(lanes * a.count * p->channels) * sizeof(float);
    return making.done();
}
