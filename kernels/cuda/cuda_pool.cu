// SPDX-License-Identifier: Apache-2.0
// Pooling and nearest upsampling: kernels/cpu/reference/reference_pool.c. One thread has one
// element of the output; gradients gather.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"

// Input positions of a window inside the picture, begin .. end - 1, and that of its offset 0.
struct pool_window {
    int begin, end, first;
};

static __device__ pool_window window_of(int out, int window, int stride, int pad, int64_t size) {
    const int first = out * stride - pad, end = first + window;
    const pool_window w = {first < 0 ? 0 : first, end < size ? end : (int)size, first};
    return w;
}

// Outputs whose windows contain input position 'in'.
struct pool_outputs {
    int begin, end;
};

static __device__ pool_outputs outputs_of(int in, int window, int stride, int pad,
                                          int64_t outputs) {
    const int at = in + pad, begin = at < window ? 0 : (at - window) / stride + 1,
              end = at / stride + 1;
    const pool_outputs o = {begin, end < outputs ? end : (int)outputs};
    return o;
}

static __device__ int64_t outputs_count(const sr_pool_params &p) {
    return p.n * p.p * p.q * p.c;
}

static __device__ int64_t inputs_count(const sr_pool_params &p) {
    return p.n * p.h * p.w * p.c;
}

// ---- maxpool2d: x, y, index ----

struct maxpool_args {
    const void *x;
    void *y;
    uint8_t *index;
    void *workspace;
    sr_pool_params p;
};

// A later value wins only if it is larger, or NaN.
template <class T> static __device__ void cuda_maxpool2d(const maxpool_args &a) {
    const sr_pool_params &p = a.p;
    const int64_t i = sr_thread();
    if (i >= outputs_count(p))
        return;
    const sr_place at = sr_place_of(i, p.p, p.q, p.c);
    const pool_window rows = window_of(at.h, p.window_h, p.stride_h, p.pad_top, p.h);
    const pool_window columns = window_of(at.w, p.window_w, p.stride_w, p.pad_left, p.w);
    const typename T::type *x = (const typename T::type *)a.x + at.n * p.h * p.w * p.c + at.c;
    int64_t best = ((int64_t)rows.begin * p.w + columns.begin) * p.c;
    float most = T::load(x + best);
    int offset = (rows.begin - rows.first) * p.window_w + columns.begin - columns.first;
    for (int h = rows.begin; h < rows.end; h++) {
        for (int w = columns.begin; w < columns.end; w++) {
            const int64_t here = ((int64_t)h * p.w + w) * p.c;
            const float v = T::load(x + here);
            if (v > most || v != v) {
                most = v;
                best = here;
                offset = (h - rows.first) * p.window_w + w - columns.first;
            }
        }
    }
    ((typename T::type *)a.y)[i] = x[best];
    a.index[i] = (uint8_t)offset;
}
SR_CUDA_TYPED(cuda_maxpool2d, maxpool_args, 256, 0)

// ---- maxpool2d_grad: dy, index, dx ----

struct maxpool_grad_args {
    const void *dy;
    const uint8_t *index;
    void *dx, *workspace;
    sr_pool_params p;
};

template <class T> static __device__ void cuda_maxpool2d_grad(const maxpool_grad_args &a) {
    const sr_pool_params &p = a.p;
    const int64_t i = sr_thread();
    if (i >= inputs_count(p))
        return;
    const sr_place at = sr_place_of(i, p.h, p.w, p.c);
    const pool_outputs rows = outputs_of(at.h, p.window_h, p.stride_h, p.pad_top, p.p);
    const pool_outputs columns = outputs_of(at.w, p.window_w, p.stride_w, p.pad_left, p.q);
    float sum = 0;
    for (int row = rows.begin; row < rows.end; row++) {
        for (int q = columns.begin; q < columns.end; q++) {
            const int64_t from = ((at.n * p.p + row) * p.q + q) * p.c + at.c;
            const int offset = (at.h + p.pad_top - row * p.stride_h) * p.window_w + at.w +
                               p.pad_left - q * p.stride_w;
            if (a.index[from] == offset)
                sum += sr_load<T>(a.dy, from);
        }
    }
    sr_store<T>(a.dx, i, sum);
}
SR_CUDA_TYPED(cuda_maxpool2d_grad, maxpool_grad_args, 256, 0)

// ---- avgpool2d, upsample2d: x, y; their gradients: dy, dx ----

struct pool_args {
    const void *x;
    void *y, *workspace;
    sr_pool_params p;
};

