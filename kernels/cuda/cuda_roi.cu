// SPDX-License-Identifier: Apache-2.0
// roi_align and its gradient: kernels/cpu/reference/reference_roi.c. One thread has 16 bytes of
// neighbouring channels of a bin, or of a pixel of the gradient, or one channel. Boxes are prepared
// in the workspace first; a pixel of the gradient looks at all of them.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/roi.h"

struct roi_args {
    const void *x; // or dy
    const float *boxes;
    const int32_t *image;
    void *y;           // or dx
    sr_roi_box *ready; // each box; the workspace
    sr_roi_params p;
    int64_t lanes; // channels of a thread: sr_lanes or 1
};

static __device__ sr_roi_box box_of(const roi_args &a, int64_t r) {
    double box[4];
    for (int k = 0; k < 4; k++)
        box[k] = (double)a.boxes[4 * r + k];
    return sr_roi_box_of(&a.p, box, a.image[r]);
}

SR_CUDA_KERNEL(cuda_roi_boxes, roi_args, 256, 0) {
    const int64_t r = sr_thread();
    if (r < a.p.rois)
        a.ready[r] = box_of(a, r);
}

// ---- roi_align: x, boxes, image -> y ----

template <class T, int N, int LEVELS> static __device__ void align(const roi_args &a) {
    const sr_roi_params &p = a.p;
    const int64_t i = sr_thread(), vectors = p.c / N;
    if (i >= p.rois * p.p * p.q * vectors)
        return;
    const sr_place at = sr_place_of(i, p.p, p.q, vectors);
    const sr_roi_box &box = a.ready[at.n];
    const sr_roi_span rows = sr_roi_span_of(&box.high, at.h);
    const sr_roi_span columns = sr_roi_span_of(&box.wide, at.w);
    sr_term_sums<N, LEVELS> sums;
    for (int h = rows.first; box.valid && h <= rows.last; h++) {
        const float high = (float)sr_roi_weight(&box.high, at.h, h);
        if (high == 0)
            continue;
        const int64_t row = (box.image * p.h + h) * p.w;
        sr_term_sums<N, LEVELS> line;
        for (int w = columns.first; w <= columns.last; w++) {
            const float wide = (float)sr_roi_weight(&box.wide, at.w, w);
            if (wide == 0)
                continue;
            float x[N];
            sr_load_vector<T>(a.x, (row + w) * p.c + at.c * N, x);
            sr_add_weighted(line.next(), wide, x);
        }
        sr_add_weighted(sums.next(), high, line.total().at);
    }
    const float share = box.valid ? (float)box.share : 0.0f;
    sr_sums<N> y = sums.total();
    SR_UNROLL
    for (int c = 0; c < N; c++)
        y.at[c] = share * y.at[c];
    sr_store_vector<T>(a.y, i * N, y.at);
}

template <class T> static __device__ void cuda_roi_align(const roi_args &a) {
    if (a.lanes == 1)
        align<T, 1, 0>(a);
    else
        align<T, sr_lanes<T>, 0>(a);
}
SR_CUDA_TYPED(cuda_roi_align, roi_args, 256, 0)

// Of pictures with longer sides than SR_REFERENCE_TERMS, all of which may be in a bin. A thread has
// a channel: the trees of two sums of vectors do not fit into registers.
template <class T> static __device__ void cuda_roi_align_tree(const roi_args &a) {
    align<T, 1, SR_LONG_LEVELS>(a);
}
SR_CUDA_TYPED(cuda_roi_align_tree, roi_args, 256, 0)

// ---- roi_align_grad: dy, boxes, image -> dx ----

// What a box adds to channels c, ... of a pixel, before its share.
template <class T, int N, int LEVELS>
static __device__ sr_sums<N> sum_box(const roi_args &a, const sr_roi_box &box, int64_t r,
                                     const sr_place &at) {
    const sr_roi_params &p = a.p;
    sr_term_sums<N, LEVELS> sums;
    for (int64_t i = 0; i < p.p; i++) {
        const float high = (float)sr_roi_weight(&box.high, i, at.h);
        if (high == 0)
            continue;
        sr_term_sums<N, LEVELS> line;
        for (int64_t k = 0; k < p.q; k++) {
            const float wide = (float)sr_roi_weight(&box.wide, k, at.w);
            if (wide == 0)
                continue;
            float dy[N];
            sr_load_vector<T>(a.x, ((r * p.p + i) * p.q + k) * p.c + at.c * N, dy);
            sr_add_weighted(line.next(), wide, dy);
        }
        sr_add_weighted(sums.next(), high, line.total().at);
    }
    return sums.total();
}

