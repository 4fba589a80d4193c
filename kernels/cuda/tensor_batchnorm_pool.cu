// SPDX-License-Identifier: Apache-2.0
// Batch norm with ReLU before max pooling in numerics class "tensor": batchnorm_train_relu_maxpool,
// batchnorm_infer_relu_maxpool and batchnorm_relu_maxpool_grad, with the bits of two kernels and
// without the tensor between them, for square windows of 3 and 2 pixels that are 2 apart.
//
// They are the kernels of tensor_batchnorm.cu, with the same units of the rows of x and so the same
// sums. Forward, a unit is applied to its share of the rows of y: a thread reads the window of
// each, mostly from caches, as neighbours read it, too. The gradient of a row of x is gathered from
// the windows that have this pixel, in the order of maxpool2d_grad, and rounded, where it is summed
// and again where it is applied.

#include <math.h>

#include "kernels/cuda/tensor_batchnorm.h"

// n / divisor for 0 <= n < 2^31, exactly (Granlund & Montgomery 1994).
struct fast_divisor {
    uint32_t divisor, factor, shift;

    static fast_divisor of(int64_t divisor) {
        fast_divisor d = {(uint32_t)divisor, 0, 0};
        while (UINT64_C(1) << d.shift < (uint64_t)divisor)
            d.shift++;
        const uint64_t over = (UINT64_C(1) << d.shift) - (uint64_t)divisor;
        d.factor = (uint32_t)((over << 32) / (uint64_t)divisor + 1);
        return d;
    }

    __device__ __forceinline__ int operator()(int n) const {
        return (int)((__umulhi((uint32_t)n, factor) + (uint32_t)n) >> shift);
    }
};

// How x[N,h,w,C] becomes y[N,p,q,C].
struct pool_cut {
    int32_t h, w, p, q, pad_top, pad_left;
    fast_divisor high, wide;  // of x for gradients, else of y
    int32_t outputs, of_unit; // rows of y: of a lane, and for a unit of rows of x
};

// A pixel.
struct pixel {
    int n, h, w;

    __device__ __forceinline__ pixel(const pool_cut &cut, int number) {
        const int row = cut.wide(number);
        w = number - row * (int)cut.wide.divisor;
        n = cut.high(row);
        h = row - n * (int)cut.high.divisor;
    }
};

static __device__ __forceinline__ bool is_in(int i, int size) {
    return (unsigned)i < (unsigned)size;
}

// Writes an index where there is one.
template <class A, int N>
static __device__ __forceinline__ void put_index(const A &a, int64_t at,
                                                 const uint32_t (&index)[N]) {
    if constexpr (A::HAS_INDEX) {
        sr_packed<uint8_t, N> packed;
        SR_UNROLL
        for (int i = 0; i < N / 4; i++)
            packed.word[i] = index[4 * i] | index[4 * i + 1] << 8 | index[4 * i + 2] << 16 |
                             index[4 * i + 3] << 24;
        packed.store(a.index + at, true);
    }
}

// ---- Forward: y is the largest of the rounded max((x - mean) factor + beta, 0) of a window, the
// first of equal ones; a NaN is larger than any number, and the last one is taken ----

template <int WINDOW, int STRIDE> struct pooled : normalising {
    template <int N, class A>
    static __device__ __forceinline__ unit_part part(const A &a, const unit_place &at) {
        const int64_t begin = (int64_t)at.unit * a.pool.of_unit, end = begin + a.pool.of_unit;
        const int64_t outputs = a.pool.outputs;
        return part_of_rows<N>(a.cut, at, begin, end < outputs ? end : outputs, outputs);
    }

    template <class T, int N> struct rows {
        enum { COUNT = 1, EARLY = true, AHEAD = false, FACTORS = 3, TOGETHER = false };
        typedef typename T::type element;
        sr_packed<element, N> x[WINDOW][WINDOW];
        uint32_t exist; // bit r * WINDOW + s: x[r][s]

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            const pool_cut &cut = a.pool;
            const pixel at(cut, begin < part.rows ? part.row + begin * part.apart : 0);
            const int top = at.h * STRIDE - cut.pad_top, left = at.w * STRIDE - cut.pad_left;
            const element *const from =
                (const element *)a.x +
                (((int64_t)at.n * cut.h + top) * cut.w + left) * a.cut.channels + part.channel;
            exist = 0;
            SR_UNROLL
            for (int r = 0; r < WINDOW; r++) {
                const bool row = begin < part.rows && is_in(top + r, cut.h);
                SR_UNROLL
                for (int s = 0; s < WINDOW; s++) {
                    const bool here = row && is_in(left + s, cut.w);
                    exist |= here ? 1u << (r * WINDOW + s) : 0;
                    x[r][s].load(from + (r * cut.w + s) * a.cut.channels, here, false);
                }
            }
        }

        // The element of the window with this number, if it exists, takes the place of what is
        // less.
        __device__ __forceinline__ void take(int number, const float (&f)[MOST_FACTORS][N],
                                             float (&best)[N], uint32_t (&index)[N]) {
            sr_packed<element, N> &here = x[number / WINDOW][number % WINDOW];
            const bool exists = (exist >> number & 1) != 0;
            float v[N];
            sr_unpack<T>(here, v);
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                v[k] = normalised(v[k], f[0][k], f[1][k], f[2][k]);
                v[k] = v[k] < -T::vanishing ? 0.0f : v[k]; // as without pooling
            }
            sr_pack<T>(here, v);
            sr_unpack<T>(here, v);
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                const bool better = exists && (v[k] > best[k] || v[k] != v[k]);
                best[k] = better ? v[k] : best[k];
                index[k] = better ? (uint32_t)number : index[k];
            }
        }

        template <class A>
        __device__ __forceinline__ void work(const A &a, const unit_part &part, int begin,
                                             const float (&f)[MOST_FACTORS][N]) {
            float best[N];
            uint32_t index[N];
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                best[k] = -(float)INFINITY;
                index[k] = UINT8_MAX;
            }
            SR_UNROLL
            for (int i = 0; i < WINDOW * WINDOW; i++)
                take(i, f, best, index);
            sr_packed<element, N> y;
            sr_pack<T>(y, best);
            if (begin < part.rows) {
                y.store((element *)a.y + part.at(begin), true);
                put_index(a, part.at(begin), index);
            }
        }
    };
};

