// SPDX-License-Identifier: Apache-2.0
// dropout, drop_path and random_normal: kernels/cpu/reference/reference_elementwise.c,
// reference_random.c.
#include "kernels/cuda/cuda_drop.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/draws.h"

// ---- dropout: x, key, y. One thread has the four elements of a draw ----

struct dropout_args {
    const void *x;
    const int32_t *key;
    void *y, *workspace;
    int64_t count;
    double probability;
    float keep_scale;
    uint32_t scope;
};

template <class T> static __device__ void cuda_dropout(const dropout_args &a) {
    const int64_t first = sr_thread() * 4;
    if (first >= a.count)
        return;
    const sr_rng4 draw = sr_draw_words(a.key, a.scope, first / 4);
    float x[4];
    sr_load_vector<T>(a.x, first, a.count, x);
    SR_UNROLL
    for (int k = 0; k < 4; k++) {
        const bool keep = (double)sr_rng_unit(draw.v[k]) >= a.probability;
        x[k] = keep ? x[k] * a.keep_scale : 0.0f;
    }
    sr_store_vector<T>(a.y, first, a.count, x);
}
SR_CUDA_TYPED(cuda_dropout, dropout_args, 256, 0)

sr_status sr_cuda_prepare_dropout(const sr_kernel_request *request, sr_prepared *out) {
    const sr_dropout_params *p = sr_cuda_params<sr_dropout_params>(request);
    const dropout_args a = {
        NULL,    NULL, NULL, NULL, p->count, p->probability, (float)(1.0 / (1.0 - p->probability)),
        p->scope};
    return sr_cuda_elementwise(request, a, cuda_dropout_kernels[request->dtype[0]],
                               sr_blocks_of(p->count, 4), out);
}

// ---- drop_path: x, key, y. One thread has 16 bytes of a sample, or one element ----

struct drop_path_args {
    const void *x;
    const int32_t *key;
    void *y, *workspace;
    int64_t samples, size;
    sr_drop drop;
    int32_t elements; // of a thread: sr_lanes or 1
};

template <class T, int N>
static __device__ void drop_elements(const drop_path_args &a, int64_t first) {
    if (first >= a.samples * a.size)
        return;
    const bool keep = a.drop.keeps(a.key, sr_divide(first, a.size));
    float x[N];
    sr_load_vector<T>(a.x, first, x);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        x[k] = keep ? x[k] * a.drop.scale : 0.0f;
    sr_store_vector<T>(a.y, first, x);
}

template <class T> static __device__ void cuda_drop_path(const drop_path_args &a) {
    if (a.elements == 1)
        drop_elements<T, 1>(a, sr_thread());
    else
        drop_elements<T, sr_lanes<T>>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_drop_path, drop_path_args, 256, 0)

sr_status sr_cuda_prepare_drop_path(const sr_kernel_request *request, sr_prepared *out) {
    const sr_drop_path_params *p = sr_cuda_params<sr_drop_path_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t elements = sr_cuda_lanes(dtype);
    drop_path_args a = {};
    a.samples = p->samples;
    a.size = p->size;
    a.drop = sr_drop_of(request, 1, p->samples, p->probability, p->scope);
    a.elements = p->size % elements == 0 ? (int32_t)elements : 1;
    return sr_cuda_elementwise(request, a, cuda_drop_path_kernels[dtype],
                               p->samples * p->size / a.elements, out);
}

// ---- random_normal: key, y. One thread has a pair of elements ----

struct normal_args {
    const int32_t *key;
    void *y, *workspace;
    int64_t count;
    uint32_t scope;
};

template <class T> static __device__ void cuda_random_normal(const normal_args &a) {
    const int64_t first = sr_thread() * 2;
    if (first >= a.count)
        return;
    double pair[2];
    sr_draw_normals(a.key, a.scope, first / 2, pair);
    const float y[2] = {(float)pair[0], (float)pair[1]};
    sr_store_vector<T>(a.y, first, a.count, y);
}
SR_CUDA_TYPED(cuda_random_normal, normal_args, 256, 0)

sr_status sr_cuda_prepare_random_normal(const sr_kernel_request *request, sr_prepared *out) {
    const sr_dropout_params *p = sr_cuda_params<sr_dropout_params>(request);
    const normal_args a = {NULL, NULL, NULL, p->count, p->scope};
    return sr_cuda_elementwise(request, a, cuda_random_normal_kernels[request->dtype[1]],
                               sr_blocks_of(p->count, 2), out);
}