// LEVELS: of the sums over boxes; BINS: of those over the bins of a box.
template <class T, int N, int LEVELS, int BINS>
static __device__ void align_grad(const roi_args &a) {
    const sr_roi_params &p = a.p;
    const int64_t i = sr_thread(), vectors = p.c / N;
    if (i >= p.n * p.h * p.w * vectors)
        return;
    const sr_place at = sr_place_of(i, p.h, p.w, vectors);
    sr_term_sums<N, LEVELS> sums;
    for (int64_t r = 0; r < p.rois; r++) {
        const sr_roi_box &box = a.ready[r];
        if (!box.valid || box.image != at.n || at.h < box.high.first || at.h > box.high.last ||
            at.w < box.wide.first || at.w > box.wide.last)
            continue;
        const sr_sums<N> sum = sum_box<T, N, BINS>(a, box, r, at);
        sr_add_weighted(sums.next(), (float)box.share, sum.at);
    }
    sr_store_vector<T>(a.y, i * N, sums.total().at);
}

template <class T> static __device__ void cuda_roi_align_grad(const roi_args &a) {
    if (a.lanes == 1)
        align_grad<T, 1, SR_LONG_LEVELS, 0>(a);
    else
        align_grad<T, sr_lanes<T>, SR_SHORT_LEVELS, 0>(a);
}
SR_CUDA_TYPED(cuda_roi_align_grad, roi_args, 256, 0)

// Of boxes with more than SR_REFERENCE_TERMS bins along a side; a thread has a channel.
template <class T> static __device__ void cuda_roi_align_grad_tree(const roi_args &a) {
    align_grad<T, 1, SR_LONG_LEVELS, SR_LONG_LEVELS>(a);
}
SR_CUDA_TYPED(cuda_roi_align_grad_tree, roi_args, 256, 0)

static roi_args args_of(const sr_kernel_request *request) {
    roi_args a = {};
    a.p = *sr_cuda_params<sr_roi_params>(request);
    const int64_t lanes = sr_cuda_lanes(request->dtype[0]);
    a.lanes = a.p.c % lanes == 0 ? lanes : 1;
    return a;
}

// Adds the boxes and then 'kernel' with so many threads.
static sr_status prepare(const sr_kernel_request *request, const roi_args &a,
                         const sr_cuda_kernel *kernel, int64_t count, sr_prepared *out) {
    sr_cuda_making making(request, a, out);
    making.add_elements(&cuda_roi_boxes_kernel, a.p.rois);
    making.add_elements(kernel, count);
    out->workspace = (size_t)a.p.rois * sizeof(sr_roi_box);
    return making.done();
}

sr_status sr_cuda_prepare_roi_align(const sr_kernel_request *request, sr_prepared *out) {
    roi_args a = args_of(request);
    const bool tree = sr_needs_tree(a.p.h > a.p.w ? a.p.h : a.p.w);
    if (tree)
        a.lanes = 1;
    return prepare(request, a,
                   (tree ? cuda_roi_align_tree_kernels : cuda_roi_align_kernels)[request->dtype[0]],
                   a.p.rois * a.p.p * a.p.q * (a.p.c / a.lanes), out);
}

sr_status sr_cuda_prepare_roi_align_grad(const sr_kernel_request *request, sr_prepared *out) {
    roi_args a = args_of(request);
    const bool tree = sr_needs_tree(a.p.p > a.p.q ? a.p.p : a.p.q);
    if (tree || !sr_fits_vectors(a.p.rois))
        a.lanes = 1;
    return prepare(
        request, a,
        (tree ? cuda_roi_align_grad_tree_kernels : cuda_roi_align_grad_kernels)[request->dtype[0]],
        a.p.n * a.p.h * a.p.w * (a.p.c / a.lanes), out);
}
