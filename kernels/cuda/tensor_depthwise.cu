// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions in numerics class "tensor", and their gradients with respect to the input:
// conv2d and conv2d_dx with as many groups as channels, filters of 3x3, 5x5 and 7x7 taps, and
// strides 1 and 2.
//
// A result is one chain of fused multiply-adds, over the taps inside of the picture by row and
// column, beginning with 0; for dx in reverse order. The bias is added to it, and it is rounded
// once. So it depends neither on how pictures are cut nor on the number of samples. Taps in the
// padding are left out: infinite weights do not count there.
//
// A thread holds its filter and the sums of a strip's slots in registers, of 7x7 taps nearly all
// that it can have, which leaves eight warps to a multiprocessor. These suffice, as a row of a
// strip has hundreds of independent multiply-adds, and the next row is loaded meanwhile. For 3x3
// and 5x5 the limit is memory, for 7x7 the rate of multiply-adds: 49 for each 4 bytes of bf16. To
// load and convert a row of 13 columns, and to round and store one of 7, takes a third as many
// instructions as its 686 multiply-adds; sums move on to the next slot without any, as their first
// tap is
//     sum[slot] = fma(x, w, sum[slot + 1]).
// Neighbouring strips, and the rows above them, are read again from the first-level cache.
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/tensor_depthwise.h"

struct tensor_depthwise_args {
    const void *source; // x
    const float *w, *bias;
    void *result; // y
    void *workspace;
    depthwise_cut cut;

    __device__ float bias_of(int channel) const { return bias ? bias[channel] : 0.0f; }
    static __device__ float with_bias(float v, float channel_bias) { return v + channel_bias; }
};

struct tensor_depthwise_dx_args {
    const void *source; // dy
    const float *w;
    void *result; // dx
    void *workspace;
    depthwise_cut cut;

    __device__ float bias_of(int) const { return 0.0f; }
    static __device__ float with_bias(float v, float) { return v; }
};

// Sums of a row of the result.
template <int N, class F> struct depthwise_sums { float column[F::COLUMNS][N]; };

// What a thread writes of a strip.
template <class T, int N, class F, class A> struct depthwise_result {
    typedef typename T::type element;
    element *top; // in row 0
    uint32_t inside;
    int first, last; // rows
    float bias[N];

    __device__ __forceinline__ depthwise_result(const A &a, const depthwise_strip &at, int channel)
        : inside(columns_inside(at.result_column, F::COLUMNS, a.cut.result_w)), first(at.first),
          last(at.last) {
        const depthwise_cut &s = a.cut;
        top = (element *)a.result +
              depthwise_place(s, at.image * s.result_h, s.result_w, at.result_column, channel);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            bias[k] = a.bias_of(channel + k);
    }

    // Stores a row, if it is one of the strip.
    __device__ __forceinline__ void store(const depthwise_cut &s, int row,
                                          const depthwise_sums<N, F> &sums) const {
        if (row < first || row >= last)
            return;
        element *to = top + (int64_t)(row * s.result_w) * s.channels;
        SR_UNROLL
        for (int t = 0; t < F::COLUMNS; t++, to += s.channels) {
            if (!(inside >> t & 1))
                continue;
            float v[N];
            sr_packed<element, N> packed;
            SR_UNROLL
            for (int k = 0; k < N; k++)
                v[k] = A::with_bias(sums.column[t][k], bias[k]);
            sr_pack<T>(packed, v);
            packed.store(to, false);
        }
    }

    // Stores the rows before 'begin' and from 'end' on, which meet no row of the source.
    __device__ __forceinline__ void store_others(const depthwise_cut &s, int begin, int end) const {
        for (int row = first; row < last; row++)
            if (row < begin || row >= end)
                store(s, row, {});
    }
};

// What a slot has before the first product of a step.
template <int N, class F>
static __device__ __forceinline__ float moved(const depthwise_sums<N, F> (&sum)[F::SLOTS], int slot,
                                              int column, int k) {
    const int from = slot + F::ROWS_OUT;
    return from < F::SLOTS ? sum[from < F::SLOTS ? from : 0].column[column][k] : 0.0f;
}

