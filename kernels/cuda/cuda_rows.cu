// SPDX-License-Identifier: Apache-2.0
// Rows of channels: kernels/cpu/reference/reference_rows.c.
//
// Of sums over rows, a block has the rows of one leaf in up to 32 channels: a column of threads for
// each channel, a thread for each 32 rows. The leaves' sums are in the workspace.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"

// ---- bias_add: x, b, y ----

struct bias_args {
    const void *x;
    const float *b;
    void *y, *workspace;
    int64_t count, channels;
};

template <class T> static __device__ void cuda_bias_add(const bias_args &a) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    const int64_t c = i - sr_divide(i, a.channels) * a.channels;
    sr_store<T>(a.y, i, sr_load<T>(a.x, i) + a.b[c]);
}
SR_CUDA_TYPED(cuda_bias_add, bias_args, 256, 0)

sr_status sr_cuda_prepare_bias_add(const sr_kernel_request *request, sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    const bias_args a = {NULL, NULL, NULL, NULL, p->rows * p->channels, p->channels};
    return sr_cuda_elementwise(request, a, cuda_bias_add_kernels[request->dtype[0]], a.count, out);
}

// ---- Sums over the rows of leaves ----

// The leaf and the channel of a thread.
struct rows_shape {
    int64_t rows, channels, leaf_rows, leaves;
};

static rows_shape shape_of(int64_t rows, int64_t channels) {
    const int64_t leaf_rows = sr_rows_per_block(channels);
    const rows_shape shape = {rows, channels, leaf_rows, sr_blocks_of(rows, leaf_rows)};
    return shape;
}

// The sum of term(element) over this thread's channel of the block's leaf; every thread of the
// column gets it. All threads of the block take part. Shared: a float for each.
template <class Term> static __device__ float sum_leaf(const rows_shape &s, const Term &term) {
    float *sums = (float *)(void *)sr_cuda_shared + threadIdx.x; // of this channel
    const int64_t channel = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    const int64_t leaf = (int64_t)blockIdx.x * s.leaf_rows, leaf_end = leaf + s.leaf_rows;
    const int64_t last = leaf_end < s.rows ? leaf_end : s.rows;
    const int64_t first = leaf + (int64_t)threadIdx.y * SR_REFERENCE_TERMS;
    const int64_t end = first + SR_REFERENCE_TERMS < last ? first + SR_REFERENCE_TERMS : last;
    const unsigned wide = blockDim.x, own = threadIdx.y;
    float sum = 0;
    if (channel < s.channels)
        for (int64_t m = first; m < end; m++)
            sum += term(m * s.channels + channel);
    sums[own * wide] = sum;
    __syncthreads();
    // Past the end of a leaf there are zeros.
    for (unsigned step = 1; step < blockDim.y; step *= 2) {
        if (own % (2 * step) == 0 && own + step < blockDim.y)
            sums[own * wide] += sums[(own + step) * wide];
        __syncthreads();
    }
    sum = sums[0];
    __syncthreads();
    return sum;
}

static __device__ bool is_first_of_column(const rows_shape &s, int64_t *channel) {
    *channel = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    return threadIdx.y == 0 && *channel < s.channels;
}

static void add_leaves(sr_cuda_making *making, const sr_cuda_kernel *kernel, const rows_shape &s) {
    const int wide = s.channels < 32 ? (int)s.channels : 32;
    const int64_t rows = s.rows < s.leaf_rows ? s.rows : s.leaf_rows;
    const int64_t high = sr_blocks_of(rows, SR_REFERENCE_TERMS);
    if (s.rows > 0 && wide > 0)
        making->add_grid(kernel, s.leaves, sr_blocks_of(s.channels, wide), 1, wide, (int)high,
                         (size_t)(wide * high) * sizeof(float));
}

// s[channel] = the tree of leaves; sums of a channel are 'stride' apart. All threads take part.
static __device__ void merge_leaves(const rows_shape &s, float *sums, int64_t stride,
                                    int64_t channel) {
    const int64_t channels = s.channels;
    sr_merge_columns(s.leaves, [=](int64_t left, int64_t right, int64_t) {
        if (channel < channels)
            sums[left * stride + channel] += sums[right * stride + channel];
    });
}

// ---- channel_sum: x, s ----

