// SPDX-License-Identifier: Apache-2.0
// Rows of channels but for their sums (cuda_sums.cu): kernels/cpu/reference/reference_rows.c.
//
// Sums over rows are those of cuda_row_sums.h. Batch norm reads x twice: batchnorm_train for the
// statistics, which keep a leaf in registers, then to apply them; its gradient reads x and dy
// twice.
#include "kernels/cuda/cuda_row_sums.h"

// ---- bias_add: x, b, y ----

struct bias_args {
    const void *x;
    const float *b;
    void *y, *workspace;
    int64_t count, channels;
};

template <class T> static __device__ void cuda_bias_add(const bias_args &a) {
    constexpr int N = sr_lanes<T>;
    const int64_t i = sr_thread() * N;
    if (i >= a.count)
        return;
    float x[N], b[N];
    sr_load_vector<T>(a.x, i, a.count, x);
    load_channels(a.b, channel_of(i, a.channels), a.channels, b);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        x[k] = x[k] + b[k];
    sr_store_vector<T>(a.y, i, a.count, x);
}
SR_CUDA_TYPED(cuda_bias_add, bias_args, 256, 0)

sr_status sr_cuda_prepare_bias_add(const sr_kernel_request *request, sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const bias_args a = {NULL, NULL, NULL, NULL, p->rows * p->channels, p->channels};
    return sr_cuda_elementwise(request, a, cuda_bias_add_kernels[dtype],
                               sr_cuda_vectors(dtype, a.count), out);
}

// ---- batchnorm_train: x, gamma, beta, y, mean, var ----

struct batchnorm_train_args {
    const void *x;
    const float *gamma, *beta;
    void *y;
    float *mean, *var;
    float *leaf; // mean and centred squares [leaves][2][C], then gamma / sqrt(var + eps) [C]
    rows_shape shape;
    float eps;
};

// Mean and centred squares of a leaf.
template <class T, class A> static __device__ void moments_of_leaf(const A &a) {
    const leaf_part part = part_of(a.shape);
    const int64_t left = a.shape.rows - part.leaf * a.shape.leaf_rows;
    const float inverse = 1.0f / (float)(left < a.shape.leaf_rows ? left : a.shape.leaf_rows);
    float x[SR_REFERENCE_TERMS], sum = 0, squares = 0;
    SR_UNROLL
    for (int i = 0; i < SR_REFERENCE_TERMS; i++)
        x[i] = i < part.rows ? sr_load<T>(a.x, part.first + i * part.step) : 0.0f;
    SR_UNROLL
    for (int i = 0; i < SR_REFERENCE_TERMS; i++)
        sum += x[i]; // adding a zero changes no bit, as no sum is -0
    const float mean = join_parts(sum) * inverse;
    SR_UNROLL
    for (int i = 0; i < SR_REFERENCE_TERMS; i++) {
        const float d = x[i] - mean;
        squares += i < part.rows ? d * d : 0.0f;
    }
    store_pair(a.shape, a.leaf, part, mean, join_parts(squares));
}

template <class T> static __device__ void cuda_batchnorm_leaf(const batchnorm_train_args &a) {
    moments_of_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_batchnorm_leaf, batchnorm_train_args, 512, 1)

// Leaf 'right' and its neighbours, 'count' of them at most, join as many before them.
struct join_statistics {
    int64_t rows, leaf_rows;

    __device__ statistics operator()(const statistics &a, const statistics &b, int64_t right,
                                     int64_t count) const {
        const int64_t begin = right * leaf_rows, end = begin + count * leaf_rows;
        return merge_statistics(a, b, count * leaf_rows, (end < rows ? end : rows) - begin);
    }
};

// Mean and variance of a channel, of all rows; true for the thread that stores them.
template <class A> static __device__ bool join_moments(const A &a) {
    const int64_t channel = sr_thread(), channels = a.shape.channels, leaves = a.shape.leaves;
    float *leaf = a.leaf + channel;
    sr_merge_column<statistics>(
        channel < channels, leaves,
        [=](int64_t i) -> statistics {
            return {leaf[2 * i * channels], leaf[(2 * i + 1) * channels]};
        },
        [=](int64_t i, const statistics &sum) {
            leaf[2 * i * channels] = sum.mean;
            leaf[(2 * i + 1) * channels] = sum.squares;
        },
        join_statistics{a.shape.rows, a.shape.leaf_rows});
    if (threadIdx.y != 0 || channel >= channels)
        return false;
    a.mean[channel] = leaf[0];
    a.var[channel] = leaf[channels] / (float)a.shape.rows;
    return true;
}