// Adds the products of a column of the source, in all slots; 'row' is that of the step.
template <class T, int N, class F>
static __device__ __forceinline__ void
add_column(int row, int c, const sr_packed<typename T::type, N> &pixel,
           const float (&w)[F::TAPS][N], depthwise_sums<N, F> (&sum)[F::SLOTS]) {
    float x[N];
    sr_unpack<T>(pixel, x);
    SR_UNROLL
    for (int j = 0; j < F::SLOTS; j++) {
        const int r = F::row_tap(row, j);
        SR_UNROLL
        for (int t = 0; t < F::COLUMNS; t++) {
            const int s = F::column_tap(c, t);
            if (r >= F::FILTER || s < 0 || s >= F::FILTER)
                continue;
            const bool moves = row == 0 && F::is_first(s);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                sum[j].column[t][k] =
                    __fmaf_rn(x[k], w[r * F::FILTER + s][k],
                              moves ? moved<N, F>(sum, j, t, k) : sum[j].column[t][k]);
        }
    }
}

// The same of a column outside of the picture: sums move on.
template <int N, class F>
static __device__ __forceinline__ void pass_column(int row, int c,
                                                   depthwise_sums<N, F> (&sum)[F::SLOTS]) {
    SR_UNROLL
    for (int t = 0; t < F::COLUMNS; t++) {
        const int s = F::column_tap(c, t);
        if (row > 0 || s < 0 || s >= F::FILTER || !F::is_first(s))
            continue;
        SR_UNROLL
        for (int j = 0; j < F::SLOTS; j++) {
            SR_UNROLL
            for (int k = 0; k < N; k++)
                sum[j].column[t][k] = moved<N, F>(sum, j, t, k);
        }
    }
}

template <class T, int N, class F, class A>
static __device__ __forceinline__ void convolve_strip(const A &a, const depthwise_strip &at,
                                                      int channel, const float (&w)[F::TAPS][N]) {
    const depthwise_cut &s = a.cut;
    const depthwise_result<T, N, F, A> result(a, at, channel);
    depthwise_source<T, N, F> source(s, a.source, at, channel);
    depthwise_sums<N, F> sum[F::SLOTS] = {};
    for (int m = at.begin; m < at.end; m++) {
        SR_UNROLL
        for (int row = 0; row < F::ROWS_IN; row++) {
            const int h = m * F::ROWS_IN + s.source_row + row;
            const uint32_t inside = F::ROWS_IN == 1 ? source.inside : source.inside_of(h);
            const depthwise_row<T, N, F::SOURCES> now = source.take(s, h);
            SR_UNROLL
            for (int c = 0; c < F::SOURCES; c++) {
                if (inside >> c & 1)
                    add_column<T, N, F>(row, c, now.pixel[c], w, sum);
                else
                    pass_column<N, F>(row, c, sum);
            }
        }
        SR_UNROLL
        for (int j = 0; j < F::ROWS_OUT; j++)
            result.store(s, m * F::ROWS_OUT + s.result_row + j, sum[j]);
    }
    const int end = at.end * F::ROWS_OUT + s.result_row;
    if (at.begin < at.end) {
        SR_UNROLL
        for (int j = F::ROWS_OUT; j < F::SLOTS; j++)
            result.store(s, end - F::ROWS_OUT + j, sum[j]);
        result.store_others(s, at.begin * F::ROWS_OUT + s.result_row, end - F::ROWS_OUT + F::SLOTS);
    } else {
        result.store_others(s, at.last, at.last);
    }
}

// The filters of a thread, by way of shared memory. All threads of the block take part.
template <class T, int N, int TAPS>
static __device__ __forceinline__ void get_filters(const depthwise_cut &s, const float *all,
                                                   int slab, float (&w)[TAPS][N]) {
    float *const shared = (float *)(void *)sr_cuda_shared;
    const int pitch = N * (s.wide | 1), x = depthwise_x(s) * N;
    const int first = slab * s.wide * N, channels = min(s.wide * N, s.channels - first);
    __syncthreads(); // those of another slab have been read
    for (int i = (int)threadIdx.x; i < channels * TAPS; i += DEPTHWISE_THREADS) {
        const int c = i / TAPS;
        shared[(i - c * TAPS) * pitch + c] = T::rounded(all[(int64_t)first * TAPS + i]);
    }
    __syncthreads();
    if (x < channels) {
        SR_UNROLL
        for (int i = 0; i < TAPS; i++)
            sr_get(shared + i * pitch + x, w[i]);
    }
}

