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

#include "kernels/cuda/tensor_batchnorm.h"

// The gradient of y: what the sums wrote (batchnorm_add_relu_grad).
struct written : given {
    enum { EARLY = false };
    template <class A> static __device__ const void *memory(const A &a) { return a.dz; }
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

    template <class T, int N> struct rows : loaded_ahead {
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
                second[i].load(a.b ? (const element *)a.b + at : nullptr, exist && a.b, true);
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
    template <class T, int N> struct rows : loaded_ahead {
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
    template <class T, int N> struct rows : loaded_ahead {
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
                z[i].load(a.z ? (const element *)a.z + at : nullptr, exist && a.z, true);
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
struct normalise_pair : each_row {
    template <class A>
    static __device__ void fill(const A &a, int64_t channel, int64_t statistic,
                                float (&f)[MOST_FACTORS]) {
        normalising::fill(a, channel, statistic, f);
        f[3] = a.z_mean[statistic];
        f[4] = factor_of(a.z_gamma, 1.0f / sqrtf(a.z_var[statistic] + a.eps), channel);
        f[5] = a.z_beta ? a.z_beta[channel] : 0.0f;
    }

    template <class T, int N> struct rows : loaded_ahead {
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

static norm_matrix matrix_of(const sr_kernel_request *request) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    return matrix_of(request, p->rows, p->channels, elements_of(request));
}

template <class A>
static sr_status prepare_sums(const sr_kernel_request *request, const A &a, int inputs,
                              bool applies, const tensor_functions &functions,
                              const sr_cuda_kernel *clear, sr_prepared *out) {
    return prepare_sums(request, matrix_of(request), a, inputs, applies,
                        function_of(request, functions), clear, out);
}

// With eps; and, for gradients, with the number of rows.
template <class A> static A args_of(const sr_kernel_request *request) {
    A a = {};
    a.eps = (float)sr_cuda_params<sr_batchnorm_params>(request)->eps;
    return a;
}
template <class A> static A gradient_args_of(const sr_kernel_request *request) {
    A a = args_of<A>(request);
    a.count = matrix_of(request).rows;
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

// batchnorm_infer, _infer_relu, _dx
template <class A>
static sr_status prepare_apply(const sr_kernel_request *request, const A &a,
                               const tensor_functions &functions, sr_prepared *out) {
    return prepare_apply(request, matrix_of(request), a, function_of(request, functions), out);
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
