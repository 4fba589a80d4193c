// SPDX-License-Identifier: Apache-2.0
// Updates of parameters in place: kernels/cpu/reference/reference_update.c.
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/cuda/cuda_vector.h"

enum { LANES = 4 }; // f32 of 16 bytes

struct sgd_args {
    float *p, *m;
    const float *g, *hyper;
    void *workspace;
    int64_t count;
};

// hyper: lr, momentum, weight_decay, nesterov, gradient scale, dampening, first step, 0
SR_CUDA_KERNEL(cuda_sgd, sgd_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    const float momentum = a.hyper[1], fresh = 1.0f - a.hyper[5];
    const bool moves = momentum != 0.0f, begins = a.hyper[6] != 0.0f, ahead = a.hyper[3] != 0.0f;
    float p[LANES], g[LANES], m[LANES] = {};
    sr_load_vector<sr_f32>(a.p, i, a.count, p);
    sr_load_vector<sr_f32>(a.g, i, a.count, g);
    if (moves && !begins)
        sr_load_vector<sr_f32>(a.m, i, a.count, m);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * a.hyper[4] + a.hyper[2] * p[k];
        m[k] = begins ? gradient : momentum * m[k] + fresh * gradient;
        const float step = !moves ? gradient : ahead ? gradient + momentum * m[k] : m[k];
        p[k] = p[k] - a.hyper[0] * step;
    }
    if (moves)
        sr_store_vector<sr_f32>(a.m, i, a.count, m);
    sr_store_vector<sr_f32>(a.p, i, a.count, p);
}

struct states_args {
    float *p, *first, *second, *third;
    const float *g, *hyper;
    void *workspace;
    int64_t count;
};

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, decay of the gradient, factor of p, step size,
// root of the bias correction, eps, greatest
SR_CUDA_KERNEL(cuda_adam, states_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    const float *h = a.hyper;
    const bool greatest = h[10] != 0.0f;
    float p[LANES], g[LANES], m[LANES], v[LANES], top[LANES] = {};
    sr_load_vector<sr_f32>(a.p, i, a.count, p);
    sr_load_vector<sr_f32>(a.g, i, a.count, g);
    sr_load_vector<sr_f32>(a.first, i, a.count, m);
    sr_load_vector<sr_f32>(a.second, i, a.count, v);
    if (greatest)
        sr_load_vector<sr_f32>(a.third, i, a.count, top);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4] + h[5] * p[k];
        m[k] = h[0] * m[k] + h[1] * gradient;
        v[k] = h[2] * v[k] + h[3] * (gradient * gradient);
        top[k] = greatest && top[k] > v[k] ? top[k] : v[k];
        p[k] = h[6] * p[k] - h[7] * (m[k] / (sqrtf(top[k]) / h[8] + h[9]));
    }
    sr_store_vector<sr_f32>(a.first, i, a.count, m);
    sr_store_vector<sr_f32>(a.second, i, a.count, v);
    if (greatest)
        sr_store_vector<sr_f32>(a.third, i, a.count, top);
    sr_store_vector<sr_f32>(a.p, i, a.count, p);
}

