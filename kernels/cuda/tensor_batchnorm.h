// SPDX-License-Identifier: Apache-2.0
// What kernels of batch norm in numerics class "tensor" share, with and without pooling behind it:
// sums over units of rows, gradients of them, and how a launch is made (tensor_batchnorm.cu says
// how).
#ifndef SR_KERNELS_CUDA_TENSOR_BATCHNORM_H
#define SR_KERNELS_CUDA_TENSOR_BATCHNORM_H

#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/tensor_slabs.h"

// ---- Statistics of units: 'rows' adds some rows of a thread to its sums, for which it may need
// factors; 'finish' stores a total ----

// batchnorm_train, _moments
struct moments {
    typedef join_statistics join;
    typedef nothing factors;

    template <class T, int N> struct rows : loaded_ahead {
        enum { COUNT = 4, EARLY = true, FACTORS = 0, TOGETHER = false };
        sr_packed<typename T::type, N> x[COUNT];

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++)
                x[i].load((const typename T::type *)a.x + part.at(begin + i), begin + i < part.rows,
                          false);
        }

        // The mean and the centred squares of channel k of these rows, of which 'count' exist, each
        // with the weight 'inverse'.
        __device__ __forceinline__ partial_sum get(int k, int count, float inverse) const {
            partial_sum out = {0, 0};
            float v[COUNT];
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                v[i] = sr_element<T, N>(x[i], k); // zero where there is no row
                out.first += v[i];
            }
            out.first *= inverse;
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                const float d = v[i] - out.first;
                out.second = i < count ? __fmaf_rn(d, d, out.second) : out.second;
            }
            return out;
        }

        template <class A>
        __device__ __forceinline__ void work(const A &, const unit_part &part, int begin,
                                             const float (&)[MOST_FACTORS][N],
                                             partial_sum (&sum)[N]) const {
            const int left = part.rows - begin, count = left < COUNT ? left : (int)COUNT;
            if (count <= 0)
                return;
            const float inverse = count == COUNT ? 1.0f / (float)COUNT : 1.0f / (float)count;
            const join_statistics join((float)begin, (float)count);
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                const partial_sum more = get(k, count, inverse);
                sum[k] = begin == 0 ? more : join(sum[k], more);
            }
        }
    };

    template <class A>
    static __device__ void finish(const A &a, int64_t statistic, const partial_sum &total) {
        a.mean[statistic] = total.first;
        a.var[statistic] = total.second / (float)a.cut.rows;
    }
};

// 1 / sqrt(var + eps) of a channel
template <class A> static __device__ float inverse_deviation(const A &a, int64_t statistic) {
    return 1.0f / sqrtf(a.var[statistic] + a.eps);
}

// gamma / sqrt(var + eps) of a channel
static __device__ float factor_of(const float *gamma, float inverse, int64_t channel) {
    return gamma ? gamma[channel] * inverse : inverse;
}
template <class A>
static __device__ float factor_of(const A &a, int64_t channel, int64_t statistic) {
    return factor_of(a.gamma, inverse_deviation(a, statistic), channel);
}

// y = (x - mean) factor + beta
static __device__ __forceinline__ float normalised(float x, float mean, float factor, float beta) {
    return __fmaf_rn(x - mean, factor, beta);
}

// Factors: the mean,
struct means {
    template <class A>
    static __device__ void fill(const A &a, int64_t, int64_t statistic, float (&f)[MOST_FACTORS]) {
        f[0] = a.mean[statistic];
    }
};

// or all factors of y.
struct normalising : each_row {
    template <class A>
    static __device__ void fill(const A &a, int64_t channel, int64_t statistic,
                                float (&f)[MOST_FACTORS]) {
        f[0] = a.mean[statistic];
        f[1] = factor_of(a, channel, statistic);
        f[2] = a.beta ? a.beta[channel] : 0.0f;
    }
};

// Rows of x and of a gradient.
template <class T, int N> struct row_pairs : loaded_ahead {
    enum { COUNT = 2 };
    typedef typename T::type element;
    sr_packed<element, N> x[COUNT], dy[COUNT];

    // dy: argument of the kernel; last: they are not read again.
    template <class A>
    __device__ __forceinline__ void load_both(const A &a, const void *all_dy, const unit_part &part,
                                              int begin, bool last) {
        SR_UNROLL
        for (int i = 0; i < COUNT; i++) {
            const int64_t at = part.at(begin + i);
            const bool exist = begin + i < part.rows;
            dy[i].load((const element *)all_dy + at, exist, last);
            x[i].load((const element *)a.x + at, exist, last);
        }
    }

    // g = the gradient of row i.
    __device__ __forceinline__ void get_dy(int i, float (&g)[N]) const { sr_unpack<T>(dy[i], g); }
};