// A number of each channel, behind those of the leaves.
static __device__ float *behind_leaves(float *leaf, const rows_shape &s) {
    return leaf + 2 * s.leaves * s.channels;
}

// gamma / sqrt(var + eps)
static __device__ float factor_of(const float *gamma, const float *var, float eps,
                                  int64_t channel) {
    return (gamma ? gamma[channel] : 1.0f) / sqrtf(var[channel] + eps);
}
template <class A> static __device__ float factor_of(const A &a, int64_t channel) {
    return factor_of(a.gamma, a.var, a.eps, channel);
}

// The statistics, and the factors of the channels.
template <class A> static __device__ void join_factors(const A &a) {
    if (join_moments(a))
        behind_leaves(a.leaf, a.shape)[sr_thread()] = factor_of(a, sr_thread());
}

SR_CUDA_KERNEL(cuda_batchnorm_tree, batchnorm_train_args, 512, 1) {
    join_factors(a);
}

// v = (x - mean) factor + beta of N elements, the first of which has channel c.
template <int N>
static __device__ void normalise(float (&v)[N], const float *mean, const float *factor,
                                 const float *beta, int64_t c, int64_t channels) {
    float p[N];
    load_channels(mean, c, channels, p);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = v[k] - p[k];
    load_channels(factor, c, channels, p);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = v[k] * p[k];
    if (beta) {
        load_channels(beta, c, channels, p);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            v[k] = v[k] + p[k];
    }
}

// y = (x - mean) factor + beta
template <class T>
static __device__ void apply(const void *x, void *y, const float *mean, const float *factor,
                             const float *beta, const rows_shape &s) {
    constexpr int N = sr_lanes<T>;
    const int64_t i = sr_thread() * N, count = s.rows * s.channels;
    if (i >= count)
        return;
    float v[N];
    sr_load_vector<T>(x, i, count, v);
    normalise(v, mean, factor, beta, channel_of(i, s.channels), s.channels);
    sr_store_vector<T>(y, i, count, v);
}

template <class T> static __device__ void cuda_batchnorm_train(const batchnorm_train_args &a) {
    apply<T>(a.x, a.y, a.mean, behind_leaves(a.leaf, a.shape), a.beta, a.shape);
}
SR_CUDA_TYPED(cuda_batchnorm_train, batchnorm_train_args, 256, 0)

// Two numbers of each leaf, their tree, then all rows (rows NULL: without that).
static void add_stages(sr_cuda_making *making, const rows_shape &s, sr_dtype dtype,
                       const sr_cuda_kernel *const *leaf, const sr_cuda_kernel *tree,
                       const sr_cuda_kernel *const *rows, sr_prepared *out) {
    add_leaves(making, leaf[dtype], s);
    making->add_columns(tree, s.channels, s.leaves);
    if (rows)
        making->add_elements(rows[dtype], sr_cuda_vectors(dtype, s.rows * s.channels));
    out->workspace = (size_t)((2 * s.leaves + 1) * s.channels) * sizeof(float);
}

template <class A>
static sr_status prepare_leaves(const sr_kernel_request *request, const A &a,
                                const sr_cuda_kernel *const *leaf, const sr_cuda_kernel *tree,
                                const sr_cuda_kernel *const *rows, sr_prepared *out) {
    sr_cuda_making making(request, a, out);
    add_stages(&making, a.shape, request->dtype[0], leaf, tree, rows, out);
    return making.done();
}

template <class A> static A batchnorm_args_of(const sr_kernel_request *request) {
    const sr_batchnorm_params *p = sr_cuda_params<sr_batchnorm_params>(request);
    A a = {};
    a.shape = shape_of(p->rows, p->channels);
    a.eps = (float)p->eps;
    return a;
}