// hyper: alpha, 1 - alpha, momentum, factor into m, gradient scale, decay of the gradient, factor
// of the step, eps in the root, unused, eps, centred, square starts at 1
SR_CUDA_KERNEL(cuda_rmsprop, states_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    const float *h = a.hyper;
    const bool moves = h[2] != 0.0f, centred = h[10] != 0.0f, begins = h[11] != 0.0f;
    float p[LANES], g[LANES], square[LANES], mean[LANES] = {}, m[LANES] = {};
    sr_load_vector<sr_f32>(a.p, i, a.count, p);
    sr_load_vector<sr_f32>(a.g, i, a.count, g);
    sr_load_vector<sr_f32>(a.first, i, a.count, square);
    if (centred)
        sr_load_vector<sr_f32>(a.second, i, a.count, mean);
    if (moves)
        sr_load_vector<sr_f32>(a.third, i, a.count, m);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4] + h[5] * p[k];
        square[k] = h[0] * (begins ? 1.0f : square[k]) + h[1] * (gradient * gradient);
        float variance = square[k];
        if (centred) {
            mean[k] = h[0] * mean[k] + h[1] * gradient;
            variance = variance - mean[k] * mean[k];
            variance = variance < 0.0f ? 0.0f : variance;
        }
        float step = h[3] * (gradient / (sqrtf(variance + h[7]) + h[9]));
        if (moves)
            m[k] = step = h[2] * m[k] + step;
        p[k] = p[k] - h[6] * step;
    }
    sr_store_vector<sr_f32>(a.first, i, a.count, square);
    if (centred)
        sr_store_vector<sr_f32>(a.second, i, a.count, mean);
    if (moves)
        sr_store_vector<sr_f32>(a.third, i, a.count, m);
    sr_store_vector<sr_f32>(a.p, i, a.count, p);
}

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, unused, factor of p, lr
SR_CUDA_KERNEL(cuda_lion, sgd_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    const float *h = a.hyper;
    float p[LANES], g[LANES], m[LANES];
    sr_load_vector<sr_f32>(a.p, i, a.count, p);
    sr_load_vector<sr_f32>(a.g, i, a.count, g);
    sr_load_vector<sr_f32>(a.m, i, a.count, m);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4];
        const float c = h[0] * m[k] + h[1] * gradient;
        const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : c;
        p[k] = h[6] * p[k] - h[7] * sign;
        m[k] = h[2] * m[k] + h[3] * gradient;
    }
    sr_store_vector<sr_f32>(a.m, i, a.count, m);
    sr_store_vector<sr_f32>(a.p, i, a.count, p);
}

struct lamb_args {
    const float *p;
    float *m, *v, *g;
    const float *hyper;
    void *workspace;
    int64_t count;
};

// hyper: b1, factor of g in m, b2, 1 - b2, gradient scale, decay, 1 / bias correction, unused, root
// of the bias correction, eps
SR_CUDA_KERNEL(cuda_lamb, lamb_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    const float *h = a.hyper;
    float p[LANES], g[LANES], m[LANES], v[LANES];
    sr_load_vector<sr_f32>(a.p, i, a.count, p);
    sr_load_vector<sr_f32>(a.g, i, a.count, g);
    sr_load_vector<sr_f32>(a.m, i, a.count, m);
    sr_load_vector<sr_f32>(a.v, i, a.count, v);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4];
        m[k] = h[0] * m[k] + h[1] * gradient;
        v[k] = h[2] * v[k] + h[3] * (gradient * gradient);
        g[k] = h[6] * (m[k] / (sqrtf(v[k]) / h[8] + h[9])) + h[5] * p[k];
    }
    sr_store_vector<sr_f32>(a.m, i, a.count, m);
    sr_store_vector<sr_f32>(a.v, i, a.count, v);
    sr_store_vector<sr_f32>(a.g, i, a.count, g);
}

struct ema_args {
    float *e;
    const float *p, *hyper;
    void *workspace;
    int64_t count;
};

// hyper: keep, take, scale
SR_CUDA_KERNEL(cuda_ema, ema_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    float e[LANES], p[LANES];
    sr_load_vector<sr_f32>(a.e, i, a.count, e);
    sr_load_vector<sr_f32>(a.p, i, a.count, p);
    SR_UNROLL
    for (int k = 0; k < LANES; k++)
        e[k] = a.hyper[0] * e[k] + a.hyper[1] * (p[k] * a.hyper[2]);
    sr_store_vector<sr_f32>(a.e, i, a.count, e);
}

struct limit_args {
    float *g;
    const float *hyper;
    void *workspace;
    int64_t count;
};

// hyper: limit
SR_CUDA_KERNEL(cuda_limit, limit_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    const float most = a.hyper[0];
    float g[LANES];
    sr_load_vector<sr_f32>(a.g, i, a.count, g);
    SR_UNROLL
    for (int k = 0; k < LANES; k++)
        g[k] = g[k] > most ? most : g[k] < -most ? -most : g[k];
    sr_store_vector<sr_f32>(a.g, i, a.count, g);
}

static __device__ void copy_vector(const float (&from)[LANES], float (&to)[LANES]) {
    SR_UNROLL
    for (int e = 0; e < LANES; e++)
        to[e] = from[e];
}

static __device__ void add_vector(const float (&x)[LANES], float (&to)[LANES]) {
    SR_UNROLL
    for (int e = 0; e < LANES; e++)
        to[e] = x[e] + to[e];
}

struct fold_args {
    const float *x;
    float *y;
    void *workspace;
    int64_t count, stride;
    int32_t lanes, adds;
};

