// SPDX-License-Identifier: Apache-2.0
// Batch norm in numerics class "tensor": batchnorm_train, _moments, _infer, _grad, _sums and _dx,
// with one read of DRAM for each input; and with ReLU: batchnorm_train_relu, _train_pair_relu,
// _infer_relu, _relu_grad and _add_relu_grad, with the bits of two kernels or three.
//
// The channels are cut into slabs of at most 128 bytes of a row, and the rows of a slab into units:
// a thread has one vector of at most 16 bytes of each of MOST_ROWS rows. Statistics are the mean
// and the centred squares of rows of a thread, computed in two passes over registers, and joined as
// by Chan, Golub & LeVeque (1979); the gradient's are plain sums. Threads are joined by a tree,
// units in short chains and a tree (join_all), groups of units first where there are many. So a sum
// is a function of the request, and with D joins between a row and the total, the mean has an error
// of at most (5 + 4 D) 2^-24 of the mean absolute value; no sum cancels where the mean is large.
//
// batchnorm_train and _grad read their inputs twice, the second time from the second-level cache.
// They are one kernel, whose blocks take items of work by a counter: the statistics of a unit, or
// what follows from those of its slab. A slab's units are applied while statistics of the next one
// are computed, some units ahead, so that nobody waits for sums that are still being joined. The
// block that ends a slab's statistics joins them (arrive); blocks that apply one of its units
// wait for that. A block takes its next item before it begins one, and what an item waits for has
// smaller numbers. So the smallest item that is not finished is one that a block has begun, which
// waits for nothing: the kernel ends however many blocks run at once.
//
// Where the rows are few, a block has a slab and works on its units one after the other: the same
// sums, and neither counters nor a kernel that clears them.
//
// batchnorm_relu_grad needs no y: it computes its sign again, where it sums and where it applies.
// batchnorm_add_relu_grad writes dz with the sums and reads it again, like x; where y is above 0 it
// knows by the bits that the forward kernel wrote. A thread's vector of a row is one byte of them,
// or half a byte in f32; what slabs leave of a sector of 32 bytes, the next slabs use.
//
// Lanes side by side are cut one by one, so that each has the sums that it has alone, and their
// slabs come one lane after the other.

#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/tensor_slabs.h"

// ---- Statistics of units: 'rows' adds some rows of a thread to its sums, for which it may need
// factors; 'finish' stores a total ----

// batchnorm_train, _moments
struct moments {
    typedef join_statistics join;
    typedef nothing factors;

