// SPDX-License-Identifier: Apache-2.0
// Pooling and nearest upsampling: kernels/cpu/reference/reference_pool.c. One thread has 16 bytes
// of neighbouring channels of a pixel of the output, or one channel where their number is no
// multiple; gradients gather. Sums of more than SR_REFERENCE_TERMS terms have functions of their
// own, NAME_tree, as the levels of their trees take registers. maxpool2d_grad has others for the
// usual windows, _WINDOW_STRIDE, whose limit is memory, not the arithmetic of indices.
#include <math.h>

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"

// Positions of a dimension, begin .. end - 1; of a window also that of its offset 0.
struct pool_range {
    int begin, end, first;
};
struct pool_area {
    pool_range rows, columns;
};

// The part of a window that is in the picture.
static __device__ pool_range window_of(int out, int window, int stride, int pad, int64_t size) {
    const int first = out * stride - pad, end = first + window;
    return {first < 0 ? 0 : first, end < size ? end : (int)size, first};
}
static __device__ pool_area area_of(const sr_pool_params &p, int row, int q) {
    return {window_of(row, p.window_h, p.stride_h, p.pad_top, p.h),
            window_of(q, p.window_w, p.stride_w, p.pad_left, p.w)};
}

// The quotient rounded up; windows without gaps need no division.
static __device__ int steps_of(int distance, int apart) {
    return apart == 1 ? distance : (distance + apart - 1) / apart;
}

// A window of maxpool2d: the elements of it that are in the picture, and the position of element 0.
static __device__ pool_range elements_of(int out, int window, int stride, int pad, int gap,
                                         int64_t size) {
    const int first = out * stride - pad, begin = first < 0 ? steps_of(-first, 1 + gap) : 0,
              end = first < size ? steps_of((int)size - first, 1 + gap) : 0;
    return {begin, end < window ? end : window, first};
}

// Extent of such a window.
static __device__ int extent_of(int window, int gap) {
    return window + (window - 1) * gap;
}

// The element of a window that is 'distance' after its element 0; negative: none.
static __device__ int element_at(int distance, int gap) {
    if (gap == 0)
        return distance;
    const int element = distance / (1 + gap);
    return element * (1 + gap) == distance ? element : -1;
}

// Outputs whose windows contain input position 'in'.
static __device__ pool_range outputs_of(int in, int window, int stride, int pad, int64_t outputs) {
    const int at = in + pad, begin = at < window ? 0 : (at - window) / stride + 1,
              end = at / stride + 1;
    return {begin, end < outputs ? end : (int)outputs, 0};
}
static __device__ pool_area outputs_that_see(const sr_pool_params &p, int h, int w) {
    return {outputs_of(h, extent_of(p.window_h, p.gap_h), p.stride_h, p.pad_top, p.p),
            outputs_of(w, extent_of(p.window_w, p.gap_w), p.stride_w, p.pad_left, p.q)};
}

// Channels c .. c + N - 1 of the pixel (n, h, w) of a picture of so many pixels.
struct pool_place {
    int64_t n, c;
    int h, w;
    int64_t at; // of the first element
};