// ---- Gradient ----

// Rows of x and of the gradient of what was pooled, of which the windows are WINDOW wide and STRIDE
// apart, so that a pixel is in one that begins in the STRIDE pixels up to it, and in the one before
// that, perhaps; in rows and in columns.
template <class T, int N, int WINDOW, int STRIDE> struct pooled_pairs {
    enum { WINDOWS = WINDOW > STRIDE ? 2 : 1, COUNT = 1, AHEAD = WINDOWS == 1 };
    static_assert(WINDOW <= 2 * STRIDE, "windows overlap their neighbours alone");
    typedef typename T::type element;
    sr_packed<element, N> x[COUNT], dy[WINDOWS][WINDOWS];
    sr_packed<uint8_t, N> index[WINDOWS][WINDOWS];
    int offset; // of the pixel in the last one of them

    template <class A>
    __device__ __forceinline__ void load_both(const A &a, const void *all_dy, const unit_part &part,
                                              int begin, bool last) {
        const pool_cut &cut = a.pool;
        const bool exist = begin < part.rows;
        x[0].load((const element *)a.x + part.at(begin), exist, last);
        const pixel at(cut, exist ? part.row + begin * part.apart : 0);
        const int row = (at.h + cut.pad_top) / STRIDE, r = (at.h + cut.pad_top) % STRIDE;
        const int q = (at.w + cut.pad_left) / STRIDE, s = (at.w + cut.pad_left) % STRIDE;
        const int64_t own =
            (((int64_t)at.n * cut.p + row) * cut.q + q) * a.cut.channels + part.channel;
        offset = r * WINDOW + s;
        SR_UNROLL
        for (int i = 0; i < WINDOWS; i++) {
            const int up = WINDOWS - 1 - i;
            const bool high = exist && is_in(row - up, cut.p) && r + up * STRIDE < WINDOW;
            SR_UNROLL
            for (int k = 0; k < WINDOWS; k++) {
                const int left = WINDOWS - 1 - k;
                const bool here = high && is_in(q - left, cut.q) && s + left * STRIDE < WINDOW;
                const int64_t from = own - (up * cut.q + left) * a.cut.channels;
                dy[i][k].load((const element *)all_dy + from, here, false);
                index[i][k].load(a.index + from, here, false);
            }
        }
    }

    // g = what maxpool2d_grad writes for the pixel. Zeros change no bit, as no sum is -0.
    __device__ __forceinline__ void get_dy(int, float (&g)[N]) const {
        sr_packed<element, N> gradient;
        SR_UNROLL
        for (int k = 0; k < N; k++)
            g[k] = 0;
        SR_UNROLL
        for (int i = 0; i < WINDOWS; i++) {
            const int up = WINDOWS - 1 - i;
            if (up > 0 && offset >= (WINDOW - STRIDE) * WINDOW)
                continue; // mostly for all threads of a warp, which have pixels of a line
            SR_UNROLL
            for (int k = 0; k < WINDOWS; k++) {
                const int left = WINDOWS - 1 - k;
                const uint32_t here =
                    (uint32_t)(offset + (up * WINDOW + left) * STRIDE) * 0x01010101u;
                SR_UNROLL
                for (int c = 0; c < N; c++)
                    if (((index[i][k].word[c / 4] ^ here) & 0xffu << c % 4 * 8) == 0)
                        g[c] += sr_element<T, N>(dy[i][k], c);
            }
        }
        sr_pack<T>(gradient, g);
        sr_unpack<T>(gradient, g);
    }
};