    template <class T, int N> struct rows {
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
struct normalising {
    template <class A>
    static __device__ void fill(const A &a, int64_t channel, int64_t statistic,
                                float (&f)[MOST_FACTORS]) {
        f[0] = a.mean[statistic];
        f[1] = factor_of(a, channel, statistic);
        f[2] = a.beta ? a.beta[channel] : 0.0f;
    }
};

// The gradient of y: dy as it is (batchnorm_grad, _sums, _dx),
struct given {
    typedef means factors;
    enum { EARLY = true, SUM_FACTORS = 1, FACTORS = 4 };

    template <class A> static __device__ const void *memory(const A &a) { return a.dy; }

    template <class A> static __device__ float beta(const A &, int64_t) { return 0; }

    template <class T>
    static __device__ __forceinline__ float of(float dy, float, float, float, float) {
        return dy;
    }
};

// or where y is above 0 (batchnorm_relu_grad),
struct clipped {
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

// or what the sums wrote (batchnorm_add_relu_grad).
struct written : given {
    enum { EARLY = false };
    template <class A> static __device__ const void *memory(const A &a) { return a.dz; }
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

// Rows of x and of a gradient.
template <class T, int N> struct row_pairs {
    enum { COUNT = 2 };
    typedef typename T::type element;
    sr_packed<element, N> x[COUNT], dy[COUNT];

    // last: they are not read again.
    __device__ __forceinline__ void load_both(const void *all_x, const void *all_dy,
                                              const unit_part &part, int begin, bool last) {
        SR_UNROLL
        for (int i = 0; i < COUNT; i++) {
            const int64_t at = part.at(begin + i);
            const bool exist = begin + i < part.rows;
            dy[i].load((const element *)all_dy + at, exist, last);
            x[i].load((const element *)all_x + at, exist, last);
        }
    }
};

// batchnorm_grad, _sums, _relu_grad
template <class Gradient> struct products : gradient_sums {
    typedef typename Gradient::factors factors;

    template <class T, int N> struct rows : row_pairs<T, N> {
        enum { EARLY = true, FACTORS = Gradient::SUM_FACTORS, TOGETHER = false };

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            this->load_both(a.x, a.dy, part, begin, false);
        }

        template <class A>
        __device__ __forceinline__ void work(const A &, const unit_part &, int,
                                             const float (&f)[MOST_FACTORS][N],
                                             partial_sum (&sum)[N]) const {
            SR_UNROLL
            for (int i = 0; i < this->COUNT; i++) {
                float v[N], g[N];
                sr_unpack<T>(this->x[i], v);
                sr_unpack<T>(this->dy[i], g);
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    add(Gradient::template of<T>(g[k], v[k], f[0][k], f[1][k], f[2][k]), v[k],
                        f[0][k], sum[k]);
            }
        }
    };
};

// The bits of N channels of a row, 8 or 4, the first of which is element 'at'; rows are whole
// bytes.
template <int N>
static __device__ __forceinline__ unsigned signs_at(const uint8_t *signs, int64_t at) {
    const unsigned bits = signs[at >> 3];
    return N == 8 ? bits : bits >> (at & 4);
}

// Stores those of y. Of 4 channels, two neighbours have a byte, and all threads of the warp take
// part.
template <class T, int N>
static __device__ __forceinline__ void put_signs(uint8_t *signs, int64_t at, bool exist,
                                                 const sr_packed<typename T::type, N> &y) {
    unsigned bits = 0;
    SR_UNROLL
    for (int k = 0; k < N; k++)
        bits |= sr_element<T, N>(y, k) > 0 ? 1u << k : 0;
    if (N == 4)
        bits |= __shfl_down_sync(0xffffffffu, bits, 1) << 4;
    if (exist && (N == 8 || (at & 4) == 0))
        signs[at >> 3] = (uint8_t)bits;
}

// batchnorm_add_relu_grad: writes dz = a + b where y is above 0.
struct clipped_products : gradient_sums {
    typedef means factors;

    template <class T, int N> struct rows {
        enum { COUNT = 1, EARLY = true, FACTORS = 1, TOGETHER = false };
        typedef typename T::type element;
        sr_packed<element, N> x[COUNT], first[COUNT], second[COUNT];
        unsigned signs[COUNT];

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                const int64_t at = part.at(begin + i);
                const bool exist = begin + i < part.rows;
                signs[i] = exist ? signs_at<N>(a.signs, at) : 0;
                first[i].load((const element *)a.a + at, exist, true);
                second[i].load((const element *)a.b + at, exist && a.b, true);
                x[i].load((const element *)a.x + at, exist, false);
            }
        }

        template <class A>
        __device__ __forceinline__ void work(const A &a, const unit_part &part, int begin,
                                             const float (&f)[MOST_FACTORS][N],
                                             partial_sum (&sum)[N]) const {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                sr_packed<element, N> dz;
                float v[N], g[N], more[N];
                sr_unpack<T>(first[i], g);
                sr_unpack<T>(second[i], more);
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    g[k] = signs[i] >> k & 1 ? a.b ? g[k] + more[k] : g[k] : 0.0f;
                sr_pack<T>(dz, g);
                if (begin + i < part.rows)
                    dz.store((element *)a.dz + part.at(begin + i), false);
                sr_unpack<T>(dz, g);
                sr_unpack<T>(x[i], v);
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    add(g[k], v[k], f[0][k], sum[k]);
            }
        }
    };
};

// ---- What is computed with them: 'fill' has the factors of a channel, 'rows' those of a thread
// ----

// batchnorm_train, _infer: y = (x - mean) factor + beta
struct normalise : normalising {
    template <class T, int N> struct rows {
        enum { COUNT = 2, EARLY = true, FACTORS = 3, TOGETHER = false };
        typedef typename T::type element;
        sr_packed<element, N> x[COUNT];

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++)
                x[i].load((const element *)a.x + part.at(begin + i), begin + i < part.rows, true);
        }

        template <class A>
        __device__ __forceinline__ void work(const A &a, const unit_part &part, int begin,
                                             const float (&f)[MOST_FACTORS][N]) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                float v[N];
                sr_unpack<T>(x[i], v);
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    v[k] = normalised(v[k], f[0][k], f[1][k], f[2][k]);
                sr_pack<T>(x[i], v);
                if (begin + i < part.rows)
                    x[i].store((element *)a.y + part.at(begin + i), true);
            }
        }
    };
};