// The gradient of y: dy as it is (batchnorm_grad, _sums, _dx),
struct given {
    template <class T, int N> using pairs = row_pairs<T, N>;
    typedef means factors;
    enum { EARLY = true, SUM_FACTORS = 1, FACTORS = 4 };

    template <class A> static __device__ const void *memory(const A &a) { return a.dy; }

    template <class A> static __device__ float beta(const A &, int64_t) { return 0; }

    template <class T>
    static __device__ __forceinline__ float of(float dy, float, float, float, float) {
        return dy;
    }
};

// or where y is above 0 (batchnorm_relu_grad).
struct clipped {
    template <class T, int N> using pairs = row_pairs<T, N>;
    typedef normalising factors;
    enum { EARLY = true, SUM_FACTORS = 3, FACTORS = 5 };

    template <class A> static __device__ const void *memory(const A &a) { return a.dy; }

    template <class A> static __device__ float beta(const A &a, int64_t channel) {
        return a.beta ? a.beta[channel] : 0.0f;
    }

    template <class T>
    static __device__ __forceinline__ float of(float dy, float x, float mean, float factor,
                                               float beta) {
        return normalised(x, mean, factor, beta) > T::vanishing ? dy : 0.0f;
    }
};

// dy, and dy (x - mean)
struct gradient_sums {
    typedef join_sums join;

    static __device__ __forceinline__ void add(float dy, float x, float mean, partial_sum &sum) {
        sum.first += dy;
        sum.second = __fmaf_rn(dy, x - mean, sum.second);
    }

    template <class A>
    static __device__ void finish(const A &a, int64_t statistic, const partial_sum &total) {
        a.dbeta[statistic] = total.first;
        a.dgamma[statistic] = total.second * inverse_deviation(a, statistic);
    }
};

// batchnorm_grad, _sums, _relu_grad
template <class Gradient> struct products : gradient_sums {
    typedef typename Gradient::factors factors;

    template <class T, int N> struct rows : Gradient::template pairs<T, N> {
        enum { EARLY = true, FACTORS = Gradient::SUM_FACTORS, TOGETHER = false };

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            this->load_both(a, a.dy, part, begin, false);
        }

        template <class A>
        __device__ __forceinline__ void work(const A &, const unit_part &, int,
                                             const float (&f)[MOST_FACTORS][N],
                                             partial_sum (&sum)[N]) const {
            SR_UNROLL
            for (int i = 0; i < this->COUNT; i++) {
                float v[N], g[N];
                this->get_dy(i, g);
                sr_unpack<T>(this->x[i], v);
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    add(Gradient::template of<T>(g[k], v[k], f[0][k], f[1][k], f[2][k]), v[k],
                        f[0][k], sum[k]);
            }
        }
    };
};

// batchnorm_grad, _dx, _relu_grad, _add_relu_grad: dx = gamma s (dy - dbeta / M - (x - mean) s
// dgamma / M), of M rows, with s = 1 / sqrt(var + eps)
template <class Gradient> struct differentiate : each_row {
    template <class A>
    static __device__ void fill(const A &a, int64_t channel, int64_t statistic,
                                float (&f)[MOST_FACTORS]) {
        const float s = inverse_deviation(a, statistic), inverse = 1.0f / (float)a.count;
        const float factor = factor_of(a, channel, statistic);
        f[0] = a.mean[statistic];
        f[1] = factor;
        f[2] = -(a.dbeta[statistic] * inverse) * factor;
        f[3] = -(s * (a.dgamma[statistic] * inverse)) * factor;
        f[4] = Gradient::beta(a, channel);
    }

    template <class T, int N> struct rows : Gradient::template pairs<T, N> {
        enum { EARLY = Gradient::EARLY, FACTORS = Gradient::FACTORS, TOGETHER = false };
        typedef typename T::type element;

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            this->load_both(a, Gradient::memory(a), part, begin, true);
        }

        template <class A>
        __device__ __forceinline__ void work(const A &a, const unit_part &part, int begin,
                                             const float (&f)[MOST_FACTORS][N]) {
            SR_UNROLL
            for (int i = 0; i < this->COUNT; i++) {
                float v[N], g[N];
                sr_packed<element, N> dx;
                this->get_dy(i, g);
                sr_unpack<T>(this->x[i], v);
                SR_UNROLL
                for (int k = 0; k < N; k++) {
                    g[k] = Gradient::template of<T>(g[k], v[k], f[0][k], f[1][k], f[4][k]);
                    g[k] = __fmaf_rn(v[k] - f[0][k], f[3][k], __fmaf_rn(g[k], f[1][k], f[2][k]));
                }
                sr_pack<T>(dx, g);
                if (begin + i < part.rows)
                    dx.store((element *)a.dx + part.at(begin + i), true);
            }
        }
    };
};

// ---- Functions: NAME has vectors, NAME_single single elements ----

