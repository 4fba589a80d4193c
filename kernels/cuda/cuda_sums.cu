// SPDX-License-Identifier: Apache-2.0
// Sums over rows of channels, and over all elements: kernels/cpu/reference/reference_rows.c. They
// are those of cuda_row_sums.h and cuda_sum.h: sums of leaves or blocks, in the workspace, then
// their tree.
#include "kernels/cuda/cuda_row_sums.h"

// ---- channel_sum: x, s ----

struct channel_sum_args {
    const void *x;
    float *s, *sums; // sums: [leaves][C]
    rows_shape shape;
};

// Stores the sum of a leaf.
template <class A> static __device__ void store_leaf(const A &a, const leaf_part &part, float sum) {
    sum = join_parts(sum);
    if (threadIdx.y == 0 && part.channel < a.shape.channels)
        a.sums[part.leaf * a.shape.channels + part.channel] = sum;
}

// Stores the sums of channels.
template <class A> static __device__ void store_channels(const A &a) {
    const int64_t channel = sr_thread();
    const int64_t channels = a.shape.channels;
    const float sum = sr_sum_column(channel < channels, a.shape.leaves, a.sums + channel, channels);
    if (threadIdx.y == 0 && channel < channels)
        a.s[channel] = sum;
}

template <class T> static __device__ void cuda_channel_sum(const channel_sum_args &a) {
    const leaf_part part = part_of(a.shape);
    float sum[1];
    sum_part(
        part, [&](int64_t i, float *terms) { terms[0] = sr_load<T>(a.x, i); }, sum);
    store_leaf(a, part, sum[0]);
}
SR_CUDA_TYPED(cuda_channel_sum, channel_sum_args, 512, 1)

SR_CUDA_KERNEL(cuda_channel_sum_tree, channel_sum_args, 512, 1) {
    store_channels(a);
}

// ---- channel_dot: a, b, shift, s ----

struct channel_dot_args {
    const void *a, *b;
    const float *shift;
    float *s, *sums; // sums: [leaves][C]
    rows_shape shape;
};

template <class T> static __device__ void cuda_channel_dot(const channel_dot_args &a) {
    const leaf_part part = part_of(a.shape);
    const float shift = a.shift && part.rows > 0 ? a.shift[part.channel] : 0.0f;
    float sum[1];
    sum_part(
        part,
        [&](int64_t i, float *terms) {
            terms[0] = sr_load<T>(a.a, i) * (sr_load<T>(a.b, i) - shift);
        },
        sum);
    store_leaf(a, part, sum[0]);
}
SR_CUDA_TYPED(cuda_channel_dot, channel_dot_args, 512, 1)

SR_CUDA_KERNEL(cuda_channel_dot_tree, channel_dot_args, 512, 1) {
    store_channels(a);
}

template <class A>
static sr_status prepare_sums(const sr_kernel_request *request, const sr_cuda_kernel *leaves,
                              const sr_cuda_kernel *tree, sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    A a = {};
    a.shape = shape_of(p->rows, p->channels);
    sr_cuda_making making(request, a, out);
    add_leaves(&making, leaves, a.shape);
    making.add_columns(tree, p->channels, a.shape.leaves);
    out->workspace = (size_t)(a.shape.leaves * p->channels) * sizeof(float);
    return making.done();
}

sr_status sr_cuda_prepare_channel_sum(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums<channel_sum_args>(request, cuda_channel_sum_kernels[request->dtype[0]],
                                          &cuda_channel_sum_tree_kernel, out);
}

sr_status sr_cuda_prepare_channel_dot(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums<channel_dot_args>(request, cuda_channel_dot_kernels[request->dtype[0]],
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
    const float sum = sr_sum_column(true, a.blocks, a.sums, 1);
    if (threadIdx.y == 0)
        a.s[0] = sum;
}

sr_status sr_cuda_prepare_reduce_sum(const sr_kernel_request *request, sr_prepared *out) {
    const int64_t count = sr_cuda_params<sr_count_params>(request)->count,
                  blocks = sr_cuda_sum_blocks(count);
    const reduce_args a = {NULL, NULL, NULL, count, blocks};
    sr_cuda_making making(request, a, out);
    making.add(cuda_reduce_sum_kernels[request->dtype[0]], blocks, SR_CUDA_SUM_THREADS,
               SR_CUDA_CHUNKS * sizeof(float));
    making.add_columns(&cuda_reduce_sum_tree_kernel, 1, blocks);
    out->workspace = (size_t)blocks * sizeof(float);
    return making.done();
}