sr_status sr_cuda_prepare_batchnorm_train(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_leaves(request, batchnorm_args_of<batchnorm_train_args>(request),
                          cuda_batchnorm_leaf_kernels, &cuda_batchnorm_tree_kernel,
                          cuda_batchnorm_train_kernels, out);
}

// ---- batchnorm_moments: x, mean, var ----

struct batchnorm_moments_args {
    const void *x;
    float *mean, *var;
    float *leaf; // mean and centred squares [leaves][2][C]
    rows_shape shape;
};

template <class T>
static __device__ void cuda_batchnorm_moments_leaf(const batchnorm_moments_args &a) {
    moments_of_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_batchnorm_moments_leaf, batchnorm_moments_args, 512, 1)

SR_CUDA_KERNEL(cuda_batchnorm_moments_tree, batchnorm_moments_args, 512, 1) {
    join_moments(a);
}

sr_status sr_cuda_prepare_batchnorm_moments(const sr_kernel_request *request, sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    batchnorm_moments_args a = {};
    a.shape = shape_of(p->rows, p->channels);
    return prepare_leaves(request, a, cuda_batchnorm_moments_leaf_kernels,
                          &cuda_batchnorm_moments_tree_kernel, NULL, out);
}

// ---- batchnorm_infer: x, gamma, beta, mean, var, y ----

struct batchnorm_infer_args {
    const void *x;
    const float *gamma, *beta, *mean, *var;
    void *y;
    float *factor;
    rows_shape shape;
    float eps;
};

SR_CUDA_KERNEL(cuda_batchnorm_factor, batchnorm_infer_args, 256, 0) {
    const int64_t c = sr_thread();
    if (c < a.shape.channels)
        a.factor[c] = factor_of(a, c);
}

template <class T> static __device__ void cuda_batchnorm_infer(const batchnorm_infer_args &a) {
    apply<T>(a.x, a.y, a.mean, a.factor, a.beta, a.shape);
}
SR_CUDA_TYPED(cuda_batchnorm_infer, batchnorm_infer_args, 256, 0)

// A factor of each channel, then all rows.
static void add_factors(sr_cuda_making *making, const rows_shape &s, sr_dtype dtype,
                        const sr_cuda_kernel *factors, const sr_cuda_kernel *const *rows,
                        sr_prepared *out) {
    making->add_elements(factors, s.channels);
    making->add_elements(rows[dtype], sr_cuda_vectors(dtype, s.rows * s.channels));
    out->workspace = (size_t)s.channels * sizeof(float);
}

template <class A>
static sr_status prepare_factors(const sr_kernel_request *request, const A &a,
                                 const sr_cuda_kernel *factors, const sr_cuda_kernel *const *rows,
                                 sr_prepared *out) {
    sr_cuda_making making(request, a, out);
    add_factors(&making, a.shape, request->dtype[0], factors, rows, out);
    return making.done();
}

sr_status sr_cuda_prepare_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_factors(request, batchnorm_args_of<batchnorm_infer_args>(request),
                           &cuda_batchnorm_factor_kernel, cuda_batchnorm_infer_kernels, out);
}

// ---- batchnorm_grad: x, dy, gamma, mean, var, dx, dgamma, dbeta ----

struct batchnorm_grad_args {
    const void *x, *dy;
    const float *gamma, *mean, *var;
    void *dx;
    float *dgamma, *dbeta;
    float *leaf; // sums of dy and of dy (x - mean) [leaves][2][C], then 1 / sqrt(var + eps) [C]
    rows_shape shape;
    float eps;
};

// Sums of dy and of dy (x - mean) of a leaf.
template <class T, class A> static __device__ void products_of_leaf(const A &a, const void *dy) {
    const leaf_part part = part_of(a.shape);
    const float mean = part.rows > 0 ? a.mean[part.channel] : 0.0f;
    float sum[2];
    sum_part(
        part,
        [&](int64_t i, float *terms) {
            terms[0] = sr_load<T>(dy, i);
            terms[1] = terms[0] * (sr_load<T>(a.x, i) - mean);
        },
        sum);
    const float plain = join_parts(sum[0]);
    store_pair(a.shape, a.leaf, part, plain, join_parts(sum[1]));
}