// Where in y, or in dx for a gradient, a thread writes; false: it has nothing to do.
template <int N>
static __device__ bool place_of(const sr_pool_params &p, bool gradient, pool_place *place) {
    const int64_t height = gradient ? p.h : p.p, width = gradient ? p.w : p.q;
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

// sum += the elements of an argument from 'at' on, divided by 'divisor'.
template <class T, int N>
static __device__ void add_vector(const void *p, int64_t at, float divisor, float (&sum)[N]) {
    float v[N];
    sr_load_vector<T>(p, at, v);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        sum[k] += v[k] / divisor;
}

// Defines the function 'name' by the template 'body' for one place, with as many channels to a
// thread as a.lanes says, and levels of trees for single channels and for vectors.
#define POOL_FUNCTION(name, type, gradient, body, single, vector)                                  \
    template <class T> static __device__ void cuda_##name(const type &a) {                         \
        pool_place at;                                                                             \
        if (a.lanes == 1) {                                                                        \
            if (place_of<1>(a.p, gradient, &at))                                                   \
                body<T, 1, single>(a, a.p, at);                                                    \
        } else if (place_of<sr_lanes<T>>(a.p, gradient, &at)) {                                    \
            body<T, sr_lanes<T>, vector>(a, a.p, at);                                              \
        }                                                                                          \
    }                                                                                              \
    SR_CUDA_TYPED(cuda_##name, type, 256, 0)

// A kernel without sums.
#define POOL_KERNEL(name, type, body)                                                              \
    POOL_FUNCTION(name, type, false, body, 0, 0)                                                   \
    sr_status sr_cuda_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {         \
        return prepare<type>(request, cuda_##name##_kernels, NULL, false, 0, out);                 \
    }

// A kernel with sums of at most 'terms' terms, of its params p.
#define POOL_SUMS(name, type, gradient, terms, body)                                               \
    POOL_FUNCTION(name, type, gradient, body, 0, 0)                                                \
    POOL_FUNCTION(name##_tree, type, gradient, body, SR_LONG_LEVELS, SR_SHORT_LEVELS)              \
    sr_status sr_cuda_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {         \
        const sr_pool_params *p = sr_cuda_params<sr_pool_params>(request);                         \
        return prepare<type>(request, cuda_##name##_kernels, cuda_##name##_tree_kernels, gradient, \
                             terms, out);                                                          \
    }

template <class A>
static sr_status prepare(const sr_kernel_request *request, const sr_cuda_kernel *const *kernels,
                         const sr_cuda_kernel *const *trees, bool gradient, int64_t terms,
                         sr_prepared *out) {
    A a = {};
    a.p = *sr_cuda_params<sr_pool_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t pixels = gradient ? a.p.h * a.p.w : a.p.p * a.p.q, lanes = sr_cuda_lanes(dtype);
    a.lanes = a.p.c % lanes == 0 && sr_fits_vectors(terms) ? lanes : 1;
    return sr_cuda_elementwise(request, a, (sr_needs_tree(terms) ? trees : kernels)[dtype],
                               a.p.n * pixels * (a.p.c / a.lanes), out);
}

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
template <class T, int N, int>
static __device__ void maxpool(const maxpool_args &a, const sr_pool_params &p,
                               const pool_place &at) {
    const pool_range rows = elements_of(at.h, p.window_h, p.stride_h, p.pad_top, p.gap_h, p.h);
    const pool_range columns = elements_of(at.w, p.window_w, p.stride_w, p.pad_left, p.gap_w, p.w);
    const typename T::type *x = (const typename T::type *)a.x;
    typename T::type best[N];
    uint8_t offset[N];
    bool first = true;
    SR_UNROLL
    for (int k = 0; k < N; k++) {
        T::store(&best[k], -(float)INFINITY);
        offset[k] = UINT8_MAX;
    }
    for (int r = rows.begin; r < rows.end; r++) {
        for (int s = columns.begin; s < columns.end; s++) {
            typename T::type here[N];
            sr_get(x + input_at(p, at, rows.first + r * (1 + p.gap_h),
                                columns.first + s * (1 + p.gap_w)),
                   here);
            const int number = r * p.window_w + s;
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                const float v = T::load(&here[k]);
                if (first || v > T::load(&best[k]) || v != v) {
                    best[k] = here[k];
                    offset[k] = (uint8_t)number;
                }
            }
            first = false;
        }
    }
    sr_put((typename T::type *)a.y + at.at, best);
    sr_put(a.index + at.at, offset);
}
POOL_KERNEL(maxpool2d, maxpool_args, maxpool)

// ---- maxpool2d_grad: dy, index, dx ----

struct maxpool_grad_args {
    const void *dy;
    const uint8_t *index;
    void *dx, *workspace;
    sr_pool_params p;
    int64_t lanes;
    int64_t steps_h, steps_w; // windows that begin in the picture or its padding, see pool_windows
};

template <class T, int N, int LEVELS>
static __device__ void maxpool_grad(const maxpool_grad_args &a, const sr_pool_params &p,
                                    const pool_place &at) {
    const pool_area seen = outputs_that_see(p, at.h, at.w);
    sr_term_sums<N, LEVELS> sums;
    for (int row = seen.rows.begin; row < seen.rows.end; row++) {
        for (int q = seen.columns.begin; q < seen.columns.end; q++) {
            const int64_t from = output_at(p, at, row, q);
            const int r = element_at(at.h + p.pad_top - row * p.stride_h, p.gap_h);
            const int s = element_at(at.w + p.pad_left - q * p.stride_w, p.gap_w);
            const int offset = r < 0 || s < 0 ? -1 : r * p.window_w + s;
            uint8_t index[N];
            float dy[N];
            sr_get(a.index + from, index);
            sr_load_vector<T>(a.dy, from, dy);
            float(&sum)[N] = sums.next();
            SR_UNROLL
            for (int k = 0; k < N; k++)
                if (index[k] == offset)
                    sum[k] += dy[k];
        }
    }
    sr_store_vector<T>(a.dx, at.at, sums.total().at);
}
POOL_FUNCTION(maxpool2d_grad, maxpool_grad_args, true, maxpool_grad, 0, 0)
POOL_FUNCTION(maxpool2d_grad_tree, maxpool_grad_args, true, maxpool_grad, SR_LONG_LEVELS,
              SR_SHORT_LEVELS)

// Windows that overlap those next to them at most. A thread has the STRIDE x STRIDE pixels from the
// first one of a window to that of the next, which are in this window and in those before it: each
// is loaded once for all of these pixels, and all loads are under way together.
template <class T, int N, int WINDOW, int STRIDE> struct pool_windows {
    enum { COUNT = WINDOW > STRIDE ? 2 : 1 }; // in a row and a column; the last one is its own
    static_assert(WINDOW <= 2 * STRIDE, "windows overlap their neighbours alone");
    typedef typename T::type element;
    sr_packed<element, N> dy[COUNT][COUNT];
    sr_packed<uint8_t, N> index[COUNT][COUNT];

    // Zeros where there is no window.
    __device__ __forceinline__ void load(const maxpool_grad_args &a, const pool_place &at) {
        const int64_t own = output_at(a.p, at, at.h, at.w);
        const int rows = (int)a.p.p, columns = (int)a.p.q;
        SR_UNROLL
        for (int y = 0; y < COUNT; y++) {
            SR_UNROLL
            for (int x = 0; x < COUNT; x++) {
                const int up = COUNT - 1 - y, left = COUNT - 1 - x;
                const int row = at.h - up, q = at.w - left;
                const bool exists = row >= 0 && row < rows && q >= 0 && q < columns;
                const int64_t from = own - (up * columns + left) * a.p.c;
                dy[y][x].load((const element *)a.dy + from, exists, false);
                index[y][x].load(a.index + from, exists, false);
            }
        }
    }

    // dx of the pixel that is r rows and s columns after the first one of the last window. The
    // windows are in their order; zeros change no bit, as no sum is -0.
    __device__ __forceinline__ void add(int r, int s, float (&sum)[N]) const {
        SR_UNROLL
        for (int y = 0; y < COUNT; y++) {
            SR_UNROLL
            for (int x = 0; x < COUNT; x++) {
                const int row = r + (COUNT - 1 - y) * STRIDE, column = s + (COUNT - 1 - x) * STRIDE;
                const uint32_t offset = (uint32_t)(row * WINDOW + column) * 0x01010101u;
                if (row >= WINDOW || column >= WINDOW)
                    continue;
                SR_UNROLL
                for (int k = 0; k < N; k++) {
                    const uint32_t differs = index[y][x].word[k / 4] ^ offset;
                    if ((differs & 0xffu << k % 4 * 8) == 0)
                        sum[k] += sr_element<T, N>(dy[y][x], k);
                }
            }
        }
    }
};

template <class T, int N, int WINDOW, int STRIDE>
static __device__ __forceinline__ void maxpool_grad_steps(const maxpool_grad_args &a) {
    const sr_pool_params &p = a.p;
    const int64_t vectors = p.c / N, i = sr_thread();
    if (i >= p.n * a.steps_h * a.steps_w * vectors)
        return;
    const sr_place place = sr_place_of(i, a.steps_h, a.steps_w, vectors);
    const pool_place at = {place.n, place.c * N, place.h, place.w, 0};
    pool_windows<T, N, WINDOW, STRIDE> windows;
    windows.load(a, at);
    const int first_h = at.h * STRIDE - p.pad_top, first_w = at.w * STRIDE - p.pad_left;
    const int height = (int)p.h, width = (int)p.w;
    typename T::type *const dx = (typename T::type *)a.dx + input_at(p, at, first_h, first_w);
    SR_UNROLL
    for (int r = 0; r < STRIDE; r++) {
        SR_UNROLL
        for (int s = 0; s < STRIDE; s++) {
            const int h = first_h + r, w = first_w + s;
            sr_packed<typename T::type, N> result;
            float sum[N] = {};
            windows.add(r, s, sum);
            sr_pack<T>(result, sum);
            if (h >= 0 && h < height && w >= 0 && w < width)
                result.store(dx + (r * width + s) * p.c, true);
        }
    }
}

#define MAXPOOL_GRAD_STEPS(window, stride)                                                         \
    template <class T>                                                                             \
    static __device__ void cuda_maxpool2d_grad_##window##_##stride(const maxpool_grad_args &a) {   \
        if (a.lanes == 1)                                                                          \
            maxpool_grad_steps<T, 1, window, stride>(a);                                           \
        else                                                                                       \
            maxpool_grad_steps<T, sr_lanes<T>, window, stride>(a);                                 \
    }                                                                                              \
    SR_CUDA_TYPED(cuda_maxpool2d_grad_##window##_##stride, maxpool_grad_args, 256, 0)
MAXPOOL_GRAD_STEPS(2, 2)
MAXPOOL_GRAD_STEPS(3, 2)

// The kernels for square windows of this size and stride, or NULL.
static const sr_cuda_kernel *const *steps_for(const sr_pool_params *p) {
    if (p->window_h != p->window_w || p->stride_h != p->stride_w || p->stride_h != 2 ||
        p->gap_h != 0 || p->gap_w != 0)
        return NULL;
    return p->window_h == 2   ? cuda_maxpool2d_grad_2_2_kernels
           : p->window_h == 3 ? cuda_maxpool2d_grad_3_2_kernels
                              : NULL;
}

sr_status sr_cuda_prepare_maxpool2d_grad(const sr_kernel_request *request, sr_prepared *out) {
    const sr_pool_params *p = sr_cuda_params<sr_pool_params>(request);
    const sr_cuda_kernel *const *const steps = steps_for(p);
    if (!steps)
        return prepare<maxpool_grad_args>(request, cuda_maxpool2d_grad_kernels,
                                          cuda_maxpool2d_grad_tree_kernels, true,
                                          sr_pool_windows(p), out);
    maxpool_grad_args a = {};
    a.p = *p;
    const sr_dtype dtype = request->dtype[0];
    a.lanes = p->c % sr_cuda_lanes(dtype) == 0 ? sr_cuda_lanes(dtype) : 1;
    a.steps_h = (p->h - 1 + p->pad_top) / p->stride_h + 1;
    a.steps_w = (p->w - 1 + p->pad_left) / p->stride_w + 1;
    return sr_cuda_elementwise(request, a, steps[dtype],
                               p->n * a.steps_h * a.steps_w * (p->c / a.lanes), out);
}

// ---- avgpool2d, upsample2d: x, y; their gradients: dy, dx ----

struct pool_args {
    const void *x;
    void *y, *workspace;
    sr_pool_params p;
    int64_t lanes;
};

static __device__ float size_of(const pool_area &area) {
    return (float)((area.rows.end - area.rows.begin) * (area.columns.end - area.columns.begin));
}

template <class T, int N, int LEVELS>
static __device__ void avgpool(const pool_args &a, const sr_pool_params &p, const pool_place &at) {
    const pool_area area = area_of(p, at.h, at.w);
    const float size = size_of(area);
    sr_term_sums<N, LEVELS> sums;
    for (int h = area.rows.begin; h < area.rows.end; h++)
        for (int w = area.columns.begin; w < area.columns.end; w++)
            add_vector<T>(a.x, input_at(p, at, h, w), 1, sums.next());
    sr_sums<N> mean = sums.total();
    SR_UNROLL
    for (int k = 0; k < N; k++)
        mean.at[k] = mean.at[k] / size;
    sr_store_vector<T>(a.y, at.at, mean.at);
}
POOL_SUMS(avgpool2d, pool_args, false, sr_pool_pixels(p), avgpool)

template <class T, int N, int LEVELS>
static __device__ void avgpool_grad(const pool_args &a, const sr_pool_params &p,
                                    const pool_place &at) {
    const pool_area seen = outputs_that_see(p, at.h, at.w);
    sr_term_sums<N, LEVELS> sums;
    for (int row = seen.rows.begin; row < seen.rows.end; row++) {
        SR_UNROLL_BY(1) // divisions are long
        for (int q = seen.columns.begin; q < seen.columns.end; q++)
            add_vector<T>(a.x, output_at(p, at, row, q), size_of(area_of(p, row, q)), sums.next());
    }
    sr_store_vector<T>(a.y, at.at, sums.total().at);
}
POOL_SUMS(avgpool2d_grad, pool_args, true, sr_pool_windows(p), avgpool_grad)

template <class T, int N, int>
static __device__ void upsample(const pool_args &a, const sr_pool_params &p, const pool_place &at) {
    const int64_t from = input_at(p, at, at.h / p.stride_h, at.w / p.stride_w);
    typename T::type x[N];
    sr_get((const typename T::type *)a.x + from, x);
    sr_put((typename T::type *)a.y + at.at, x);
}
POOL_KERNEL(upsample2d, pool_args, upsample)

template <class T, int N, int LEVELS>
static __device__ void upsample_grad(const pool_args &a, const sr_pool_params &p,
                                     const pool_place &at) {
    const int64_t row = (int64_t)at.h * p.stride_h, q = (int64_t)at.w * p.stride_w;
    sr_term_sums<N, LEVELS> sums;
    for (int r = 0; r < p.stride_h; r++)
        for (int s = 0; s < p.stride_w; s++)
            add_vector<T>(a.x, output_at(p, at, row + r, q + s), 1, sums.next());
    sr_store_vector<T>(a.y, at.at, sums.total().at);
}
POOL_SUMS(upsample2d_grad, pool_args, true, (int64_t)p->stride_h * p->stride_w, upsample_grad)