struct channel_sum_args {
    const void *x;
    float *s, *sums; // sums: [leaves][C]
    rows_shape shape;
};

template <class T> static __device__ void cuda_channel_sum(const channel_sum_args &a) {
    const float sum = sum_leaf(a.shape, [&](int64_t i) { return sr_load<T>(a.x, i); });
    int64_t channel;
    if (is_first_of_column(a.shape, &channel))
        a.sums[(int64_t)blockIdx.x * a.shape.channels + channel] = sum;
}
SR_CUDA_TYPED(cuda_channel_sum, channel_sum_args, 1024, 1)

SR_CUDA_KERNEL(cuda_channel_sum_tree, channel_sum_args, 512, 1) {
    const int64_t channel = sr_thread();
    merge_leaves(a.shape, a.sums, a.shape.channels, channel);
    if (threadIdx.y == 0 && channel < a.shape.channels)
        a.s[channel] = a.shape.leaves > 0 ? a.sums[channel] : 0.0f;
}

// ---- channel_dot: a, b, shift, s ----

struct channel_dot_args {
    const void *a, *b;
    const float *shift;
    float *s, *sums; // sums: [leaves][C]
    rows_shape shape;
};

template <class T> static __device__ void cuda_channel_dot(const channel_dot_args &a) {
    int64_t channel = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    const float shift = a.shift && channel < a.shape.channels ? a.shift[channel] : 0.0f;
    const float sum = sum_leaf(
        a.shape, [&](int64_t i) { return sr_load<T>(a.a, i) * (sr_load<T>(a.b, i) - shift); });
    if (is_first_of_column(a.shape, &channel))
        a.sums[(int64_t)blockIdx.x * a.shape.channels + channel] = sum;
}
SR_CUDA_TYPED(cuda_channel_dot, channel_dot_args, 1024, 1)

SR_CUDA_KERNEL(cuda_channel_dot_tree, channel_dot_args, 512, 1) {
    const int64_t channel = sr_thread();
    merge_leaves(a.shape, a.sums, a.shape.channels, channel);
    if (threadIdx.y == 0 && channel < a.shape.channels)
        a.s[channel] = a.shape.leaves > 0 ? a.sums[channel] : 0.0f;
}

template <class A>
static sr_status prepare_sums(const sr_kernel_request *request, A a, const sr_cuda_kernel *leaves,
                              const sr_cuda_kernel *tree, sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    a.shape = shape_of(p->rows, p->channels);
    sr_cuda_making making(request, a, out);
    add_leaves(&making, leaves, a.shape);
    making.add_columns(tree, p->channels);
    out->workspace = (size_t)(a.shape.leaves * p->channels) * sizeof(float);
    return making.done();
}

sr_status sr_cuda_prepare_channel_sum(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums(request, channel_sum_args(), cuda_channel_sum_kernels[request->dtype[0]],
                        &cuda_channel_sum_tree_kernel, out);
}

sr_status sr_cuda_prepare_channel_dot(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums(request, channel_dot_args(), cuda_channel_dot_kernels[request->dtype[0]],
                        &cuda_channel_dot_tree_kernel, out);
}

// ---- reduce_sum: x, s ----

struct reduce_args {
    const void *x;
    float *s, *sums; // sums: of blocks
    int64_t count, blocks;
};

template <class T> static __device__ void cuda_reduce_sum(const reduce_args &a) {
    sr_sum_block(a.count, a.sums, [&](int64_t i) { return sr_load<T>(a.x, i); });
}
SR_CUDA_TYPED(cuda_reduce_sum, reduce_args, 128, 1)

SR_CUDA_KERNEL(cuda_reduce_sum_tree, reduce_args, 512, 1) {
    const float sum = sr_sum_tree(a.sums, a.blocks);
    if (threadIdx.x == 0)
        a.s[0] = sum;
}