template <class T> static __device__ void cuda_batchnorm_grad_leaf(const batchnorm_grad_args &a) {
    products_of_leaf<T>(a, a.dy);
}
SR_CUDA_TYPED(cuda_batchnorm_grad_leaf, batchnorm_grad_args, 512, 1)

// dgamma and dbeta of a channel, and 1 / sqrt(var + eps).
template <class A> static __device__ void join_products(const A &a) {
    const int64_t channel = sr_thread(), channels = a.shape.channels;
    const bool exists = channel < channels;
    float *leaf = a.leaf + channel;
    const float plain = sr_sum_column(exists, a.shape.leaves, leaf, 2 * channels);
    const float product = sr_sum_column(exists, a.shape.leaves, leaf + channels, 2 * channels);
    if (threadIdx.y == 0 && channel < channels) {
        const float s = 1.0f / sqrtf(a.var[channel] + a.eps);
        behind_leaves(leaf, a.shape)[0] = s;
        a.dbeta[channel] = plain;
        a.dgamma[channel] = product * s;
    }
}

SR_CUDA_KERNEL(cuda_batchnorm_grad_tree, batchnorm_grad_args, 512, 1) {
    join_products(a);
}

// dx, from sums over 'rows' rows; s_of: 1 / sqrt(var + eps) [C].
template <class T, class A>
static __device__ void gradient_rows(const A &a, const void *dy, const float *s_of, int64_t rows) {
    constexpr int N = sr_lanes<T>;
    const int64_t channels = a.shape.channels, count = a.shape.rows * channels;
    const int64_t i = sr_thread() * N;
    if (i >= count)
        return;
    const int64_t c = channel_of(i, channels);
    const float inverse = 1.0f / (float)rows;
    float v[N], s[N], p[N], dx[N];
    sr_load_vector<T>(a.x, i, count, v);
    sr_load_vector<T>(dy, i, count, dx);
    load_channels(s_of, c, channels, s);
    load_channels(a.mean, c, channels, p);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = (v[k] - p[k]) * s[k]; // xhat
    load_channels(a.dbeta, c, channels, p);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        dx[k] = dx[k] - p[k] * inverse;
    load_channels(a.dgamma, c, channels, p);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        dx[k] = dx[k] - v[k] * (p[k] * inverse);
    if (a.gamma) {
        load_channels(a.gamma, c, channels, p);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            s[k] = p[k] * s[k];
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        dx[k] = s[k] * dx[k];
    sr_store_vector<T>(a.dx, i, count, dx);
}

template <class T> static __device__ void cuda_batchnorm_grad(const batchnorm_grad_args &a) {
    gradient_rows<T>(a, a.dy, behind_leaves(a.leaf, a.shape), a.shape.rows);
}
SR_CUDA_TYPED(cuda_batchnorm_grad, batchnorm_grad_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_leaves(request, batchnorm_args_of<batchnorm_grad_args>(request),
                          cuda_batchnorm_grad_leaf_kernels, &cuda_batchnorm_grad_tree_kernel,
                          cuda_batchnorm_grad_kernels, out);
}

// ---- batchnorm_sums: x, dy, mean, var, dgamma, dbeta ----

struct batchnorm_sums_args {
    const void *x, *dy;
    const float *mean, *var;
    float *dgamma, *dbeta;
    float *leaf; // as in batchnorm_grad
    rows_shape shape;
    float eps;
};

template <class T> static __device__ void cuda_batchnorm_sums_leaf(const batchnorm_sums_args &a) {
    products_of_leaf<T>(a, a.dy);
}
SR_CUDA_TYPED(cuda_batchnorm_sums_leaf, batchnorm_sums_args, 512, 1)

SR_CUDA_KERNEL(cuda_batchnorm_sums_tree, batchnorm_sums_args, 512, 1) {
    join_products(a);
}

sr_status sr_cuda_prepare_batchnorm_sums(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_leaves(request, batchnorm_args_of<batchnorm_sums_args>(request),
                          cuda_batchnorm_sums_leaf_kernels, &cuda_batchnorm_sums_tree_kernel, NULL,
                          out);
}

// ---- batchnorm_dx: x, dy, gamma, mean, var, dgamma, dbeta, dx ----

struct batchnorm_dx_args {
    const void *x, *dy;
    const float *gamma, *mean, *var, *dgamma, *dbeta;
    void *dx;
    float *factor; // 1 / sqrt(var + eps) [C]
    rows_shape shape;
    float eps;
    int64_t count;
};

SR_CUDA_KERNEL(cuda_batchnorm_dx_factor, batchnorm_dx_args, 256, 0) {
    const int64_t c = sr_thread();
    if (c < a.shape.channels)
        a.factor[c] = 1.0f / sqrtf(a.var[c] + a.eps);
}

template <class T> static __device__ void cuda_batchnorm_dx(const batchnorm_dx_args &a) {
    gradient_rows<T>(a, a.dy, a.factor, a.count);
}
SR_CUDA_TYPED(cuda_batchnorm_dx, batchnorm_dx_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_dx(const sr_kernel_request *request, sr_prepared *out) {
    batchnorm_dx_args a = batchnorm_args_of<batchnorm_dx_args>(request);
    a.count = sr_cuda_params<sr_batchnorm_dx_params>(request)->count;
    return prepare_factors(request, a, &cuda_batchnorm_dx_factor_kernel, cuda_batchnorm_dx_kernels,
                           out);
}

// ---- Signs of y, a bit for each channel ----

// A thread has a byte of a row.
template <class T, class A> static __device__ void store_signs(const A &a) {
    const int64_t i = sr_thread(), channels = a.shape.channels, bytes = SR_SIGN_BYTES(channels);
    if (i >= a.shape.rows * bytes)
        return;
    const int64_t row = sr_divide(i, bytes), first = (i - row * bytes) * 8;
    unsigned signs = 0;
    for (int64_t c = first; c < first + 8 && c < channels; c++)
        signs |= sr_load<T>(a.y, row * channels + c) > 0 ? 1u << (c - first) : 0;
    a.signs[i] = (uint8_t)signs;
}

// Of 'N' elements from i on: whether their bits are set.
template <int N>
static __device__ void load_signs(const uint8_t *signs, int64_t i, int64_t count, int64_t channels,
                                  bool (&above)[N]) {
    const int64_t bytes = SR_SIGN_BYTES(channels);
    int64_t row = sr_divide(i, channels), c = i - row * channels;
    SR_UNROLL
    for (int k = 0; k < N; k++) {
        above[k] = i + k < count && (signs[row * bytes + c / 8] >> c % 8 & 1) != 0;
        if (++c == channels) {
            c = 0;
            row++;
        }
    }
}

// ---- batchnorm_train_relu: x, z, gamma, beta, y, mean, var, signs ----

struct batchnorm_train_relu_args {
    const void *x, *z;
    const float *gamma, *beta;
    void *y;
    float *mean, *var;
    uint8_t *signs;
    float *leaf; // as in batchnorm_train
    rows_shape shape;
    float eps;
};

template <class T>
static __device__ void cuda_batchnorm_train_relu_leaf(const batchnorm_train_relu_args &a) {
    moments_of_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_batchnorm_train_relu_leaf, batchnorm_train_relu_args, 512, 1)

SR_CUDA_KERNEL(cuda_batchnorm_train_relu_tree, batchnorm_train_relu_args, 512, 1) {
    join_factors(a);
}

// y = max(T((x - mean) factor + beta) + second, 0)
template <class T, class A>
static __device__ void apply_with_relu(const A &a, const void *second, const float *factor) {
    constexpr int N = sr_lanes<T>;
    const int64_t i = sr_thread() * N, channels = a.shape.channels, count = a.shape.rows * channels;
    if (i >= count)
        return;
    float v[N], z[N];
    sr_load_vector<T>(a.x, i, count, v);
    normalise(v, a.mean, factor, a.beta, channel_of(i, channels), channels);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = T::rounded(v[k]);
    if (second) {
        sr_load_vector<T>(second, i, count, z);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            v[k] = v[k] + z[k];
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = v[k] < 0 ? 0.0f : v[k];
    sr_store_vector<T>(a.y, i, count, v);
}

template <class T>
static __device__ void cuda_batchnorm_train_relu(const batchnorm_train_relu_args &a) {
    apply_with_relu<T>(a, a.z, behind_leaves(a.leaf, a.shape));
}
SR_CUDA_TYPED(cuda_batchnorm_train_relu, batchnorm_train_relu_args, 256, 0)

template <class T>
static __device__ void cuda_batchnorm_train_signs(const batchnorm_train_relu_args &a) {
    store_signs<T>(a);
}
SR_CUDA_TYPED(cuda_batchnorm_train_signs, batchnorm_train_relu_args, 256, 0)

// The last argument is the signs.
static void add_signs(sr_cuda_making *making, const sr_kernel_request *request, const rows_shape &s,
                      const sr_cuda_kernel *const *signs) {
    if (request->dtype[request->args - 1] != SR_DTYPE_COUNT)
        making->add_elements(signs[request->dtype[0]], s.rows * SR_SIGN_BYTES(s.channels));
}

sr_status sr_cuda_prepare_batchnorm_train_relu(const sr_kernel_request *request, sr_prepared *out) {
    const batchnorm_train_relu_args a = batchnorm_args_of<batchnorm_train_relu_args>(request);
    sr_cuda_making making(request, a, out);
    add_stages(&making, a.shape, request->dtype[0], cuda_batchnorm_train_relu_leaf_kernels,
               &cuda_batchnorm_train_relu_tree_kernel, cuda_batchnorm_train_relu_kernels, out);
    add_signs(&making, request, a.shape, cuda_batchnorm_train_signs_kernels);
    return making.done();
}

// ---- batchnorm_train_pair_relu: x, z, gamma, beta, gamma, beta, mean, var of z, y, mean, var,
// signs ----

struct batchnorm_pair_args {
    const void *x, *z;
    const float *gamma, *beta, *z_gamma, *z_beta, *z_mean, *z_var;
    void *y;
    float *mean, *var;
    uint8_t *signs;
    float *leaf; // as in batchnorm_train, then the factors of z [C]
    rows_shape shape;
    float eps;
};

template <class T> static __device__ void cuda_batchnorm_pair_leaf(const batchnorm_pair_args &a) {
    moments_of_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_batchnorm_pair_leaf, batchnorm_pair_args, 512, 1)

static __device__ float *factors_of_second(const batchnorm_pair_args &a) {
    return behind_leaves(a.leaf, a.shape) + a.shape.channels;
}

// The statistics, and the factors of x and z.
SR_CUDA_KERNEL(cuda_batchnorm_pair_tree, batchnorm_pair_args, 512, 1) {
    const int64_t c = sr_thread();
    if (join_moments(a)) {
        behind_leaves(a.leaf, a.shape)[c] = factor_of(a, c);
        factors_of_second(a)[c] = factor_of(a.z_gamma, a.z_var, a.eps, c);
    }
}

// y has the batch norm of z before its sum with that of x.
template <class T> static __device__ void cuda_batchnorm_pair_second(const batchnorm_pair_args &a) {
    apply<T>(a.z, a.y, a.z_mean, factors_of_second(a), a.z_beta, a.shape);
}
SR_CUDA_TYPED(cuda_batchnorm_pair_second, batchnorm_pair_args, 256, 0)

template <class T> static __device__ void cuda_batchnorm_pair_relu(const batchnorm_pair_args &a) {
    apply_with_relu<T>(a, a.y, behind_leaves(a.leaf, a.shape));
}
SR_CUDA_TYPED(cuda_batchnorm_pair_relu, batchnorm_pair_args, 256, 0)

template <class T> static __device__ void cuda_batchnorm_pair_signs(const batchnorm_pair_args &a) {
    store_signs<T>(a);
}
SR_CUDA_TYPED(cuda_batchnorm_pair_signs, batchnorm_pair_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_train_pair_relu(const sr_kernel_request *request,
                                                    sr_prepared *out) {
    const batchnorm_pair_args a = batchnorm_args_of<batchnorm_pair_args>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t vectors = sr_cuda_vectors(dtype, a.shape.rows * a.shape.channels);
    sr_cuda_making making(request, a, out);
    add_stages(&making, a.shape, dtype, cuda_batchnorm_pair_leaf_kernels,
               &cuda_batchnorm_pair_tree_kernel, cuda_batchnorm_pair_second_kernels, out);
    making.add_elements(cuda_batchnorm_pair_relu_kernels[dtype], vectors);
    out->workspace += (size_t)a.shape.channels * sizeof(float);
    add_signs(&making, request, a.shape, cuda_batchnorm_pair_signs_kernels);
    return making.done();
}

// ---- batchnorm_infer_relu: x, z, gamma, beta, mean, var, y, signs ----

struct batchnorm_infer_relu_args {
    const void *x, *z;
    const float *gamma, *beta, *mean, *var;
    void *y;
    uint8_t *signs;
    float *factor;
    rows_shape shape;
    float eps;
};

SR_CUDA_KERNEL(cuda_batchnorm_relu_factor, batchnorm_infer_relu_args, 256, 0) {
    const int64_t c = sr_thread();
    if (c < a.shape.channels)
        a.factor[c] = factor_of(a, c);
}

template <class T>
static __device__ void cuda_batchnorm_infer_relu(const batchnorm_infer_relu_args &a) {
    apply_with_relu<T>(a, a.z, a.factor);
}
SR_CUDA_TYPED(cuda_batchnorm_infer_relu, batchnorm_infer_relu_args, 256, 0)

template <class T>
static __device__ void cuda_batchnorm_infer_signs(const batchnorm_infer_relu_args &a) {
    store_signs<T>(a);
}
SR_CUDA_TYPED(cuda_batchnorm_infer_signs, batchnorm_infer_relu_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_infer_relu(const sr_kernel_request *request, sr_prepared *out) {
    const batchnorm_infer_relu_args a = batchnorm_args_of<batchnorm_infer_relu_args>(request);
    sr_cuda_making making(request, a, out);
    add_factors(&making, a.shape, request->dtype[0], &cuda_batchnorm_relu_factor_kernel,
                cuda_batchnorm_infer_relu_kernels, out);
    add_signs(&making, request, a.shape, cuda_batchnorm_infer_signs_kernels);
    return making.done();
}

// ---- batchnorm_relu_grad: x, dy, gamma, beta, mean, var, dx, dgamma, dbeta ----

struct batchnorm_relu_grad_args {
    const void *x, *dy;
    const float *gamma, *beta, *mean, *var;
    void *dx; // first the gradient of the batch norm's result
    float *dgamma, *dbeta;
    float *leaf; // as in batchnorm_grad; before, gamma / sqrt(var + eps) is behind the leaves
    rows_shape shape;
    float eps;
};

SR_CUDA_KERNEL(cuda_batchnorm_relu_grad_factor, batchnorm_relu_grad_args, 256, 0) {
    const int64_t c = sr_thread();
    if (c < a.shape.channels)
        behind_leaves(a.leaf, a.shape)[c] = factor_of(a, c);
}

// dx = dy where the batch norm's result is above 0
template <class T>
static __device__ void cuda_batchnorm_relu_grad_clip(const batchnorm_relu_grad_args &a) {
    constexpr int N = sr_lanes<T>;
    const int64_t i = sr_thread() * N, channels = a.shape.channels, count = a.shape.rows * channels;
    if (i >= count)
        return;
    float y[N], dy[N];
    sr_load_vector<T>(a.x, i, count, y);
    sr_load_vector<T>(a.dy, i, count, dy);
    normalise(y, a.mean, behind_leaves(a.leaf, a.shape), a.beta, channel_of(i, channels), channels);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        dy[k] = T::rounded(y[k]) > 0 ? dy[k] : 0.0f;
    sr_store_vector<T>(a.dx, i, count, dy);
}
SR_CUDA_TYPED(cuda_batchnorm_relu_grad_clip, batchnorm_relu_grad_args, 256, 0)

template <class T>
static __device__ void cuda_batchnorm_relu_grad_leaf(const batchnorm_relu_grad_args &a) {
    products_of_leaf<T>(a, a.dx);
}
SR_CUDA_TYPED(cuda_batchnorm_relu_grad_leaf, batchnorm_relu_grad_args, 512, 1)

SR_CUDA_KERNEL(cuda_batchnorm_relu_grad_tree, batchnorm_relu_grad_args, 512, 1) {
    join_products(a);
}

template <class T>
static __device__ void cuda_batchnorm_relu_grad(const batchnorm_relu_grad_args &a) {
    gradient_rows<T>(a, a.dx, behind_leaves(a.leaf, a.shape), a.shape.rows);
}
SR_CUDA_TYPED(cuda_batchnorm_relu_grad, batchnorm_relu_grad_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_relu_grad(const sr_kernel_request *request, sr_prepared *out) {
    const batchnorm_relu_grad_args a = batchnorm_args_of<batchnorm_relu_grad_args>(request);
    const sr_dtype dtype = request->dtype[0];
    sr_cuda_making making(request, a, out);
    making.add_elements(&cuda_batchnorm_relu_grad_factor_kernel, a.shape.channels);
    making.add_elements(cuda_batchnorm_relu_grad_clip_kernels[dtype],
                        sr_cuda_vectors(dtype, a.shape.rows * a.shape.channels));
    add_stages(&making, a.shape, dtype, cuda_batchnorm_relu_grad_leaf_kernels,
               &cuda_batchnorm_relu_grad_tree_kernel, cuda_batchnorm_relu_grad_kernels, out);
    return making.done();
}

// ---- batchnorm_add_relu_grad: x, signs, a, b, gamma, mean, var, dz, dx, dgamma, dbeta ----

struct batchnorm_add_relu_grad_args {
    const void *x;
    const uint8_t *signs;
    const void *a, *b;
    const float *gamma, *mean, *var;
    void *dz, *dx;
    float *dgamma, *dbeta;
    float *leaf; // as in batchnorm_grad
    rows_shape shape;
    float eps;
};

// dz = a + b where y > 0
template <class T>
static __device__ void cuda_batchnorm_add_relu_grad_clip(const batchnorm_add_relu_grad_args &a) {
    constexpr int N = sr_lanes<T>;
    const int64_t i = sr_thread() * N, count = a.shape.rows * a.shape.channels;
    if (i >= count)
        return;
    bool above[N];
    float dz[N], b[N];
    load_signs(a.signs, i, count, a.shape.channels, above);
    sr_load_vector<T>(a.a, i, count, dz);
    if (a.b) {
        sr_load_vector<T>(a.b, i, count, b);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            dz[k] = dz[k] + b[k];
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        dz[k] = above[k] ? dz[k] : 0.0f;
    sr_store_vector<T>(a.dz, i, count, dz);
}
SR_CUDA_TYPED(cuda_batchnorm_add_relu_grad_clip, batchnorm_add_relu_grad_args, 256, 0)

template <class T>
static __device__ void cuda_batchnorm_add_relu_grad_leaf(const batchnorm_add_relu_grad_args &a) {
    products_of_leaf<T>(a, a.dz);
}
SR_CUDA_TYPED(cuda_batchnorm_add_relu_grad_leaf, batchnorm_add_relu_grad_args, 512, 1)

SR_CUDA_KERNEL(cuda_batchnorm_add_relu_grad_tree, batchnorm_add_relu_grad_args, 512, 1) {
    join_products(a);
}

template <class T>
static __device__ void cuda_batchnorm_add_relu_grad(const batchnorm_add_relu_grad_args &a) {
    gradient_rows<T>(a, a.dz, behind_leaves(a.leaf, a.shape), a.shape.rows);
}
SR_CUDA_TYPED(cuda_batchnorm_add_relu_grad, batchnorm_add_relu_grad_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_add_relu_grad(const sr_kernel_request *request,
                                                  sr_prepared *out) {
    const batchnorm_add_relu_grad_args a = batchnorm_args_of<batchnorm_add_relu_grad_args>(request);
    const sr_dtype dtype = request->dtype[0];
    sr_cuda_making making(request, a, out);
    making.add_elements(cuda_batchnorm_add_relu_grad_clip_kernels[dtype],
                        sr_cuda_vectors(dtype, a.shape.rows * a.shape.channels));
    add_stages(&making, a.shape, dtype, cuda_batchnorm_add_relu_grad_leaf_kernels,
               &cuda_batchnorm_add_relu_grad_tree_kernel, cuda_batchnorm_add_relu_grad_kernels,
               out);
    return making.done();
}
