// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_filter.h"

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_kernel.h"

enum { THREADS = 256 };

// The element of OIHW that is element i of KRSC.
static __device__ int64_t element_of(const sr_cudnn_filter_args &a, int64_t i) {
    const int64_t row = sr_divide(i, a.channels), k = sr_divide(row, a.taps);
    return (k * a.channels + (i - row * a.channels)) * a.taps + (row - k * a.taps);
}

template <class T> static __device__ void cudnn_filter_pack(const sr_cudnn_filter_args &a) {
    const int64_t i = sr_thread();
    if (i < a.count)
        sr_store<T>(a.to, i, ((const float *)a.from)[element_of(a, i)]);
}
SR_CUDA_TYPED(cudnn_filter_pack, sr_cudnn_filter_args, 256, 0)

template <class T> static __device__ void cudnn_filter_unpack(const sr_cudnn_filter_args &a) {
    const int64_t i = sr_thread();
    if (i < a.count)
        ((float *)a.to)[element_of(a, i)] = sr_load<T>(a.from, i);
}
SR_CUDA_TYPED(cudnn_filter_unpack, sr_cudnn_filter_args, 256, 0)

template <class T> static __device__ void cudnn_add_bias(const sr_cudnn_filter_args &a) {
    const int64_t i = sr_thread(), pixel = sr_divide(i, a.channels);
    if (i < a.count)
        sr_store<T>(a.to, i, sr_load<T>(a.to, i) + ((const float *)a.from)[i - pixel * a.channels]);
}
SR_CUDA_TYPED(cudnn_add_bias, sr_cudnn_filter_args, 256, 0)

static sr_status launch(const sr_cuda_kernel *kernel, sr_cudnn_filter_args *arguments,
                        void *stream) {
    const sr_cuda_part part = {
        kernel, {(uint32_t)sr_blocks_for(arguments->count, THREADS), 1, 1}, {THREADS, 1, 1}, 0};
    return sr_cuda_launch_part(&part, arguments, stream);
}

sr_status sr_cudnn_filter_pack(sr_dtype dtype, sr_cudnn_filter_args *arguments, void *stream) {
    return launch(cudnn_filter_pack_kernels[dtype], arguments, stream);
}

sr_status sr_cudnn_filter_unpack(sr_dtype dtype, sr_cudnn_filter_args *arguments, void *stream) {
    return launch(cudnn_filter_unpack_kernels[dtype], arguments, stream);
}

sr_status sr_cudnn_add_bias(sr_dtype dtype, sr_cudnn_filter_args *arguments, void *stream) {
    return launch(cudnn_add_bias_kernels[dtype], arguments, stream);
}
