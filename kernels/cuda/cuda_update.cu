// SPDX-License-Identifier: Apache-2.0
// Updates of parameters in place: kernels/cpu/reference/reference_update.c.
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"

struct sgd_args {
    float *p, *m;
    const float *g, *hyper;
    void *workspace;
    int64_t count;
};

// hyper: lr, momentum, weight_decay, nesterov, gradient scale, dampening, first step, 0
SR_CUDA_KERNEL(cuda_sgd, sgd_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    const float momentum = a.hyper[1], fresh = 1.0f - a.hyper[5], p = a.p[i];
    const float g = a.g[i] * a.hyper[4] + a.hyper[2] * p;
    float step = g;
    if (momentum != 0.0f) {
        const float m = a.hyper[6] != 0.0f ? g : momentum * a.m[i] + fresh * g;
        a.m[i] = m;
        step = a.hyper[3] != 0.0f ? g + momentum * m : m;
    }
    a.p[i] = p - a.hyper[0] * step;
}

struct ema_args {
    float *e;
    const float *p, *hyper;
    void *workspace;
    int64_t count;
};

// hyper: keep, take, scale
SR_CUDA_KERNEL(cuda_ema, ema_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i < a.count)
        a.e[i] = a.hyper[0] * a.e[i] + a.hyper[1] * (a.p[i] * a.hyper[2]);
}

struct limit_args {
    float *g;
    const float *hyper;
    void *workspace;
    int64_t count;
};

// hyper: limit
SR_CUDA_KERNEL(cuda_limit, limit_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    const float most = a.hyper[0], g = a.g[i];
    a.g[i] = g > most ? most : g < -most ? -most : g;
}

struct squares_args {
    const float *x;
    double *s, *sums; // sums: of blocks
    int64_t count, blocks;
};

// The square of an f32 is exact in f64.
SR_CUDA_KERNEL(cuda_add_squares, squares_args, 128, 1) {
    const float *x = a.x;
    sr_sum_block(a.count, a.sums, [=](int64_t i) { return (double)x[i] * (double)x[i]; });
}

SR_CUDA_KERNEL(cuda_add_squares_tree, squares_args, 512, 1) {
    const double sum = sr_sum_tree(a.sums, a.blocks);
    if (threadIdx.x == 0)
        a.s[0] += sum;
}

static int64_t count_of(const sr_kernel_request *request) {
    return sr_cuda_params<sr_count_params>(request)->count;
}

sr_status sr_cuda_prepare_sgd(const sr_kernel_request *request, sr_prepared *out) {
    const sgd_args a = {NULL, NULL, NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_sgd_kernel, a.count, out);
}

sr_status sr_cuda_prepare_ema(const sr_kernel_request *request, sr_prepared *out) {
    const ema_args a = {NULL, NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_ema_kernel, a.count, out);
}

sr_status sr_cuda_prepare_limit(const sr_kernel_request *request, sr_prepared *out) {
    const limit_args a = {NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_limit_kernel, a.count, out);
}

sr_status sr_cuda_prepare_add_squares(const sr_kernel_request *request, sr_prepared *out) {
    const int64_t count = count_of(request), blocks = sr_cuda_sum_blocks(count);
    const squares_args a = {NULL, NULL, NULL, count, blocks};
    sr_cuda_making making(request, a, out);
    making.add(&cuda_add_squares_kernel, blocks, SR_CUDA_SUM_THREADS,
               SR_CUDA_CHUNKS * sizeof(double));
    making.add(&cuda_add_squares_tree_kernel, 1, SR_CUDA_TREE_THREADS);
    out->workspace = (size_t)blocks * sizeof(double);
    return making.done();
}