sr_status sr_cuda_prepare_reduce_sum(const sr_kernel_request *request, sr_prepared *out) {
    const int64_t count = sr_cuda_params<sr_count_params>(request)->count,
                  blocks = sr_cuda_sum_blocks(count);
    const reduce_args a = {NULL, NULL, NULL, count, blocks};
    sr_cuda_making making(request, a, out);
    making.add(cuda_reduce_sum_kernels[request->dtype[0]], blocks, SR_CUDA_SUM_THREADS,
               SR_CUDA_CHUNKS * sizeof(float));
    making.add(&cuda_reduce_sum_tree_kernel, 1, SR_CUDA_TREE_THREADS);
    out->workspace = (size_t)blocks * sizeof(float);
    return making.done();
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

template <class T> static __device__ void cuda_batchnorm_leaf(const batchnorm_train_args &a) {
    const int64_t first = (int64_t)blockIdx.x * a.shape.leaf_rows, left = a.shape.rows - first;
    const float inverse = 1.0f / (float)(left < a.shape.leaf_rows ? left : a.shape.leaf_rows);
    const float mean = sum_leaf(a.shape, [&](int64_t i) { return sr_load<T>(a.x, i); }) * inverse;
    const float squares = sum_leaf(a.shape, [&](int64_t i) {
        const float d = sr_load<T>(a.x, i) - mean;
        return d * d;
    });
    int64_t channel;
    if (is_first_of_column(a.shape, &channel)) {
        float *leaf = a.leaf + 2 * (int64_t)blockIdx.x * a.shape.channels + channel;
        leaf[0] = mean;
        leaf[a.shape.channels] = squares;
    }
}
SR_CUDA_TYPED(cuda_batchnorm_leaf, batchnorm_train_args, 1024, 1)

// Leaf 'into' takes in leaf 'from': counts ni and nf.
static __device__ void merge_statistics(float *into, const float *from, int64_t ni, int64_t nf,
                                        int64_t channels) {
    const float share = (float)nf / (float)(ni + nf), weight = (float)ni * share;
    const float delta = from[0] - into[0];
    into[0] += delta * share;
    into[channels] += from[channels] + delta * delta * weight;
}

SR_CUDA_KERNEL(cuda_batchnorm_tree, batchnorm_train_args, 512, 1) {
    const int64_t channel = sr_thread(), channels = a.shape.channels, rows = a.shape.rows;
    const int64_t per_leaf = a.shape.leaf_rows;
    float *leaf = a.leaf + channel;
    sr_merge_columns(a.shape.leaves, [=](int64_t left, int64_t right, int64_t step) {
        const int64_t last = (right + step) * per_leaf;
        if (channel < channels)
            merge_statistics(leaf + 2 * left * channels, leaf + 2 * right * channels,
                             step * per_leaf, (last < rows ? last : rows) - right * per_leaf,
                             channels);
    });
    if (threadIdx.y == 0 && channel < channels) {
        const float var = leaf[channels] / (float)rows;
        a.mean[channel] = leaf[0];
        a.var[channel] = var;
        leaf[2 * a.shape.leaves * channels] =
            (a.gamma ? a.gamma[channel] : 1.0f) / sqrtf(var + a.eps);
    }
}

// y = (x - mean) factor + beta
template <class T>
static __device__ void apply(const void *x, void *y, const float *mean, const float *factor,
                             const float *beta, const rows_shape &s) {
    const int64_t i = sr_thread();
    if (i >= s.rows * s.channels)
        return;
    const int64_t c = i - sr_divide(i, s.channels) * s.channels;
    const float v = (sr_load<T>(x, i) - mean[c]) * factor[c];
    sr_store<T>(y, i, beta ? v + beta[c] : v);
}

template <class T> static __device__ void cuda_batchnorm_train(const batchnorm_train_args &a) {
    apply<T>(a.x, a.y, a.mean, a.leaf + 2 * a.shape.leaves * a.shape.channels, a.beta, a.shape);
}
SR_CUDA_TYPED(cuda_batchnorm_train, batchnorm_train_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_train(const sr_kernel_request *request, sr_prepared *out) {
    const sr_batchnorm_params *p = sr_cuda_params<sr_batchnorm_params>(request);
    const sr_dtype dtype = request->dtype[0];
    batchnorm_train_args a = {};
    a.shape = shape_of(p->rows, p->channels);
    a.eps = (float)p->eps;
    sr_cuda_making making(request, a, out);
    add_leaves(&making, cuda_batchnorm_leaf_kernels[dtype], a.shape);
    making.add_columns(&cuda_batchnorm_tree_kernel, p->channels);
    making.add_elements(cuda_batchnorm_train_kernels[dtype], p->rows * p->channels);
    out->workspace = (size_t)((2 * a.shape.leaves + 1) * p->channels) * sizeof(float);
    return making.done();
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
        a.factor[c] = (a.gamma ? a.gamma[c] : 1.0f) / sqrtf(a.var[c] + a.eps);
}

template <class T> static __device__ void cuda_batchnorm_infer(const batchnorm_infer_args &a) {
    apply<T>(a.x, a.y, a.mean, a.factor, a.beta, a.shape);
}
SR_CUDA_TYPED(cuda_batchnorm_infer, batchnorm_infer_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    const sr_batchnorm_params *p = sr_cuda_params<sr_batchnorm_params>(request);
    batchnorm_infer_args a = {};
    a.shape = shape_of(p->rows, p->channels);
    a.eps = (float)p->eps;
    sr_cuda_making making(request, a, out);
    making.add_elements(&cuda_batchnorm_factor_kernel, p->channels);
    making.add_elements(cuda_batchnorm_infer_kernels[request->dtype[0]], p->rows * p->channels);
    out->workspace = (size_t)p->channels * sizeof(float);
    return making.done();
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

template <class T> static __device__ void cuda_batchnorm_grad_leaf(const batchnorm_grad_args &a) {
    int64_t channel = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    const float mean = channel < a.shape.channels ? a.mean[channel] : 0.0f;
    const float plain = sum_leaf(a.shape, [&](int64_t i) { return sr_load<T>(a.dy, i); });
    const float product = sum_leaf(
        a.shape, [&](int64_t i) { return sr_load<T>(a.dy, i) * (sr_load<T>(a.x, i) - mean); });
    if (is_first_of_column(a.shape, &channel)) {
        float *leaf = a.leaf + 2 * (int64_t)blockIdx.x * a.shape.channels + channel;
        leaf[0] = plain;
        leaf[a.shape.channels] = product;
    }
}
SR_CUDA_TYPED(cuda_batchnorm_grad_leaf, batchnorm_grad_args, 1024, 1)

SR_CUDA_KERNEL(cuda_batchnorm_grad_tree, batchnorm_grad_args, 512, 1) {
    const int64_t channel = sr_thread(), channels = a.shape.channels, leaves = a.shape.leaves;
    merge_leaves(a.shape, a.leaf, 2 * channels, channel);
    merge_leaves(a.shape, a.leaf + channels, 2 * channels, channel);
    if (threadIdx.y == 0 && channel < channels) {
        const float s = 1.0f / sqrtf(a.var[channel] + a.eps);
        a.leaf[2 * leaves * channels + channel] = s;
        a.dbeta[channel] = leaves > 0 ? a.leaf[channel] : 0.0f;
        a.dgamma[channel] = leaves > 0 ? a.leaf[channels + channel] * s : 0.0f;
    }
}

template <class T> static __device__ void cuda_batchnorm_grad(const batchnorm_grad_args &a) {
    const int64_t i = sr_thread(), channels = a.shape.channels;
    if (i >= a.shape.rows * channels)
        return;
    const int64_t c = i - sr_divide(i, channels) * channels;
    const float s = a.leaf[2 * a.shape.leaves * channels + c], inverse = 1.0f / (float)a.shape.rows;
    const float xhat = (sr_load<T>(a.x, i) - a.mean[c]) * s;
    const float centred =
        sr_load<T>(a.dy, i) - a.dbeta[c] * inverse - xhat * (a.dgamma[c] * inverse);
    sr_store<T>(a.dx, i, (a.gamma ? a.gamma[c] : 1.0f) * s * centred);
}
SR_CUDA_TYPED(cuda_batchnorm_grad, batchnorm_grad_args, 256, 0)

sr_status sr_cuda_prepare_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    const sr_batchnorm_params *p = sr_cuda_params<sr_batchnorm_params>(request);
    const sr_dtype dtype = request->dtype[0];
    batchnorm_grad_args a = {};
    a.shape = shape_of(p->rows, p->channels);
    a.eps = (float)p->eps;
    sr_cuda_making making(request, a, out);
    add_leaves(&making, cuda_batchnorm_grad_leaf_kernels[dtype], a.shape);
    making.add_columns(&cuda_batchnorm_grad_tree_kernel, p->channels);
    making.add_elements(cuda_batchnorm_grad_kernels[dtype], p->rows * p->channels);
    out->workspace = (size_t)((2 * a.shape.leaves + 1) * p->channels) * sizeof(float);
    return making.done();
}