static __device__ float size_of(const pool_window &rows, const pool_window &columns) {
    return (float)((rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class T> static __device__ void cuda_avgpool2d(const pool_args &a) {
    const sr_pool_params &p = a.p;
    const int64_t i = sr_thread();
    if (i >= outputs_count(p))
        return;
    const sr_place at = sr_place_of(i, p.p, p.q, p.c);
    const pool_window rows = window_of(at.h, p.window_h, p.stride_h, p.pad_top, p.h);
    const pool_window columns = window_of(at.w, p.window_w, p.stride_w, p.pad_left, p.w);
    const typename T::type *row = (const typename T::type *)a.x +
                                  ((at.n * p.h + rows.begin) * p.w + columns.begin) * p.c + at.c;
    float sum = 0;
    for (int h = rows.begin; h < rows.end; h++, row += p.w * p.c) {
        const typename T::type *x = row;
        for (int w = columns.begin; w < columns.end; w++, x += p.c)
            sum += T::load(x);
    }
    sr_store<T>(a.y, i, sum / size_of(rows, columns));
}
SR_CUDA_TYPED(cuda_avgpool2d, pool_args, 256, 0)

template <class T> static __device__ void cuda_avgpool2d_grad(const pool_args &a) {
    const sr_pool_params &p = a.p;
    const int64_t i = sr_thread();
    if (i >= inputs_count(p))
        return;
    const sr_place at = sr_place_of(i, p.h, p.w, p.c);
    const pool_outputs outputs = outputs_of(at.h, p.window_h, p.stride_h, p.pad_top, p.p);
    const pool_outputs across = outputs_of(at.w, p.window_w, p.stride_w, p.pad_left, p.q);
    float sum = 0;
    for (int row = outputs.begin; row < outputs.end; row++) {
        const pool_window rows = window_of(row, p.window_h, p.stride_h, p.pad_top, p.h);
        for (int q = across.begin; q < across.end; q++) {
            const pool_window columns = window_of(q, p.window_w, p.stride_w, p.pad_left, p.w);
            sum += sr_load<T>(a.x, ((at.n * p.p + row) * p.q + q) * p.c + at.c) /
                   size_of(rows, columns);
        }
    }
    sr_store<T>(a.y, i, sum);
}
SR_CUDA_TYPED(cuda_avgpool2d_grad, pool_args, 256, 0)

template <class T> static __device__ void cuda_upsample2d(const pool_args &a) {
    const sr_pool_params &p = a.p;
    const int64_t i = sr_thread();
    if (i >= outputs_count(p))
        return;
    const sr_place at = sr_place_of(i, p.p, p.q, p.c);
    const int h = at.h / p.stride_h, w = at.w / p.stride_w;
    ((typename T::type *)a.y)[i] =
        ((const typename T::type *)a.x)[((at.n * p.h + h) * p.w + w) * p.c + at.c];
}
SR_CUDA_TYPED(cuda_upsample2d, pool_args, 256, 0)

template <class T> static __device__ void cuda_upsample2d_grad(const pool_args &a) {
    const sr_pool_params &p = a.p;
    const int64_t i = sr_thread();
    if (i >= inputs_count(p))
        return;
    const sr_place at = sr_place_of(i, p.h, p.w, p.c);
    const int64_t first =
        ((at.n * p.h + at.h) * p.stride_h * p.q + (int64_t)at.w * p.stride_w) * p.c + at.c;
    const typename T::type *row = (const typename T::type *)a.x + first;
    float sum = 0;
    for (int r = 0; r < p.stride_h; r++, row += p.q * p.c)
        for (int s = 0; s < p.stride_w; s++)
            sum += T::load(row + s * p.c);
    sr_store<T>(a.y, i, sum);
}
SR_CUDA_TYPED(cuda_upsample2d_grad, pool_args, 256, 0)

// One thread for each element of y, or of dx.
template <class A>
static sr_status prepare(const sr_kernel_request *request, const sr_cuda_kernel *const *kernels,
                         bool gradient, sr_prepared *out) {
    A a = {};
    a.p = *sr_cuda_params<sr_pool_params>(request);
    const int64_t pixels = gradient ? a.p.h * a.p.w : a.p.p * a.p.q;
    return sr_cuda_elementwise(request, a, kernels[request->dtype[0]], a.p.n * pixels * a.p.c, out);
}

sr_status sr_cuda_prepare_maxpool2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<maxpool_args>(request, cuda_maxpool2d_kernels, false, out);
}

sr_status sr_cuda_prepare_maxpool2d_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<maxpool_grad_args>(request, cuda_maxpool2d_grad_kernels, true, out);
}

sr_status sr_cuda_prepare_avgpool2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<pool_args>(request, cuda_avgpool2d_kernels, false, out);
}

sr_status sr_cuda_prepare_avgpool2d_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<pool_args>(request, cuda_avgpool2d_grad_kernels, true, out);
}

sr_status sr_cuda_prepare_upsample2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<pool_args>(request, cuda_upsample2d_kernels, false, out);
}

sr_status sr_cuda_prepare_upsample2d_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare<pool_args>(request, cuda_upsample2d_grad_kernels, true, out);
}