// y = max(y + z, 0)
template <class T, int N>
static __device__ __forceinline__ void clip_sum(sr_packed<typename T::type, N> &y,
                                                const sr_packed<typename T::type, N> &z) {
    float v[N], more[N];
    sr_unpack<T>(y, v);
    sr_unpack<T>(z, more);
    SR_UNROLL
    for (int k = 0; k < N; k++) {
        v[k] += more[k];
        v[k] = v[k] < 0 ? 0.0f : v[k];
    }
    sr_pack<T>(y, v);
}

// Stores a row of y, and its signs.
template <class T, int N, class A>
static __device__ __forceinline__ void put_result(const A &a, const unit_part &part, int row,
                                                  const sr_packed<typename T::type, N> &y) {
    if (row < part.rows)
        y.store((typename T::type *)a.y + part.at(row), true);
    if (N > 1 && a.signs)
        put_signs<T, N>(a.signs, part.at(row), row < part.rows, y);
}

// batchnorm_train_relu, _infer_relu: y = max(T((x - mean) factor + beta) + z, 0)
struct normalise_and_clip : normalising {
    template <class T, int N> struct rows {
        enum { COUNT = 2, EARLY = true, FACTORS = 3, TOGETHER = N == 4 };
        typedef typename T::type element;
        sr_packed<element, N> x[COUNT], z[COUNT];

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                const int64_t at = part.at(begin + i);
                const bool exist = begin + i < part.rows;
                x[i].load((const element *)a.x + at, exist, true);
                z[i].load((const element *)a.z + at, exist && a.z, true);
            }
        }

        template <class A>
        __device__ __forceinline__ void work(const A &a, const unit_part &part, int begin,
                                             const float (&f)[MOST_FACTORS][N]) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                float v[N];
                sr_unpack<T>(x[i], v);
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    v[k] = normalised(v[k], f[0][k], f[1][k], f[2][k]);
                if (a.z) {
                    sr_pack<T>(x[i], v);
                    clip_sum<T, N>(x[i], z[i]);
                } else { // numbers below 0 that are rounded to -0 stay that
                    SR_UNROLL
                    for (int k = 0; k < N; k++)
                        v[k] = v[k] < -T::vanishing ? 0.0f : v[k];
                    sr_pack<T>(x[i], v);
                }
                put_result<T, N>(a, part, begin + i, x[i]);
            }
        }
    };
};

// batchnorm_train_pair_relu: y = max(T((x - mean) factor + beta) + T((z - mean) factor + beta), 0),
// with what z has of them behind what x has
struct normalise_pair {
    template <class A>
    static __device__ void fill(const A &a, int64_t channel, int64_t statistic,
                                float (&f)[MOST_FACTORS]) {
        normalising::fill(a, channel, statistic, f);
        f[3] = a.z_mean[statistic];
        f[4] = factor_of(a.z_gamma, 1.0f / sqrtf(a.z_var[statistic] + a.eps), channel);
        f[5] = a.z_beta ? a.z_beta[channel] : 0.0f;
    }

    template <class T, int N> struct rows {
        enum { COUNT = 1, EARLY = true, FACTORS = 6, TOGETHER = N == 4 };
        typedef typename T::type element;
        sr_packed<element, N> x[COUNT], z[COUNT];

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                const int64_t at = part.at(begin + i);
                x[i].load((const element *)a.x + at, begin + i < part.rows, true);
                z[i].load((const element *)a.z + at, begin + i < part.rows, true);
            }
        }

        template <class A>
        __device__ __forceinline__ void work(const A &a, const unit_part &part, int begin,
                                             const float (&f)[MOST_FACTORS][N]) {
            SR_UNROLL
            for (int i = 0; i < COUNT; i++) {
                float v[N], more[N];
                sr_unpack<T>(x[i], v);
                sr_unpack<T>(z[i], more);
                SR_UNROLL
                for (int k = 0; k < N; k++) {
                    v[k] = normalised(v[k], f[0][k], f[1][k], f[2][k]);
                    more[k] = normalised(more[k], f[3][k], f[4][k], f[5][k]);
                }
                sr_pack<T>(x[i], v);
                sr_pack<T>(z[i], more);
                clip_sum<T, N>(x[i], z[i]);
                put_result<T, N>(a, part, begin + i, x[i]);
            }
        }
    };
};