// level[k]: the sum of 2^k lanes, if bit k of the number of lanes so far is set.
SR_CUDA_KERNEL(cuda_fold_lanes, fold_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i >= a.count)
        return;
    float level[SR_FOLD_LEVELS][LANES] = {}, sum[LANES] = {}, y[LANES] = {};
    const float *x = a.x;
    for (int32_t lane = 0; lane < a.lanes; lane++, x += a.stride) {
        sr_load_vector<sr_f32>(x, i, a.count, sum);
        SR_UNROLL
        for (int k = 0; k < SR_FOLD_LEVELS; k++) {
            if (!(lane >> k & 1)) {
                copy_vector(sum, level[k]);
                break;
            }
            add_vector(level[k], sum);
        }
    }
    bool begun = false;
    SR_UNROLL
    for (int k = 0; k < SR_FOLD_LEVELS; k++) {
        if (!(a.lanes >> k & 1))
            continue;
        if (begun)
            add_vector(level[k], sum);
        else
            copy_vector(level[k], sum);
        begun = true;
    }
    if (a.adds) {
        sr_load_vector<sr_f32>(a.y, i, a.count, y);
        add_vector(y, sum);
    }
    sr_store_vector<sr_f32>(a.y, i, a.count, sum);
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
    const double sum = sr_sum_column(true, a.blocks, a.sums, 1);
    if (threadIdx.y == 0)
        a.s[0] += sum;
}

static int64_t count_of(const sr_kernel_request *request) {
    return sr_cuda_params<sr_count_params>(request)->count;
}

sr_status sr_cuda_prepare_sgd(const sr_kernel_request *request, sr_prepared *out) {
    const sgd_args a = {NULL, NULL, NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_sgd_kernel, sr_blocks_for(a.count, LANES), out);
}

// An update with three states.
static sr_status prepare_states(const sr_kernel_request *request, const sr_cuda_kernel *kernel,
                                sr_prepared *out) {
    const states_args a = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, kernel, sr_blocks_for(a.count, LANES), out);
}

sr_status sr_cuda_prepare_adam(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_states(request, &cuda_adam_kernel, out);
}

sr_status sr_cuda_prepare_rmsprop(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_states(request, &cuda_rmsprop_kernel, out);
}

sr_status sr_cuda_prepare_lion(const sr_kernel_request *request, sr_prepared *out) {
    const sgd_args a = {NULL, NULL, NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_lion_kernel, sr_blocks_for(a.count, LANES), out);
}

sr_status sr_cuda_prepare_lamb(const sr_kernel_request *request, sr_prepared *out) {
    const lamb_args a = {NULL, NULL, NULL, NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_lamb_kernel, sr_blocks_for(a.count, LANES), out);
}

sr_status sr_cuda_prepare_ema(const sr_kernel_request *request, sr_prepared *out) {
    const ema_args a = {NULL, NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_ema_kernel, sr_blocks_for(a.count, LANES), out);
}

sr_status sr_cuda_prepare_limit(const sr_kernel_request *request, sr_prepared *out) {
    const limit_args a = {NULL, NULL, NULL, count_of(request)};
    return sr_cuda_elementwise(request, a, &cuda_limit_kernel, sr_blocks_for(a.count, LANES), out);
}

sr_status sr_cuda_prepare_fold_lanes(const sr_kernel_request *request, sr_prepared *out) {
    const sr_fold_params *p = sr_cuda_params<sr_fold_params>(request);
    const fold_args a = {NULL, NULL, NULL, p->count, p->stride, (int32_t)p->lanes, p->adds};
    return sr_cuda_elementwise(request, a, &cuda_fold_lanes_kernel, sr_blocks_for(a.count, LANES),
                               out);
}

sr_status sr_cuda_prepare_add_squares(const sr_kernel_request *request, sr_prepared *out) {
    const int64_t count = count_of(request), blocks = sr_cuda_sum_blocks(count);
    const squares_args a = {NULL, NULL, NULL, count, blocks};
    sr_cuda_making making(request, a, out);
    making.add(&cuda_add_squares_kernel, blocks, SR_CUDA_SUM_THREADS,
               SR_CUDA_CHUNKS * sizeof(double));
    making.add_columns(&cuda_add_squares_tree_kernel, 1, blocks);
    out->workspace = (size_t)blocks * sizeof(double);
    return making.done();
}
