// SPDX-License-Identifier: Apache-2.0
// Pooling and nearest upsampling: kernels/cpu/reference/reference_pool.c. One thread has 16 bytes
// of neighbouring channels of a pixel of the output, or one channel where their number is no
// multiple; gradients gather.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"

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

// Channels c .. c + N - 1 of the pixel (n, h, w) of a picture of so many pixels.
struct pool_place {
    int64_t n, c;
    int h, w;
    int64_t at; // of the first element
};

// The place of a thread, in x or y; false: there is none.
template <int N>
static __device__ bool place_of(const sr_pool_params &p, int64_t height, int64_t width,
                                pool_place *place) {
    const int64_t i = sr_thread(), vectors = p.c / N;
    if (i >= p.n * height * width * vectors)
        return false;
    const sr_place at = sr_place_of(i, height, width, vectors);
    *place = {at.n, at.c * N, at.h, at.w, i * N};
    return true;
}

// The element of channel c of a pixel of x, or of y.
static __device__ int64_t input_at(const sr_pool_params &p, const pool_place &at, int64_t h,
                                   int64_t w) {
    return ((at.n * p.h + h) * p.w + w) * p.c + at.c;
}
static __device__ int64_t output_at(const sr_pool_params &p, const pool_place &at, int64_t row,
                                    int64_t q) {
    return ((at.n * p.p + row) * p.q + q) * p.c + at.c;
}

// Defines the kernels 'name' of the template 'body', with as many channels to a thread as a.lanes
// says.
#define POOL_TYPED(name, type, body)                                                               \
    template <class T> static __device__ void name(const type &a) {                                \
        if (a.lanes == 1)                                                                          \
            body<T, 1>(a);                                                                         \
        else                                                                                       \
            body<T, sr_lanes<T>>(a);                                                               \
    }                                                                                              \
    SR_CUDA_TYPED(name, type, 256, 0)

// ---- maxpool2d: x, y, index ----

struct maxpool_args {
    const void *x;
    void *y;
    uint8_t *index;
    void *workspace;
    sr_pool_params p;
    int64_t lanes; // channels of a thread: sr_lanes or 1
};

// A later value wins only if it is larger, or NaN.
template <class T, int N> static __device__ void maxpool(const maxpool_args &a) {
    const sr_pool_params &p = a.p;
    pool_place at;
    if (!place_of<N>(p, p.p, p.q, &at))
        return;
    const pool_window rows = window_of(at.h, p.window_h, p.stride_h, p.pad_top, p.h);
    const pool_window columns = window_of(at.w, p.window_w, p.stride_w, p.pad_left, p.w);
    const typename T::type *x = (const typename T::type *)a.x;
    typename T::type best[N];
    uint8_t offset[N];
    sr_get(x + input_at(p, at, rows.begin, columns.begin), best);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        offset[k] =
            (uint8_t)((rows.begin - rows.first) * p.window_w + columns.begin - columns.first);
    for (int h = rows.begin; h < rows.end; h++) {
        for (int w = columns.begin; w < columns.end; w++) {
            typename T::type here[N];
            sr_get(x + input_at(p, at, h, w), here);
            const int number = (h - rows.first) * p.window_w + w - columns.first;
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                const float v = T::load(&here[k]);
                if (v > T::load(&best[k]) || v != v) {
                    best[k] = here[k];
                    offset[k] = (uint8_t)number;
                }
            }
        }
    }
    sr_put((typename T::type *)a.y + at.at, best);
    sr_put(a.index + at.at, offset);
}
POOL_TYPED(cuda_maxpool2d, maxpool_args, maxpool)

// ---- maxpool2d_grad: dy, index, dx ----

struct maxpool_grad_args {
    const void *dy;
    const uint8_t *index;
    void *dx, *workspace;
    sr_pool_params p;
    int64_t lanes;
};

template <class T, int N> static __device__ void maxpool_grad(const maxpool_grad_args &a) {
    const sr_pool_params &p = a.p;
    pool_place at;
    if (!place_of<N>(p, p.h, p.w, &at))
        return;
    const pool_outputs rows = outputs_of(at.h, p.window_h, p.stride_h, p.pad_top, p.p);
    const pool_outputs columns = outputs_of(at.w, p.window_w, p.stride_w, p.pad_left, p.q);
    float sum[N] = {};
    for (int row = rows.begin; row < rows.end; row++) {
        for (int q = columns.begin; q < columns.end; q++) {
            const int64_t from = output_at(p, at, row, q);
            const int offset = (at.h + p.pad_top - row * p.stride_h) * p.window_w + at.w +
                               p.pad_left - q * p.stride_w;
            uint8_t index[N];
            float dy[N];
            sr_get(a.index + from, index);
            sr_load_vector<T>(a.dy, from, dy);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                if (index[k] == offset)
                    sum[k] += dy[k];
        }
    }
    sr_store_vector<T>(a.dx, at.at, sum);
}
POOL_TYPED(cuda_maxpool2d_grad, maxpool_grad_args, maxpool_grad)

