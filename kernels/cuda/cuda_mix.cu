// SPDX-License-Identifier: Apache-2.0
// mix_batch: kernels/cpu/reference/reference_mix.c. One thread draws the mix of the lane; a thread
// for each sample and for each element applies it.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/draws.h"

struct mix_args {
    const void *x;
    const int32_t *labels, *key;
    void *y;
    int32_t *partner_labels;
    float *weight;
    sr_mix_plan *plan; // then a permutation of the samples
    sr_mix_params p;
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

template <class T> static __device__ void cuda_mix_batch(const mix_args &a) {
    const int64_t i = sr_thread();
    if (i >= a.p.n * a.p.h * a.p.w * a.p.c)
        return;
    const sr_place at = sr_place_of(i, a.p.h, a.p.w, a.p.c);
    const sr_mix_plan *plan = a.plan;
    const int64_t other = i + ((int64_t)partners(a)[at.n] - at.n) * a.p.h * a.p.w * a.p.c;
    if (plan->blend) {
        const float mine = (float)plan->weight, theirs = 1.0f - mine;
        sr_store<T>(a.y, i, mine * sr_load<T>(a.x, i) + theirs * sr_load<T>(a.x, other));
        return;
    }
    const bool inside =
        at.h >= plan->top && at.h < plan->bottom && at.w >= plan->left && at.w < plan->right;
    ((typename T::type *)a.y)[i] = ((const typename T::type *)a.x)[inside ? other : i];
}
SR_CUDA_TYPED(cuda_mix_batch, mix_args, 256, 0)

sr_status sr_cuda_prepare_mix_batch(const sr_kernel_request *request, sr_prepared *out) {
    mix_args a = {};
    a.p = *sr_cuda_params<sr_mix_params>(request);
    sr_cuda_making making(request, a, out);
    making.add(&cuda_mix_draw_kernel, 1, 1);
    making.add_elements(&cuda_mix_labels_kernel, a.p.n);
    making.add_elements(cuda_mix_batch_kernels[request->dtype[0]], a.p.n * a.p.h * a.p.w * a.p.c);
    out->workspace = sizeof(sr_mix_plan) + (size_t)a.p.n * sizeof(uint32_t);
    return making.done();
}
