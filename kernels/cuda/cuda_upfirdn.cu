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

template <class T, int N, int LEVELS> static __device__ void filter_pixel(const upfirdn_args &a) {
    const sr_upfirdn_params &p = a.p;
    const int64_t i = sr_thread(), vectors = p.c / N;
    if (i >= p.n * p.p * p.q * vectors)
        return;
    const sr_place at = sr_place_of(i, p.p, p.q, vectors);
    const sr_upfirdn_span rows =
        sr_upfirdn_span_of((int64_t)at.h * p.down_h - p.pad_top, p.r, p.up_h, p.h);
    const sr_upfirdn_span columns =
        sr_upfirdn_span_of((int64_t)at.w * p.down_w - p.pad_left, p.s, p.up_w, p.w);
    sr_term_sums<N, LEVELS> sums;
    for (int64_t h = 0; h < rows.count; h++) {
        const int64_t row = (at.n * p.h + rows.first + h) * p.w + columns.first;
        sr_term_sums<N, LEVELS> line;
        for (int64_t w = 0; w < columns.count; w++) {
            const float tap =
                a.filter[sr_upfirdn_tap(&p, rows.tap + h * p.up_h, columns.tap + w * p.up_w)];
            float x[N];
            sr_load_vector<T>(a.x, (row + w) * p.c + at.c * N, x);
            sr_add_weighted(line.next(), tap, x);
        }
        sr_add_weighted(sums.next(), 1.0f, line.total().at);
    }
    sr_store_vector<T>(a.y, i * N, sums.total().at);
}

template <class T> static __device__ void cuda_upfirdn2d(const upfirdn_args &a) {
    if (a.lanes == 1)
        filter_pixel<T, 1, 0>(a);
    else
        filter_pixel<T, sr_lanes<T>, 0>(a);
}
SR_CUDA_TYPED(cuda_upfirdn2d, upfirdn_args, 256, 0)

// Of filters with longer sides than SR_REFERENCE_TERMS.
template <class T> static __device__ void cuda_upfirdn2d_tree(const upfirdn_args &a) {
    if (a.lanes == 1)
        filter_pixel<T, 1, SR_LONG_LEVELS>(a);
    else
        filter_pixel<T, sr_lanes<T>, SR_SHORT_LEVELS>(a);
}
SR_CUDA_TYPED(cuda_upfirdn2d_tree, upfirdn_args, 256, 0)

sr_status sr_cuda_prepare_upfirdn2d(const sr_kernel_request *request, sr_prepared *out) {
    upfirdn_args a = {};
    a.p = *sr_cuda_params<sr_upfirdn_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t lanes = sr_cuda_lanes(dtype), rows = sr_upfirdn_most(a.p.r, a.p.up_h, a.p.h);
    const int64_t columns = sr_upfirdn_most(a.p.s, a.p.up_w, a.p.w);
    const int64_t terms = rows > columns ? rows : columns;
    a.lanes = a.p.c % lanes == 0 && sr_fits_vectors(terms) ? lanes : 1;
    return sr_cuda_elementwise(
        request, a,
        (sr_needs_tree(terms) ? cuda_upfirdn2d_tree_kernels : cuda_upfirdn2d_kernels)[dtype],
        a.p.n * a.p.p * a.p.q * (a.p.c / a.lanes), out);
}