#define TENSOR_FUNCTION(name, type, elements, ...)                                                 \
    template <class T> static __device__ void name(const type &a) {                                \
        constexpr int N = elements;                                                                \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    SR_CUDA_TYPED_WITH(name, type, THREADS, 1, (THREADS, 2))

#define TENSOR_VECTORS(name, type, ...) TENSOR_FUNCTION(name, type, sr_lanes<T>, __VA_ARGS__)
#define TENSOR_KERNELS(name, type, ...)                                                            \
    TENSOR_VECTORS(name, type, __VA_ARGS__)                                                        \
    TENSOR_FUNCTION(name##_single, type, 1, __VA_ARGS__)

// ---- Plans ----

// What is normalised: a matrix for each lane with sums of its own; those that share their factors
// are one.
struct norm_matrix {
    int64_t rows, channels; // rows: of a lane
    int32_t lanes;
    int elements; // of a thread's vector
    int64_t element_bytes;
};

static inline norm_matrix matrix_of(const sr_kernel_request *request, int64_t rows,
                                    int64_t channels, int elements) {
    const int lanes = request->per_lane != 0 ? request->lanes : 1;
    return {rows / lanes, channels, lanes, elements, (int64_t)sr_dtype_size(request->dtype[0])};
}

// inputs: tensors that are read twice.
static inline slab_cut cut_of(const norm_matrix &m, int inputs) {
    slab_cut s = {};
    s.rows = m.rows;
    s.channels = m.channels;
    s.lanes = m.lanes;
    s.wide_bits = sr_slab_wide_bits(m.rows, m.channels, m.elements, m.element_bytes, inputs);
    for (s.slab_bits = s.wide_bits; 1 << s.slab_bits < m.elements << s.wide_bits;)
        s.slab_bits++;
    s.slabs = (int32_t)sr_blocks_for(s.channels, 1 << s.slab_bits);
    s.units = (int32_t)sr_blocks_for(s.rows, (int64_t)MOST_ROWS << (THREAD_BITS - s.wide_bits));
    s.all_slabs = s.lanes * s.slabs;
    s.all_units = (uint32_t)s.all_slabs * (uint32_t)s.units;
    s.group = s.units;
    if (s.units > MOST_UNITS)
        for (s.group = LEAST_GROUP; (int64_t)s.group * s.group < s.units;)
            s.group *= 2;
    s.groups = (int32_t)sr_blocks_for(s.units, s.group);
    return s;
}

// Kernels with sums; clear: the function that clears the counters.
template <class A>
static sr_status prepare_sums(const sr_kernel_request *request, const norm_matrix &m, A a,
                              int inputs, bool applies, const sr_cuda_kernel *function,
                              const sr_cuda_kernel *clear, sr_prepared *out) {
    slab_cut &s = a.cut;
    s = cut_of(m, inputs);
    const int64_t all = s.all_units;
    const int64_t items = applies ? 2 * all : all;
    const bool counts = s.units > UNITS_OF_A_BLOCK;
    const int64_t of_unit = (int64_t)THREADS * MOST_ROWS * m.elements * m.element_bytes * inputs;
    const int64_t ahead = s.units + sr_blocks_for(SR_SLAB_AHEAD, of_unit);
    if (counts) {
        const int64_t counters = 1 + (int64_t)s.all_slabs * (2 + s.groups);
        s.ahead = (int32_t)(applies && ahead < all ? ahead : all);
        s.counters = (int32_t)(sr_blocks_for(counters, 32) * 32); // partial sums begin a line
    }
    sr_cuda_making making(request, a, out);
    if (counts)
        making.add_elements(clear, s.counters);
    const int64_t filling = items < FILLING_BLOCKS ? items : (int64_t)FILLING_BLOCKS;
    const int64_t blocks = counts ? filling : (int64_t)s.all_slabs;
    making.add(function, blocks, THREADS, sizeof(shared_sums));
    out->workspace =
        (size_t)s.counters * sizeof(uint32_t) +
        (size_t)(2 * s.lanes * ((int64_t)s.units + s.groups) * s.channels) * sizeof(float);
    return making.done();
}

// Without sums: blocks have units of the same slab, so that factors are computed once.
template <class A>
static sr_status prepare_apply(const sr_kernel_request *request, const norm_matrix &m, A a,
                               const sr_cuda_kernel *function, sr_prepared *out) {
    a.cut = cut_of(m, 0);
    const int64_t filling = sr_blocks_for(2 * FILLING_BLOCKS, a.cut.slabs);
    const int64_t rows = (int64_t)a.cut.units * a.cut.lanes; // of units
    sr_cuda_making making(request, a, out);
    making.add(function, a.cut.slabs * (filling < rows ? filling : rows), THREADS,
               sizeof(shared_sums));
    return making.done();
}

#endif
