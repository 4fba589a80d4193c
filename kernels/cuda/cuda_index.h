// SPDX-License-Identifier: Apache-2.0
// Places of elements in tensors.
#ifndef SR_KERNELS_CUDA_INDEX_H
#define SR_KERNELS_CUDA_INDEX_H

#include "kernels/cuda/cuda_kernel.h"

// i / n for i >= 0, n > 0: in 32 bits, which is several times faster, where they suffice.
static __device__ __forceinline__ int64_t sr_divide(int64_t i, int64_t n) {
    return (uint64_t)(i | n) >> 32 == 0 ? (int64_t)((uint32_t)i / (uint32_t)n) : i / n;
}

// Element i of a tensor [N,H,W,C].
struct sr_place {
    int64_t n, c;
    int h, w;
};

static __device__ __forceinline__ sr_place sr_place_of(int64_t i, int64_t height, int64_t width,
                                                       int64_t channels) {
    const int64_t pixel = sr_divide(i, channels), row = sr_divide(pixel, width);
    sr_place at;
    at.c = i - pixel * channels;
    at.w = (int)(pixel - row * width);
    at.n = sr_divide(row, height);
    at.h = (int)(row - at.n * height);
    return at;
}

#endif