template <int WINDOW, int STRIDE> struct unpooled : clipped {
    template <class T, int N> using pairs = pooled_pairs<T, N, WINDOW, STRIDE>;
};

// ---- Functions ----

struct tensor_train_pool_args {
    enum { HAS_INDEX = true };
    const void *x;
    const float *gamma, *beta;
    void *y;
    float *mean, *var;
    uint8_t *index;
    uint32_t *counters;
    slab_cut cut;
    pool_cut pool;
    float eps;
};

struct tensor_infer_pool_args {
    enum { HAS_INDEX = false };
    const void *x;
    const float *gamma, *beta, *mean, *var;
    void *y;
    uint32_t *counters;
    slab_cut cut;
    pool_cut pool;
    float eps;
};

struct tensor_pool_grad_args {
    const void *x, *dy;
    const uint8_t *index;
    const float *gamma, *beta, *mean, *var;
    void *dx;
    float *dgamma, *dbeta;
    uint32_t *counters;
    slab_cut cut;
    pool_cut pool;
    float eps;
    int64_t count;
};

#define POOL_FUNCTIONS(name, window)                                                               \
    TENSOR_VECTORS(name##_train_##window, tensor_train_pool_args,                                  \
                   run_norm<moments, pooled<window, 2>, T, N>(a))                                  \
    TENSOR_VECTORS(name##_infer_##window, tensor_infer_pool_args,                                  \
                   apply_units<pooled<window, 2>, T, N>(a))                                        \
    TENSOR_VECTORS(                                                                                \
        name##_grad_##window, tensor_pool_grad_args,                                               \
        run_norm<products<unpooled<window, 2>>, differentiate<unpooled<window, 2>>, T, N>(a))
POOL_FUNCTIONS(tensor_batchnorm_pool, 2)
POOL_FUNCTIONS(tensor_batchnorm_pool, 3)
SR_CUDA_KERNEL(tensor_batchnorm_pool_train_clear, tensor_train_pool_args, 256, 0) {
    clear_counters(a);
}
SR_CUDA_KERNEL(tensor_batchnorm_pool_grad_clear, tensor_pool_grad_args, 256, 0) {
    clear_counters(a);
}

// ---- Plans ----

static norm_matrix matrix_of(const sr_kernel_request *request) {
    const sr_pool_params *p = &sr_cuda_params<sr_norm_pool_params>(request)->pool;
    return matrix_of(request, p->n * p->h * p->w, p->c, (int)sr_cuda_lanes(request->dtype[0]));
}

// The function for the request's windows.
#define FUNCTION(name, request)                                                                    \
    (sr_cuda_params<sr_norm_pool_params>(request)->pool.window_h == 2                              \
         ? name##_2_kernels                                                                        \
         : name##_3_kernels)[request->dtype[0]]

// With eps and how pixels are numbered: those of x for gradients, else those of y.
template <class A> static A args_of(const sr_kernel_request *request, int inputs, bool gradient) {
    const sr_norm_pool_params *params = sr_cuda_params<sr_norm_pool_params>(request);
    const sr_pool_params *p = &params->pool;
    const norm_matrix m = matrix_of(request);
    A a = {};
    a.eps = (float)params->eps;
    a.pool = {(int32_t)p->h,
              (int32_t)p->w,
              (int32_t)p->p,
              (int32_t)p->q,
              p->pad_top,
              p->pad_left,
              fast_divisor::of(gradient ? p->h : p->p),
              fast_divisor::of(gradient ? p->w : p->q),
              (int32_t)(p->n * p->p * p->q / m.lanes),
              0};
    a.pool.of_unit = (int32_t)sr_blocks_for(a.pool.outputs, cut_of(m, inputs).units);
    return a;
}

sr_status sr_tensor_prepare_batchnorm_train_relu_maxpool(const sr_kernel_request *request,
                                                         sr_prepared *out) {
    return prepare_sums(request, matrix_of(request),
                        args_of<tensor_train_pool_args>(request, 1, false), 1, true,
                        FUNCTION(tensor_batchnorm_pool_train, request),
                        &tensor_batchnorm_pool_train_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_infer_relu_maxpool(const sr_kernel_request *request,
                                                         sr_prepared *out) {
    return prepare_apply(request, matrix_of(request),
                         args_of<tensor_infer_pool_args>(request, 0, false),
                         FUNCTION(tensor_batchnorm_pool_infer, request), out);
}

// The units, so the bits of batchnorm_relu_grad, which has two inputs as large as x.
sr_status sr_tensor_prepare_batchnorm_relu_maxpool_grad(const sr_kernel_request *request,
                                                        sr_prepared *out) {
    const norm_matrix m = matrix_of(request);
    tensor_pool_grad_args a = args_of<tensor_pool_grad_args>(request, 2, true);
    a.count = m.rows;
    return prepare_sums(request, m, a, 2, true, FUNCTION(tensor_batchnorm_pool_grad, request),
                        &tensor_batchnorm_pool_grad_clear_kernel, out);
}
