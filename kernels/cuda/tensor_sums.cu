// SPDX-License-Identifier: Apache-2.0
// channel_sum and channel_dot in numerics class "tensor": gradients of bias and of scales. Inputs
// are read once, 16 bytes at a time, for all lanes that lie side by side.
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

// How a request is cut.
struct sum_cut {
    int64_t rows; // of a lane
    int32_t lanes, channels, vectors, wide_bits, turns;
    int32_t units; // of a lane
    int64_t step;  // from the sums of a lane to those of the next one
};

// Terms are the elements of the one input, or a (b - shift) of two.
template <class T, int N, int INPUTS>
static __device__ __forceinline__ void sum_unit(const sum_cut &c, const void *const (&x)[INPUTS],
                                                const float *shift, float *units) {
    typedef typename T::type element;
    const int wide = 1 << c.wide_bits, high = THREADS >> c.wide_bits;
    const int vector = (int)blockIdx.y * wide + ((int)threadIdx.x & (wide - 1));
    const bool exists = vector < c.vectors;
    const int64_t first = (int64_t)blockIdx.z * c.rows * c.channels + (int64_t)vector * N;
    int64_t row = (int64_t)blockIdx.x * c.turns * high + ((int)threadIdx.x >> c.wide_bits);
    float sum[N] = {}, less[N] = {};
    if (INPUTS > 1 && shift && exists)
        sr_get(shift + vector * N, less);
    SR_UNROLL_BY(1)
    for (int turn = 0; turn < c.turns; turn += BATCH) {
        sr_packed<element, N> batch[INPUTS][BATCH];
        SR_UNROLL
        for (int i = 0; i < BATCH; i++, row += high) {
            SR_UNROLL
            for (int n = 0; n < INPUTS; n++)
                batch[n][i].load((const element *)x[n] + first + row * c.channels,
                                 exists && row < c.rows, true);
        }
        SR_UNROLL
        for (int i = 0; i < BATCH; i++) {
            const bool is_row = INPUTS == 1 || row - (BATCH - i) * high < c.rows;
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                const float a = sr_element<T, N>(batch[0][i], k);
                const float b = sr_element<T, N>(batch[INPUTS - 1][i], k);
                sum[k] += INPUTS == 1 ? a : is_row ? a * (b - less[k]) : 0.0f;
            }
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
        sr_put(units + ((int64_t)blockIdx.z * c.units + blockIdx.x) * c.channels + vector * N, sum);
}

// s[lane][channel] = the sum of the lane's units.
template <class A> static __device__ void join_units(const A &a) {
    sr_sum_lanes(a.cut.lanes, a.cut.units, a.units, a.cut.channels,
                 [&](int64_t lane, int64_t i) { return a.s + lane * a.cut.step + i; });
}

struct tensor_sum_args {
    const void *x;
    float *s, *units; // units: [lanes][units][channels]
    sum_cut cut;
};

template <class T, int N> static __device__ void sum_rows(const tensor_sum_args &a) {
    const void *const x[] = {a.x};
    sum_unit<T, N, 1>(a.cut, x, NULL, a.units);
}

struct tensor_dot_args {
    const void *a, *b;
    const float *shift;
    float *s, *units;
    sum_cut cut;
};

template <class T, int N> static __device__ void sum_products(const tensor_dot_args &a) {
    const void *const x[] = {a.a, a.b};
    sum_unit<T, N, 2>(a.cut, x, a.shift, a.units);
}

#define SUM_KERNELS(name, args, sum)                                                               \
    template <class T> static __device__ void name(const args &a) {                                \
        sum<T, sr_lanes<T>>(a);                                                                    \
    }                                                                                              \
    template <class T> static __device__ void name##_narrow(const args &a) {                       \
        sum<T, 1>(a);                                                                              \
    }                                                                                              \
    SR_CUDA_TYPED_WITH(name, args, THREADS, 1, (THREADS, 4))                                       \
    SR_CUDA_TYPED(name##_narrow, args, THREADS, 1)                                                 \
    SR_CUDA_KERNEL(name##_units, args, SR_CUDA_COLUMN, 1) {                                        \
        join_units(a);                                                                             \
    }

SUM_KERNELS(tensor_channel_sum, tensor_sum_args, sum_rows)
SUM_KERNELS(tensor_channel_dot, tensor_dot_args, sum_products)

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

// The functions of a kernel: of whole vectors, of others, and what joins units.
struct sum_functions {
    const sr_cuda_kernel *const *whole, *const *narrow, *units;
};

template <class A>
static sr_status prepare(const sr_kernel_request *request, const sum_functions &functions,
                         sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t vector = sr_cuda_lanes(dtype), lanes = request->lanes > 0 ? request->lanes : 1;
    const bool whole = p->channels % vector == 0;
    A a = {};
    sum_cut *const c = &a.cut;
    c->lanes = (int32_t)lanes;
    c->rows = p->rows / lanes;
    c->channels = (int32_t)p->channels;
    c->vectors = (int32_t)(whole ? p->channels / vector : p->channels);
    c->wide_bits = wide_bits_for(c->vectors);
    const int high = THREADS >> c->wide_bits;
    c->turns = turns_for(c->rows, high);
    c->units = (int32_t)sr_blocks_for(c->rows, c->turns * high);
    c->step = sr_kernel_argument_count(request, request->args - 1) / lanes;
    sr_cuda_making making(request, a, out);
    making.add_grid(whole ? functions.whole[dtype] : functions.narrow[dtype], c->units,
                    sr_blocks_for(c->vectors, 1 << c->wide_bits), lanes, THREADS, 1,
                    (size_t)(whole ? vector : 1) * (THREADS / 2) * sizeof(float));
    making.add_columns(functions.units, lanes * p->channels, c->units);
    out->workspace = (size_t)(lanes * c->units * p->channels) * sizeof(float);
    return making.done();
}

sr_status sr_tensor_prepare_channel_sum(const sr_kernel_request *request, sr_prepared *out) {
    const sum_functions functions = {tensor_channel_sum_kernels, tensor_channel_sum_narrow_kernels,
                                     &tensor_channel_sum_units_kernel};
    return prepare<tensor_sum_args>(request, functions, out);
}

sr_status sr_tensor_prepare_channel_dot(const sr_kernel_request *request, sr_prepared *out) {
    const sum_functions functions = {tensor_channel_dot_kernels, tensor_channel_dot_narrow_kernels,
                                     &tensor_channel_dot_units_kernel};
    return prepare<tensor_dot_args>(request, functions, out);
}