// Blocks of neighbouring slabs follow each other, so that they read the same lines of memory.
template <class T, int N, class F, class A>
static __device__ __forceinline__ void convolve(const A &a) {
    const depthwise_cut &s = a.cut;
    const int group = (int)(blockIdx.z * gridDim.y + blockIdx.y);
    for (int slab = (int)blockIdx.x; slab < s.slabs; slab += (int)gridDim.x) {
        const int channel = (slab * s.wide + depthwise_x(s)) * N, y = depthwise_y(s);
        float w[F::TAPS][N] = {};
        get_filters<T>(s, a.w, slab, w);
        if (y < s.high && group * s.high + y < s.strips && channel < s.channels)
            convolve_strip<T, N, F>(a, strip_at<F>(s, group * s.high + y), channel, w);
    }
}

// ---- Functions and plans ----

#define CONVOLUTION(name, args, way, K, S)                                                         \
    typedef way<K, S> name##_way;                                                                  \
    DEPTHWISE_KERNELS(name, args, name##_way, convolve)

CONVOLUTION(tensor_depthwise_3, tensor_depthwise_args, depthwise_gather, 3, 1)
CONVOLUTION(tensor_depthwise_5, tensor_depthwise_args, depthwise_gather, 5, 1)
CONVOLUTION(tensor_depthwise_7, tensor_depthwise_args, depthwise_gather, 7, 1)
CONVOLUTION(tensor_depthwise_3_stride2, tensor_depthwise_args, depthwise_gather, 3, 2)
CONVOLUTION(tensor_depthwise_5_stride2, tensor_depthwise_args, depthwise_gather, 5, 2)
CONVOLUTION(tensor_depthwise_7_stride2, tensor_depthwise_args, depthwise_gather, 7, 2)
CONVOLUTION(tensor_depthwise_dx_3, tensor_depthwise_dx_args, depthwise_spread, 3, 1)
CONVOLUTION(tensor_depthwise_dx_5, tensor_depthwise_dx_args, depthwise_spread, 5, 1)
CONVOLUTION(tensor_depthwise_dx_7, tensor_depthwise_dx_args, depthwise_spread, 7, 1)
CONVOLUTION(tensor_depthwise_dx_3_stride2, tensor_depthwise_dx_args, depthwise_spread, 3, 2)
CONVOLUTION(tensor_depthwise_dx_5_stride2, tensor_depthwise_dx_args, depthwise_spread, 5, 2)
CONVOLUTION(tensor_depthwise_dx_7_stride2, tensor_depthwise_dx_args, depthwise_spread, 7, 2)

template <class A>
static sr_status prepare_convolution(const sr_kernel_request *request,
                                     const depthwise_functions (&all)[3][2], sr_prepared *out) {
    enum { MOST_Y = 1 << 15 }; // blocks of the second dimension
    const sr_conv_params *p = sr_cuda_params<sr_conv_params>(request);
    const depthwise_functions &functions = depthwise_of(all, request);
    A a = {};
    depthwise_cut &s = a.cut;
    int n;
    const sr_cuda_kernel *kernel = depthwise_function(functions, request, &n);
    s = functions.cut(p, p->n, n);
    const int groups = depthwise_groups(&s);
    sr_cuda_making making(request, a, out);
    making.add_grid(kernel, s.slabs, groups < MOST_Y ? groups : (int)MOST_Y,
                    divide_up(groups, MOST_Y), DEPTHWISE_THREADS, 1,
                    (size_t)(p->r * p->s * n * (s.wide | 1)) * sizeof(float));
    return making.done();
}

sr_status sr_tensor_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out) {
    static const depthwise_functions all[3][2] = {
        {tensor_depthwise_3_functions, tensor_depthwise_3_stride2_functions},
        {tensor_depthwise_5_functions, tensor_depthwise_5_stride2_functions},
        {tensor_depthwise_7_functions, tensor_depthwise_7_stride2_functions}};
    return prepare_convolution<tensor_depthwise_args>(request, all, out);
}

sr_status sr_tensor_prepare_conv2d_dx(const sr_kernel_request *request, sr_prepared *out) {
    static const depthwise_functions all[3][2] = {
        {tensor_depthwise_dx_3_functions, tensor_depthwise_dx_3_stride2_functions},
        {tensor_depthwise_dx_5_functions, tensor_depthwise_dx_5_stride2_functions},
        {tensor_depthwise_dx_7_functions, tensor_depthwise_dx_7_stride2_functions}};
    return prepare_convolution<tensor_depthwise_dx_args>(request, all, out);
}
