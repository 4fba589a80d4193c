// SPDX-License-Identifier: Apache-2.0
// mix_batch: kernels/cpu/reference/reference_mix.c. One thread draws the mix of the lane; a thread
// for each sample and for 16 bytes of it, or for each element where these do not fit, applies them.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/draws.h"

struct mix_args {
    const void *x;
    const int32_t *labels, *key;
    void *y;
    int32_t *partner_labels;
    float *weight;
    sr_mix_plan *plan; // then a permutation of the samples
    sr_mix_params p;
    int64_t lanes; // elements of a thread: sr_lanes or 1
};

static __device__ uint32_t *partners(const mix_args &a) {
    return (uint32_t *)(void *)(a.plan + 1);
}

SR_CUDA_KERNEL(cuda_mix_draw, mix_args, 1, 0) {
    sr_mix_draw(&a.p, a.key, a.plan, partners(a));
}

SR_CUDA_KERNEL(cuda_mix_labels, mix_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i >= a.p.n)
        return;
    a.partner_labels[i] = a.labels[partners(a)[i]];
    a.weight[i] = (float)a.plan->weight;
}

// Elements i .. i + N - 1 of y, all of one sample.
template <class T, int N> static __device__ void mix_vector(const mix_args &a, int64_t i) {
    typedef typename T::type element;
    const sr_mix_plan plan = *a.plan;
    const int64_t sample = a.p.h * a.p.w * a.p.c;
    if (i >= a.p.n * sample)
        return;
    sr_place at = sr_place_of(i, a.p.h, a.p.w, a.p.c);
    const int64_t other = i + ((int64_t)partners(a)[at.n] - at.n) * sample;
    if (plan.blend) {
        const float mine = (float)plan.weight, theirs = 1.0f - mine;
        float x[N], from[N];
        sr_load_vector<T>(a.x, i, x);
        sr_load_vector<T>(a.x, other, from);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            x[k] = mine * x[k] + theirs * from[k];
        sr_store_vector<T>(a.y, i, x);
        return;
    }
    uint32_t inside = 0; // bit k: element k is in the box
    SR_UNROLL
    for (int k = 0; k < N; k++) {
        const bool in =
            at.h >= plan.top && at.h < plan.bottom && at.w >= plan.left && at.w < plan.right;
        inside |= (uint32_t)in << k;
        if (++at.c == a.p.c) {
            at.c = 0;
            if (++at.w == a.p.w) {
                at.w = 0;
                at.h++;
            }
        }
    }
    element x[N], from[N];
    sr_get((const element *)a.x + (inside & 1 ? other : i), x);
    if (inside != 0 && inside != (1u << N) - 1) {
        sr_get((const element *)a.x + (inside & 1 ? i : other), from);
        SR_UNROLL
        for (int k = 1; k < N; k++)
            if ((inside >> k & 1) != (inside & 1))
                x[k] = from[k];
    }
    sr_put((element *)a.y + i, x);
}

template <class T> static __device__ void cuda_mix_batch(const mix_args &a) {
    if (a.lanes == 1)
        mix_vector<T, 1>(a, sr_thread());
    else
        mix_vector<T, sr_lanes<T>>(a, sr_thread() * sr_lanes<T>);
}
SR_CUDA_TYPED(cuda_mix_batch, mix_args, 256, 0)

sr_status sr_cuda_prepare_mix_batch(const sr_kernel_request *request, sr_prepared *out) {
    mix_args a = {};
    a.p = *sr_cuda_params<sr_mix_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t sample = a.p.h * a.p.w * a.p.c, lanes = sr_cuda_lanes(dtype);
    a.lanes = sample % lanes == 0 ? lanes : 1;
    sr_cuda_making making(request, a, out);
    making.add(&cuda_mix_draw_kernel, 1, 1);
    making.add_elements(&cuda_mix_labels_kernel, a.p.n);
    making.add_elements(cuda_mix_batch_kernels[dtype], a.p.n * sample / a.lanes);
    out->workspace = sizeof(sr_mix_plan) + (size_t)a.p.n * sizeof(uint32_t);
    return making.done();
}
