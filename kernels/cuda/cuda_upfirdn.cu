// SPDX-License-Identifier: Apache-2.0
// upfirdn2d: kernels/cpu/reference/reference_upfirdn.c. One thread has 16 bytes of neighbouring
// channels of a pixel of the output, or one channel.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/upfirdn.h"

struct upfirdn_args {
    const void *x;
    const float *filter;
    void *y, *workspace;
    sr_upfirdn_params p;
    int64_t lanes; // channels of a thread: sr_lanes or 1
};

template <class T, int N> static __device__ void filter_pixel(const upfirdn_args &a) {
    const sr_upfirdn_params &p = a.p;
    const int64_t i = sr_thread(), vectors = p.c / N;
    if (i >= p.n * p.p * p.q * vectors)
        return;
    const sr_place at = sr_place_of(i, p.p, p.q, vectors);
    const sr_upfirdn_span rows =
        sr_upfirdn_span_of((int64_t)at.h * p.down_h - p.pad_top, p.r, p.up_h, p.h);
    const sr_upfirdn_span columns =
        sr_upfirdn_span_of((int64_t)at.w * p.down_w - p.pad_left, p.s, p.up_w, p.w);
    float sum[N] = {};
    for (int64_t h = 0; h < rows.count; h++) {
        const int64_t row = (at.n * p.h + rows.first + h) * p.w + columns.first;
        float line[N] = {};
        for (int64_t w = 0; w < columns.count; w++) {
            const float tap =
                a.filter[sr_upfirdn_tap(&p, rows.tap + h * p.up_h, columns.tap + w * p.up_w)];
            float x[N];
            sr_load_vector<T>(a.x, (row + w) * p.c + at.c * N, x);
            SR_UNROLL
            for (int c = 0; c < N; c++)
                line[c] += tap * x[c];
        }
        SR_UNROLL
        for (int c = 0; c < N; c++)
            sum[c] += line[c];
    }
    sr_store_vector<T>(a.y, i * N, sum);
}

template <class T> static __device__ void cuda_upfirdn2d(const upfirdn_args &a) {
    if (a.lanes == 1)
        filter_pixel<T, 1>(a);
    else
        filter_pixel<T, sr_lanes<T>>(a);
}
SR_CUDA_TYPED(cuda_upfirdn2d, upfirdn_args, 256, 0)

sr_status sr_cuda_prepare_upfirdn2d(const sr_kernel_request *request, sr_prepared *out) {
    upfirdn_args a = {};
    a.p = *sr_cuda_params<sr_upfirdn_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t lanes = sr_cuda_lanes(dtype);
    a.lanes = a.p.c % lanes == 0 ? lanes : 1;
    return sr_cuda_elementwise(request, a, cuda_upfirdn2d_kernels[dtype],
                               a.p.n * a.p.p * a.p.q * (a.p.c / a.lanes), out);
}