// ---- avgpool2d, upsample2d: x, y; their gradients: dy, dx ----

struct pool_args {
    const void *x;
    void *y, *workspace;
    sr_pool_params p;
    int64_t lanes;
};

static __device__ float size_of(const pool_window &rows, const pool_window &columns) {
    return (float)((rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class T, int N> static __device__ void avgpool(const pool_args &a) {
    const sr_pool_params &p = a.p;
    pool_place at;
    if (!place_of<N>(p, p.p, p.q, &at))
        return;
    const pool_window rows = window_of(at.h, p.window_h, p.stride_h, p.pad_top, p.h);
    const pool_window columns = window_of(at.w, p.window_w, p.stride_w, p.pad_left, p.w);
    const float size = size_of(rows, columns);
    float sum[N] = {};
    for (int h = rows.begin; h < rows.end; h++) {
        for (int w = columns.begin; w < columns.end; w++) {
            float x[N];
            sr_load_vector<T>(a.x, input_at(p, at, h, w), x);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                sum[k] += x[k];
        }
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        sum[k] = sum[k] / size;
    sr_store_vector<T>(a.y, at.at, sum);
}
POOL_TYPED(cuda_avgpool2d, pool_args, avgpool)

template <class T, int N> static __device__ void avgpool_grad(const pool_args &a) {
    const sr_pool_params &p = a.p;
    pool_place at;
    if (!place_of<N>(p, p.h, p.w, &at))
        return;
    const pool_outputs outputs = outputs_of(at.h, p.window_h, p.stride_h, p.pad_top, p.p);
    const pool_outputs across = outputs_of(at.w, p.window_w, p.stride_w, p.pad_left, p.q);
    float sum[N] = {};
    for (int row = outputs.begin; row < outputs.end; row++) {
        const pool_window rows = window_of(row, p.window_h, p.stride_h, p.pad_top, p.h);
        for (int q = across.begin; q < across.end; q++) {
            const pool_window columns = window_of(q, p.window_w, p.stride_w, p.pad_left, p.w);
            const float size = size_of(rows, columns);
            float dy[N];
            sr_load_vector<T>(a.x, output_at(p, at, row, q), dy);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                sum[k] += dy[k] / size;
        }
    }
    sr_store_vector<T>(a.y, at.at, sum);
}
POOL_TYPED(cuda_avgpool2d_grad, pool_args, avgpool_grad)

template <class T, int N> static __device__ void upsample(const pool_args &a) {
    const sr_pool_params &p = a.p;
    pool_place at;
    if (!place_of<N>(p, p.p, p.q, &at))
        return;
    typename T::type x[N];
    sr_get((const typename T::type *)a.x + input_at(p, at, at.h / p.stride_h, at.w / p.stride_w),
           x);
    sr_put((typename T::type *)a.y + at.at, x);
}
POOL_TYPED(cuda_upsample2d, pool_args, upsample)

template <class T, int N> static __device__ void upsample_grad(const pool_args &a) {
    const sr_pool_params &p = a.p;
    pool_place at;
    if (!place_of<N>(p, p.h, p.w, &at))
        return;
    float sum[N] = {};
    for (int r = 0; r < p.stride_h; r++) {
        for (int s = 0; s < p.stride_w; s++) {
            float dy[N];
            sr_load_vector<T>(
                a.x,
                output_at(p, at, (int64_t)at.h * p.stride_h + r, (int64_t)at.w * p.stride_w + s),
                dy);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                sum[k] += dy[k];
        }
    }
    sr_store_vector<T>(a.y, at.at, sum);
}
POOL_TYPED(cuda_upsample2d_grad, pool_args, upsample_grad)

// Threads for y, or for dx.
template <class A>
static sr_status prepare(const sr_kernel_request *request, const sr_cuda_kernel *const *kernels,
                         bool gradient, sr_prepared *out) {
    A a = {};
    a.p = *sr_cuda_params<sr_pool_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t pixels = gradient ? a.p.h * a.p.w : a.p.p * a.p.q, lanes = sr_cuda_lanes(dtype);
    a.lanes = a.p.c % lanes == 0 ? lanes : 1;
    return sr_cuda_elementwise(request, a, kernels[dtype], a.p.n * pixels * (a.p.c / a.lanes), out);
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
