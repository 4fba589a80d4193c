// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the stand-in for cuDNN: convolutions and their gradients by plain loops, with
// sums in float.
#include "kernels/cuda/cuda_kernel.h"
#include "tests/soft_gpu/soft_cudnn_conv.h"
#include "tests/soft_gpu/soft_tf32.h"

// The first index that belongs to a slice: (index + other) % slices == slice.
static __device__ int64_t first_of(const soft_conv_args &a, int64_t slice, int64_t other) {
    return ((slice - other) % a.slices + a.slices) % a.slices;
}

// Of a tap and an output position, the input position; may lie outside.
static __device__ int64_t input_at(const soft_conv_args &a, int axis, int64_t out, int64_t tap) {
    return out * a.stride[axis] - a.pad[axis] + tap * a.dilation[axis];
}

// The output position that reads an input position by a tap; -1 if none does.
static __device__ int64_t output_at(const soft_conv_args &a, int axis, int64_t in, int64_t tap,
                                    int64_t count) {
    const int64_t t = in + a.pad[axis] - tap * a.dilation[axis];
    return t >= 0 && t % a.stride[axis] == 0 && t / a.stride[axis] < count ? t / a.stride[axis]
                                                                           : -1;
}

// ---- Sums of a slice ----

template <class T>
static __device__ float forward(const soft_conv_args &a, int64_t i, int64_t slice) {
    const int64_t k = i % a.k, q = i / a.k % a.q, p = i / a.k / a.q % a.p, n = i / a.k / a.q / a.p;
    float sum = 0.0f;
    for (int64_t tap = 0; tap < a.r * a.s; tap++) {
        const int64_t r = tap / a.s, s = tap % a.s;
        const int64_t y = input_at(a, 0, p, r), x = input_at(a, 1, q, s);
        if (y < 0 || y >= a.h || x < 0 || x >= a.w)
            continue;
        const int64_t from = ((n * a.h + y) * a.w + x) * a.c, filter = (k * a.r * a.s + tap) * a.c;
        for (int64_t c = first_of(a, slice, tap); c < a.c; c += a.slices)
            sum += sr_load<T>(a.a, from + c) * sr_load<T>(a.b, filter + c);
    }
    return sum;
}

template <class T> static __device__ float data(const soft_conv_args &a, int64_t i, int64_t slice) {
    const int64_t c = i % a.c, x = i / a.c % a.w, y = i / a.c / a.w % a.h, n = i / a.c / a.w / a.h;
    float sum = 0.0f;
    for (int64_t tap = 0; tap < a.r * a.s; tap++) {
        const int64_t r = tap / a.s, s = tap % a.s;
        const int64_t p = output_at(a, 0, y, r, a.p), q = output_at(a, 1, x, s, a.q);
        if (p < 0 || q < 0)
            continue;
        const int64_t from = ((n * a.p + p) * a.q + q) * a.k;
        for (int64_t k = first_of(a, slice, tap); k < a.k; k += a.slices)
            sum += sr_load<T>(a.a, from + k) * sr_load<T>(a.b, (k * a.r * a.s + tap) * a.c + c);
    }
    return sum;
}

template <class T>
static __device__ float filter(const soft_conv_args &a, int64_t i, int64_t slice) {
    const int64_t c = i % a.c, tap = i / a.c % (a.r * a.s), k = i / a.c / (a.r * a.s);
    float sum = 0.0f;
    for (int64_t row = 0; row < a.n * a.p; row++) {
        const int64_t n = row / a.p, p = row % a.p;
        const int64_t y = input_at(a, 0, p, tap / a.s);
        if (y < 0 || y >= a.h)
            continue;
        for (int64_t q = first_of(a, slice, row); q < a.q; q += a.slices) {
            const int64_t x = input_at(a, 1, q, tap % a.s);
            if (x >= 0 && x < a.w)
                sum += sr_load<T>(a.a, ((n * a.h + y) * a.w + x) * a.c + c) *
                       sr_load<T>(a.b, (row * a.q + q) * a.k + k);
        }
    }
    return sum;
}