// batchnorm_grad, _dx, _relu_grad, _add_relu_grad: dx = gamma s (dy - dbeta / M - (x - mean) s
// dgamma / M), of M rows, with s = 1 / sqrt(var + eps)
template <class Gradient> struct differentiate {
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

    template <class T, int N> struct rows : row_pairs<T, N> {
        enum { EARLY = Gradient::EARLY, FACTORS = Gradient::FACTORS, TOGETHER = false };
        typedef typename T::type element;

        template <class A>
        __device__ __forceinline__ void load(const A &a, const unit_part &part, int begin) {
            this->load_both(a.x, Gradient::memory(a), part, begin, true);
        }

        template <class A>
        __device__ __forceinline__ void work(const A &a, const unit_part &part, int begin,
                                             const float (&f)[MOST_FACTORS][N]) {
            SR_UNROLL
            for (int i = 0; i < this->COUNT; i++) {
                float v[N], g[N];
                sr_unpack<T>(this->x[i], v);
                sr_unpack<T>(this->dy[i], g);
                SR_UNROLL
                for (int k = 0; k < N; k++) {
                    g[k] = Gradient::template of<T>(g[k], v[k], f[0][k], f[1][k], f[4][k]);
                    g[k] = __fmaf_rn(v[k] - f[0][k], f[3][k], __fmaf_rn(g[k], f[1][k], f[2][k]));
                }
                sr_pack<T>(this->dy[i], g);
                if (begin + i < part.rows)
                    this->dy[i].store((element *)a.dx + part.at(begin + i), true);
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

struct tensor_train_args {
    const void *x;
    const float *gamma, *beta;
    void *y;
    float *mean, *var;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_train, tensor_train_args, run_norm<moments, normalise, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_train_clear, tensor_train_args, 256, 0) {
    clear_counters(a);
}

struct tensor_moments_args {
    const void *x;
    float *mean, *var;
    uint32_t *counters;
    slab_cut cut;
};
TENSOR_KERNELS(tensor_batchnorm_moments, tensor_moments_args, run_norm<moments, nothing, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_moments_clear, tensor_moments_args, 256, 0) {
    clear_counters(a);
}

struct tensor_infer_args {
    const void *x;
    const float *gamma, *beta, *mean, *var;
    void *y;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_infer, tensor_infer_args, apply_units<normalise, T, N>(a))

struct tensor_grad_args {
    const void *x, *dy;
    const float *gamma, *mean, *var;
    void *dx;
    float *dgamma, *dbeta;
    uint32_t *counters;
    slab_cut cut;
    float eps;
    int64_t count;
};
TENSOR_KERNELS(tensor_batchnorm_grad, tensor_grad_args,
               run_norm<products<given>, differentiate<given>, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_grad_clear, tensor_grad_args, 256, 0) {
    clear_counters(a);
}

struct tensor_sums_args {
    const void *x, *dy;
    const float *mean, *var;
    float *dgamma, *dbeta;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_sums, tensor_sums_args, run_norm<products<given>, nothing, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_sums_clear, tensor_sums_args, 256, 0) {
    clear_counters(a);
}

struct tensor_dx_args {
    const void *x, *dy;
    const float *gamma, *mean, *var, *dgamma, *dbeta;
    void *dx;
    uint32_t *counters;
    slab_cut cut;
    float eps;
    int64_t count;
};
TENSOR_KERNELS(tensor_batchnorm_dx, tensor_dx_args, apply_units<differentiate<given>, T, N>(a))

struct tensor_train_relu_args {
    const void *x, *z;
    const float *gamma, *beta;
    void *y;
    float *mean, *var;
    uint8_t *signs;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_train_relu, tensor_train_relu_args,
               run_norm<moments, normalise_and_clip, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_train_relu_clear, tensor_train_relu_args, 256, 0) {
    clear_counters(a);
}

struct tensor_train_pair_relu_args {
    const void *x, *z;
    const float *gamma, *beta, *z_gamma, *z_beta, *z_mean, *z_var;
    void *y;
    float *mean, *var;
    uint8_t *signs;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_train_pair_relu, tensor_train_pair_relu_args,
               run_norm<moments, normalise_pair, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_train_pair_relu_clear, tensor_train_pair_relu_args, 256, 0) {
    clear_counters(a);
}

struct tensor_infer_relu_args {
    const void *x, *z;
    const float *gamma, *beta, *mean, *var;
    void *y;
    uint8_t *signs;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_infer_relu, tensor_infer_relu_args,
               apply_units<normalise_and_clip, T, N>(a))

struct tensor_relu_grad_args {
    const void *x, *dy;
    const float *gamma, *beta, *mean, *var;
    void *dx;
    float *dgamma, *dbeta;
    uint32_t *counters;
    slab_cut cut;
    float eps;
    int64_t count;
};
TENSOR_KERNELS(tensor_batchnorm_relu_grad, tensor_relu_grad_args,
               run_norm<products<clipped>, differentiate<clipped>, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_relu_grad_clear, tensor_relu_grad_args, 256, 0) {
    clear_counters(a);
}

struct tensor_add_relu_grad_args {
    const void *x;
    const uint8_t *signs;
    const void *a, *b;
    const float *gamma, *mean, *var;
    void *dz, *dx;
    float *dgamma, *dbeta;
    uint32_t *counters;
    slab_cut cut;
    float eps;
    int64_t count;
};
TENSOR_VECTORS(tensor_batchnorm_add_relu_grad, tensor_add_relu_grad_args,
               run_norm<clipped_products, differentiate<written>, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_add_relu_grad_clear, tensor_add_relu_grad_args, 256, 0) {
    clear_counters(a);
}

// ---- Plans ----

// The functions of a request: vectors where the channels are whole ones, as they are where they
// have signs.
struct tensor_functions {
    const sr_cuda_kernel *const *vectors, *const *single;
};
#define FUNCTIONS(name)                                                                            \
    { name##_kernels, name##_single_kernels }

static int elements_of(const sr_kernel_request *request) {
    const int64_t elements = sr_cuda_lanes(request->dtype[0]);
    return sr_cuda_params<sr_rows_params>(request)->channels % elements == 0 ? (int)elements : 1;
}

static const sr_cuda_kernel *function_of(const sr_kernel_request *request,
                                         const tensor_functions &functions) {
    return (elements_of(request) > 1 ? functions.vectors : functions.single)[request->dtype[0]];
}

// Lanes with sums of their own; those that share their factors are one matrix.
static int lanes_of(const sr_kernel_request *request) {
    return request->per_lane != 0 ? request->lanes : 1;
}

static int64_t rows_of(const sr_kernel_request *request) {
    return sr_cuda_params<sr_rows_params>(request)->rows / lanes_of(request);
}

// Threads across a slab, as a power of two. inputs: tensors that are read twice.
static int32_t wide_bits_of(const sr_kernel_request *request, int inputs) {
    return sr_slab_wide_bits(rows_of(request), sr_cuda_params<sr_rows_params>(request)->channels,
                             elements_of(request), (int64_t)sr_dtype_size(request->dtype[0]),
                             inputs);
}

static slab_cut cut_of(const sr_kernel_request *request, int inputs) {
    slab_cut s = {};
    s.rows = rows_of(request);
    s.channels = sr_cuda_params<sr_rows_params>(request)->channels;
    s.lanes = lanes_of(request);
    s.wide_bits = wide_bits_of(request, inputs);
    for (s.slab_bits = s.wide_bits; 1 << s.slab_bits < elements_of(request) << s.wide_bits;)
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
static sr_status prepare_sums(const sr_kernel_request *request, A a, int inputs, bool applies,
                              const tensor_functions &functions, const sr_cuda_kernel *clear,
                              sr_prepared *out) {
    slab_cut &s = a.cut;
    s = cut_of(request, inputs);
    const int64_t all = s.all_units;
    const int64_t items = applies ? 2 * all : all;
    const bool counts = s.units > UNITS_OF_A_BLOCK;
    const int64_t of_unit = (int64_t)THREADS * MOST_ROWS * elements_of(request) *
                            (int64_t)sr_dtype_size(request->dtype[0]) * inputs;
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
    making.add(function_of(request, functions), blocks, THREADS, sizeof(shared_sums));
    out->workspace =
        (size_t)s.counters * sizeof(uint32_t) +
        (size_t)(2 * s.lanes * ((int64_t)s.units + s.groups) * s.channels) * sizeof(float);
    return making.done();
}

// With eps; and, for gradients, with the number of rows.
template <class A> static A args_of(const sr_kernel_request *request) {
    A a = {};
    a.eps = (float)sr_cuda_params<sr_batchnorm_params>(request)->eps;
    return a;
}
template <class A> static A gradient_args_of(const sr_kernel_request *request) {
    A a = args_of<A>(request);
    a.count = rows_of(request);
    return a;
}

sr_status sr_tensor_prepare_batchnorm_train(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums(request, args_of<tensor_train_args>(request), 1, true,
                        FUNCTIONS(tensor_batchnorm_train), &tensor_batchnorm_train_clear_kernel,
                        out);
}

sr_status sr_tensor_prepare_batchnorm_train_relu(const sr_kernel_request *request,
                                                 sr_prepared *out) {
    return prepare_sums(request, args_of<tensor_train_relu_args>(request), 1, true,
                        FUNCTIONS(tensor_batchnorm_train_relu),
                        &tensor_batchnorm_train_relu_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_train_pair_relu(const sr_kernel_request *request,
                                                      sr_prepared *out) {
    return prepare_sums(request, args_of<tensor_train_pair_relu_args>(request), 1, true,
                        FUNCTIONS(tensor_batchnorm_train_pair_relu),
                        &tensor_batchnorm_train_pair_relu_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_moments(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums(request, tensor_moments_args{}, 1, false,
                        FUNCTIONS(tensor_batchnorm_moments), &tensor_batchnorm_moments_clear_kernel,
                        out);
}

sr_status sr_tensor_prepare_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums(request, gradient_args_of<tensor_grad_args>(request), 2, true,
                        FUNCTIONS(tensor_batchnorm_grad), &tensor_batchnorm_grad_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_relu_grad(const sr_kernel_request *request,
                                                sr_prepared *out) {
    return prepare_sums(request, gradient_args_of<tensor_relu_grad_args>(request), 2, true,
                        FUNCTIONS(tensor_batchnorm_relu_grad),
                        &tensor_batchnorm_relu_grad_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_add_relu_grad(const sr_kernel_request *request,
                                                    sr_prepared *out) {
    return prepare_sums(request, gradient_args_of<tensor_add_relu_grad_args>(request), 2, true,
                        {tensor_batchnorm_add_relu_grad_kernels, nullptr},
                        &tensor_batchnorm_add_relu_grad_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_sums(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums(request, args_of<tensor_sums_args>(request), 2, false,
                        FUNCTIONS(tensor_batchnorm_sums), &tensor_batchnorm_sums_clear_kernel, out);
}

// batchnorm_infer, _infer_relu, _dx: blocks have units of the same slab, so that factors are
// computed once.
template <class A>
static sr_status prepare_apply(const sr_kernel_request *request, A a,
                               const tensor_functions &functions, sr_prepared *out) {
    a.cut = cut_of(request, 0);
    const int64_t filling = sr_blocks_for(2 * FILLING_BLOCKS, a.cut.slabs);
    const int64_t rows = (int64_t)a.cut.units * a.cut.lanes; // of units
    sr_cuda_making making(request, a, out);
    making.add(function_of(request, functions), a.cut.slabs * (filling < rows ? filling : rows),
               THREADS, sizeof(shared_sums));
    return making.done();
}

sr_status sr_tensor_prepare_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_apply(request, args_of<tensor_infer_args>(request),
                         FUNCTIONS(tensor_batchnorm_infer), out);
}

sr_status sr_tensor_prepare_batchnorm_infer_relu(const sr_kernel_request *request,
                                                 sr_prepared *out) {
    return prepare_apply(request, args_of<tensor_infer_relu_args>(request),
                         FUNCTIONS(tensor_batchnorm_infer_relu), out);
}

sr_status sr_tensor_prepare_batchnorm_dx(const sr_kernel_request *request, sr_prepared *out) {
    tensor_dx_args a = args_of<tensor_dx_args>(request);
    a.count = sr_cuda_params<sr_batchnorm_dx_params>(request)->count;
    return prepare_apply(request, a, FUNCTIONS(tensor_batchnorm_dx), out);
}