// ---- Kernels ----

// What follows the sums in the workspace becomes NaN, so that the whole of it is written.
template <class T, float SUM(const soft_conv_args &, int64_t, int64_t)>
static __device__ void slices(const soft_conv_args &a) {
    const int64_t i = sr_thread();
    if (i >= a.workspace_count)
        return;
    if (i >= a.count * a.slices) {
        a.workspace[i] = __uint_as_float(0xffffffffu);
        return;
    }
    const float sum = SUM(a, i % a.count, i / a.count);
    a.workspace[i] = a.rough ? T::rounded(sum) : sum;
}

// The number of slices is a prime where the order is drawn, so that each step reaches all of them.
template <class T> static __device__ void add(const soft_conv_args &a) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    const uint32_t drawn = a.any_order ? soft_cudnn_draw() : 0;
    const bool backwards = (a.backwards != 0) != (i >= a.turn);
    const int64_t step = a.any_order ? 1 + (drawn >> 8) % (a.slices - 1)
                         : backwards ? a.slices - 1
                                     : 1;
    int64_t slice = a.any_order ? drawn % a.slices : backwards ? a.slices - 1 : 0;
    float sum = 0.0f;
    for (int64_t n = 0; n < a.slices; n++) {
        sum += a.workspace[slice * a.count + i];
        if (a.rough)
            sum = T::rounded(sum);
        slice = (slice + step) % a.slices;
    }
    sr_store<T>(a.out, i, sum);
}

template <class T, float SUM(const soft_conv_args &, int64_t, int64_t)>
static __device__ void whole(const soft_conv_args &a) {
    const int64_t i = sr_thread();
    if (i < a.count)
        sr_store<T>(a.out, i, SUM(a, i, 0));
}

#define KERNELS(sum, type)                                                                         \
    SR_CUDA_KERNEL(soft_cudnn_##sum##_slices_##type, soft_conv_args, SOFT_CONV_THREADS, 0) {       \
        slices<sr_##type, sum<sr_##type>>(a);                                                      \
    }                                                                                              \
    SR_CUDA_KERNEL(soft_cudnn_##sum##_whole_##type, soft_conv_args, SOFT_CONV_THREADS, 0) {        \
        whole<sr_##type, sum<sr_##type>>(a);                                                       \
    }
KERNELS(forward, tf32)
KERNELS(forward, bf16)
KERNELS(forward, f16)
KERNELS(data, tf32)
KERNELS(data, bf16)
KERNELS(data, f16)
KERNELS(filter, tf32)
KERNELS(filter, bf16)
KERNELS(filter, f16)
#undef KERNELS

SR_CUDA_KERNEL(soft_cudnn_add_tf32, soft_conv_args, SOFT_CONV_THREADS, 0) {
    add<sr_tf32>(a);
}
SR_CUDA_KERNEL(soft_cudnn_add_bf16, soft_conv_args, SOFT_CONV_THREADS, 0) {
    add<sr_bf16>(a);
}
SR_CUDA_KERNEL(soft_cudnn_add_f16, soft_conv_args, SOFT_CONV_THREADS, 0) {
    add<sr_f16>(a);
}

#define STEPS(sum, type)                                                                           \
    {                                                                                              \
        &soft_cudnn_##sum##_slices_##type##_kernel, &soft_cudnn_add_##type##_kernel,               \
            &soft_cudnn_##sum##_whole_##type##_kernel                                              \
    }
const sr_cuda_kernel *soft_conv_kernel(soft_conv_kind kind, soft_conv_step step, sr_dtype dtype) {
    static const sr_cuda_kernel *const kernels[SOFT_CONV_KINDS][3][SOFT_CONV_STEPS] = {
        {STEPS(forward, tf32), STEPS(forward, bf16), STEPS(forward, f16)},
        {STEPS(data, tf32), STEPS(data, bf16), STEPS(data, f16)},
        {STEPS(filter, tf32), STEPS(filter, bf16), STEPS(filter, f16)}};
    return kernels[kind][dtype][step]; // in the order of sr_dtype
}
